/* Large batches, which two threads put into the two layouts of a relation: what comes of it is what one
 * thread makes of the same batches, whether memory suffices, is scarce, or ends. */
#include <pthread.h>

#include "live_helpers.h"
#include "topology/topology.h"

enum { NODES = 3000, MANY = 33000, BATCHES = 3, ENTRIES = (BATCHES + 1) * MANY };

typedef struct edges {
    int64_t src[MANY], dst[MANY], times[MANY];
    float weights[MANY];
} edges;

static aether_live *make(uint32_t order, uint32_t columns, uint64_t arena_bytes) {
    return live_make((live_spec){.relation = {.num_src = NODES,
                                              .num_dst = NODES,
                                              .layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR,
                                              .order = order,
                                              .columns = columns,
                                              .edge_id_bytes = 8},
                                 .arena_bytes = arena_bytes});
}

/* Make edges with hubs, late ones, and some twice. `skewed`: all go to few nodes, so that one layout needs
 * more memory than the other. */
static void make_edges(edges *e, bool skewed, uint64_t *state) {
    for (uint64_t i = 0; i < MANY; i++) {
        e->src[i] = (int64_t)(test_random(state) % NODES);
        e->dst[i] = (int64_t)(test_random(state) % (skewed || test_random(state) % 3 ? 3 : NODES));
        e->times[i] = (int64_t)(i + (test_random(state) % 50 ? 0 : test_random(state) % 1000));
        e->weights[i] = (float)(test_random(state) % 1000) / 7;
    }
}

static int insert(aether_live *g, int threads, uint32_t columns, const edges *e, int64_t *ids,
                  uint64_t *inserted, aether_error *err) {
    const aether_live_edges all = {e->src, e->dst, columns & AETHER_LIVE_TIMES ? e->times : NULL,
                                   columns & AETHER_LIVE_WEIGHTS ? e->weights : NULL, MANY};
    CHECK_CODE(aether_set_num_threads(threads, NULL), AETHER_OK);
    const int rc = aether_live_insert(g, 0, &all, ids, inserted, err);
    CHECK_CODE(aether_set_num_threads(2, NULL), AETHER_OK);
    return rc;
}

static void read_all(const aether_live *g, uint32_t layout, int64_t *degrees, int64_t *ids,
                     int64_t *numbers) {
    aether_error err = {0};
    aether_snapshot *s = live_pin(g);
    const aether_topology *t = aether_snapshot_topology(s, 0, layout);
    memset(ids, 0, ENTRIES * sizeof *ids);
    memset(numbers, 0, ENTRIES * sizeof *numbers);
    CHECK_OK(aether_topology_degrees(t, NULL, NODES, degrees, NULL, &err), err);
    CHECK_OK(aether_topology_neighbors(t,
                                       AE_SIZED(aether_list_request, .n = NODES, .capacity = ENTRIES,
                                                .neighbors = ids, .edges = numbers),
                                       NULL, &err),
             err);
    aether_snapshot_release(s);
}

static void compare(const aether_live *a, const aether_live *b) {
    static int64_t degrees[2][NODES], ids[2][ENTRIES], numbers[2][ENTRIES];
    aether_live_stats x, y;
    for (uint32_t layout = AETHER_LIVE_CSC; layout <= AETHER_LIVE_CSR; layout++) {
        read_all(a, layout, degrees[0], ids[0], numbers[0]);
        read_all(b, layout, degrees[1], ids[1], numbers[1]);
        CHECK(memcmp(degrees[0], degrees[1], sizeof degrees[0]) == 0);
        CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
        CHECK(memcmp(numbers[0], numbers[1], sizeof numbers[0]) == 0);
    }
    aether_live_count(a, &x);
    aether_live_count(b, &y);
    CHECK_EQ(x.num_edges, y.num_edges);
}

static edges batch;
static int64_t ids[2][MANY];

TEST(two_threads_make_what_one_makes) {
    static const struct {
        uint32_t order, columns;
    } kinds[] = {{AETHER_ORDER_TIME, 0},
                 {AETHER_ORDER_TIME, AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS},
                 {AETHER_ORDER_ID, AETHER_LIVE_WEIGHTS}};
    for (uint32_t k = 0; k < (TEST_ONLY_RACES ? 1 : 3); k++) {
        aether_live *g[2];
        uint64_t state = k, inserted[2];
        aether_error err = {0};
        for (int i = 0; i < 2; i++)
            g[i] = make(kinds[k].order, kinds[k].columns, 64 << 20);
        for (int b = 0; b < BATCHES; b++) {
            aether_live_stats stats[2];
            make_edges(&batch, b == 1, &state);
            for (int i = 0; i < 2; i++) {
                REQUIRE_OK(
                    insert(g[i], i + 1, kinds[k].columns, &batch, b == 2 ? NULL : ids[i], &inserted[i], &err),
                    err);
                CHECK_OK(aether_live_reclaim(g[i], &err), err);
                aether_live_count(g[i], &stats[i]);
            }
            CHECK_EQ(inserted[0], inserted[1]);
            CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
            CHECK_EQ(stats[0].touched_nodes, stats[1].touched_nodes);
            CHECK_EQ(stats[0].used_bytes, stats[1].used_bytes);
            CHECK_EQ(stats[0].retired_bytes, stats[1].retired_bytes);
            compare(g[0], g[1]);
        }
        for (int i = 0; i < 2; i++)
            aether_live_close(g[i]);
    }
}

TEST(undone_by_both) {
    aether_live *g = make(AETHER_ORDER_ID, 0, 64 << 20), *twin = make(AETHER_ORDER_ID, 0, 64 << 20);
    uint64_t state = 7, inserted;
    aether_error err = {0};
    make_edges(&batch, false, &state);
    CHECK_OK(insert(g, 2, 0, &batch, ids[0], &inserted, &err), err);
    CHECK_OK(insert(twin, 1, 0, &batch, ids[0], &inserted, &err), err);
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(aether_live_begin(g, &err), err);
        make_edges(&batch, i == 1, &state);
        CHECK_OK(insert(g, 2, 0, &batch, ids[0], &inserted, &err), err);
        REQUIRE_OK(aether_live_abort(g, &err), err);
        compare(g, twin);
    }
    CHECK_OK(insert(g, 2, 0, &batch, ids[0], &inserted, &err), err);
    CHECK_OK(insert(twin, 1, 0, &batch, ids[1], &inserted, &err), err);
    CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
    compare(g, twin);
    aether_live_close(g);
    aether_live_close(twin);
}

/* From an arena that holds next to nothing to one that holds all; in between one layout runs out of its half
 * of the memory first, and one thread goes on. */
TEST(memory_that_is_scarce) {
    uint64_t succeeded = 0, failed = 0;
    aether_live *twin = make(AETHER_ORDER_TIME, 0, 64 << 20);
    uint64_t state = 8, inserted;
    aether_error err = {0};
    make_edges(&batch, true, &state);
    CHECK_OK(insert(twin, 1, 0, &batch, ids[0], &inserted, &err), err);
    for (uint64_t arena = 256 << 10; arena <= 4 << 20; arena += 512 << 10) {
        aether_live *g = make(AETHER_ORDER_TIME, 0, arena);
        const int rc = insert(g, 2, 0, &batch, ids[1], &inserted, &err);
        if (rc) {
            failed++;
            CHECK_EQ(rc, AETHER_E_NO_MEMORY);
            CHECK_HAS(err.message, "arenas of");
            CHECK_EQ(inserted, 0);
            CHECK_EQ(live_degree(g, 0), 0);
        } else {
            succeeded++;
            CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
            compare(g, twin);
        }
        CHECK_OK(aether_live_insert_one(g, 0, 1, 1, 0, 0, NULL, NULL, &err), err);
        aether_live_close(g);
    }
    CHECK(succeeded > 1 && failed > 1);
    aether_live_close(twin);
}

/* ---- beside readers ---- */

typedef struct run {
    const aether_live *g;
    atomic_bool done;
} run;

static void *read_on(void *arg) {
    run *r = arg;
    static _Thread_local int64_t degrees[NODES];
    while (!atomic_load(&r->done)) {
        aether_snapshot *s = live_pin(r->g);
        for (uint32_t layout = AETHER_LIVE_CSC; layout <= AETHER_LIVE_CSR; layout++) {
            const aether_topology *t = aether_snapshot_topology(s, 0, layout);
            int64_t sum = 0;
            aether_error err = {0};
            CHECK_OK(aether_topology_degrees(t, NULL, NODES, degrees, NULL, &err), err);
            for (int v = 0; v < NODES; v++)
                sum += degrees[v];
            CHECK_EQ((uint64_t)sum, t->num_edges);
        }
        aether_snapshot_release(s);
    }
    return NULL;
}

TEST(beside_a_reader) {
    aether_live *g = make(AETHER_ORDER_ID, AETHER_LIVE_WEIGHTS, 64 << 20);
    run r = {.g = g};
    pthread_t reader;
    uint64_t state = 9, inserted;
    aether_error err = {0};
    pthread_create(&reader, NULL, read_on, &r);
    for (int i = 0; i < 2; i++) {
        make_edges(&batch, false, &state);
        CHECK_OK(insert(g, 2, AETHER_LIVE_WEIGHTS, &batch, NULL, &inserted, &err), err);
    }
    atomic_store(&r.done, true);
    pthread_join(reader, NULL);
    aether_live_close(g);
}

TEST_MAIN()
