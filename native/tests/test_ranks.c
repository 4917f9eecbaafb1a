/* Ranks of numbers in a set, against counting them one by one. */
#include "test.h"

#define END 1000

static uint64_t *blocks_for(uint64_t end) {
    return calloc(aether_ranks_words(end), sizeof(uint64_t));
}

/* Every `step`-th number below `end`. */
static void check_ranks(uint64_t end, uint64_t step) {
    int64_t ids[END], ranks[END];
    uint64_t n = 0, *blocks = blocks_for(end);
    aether_error err = {0};
    REQUIRE(blocks);
    for (uint64_t id = step - 1; id < end; id += step)
        ids[n++] = (int64_t)id;
    CHECK_OK(aether_ranks_mark(blocks, end, ids + n / 2, n - n / 2, &err), err);
    CHECK_OK(aether_ranks_mark(blocks, end, ids, n / 2, &err), err);
    CHECK_EQ(aether_ranks_count(blocks, end), n);
    CHECK_OK(aether_ranks_of(blocks, end, ids, n, ranks, &err), err);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(ranks[i], i);
    CHECK_OK(aether_ranks_of(blocks, end, ids, n, ids, &err), err); /* in place */
    CHECK(memcmp(ids, ranks, n * sizeof *ids) == 0);
    free(blocks);
}

TEST_ONE_THREAD(ranks_count_the_numbers_below) {
    const uint64_t ends[] = {0, 1, 63, 64, 65, 191, 192, 193, 384, END};
    for (uint64_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (uint64_t step = 1; step < 200; step += 1 + step / 3)
            check_ranks(ends[i], step);
}

TEST_ONE_THREAD(bad_numbers_are_named) {
    uint64_t *blocks = blocks_for(192);
    aether_error err = {0};
    int64_t out[3];
    REQUIRE(blocks);
    const int64_t beyond[] = {5, 191, 192}, twice[] = {7, 5, 8}, negative[] = {1, -1};
    CHECK_CODE(aether_ranks_mark(blocks, 192, beyond, 3, &err), AETHER_E_RANGE);
    CHECK_EQ(err.position, 2);
    CHECK_EQ(err.value, 192);
    CHECK_CODE(aether_ranks_mark(blocks, 192, twice, 3, &err), AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    CHECK_CODE(aether_ranks_of(blocks, 192, negative, 2, out, &err), AETHER_E_RANGE);
    CHECK_EQ(err.value, -1);
    free(blocks);
}

TEST_ONE_THREAD(places_are_the_inverse_of_an_order) {
    enum { N = 1000 };
    int64_t ids[N];
    uint32_t narrow[N];
    uint64_t wide[N];
    aether_error err = {0};
    for (uint64_t i = 0; i < N; i++)
        ids[i] = (int64_t)(i * 7 % N);
    CHECK_OK(aether_put_places(ids, 300, 0, narrow, 4, N, &err), err);
    CHECK_OK(aether_put_places(ids + 300, N - 300, 300, narrow, 4, N, &err), err);
    CHECK_OK(aether_put_places(ids, N, UINT64_C(1) << 40, wide, 8, N, &err), err);
    for (uint64_t i = 0; i < N; i++) {
        CHECK_EQ(narrow[ids[i]], i);
        CHECK_EQ(wide[ids[i]], (UINT64_C(1) << 40) + i);
    }
    ids[2] = N;
    CHECK_CODE(aether_put_places(ids, N, 0, wide, 8, N, &err), AETHER_E_RANGE);
    CHECK_EQ(err.position, 2);
    CHECK_CODE(aether_put_places(ids, 1, 0, wide, 2, N, &err), AETHER_E_INVALID);
}

TEST_MAIN()
