/* Reading ranges: both tiers, through the page cache and past it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/vfs.h>

#include "io/range.h"
#include "io_file.h"

enum { FILE_SIZE = (5 << 20) + 777 };

static char path[128];

static void make_file(void) {
    if (!path[0])
        io_make(test_path(path, sizeof path, "ranges.bin"), FILE_SIZE);
}

static void check_random(const char *name, uint64_t size) {
    aether_error err;
    FOR_EACH_MODE(mode) {
        for (uint32_t depth = 0; depth <= (TEST_ONLY_RACES ? 16 : 256); depth = depth ? depth * 16 : 1) {
            aether_io_options o = *mode;
            aether_io *io;
            o.depth = depth;
            REQUIRE_OK(aether_io_open(name, &o, &io, &err), err);
            for (uint64_t round = TEST_ONLY_RACES ? 2 : 0; round < 4; round++) {
                io_ranges r = io_random(size, 700, round == 3 ? 300000 : 9000, round + depth);
                CHECK_OK(aether_io_read(io, r.requests, round == 3 ? r.n = 20 : r.n, NULL, &err), err);
                r.size = round == 3 ? 0 : r.size;
                io_check(&r);
                io_free(&r);
            }
            aether_io_close(io);
        }
    }
}

TEST(random_ranges) {
    make_file();
    check_random(path, FILE_SIZE);
}

TEST(random_ranges_in_shared_memory) {
    char name[64];
    struct statfs fs;
    snprintf(name, sizeof name, "/dev/shm/aether-io-%d", (int)getpid());
    if (statfs("/dev/shm", &fs) != 0 || fs.f_type != 0x01021994)
        SKIP("no tmpfs");
    io_make(name, 300001);
    check_random(name, 300001);
    unlink(name);
}

TEST(small_files) {
    aether_error err;
    char name[128];
    test_path(name, sizeof name, "small.bin");
    static const uint64_t sizes[] = {0, 1, 511, 512, 513, 4096, 4097};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        io_make(name, sizes[i]);
        FOR_EACH_MODE(mode) {
            aether_io *io;
            aether_io_info info;
            uint8_t *data = malloc(sizes[i] + 1);
            REQUIRE_OK(aether_io_open(name, mode, &io, &err), err);
            aether_io_describe(io, &info);
            CHECK_EQ(info.size, sizes[i]);
            CHECK_OK(aether_io_read(io, &(aether_io_request){0, sizes[i], data}, 1, NULL, &err), err);
            CHECK(io_right(data, 0, sizes[i]));
            aether_io_close(io);
            free(data);
        }
    }
}

TEST(what_a_file_says_of_itself) {
    aether_error err;
    make_file();
    FOR_EACH_MODE(mode) {
        aether_io *io;
        aether_io_info info;
        aether_io_options o = *mode;
        o.depth = 7;
        REQUIRE_OK(aether_io_open(path, &o, &io, &err), err);
        aether_io_describe(io, &info);
        CHECK_EQ(info.tier, mode->tier);
        CHECK_EQ(info.depth, 7);
        CHECK_EQ(info.size, FILE_SIZE);
        CHECK(info.direct <= mode->direct);
        CHECK((fcntl(io->fd, F_GETFL) & O_NONBLOCK) == 0);
        if (info.direct)
            CHECK(info.alignment >= 512 && info.alignment <= AE_IO_PAGE);
        else
            CHECK(info.alignment == 1 && info.memory_alignment == 1);
        aether_io_close(io);
    }
}

/* Aligned requests are read straight into the buffers, others through a copy. */
TEST(only_what_is_not_aligned_is_copied) {
    aether_error err;
    make_file();
    FOR_EACH_MODE(mode) {
        aether_io *io;
        aether_io_info info;
        aether_io_stats s;
        REQUIRE_OK(aether_io_open(path, mode, &io, &err), err);
        aether_io_describe(io, &info);
        uint8_t *data = ae_io_alloc(16 * 4096, &err);
        aether_io_request r[16];
        for (unsigned i = 0; i < 16; i++)
            r[i] = (aether_io_request){i * 65536, 4096, data + 4096 * i};
        CHECK_OK(aether_io_read(io, r, 16, NULL, &err), err);
        aether_io_count(io, &s);
        CHECK_EQ(s.requests, 16);
        CHECK_EQ(s.reads, 16);
        CHECK_EQ(s.bytes, 16 * 4096);
        CHECK_EQ(s.copied, 0);
        CHECK_EQ(s.repeated, 0);
        CHECK_EQ(s.max_in_flight, 16);
        CHECK_EQ(s.size_reads[0], 16);
        CHECK_EQ(s.size_bytes[0], 16 * 4096);
        CHECK(s.wait_ns > 0);
        r[3].offset += 1, r[5].length -= 1, r[7].buffer = (uint8_t *)r[7].buffer + 1, r[7].length -= 512;
        CHECK_OK(aether_io_read(io, r, 16, NULL, &err), err);
        aether_io_count(io, &s);
        CHECK_EQ(s.reads, 32);
        CHECK_EQ(s.copied, info.direct ? 3 : 0);
        for (unsigned i = 0; i < 16; i++)
            CHECK(io_right(r[i].buffer, r[i].offset, r[i].length));
        free(data);
        aether_io_close(io);
    }
}

/* Of a long range whose buffer is shifted like the range, only the ends are copied. */
TEST(the_middle_of_a_long_range_is_not_copied) {
    aether_error err;
    make_file();
    FOR_EACH_MODE(mode) {
        aether_io *io;
        aether_io_stats s;
        REQUIRE_OK(aether_io_open(path, mode, &io, &err), err);
        uint8_t *data = ae_io_alloc(3 << 20, &err);
        CHECK_OK(aether_io_read(io, &(aether_io_request){4096 + 7, 2500000, data + 7}, 1, NULL, &err), err);
        CHECK(io_right(data + 7, 4096 + 7, 2500000));
        aether_io_count(io, &s);
        CHECK_EQ(s.copied, io->direct ? 2 : 0);
        free(data);
        aether_io_close(io);
    }
}

TEST(nothing_to_read) {
    aether_error err;
    make_file();
    FOR_EACH_MODE(mode) {
        aether_io *io;
        aether_task task = {0};
        REQUIRE_OK(aether_io_open(path, mode, &io, &err), err);
        CHECK_OK(aether_io_read(io, NULL, 0, &task, &err), err);
        aether_io_request empty[3] = {{0, 0, NULL}, {FILE_SIZE, 0, NULL}, {99, 0, NULL}};
        CHECK_OK(aether_io_read(io, empty, 3, &task, &err), err);
        CHECK_EQ(task.total, 0);
        aether_io_close(io);
    }
}

TEST(requests_that_are_refused) {
    aether_error err;
    uint8_t data[64];
    make_file();
    FOR_EACH_MODE(mode) {
        aether_io *io;
        REQUIRE_OK(aether_io_open(path, mode, &io, &err), err);
        aether_io_request r[2] = {{0, 64, data}, {FILE_SIZE - 63, 64, data}};
        CHECK_CODE(aether_io_read(io, r, 2, NULL, &err), AETHER_E_RANGE);
        CHECK_EQ(err.position, 1);
        CHECK_EQ(err.value, FILE_SIZE - 63);
        CHECK_HAS(err.message, "past the end");
        r[1] = (aether_io_request){UINT64_MAX, 2, data};
        CHECK_CODE(aether_io_read(io, r, 2, NULL, &err), AETHER_E_RANGE);
        r[1] = (aether_io_request){1, UINT64_MAX, data};
        CHECK_CODE(aether_io_read(io, r, 2, NULL, &err), AETHER_E_RANGE);
        r[1] = (aether_io_request){0, 1, NULL};
        CHECK_CODE(aether_io_read(io, r, 2, NULL, &err), AETHER_E_INVALID);
        CHECK_EQ(err.position, 1);
        CHECK_OK(aether_io_read(io, r, 1, NULL, &err), err);
        aether_io_close(io);
    }
}

TEST(options_that_are_refused) {
    aether_error err;
    aether_io *io = (aether_io *)&err;
    make_file();
    CHECK_CODE(aether_io_open(path, &(aether_io_options){.tier = 3}, &io, &err), AETHER_E_INVALID);
    CHECK(io == NULL);
    CHECK_CODE(aether_io_open(path, &(aether_io_options){.direct = 2}, &io, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_io_open(path, &(aether_io_options){.depth = 257}, &io, &err), AETHER_E_INVALID);
    CHECK_EQ(err.value, 257);
    CHECK_CODE(aether_io_open("/nowhere/at all", NULL, &io, &err), AETHER_E_NOT_FOUND);
    CHECK_CODE(aether_io_open("/tmp", NULL, &io, &err), AETHER_E_IO);
    CHECK_CODE(aether_io_open("/dev/null", NULL, &io, &err), AETHER_E_IO);
    CHECK_CODE(aether_io_probe(AETHER_IO_AUTO, &err), AETHER_E_INVALID);
    aether_io_close(NULL);
}

TEST(environment_chooses_the_tier) {
    aether_error err;
    aether_io *io;
    aether_io_info info;
    bool has_uring = aether_io_probe(AETHER_IO_URING, NULL) == AETHER_OK;
    make_file();
    static const char *const names[] = {"", "auto", "uring", "pread"};
    for (unsigned i = 0; i < 4; i++) {
        setenv("AETHERGRAPH_IO", names[i], 1);
        int rc = aether_io_open(path, NULL, &io, &err);
        if (i == 2 && !has_uring) {
            CHECK_EQ(rc, AETHER_E_UNSUPPORTED);
            continue;
        }
        REQUIRE_OK(rc, err);
        aether_io_describe(io, &info);
        CHECK_EQ(info.tier, i == 3 || !has_uring ? AETHER_IO_PREAD : AETHER_IO_URING);
        aether_io_close(io);
    }
    setenv("AETHERGRAPH_IO", "uring", 1); /* what the program asks for comes first */
    REQUIRE_OK(aether_io_open(path, &(aether_io_options){.tier = AETHER_IO_PREAD}, &io, &err), err);
    aether_io_describe(io, &info);
    CHECK_EQ(info.tier, AETHER_IO_PREAD);
    aether_io_close(io);
    setenv("AETHERGRAPH_IO", "fast", 1);
    CHECK_CODE(aether_io_open(path, NULL, &io, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "fast");
    CHECK_HAS(err.message, "auto, uring, pread");
    unsetenv("AETHERGRAPH_IO");
}

TEST(tiers_are_found_by_number_and_name) {
    for (uint32_t i = 0; ae_io_tier_at(i); i++) {
        const ae_io_tier_ops *tier = ae_io_tier_at(i);
        CHECK(tier->number != AETHER_IO_AUTO);
        CHECK(ae_io_tier(tier->number) == tier);
        CHECK(ae_io_tier_named(tier->name) == tier);
        CHECK(ae_io_tier_at(i + 1) || tier == AE_IO_FALLBACK);
    }
    CHECK(!ae_io_tier(AETHER_IO_AUTO));
    CHECK(!ae_io_tier_named("auto"));
}

TEST(aligned_ranges) {
    uint64_t seed = 5;
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t alignment = (uint64_t)1 << test_random(&seed) % 13;
        uint64_t offset = test_random(&seed) >> (1 + test_random(&seed) % 63);
        uint64_t length = test_random(&seed) >> (2 + test_random(&seed) % 62);
        if (offset + length > (uint64_t)1 << 63)
            continue;
        ae_io_range r = ae_io_align(offset, length, alignment);
        CHECK(r.offset % alignment == 0 && r.size % alignment == 0);
        CHECK_EQ(r.offset + r.skip, offset);
        CHECK(r.skip < alignment);
        if (length == 0)
            CHECK_EQ(r.size, 0);
        else
            CHECK(r.size >= r.skip + length && r.size < r.skip + length + alignment);
    }
}

TEST_MAIN()
