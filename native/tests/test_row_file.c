/* Rows of a file: against the file's bytes, within a budget, with faults, threads, forks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sys/wait.h>

#include "core/minmax.h"
#include "io_file.h"
#include "rows/row_file.h"

enum { FILE_SIZE = 3 << 20 };

static char path[128];

static void begin_test(void) {
    if (!path[0])
        io_make(test_path(path, sizeof path, "rows.bin"), FILE_SIZE);
}

static aether_row_options options_for(uint64_t offset, uint64_t row_bytes, uint64_t memory) {
    return (aether_row_options){.offset = offset,
                                .num_rows = (FILE_SIZE - offset) / row_bytes,
                                .row_items = row_bytes,
                                .memory = memory,
                                .dtype = AETHER_U8};
}

static aether_row_stats stats_of(const aether_row_file *f) {
    aether_row_stats s;
    aether_row_count(f, &s);
    return s;
}

typedef struct {
    uint64_t *id;
    uint8_t *out;
    uint64_t n, bytes;
} wish;

/* n rows: some near each other, some twice, some anywhere; out at any address. */
static wish make_wish(const aether_row_options *o, uint64_t n, uint64_t seed) {
    wish w = {.id = calloc(n + 1, 8), .n = n, .bytes = n * o->row_items};
    w.out = ae_io_alloc(w.bytes + 8192, NULL);
    memset(w.out, 0xEE, w.bytes + 8192);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = test_random(&seed), near = i ? w.id[i - 1] + r / 8 % 5 : 0;
        w.id[i] = r % 4 && near < o->num_rows ? near : (r >> 8) % o->num_rows;
        if (r % 11 == 0)
            w.id[i] = i ? w.id[(r >> 8) % i] : o->num_rows - 1;
    }
    return w;
}

static void free_wish(wish *w) {
    free(w->id);
    free(w->out);
}

static bool fulfilled(const aether_row_options *o, const wish *w, const uint8_t *out) {
    for (uint64_t i = 0; i < w->n; i++)
        if (!io_right(out + i * o->row_items, o->offset + w->id[i] * o->row_items, o->row_items))
            return false;
    return true;
}

/* Gather into out + shift; nothing beside it is written. */
static void check_gather(aether_row_file *f, const aether_row_options *o, uint64_t n, uint64_t shift,
                         uint64_t seed) {
    aether_error err;
    wish w = make_wish(o, n, seed);
    CHECK_OK(aether_row_gather(f, AE_SIZED(aether_row_request, w.id, n, w.out + shift, w.bytes, 8, AETHER_U8),
                               NULL, &err),
             err);
    CHECK(fulfilled(o, &w, w.out + shift));
    for (uint64_t i = 0; i < shift; i++)
        CHECK_EQ(w.out[i], 0xEE);
    for (uint64_t i = shift + w.bytes; i < w.bytes + 8192; i++)
        CHECK_EQ(w.out[i], 0xEE);
    free_wish(&w);
}

TEST(rows_of_any_size_at_any_place) {
    static const uint64_t sizes[] = {1, 3, 8, 100, 256, 400, 512, 1000, 4096, 5000, 70000};
    static const uint64_t offsets[] = {0, 128, 4096, 777};
    const size_t step = test_long() && !TEST_ONLY_RACES ? 1 : 3; /* the first and the last */
    aether_error err;
    begin_test();
    FOR_EACH_MODE(mode) {
        if (!mode->direct)
            continue;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += TEST_ONLY_RACES ? 2 : 1)
            for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k += step) {
                aether_row_file *f;
                aether_row_options o = options_for(offsets[k], sizes[i], 2 << 20);
                o.tier = mode->tier;
                REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
                check_gather(f, &o, 0, 0, 1);
                check_gather(f, &o, 1, 0, 2);
                check_gather(f, &o, 300, 0, 3);
                check_gather(f, &o, sizes[i] < 5000 ? 4000 : 30, 0, 4); /* several blocks */
                check_gather(f, &o, 200, 1, 5);
                CHECK_EQ(stats_of(f).rows, 501 + (sizes[i] < 5000 ? 4000 : 30));
                aether_row_close(f);
            }
    }
}

TEST(the_budget_is_kept) {
    aether_error err;
    aether_row_file *f;
    begin_test();
    for (uint64_t row = 8; row < 5000; row *= 5) {
        aether_row_options o = options_for(0, row, 1);
        CHECK_CODE(aether_row_open(path, &o, NULL, &f, &err), AETHER_E_INVALID);
        CHECK(f == NULL);
        CHECK_HAS(err.message, "at least ");
        uint64_t least = strtoull(strstr(err.message, "at least ") + 9, NULL, 10);
        o.memory = least - 1;
        CHECK_CODE(aether_row_open(path, &o, NULL, &f, &err), AETHER_E_INVALID);
        for (uint64_t memory = least; memory < 100u << 20; memory = memory * 7 / 3) {
            o.memory = memory;
            REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
            aether_row_stats s = stats_of(f);
            CHECK(s.cache_bytes + s.work_bytes <= memory);
            CHECK_EQ(s.budget, memory);
            CHECK(s.frames >= 1);
            check_gather(f, &o, 2000, 0, memory);
            CHECK(stats_of(f).frames_held <= s.frames);
            aether_row_close(f);
        }
    }
}

TEST(near_rows_are_read_together_and_each_once) {
    aether_error err;
    aether_row_file *f;
    uint64_t ids[4096];
    begin_test();
    aether_row_options o = options_for(4096, 512, 64 << 20);
    uint8_t *out = ae_io_alloc(4096 * 512, &err);
    REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
    for (uint64_t i = 0; i < 4096; i++) /* every third of 1024 rows, four times, backwards */
        ids[i] = (4095 - i) % 1024 * 3;
    REQUIRE_OK(aether_row_gather(f, AE_SIZED(aether_row_request, ids, 4096, out, 4096 * 512, 8, AETHER_U8),
                                 NULL, &err),
               err);
    aether_row_stats s = stats_of(f);
    CHECK_EQ(s.frames_read, 1024);
    CHECK_EQ(s.hits, 0);
    CHECK(s.reads <= 16); /* 1.5 MiB in runs of up to 128 KiB at least */
    CHECK(s.device_bytes <= 3 * 1024 * 512 + 4096);
    for (uint64_t i = 0; i < 4096; i++)
        CHECK(io_right(out + i * 512, 4096 + ids[i] * 512, 512));
    REQUIRE_OK(aether_row_gather(f, AE_SIZED(aether_row_request, ids, 4096, out, 4096 * 512, 8, AETHER_U8),
                                 NULL, &err),
               err);
    CHECK_EQ(stats_of(f).hits, 4096); /* all of them fit the cache */
    CHECK_EQ(stats_of(f).reads, s.reads);
    for (uint64_t i = 0; i < 4096; i++)
        CHECK(io_right(out + i * 512, 4096 + ids[i] * 512, 512));
    aether_row_close(f);
    free(out);
}

TEST(aligned_rows_are_read_where_they_belong) {
    aether_error err;
    aether_row_file *f;
    uint64_t ids[256];
    begin_test();
    aether_row_options o = options_for(4096, 4096, 64 << 20);
    uint8_t *out = ae_io_alloc(256 * 4096, &err);
    REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
    for (uint64_t i = 0; i < 256; i++) /* far from each other, or a span in order */
        ids[i] = i < 100 ? i * 5 : 500 + i - 100;
    REQUIRE_OK(aether_row_gather(f, AE_SIZED(aether_row_request, ids, 256, out, 256 * 4096, 8, AETHER_U8),
                                 NULL, &err),
               err);
    CHECK_EQ(stats_of(f).direct_rows, 256);
    CHECK(stats_of(f).reads <= 110);
    for (uint64_t i = 0; i < 256; i++)
        CHECK(io_right(out + i * 4096, 4096 + ids[i] * 4096, 4096));
    aether_row_close(f);
    free(out);
}

TEST(narrow_ids_and_wider_types) {
    aether_error err;
    aether_row_file *f;
    uint32_t ids[] = {9, 2, 9, 4000};
    int32_t out[4 * 50];
    begin_test();
    aether_row_options o = options_for(128, 50, 1 << 20);
    REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
    for (int round = 0; round < 2; round++) { /* from the file, then from the cache */
        memset(out, 0, sizeof out);
        REQUIRE_OK(aether_row_gather(f, AE_SIZED(aether_row_request, ids, 4, out, sizeof out, 4, AETHER_I32),
                                     NULL, &err),
                   err);
        for (uint32_t i = 0; i < 200; i++)
            CHECK_EQ(out[i], io_byte(128 + ids[i / 50] * 50 + i % 50));
    }
    CHECK_CODE(aether_row_gather(f, AE_SIZED(aether_row_request, ids, 4, out, 200, 4, AETHER_I8), NULL, &err),
               AETHER_E_UNSUPPORTED);
    CHECK_CODE(aether_row_gather(f, AE_SIZED(aether_row_request, ids, 4, out, 200, 2, AETHER_U8), NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(
        aether_row_gather(f, AE_SIZED(aether_row_request, NULL, 4, out, 200, 4, AETHER_U8), NULL, &err),
        AETHER_E_INVALID);
    for (uint64_t size = 0; size < 400; size += 199) { /* 4 rows take 200 bytes */
        CHECK_CODE(
            aether_row_gather(f, AE_SIZED(aether_row_request, ids, 4, out, size, 4, AETHER_U8), NULL, &err),
            AETHER_E_INVALID);
        CHECK_HAS(err.message, "do not fill");
    }
    aether_row_close(f);
    aether_row_close(NULL);
}

TEST(a_row_that_there_is_not_is_named) {
    aether_error err;
    aether_row_file *f;
    int64_t ids[5000] = {0};
    begin_test();
    aether_row_options o = options_for(0, 64, 1 << 20);
    uint8_t *out = ae_io_alloc(sizeof ids * 8, &err);
    REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
    ids[4321] = -1;
    ids[4500] = (int64_t)o.num_rows;
    CHECK_CODE(aether_row_gather(f, AE_SIZED(aether_row_request, ids, 5000, out, 5000 * 64, 8, AETHER_U8),
                                 NULL, &err),
               AETHER_E_RANGE);
    CHECK_EQ(err.position, 4321);
    CHECK_EQ(err.value, -1);
    ids[4321] = 0;
    CHECK_CODE(aether_row_gather(f, AE_SIZED(aether_row_request, ids, 5000, out, 5000 * 64, 8, AETHER_U8),
                                 NULL, &err),
               AETHER_E_RANGE);
    CHECK_EQ(err.value, (int64_t)o.num_rows);
    check_gather(f, &o, 100, 0, 1);
    aether_row_close(f);
    free(out);
}

TEST(hot_rows_are_read_once_and_stay) {
    static const uint64_t sizes[] = {24, 300, 512, 4096};
    aether_error err;
    begin_test();
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (uint32_t percent = 0; percent <= 100; percent += 50) {
            aether_row_file *f;
            aether_row_options o = options_for(128, sizes[k], 1 << 20);
            int64_t hot[3000];
            for (int i = 0; i < 3000; i++) /* twice each, and the last row, which may share a frame */
                hot[i] = i == 1 ? (int64_t)o.num_rows - 1 : i / 2 * 7 % (int64_t)o.num_rows;
            o.hot = hot;
            o.num_hot = 3000;
            o.hot_percent = percent;
            REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
            aether_row_stats s = stats_of(f);
            CHECK(s.hot_frames <= s.frames * percent / 100);
            CHECK(percent == 0 || s.hot_frames > 20);
            CHECK_EQ(s.device_bytes + s.reads + s.rows, 0);
            for (int round = 0; round < 3; round++)
                check_gather(f, &o, 3000, 0, (uint64_t)round);
            aether_row_stats before = stats_of(f);
            uint8_t row[4096];
            for (uint64_t i = 0; i < ae_min_u64(before.hot_frames, 40); i++) {
                CHECK_OK(
                    aether_row_gather(
                        f, AE_SIZED(aether_row_request, &hot[i], 1, row, sizes[k], 8, AETHER_U8), NULL, &err),
                    err);
                CHECK(io_right(row, o.offset + (uint64_t)hot[i] * sizes[k], sizes[k]));
            }
            CHECK_EQ(stats_of(f).reads, before.reads);
            aether_row_close(f);
        }
}

/* ---- what goes wrong -------------------------------------------------------------------- */

static int fault;
static aether_task *cancel_task;
static int countdown;

static int32_t fail_late(uint64_t at, int32_t result) {
    (void)at;
    return countdown-- > 0 ? result : -fault;
}

static uint32_t short_length(uint64_t at, uint32_t length) {
    return length > 1024 && at % 3 ? length / 1024 * 512 : length;
}

static int32_t cancel_late(uint64_t at, int32_t result) {
    (void)at;
    if (countdown-- == 0)
        __atomic_store_n(&cancel_task->cancel, 1, __ATOMIC_RELAXED);
    return result;
}

TEST(reads_that_fail_and_reads_that_are_short) {
    aether_error err;
    begin_test();
    FOR_EACH_MODE(mode) {
        aether_row_file *f;
        aether_row_options o = options_for(128, 700, 1 << 20);
        o.tier = mode->tier;
        REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
        for (int after = 0; after < 90; after += 13) {
            wish w = make_wish(&o, 3000, (uint64_t)after);
            fault = EIO;
            countdown = after;
            ae_io_set_hooks(&(ae_io_hooks){.result = fail_late});
            CHECK_CODE(
                aether_row_gather(f, AE_SIZED(aether_row_request, w.id, w.n, w.out, w.bytes, 8, AETHER_U8),
                                  NULL, &err),
                AETHER_E_IO);
            ae_io_set_hooks(NULL);
            CHECK_EQ(err.os_errno, EIO);
            CHECK_HAS(err.message, "rows.bin");
            free_wish(&w); /* nothing is written there any more */
            check_gather(f, &o, 1000, 0, (uint64_t)after);
        }
        aether_row_close(f);
        o.memory = 600 << 10;
        REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
        ae_io_set_hooks(&(ae_io_hooks){.length = short_length});
        check_gather(f, &o, 3000, 0, 1);
        ae_io_set_hooks(NULL);
        aether_row_close(f);
    }
}

TEST(cancelling) {
    aether_error err;
    aether_row_file *f;
    aether_task task = {.cancel = 1};
    begin_test();
    aether_row_options o = options_for(128, 700, 1 << 20);
    REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
    wish w = make_wish(&o, 4000, 3);
    CHECK_CODE(aether_row_gather(f, AE_SIZED(aether_row_request, w.id, w.n, w.out, w.bytes, 8, AETHER_U8),
                                 &task, &err),
               AETHER_E_CANCELLED);
    CHECK_EQ(stats_of(f).device_reads, 0);
    task.cancel = 0;
    cancel_task = &task;
    countdown = 30;
    ae_io_set_hooks(&(ae_io_hooks){.result = cancel_late});
    CHECK_CODE(aether_row_gather(f, AE_SIZED(aether_row_request, w.id, w.n, w.out, w.bytes, 8, AETHER_U8),
                                 &task, &err),
               AETHER_E_CANCELLED);
    ae_io_set_hooks(NULL);
    CHECK(task.done < task.total);
    task.cancel = 0;
    CHECK_OK(aether_row_gather(f, AE_SIZED(aether_row_request, w.id, w.n, w.out, w.bytes, 8, AETHER_U8),
                               &task, &err),
             err);
    CHECK_EQ(task.done, 4000);
    CHECK_EQ(task.total, 4000);
    CHECK(fulfilled(&o, &w, w.out));
    free_wish(&w);
    aether_row_close(f);
}

TEST(a_file_that_shrinks_or_is_written_to) {
    aether_error err;
    char name[128];
    begin_test();
    test_path(name, sizeof name, "changes.bin");
    for (int shrink = 0; shrink < 2; shrink++) {
        aether_row_file *f;
        uint64_t first = 0, last;
        uint8_t row[512];
        io_make(name, FILE_SIZE);
        aether_row_options o = options_for(0, 512, 1 << 20);
        last = o.num_rows - 1;
        REQUIRE_OK(aether_row_open(name, &o, NULL, &f, &err), err);
        CHECK_OK(aether_row_gather(f, AE_SIZED(aether_row_request, &first, 1, row, o.row_items, 8, AETHER_U8),
                                   NULL, &err),
                 err);
        if (shrink) {
            REQUIRE(truncate(name, FILE_SIZE / 2) == 0);
        } else {
            int fd = open(name, O_WRONLY);
            struct timespec later[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
            REQUIRE(fd >= 0 && pwrite(fd, "x", 1, 0) == 1 && futimens(fd, later) == 0);
            close(fd);
        }
        CHECK_CODE(aether_row_gather(
                       f, AE_SIZED(aether_row_request, &last, 1, row, o.row_items, 8, AETHER_U8), NULL, &err),
                   AETHER_E_FILE_CHANGED);
        CHECK_HAS(err.message, shrink ? "shrank" : "written to");
        /* also what the cache has */
        CHECK_CODE(aether_row_gather(f,
                                     AE_SIZED(aether_row_request, &first, 1, row, o.row_items, 8, AETHER_U8),
                                     NULL, &err),
                   AETHER_E_FILE_CHANGED);
        aether_row_close(f);
        if (shrink)
            CHECK_CODE(aether_row_open(name, &o, NULL, &f, &err), AETHER_E_TRUNCATED);
    }
}

TEST(options_that_cannot_be) {
    aether_error err;
    aether_row_file *f;
    int64_t hot[] = {3, -1};
    begin_test();
    aether_row_options good = options_for(0, 512, 1 << 20), o = good;
    o.dtype = 99;
    CHECK_CODE(aether_row_open(path, &o, NULL, &f, &err), AETHER_E_INVALID);
    o = good;
    o.num_rows = 0;
    CHECK_CODE(aether_row_open(path, &o, NULL, &f, &err), AETHER_E_INVALID);
    o = good;
    o.num_rows = UINT64_MAX / 512;
    CHECK_CODE(aether_row_open(path, &o, NULL, &f, &err), AETHER_E_LIMIT);
    o = good;
    o.hot = hot;
    o.num_hot = 2;
    CHECK_CODE(aether_row_open(path, &o, NULL, &f, &err), AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    o.hot = NULL;
    CHECK_CODE(aether_row_open(path, &o, NULL, &f, &err), AETHER_E_INVALID);
    o = good;
    o.hot_percent = 101;
    CHECK_CODE(aether_row_open(path, &o, NULL, &f, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_row_open("/tmp/no/such/file", &good, NULL, &f, &err), AETHER_E_NOT_FOUND);
}

/* ---- sharing ------------------------------------------------------------------------------ */

typedef struct {
    aether_row_file *file;
    const aether_row_options *options;
    uint64_t seed;
    int rounds;
    unsigned wrong;
} user;

static void *use(void *arg) {
    user *u = arg;
    for (int i = 0; i < u->rounds; i++) {
        wish w = make_wish(u->options, 1500, u->seed + (uint64_t)i * 100);
        u->wrong +=
            aether_row_gather(u->file, AE_SIZED(aether_row_request, w.id, w.n, w.out, w.bytes, 8, AETHER_U8),
                              NULL, NULL) != AETHER_OK ||
            !fulfilled(u->options, &w, w.out);
        free_wish(&w);
    }
    return NULL;
}

TEST(threads_gather_at_once) {
    aether_error err;
    begin_test();
    FOR_EACH_MODE(mode) {
        aether_row_file *f;
        pthread_t threads[6]; /* more than there are workspaces */
        user users[6];
        aether_row_options o = options_for(128, 200, 1 << 20);
        o.tier = mode->tier;
        REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
        for (uint64_t i = 0; i < 6; i++) {
            users[i] = (user){f, &o, i, 10, 0};
            REQUIRE(pthread_create(&threads[i], NULL, use, &users[i]) == 0);
        }
        for (int i = 0; i < 6; i++) {
            pthread_join(threads[i], NULL);
            CHECK_EQ(users[i].wrong, 0);
        }
        CHECK_EQ(stats_of(f).rows, 6 * 10 * 1500);
        aether_row_close(f);
    }
}

/* ---- a task's poll() that gathers ---------------------------------------------------------- */

static struct {
    aether_row_file *f;
    const aether_row_options *o;
    aether_task *outer;
    unsigned calls, wrong;
    bool inside;
} within;

/* As a signal's handler may. */
static int32_t gather_within(void) {
    aether_error err;
    aether_task task = {0};
    if (within.inside)
        return 0;
    within.inside = true;
    wish w = make_wish(within.o, 700, ++within.calls);
    within.wrong +=
        aether_row_gather(within.f, AE_SIZED(aether_row_request, w.id, w.n, w.out, w.bytes, 8, AETHER_U8),
                          &task, &err) != AETHER_OK ||
        !fulfilled(within.o, &w, w.out);
    free_wish(&w);
    within.inside = false;
    if (within.calls < 20)
        within.outer->next_poll = 0; /* at the next look again */
    return 0;
}

TEST(a_gather_within_a_gather) {
    aether_error err;
    begin_test();
    FOR_EACH_MODE(mode) {
        aether_row_file *files[2];
        aether_row_options options[] = {options_for(128, 700, 300 << 10), options_for(64, 300, 1 << 20)};
        for (int i = 0; i < 2; i++) {
            options[i].tier = mode->tier;
            REQUIRE_OK(aether_row_open(path, &options[i], NULL, &files[i], &err), err);
        }
        CHECK_EQ(files[0]->plan.workspaces, 1);
        for (int i = 0; i < 2; i++) { /* of the same file, and of another one */
            aether_task task = {.poll = gather_within};
            within.f = files[i];
            within.o = &options[i];
            within.outer = &task;
            within.calls = within.wrong = 0;
            wish w = make_wish(&options[0], 4000, 3);
            CHECK_OK(aether_row_gather(files[0],
                                       AE_SIZED(aether_row_request, w.id, w.n, w.out, w.bytes, 8, AETHER_U8),
                                       &task, &err),
                     err);
            CHECK(fulfilled(&options[0], &w, w.out));
            CHECK(within.calls > 4);
            CHECK_EQ(within.wrong, 0);
            free_wish(&w);
        }
        aether_row_close(files[0]);
        aether_row_close(files[1]);
    }
}

/* ---- waiting for a workspace ------------------------------------------------------------------ */

static atomic_bool held, let_go;

static int32_t hold(uint64_t offset, int32_t result) {
    (void)offset;
    atomic_store(&held, true);
    while (!atomic_load(&let_go))
        usleep(1000);
    return result;
}

static int32_t cancel_now(void) {
    return 1;
}

TEST(cancelling_while_it_waits_for_a_workspace) {
    aether_error err;
    aether_row_file *f;
    pthread_t thread;
    begin_test();
    aether_row_options o = options_for(128, 700, 300 << 10);
    REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
    CHECK_EQ(f->plan.workspaces, 1);
    user u = {f, &o, 1, 1, 0};
    ae_io_set_hooks(&(ae_io_hooks){.result = hold});
    REQUIRE(pthread_create(&thread, NULL, use, &u) == 0);
    while (!atomic_load(&held))
        usleep(1000);
    aether_task task = {.poll = cancel_now};
    wish w = make_wish(&o, 10, 3);
    CHECK_CODE(aether_row_gather(f, AE_SIZED(aether_row_request, w.id, w.n, w.out, w.bytes, 8, AETHER_U8),
                                 &task, &err),
               AETHER_E_CANCELLED);
    atomic_store(&let_go, true);
    pthread_join(thread, NULL);
    ae_io_set_hooks(NULL);
    CHECK_EQ(u.wrong, 0);
    CHECK_OK(aether_row_gather(f, AE_SIZED(aether_row_request, w.id, w.n, w.out, w.bytes, 8, AETHER_U8), NULL,
                               &err),
             err);
    free_wish(&w);
    aether_row_close(f);
}

TEST(a_forked_child_gathers) {
    SKIP_FORK_UNDER_SANITIZERS();
    aether_error err;
    aether_row_file *f;
    pthread_t threads[2];
    user users[2];
    int64_t hot[] = {5, 6, 7};
    begin_test();
    aether_row_options o = options_for(128, 512, 1 << 20);
    o.hot = hot;
    o.num_hot = 3;
    o.hot_percent = 50;
    REQUIRE_OK(aether_row_open(path, &o, NULL, &f, &err), err);
    for (uint64_t i = 0; i < 2; i++) { /* they have workspaces, and put, while it forks */
        users[i] = (user){f, &o, i, 60, 0};
        REQUIRE(pthread_create(&threads[i], NULL, use, &users[i]) == 0);
    }
    for (int i = 0; i < 10; i++) {
        usleep(2000);
        pid_t child = fork();
        if (child == 0) {
            alarm(60); /* a hang ends here */
            user u = {f, &o, 77, 3, 0};
            use(&u);
            _exit(u.wrong ? 1 : stats_of(f).hot_frames != 3);
        }
        int status = -1;
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(users[i].wrong, 0);
    }
    aether_row_close(f);
}

TEST_MAIN()
