/* The sampler against sample_reference.h, on graphs with hubs, isolated nodes,
 * self-loops and repeated edges; and its limits and errors. */
#include "sample/state.h"
#include "sample_reference.h"

typedef struct graph {
    uint64_t num_nodes, num_edges;
    uint64_t *indptr;
    uint32_t *indices;
    uint64_t *wide; /* the same ids, 64-bit */
    aether_topology *topology, *topology64;
} graph;

static graph make_graph(uint64_t seed, uint64_t num_nodes, uint64_t max_degree) {
    aether_error err = {0};
    graph g = {.num_nodes = num_nodes, .indptr = calloc(num_nodes + 1, sizeof(uint64_t))};
    for (uint64_t v = 0; v < num_nodes; v++) {
        uint64_t kind = test_random(&seed) % 8;
        uint64_t degree = kind == 0 ? 0 : kind == 1 ? max_degree : test_random(&seed) % (max_degree / 8 + 2);
        g.indptr[v + 1] = g.indptr[v] + degree;
    }
    g.num_edges = g.indptr[num_nodes];
    g.indices = calloc(g.num_edges + 1, sizeof(uint32_t));
    g.wide = calloc(g.num_edges + 1, sizeof(uint64_t));
    for (uint64_t e = 0; e < g.num_edges; e++)
        g.wide[e] = g.indices[e] = (uint32_t)(test_random(&seed) % num_nodes);
    aether_lists lists = {num_nodes, num_nodes, g.num_edges, g.indptr, g.indices, NULL, 4, 8};
    CHECK_OK(aether_topology_create(&lists, &g.topology, &err), err);
    lists.indices = g.wide;
    lists.id_bytes = 8;
    CHECK_OK(aether_topology_create(&lists, &g.topology64, &err), err);
    return g;
}

static void free_graph(graph *g) {
    aether_topology_destroy(g->topology);
    aether_topology_destroy(g->topology64);
    free(g->indptr);
    free(g->indices);
    free(g->wide);
}

static int64_t out_node[REF_MAX], out_row[REF_MAX], out_col[REF_MAX], out_edge[REF_MAX], out_batch[REF_MAX];
static reference expected;

static void check_same(const char *what, const int64_t *actual, const uint64_t *wanted, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (actual[i] != (int64_t)wanted[i]) {
            TEST_FAIL("%s[%" PRIu64 "] is %" PRId64 ", expected %" PRIu64, what, i, actual[i], wanted[i]);
            return;
        }
}

/* In compressed form: offsets say what col says, hop by hop. */
static void check_layers(const aether_sampler *s, const aether_sample_options *o) {
    static int64_t all[3 * REF_MAX + 4 * (REF_MAX + 1)];
    const bool layered = o->flags & AETHER_SAMPLE_LAYERED && !(o->flags & AETHER_SAMPLE_INDUCED);
    uint64_t nodes = 0, count = expected.num_nodes + 2 * expected.num_edges, edge = 0;
    const int64_t *rows = all + expected.num_nodes, *offsets = all + count;
    aether_error err = {0};
    for (uint32_t h = 0; layered && h < o->num_hops; h++)
        count += (nodes += expected.hop_nodes[h]) + 1;
    CHECK_EQ(aether_sample_export_layers(s, all, count + 1, &err), AETHER_E_INVALID);
    REQUIRE_OK(aether_sample_export_layers(s, all, count, &err), err);
    check_same("node", all, expected.node, expected.num_nodes);
    check_same("row", rows, expected.row, expected.num_edges);
    check_same("edge", rows + expected.num_edges, expected.edge, expected.num_edges);
    nodes = 0;
    const int64_t *at = offsets;
    for (uint32_t h = 0; layered && h < o->num_hops; h++, at++) {
        const uint64_t begin = edge;
        nodes += expected.hop_nodes[h];
        for (uint64_t v = 0; v < nodes; v++, at++) {
            CHECK_EQ(*at, (int64_t)(edge - begin));
            while (edge < begin + expected.hop_edges[h] && expected.col[edge] == v)
                edge++;
        }
        CHECK_EQ(*at, (int64_t)expected.hop_edges[h]);
    }
}

static void check_sample(const graph *g, aether_sampler *s, const int64_t *seeds, uint64_t n,
                         const aether_sample_options *o) {
    aether_error err = {0};
    uint64_t hop_nodes[16], hop_edges[16], totals[2];
    bool disjoint = o->flags & AETHER_SAMPLE_DISJOINT;
    ref_sample(&expected, g->indptr, g->indices, seeds, n, o);
    REQUIRE_OK(aether_sample(s, seeds, n, o,
                             AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, totals, totals + 1), &err),
               err);
    CHECK_EQ(totals[0], expected.num_nodes);
    CHECK_EQ(totals[1], expected.num_edges);
    REQUIRE(totals[0] == expected.num_nodes && totals[1] == expected.num_edges);
    REQUIRE_OK(
        aether_sample_export(s,
                             AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = totals[0],
                                      .num_edges = totals[1], .node = out_node, .row = out_row,
                                      .col = out_col, .edge = out_edge, .batch = disjoint ? out_batch : NULL),
                             &err),
        err);
    check_same("node", out_node, expected.node, totals[0]);
    check_same("row", out_row, expected.row, totals[1]);
    check_same("col", out_col, expected.col, totals[1]);
    check_same("edge", out_edge, expected.edge, totals[1]);
    if (disjoint)
        check_same("batch", out_batch, expected.tree, totals[0]);
    check_same("hop_nodes", (int64_t *)hop_nodes, expected.hop_nodes, o->num_hops + 1);
    check_same("hop_edges", (int64_t *)hop_edges, expected.hop_edges, o->num_hops);
    check_layers(s, o);
}

/* Some positions to exclude: few, many, or nearly all. */
static uint64_t positions[REF_MAX];

static uint64_t exclude_some(const graph *g, uint64_t *state) {
    const uint64_t parts[] = {200, 3, 2, 1};
    uint64_t part = parts[test_random(state) % 4], n = 0;
    for (uint64_t p = 0; p < g->indptr[g->num_nodes]; p++)
        if (part == 1 ? test_random(state) % 20 != 0 : test_random(state) % part == 0)
            positions[n++] = p;
    return n;
}

static void compare_many(uint64_t num_nodes, uint64_t max_degree, uint64_t rounds, uint32_t threads) {
    const uint32_t flags[] = {0,
                              AETHER_SAMPLE_REPLACE,
                              AETHER_SAMPLE_DISJOINT,
                              AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_REPLACE,
                              AETHER_SAMPLE_INDUCED,
                              AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_INDUCED,
                              AETHER_SAMPLE_LAYERED,
                              AETHER_SAMPLE_LAYERED | AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_REPLACE,
                              AETHER_SAMPLE_LAYERED | AETHER_SAMPLE_INDUCED};
    const int64_t choices[] = {-1, 0, 1, 2, 5, 10, 70};
    graph g = make_graph(num_nodes, num_nodes, max_degree);
    aether_error err = {0};
    aether_sampler *s = NULL, *s64 = NULL;
    CHECK_OK(aether_sampler_create(g.topology, &s, &err), err);
    CHECK_OK(aether_sampler_create(g.topology64, &s64, &err), err);
    uint64_t state = 7 * num_nodes + threads;
    for (uint64_t round = 0; round < rounds; round++) {
        int64_t seeds[12], fanouts[3];
        uint64_t n = test_random(&state) % 13;
        for (uint64_t i = 0; i < n; i++)
            seeds[i] = (int64_t)(test_random(&state) % num_nodes);
        for (int h = 0; h < 3; h++)
            fanouts[h] = choices[test_random(&state) % (num_nodes > 100 ? 6 : 7)];
        aether_sample_options o = {.key = test_random(&state),
                                   .fanouts = fanouts,
                                   .num_hops = (uint32_t)(test_random(&state) % 4),
                                   .flags = flags[round % (sizeof flags / sizeof *flags)],
                                   .num_threads = threads};
        check_sample(&g, s, seeds, n, &o);
        check_sample(&g, s64, seeds, n, &o);
        aether_excluded exclude = {positions, exclude_some(&g, &state)};
        o.exclude = &exclude;
        check_sample(&g, s, seeds, n, &o);
        check_sample(&g, s64, seeds, n, &o);
    }
    aether_sampler_destroy(s);
    aether_sampler_destroy(s64);
    free_graph(&g);
}

TEST(matches_reference_on_tiny_graphs) {
    compare_many(3, 4, 200, 1);
}
TEST_ONE_THREAD(matches_reference_with_hubs) {
    compare_many(60, 150, 200, 1);
}
TEST(matches_reference_on_sparse_graphs) {
    compare_many(2000, 20, 60, 1);
}
TEST(matches_reference_with_two_threads) {
    compare_many(60, 150, 40, 2);
}

/* Hops large enough that several threads take part; one thread is the reference. */
static void compare_threads(uint32_t flags) {
    graph g = make_graph(5, 5000, 60);
    aether_error err = {0};
    aether_sampler *one = NULL, *many = NULL;
    CHECK_OK(aether_sampler_create(g.topology, &one, &err), err);
    CHECK_OK(aether_sampler_create(g.topology, &many, &err), err);
    enum { SEEDS = 4000 };
    int64_t seeds[SEEDS], fanouts[] = {10, 10};
    for (int64_t i = 0; i < SEEDS; i++)
        seeds[i] = (i * 37) % 5000;
    uint64_t hn[2][3], he[2][2], totals[2][2];
    aether_sample_options o = {.key = 3, .fanouts = fanouts, .num_hops = 2, .flags = flags, .num_threads = 1};
    REQUIRE_OK(aether_sample(one, seeds, SEEDS, &o,
                             AE_SIZED(aether_sample_counts, hn[0], he[0], totals[0], totals[0] + 1), &err),
               err);
    o.num_threads = 8;
    REQUIRE_OK(aether_sample(many, seeds, SEEDS, &o,
                             AE_SIZED(aether_sample_counts, hn[1], he[1], totals[1], totals[1] + 1), &err),
               err);
    REQUIRE(memcmp(totals[0], totals[1], sizeof totals[0]) == 0 && totals[0][1] > 20000);
    uint64_t nodes = totals[0][0], edges = totals[0][1];
    int64_t *a = calloc(2 * nodes + 3 * edges, 8), *b = calloc(2 * nodes + 3 * edges, 8);
    bool disjoint = flags & AETHER_SAMPLE_DISJOINT;
    for (int i = 0; i < 2; i++) {
        int64_t *p = i ? b : a;
        CHECK_OK(aether_sample_export(
                     i ? many : one,
                     AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = nodes, .num_edges = edges,
                              .node = p, .row = p + 2 * nodes, .col = p + 2 * nodes + edges,
                              .edge = p + 2 * nodes + 2 * edges, .batch = disjoint ? p + nodes : NULL),
                     &err),
                 err);
    }
    CHECK(memcmp(a, b, (2 * nodes + 3 * edges) * 8) == 0);
    CHECK_OK(
        aether_sample_export_typed(many, nodes, edges, b, disjoint ? b + nodes : NULL, b + 2 * nodes, &err),
        err);
    CHECK(memcmp(a, b, (2 * nodes + 3 * edges) * 8) == 0);
    if (!disjoint)
        CHECK_CODE(aether_sample_export_typed(many, nodes, edges, b, b + nodes, b + 2 * nodes, &err),
                   AETHER_E_INVALID);
    free(a);
    free(b);
    aether_sampler_destroy(one);
    aether_sampler_destroy(many);
    free_graph(&g);
}

TEST(threads_do_not_change_the_sample) {
    compare_threads(0);
}
TEST(threads_do_not_change_a_disjoint_sample) {
    compare_threads(AETHER_SAMPLE_DISJOINT);
}
TEST(threads_do_not_change_a_sample_with_replacement) {
    compare_threads(AETHER_SAMPLE_REPLACE);
}
TEST(threads_do_not_change_a_layered_sample) {
    compare_threads(AETHER_SAMPLE_LAYERED);
    compare_threads(AETHER_SAMPLE_LAYERED | AETHER_SAMPLE_DISJOINT);
}

TEST(int32_output_is_the_same) {
    graph g = make_graph(11, 50, 40);
    aether_error err = {0};
    aether_sampler *s = NULL;
    CHECK_OK(aether_sampler_create(g.topology, &s, &err), err);
    int64_t seeds[] = {1, 2, 2, 9}, fanouts[] = {5, 5};
    aether_sample_options o = {.key = 1, .fanouts = fanouts, .num_hops = 2, .num_threads = 1};
    check_sample(&g, s, seeds, 4, &o);
    static int32_t node[REF_MAX], row[REF_MAX], col[REF_MAX], edge[REF_MAX];
    CHECK_OK(aether_sample_export(s,
                                  AE_SIZED(aether_sample_arrays, .item_bytes = 4,
                                           .num_nodes = expected.num_nodes, .num_edges = expected.num_edges,
                                           .node = node, .row = row, .col = col, .edge = edge),
                                  &err),
             err);
    for (uint64_t i = 0; i < expected.num_nodes; i++)
        CHECK_EQ(node[i], expected.node[i]);
    for (uint64_t i = 0; i < expected.num_edges; i++) {
        CHECK_EQ(row[i], expected.row[i]);
        CHECK_EQ(col[i], expected.col[i]);
        CHECK_EQ(edge[i], expected.edge[i]);
    }
    aether_sampler_destroy(s);
    free_graph(&g);
}

/* Edge ids by position, narrow and wide, over several blocks of the export. */
static void check_edge_ids(const graph *g, uint32_t bytes) {
    aether_error err = {0};
    uint32_t *narrow = calloc(g->num_edges, 4);
    uint64_t *wide = calloc(g->num_edges, 8), hn[3], he[2], totals[2];
    for (uint64_t e = 0; e < g->num_edges; e++) {
        narrow[e] = UINT32_MAX - (uint32_t)e;
        wide[e] = (e + 1) << 33 | e;
    }
    aether_lists lists = {g->num_nodes, g->num_nodes, g->num_edges, g->indptr, g->indices, NULL, 4, bytes};
    lists.edge_ids = bytes == 4 ? (void *)narrow : (void *)wide;
    aether_topology *t = NULL;
    aether_sampler *s = NULL;
    CHECK_OK(aether_topology_create(&lists, &t, &err), err);
    CHECK_OK(aether_sampler_create(t, &s, &err), err);
    int64_t seeds[] = {1, 2, 9}, fanouts[] = {-1, 20};
    aether_sample_options o = {.key = 4, .fanouts = fanouts, .num_hops = 2, .num_threads = 1};
    ref_sample(&expected, g->indptr, g->indices, seeds, 3, &o);
    CHECK_OK(aether_sample(s, seeds, 3, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
             err);
    CHECK(totals[1] == expected.num_edges && totals[1] > 1024);
    CHECK_OK(aether_sample_export(s,
                                  AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = totals[0],
                                           .num_edges = totals[1], .edge = out_edge),
                                  &err),
             err);
    for (uint64_t i = 0; i < totals[1]; i++)
        CHECK_EQ(out_edge[i], bytes == 4 ? narrow[expected.edge[i]] : wide[expected.edge[i]]);
    aether_sampler_destroy(s);
    aether_topology_destroy(t);
    free(narrow);
    free(wide);
}

TEST(edge_ids_of_both_widths) {
    graph g = make_graph(21, 200, 150);
    check_edge_ids(&g, 4);
    check_edge_ids(&g, 8);
    free_graph(&g);
}

TEST(large_fanout_draws_distinct_positions) {
    enum { DEGREE = 5000, K = 3000 };
    uint64_t indptr[] = {0, DEGREE, DEGREE};
    static uint32_t indices[DEGREE];
    aether_lists lists = {2, 2, DEGREE, indptr, indices, NULL, 4, 8};
    aether_error err = {0};
    aether_topology *t = NULL;
    aether_sampler *s = NULL;
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    REQUIRE_OK(aether_sampler_create(t, &s, &err), err);
    int64_t seed = 0, fanout = K;
    uint64_t hn[2], he[1], totals[2];
    aether_sample_options o = {.key = 5, .fanouts = &fanout, .num_hops = 1, .num_threads = 1};
    REQUIRE_OK(
        aether_sample(s, &seed, 1, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
        err);
    CHECK_EQ(totals[1], K);
    REQUIRE_OK(aether_sample_export(s,
                                    AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = totals[0],
                                             .num_edges = totals[1], .edge = out_edge),
                                    &err),
               err);
    static uint8_t seen[DEGREE];
    for (int i = 0; i < K; i++) {
        CHECK(out_edge[i] >= 0 && out_edge[i] < DEGREE && !seen[out_edge[i]]);
        seen[out_edge[i]] = 1;
    }
    aether_sampler_destroy(s);
    aether_topology_destroy(t);
}

TEST(bad_seeds_and_settings_are_named) {
    graph g = make_graph(2, 10, 6);
    aether_error err = {0};
    aether_sampler *s = NULL;
    CHECK_OK(aether_sampler_create(g.topology, &s, &err), err);
    int64_t seeds[] = {1, 10}, negative[] = {-1}, fanout = 2, below = -2;
    uint64_t hn[2], he[1], totals[2];
    aether_sample_options o = {.fanouts = &fanout, .num_hops = 1, .num_threads = 1};
    CHECK_CODE(
        aether_sample(s, seeds, 2, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
        AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    CHECK_EQ(err.value, 10);
    CHECK_CODE(
        aether_sample(s, negative, 1, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
        AETHER_E_RANGE);
    CHECK_HAS(err.message, "seeds[0] = -1");
    o.fanouts = &below;
    CHECK_CODE(
        aether_sample(s, seeds, 1, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
        AETHER_E_INVALID);
    o.fanouts = &fanout;
    o.flags = 64;
    CHECK_CODE(
        aether_sample(s, seeds, 1, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
        AETHER_E_INVALID);
    o.flags = 0;
    uint64_t twice[] = {1, 1}, beyond[] = {g.indptr[g.num_nodes]};
    aether_excluded exclude = {twice, 2};
    o.exclude = &exclude;
    CHECK_CODE(
        aether_sample(s, seeds, 1, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
        AETHER_E_INVALID);
    CHECK_HAS(err.message, "excluded[1] = 1");
    exclude = (aether_excluded){beyond, 1};
    CHECK_CODE(
        aether_sample(s, seeds, 1, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
        AETHER_E_INVALID);
    o.exclude = NULL;
    check_sample(&g, s, seeds, 1, &o); /* still usable */
    const uint64_t nodes = expected.num_nodes, edges = expected.num_edges;
    CHECK_CODE(aether_sample_export(s,
                                    AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = nodes,
                                             .num_edges = edges, .batch = out_batch),
                                    &err),
               AETHER_E_INVALID);
    CHECK_HAS(err.message, "disjoint");
    CHECK_CODE(aether_sample_export(s,
                                    AE_SIZED(aether_sample_arrays, .item_bytes = 3, .num_nodes = nodes,
                                             .num_edges = edges, .node = out_node),
                                    &err),
               AETHER_E_INVALID);
    CHECK_HAS(err.message, "item_bytes is 3");
    for (int by = -1; by <= 1; by += 2) { /* arrays of another length than the sample's */
        out_node[0] = out_edge[0] = -7;
        CHECK_CODE(aether_sample_export(s,
                                        AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                                 .num_nodes = nodes + (uint64_t)by, .num_edges = edges,
                                                 .node = out_node),
                                        &err),
                   AETHER_E_INVALID);
        CHECK_HAS(err.message, "nodes, the sample has");
        CHECK_CODE(aether_sample_export(s,
                                        AE_SIZED(aether_sample_arrays, .item_bytes = 4, .num_nodes = nodes,
                                                 .num_edges = edges + (uint64_t)by, .edge = out_edge),
                                        &err),
                   AETHER_E_INVALID);
        CHECK_HAS(err.message, "edges, the sample has");
        CHECK(out_node[0] == -7 && out_edge[0] == -7);
    }
    aether_sampler_destroy(s);
    free_graph(&g);
}

TEST(damaged_lists_are_reported_not_followed) {
    uint64_t indptr[] = {0, 50, 4};
    uint32_t indices[] = {0, 1, 7, 0};
    aether_lists lists = {2, 2, 4, indptr, indices, NULL, 4, 8};
    aether_error err = {0};
    aether_topology *t = NULL;
    aether_sampler *s = NULL;
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    REQUIRE_OK(aether_sampler_create(t, &s, &err), err);
    int64_t seed = 0, fanout = -1;
    uint64_t hn[2], he[1], totals[2];
    aether_sample_options o = {.fanouts = &fanout, .num_hops = 1, .num_threads = 1};
    CHECK_CODE(
        aether_sample(s, &seed, 1, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
        AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 0);
    indptr[1] = 4; /* a good list now, with an id out of range */
    CHECK_CODE(
        aether_sample(s, &seed, 1, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
        AETHER_E_CORRUPT);
    CHECK_EQ(err.value, 7);
    indices[2] = 1;
    CHECK_OK(aether_sample(s, &seed, 1, &o, AE_SIZED(aether_sample_counts, hn, he, totals, totals + 1), &err),
             err);
    CHECK_EQ(totals[1], 4);
    aether_sampler_destroy(s);
    aether_topology_destroy(t);
}

TEST(topology_answers_degrees_and_lists) {
    graph g = make_graph(3, 40, 30);
    aether_error err = {0};
    int64_t degrees[40];
    CHECK_OK(aether_topology_degrees(g.topology, NULL, 40, degrees, NULL, &err), err);
    for (int v = 0; v < 40; v++)
        CHECK_EQ(degrees[v], g.indptr[v + 1] - g.indptr[v]);
    int64_t nodes[] = {5, 0, 5};
    uint64_t total = (uint64_t)(2 * degrees[5] + degrees[0]);
    CHECK_OK(aether_topology_neighbors(g.topology,
                                       AE_SIZED(aether_list_request, .nodes = nodes, .n = 3,
                                                .capacity = total, .neighbors = out_node, .edges = out_edge),
                                       NULL, &err),
             err);
    for (int64_t i = 0; i < degrees[5]; i++) {
        CHECK_EQ(out_node[i], g.indices[g.indptr[5] + (uint64_t)i]);
        CHECK_EQ(out_edge[i], g.indptr[5] + (uint64_t)i);
    }
    nodes[1] = 40;
    CHECK_CODE(aether_topology_degrees(g.topology, nodes, 3, degrees, NULL, &err), AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    free_graph(&g);
}

/* More seeds than nodes use up local ids beyond the number of keys: at the
 * wraparound of the id map the sample must still be the same. */
TEST(repeated_seeds_at_the_wraparound) {
    graph g = make_graph(4, 4, 3);
    aether_error err = {0};
    aether_sampler *s = NULL;
    REQUIRE_OK(aether_sampler_create(g.topology, &s, &err), err);
    static int64_t seeds[4000];
    for (int i = 0; i < 4000; i++)
        seeds[i] = i % 4;
    int64_t fanouts[] = {-1};
    aether_sample_options o = {.fanouts = fanouts, .num_hops = 1, .num_threads = 1};
    check_sample(&g, s, seeds, 4, &o);
    for (uint32_t below = 1; below < 4500; below += 500) {
        s->nodes[0].map.base = UINT32_MAX - below;
        o.flags = below % 1000 == 1 ? AETHER_SAMPLE_INDUCED : 0;
        check_sample(&g, s, seeds, 4000, &o);
    }
    aether_sampler_destroy(s);
    free_graph(&g);
}

/* Recorded once: a change here changes every sample ever drawn. */
TEST(the_generator_keeps_its_values) {
    uint64_t draws[3];
    aether_rng_draws(1, 0, 0, 0, UINT64_MAX, 3, draws);
    for (uint64_t i = 0; i < 3; i++)
        CHECK_EQ(draws[i], ae_rng_draw(ae_rng_stream(ae_rng_base(1, 0, 0), 0, UINT64_MAX), i));
    uint64_t seeded[1];
    aether_rng_draws(1, 2, 0, 3, 4, 1, seeded);
    CHECK_EQ(draws[0], UINT64_C(0xf0e0e7be2fcf87ed));
    CHECK_EQ(draws[2], UINT64_C(0x477203fc7af79e35));
    CHECK_EQ(seeded[0], UINT64_C(0xf1a535055efb7cf8));
    const int64_t ids[] = {7, 0, -1}, turned[] = {-1, 0, 7};
    CHECK_EQ(aether_hash_ids(NULL, 0), UINT64_C(537811230735318210));
    CHECK_EQ(aether_hash_ids(ids, 3), UINT64_C(169925920030830071));
    CHECK(aether_hash_ids(turned, 3) != aether_hash_ids(ids, 3));
    CHECK_EQ(aether_hash_id_set(ids, 3), UINT64_C(5789484036668354450));
    CHECK_EQ(aether_hash_id_set(turned, 3), aether_hash_id_set(ids, 3));
}

TEST_MAIN()
