/* Live graphs by their public functions: what is refused, what a failure leaves behind, how much
 * memory is taken. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <time.h>

#include "live_model.h"
#include "os/membarrier.h"
#include "os/shared.h"

static const live_spec plain = {.relation = {.num_src = MODEL_NODES,
                                             .num_dst = MODEL_NODES,
                                             .layouts = AETHER_LIVE_CSC,
                                             .order = AETHER_ORDER_TIME,
                                             .edge_id_bytes = 4},
                                .arena_bytes = 16 << 20};

/* ---- refused ---- */

static void check_refused(live_spec o, int code, const char *part) {
    aether_live *g = NULL;
    aether_error err = {0};
    CHECK_CODE(live_create(&o, &g, &err), code);
    CHECK_HAS(err.message, part);
    CHECK(!g);
}

TEST_ONE_THREAD(options_that_are_refused) {
    live_spec o = plain;
    o.relation.order = 3;
    check_refused(o, AETHER_E_INVALID, "order = 3");
    o = plain;
    o.relation.columns = 4;
    check_refused(o, AETHER_E_INVALID, "columns = 4");
    o = plain;
    o.relation.layouts = 0;
    check_refused(o, AETHER_E_INVALID, "layouts = 0 of relation 0");
    o.relation.layouts = 4;
    check_refused(o, AETHER_E_INVALID, "layouts = 4");
    o = plain;
    o.relation.order = AETHER_ORDER_ID;
    o.relation.columns = AETHER_LIVE_TIMES;
    check_refused(o, AETHER_E_INVALID, "AETHER_ORDER_TIME");
    o = plain;
    o.relation.edge_id_bytes = 5;
    check_refused(o, AETHER_E_INVALID, "edge_id_bytes = 5");
    o = plain;
    o.relation.num_dst = UINT64_C(1) << 32;
    check_refused(o, AETHER_E_LIMIT, "num_dst = 4294967296");
    o = plain;
    o.relation.max_dst = MODEL_NODES - 1;
    check_refused(o, AETHER_E_LIMIT, "num_dst = 64");
    o = plain;
    o.relation.num_src = UINT64_C(1) << 32;
    check_refused(o, AETHER_E_LIMIT, "num_src");
    o = plain;
    o.arena_bytes = (UINT64_C(32) << 30) + (256 << 10);
    check_refused(o, AETHER_E_LIMIT, "34359738368");
    o.arena_bytes = 1000;
    check_refused(o, AETHER_E_INVALID, "arena_bytes = 1000");
}

TEST_ONE_THREAD(edges_that_are_refused_change_nothing) {
    live_spec o = plain;
    o.relation.columns = AETHER_LIVE_WEIGHTS;
    aether_live *g = live_make(o);
    const int64_t major[] = {1, 2, 3}, minor[] = {4, 5, 64};
    const float weights[] = {1, NAN, 3};
    aether_live_edges edges = {.src = minor, .dst = major, .weights = weights, .count = 3};
    uint64_t n;
    aether_error err = {0};
    CHECK_CODE(aether_live_insert(g, 0, &edges, NULL, &n, &err), AETHER_E_RANGE);
    CHECK_STR(err.message, "src[2] = 64 is not in 0..63");
    CHECK_EQ(err.position, 2);
    edges.count = 2;
    CHECK_CODE(aether_live_insert(g, 0, &edges, NULL, &n, &err), AETHER_E_INVALID);
    CHECK_EQ(err.position, 1);
    edges.count = 1;
    edges.times = major;
    CHECK_CODE(aether_live_insert(g, 0, &edges, NULL, &n, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "without times");
    edges.times = NULL;
    edges.weights = NULL;
    CHECK_CODE(aether_live_insert(g, 0, &edges, NULL, &n, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "has weights");
    edges.weights = weights;
    edges.count = UINT64_C(1) << 32;
    CHECK_CODE(aether_live_insert(g, 0, &edges, NULL, &n, &err), AETHER_E_LIMIT);
    CHECK_HAS(err.message, "edge_id_bytes 8");
    CHECK_EQ(n, 0);
    CHECK_CODE(aether_live_delete(g, 0, minor, major, NULL, 3, &n, &err), AETHER_E_RANGE);
    CHECK_CODE(aether_live_delete(g, 0, minor, major, major, 1, &n, &err), AETHER_E_RANGE);
    CHECK_STR(err.message, "edge_ids[0] = 1 is not in 0..-1");
    aether_live_stats stats;
    aether_live_count(g, &stats);
    CHECK_EQ(stats.epoch, 1);
    CHECK_EQ(stats.num_edges, 0);
    CHECK_EQ(stats.touched_nodes, 0);
    aether_live_close(g);
}

TEST_ONE_THREAD(transactions_begin_and_end_once) {
    aether_live *g = live_make(plain);
    aether_error err = {0};
    CHECK_CODE(aether_live_commit(g, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_live_abort(g, &err), AETHER_E_INVALID);
    CHECK_OK(aether_live_begin(g, &err), err);
    CHECK_CODE(aether_live_begin(g, &err), AETHER_E_INVALID);
    CHECK_CODE(live_insert(g, 64, 0, &err), AETHER_E_RANGE); /* found before anything is changed */
    CHECK_OK(live_insert(g, 1, 0, &err), err);
    CHECK_EQ(live_degree(g, 1), 0);
    CHECK_OK(aether_live_commit(g, &err), err);
    CHECK_EQ(live_degree(g, 1), 1);
    CHECK_CODE(aether_live_commit(g, &err), AETHER_E_INVALID);
    aether_live_close(g);
}

TEST_ONE_THREAD(edges_without_ids) {
    live_spec o = plain;
    o.relation.edge_id_bytes = 0;
    o.relation.order = AETHER_ORDER_ID;
    aether_live *g = live_make(o);
    const int64_t major[] = {1, 1, 1}, minor[] = {4, 2, 4};
    const aether_live_edges edges = {.src = minor, .dst = major, .count = 3};
    int64_t ids[3], neighbors[2];
    uint64_t n;
    aether_error err = {0};
    CHECK_OK(aether_live_insert(g, 0, &edges, ids, &n, &err), err);
    CHECK_EQ(n, 2);
    CHECK_EQ(ids[1], 1);
    CHECK_EQ(ids[2], -1);
    CHECK_CODE(aether_live_delete(g, 0, minor, major, ids, 1, &n, &err), AETHER_E_UNSUPPORTED);
    aether_snapshot *s = live_pin(g);
    aether_topology *t = live_lists(s);
    CHECK_OK(aether_topology_neighbors(
                 t,
                 AE_SIZED(aether_list_request, .nodes = major, .n = 1, .capacity = 2, .neighbors = neighbors),
                 NULL, &err),
             err);
    CHECK_EQ(neighbors[0], 2);
    CHECK_EQ(neighbors[1], 4);
    CHECK_CODE(aether_topology_neighbors(
                   t,
                   AE_SIZED(aether_list_request, .nodes = major, .n = 1, .capacity = 2, .edges = neighbors),
                   NULL, &err),
               AETHER_E_UNSUPPORTED);
    CHECK(!t->ops->weights && !t->ops->times);
    aether_topology_destroy(t); /* leaves it to the snapshot */
    CHECK_OK(aether_topology_neighbors(
                 t,
                 AE_SIZED(aether_list_request, .nodes = major, .n = 1, .capacity = 2, .neighbors = neighbors),
                 NULL, &err),
             err);
    aether_snapshot_release(s);
    aether_live_close(g);
}

TEST_ONE_THREAD(what_needs_dense_positions_is_refused) {
    aether_live *g = live_make(plain);
    aether_snapshot *s = live_pin(g);
    aether_topology *t = live_lists(s);
    aether_weight_sums *sums = NULL;
    const float weight = 1;
    int64_t position = INT64_C(1) << 62 | INT64_C(1) << 60, id;
    aether_error err = {0};
    CHECK_CODE(aether_weight_sums_create(t, &weight, AETHER_F32, &sums, NULL, &err), AETHER_E_UNSUPPORTED);
    /* A position that nobody has handed out leads out of the arena, not out of the mapping. */
    CHECK_CODE(aether_topology_ids(t, &position, 1, &id, 8, NULL, &err), AETHER_E_RANGE);
    position |= INT64_C(1) << 61;
    CHECK_CODE(aether_topology_ids(t, &position, 1, &id, 8, NULL, &err), AETHER_E_RANGE);
    aether_snapshot_release(s);
    aether_live_close(g);
}

/* ---- nodes ---- */

static uint64_t memory_of(const aether_live *g) {
    int32_t fds[4];
    uint64_t bytes = 0;
    CHECK_EQ(aether_live_num_descriptors(g), 4);
    aether_live_descriptors(g, fds);
    for (int i = 0; i < 4; i++) {
        struct stat status;
        CHECK_EQ(fstat(fds[i], &status), 0);
        bytes += (uint64_t)status.st_blocks * 512;
    }
    return bytes;
}

TEST_ONE_THREAD(two_billion_nodes_take_memory_for_those_that_are_touched) {
    const int64_t major[] = {0, 1000000000, 1999999999}, minor[] = {1999999999, 5, 0};
    const aether_live_edges edges = {.src = minor, .dst = major, .count = 3};
    struct timespec from, to;
    uint64_t n;
    aether_error err = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    aether_live *g = live_make((live_spec){.relation = {.num_src = 2000000000,
                                                        .num_dst = 2000000000,
                                                        .layouts = AETHER_LIVE_CSC,
                                                        .order = AETHER_ORDER_ID},
                                           .arena_bytes = UINT64_C(8) << 30});
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    CHECK((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000 < 500);
    CHECK_OK(aether_live_insert(g, 0, &edges, NULL, &n, &err), err);
    CHECK_EQ(n, 3);
    CHECK_EQ(live_degree(g, 1999999999), 1);
    CHECK_EQ(live_degree(g, 1999999998), 0);
    CHECK(memory_of(g) < 4 << 20); /* a huge page at most, and some small ones */
    aether_live_stats stats;
    aether_live_count(g, &stats);
    CHECK_EQ(stats.touched_nodes, 3);
    aether_live_close(g);
}

TEST_ONE_THREAD(nodes_are_added_up_to_the_room) {
    live_spec o = plain;
    o.relation.max_dst = MODEL_NODES + 2;
    aether_live *g = live_make(o);
    aether_error err = {0};
    aether_snapshot *old = live_pin(g);
    CHECK_OK(aether_live_add_nodes(g, 0, 5, 1, &err), err);
    CHECK_CODE(aether_live_add_nodes(g, 0, 0, 2, &err), AETHER_E_LIMIT);
    CHECK_HAS(err.message, "max_dst = 66");
    CHECK_CODE(aether_live_add_nodes(g, 0, UINT32_MAX, 0, &err), AETHER_E_LIMIT);
    CHECK_OK(live_insert(g, MODEL_NODES, MODEL_NODES + 4, &err), err);
    CHECK_OK(aether_live_begin(g, &err), err);
    CHECK_OK(aether_live_add_nodes(g, 0, 1, 1, &err), err);
    CHECK_OK(aether_live_abort(g, &err), err);
    CHECK_CODE(live_insert(g, MODEL_NODES + 1, 0, &err), AETHER_E_RANGE);
    aether_snapshot *now = live_pin(g);
    CHECK_EQ(live_lists(old)->num_major, MODEL_NODES);
    CHECK_EQ(live_lists(now)->num_major, MODEL_NODES + 1);
    CHECK_EQ(live_lists(now)->num_minor, MODEL_NODES + 5);
    aether_snapshot_release(old);
    aether_snapshot_release(now);
    aether_live_close(g);
}

TEST_ONE_THREAD(edge_ids_can_be_skipped) {
    live_spec o = plain;
    o.relation.edge_id_bytes = 4;
    aether_live *g = live_make(o);
    aether_error err = {0};
    int64_t id = -1;
    CHECK_OK(aether_live_skip_edge_ids(g, 0, 5, &err), err);
    CHECK_OK(aether_live_insert_one(g, 0, 1, 2, 0, 0, &id, NULL, &err), err);
    CHECK_EQ(id, 5);
    CHECK_OK(aether_live_begin(g, &err), err);
    CHECK_OK(aether_live_skip_edge_ids(g, 0, 10, &err), err);
    CHECK_OK(aether_live_abort(g, &err), err);
    CHECK_CODE(aether_live_skip_edge_ids(g, 0, UINT32_MAX, &err), AETHER_E_LIMIT);
    CHECK_CODE(aether_live_skip_edge_ids(g, 1, 1, &err), AETHER_E_RANGE);
    CHECK_OK(aether_live_insert_one(g, 0, 1, 3, 0, 0, &id, NULL, &err), err);
    CHECK_EQ(id, 6);
    aether_snapshot *s = live_pin(g);
    aether_live_commit_info info;
    CHECK_OK(aether_snapshot_describe(s, 0, &info, &err), err);
    CHECK_EQ(info.num_edges, 2);
    CHECK_EQ(info.end_edge_ids, 7);
    aether_snapshot_release(s);
    aether_live_close(g);
}

TEST_ONE_THREAD(nodes_that_have_changed_are_found) {
    live_spec o = plain;
    o.relation.num_src = o.relation.num_dst = 3000000;
    aether_live *g = live_make(o);
    aether_error err = {0};
    aether_snapshot *first = live_pin(g);
    int64_t nodes[4] = {-1, -1, -1, -1};
    uint64_t count = 9;
    CHECK_OK(aether_snapshot_changed(first, 0, AETHER_LIVE_CSC, 0, nodes, 4, &count, NULL, &err), err);
    CHECK_EQ(count, 0);
    CHECK_OK(live_insert(g, 2999999, 5, &err), err);
    CHECK_OK(live_insert(g, 7, 5, &err), err);
    aether_snapshot *second = live_pin(g);
    CHECK_OK(live_insert(g, 7, 6, &err), err);
    CHECK_OK(live_insert(g, 1000000, 6, &err), err);
    CHECK_OK(live_insert(g, 0, 6, &err), err);
    aether_snapshot *third = live_pin(g);
    aether_live_commit_info info;
    CHECK_OK(aether_snapshot_describe(first, 0, &info, &err), err);
    const uint64_t one = info.epoch;
    CHECK_OK(aether_snapshot_describe(second, 0, &info, &err), err);
    const uint64_t two = info.epoch;
    CHECK(aether_live_last_commit(g) > two);
    CHECK_OK(aether_snapshot_describe(third, 0, &info, &err), err);
    CHECK_EQ(aether_live_last_commit(g), info.epoch);
    CHECK_OK(aether_snapshot_changed(second, 0, AETHER_LIVE_CSC, one, nodes, 4, &count, NULL, &err), err);
    CHECK_EQ(count, 2);
    CHECK_EQ(nodes[0], 7);
    CHECK_EQ(nodes[1], 2999999);
    CHECK_OK(aether_snapshot_changed(third, 0, AETHER_LIVE_CSC, two, nodes, 2, &count, NULL, &err), err);
    CHECK_EQ(count, 3); /* more than there is room for */
    CHECK_EQ(nodes[0], 0);
    CHECK_EQ(nodes[1], 7);
    CHECK_OK(aether_snapshot_changed(third, 0, AETHER_LIVE_CSC, one, nodes, 4, &count, NULL, &err), err);
    CHECK_EQ(count, 4);
    CHECK_EQ(nodes[2], 1000000);
    CHECK_OK(aether_snapshot_changed(second, 0, AETHER_LIVE_CSC, two, nodes, 4, &count, NULL, &err), err);
    CHECK_EQ(count, 0); /* what this very commit has changed is known */
    CHECK_CODE(aether_snapshot_changed(first, 0, AETHER_LIVE_CSC, two, nodes, 4, &count, NULL, &err),
               AETHER_E_RANGE);
    CHECK_CODE(aether_snapshot_changed(first, 0, AETHER_LIVE_CSR, one, nodes, 4, &count, NULL, &err),
               AETHER_E_UNSUPPORTED);
    CHECK(memory_of(g) < 4 << 20); /* untouched pages were not read */
    aether_snapshot_release(first);
    aether_snapshot_release(second);
    aether_snapshot_release(third);
    aether_live_close(g);
}

TEST_ONE_THREAD(values_of_lists_are_copied) {
    live_spec o = plain;
    o.relation.order = AETHER_ORDER_TIME;
    o.relation.columns = AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS;
    aether_live *g = live_make(o);
    aether_error err = {0};
    for (int64_t i = 0; i < 1000; i++) /* latest first, so that order is by time */
        CHECK_OK(aether_live_insert_one(g, 0, i % 7, 3, 1000 - i, (float)(1000 - i) / 2, NULL, NULL, &err),
                 err);
    CHECK_OK(aether_live_insert_one(g, 0, 1, 5, -9, 0.25F, NULL, NULL, &err), err);
    aether_snapshot *s = live_pin(g);
    const int64_t nodes[] = {5, 4, 3};
    int64_t times[1001] = {0};
    double weights[1001] = {0};
    CHECK_OK(aether_topology_neighbors(
                 live_lists(s),
                 AE_SIZED(aether_list_request, .nodes = nodes, .n = 3, .capacity = 1001, .times = times),
                 NULL, &err),
             err);
    CHECK_OK(aether_topology_neighbors(
                 live_lists(s),
                 AE_SIZED(aether_list_request, .nodes = nodes, .n = 3, .capacity = 1001, .weights = weights),
                 NULL, &err),
             err);
    CHECK_EQ(times[0], -9);
    CHECK_EQ((int64_t)(weights[0] * 4), 1);
    for (int64_t i = 1; i < 1001; i++) {
        CHECK_EQ(times[i], i);
        CHECK_EQ((int64_t)(weights[i] * 2), i);
    }
    CHECK_CODE(aether_topology_neighbors(
                   live_lists(s),
                   AE_SIZED(aether_list_request, .nodes = nodes, .n = 3, .capacity = 1000, .times = times),
                   NULL, &err),
               AETHER_E_INVALID);
    aether_snapshot_release(s);
    aether_live_close(g);
}

/* ---- memory that runs out ---- */

enum { MANY = 200000 };

/* Return the bytes in use when nothing waits for readers. */
static uint64_t used(aether_live *g) {
    aether_live_stats stats;
    aether_error err = {0};
    CHECK_OK(aether_live_reclaim(g, &err), err);
    aether_live_count(g, &stats);
    CHECK_EQ(stats.retired_bytes, 0);
    return stats.used_bytes;
}

/* Fill what room there is by a transaction that does not fit, several times. */
static void overfill(live_spec o) {
    static int64_t major[MANY], minor[MANY];
    static int64_t times[MANY];
    uint64_t state = 3, n;
    aether_live *g = live_make(o);
    model shows = model_make(&o.relation, AETHER_LIVE_CSC);
    aether_error err = {0};
    for (int i = 0; i < MANY; i++) {
        major[i] = (int64_t)(test_random(&state) % (i % 2 ? 4 : MODEL_NODES));
        minor[i] = (int64_t)(test_random(&state) % o.relation.num_src);
        times[i] = (int64_t)(test_random(&state) % 1000);
    }
    aether_live_edges edges = {
        .src = minor, .dst = major, .times = o.relation.columns ? times : NULL, .count = 3000};
    REQUIRE_OK(aether_live_insert(g, 0, &edges, NULL, &n, &err), err);
    for (int i = 0; i < 3000; i++)
        model_insert(&shows, major[i], minor[i], times[i], 0);
    for (int round = 0; round < 3; round++) {
        const uint64_t bytes = used(g);
        aether_snapshot *before = live_pin(g);
        edges.count = MANY;
        CHECK_CODE(aether_live_insert(g, 0, &edges, NULL, &n, &err), AETHER_E_NO_MEMORY);
        CHECK_HAS(err.message, "arenas of");
        CHECK_EQ(n, 0);
        aether_snapshot *after = live_pin(g);
        model_check(before, &shows, &state);
        model_check(after, &shows, &state);
        aether_snapshot_release(before);
        aether_snapshot_release(after);
        CHECK_EQ(used(g), bytes);
        /* Deletes need room, too: it is there, because the transaction was undone. */
        const uint64_t deleted = model_delete(&shows, major[round], minor[round], -1);
        CHECK_OK(aether_live_delete(g, 0, &minor[round], &major[round], NULL, 1, &n, &err), err);
        CHECK_EQ(n, deleted);
    }
    aether_snapshot *last = live_pin(g);
    model_check(last, &shows, &state);
    aether_snapshot_release(last);
    model_free(&shows);
    aether_live_close(g);
}

TEST_ONE_THREAD(a_full_arena_undoes_the_transaction) {
    live_spec o = plain;
    o.arena_bytes = 512 << 10;
    o.relation.num_src = 1 << 20;
    overfill(o);
    o.relation.columns = AETHER_LIVE_TIMES;
    overfill(o);
    o.relation.columns = 0;
    o.relation.order = AETHER_ORDER_ID;
    overfill(o);
    o.relation.edge_id_bytes = 0;
    overfill(o);
}

/* The failure comes at each point of a transaction in turn, as room is left for less and less. */
TEST_ONE_THREAD(a_transaction_is_undone_wherever_it_fails) {
    for (uint32_t order = AETHER_ORDER_TIME; order <= AETHER_ORDER_ID; order++) {
        live_spec o = plain;
        o.arena_bytes = 512 << 10;
        o.relation.order = order;
        o.relation.num_src = 1 << 20;
        aether_live *g = live_make(o);
        model shows = model_make(&o.relation, AETHER_LIVE_CSC);
        uint64_t state = 9, failures = 0, n;
        aether_error err = {0};
        for (int step = 0; step < 3000 && failures < 200; step++) {
            const int64_t major = (int64_t)(test_random(&state) % 5);
            int64_t majors[60], minors[60];
            for (int i = 0; i < 60; i++) {
                majors[i] = major;
                minors[i] = (int64_t)(test_random(&state) % (1 << 20));
            }
            const aether_live_edges edges = {.src = minors, .dst = majors, .count = 60};
            const uint64_t bytes = used(g);
            const int rc = aether_live_insert(g, 0, &edges, NULL, &n, &err);
            failures += rc != AETHER_OK;
            if (rc) {
                CHECK_EQ(rc, AETHER_E_NO_MEMORY);
                CHECK_EQ(used(g), bytes);
            }
            for (int i = 0; !rc && i < 60; i++)
                model_insert(&shows, majors[i], minors[i], 0, 0);
        }
        CHECK_EQ(failures, 200);
        aether_snapshot *last = live_pin(g);
        model_check(last, &shows, &state);
        aether_snapshot_release(last);
        model_free(&shows);
        aether_live_close(g);
    }
}

static uint64_t refuse_from;

static int refuse(uint64_t offset, uint64_t size) {
    return offset + size > refuse_from ? ENOMEM : 0;
}

TEST_ONE_THREAD(a_system_without_memory_undoes_the_transaction) {
    static int64_t major[MANY];
    const aether_live_edges edges = {.src = major, .dst = major, .count = MANY};
    aether_live *g = live_make(plain);
    uint64_t n;
    aether_error err = {0};
    refuse_from = 1 << 20;
    ae_shared_set_hooks(&(ae_shared_hooks){.commit = refuse});
    CHECK_OK(live_insert(g, 7, 8, &err), err);
    CHECK_CODE(aether_live_insert(g, 0, &edges, NULL, &n, &err), AETHER_E_NO_MEMORY);
    ae_shared_set_hooks(NULL);
    CHECK_EQ(live_degree(g, 0), 0);
    CHECK_EQ(live_degree(g, 7), 1);
    CHECK_OK(aether_live_insert(g, 0, &edges, NULL, &n, &err), err);
    CHECK_EQ(live_degree(g, 0), MANY);
    aether_live_close(g);
}

/* Rewrites the same list again and again. */
static int churn(aether_live *g, int rounds, aether_error *err) {
    int rc = AETHER_OK;
    for (int i = 0; !rc && i < rounds; i++) {
        rc = live_insert(g, 1, i % 60, err);
        if (!rc)
            rc = live_delete(g, 1, i % 60, err);
    }
    return rc;
}

TEST_ONE_THREAD(a_reader_that_holds_the_arena_is_named) {
    live_spec o = plain;
    o.arena_bytes = 512 << 10;
    o.relation.order = AETHER_ORDER_ID;
    aether_live *g = live_make(o);
    char pid[32];
    aether_error err = {0};
    CHECK_OK(churn(g, 100000, &err), err); /* nothing is left of old versions */
    aether_snapshot *t = live_pin(g);
    CHECK_CODE(churn(g, 100000, &err), AETHER_E_NO_MEMORY);
    snprintf(pid, sizeof pid, "process %d at commit", (int)getpid());
    CHECK_HAS(err.message, pid);
    aether_snapshot_release(t);
    CHECK_OK(churn(g, 100000, &err), err);
    aether_live_close(g);
}

/* ---- cancelling ---- */

static aether_task *looked_at;
static unsigned looks, looks_left;

static int32_t cancel_later(void) {
    looks++;
    looked_at->next_poll = 0; /* at the next look again */
    return looks_left-- == 0;
}

TEST_ONE_THREAD(looking_for_edges_is_cancelled) {
    enum { EDGES = 200000 };
    live_spec o = plain;
    o.arena_bytes = 16 << 20;
    aether_live *g = live_make(o);
    const int64_t hub = 1, none = 5;
    aether_error err;
    uint8_t found;
    CHECK_OK(aether_live_begin(g, &err), err);
    for (unsigned i = 0; i < EDGES; i++)
        CHECK_OK(live_insert(g, hub, 7, &err), err);
    CHECK_OK(aether_live_commit(g, &err), err);
    aether_snapshot *s = live_pin(g);
    aether_task task = {.poll = cancel_later};
    looked_at = &task;
    looks_left = 2; /* in the midst of the list */
    CHECK_CODE(aether_snapshot_has_edges(s, 0, &none, &hub, 1, &found, &task, &err), AETHER_E_CANCELLED);
    CHECK_EQ(looks, 3);
    task = (aether_task){0};
    CHECK_OK(aether_snapshot_has_edges(s, 0, &none, &hub, 1, &found, &task, &err), err);
    CHECK_EQ(found, 0);
    CHECK_EQ(task.done, 1);
    aether_snapshot_release(s);
    aether_live_close(g);
}

/* ---- snapshots ---- */

TEST_ONE_THREAD(a_snapshot_that_is_held_too_long_expires) {
    live_spec o = plain;
    o.arena_bytes = 512 << 10;
    o.relation.order = AETHER_ORDER_ID;
    o.max_snapshot_age = 1;
    aether_live *g = live_make(o);
    const int64_t major = 1;
    int64_t ids[8];
    uint64_t node = 1;
    uint8_t found;
    ae_list list;
    aether_live_stats stats;
    aether_error err = {0};
    CHECK_OK(live_insert(g, 1, 63, &err), err);
    aether_snapshot *s = live_pin(g);
    aether_topology *old = live_lists(s);
    CHECK_OK(old->ops->locate(old, &node, 1, &list, &err), err);
    CHECK_OK(churn(g, 100000, &err), err);
    CHECK_CODE(aether_topology_neighbors(
                   old,
                   AE_SIZED(aether_list_request, .nodes = &major, .n = 1, .capacity = 8, .neighbors = ids),
                   NULL, &err),
               AETHER_E_EXPIRED);
    CHECK_HAS(err.message, "take a new one");
    CHECK_CODE(old->ops->fetch(old, &list.start, 1, (uint64_t *)ids, &err), AETHER_E_EXPIRED);
    CHECK_CODE(old->ops->edge_ids(old, &list.start, 1, (uint64_t *)ids, &err), AETHER_E_EXPIRED);
    CHECK_CODE(aether_snapshot_has_edges(s, 0, &major, &major, 1, &found, NULL, &err), AETHER_E_EXPIRED);
    aether_live_count(g, &stats);
    CHECK_EQ(stats.snapshots, 0);
    aether_snapshot *now = live_pin(g);
    CHECK_OK(aether_topology_neighbors(
                 live_lists(now),
                 AE_SIZED(aether_list_request, .nodes = &major, .n = 1, .capacity = 8, .neighbors = ids),
                 NULL, &err),
             err);
    CHECK_EQ(ids[0], 63);
    CHECK_OK(aether_snapshot_renew(s, &err), err); /* an expired one can be used again */
    CHECK_OK(aether_topology_neighbors(
                 old, AE_SIZED(aether_list_request, .nodes = &major, .n = 1, .capacity = 8, .neighbors = ids),
                 NULL, &err),
             err);
    CHECK_EQ(ids[0], 63);
    aether_snapshot_release(s);
    aether_snapshot_release(now);
    aether_live_close(g);
}

TEST_ONE_THREAD(a_snapshot_that_rests_keeps_nothing) {
    aether_live *g = live_make(plain);
    aether_live_stats stats;
    aether_error err = {0};
    int64_t ids[2] = {-1, -1}, major = 3;
    CHECK_OK(aether_live_insert_one(g, 0, 7, 3, 0, 0, NULL, NULL, &err), err);
    aether_snapshot *s = live_pin(g);
    const aether_topology *lists = live_lists(s);
    for (int i = 0; i < 2; i++)
        aether_snapshot_rest(s); /* twice is once */
    aether_live_count(g, &stats);
    CHECK_EQ(stats.snapshots, 0);
    CHECK_CODE(aether_topology_neighbors(
                   lists,
                   AE_SIZED(aether_list_request, .nodes = &major, .n = 1, .capacity = 2, .neighbors = ids),
                   NULL, &err),
               AETHER_E_EXPIRED);
    CHECK_OK(aether_live_insert_one(g, 0, 8, 3, 0, 0, NULL, NULL, &err), err);
    CHECK_OK(aether_snapshot_renew(s, &err), err);
    aether_live_count(g, &stats);
    CHECK_EQ(stats.snapshots, 1);
    CHECK_OK(aether_topology_neighbors(
                 lists,
                 AE_SIZED(aether_list_request, .nodes = &major, .n = 1, .capacity = 2, .neighbors = ids),
                 NULL, &err),
             err);
    CHECK_EQ(ids[0], 7);
    CHECK_EQ(ids[1], 8);
    aether_snapshot_rest(s);
    aether_live_close(g);
    aether_snapshot_release(s); /* which asks nothing of the graph */
}

TEST_ONE_THREAD(a_snapshot_that_rests_needs_room_again) {
    enum { MOST = 256 };
    aether_live *g = live_make(plain);
    aether_snapshot *t[MOST];
    aether_error err = {0};
    aether_snapshot *s = live_pin(g);
    aether_snapshot_rest(s);
    for (int i = 0; i < MOST; i++)
        t[i] = live_pin(g);
    CHECK_CODE(aether_snapshot_renew(s, &err), AETHER_E_LIMIT);
    for (int i = 0; i < MOST; i++)
        aether_snapshot_release(t[i]);
    CHECK_OK(aether_snapshot_renew(s, &err), err);
    aether_snapshot_release(s);
    aether_live_close(g);
}

TEST_ONE_THREAD(a_graph_has_256_snapshots) {
    enum { MOST = 256 };
    aether_live *g = live_make(plain);
    aether_snapshot *t[MOST], *more = NULL;
    aether_live_stats stats;
    aether_error err = {0};
    for (int i = 0; i < MOST; i++)
        t[i] = live_pin(g);
    CHECK_CODE(aether_snapshot_take(g, &more, &err), AETHER_E_LIMIT);
    CHECK(!more);
    CHECK_OK(live_insert(g, 0, 0, &err), err);
    aether_live_count(g, &stats);
    CHECK_EQ(stats.snapshots, MOST);
    CHECK_EQ(stats.oldest_epoch, 1);
    CHECK_EQ(stats.oldest_pid, getpid());
    CHECK(stats.oldest_age > 0);
    aether_snapshot_release(t[77]);
    t[77] = live_pin(g);
    for (int i = 0; i < MOST; i++)
        aether_snapshot_release(t[i]);
    aether_live_count(g, &stats);
    CHECK_EQ(stats.snapshots, 0);
    CHECK_EQ(stats.oldest_pid, 0);
    CHECK_EQ(stats.oldest_epoch, 2);
    aether_live_close(g);
}

TEST_ONE_THREAD(without_membarrier_readers_fence) {
    const int works = aether_live_has_membarrier();
    ae_membarrier_disable(true);
    CHECK_EQ(aether_live_has_membarrier(), 0);
    live_spec o = plain;
    o.arena_bytes = 512 << 10;
    o.relation.order = AETHER_ORDER_ID;
    aether_live *g = live_make(o);
    aether_error err = {0};
    aether_snapshot *t = live_pin(g);
    CHECK_OK(live_insert(g, 1, 2, &err), err);
    CHECK_EQ(live_degree(g, 1), 1);
    CHECK_CODE(churn(g, 100000, &err), AETHER_E_NO_MEMORY);
    aether_snapshot_release(t);
    CHECK_OK(churn(g, 100000, &err), err);
    aether_live_close(g);
    ae_membarrier_disable(false);
    CHECK_EQ(aether_live_has_membarrier(), works);
}

/* ---- single questions ---- */

static void ask_about(uint32_t order, uint32_t layouts) {
    const live_spec spec = {.relation = {.num_src = 100000,
                                         .num_dst = 50,
                                         .layouts = layouts,
                                         .order = order,
                                         .edge_id_bytes = 4},
                            .arena_bytes = 64 << 20};
    aether_live *g = live_make(spec);
    aether_error err = {0};
    const bool csc = layouts & AETHER_LIVE_CSC, csr = layouts & AETHER_LIVE_CSR;
    for (int64_t i = 0; i < 400; i++)
        CHECK_OK(live_insert(g, i % 7, i, &err), err);
    CHECK_OK(aether_live_begin(g, &err), err);
    CHECK_OK(live_insert(g, 3, 99, &err), err); /* nobody sees it yet */
    CHECK_EQ(aether_live_has_edge(g, 0, 99, 3, &err), 0);
    CHECK_EQ(aether_live_degree(g, 0, AETHER_LIVE_CSC, 3, &err), csc ? 57 : AETHER_E_UNSUPPORTED);
    CHECK_OK(aether_live_commit(g, &err), err);
    CHECK_EQ(aether_live_has_edge(g, 0, 99, 3, &err), 1);
    CHECK_EQ(aether_live_degree(g, 0, AETHER_LIVE_CSC, 3, &err), csc ? 58 : AETHER_E_UNSUPPORTED);
    CHECK_EQ(aether_live_degree(g, 0, AETHER_LIVE_CSR, 99, &err), csr ? 2 : AETHER_E_UNSUPPORTED);
    for (int64_t i = 0; i < 400; i++)
        for (int64_t v = 0; v < 8; v++)
            CHECK_EQ(aether_live_has_edge(g, 0, i, v, &err), i % 7 == v || (i == 99 && v == 3));
    int64_t ids[58] = {0};
    if (csc) {
        CHECK_EQ(aether_live_neighbors(g, 0, AETHER_LIVE_CSC, 3, ids, 57, &err), 58);
        CHECK_EQ(ids[0], 0); /* no room for all: none is copied */
        CHECK_EQ(aether_live_neighbors(g, 0, AETHER_LIVE_CSC, 3, ids, 58, &err), 58);
        int64_t sum = 0;
        for (int64_t i = 0; i < 58; i++)
            sum += ids[i];
        CHECK_EQ(sum, 57 * 3 + 7 * (56 * 57 / 2) + 99); /* 3, 10, .., 395, and 99 */
    }
    CHECK_EQ(aether_live_neighbors(g, 0, AETHER_LIVE_CSR, 99, ids, 58, &err), csr ? 2 : AETHER_E_UNSUPPORTED);
    CHECK(!csr || ids[0] + ids[1] == 4); /* 1 and 3 */
    CHECK_EQ(aether_live_degree(g, 0, csc ? AETHER_LIVE_CSC : AETHER_LIVE_CSR, csc ? 50 : 100000, &err),
             AETHER_E_RANGE);
    CHECK_HAS(err.message, csc ? "node[0] = 50" : "node[0] = 100000");
    CHECK_EQ(aether_live_has_edge(g, 0, 100000, 0, NULL), AETHER_E_RANGE);
    CHECK_EQ(aether_live_has_edge(g, 0, 0, -1, &err), AETHER_E_RANGE);
    CHECK_EQ(aether_live_degree(g, 0, 9, 0, NULL), AETHER_E_UNSUPPORTED);
    CHECK_EQ(aether_live_degree(g, 1, AETHER_LIVE_CSC, 0, NULL), AETHER_E_RANGE);
    aether_live_stats stats;
    aether_live_count(g, &stats);
    CHECK_EQ(stats.snapshots, 0); /* each has let go */
    aether_live_close(g);
}

TEST(single_questions_by_arrival) {
    ask_about(AETHER_ORDER_TIME, AETHER_LIVE_CSC | AETHER_LIVE_CSR);
    ask_about(AETHER_ORDER_TIME, AETHER_LIVE_CSC);
}

TEST(single_questions_by_id) {
    ask_about(AETHER_ORDER_ID, AETHER_LIVE_CSC | AETHER_LIVE_CSR);
    ask_about(AETHER_ORDER_ID, AETHER_LIVE_CSR);
}

TEST(a_long_list_by_time_is_not_searched_in_one_go) {
    enum { LENGTH = 65537 };
    const live_spec spec = {
        .relation = {.num_src = LENGTH, .num_dst = 2, .layouts = AETHER_LIVE_CSC, .order = AETHER_ORDER_TIME},
        .arena_bytes = 64 << 20};
    aether_live *g = live_make(spec);
    static int64_t src[LENGTH], dst[LENGTH];
    aether_error err = {0};
    uint64_t n;
    for (int64_t i = 0; i < LENGTH; i++)
        src[i] = i;
    const aether_live_edges most = {.src = src, .dst = dst, .count = LENGTH - 1};
    CHECK_OK(aether_live_insert(g, 0, &most, NULL, &n, &err), err);
    CHECK_EQ(aether_live_has_edge(g, 0, LENGTH - 2, 0, &err), 1);
    CHECK_OK(live_insert(g, 0, LENGTH - 1, &err), err);
    CHECK_EQ(aether_live_has_edge(g, 0, LENGTH - 2, 0, &err), AETHER_E_LIMIT);
    CHECK_HAS(err.message, "65537 entries");
    CHECK_EQ(aether_live_degree(g, 0, AETHER_LIVE_CSC, 0, &err), LENGTH);
    aether_live_close(g);
}

TEST_MAIN()
