/* Anonymous buffers: sizes, alignment, zeroed content, refusals. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

TEST_ONE_THREAD(buffers_of_all_sizes_are_zeroed_and_writable) {
    static const uint64_t sizes[] = {1,        4095,           4096,           4097,     (2u << 20) - 1,
                                     2u << 20, (2u << 20) + 1, (7u << 20) + 9, 33u << 20};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        aether_error err;
        unsigned char *data = aether_buffer_alloc(sizes[i], &err);
        REQUIRE(data != NULL);
        CHECK_EQ((uintptr_t)data % 4096, 0);
        if (sizes[i] >= 2u << 20)
            CHECK_EQ((uintptr_t)data % (2u << 20), 0);
        CHECK_EQ(data[0] | data[sizes[i] / 2] | data[sizes[i] - 1], 0);
        memset(data, 0xAB, sizes[i]);
        aether_buffer_free(data, sizes[i]);
    }
}

/* Freed buffers must leave nothing behind: leftovers of 4000 rounds would show. */
TEST_ONE_THREAD(free_returns_everything) {
    aether_error err;
    for (int i = 0; i < 4000; i++) {
        unsigned char *data = aether_buffer_alloc((64u << 20) + 12345, &err);
        REQUIRE(data != NULL);
        data[0] = 1;
        aether_buffer_free(data, (64u << 20) + 12345);
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    unsigned lines = 0;
    for (int c; (c = fgetc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    CHECK(lines < 1000);
}

/* Two mappings of one file are one memory, each as long as it was asked for. */
TEST_ONE_THREAD(shared_memory_is_mapped_in_parts) {
    aether_error err;
    const int fd = memfd_create("parts", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && ftruncate(fd, (off_t)1 << 42) == 0);
    const uint64_t offset = (uint64_t)1 << 41;
    unsigned char *some = aether_buffer_map(fd, offset, 4096, &err);
    unsigned char *more = aether_buffer_map(fd, offset, 9000, &err);
    REQUIRE(some && more);
    some[7] = 3;
    more[8999] = 4;
    CHECK_EQ(more[7], 3);
    aether_buffer_free(some, 4096);
    close(fd);
    CHECK_EQ(more[7] + more[8999], 7);
    aether_buffer_free(more, 9000);
    CHECK(aether_buffer_map(fd, offset, 4096, &err) == NULL);
    CHECK_EQ(err.code, AETHER_E_IO);
    CHECK(strstr(err.message, "cannot map 4096 bytes of shared memory") != NULL);
    aether_buffer_free(aether_buffer_map(fd, 0, 0, &err), 0);
}

TEST_ONE_THREAD(empty_and_null) {
    aether_error err;
    void *data = aether_buffer_alloc(0, &err);
    CHECK(data != NULL);
    aether_buffer_free(data, 0);
    aether_buffer_free(NULL, 0);
    aether_buffer_free(NULL, 4096);
}

TEST_ONE_THREAD(impossible_sizes_are_refused) {
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 4096, (uint64_t)1 << 63, (uint64_t)1 << 62,
                                     (uint64_t)PTRDIFF_MAX};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        aether_error err = {0};
        CHECK(aether_buffer_alloc(sizes[i], &err) == NULL);
        CHECK_EQ(err.code, AETHER_E_NO_MEMORY);
        CHECK_HAS(err.message, "cannot allocate");
        CHECK(aether_buffer_alloc(sizes[i], NULL) == NULL);
    }
}

TEST_MAIN()
