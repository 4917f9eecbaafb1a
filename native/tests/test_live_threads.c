/* A writer beside two readers: whatever the moment, a reader sees a whole commit.
 *
 * The writer notes, before each commit, what the graph will add up to; a reader adds up its
 * snapshot and compares. Runs under ThreadSanitizer as well. */
#include <pthread.h>

#include "core/rng.h"
#include "live_helpers.h"
#include "os/membarrier.h"
#include "topology/topology.h"

enum { NODES = 40, MINORS = 3000, READERS = 2, BATCH = 40 };

#ifdef AE_SANITIZED
enum { COMMITS = 1500 };
#else
enum { COMMITS = 12000 }; /* for long */
#endif

static uint64_t commits(void) {
    return TEST_SANITIZED || test_long() ? COMMITS : COMMITS / 2;
}

typedef struct run {
    aether_live *g;
    uint32_t order;
    atomic_bool done;
    _Atomic uint64_t sums[3 * COMMITS]; /* by commit: of all its edges */
    uint32_t present[NODES][MINORS];    /* edges of each pair, known to the writer */
    uint64_t sum;
} run;

static uint64_t weight_of(uint64_t major, uint64_t minor) {
    return ae_rng_mix(major * MINORS + minor + 1);
}

/* ---- the reader ---- */

static uint64_t add_up(const run *r, const aether_topology *t) {
    uint64_t sum = 0, positions[256], ids[256];
    aether_error err = {0};
    for (uint64_t v = 0; v < NODES; v++) {
        ae_list list;
        CHECK_OK(t->ops->locate(t, &v, 1, &list, &err), err);
        for (uint64_t at = 0, last = 0; at < list.degree;) {
            const uint64_t n = list.degree - at < 256 ? list.degree - at : 256;
            for (uint64_t i = 0; i < n; i++)
                positions[i] = list.start + at + i;
            t->ops->prefetch(t, positions, n);
            CHECK_OK(t->ops->fetch(t, positions, n, ids, &err), err);
            for (uint64_t i = 0; i < n; i++) {
                sum += weight_of(v, ids[i]);
                if (r->order == AETHER_ORDER_ID && at + i)
                    CHECK(last < ids[i]);
                last = ids[i];
            }
            at += n;
        }
    }
    return sum;
}

static void *read_on(void *arg) {
    run *r = arg;
    uint64_t snapshots = 0, last = 0;
    aether_snapshot *s = NULL;
    do { /* once at least: a thread may not run before the writer has ended */
        aether_live_commit_info info;
        aether_error err = {0};
        if (s && snapshots % 3)
            CHECK_OK(aether_snapshot_renew(s, &err), err);
        else {
            aether_snapshot_release(s);
            s = live_pin(r->g);
        }
        const aether_topology *t = live_lists(s);
        CHECK_OK(aether_snapshot_describe(s, 0, &info, &err), err);
        CHECK(info.epoch >= last);
        last = info.epoch;
        CHECK_EQ(add_up(r, t), atomic_load(&r->sums[info.epoch]));
        CHECK_EQ(add_up(r, t), atomic_load(&r->sums[info.epoch]));
        snapshots++;
    } while (!atomic_load(&r->done));
    aether_snapshot_release(s);
    return NULL;
}

/* ---- the writer ---- */

static int64_t random_major(uint64_t *state) {
    return (int64_t)(test_random(state) % 4 ? test_random(state) % 3 : test_random(state) % NODES);
}

static void insert(run *r, uint64_t n, uint64_t *state) {
    int64_t major[BATCH], minor[BATCH];
    uint64_t inserted;
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        major[i] = random_major(state);
        minor[i] = (int64_t)(test_random(state) % MINORS);
        uint32_t *present = &r->present[major[i]][minor[i]];
        if (r->order == AETHER_ORDER_ID && *present)
            continue;
        ++*present;
        r->sum += weight_of((uint64_t)major[i], (uint64_t)minor[i]);
    }
    const aether_live_edges edges = {.src = minor, .dst = major, .count = n};
    CHECK_OK(aether_live_insert(r->g, 0, &edges, NULL, &inserted, &err), err);
}

static void delete (run *r, uint64_t n, uint64_t *state) {
    int64_t major[BATCH], minor[BATCH];
    uint64_t deleted;
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        major[i] = random_major(state);
        minor[i] = (int64_t)(test_random(state) % MINORS);
        for (int tries = 0; tries < 200 && !r->present[major[i]][minor[i]]; tries++)
            minor[i] = (minor[i] + 1) % MINORS;
        uint32_t *present = &r->present[major[i]][minor[i]];
        r->sum -= *present * weight_of((uint64_t)major[i], (uint64_t)minor[i]);
        *present = 0;
    }
    CHECK_OK(aether_live_delete(r->g, 0, minor, major, NULL, n, &deleted, &err), err);
}

/* An undone transaction: the sum stays. */
static void try_in_vain(run *r, uint64_t *state) {
    static uint32_t present[NODES][MINORS];
    const uint64_t sum = r->sum;
    aether_error err = {0};
    memcpy(present, r->present, sizeof present);
    CHECK_OK(aether_live_begin(r->g, &err), err);
    insert(r, BATCH, state);
    delete (r, 5, state);
    r->sum = sum;
    memcpy(r->present, present, sizeof present);
}

static void write_all(run *r) {
    uint64_t state = 5;
    for (uint64_t commit = 2; commit < commits(); commit++) {
        aether_error err = {0};
        const uint64_t kind = test_random(&state) % 50;
        if (kind == 0) {
            try_in_vain(r, &state);
            atomic_store(&r->sums[commit], r->sum);
            CHECK_OK(aether_live_abort(r->g, &err), err);
            continue;
        }
        CHECK_OK(aether_live_begin(r->g, &err), err);
        insert(r, 1 + test_random(&state) % BATCH, &state);
        delete (r, 1 + test_random(&state) % (commit > commits() / 2 ? BATCH : 4), &state);
        atomic_store(&r->sums[commit], r->sum);
        CHECK_OK(aether_live_commit(r->g, &err), err);
    }
}

/* The arena has room for what the writer does while a reader waits for its turn to run. */
static void run_threads(uint32_t order) {
    const live_spec o = {.relation = {.num_src = MINORS,
                                      .num_dst = NODES,
                                      .layouts = AETHER_LIVE_CSC,
                                      .order = order,
                                      .edge_id_bytes = 4},
                         .arena_bytes = UINT64_C(2) << 30};
    static run r;
    pthread_t readers[READERS];
    aether_error err = {0};
    memset(&r, 0, sizeof r);
    r.order = order;
    REQUIRE_OK(live_create(&o, &r.g, &err), err);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(pthread_create(&readers[i], NULL, read_on, &r), 0);
    write_all(&r);
    atomic_store(&r.done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    aether_live_stats stats;
    aether_live_count(r.g, &stats);
    CHECK_EQ(stats.epoch, commits() - 1);
    CHECK_EQ(stats.snapshots, 0);
    aether_live_close(r.g);
}

TEST(order_time) {
    run_threads(AETHER_ORDER_TIME);
}
TEST(order_id) {
    run_threads(AETHER_ORDER_ID);
}
TEST(without_membarrier) {
    ae_membarrier_disable(true);
    run_threads(AETHER_ORDER_ID);
    ae_membarrier_disable(false);
}

/* Single commits follow each other so fast that their numbers are replaced under a reader. */
static void *describe_on(void *arg) {
    run *r = arg;
    while (!atomic_load(&r->done)) {
        aether_live_stats stats;
        aether_error err = {0};
        aether_snapshot *s = live_pin(r->g);
        aether_live_commit_info info;
        CHECK_OK(aether_snapshot_describe(s, 0, &info, &err), err);
        CHECK_EQ(info.num_edges, info.epoch - 1);
        aether_live_count(r->g, &stats);
        CHECK_EQ(stats.num_edges, stats.epoch - 1);
        aether_snapshot_release(s);
    }
    return NULL;
}

static void run_quick_commits(void) {
    const live_spec o = {.relation = {.num_src = NODES,
                                      .num_dst = NODES,
                                      .layouts = AETHER_LIVE_CSC,
                                      .order = AETHER_ORDER_TIME},
                         .arena_bytes = 32 << 20};
    static run r;
    pthread_t readers[READERS];
    aether_error err = {0};
    memset(&r, 0, sizeof r);
    REQUIRE_OK(live_create(&o, &r.g, &err), err);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(pthread_create(&readers[i], NULL, describe_on, &r), 0);
    for (int64_t i = 0; i < 50 * (int64_t)commits(); i++) {
        REQUIRE_OK(live_insert(r.g, i % NODES, i % NODES, &err), err);
        REQUIRE(aether_live_last_commit(r.g) == (uint64_t)i + 2); /* whoever counts meanwhile */
    }
    atomic_store(&r.done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    aether_live_close(r.g);
}

TEST(numbers_of_quick_commits) {
    run_quick_commits();
}
TEST(numbers_of_quick_commits_without_membarrier) {
    ae_membarrier_disable(true);
    run_quick_commits();
    ae_membarrier_disable(false);
}

TEST_MAIN()

/* ---- more nodes ---- */

typedef struct growth {
    aether_live *graphs[2]; /* the writer's, and one that was attached */
    _Atomic bool done;
} growth;

/* Look at the last node of commits, which has an edge, and at the first, which has one from each. */
static void *read_last_nodes(void *state) {
    growth *r = state;
    uint64_t wrong = 0;
    for (bool done = false; !done;) {
        done = atomic_load(&r->done);
        for (int i = 0; i < 2; i++) {
            aether_snapshot *s = NULL;
            aether_live_commit_info now;
            aether_error err;
            CHECK_OK(aether_snapshot_take(r->graphs[i], &s, &err), err);
            CHECK_OK(aether_snapshot_describe(s, 0, &now, &err), err);
            const int64_t nodes[2] = {0, (int64_t)now.num_dst - 1};
            int64_t degrees[2];
            CHECK_OK(aether_topology_degrees(aether_snapshot_topology(s, 0, AETHER_LIVE_CSC), nodes, 2,
                                             degrees, NULL, &err),
                     err);
            wrong += degrees[0] != (int64_t)now.num_edges / 2 || degrees[1] != 1;
            aether_snapshot_release(s);
        }
    }
    CHECK_EQ(wrong, 0);
    return NULL;
}

/* The table is mapped further, in each process when somebody there sees more nodes than before. */
TEST(nodes_are_added_beside_readers) {
    const live_spec spec = {.relation = {.num_src = 2,
                                         .num_dst = 2,
                                         .layouts = AETHER_LIVE_CSC,
                                         .order = AETHER_ORDER_TIME,
                                         .edge_id_bytes = 4},
                            .arena_bytes = 1 << 20};
    growth r = {.graphs = {live_make(spec)}};
    pthread_t readers[READERS];
    aether_error err = {0};
    int32_t fds[4];
    aether_live_descriptors(r.graphs[0], fds);
    REQUIRE_OK(aether_live_attach(fds, 4, &r.graphs[1], &err), err);
    uint64_t n = 2;
    const int64_t src[2] = {0, 0};
    for (int round = 0; round < 60; round++) {
        uint64_t inserted;
        REQUIRE_OK(aether_live_begin(r.graphs[0], &err), err);
        if (round) {
            CHECK_OK(aether_live_add_nodes(r.graphs[0], 0, 0, n / 3 + 1, &err), err);
            n += n / 3 + 1;
        }
        const int64_t dst[2] = {0, (int64_t)n - 1};
        const aether_live_edges edges = {.src = src, .dst = dst, .count = 2};
        CHECK_OK(aether_live_insert(r.graphs[0], 0, &edges, NULL, &inserted, &err), err);
        CHECK_OK(aether_live_commit(r.graphs[0], &err), err);
        for (int i = 0; !round && i < READERS; i++)
            CHECK_EQ(pthread_create(&readers[i], NULL, read_last_nodes, &r), 0);
    }
    CHECK(n > UINT64_C(1) << 24);
    atomic_store(&r.done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    for (int i = 0; i < 2; i++)
        aether_live_close(r.graphs[i]);
}
