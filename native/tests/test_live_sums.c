/* Running sums of weights that live lists keep: those there are equal, bit for bit, what a snapshot's weights
 * add up to, one after the other. Weights differ so much in size that another order of additions gives other
 * sums. What samplers make of the sums is test_live_sample's affair. */
#include <math.h>
#include <pthread.h>

#include "live/layout.h"
#include "live_helpers.h"

enum { NODES = 4, MINORS = 1 << 20, MOST = 200000, HELD = 4, BLOCK = AE_WEIGHT_SUMS_BLOCK };

static float random_weight(uint64_t *state) {
    const int power = -(int)(test_random(state) % 40);
    return test_random(state) % 9 ? (float)ldexp((double)(test_random(state) % 999 + 1), power) : 0;
}

/* Check the sums of a list; return for how many blocks there are some, and by *blocks how many it has. */
static uint64_t check_sums(const aether_topology *t, uint64_t node, uint64_t *blocks) {
    double weights[BLOCK];
    uint64_t positions[BLOCK], made = 0, wrong = 0;
    ae_weight_sum sum = {0, 0};
    ae_list list;
    aether_error err = {0};
    CHECK_OK(t->ops->locate(t, &node, 1, &list, &err), err);
    const ae_weight_sum *sums = t->ops->weight_sums(t, list, &made);
    *blocks = list.degree / BLOCK;
    CHECK(made <= *blocks);
    CHECK(sums || !made);
    for (uint64_t b = 0; b < made; b++) {
        for (uint64_t i = 0; i < BLOCK; i++)
            positions[i] = list.start + b * BLOCK + i;
        CHECK_OK(t->ops->weights(t, positions, BLOCK, weights, &err), err);
        for (uint64_t i = 0; i < BLOCK; i++) {
            sum.weight += weights[i];
            sum.drawable += weights[i] > 0;
        }
        /* the last one of a base's list is that of the whole list (live/over.c) */
        if (list.start & AE_LIVE_BIT || b + 1 < made || list.degree % BLOCK == 0)
            wrong += memcmp(&sum, &sums[b], sizeof sum) != 0;
    }
    CHECK_EQ(wrong, 0);
    return made;
}

/* Return the blocks that have no sums, though lists of 128 entries or more should. */
static uint64_t check_all(const aether_topology *t) {
    uint64_t missing = 0, blocks;
    for (uint64_t v = 0; v < NODES; v++) {
        const uint64_t made = check_sums(t, v, &blocks);
        missing += blocks >= 2 ? blocks - made : 0;
    }
    return missing;
}

static uint64_t missing(const aether_live *g) {
    aether_snapshot *s = live_pin(g);
    const uint64_t n = check_all(live_lists(s));
    aether_snapshot_release(s);
    return n;
}

static aether_live *make(uint32_t order, uint32_t columns, uint64_t arena_bytes) {
    return live_make((live_spec){.relation = {.num_src = MINORS,
                                              .num_dst = NODES,
                                              .layouts = AETHER_LIVE_CSC,
                                              .order = order,
                                              .columns = columns,
                                              .edge_id_bytes = 4},
                                 .arena_bytes = arena_bytes});
}

/* Insert n edges to a node: ascending from `first` on by `step` in time and id, so that `step` < 0 puts each
 * before the one before. */
static bool timed = true; /* the graph at work has times: the ids of the far ends */

static int insert(aether_live *g, int64_t node, int64_t first, int64_t step, uint64_t n, uint64_t *state,
                  aether_error *err) {
    static _Thread_local int64_t major[MOST], minor[MOST];
    static _Thread_local float weight[MOST];
    uint64_t inserted;
    for (uint64_t i = 0; i < n; i++) {
        major[i] = node;
        minor[i] = (first + (int64_t)i * step) & (MINORS - 1);
        weight[i] = random_weight(state);
    }
    const aether_live_edges edges = {minor, major, timed ? minor : NULL, weight, n};
    return aether_live_insert(g, 0, &edges, NULL, &inserted, err);
}

static void insert_good(aether_live *g, int64_t node, int64_t first, int64_t step, uint64_t n,
                        uint64_t *state) {
    aether_error err = {0};
    REQUIRE_OK(insert(g, node, first, step, n, state, &err), err);
}

enum { TIMED = AETHER_LIVE_WEIGHTS | AETHER_LIVE_TIMES };

static aether_live *make_timed(void) {
    return make(AETHER_ORDER_TIME, TIMED, 128 << 20);
}

/* ---- */

TEST(appending_keeps_all_sums) {
    uint64_t state = 1;
    aether_live *g = make_timed();
    for (int64_t at = 0; at < 40000;) {
        const int64_t n = 1 + (int64_t)(test_random(&state) % (at < 2000 ? 70 : 3000));
        insert_good(g, at % 3, at, 1, (uint64_t)n, &state);
        at += n;
        CHECK_EQ(missing(g), 0);
    }
    aether_live_close(g);
}

/* Small commits may leave a list without sums; a large one makes them whole. */
TEST_ONE_THREAD(a_commit_mends_what_it_is_worth) {
    enum { LENGTH = 150000 };
    uint64_t state = 2, blocks;
    aether_live *g = make_timed();
    insert_good(g, 0, 0, 2, LENGTH, &state);
    CHECK_EQ(missing(g), 0);
    insert_good(g, 0, 2 * LENGTH - 2001, 1, 1, &state); /* near the end: little to do */
    CHECK_EQ(missing(g), 0);
    insert_good(g, 0, 2 * 6401, 1, 1, &state); /* far from it */
    aether_snapshot *before = live_pin(g);
    CHECK_EQ(check_sums(live_lists(before), 0, &blocks), 6402 / BLOCK);
    CHECK_EQ(blocks, (LENGTH + 2) / BLOCK);
    insert_good(g, 0, 2 * LENGTH, 1, 100, &state); /* appended: not worth it */
    CHECK(missing(g) > 0);
    insert_good(g, 0, 501, 2, 4000, &state);
    CHECK_EQ(missing(g), 0);
    CHECK_EQ(check_sums(live_lists(before), 0, &blocks), 6402 / BLOCK);
    aether_snapshot_release(before);
    aether_live_close(g);
}

TEST_ONE_THREAD(undoing_leaves_sums_as_they_were) {
    uint64_t state = 3;
    aether_live *g = make_timed();
    aether_error err = {0};
    insert_good(g, 0, 1000, 1, 30000, &state);
    insert_good(g, 1, 1000, 1, 1000, &state);
    for (int64_t i = 0; i < (TEST_ONLY_RACES ? 2 : 20); i++) {
        REQUIRE_OK(aether_live_begin(g, &err), err);
        for (int64_t node = 0; node < 3; node++) {
            insert_good(g, node, i % 2 ? 40000 : 900 + 200 * i, 1, 500 * (uint64_t)(i + 1), &state);
            REQUIRE_OK(live_delete(g, node, 1000 + 700 * i, &err), err);
        }
        REQUIRE_OK(aether_live_abort(g, &err), err);
        CHECK_EQ(missing(g), 0);
        insert_good(g, 0, 50000 + 100 * i, 1, 70, &state);
        insert_good(g, 1, 50000 + 100 * i, 1, 70, &state);
        CHECK_EQ(missing(g), 0);
    }
    aether_live_close(g);
}

/* An arena that is full: changes fail as before, sums that there are stay right. */
TEST_ONE_THREAD(a_full_arena) {
    uint64_t state = 4;
    aether_live *g = make(AETHER_ORDER_TIME, TIMED, 2 << 20);
    aether_error err = {0};
    int rc = AETHER_OK;
    int64_t at = 0;
    for (; !rc && at < MINORS / 2; at += 500) {
        rc = insert(g, at / 500 % 2, at, 1, 500, &state, &err);
        missing(g);
    }
    CHECK_EQ(rc, AETHER_E_NO_MEMORY);
    for (int64_t i = 0; i < 100; i++) { /* some succeed: what is deleted makes room */
        live_delete(g, i % 2, (int64_t)(test_random(&state) % (uint64_t)at), &err);
        insert(g, i % 2, (int64_t)(test_random(&state) % (uint64_t)at), 1, 1 + (uint64_t)i, &state, &err);
        missing(g);
    }
    aether_live_close(g);
}

TEST(lists_without_weights_have_none) {
    aether_live *g = make(AETHER_ORDER_ID, 0, 1 << 20);
    aether_snapshot *s = live_pin(g);
    CHECK(live_lists(s)->ops->weight_sums == NULL);
    aether_snapshot_release(s);
    aether_live_close(g);
}

/* ---- anything at all, with snapshots that stay ---- */

static void change(aether_live *g, uint64_t *state) {
    const int64_t node = (int64_t)(test_random(state) % NODES);
    const int64_t first = (int64_t)(test_random(state) % MINORS);
    const uint64_t kind = test_random(state) % 6, n = 1 + test_random(state) % (kind < 3 ? 4000 : 20);
    aether_error err = {0};
    if (kind < 5) {
        insert_good(g, node, first, kind % 2 ? 1 : 37, n, state);
        return;
    }
    int64_t major[64], minor[64];
    uint64_t deleted;
    aether_snapshot *s = live_pin(g);
    const aether_topology *t = live_lists(s);
    const uint64_t wide = (uint64_t)node;
    ae_list list;
    REQUIRE_OK(t->ops->locate(t, &wide, 1, &list, &err), err);
    const uint64_t some = list.degree < 64 ? list.degree : 1 + test_random(state) % 63;
    const uint64_t from = list.degree ? test_random(state) % (list.degree - some + 1) : 0;
    for (uint64_t i = 0; i < some; i++) {
        const uint64_t position = list.start + (test_random(state) % 2 ? from + i : list.degree - 1 - i);
        major[i] = node;
        REQUIRE_OK(t->ops->fetch(t, &position, 1, (uint64_t *)&minor[i], &err), err);
    }
    aether_snapshot_release(s);
    REQUIRE_OK(aether_live_delete(g, 0, minor, major, NULL, some, &deleted, &err), err);
}

static void churn(aether_live *g, uint64_t state, int steps) {
    aether_snapshot *held[HELD] = {0};
    uint64_t whole = 0;
    for (int i = 0; i < steps; i++) {
        aether_error err = {0};
        const int parts = 1 + (int)(test_random(&state) % 3);
        const bool undone = test_random(&state) % 6 == 0;
        REQUIRE_OK(aether_live_begin(g, &err), err);
        for (int k = 0; k < parts; k++)
            change(g, &state);
        REQUIRE_OK(undone ? aether_live_abort(g, &err) : aether_live_commit(g, &err), err);
        whole += missing(g) == 0;
        if (held[i % HELD])
            check_all(live_lists(held[i % HELD]));
        aether_snapshot_release(held[i % HELD]);
        held[i % HELD] = live_pin(g);
    }
    for (int i = 0; i < HELD; i++)
        aether_snapshot_release(held[i]);
    CHECK(whole > (uint64_t)steps / 2);
}

TEST_ONE_THREAD(changes_of_all_kinds) {
    const uint32_t columns[] = {AETHER_LIVE_WEIGHTS, TIMED};
    for (uint32_t i = 0; i < 3; i++) {
        aether_live *g = i < 2 ? make(AETHER_ORDER_TIME, columns[i], 256 << 20)
                               : make(AETHER_ORDER_ID, AETHER_LIVE_WEIGHTS, 256 << 20);
        timed = i == 1;
        churn(g, 10 + i, TEST_ONLY_RACES ? 3 : 60);
        timed = true;
        aether_live_close(g);
    }
}

/* ---- beside a writer ---- */

typedef struct run {
    const aether_live *g;
    atomic_bool done;
} run;

static void *read_on(void *arg) {
    run *r = arg;
    while (!atomic_load(&r->done))
        missing(r->g);
    return NULL;
}

TEST(readers_beside_a_writer) {
    run r = {.g = make_timed()};
    aether_live *g = (aether_live *)r.g;
    pthread_t readers[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&readers[i], NULL, read_on, &r);
    uint64_t state = 5;
    for (int64_t at = 0; at < 30000; at += 100) {
        insert_good(g, at / 100 % 3, at, 1, 100, &state);
        insert_good(g, at / 100 % 3, at / 2, 1, 1, &state);
        aether_error err = {0};
        REQUIRE_OK(live_delete(g, at / 100 % 3, at, &err), err);
    }
    atomic_store(&r.done, true);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    aether_live_close(g);
}

/* ---- over a base ---- */

enum { SHORT_ONE = 191, LONG_ONE = 5000, HUB = 80000, BASE_EDGES = SHORT_ONE + LONG_ONE + HUB };

static const uint64_t base_indptr[NODES + 1] = {0, SHORT_ONE, SHORT_ONE, SHORT_ONE + LONG_ONE, BASE_EDGES};
static uint32_t base_ids[BASE_EDGES];
static float base_weights[BASE_EDGES];

/* Lists of a base have no sums until they are given; those that change get some of their own. */
static void check_over_a_base(uint32_t order, bool given) {
    uint64_t state = 11, blocks;
    aether_error err = {0};
    aether_topology *t = NULL;
    aether_weight_sums *sums = NULL;
    for (uint64_t v = 0; v < NODES; v++)
        for (uint64_t i = base_indptr[v]; i < base_indptr[v + 1]; i++)
            base_ids[i] = (uint32_t)(2 * (i - base_indptr[v]));
    for (uint64_t i = 0; i < BASE_EDGES; i++)
        base_weights[i] = random_weight(&state);
    const aether_lists lists = {.indptr = base_indptr,
                                .indices = base_ids,
                                .id_bytes = 4,
                                .num_major = NODES,
                                .num_minor = MINORS,
                                .num_edges = BASE_EDGES};
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    REQUIRE_OK(aether_weight_sums_create(t, base_weights, AETHER_F32, &sums, NULL, &err), err);
    live_spec o = {.relation = {.num_src = MINORS,
                                .num_dst = NODES,
                                .layouts = AETHER_LIVE_CSC,
                                .order = order,
                                .columns = AETHER_LIVE_WEIGHTS,
                                .edge_id_bytes = 4,
                                .base_edges = BASE_EDGES,
                                .base_edge_ids = BASE_EDGES},
                   .arena_bytes = 64 << 20};
    const aether_live_base base = {.lists = t, .weights = base_weights, .last_time = INT64_MAX};
    aether_live *g = NULL;
    REQUIRE_OK(live_create(&o, &g, &err), err);
    CHECK_CODE(aether_live_set_base_sums(g, 0, AETHER_LIVE_CSC, sums, &err), AETHER_E_INVALID);
    REQUIRE_OK(aether_live_set_base(g, 0, AETHER_LIVE_CSC, &base, &err), err);
    CHECK_CODE(aether_live_set_base_sums(g, 0, AETHER_LIVE_CSR, sums, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_live_set_base_sums(g, 1, AETHER_LIVE_CSC, sums, &err), AETHER_E_RANGE);
    const uint64_t all = SHORT_ONE / BLOCK + LONG_ONE / BLOCK + HUB / BLOCK;
    CHECK_EQ(missing(g), all);
    if (given) {
        REQUIRE_OK(aether_live_set_base_sums(g, 0, AETHER_LIVE_CSC, sums, &err), err);
        CHECK_EQ(missing(g), 0);
    }
    timed = false;
    aether_snapshot *before = live_pin(g);
    insert_good(g, 0, 2 * SHORT_ONE, 1, 1, &state); /* behind the last */
    insert_good(g, 2, 2 * LONG_ONE, 1, 1, &state);
    aether_snapshot *s = live_pin(g);
    CHECK_EQ(check_sums(live_lists(s), 0, &blocks), SHORT_ONE / BLOCK + 1);
    CHECK_EQ(check_sums(live_lists(s), 2, &blocks), LONG_ONE / BLOCK);
    CHECK_EQ(check_sums(live_lists(s), 3, &blocks), given ? HUB / BLOCK : 0);
    CHECK_EQ(check_all(live_lists(before)), given ? 0 : all);
    aether_snapshot_release(s);
    insert_good(g, 3, 2 * HUB, 1, 1, &state); /* the first time one edge is worth reading all of it */
    CHECK_EQ(missing(g), 0);
    insert_good(g, 3, 2 * HUB + 1, 1, 3000, &state);
    CHECK_EQ(missing(g), 0);
    insert_good(g, 2, 501, 2, 100, &state);
    insert_good(g, 0, 51, 2, 10, &state);
    CHECK_EQ(missing(g), 0);
    CHECK_EQ(check_all(live_lists(before)), given ? 0 : all);
    aether_snapshot_release(before);
    timed = true;
    aether_live_close(g);
    aether_weight_sums_destroy(sums);
    aether_topology_destroy(t);
}

TEST_ONE_THREAD(lists_over_a_base) {
    for (int given = 0; given < 2; given++) {
        check_over_a_base(AETHER_ORDER_ID, given);
        check_over_a_base(AETHER_ORDER_TIME, given);
    }
}

TEST_MAIN()
