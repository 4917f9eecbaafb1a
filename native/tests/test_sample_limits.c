/* The sampler at sizes that no test could hold in memory, over a topology that
 * computes its lists: node v has DEGREE neighbours, random ones. */
#include "core/rng.h"
#include "sample/state.h"
#include "test.h"

#define DEGREE 3

static uint64_t neighbor_at(const aether_topology *t, uint64_t position) {
    return ae_rng_bounded(ae_rng_mix(position), t->num_minor);
}

static int far_locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                      aether_error *err) {
    (void)err;
    for (uint64_t i = 0; i < n; i++) {
        CHECK(nodes[i] < t->num_major);
        out[i] = (ae_list){nodes[i] * DEGREE, DEGREE};
    }
    return AETHER_OK;
}

static void far_prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    (void)t, (void)positions, (void)n;
}

static int far_fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                     aether_error *err) {
    (void)err;
    for (uint64_t i = 0; i < n; i++)
        ids[i] = neighbor_at(t, positions[i]);
    return AETHER_OK;
}

static int far_edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                        aether_error *err) {
    (void)t, (void)err;
    memcpy(out, positions, n * sizeof *out);
    return AETHER_OK;
}

static const ae_topology_ops far_ops = {
    .locate = far_locate, .prefetch = far_prefetch, .fetch = far_fetch, .edge_ids = far_edge_ids};

static aether_topology far_topology(uint64_t num_nodes) {
    return (aether_topology){.ops = &far_ops,
                             .num_major = num_nodes,
                             .num_minor = num_nodes,
                             .num_edges = DEGREE * num_nodes,
                             .end_positions = DEGREE * num_nodes,
                             .end_edge_ids = DEGREE * num_nodes,
                             .edge_ids_are_positions = true};
}

typedef struct result {
    aether_error err;
    uint64_t hop_nodes[4], hop_edges[3], totals[2];
} result;

static int sample(aether_sampler *s, const int64_t *seeds, uint64_t n, const int64_t *fanouts, uint32_t hops,
                  uint32_t flags, result *r) {
    aether_sample_options o = {
        .key = 9, .fanouts = fanouts, .num_hops = hops, .flags = flags, .num_threads = 1};
    return aether_sample(s, seeds, n, &o,
                         AE_SIZED(aether_sample_counts, r->hop_nodes, r->hop_edges, r->totals, r->totals + 1),
                         &r->err);
}

/* ---- disjoint: a tree and a node share 63 bits ---- */

/* `bits` are needed for a node, so 2^(63 - bits) seeds fit and one more does not. */
static void check_seed_limit(uint64_t num_nodes, uint32_t bits) {
    const uint64_t most = UINT64_C(1) << (63 - bits);
    const int64_t fanout = 1;
    aether_topology t = far_topology(num_nodes);
    aether_sampler *s = NULL;
    result r = {0};
    REQUIRE_OK(aether_sampler_create(&t, &s, &r.err), r.err);
    int64_t *seeds = calloc(most + 1, sizeof *seeds);
    for (uint64_t i = 0; i <= most; i++)
        seeds[i] = (int64_t)(num_nodes - 1 - i % 2);
    CHECK_CODE(sample(s, seeds, most + 1, &fanout, 1, AETHER_SAMPLE_DISJOINT, &r), AETHER_E_LIMIT);
    CHECK_HAS(r.err.message, "smaller batch");
    REQUIRE_OK(sample(s, seeds, most, &fanout, 1, AETHER_SAMPLE_DISJOINT, &r), r.err);
    CHECK_EQ(r.totals[1], most);
    int64_t *node = calloc(2 * most, sizeof *node), *batch = calloc(2 * most, sizeof *batch);
    CHECK_OK(aether_sample_export(s,
                                  AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 2 * most,
                                           .num_edges = most, .node = node, .batch = batch),
                                  &r.err),
             r.err);
    for (uint64_t i = 0; i < most; i++) {
        CHECK_EQ(node[i], seeds[i]);
        CHECK_EQ(batch[i], i);
    }
    CHECK_OK(sample(s, seeds, most + 1, &fanout, 1, 0, &r), r.err); /* no trees, no limit */
    free(seeds);
    free(node);
    free(batch);
    aether_sampler_destroy(s);
}

TEST_ONE_THREAD(disjoint_seeds_beyond_63_bits_are_refused) {
    check_seed_limit(UINT64_C(1) << 60, 60);
    check_seed_limit((UINT64_C(1) << 60) + 1, 61);
    check_seed_limit(UINT64_C(1) << 54, 54);
    check_seed_limit((UINT64_C(1) << 62) + 1, 63);
}

/* ---- 64-bit nodes: the wide id map in a whole sample ---- */

static void check_far_sample(uint64_t num_nodes, uint32_t flags) {
    enum { SEEDS = 40, MOST = SEEDS * (1 + DEGREE + DEGREE * DEGREE) };
    const int64_t fanouts[] = {-1, 2};
    int64_t seeds[SEEDS], node[MOST], row[MOST], col[MOST], edge[MOST], batch[MOST];
    bool disjoint = flags & AETHER_SAMPLE_DISJOINT;
    aether_topology t = far_topology(num_nodes);
    aether_sampler *s = NULL;
    result r = {0};
    REQUIRE_OK(aether_sampler_create(&t, &s, &r.err), r.err);
    for (uint64_t i = 0; i < SEEDS; i++)
        seeds[i] = (int64_t)(num_nodes - 1 - i / 2); /* every one twice */
    REQUIRE_OK(sample(s, seeds, SEEDS, fanouts, 2, flags, &r), r.err);
    CHECK_EQ(s->nodes[0].map.kind, AE_IDMAP_WIDE);
    CHECK_EQ(r.hop_edges[0], SEEDS * DEGREE);
    CHECK_EQ(r.hop_nodes[1], SEEDS / (disjoint ? 1 : 2) * DEGREE);
    REQUIRE_OK(aether_sample_export(s,
                                    AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = r.totals[0],
                                             .num_edges = r.totals[1], .node = node, .row = row, .col = col,
                                             .edge = edge, .batch = disjoint ? batch : NULL),
                                    &r.err),
               r.err);
    for (uint64_t e = 0; e < r.totals[1]; e++) {
        CHECK_EQ(edge[e] / DEGREE, node[col[e]]);
        CHECK_EQ(node[row[e]], neighbor_at(&t, (uint64_t)edge[e]));
        if (disjoint)
            CHECK_EQ(batch[row[e]], batch[col[e]]);
    }
    aether_sampler_destroy(s);
}

TEST_ONE_THREAD(nodes_beyond_32_bits) {
    check_far_sample(UINT64_C(1) << 50, 0);
    check_far_sample(UINT64_C(1) << 50, AETHER_SAMPLE_DISJOINT);
    check_far_sample(UINT64_C(1) << 31, AETHER_SAMPLE_DISJOINT); /* with its tree, more than 32 bits */
}

/* ---- counts ---- */

/* Refused by counting: one below the limit gets as far as asking for memory. */
TEST_ONE_THREAD(the_edges_of_a_sample_stay_below_2_60) {
    const int64_t limit = INT64_C(1) << 60, half = limit / 2;
    int64_t seeds[] = {0, 1, 2, 3}, fanout = limit;
    aether_topology t = far_topology(100);
    aether_sampler *s = NULL;
    result r = {0};
    REQUIRE_OK(aether_sampler_create(&t, &s, &r.err), r.err);
    CHECK_CODE(sample(s, seeds, 1, &fanout, 1, AETHER_SAMPLE_REPLACE, &r), AETHER_E_LIMIT);
    fanout = INT64_MAX; /* the sum of these does not fit 64 bits either */
    CHECK_CODE(sample(s, seeds, 4, &fanout, 1, AETHER_SAMPLE_REPLACE, &r), AETHER_E_LIMIT);
    fanout = limit - 1;
    CHECK_CODE(sample(s, seeds, 1, &fanout, 1, AETHER_SAMPLE_REPLACE, &r), AETHER_E_NO_MEMORY);
    fanout = half;
    CHECK_CODE(sample(s, seeds, 2, &fanout, 1, AETHER_SAMPLE_REPLACE, &r), AETHER_E_LIMIT);
    const int64_t two[] = {1, limit - 1}; /* the hops count together */
    CHECK_CODE(sample(s, seeds, 1, two, 2, AETHER_SAMPLE_REPLACE, &r), AETHER_E_LIMIT);
    CHECK(aether_sampler_memory(s) < 1 << 20);
    fanout = 2;
    CHECK_OK(sample(s, seeds, 4, &fanout, 1, AETHER_SAMPLE_REPLACE, &r), r.err); /* still usable */
    CHECK_EQ(r.totals[1], 8);
    aether_sampler_destroy(s);
}

TEST_ONE_THREAD(a_sampler_needs_as_many_sources_as_destinations) {
    aether_topology t = far_topology(100);
    aether_error err = {0};
    aether_sampler *s = NULL;
    t.num_minor = 101;
    CHECK_CODE(aether_sampler_create(&t, &s, &err), AETHER_E_INVALID);
    CHECK(!s);
}

/* ---- positions that do not count the edges ---- */

TEST_ONE_THREAD(tables_by_position_need_dense_positions) {
    static const float weights[10 * DEGREE];
    static uint64_t table[10 * DEGREE], ids[1];
    aether_topology t = far_topology(10);
    aether_weight_sums *sums = NULL;
    aether_error err = {0};
    const int64_t start = 3, position = 4;
    int64_t out[2];
    t.end_positions++;
    CHECK_CODE(aether_weight_sums_create(&t, weights, AETHER_F32, &sums, NULL, &err), AETHER_E_UNSUPPORTED);
    CHECK_HAS(err.message, "positions of this graph are not 0..29");
    CHECK_CODE(aether_alias_build(&t, weights, AETHER_F32, table, 30, NULL, &err), AETHER_E_UNSUPPORTED);
    CHECK_CODE(aether_members_build(&t, table, 30, NULL, &err), AETHER_E_UNSUPPORTED);
    aether_walk_options o = {.length = 1, .p = 1, .q = 2, .alias = table};
    CHECK_CODE(aether_random_walk(&t, &start, 1, &o, out, NULL, &err), AETHER_E_UNSUPPORTED);
    o.alias = NULL;
    o.members = table;
    CHECK_CODE(aether_random_walk(&t, &start, 1, &o, out, NULL, &err), AETHER_E_UNSUPPORTED);
    o.members = NULL;
    CHECK_OK(aether_random_walk(&t, &start, 1, &o, out, NULL, &err), err);
    CHECK_CODE(aether_topology_ids_from(&t, 4, 1, ids, 8, NULL, &err), AETHER_E_UNSUPPORTED);
    CHECK_OK(aether_topology_ids(&t, &position, 1, ids, 8, NULL, &err), err);
    CHECK_EQ(ids[0], neighbor_at(&t, 4));
}

/* ---- int32 output ---- */

static int export32(uint64_t num_nodes, uint64_t num_edges) {
    const int64_t seed = 5, fanout = 1;
    int32_t node[2], row[1], col[1], edge[1];
    aether_topology t = far_topology(num_nodes);
    aether_sampler *s = NULL;
    result r = {0};
    t.num_edges = t.end_positions = t.end_edge_ids = num_edges;
    CHECK_OK(aether_sampler_create(&t, &s, &r.err), r.err);
    CHECK_OK(sample(s, &seed, 1, &fanout, 1, 0, &r), r.err);
    int rc =
        aether_sample_export(s,
                             AE_SIZED(aether_sample_arrays, .item_bytes = 4, .num_nodes = 2, .num_edges = 1,
                                      .node = node, .row = row, .col = col, .edge = edge),
                             &r.err);
    if (rc == AETHER_OK) {
        CHECK_EQ(node[1], neighbor_at(&t, (uint64_t)edge[0]));
        CHECK_EQ(edge[0] / DEGREE, 5);
    }
    aether_sampler_destroy(s);
    return rc;
}

TEST_ONE_THREAD(int32_output_of_a_large_graph_is_refused) {
    CHECK_CODE(export32(INT32_MAX, INT32_MAX), AETHER_OK);
    CHECK_CODE(export32(UINT64_C(1) << 31, 1), AETHER_E_LIMIT);
    CHECK_CODE(export32(100, UINT64_C(1) << 31), AETHER_E_LIMIT);
}

/* Slots of a small graph can be that many as well: disjoint trees, repeated seeds. */
TEST_ONE_THREAD(int32_output_of_a_large_sample_is_refused) {
    const int64_t seed = 5, fanout = 1;
    aether_topology t = far_topology(100);
    aether_sampler *s = NULL;
    result r = {0};
    REQUIRE_OK(aether_sampler_create(&t, &s, &r.err), r.err);
    REQUIRE_OK(sample(s, &seed, 1, &fanout, 1, 0, &r), r.err);
    s->nodes[0].num_nodes = UINT64_C(1) << 31; /* pretended: nothing is copied out */
    CHECK_CODE(aether_sample_export(s,
                                    AE_SIZED(aether_sample_arrays, .item_bytes = 4,
                                             .num_nodes = s->nodes[0].num_nodes, .num_edges = 1),
                                    &r.err),
               AETHER_E_LIMIT);
    CHECK_CODE(aether_sample_export(s,
                                    AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                             .num_nodes = s->nodes[0].num_nodes, .num_edges = 1),
                                    &r.err),
               AETHER_OK);
    s->nodes[0].num_nodes = INT32_MAX;
    CHECK_CODE(aether_sample_export(
                   s, AE_SIZED(aether_sample_arrays, .item_bytes = 4, .num_nodes = INT32_MAX, .num_edges = 1),
                   &r.err),
               AETHER_OK);
    aether_sampler_destroy(s);
}

TEST_MAIN()
