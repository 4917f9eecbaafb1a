/* Commits whose stamps come round (live/stamp.h), many times, as most numbers are passed over, with readers
 * beside the writer: each snapshot shows what its commit has, of lists that change often, seldom and never.
 *
 *   commit     FIRST + APART i of transaction i, and those that are undone are transactions, too
 *   step 0     edges 0 -> STILL ... 399 -> STILL
 *   step i     an edge i -> i % BUSY, and the one of KEPT rounds before is deleted
 *              an edge i -> SELDOM + j, where i is a multiple of 2^(j + 6)
 */
#include "live/handle.h"
#include "live_helpers.h"
#include "topology/topology.h"

enum { BUSY = 61, KEPT = 5, SELDOM = 64, SELDOMS = 12, STILL = 80, NODES = 81, OF_STILL = 400, READERS = 2 };
#ifdef AE_SANITIZED
enum { STEPS = 20000 };
#else
enum { STEPS = 100000 };
#endif

#define FIRST ((UINT64_C(1) << 32) - 1000000)
#define APART (AE_STAMP_REACH / 200 + 1)

typedef struct rounds {
    aether_live *g;
    uint64_t begun;                      /* transactions */
    _Atomic uint32_t step_of[STEPS * 2]; /* by transaction */
    atomic_bool done;
    atomic_uint_least64_t held, expired;
    atomic_uint_least64_t at[READERS]; /* commits that they read */
} rounds;

typedef struct reader {
    pthread_t thread;
    rounds *r;
    atomic_uint_least64_t *at;
} reader;

static uint64_t span_of(uint64_t j) {
    return UINT64_C(1) << (j + 6);
}

static uint64_t length_at(uint64_t node, uint64_t step) {
    if (node == STILL)
        return OF_STILL;
    if (node >= SELDOM && node < SELDOM + SELDOMS)
        return step / span_of(node - SELDOM);
    if (node >= BUSY || step < node)
        return 0;
    const uint64_t times = (step - node) / BUSY + (node > 0);
    return times < KEPT ? times : KEPT;
}

static uint64_t entry_at(uint64_t node, uint64_t step, uint64_t i) {
    if (node == STILL)
        return i;
    if (node >= SELDOM)
        return (i + 1) * span_of(node - SELDOM);
    const uint64_t last = step - (step - node) % BUSY;
    return last - (length_at(node, step) - 1 - i) * BUSY;
}

static uint64_t commit_of(const aether_snapshot *s) {
    aether_live_commit_info info = {0};
    aether_error err = {0};
    CHECK_OK(aether_snapshot_describe(s, 0, &info, &err), err);
    return info.epoch;
}

/* Check some lists of a snapshot; return false if it has expired meanwhile. */
static bool check_lists(rounds *r, const aether_snapshot *s, uint64_t *state) {
    const aether_topology *t = live_lists(s);
    aether_error err = {0};
    const uint64_t step = atomic_load(&r->step_of[(commit_of(s) - FIRST) / APART]);
    for (int n = 0; n < 20; n++) {
        const uint64_t node = test_random(state) % NODES;
        uint64_t position, id = 0;
        ae_list list;
        int rc = t->ops->locate(t, &node, 1, &list, &err);
        if (!rc)
            CHECK_EQ(list.degree, length_at(node, step));
        if (!rc && list.degree) {
            const uint64_t i = test_random(state) % list.degree;
            position = list.start + i;
            rc = t->ops->fetch(t, &position, 1, &id, &err);
            if (!rc)
                CHECK_EQ(id, entry_at(node, step, i));
        }
        CHECK(rc == AETHER_OK || rc == AETHER_E_EXPIRED);
        if (rc)
            return false;
    }
    return true;
}

/* Some snapshots are held for longer than others. */
static void *read_on(void *arg) {
    const reader *me = arg;
    rounds *r = me->r;
    aether_snapshot *s = live_pin(r->g);
    aether_error err = {0};
    uint64_t state = 5;
    while (!atomic_load(&r->done)) {
        const bool held = check_lists(r, s, &state);
        const uint64_t chance = test_random(&state) % 8;
        atomic_fetch_add(held ? &r->held : &r->expired, 1);
        if (held && chance < 3)
            continue;
        if (chance == 3)
            aether_snapshot_rest(s);
        CHECK_OK(aether_snapshot_renew(s, &err), err);
        atomic_store(me->at, commit_of(s));
    }
    aether_snapshot_release(s);
    return NULL;
}

/* ThreadSanitizer takes it for a race that an expired snapshot is read, which is noticed afterwards. */
static void wait_for_readers(const rounds *r) {
#ifdef __SANITIZE_THREAD__
    for (int i = 0; i < READERS; i++)
        while (aether_live_last_commit(r->g) - atomic_load(&r->at[i]) > AE_STAMP_REACH / 2)
            sched_yield();
#else
    (void)r;
#endif
}

static int write_step(aether_live *g, uint64_t i) {
    const int64_t src = (int64_t)i, dst = (int64_t)(i % BUSY), gone = (int64_t)i - BUSY * KEPT;
    uint64_t deleted = 0;
    aether_error err = {0};
    int rc = aether_live_insert_one(g, 0, src, dst, 0, 0, NULL, NULL, &err);
    if (!rc && gone > 0) {
        rc = aether_live_delete(g, 0, &gone, &dst, NULL, 1, &deleted, &err);
        CHECK_EQ(deleted, 1);
    }
    for (uint64_t j = 0; !rc && j < SELDOMS; j++)
        if (i % span_of(j) == 0)
            rc = aether_live_insert_one(g, 0, src, (int64_t)(SELDOM + j), 0, 0, NULL, NULL, &err);
    CHECK_OK(rc, err);
    return rc;
}

/* Begin transaction i, which leads to a step. */
static void begin_step(rounds *r, uint64_t step) {
    const uint64_t commit = FIRST + ++r->begun * APART;
    aether_error err = {0};
    r->g->transaction.commit = commit + (ae_stamp_of(commit) == 0);
    REQUIRE_OK(aether_live_begin(r->g, &err), err);
    atomic_store(&r->step_of[r->begun], (uint32_t)step);
}

static void commit_step(rounds *r, uint64_t i) {
    aether_error err = {0};
    if (i % 50 == 0) {
        begin_step(r, i - 1);
        CHECK_OK(write_step(r->g, i), err);
        CHECK_OK(aether_live_abort(r->g, &err), err);
    }
    begin_step(r, i);
    CHECK_OK(write_step(r->g, i), err);
    REQUIRE_OK(aether_live_commit(r->g, &err), err);
}

static void go_round(uint32_t order) {
    static rounds r;
    const live_spec spec = {.relation = {.num_src = STEPS + 1,
                                         .num_dst = NODES,
                                         .layouts = AETHER_LIVE_CSC,
                                         .order = order,
                                         .edge_id_bytes = 8},
                            .arena_bytes = 64 << 20,
                            .first_commit = FIRST};
    reader readers[READERS];
    aether_error err = {0};
    memset(&r, 0, sizeof r);
    r.g = live_make(spec);
    begin_step(&r, 0);
    for (int64_t i = 0; i < OF_STILL; i++)
        CHECK_OK(aether_live_insert_one(r.g, 0, i, STILL, 0, 0, NULL, NULL, &err), err);
    REQUIRE_OK(aether_live_commit(r.g, &err), err);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (reader){.r = &r, .at = &r.at[i]};
        atomic_init(readers[i].at, aether_live_last_commit(r.g));
        CHECK_EQ(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    }
    for (uint64_t i = 1; i <= STEPS; i++) {
        wait_for_readers(&r);
        commit_step(&r, i);
    }
    atomic_store(&r.done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i].thread, NULL);
    CHECK(atomic_load(&r.held) > 100);
    CHECK(aether_live_last_commit(r.g) > STEPS / 3200 * (UINT64_C(1) << 32)); /* rounds */
    aether_snapshot *s = live_pin(r.g);
    uint64_t state = 7;
    for (int i = 0; i < 100; i++)
        CHECK(check_lists(&r, s, &state));
    aether_snapshot_release(s);
    aether_live_close(r.g);
}

TEST(commits_without_an_end_by_arrival) {
    go_round(AETHER_ORDER_TIME);
}

TEST(commits_without_an_end_by_id) {
    go_round(AETHER_ORDER_ID);
}

/* A stamp of 0 would say that the list never changed. */
TEST(a_number_whose_stamp_is_zero_is_passed_over) {
    const live_spec spec = {.relation = {.num_src = 10,
                                         .num_dst = 10,
                                         .layouts = AETHER_LIVE_CSC,
                                         .order = AETHER_ORDER_TIME,
                                         .edge_id_bytes = 4},
                            .arena_bytes = 1 << 20,
                            .first_commit = UINT32_MAX};
    aether_live *g = live_make(spec);
    aether_error err = {0};
    CHECK_OK(live_insert(g, 1, 1, &err), err);
    CHECK_EQ(aether_live_last_commit(g), (UINT64_C(1) << 32) + 1);
    CHECK_EQ(live_degree(g, 1), 1);
    aether_live_close(g);
}

/* Let commits go by, which change node 2. */
static void let_pass(aether_live *g, uint64_t commits) {
    aether_error err = {0};
    for (uint64_t end = aether_live_last_commit(g) + commits; aether_live_last_commit(g) < end;) {
        const uint64_t next = aether_live_last_commit(g) + AE_STAMP_REACH / 40;
        g->transaction.commit = ae_stamp_next_commit((next < end ? next : end) - 1);
        CHECK_OK(live_insert(g, 2, 2, &err), err);
    }
}

/* A snapshot that is too many commits old expires, however fast they came. */
TEST(a_snapshot_is_not_held_for_longer_than_stamps_tell) {
    const live_spec spec = {.relation = {.num_src = 10,
                                         .num_dst = 10,
                                         .layouts = AETHER_LIVE_CSC,
                                         .order = AETHER_ORDER_TIME,
                                         .edge_id_bytes = 4},
                            .arena_bytes = 16 << 20};
    aether_live *g = live_make(spec);
    aether_error err = {0};
    int64_t node = 2, degree;
    CHECK_OK(live_insert(g, 2, 2, &err), err);
    aether_snapshot *s = live_pin(g);
    let_pass(g, AE_STAMP_REACH);
    CHECK_OK(aether_topology_degrees(live_lists(s), &node, 1, &degree, NULL, &err), err);
    CHECK_EQ(degree, 1);
    let_pass(g, AE_STAMP_REACH / 2);
    CHECK_CODE(aether_topology_degrees(live_lists(s), &node, 1, &degree, NULL, &err), AETHER_E_EXPIRED);
    CHECK_OK(aether_snapshot_renew(s, &err), err);
    CHECK_OK(aether_topology_degrees(live_lists(s), &node, 1, &degree, NULL, &err), err);
    CHECK(degree > 50);
    aether_snapshot_release(s);
    aether_live_close(g);
}

/* What has changed is told by stamps: of the last AE_STAMP_REACH commits exactly, else not at all. */
TEST(what_has_changed_is_known_of_the_last_commits) {
    const live_spec spec = {.relation = {.num_src = 10,
                                         .num_dst = 10,
                                         .layouts = AETHER_LIVE_CSC,
                                         .order = AETHER_ORDER_TIME,
                                         .edge_id_bytes = 4},
                            .arena_bytes = 16 << 20,
                            .first_commit = (UINT64_C(1) << 32) - 500};
    aether_live *g = live_make(spec);
    aether_error err = {0};
    int64_t nodes[10];
    uint64_t count;
    CHECK_OK(live_insert(g, 1, 1, &err), err);
    for (int i = 0; i < 990; i++)
        CHECK_OK(live_insert(g, 2, 2, &err), err);
    const uint64_t before = aether_live_last_commit(g);
    CHECK_OK(live_insert(g, 3, 3, &err), err);
    CHECK_OK(live_insert(g, 4, 4, &err), err);
    aether_snapshot *s = live_pin(g);
    CHECK_OK(aether_snapshot_changed(s, 0, AETHER_LIVE_CSC, before, nodes, 10, &count, NULL, &err), err);
    CHECK(count == 2 && nodes[0] == 3 && nodes[1] == 4);
    CHECK_OK(aether_snapshot_changed(s, 0, AETHER_LIVE_CSC, spec.first_commit, nodes, 10, &count, NULL, &err),
             err);
    CHECK_EQ(count, 4);
    let_pass(g, 40 * AE_STAMP_REACH); /* twice round */
    const uint64_t last = aether_live_last_commit(g);
    CHECK_OK(aether_snapshot_renew(s, &err), err);
    CHECK_OK(
        aether_snapshot_changed(s, 0, AETHER_LIVE_CSC, last - AE_STAMP_REACH, nodes, 10, &count, NULL, &err),
        err);
    CHECK(count == 1 && nodes[0] == 2);
    CHECK_CODE(aether_snapshot_changed(s, 0, AETHER_LIVE_CSC, before, nodes, 10, &count, NULL, &err),
               AETHER_E_UNSUPPORTED);
    CHECK_HAS(err.message, "take all nodes for changed");
    CHECK_OK(aether_snapshot_changed(s, 0, AETHER_LIVE_CSC, 0, nodes, 10, &count, NULL, &err), err);
    CHECK_EQ(count, 4);
    aether_snapshot_release(s);
    aether_live_close(g);
}

TEST_MAIN()
