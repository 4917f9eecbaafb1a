/* Streams of ids: each stage sees every item once, in order, a chunk behind the stage before it. */
#include "test.h"
#include "topology/stream.h"

#define MOST 1000

typedef struct record {
    uint64_t asked, fetched, used; /* items that the stages have seen */
    uint64_t fails_at;             /* the item whose chunk is not fetched */
} record;

static int ask_test(void *ctx, uint64_t at, uint64_t n, aether_error *err) {
    record *r = ctx;
    (void)err;
    CHECK(at == r->asked && n && n <= AE_STREAM_CHUNK);
    r->asked += n;
    return AETHER_OK;
}

static int fetch_test(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    record *r = ctx;
    CHECK(at == r->fetched && n);
    CHECK(!r->asked || r->asked >= at + n); /* all of it was asked for, and the next chunk is */
    CHECK(!r->asked || r->asked == at + n || r->asked > at + AE_STREAM_CHUNK);
    if (at <= r->fails_at && r->fails_at < at + n)
        return ae_error_set(err, AETHER_E_CORRUPT, "item %d", (int)r->fails_at);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = 7 * (at + i);
    r->fetched += n;
    return AETHER_OK;
}

static int use_test(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    record *r = ctx;
    CHECK(at == r->used && n && at + n <= r->fetched);
    for (uint64_t i = 0; i < n; i++)
        CHECK(ids[i] == 7 * (at + i));
    r->used += n;
    (void)err;
    return AETHER_OK;
}

TEST_ONE_THREAD(every_item_goes_through_all_stages_in_order) {
    static const ae_stream all = {ask_test, fetch_test, use_test}, later = {NULL, fetch_test, use_test};
    aether_error err = {0};
    for (uint64_t n = 0; n < MOST; n++) {
        record r = {.fails_at = MOST}, s = {.fails_at = MOST};
        REQUIRE_OK(ae_stream_run(&all, n, &r, NULL, &err), err);
        CHECK(r.asked == n && r.fetched == n && r.used == n);
        REQUIRE_OK(ae_stream_run(&later, n, &s, NULL, &err), err);
        CHECK(s.fetched == n && s.used == n);
    }
}

TEST_ONE_THREAD(a_stream_ends_at_the_first_failure) {
    static const ae_stream all = {ask_test, fetch_test, use_test};
    aether_error err = {0};
    record r = {.fails_at = 3 * AE_STREAM_CHUNK + 5};
    CHECK(ae_stream_run(&all, MOST, &r, NULL, &err) == AETHER_E_CORRUPT);
    CHECK_STR(err.message, "item 389");
    CHECK(r.fetched == 3 * AE_STREAM_CHUNK && r.used == 2 * AE_STREAM_CHUNK);
}

TEST_ONE_THREAD(a_cancelled_stream_says_so) {
    static const ae_stream all = {ask_test, fetch_test, use_test};
    aether_error err = {0};
    aether_task task = {.cancel = 1};
    record r = {.fails_at = MOST};
    CHECK(ae_stream_run(&all, MOST, &r, &task, &err) == AETHER_E_CANCELLED);
    CHECK_STR(err.message, "sampling was cancelled");
    CHECK(r.asked == 0);
}

TEST_ONE_THREAD(ids_are_fetched_in_both_widths) {
    uint64_t indptr[2] = {0, MOST}, positions[MOST], wide[MOST];
    uint32_t indices[MOST], narrow[MOST];
    aether_topology *t;
    aether_error err = {0};
    for (uint32_t i = 0; i < MOST; i++) {
        indices[i] = i * i % MOST;
        positions[i] = MOST - 1 - i;
    }
    aether_lists lists = {.num_major = 1,
                          .num_minor = MOST,
                          .num_edges = MOST,
                          .indptr = indptr,
                          .indices = indices,
                          .id_bytes = 4};
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    REQUIRE_OK(ae_stream_ids(t, positions, MOST, wide, 8, NULL, &err), err);
    REQUIRE_OK(ae_stream_ids(t, positions, MOST, narrow, 4, NULL, &err), err);
    for (uint32_t i = 0; i < MOST; i++)
        CHECK(wide[i] == indices[MOST - 1 - i] && narrow[i] == indices[MOST - 1 - i]);
    aether_topology_destroy(t);
}

TEST_MAIN()
