/* Anonymous buffers: sizes, alignment, zeroed content, refusals. */
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
