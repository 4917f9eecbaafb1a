/* The id map by itself: all three kinds, growth, wraparound, regular ids. */
#include "sample/relabel/idmap.h"
#include "test.h"

/* Add n keys (some again), and look all of them up: local ids follow first appearance. */
static void check_keys(ae_idmap *m, const uint64_t *keys, uint32_t n, uint64_t num_keys) {
    aether_error err = {0};
    static uint64_t seen[5000];
    uint32_t count = 0;
    REQUIRE_OK(ae_idmap_reserve(m, n, num_keys, NULL, 0, NULL, &err), err);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t expected = 0;
        while (expected < count && seen[expected] != keys[i])
            expected++;
        CHECK_EQ(ae_idmap_find(m, keys[i]), expected < count ? expected : AE_IDMAP_ABSENT);
        CHECK_EQ(ae_idmap_add(m, keys[i], count), expected);
        if (expected == count)
            seen[count++] = keys[i];
        if (i == n / 2) /* grows in the middle */
            REQUIRE_OK(ae_idmap_reserve(m, 3 * n, num_keys, seen, count, NULL, &err), err);
    }
    for (uint32_t i = 0; i < count; i++)
        CHECK_EQ(ae_idmap_find(m, seen[i]), i);
    ae_idmap_restart(m, count);
    if (count && m->base != UINT32_MAX)
        CHECK_EQ(ae_idmap_find(m, seen[0]), AE_IDMAP_ABSENT);
}

static void check_kind(uint64_t num_keys, ae_idmap_kind kind) {
    ae_idmap m = {0};
    uint64_t keys[800], state = num_keys;
    for (int round = 0; round < 30; round++) {
        uint32_t n = 1 + (uint32_t)(test_random(&state) % 800);
        for (uint32_t i = 0; i < n; i++)
            keys[i] = i && test_random(&state) % 3 == 0 ? keys[test_random(&state) % i]
                                                        : test_random(&state) % num_keys;
        if (round % 4 == 3) /* near the end of the 32-bit values; all held are below */
            m.base = UINT32_MAX - (uint32_t)(test_random(&state) % 2000);
        check_keys(&m, keys, n, num_keys);
        CHECK_EQ(m.kind, kind);
    }
    ae_idmap_free(&m);
}

TEST_ONE_THREAD(direct_map) {
    check_kind(50, AE_IDMAP_DIRECT);
}
TEST_ONE_THREAD(narrow_map) {
    check_kind(UINT32_MAX, AE_IDMAP_NARROW);
}
TEST_ONE_THREAD(wide_map) {
    check_kind(UINT64_C(1) << 62, AE_IDMAP_WIDE);
}

TEST_ONE_THREAD(too_many_ids_are_refused) {
    ae_idmap m = {0};
    aether_error err = {0};
    CHECK_CODE(ae_idmap_reserve(&m, UINT32_MAX - 1, 10, NULL, 0, NULL, &err), AETHER_E_LIMIT);
    ae_idmap_free(&m);
}

/* Ids a Fibonacci number apart fall together under plain Fibonacci hashing. */
TEST_ONE_THREAD(regular_ids_spread) {
    const uint64_t strides[] = {1, 8, 4096, 10946, 17711, 28657, 46368, 75025, 100000};
    enum { N = 2000 };
    const uint64_t capacity = 3 * N;
    for (size_t s = 0; s < sizeof strides / sizeof *strides; s++) {
        static uint8_t taken[3 * N];
        memset(taken, 0, sizeof taken);
        uint64_t probes = 0;
        for (uint64_t i = 0; i < N; i++) {
            uint64_t slot = ae_idmap_home(i * strides[s], capacity);
            for (; taken[slot]; probes++)
                slot = ae_idmap_next(slot, capacity);
            taken[slot] = 1;
        }
        if (probes > 2 * N)
            TEST_FAIL("stride %" PRIu64 ": %" PRIu64 " extra probes for %d ids", strides[s], probes, N);
    }
}

TEST_MAIN()
