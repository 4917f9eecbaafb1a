/* HGT sampling against a reference that keeps a score and a state for every node
 * of the graph, on random graphs of several types; and its limits and errors. */
#include <math.h>

#include "sample/hgt.h"
#include "sample_reference.h"

#define MAX_TYPES     3
#define MAX_RELATIONS 5
#define MAX_NODES     200
#define MAX_HOPS      4

typedef struct lists {
    uint64_t num_edges;
    uint64_t indptr[MAX_NODES + 1];
    uint32_t *indices, *edge_ids;
    uint64_t *wide; /* the same ids, 64-bit */
    aether_topology *topology, *topology64;
} lists;

typedef struct graph {
    uint32_t num_types, num_relations;
    uint64_t num_nodes[MAX_TYPES];
    lists lists[MAX_RELATIONS];
    aether_relation relations[MAX_RELATIONS], relations64[MAX_RELATIONS];
} graph;

static void fill_lists(lists *l, uint64_t *state, uint64_t near, uint64_t far, uint64_t max_degree) {
    for (uint64_t v = 0; v < near; v++) {
        uint64_t kind = test_random(state) % 8;
        uint64_t degree = kind == 0 ? 0 : kind == 1 ? max_degree : test_random(state) % (max_degree / 8 + 2);
        l->indptr[v + 1] = l->indptr[v] + (far ? degree : 0);
    }
    uint64_t n = l->num_edges = l->indptr[near];
    l->indices = calloc(n + 1, sizeof(uint32_t));
    l->edge_ids = calloc(n + 1, sizeof(uint32_t));
    l->wide = calloc(n + 1, sizeof(uint64_t));
    for (uint64_t e = 0; e < n; e++) {
        l->wide[e] = l->indices[e] = (uint32_t)(test_random(state) % far);
        l->edge_ids[e] = (uint32_t)(n - 1 - e);
    }
}

static void make_graph(graph *g, uint64_t seed, uint64_t max_nodes, uint64_t max_degree) {
    aether_error err = {0};
    *g = (graph){0};
    g->num_types = 1 + (uint32_t)(test_random(&seed) % MAX_TYPES);
    g->num_relations = (uint32_t)(test_random(&seed) % (MAX_RELATIONS + 1));
    for (uint32_t t = 0; t < g->num_types; t++)
        g->num_nodes[t] = test_random(&seed) % (max_nodes + 1);
    for (uint32_t i = 0; i < g->num_relations; i++) {
        uint32_t from = (uint32_t)(test_random(&seed) % g->num_types);
        uint32_t to = (uint32_t)(test_random(&seed) % g->num_types);
        lists *l = &g->lists[i];
        fill_lists(l, &seed, g->num_nodes[from], g->num_nodes[to], max_degree);
        aether_lists plain = {
            g->num_nodes[from], g->num_nodes[to], l->num_edges, l->indptr, l->indices, l->edge_ids, 4, 4};
        CHECK_OK(aether_topology_create(&plain, &l->topology, &err), err);
        plain.indices = l->wide;
        plain.id_bytes = 8;
        CHECK_OK(aether_topology_create(&plain, &l->topology64, &err), err);
        g->relations[i] = (aether_relation){.topology = l->topology, .from = from, .to = to};
        g->relations64[i] = (aether_relation){.topology = l->topology64, .from = from, .to = to};
    }
}

static void free_graph(graph *g) {
    for (uint32_t i = 0; i < g->num_relations; i++) {
        aether_topology_destroy(g->lists[i].topology);
        aether_topology_destroy(g->lists[i].topology64);
        free(g->lists[i].indices);
        free(g->lists[i].edge_ids);
        free(g->lists[i].wide);
    }
}

static aether_sampler *make_sampler(const graph *g, const aether_relation *relations) {
    aether_error err = {0};
    aether_sampler *s = NULL;
    CHECK_OK(aether_sampler_create_typed(
                 AE_SIZED(aether_schema, relations, g->num_nodes, g->num_relations, g->num_types), &s, &err),
             err);
    return s;
}

/* ---- the reference ---- */

typedef struct scores {
    double of[MAX_NODES];
    bool sampled[MAX_NODES];
} scores;

static reference wanted[MAX_TYPES], links[MAX_RELATIONS];
static scores budget[MAX_TYPES];

static void ref_spread(const graph *g, const aether_hgt_options *o, uint32_t hop, const uint64_t *begin) {
    static uint64_t chosen[REF_MAX];
    for (uint32_t i = 0; i < g->num_relations; i++) {
        const aether_relation *r = &g->relations[i];
        const lists *l = &g->lists[i];
        for (uint64_t v = begin[r->from]; v < wanted[r->from].num_nodes; v++) {
            uint64_t node = wanted[r->from].node[v];
            uint64_t start = l->indptr[node], degree = l->indptr[node + 1] - start;
            uint64_t stream =
                ae_rng_stream(ae_rng_base(o->key, hop + (UINT32_C(1) << 31), i), node, AE_RNG_NO_SEED);
            int64_t most = o->max_neighbors ? (int64_t)o->max_neighbors : -1;
            uint64_t n = ref_positions(degree, most, false, stream, chosen);
            for (uint64_t j = 0; j < n; j++)
                budget[r->to].of[l->indices[start + chosen[j]]] += 1.0 / (double)n;
        }
    }
}

/* One node after the other: the smallest key of what is left. */
static void ref_draw(const graph *g, const aether_hgt_options *o, uint32_t hop, uint32_t type) {
    int64_t count = o->num_samples[type * o->num_hops + hop];
    uint64_t base = ae_rng_base(o->key, hop, type);
    for (int64_t i = 0; i < count; i++) {
        uint64_t best = UINT64_MAX;
        double least = INFINITY;
        for (uint64_t v = 0; v < g->num_nodes[type]; v++) {
            double score = budget[type].of[v];
            if (budget[type].sampled[v] || score <= 0)
                continue;
            uint64_t draw = ae_rng_draw(ae_rng_stream(base, v, AE_RNG_NO_SEED), 0);
            double key = -log(((double)(draw >> 11) + 0.5) * 0x1p-53) / (score * score);
            if (key < least) {
                least = key;
                best = v;
            }
        }
        if (best == UINT64_MAX)
            return;
        budget[type].sampled[best] = true;
        wanted[type].node[wanted[type].num_nodes++] = best;
    }
}

static void ref_edges(const graph *g) {
    for (uint32_t i = 0; i < g->num_relations; i++) {
        const aether_relation *r = &g->relations[i];
        const lists *l = &g->lists[i];
        links[i].num_edges = 0;
        for (uint64_t v = 0; v < wanted[r->from].num_nodes; v++) {
            uint64_t node = wanted[r->from].node[v];
            for (uint64_t p = l->indptr[node]; p < l->indptr[node + 1]; p++) {
                uint64_t row = ref_local(&wanted[r->to], l->indices[p], 0, false);
                if (row != UINT64_MAX)
                    ref_edge(&links[i], row, v, l->edge_ids[p]);
            }
        }
    }
}

static void ref_hgt(const graph *g, const aether_seeds *seeds, const aether_hgt_options *o) {
    uint64_t begin[MAX_TYPES] = {0};
    memset(budget, 0, sizeof budget);
    for (uint32_t t = 0; t < g->num_types; t++) {
        wanted[t].num_nodes = wanted[t].hop_nodes[0] = seeds[t].count;
        for (uint64_t i = 0; i < seeds[t].count; i++) {
            wanted[t].node[i] = (uint64_t)seeds[t].ids[i];
            budget[t].sampled[seeds[t].ids[i]] = true;
        }
    }
    for (uint32_t h = 0; h < o->num_hops; h++) {
        ref_spread(g, o, h, begin);
        for (uint32_t t = 0; t < g->num_types; t++) {
            begin[t] = wanted[t].num_nodes;
            ref_draw(g, o, h, t);
            wanted[t].hop_nodes[h + 1] = wanted[t].num_nodes - begin[t];
        }
    }
    ref_edges(g);
}

/* ---- comparing ---- */

static int64_t out_node[REF_MAX], out_row[REF_MAX], out_col[REF_MAX], out_edge[REF_MAX];

static void check_same(const char *what, const int64_t *actual, const uint64_t *expected, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (actual[i] != (int64_t)expected[i]) {
            TEST_FAIL("%s[%" PRIu64 "] is %" PRId64 ", expected %" PRIu64, what, i, actual[i], expected[i]);
            return;
        }
}

static void check_sample(const graph *g, aether_sampler *s, const aether_seeds *seeds,
                         const aether_hgt_options *o) {
    aether_error err = {0};
    uint64_t hop_nodes[MAX_TYPES * (MAX_HOPS + 1)], num_nodes[MAX_TYPES], num_edges[MAX_RELATIONS];
    REQUIRE_OK(aether_sample_hgt(s, seeds, o,
                                 AE_SIZED(aether_sample_counts, hop_nodes, NULL, num_nodes, num_edges), &err),
               err);
    for (uint32_t t = 0; t < g->num_types; t++) {
        REQUIRE(num_nodes[t] == wanted[t].num_nodes);
        REQUIRE_OK(aether_sample_export_nodes(s, t,
                                              AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                                       .num_nodes = num_nodes[t], .node = out_node),
                                              &err),
                   err);
        check_same("node", out_node, wanted[t].node, num_nodes[t]);
        check_same("hop_nodes", (int64_t *)hop_nodes + t * (o->num_hops + 1), wanted[t].hop_nodes,
                   o->num_hops + 1);
    }
    for (uint32_t i = 0; i < g->num_relations; i++) {
        REQUIRE(num_edges[i] == links[i].num_edges);
        REQUIRE_OK(aether_sample_export_edges(s, i,
                                              AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                                       .num_edges = num_edges[i], .row = out_row,
                                                       .col = out_col, .edge = out_edge),
                                              &err),
                   err);
        check_same("row", out_row, links[i].row, num_edges[i]);
        check_same("col", out_col, links[i].col, num_edges[i]);
        check_same("edge", out_edge, links[i].edge, num_edges[i]);
    }
}

typedef struct request {
    int64_t ids[MAX_TYPES][8], num_samples[MAX_TYPES * MAX_HOPS];
    aether_seeds seeds[MAX_TYPES];
    aether_hgt_options options;
} request;

static void make_request(request *q, const graph *g, uint64_t *state, uint32_t max_neighbors) {
    *q = (request){0};
    for (uint32_t t = 0; t < g->num_types; t++) {
        uint64_t n = g->num_nodes[t] ? test_random(state) % 9 : 0;
        for (uint64_t i = 0; i < n; i++)
            q->ids[t][i] = (int64_t)(test_random(state) % g->num_nodes[t]);
        q->seeds[t] = (aether_seeds){.ids = q->ids[t], .count = n};
    }
    const int64_t choices[] = {0, 1, 2, 5, 30, INT64_MAX};
    for (int i = 0; i < MAX_TYPES * MAX_HOPS; i++)
        q->num_samples[i] = choices[test_random(state) % 6];
    q->options = (aether_hgt_options){.key = test_random(state),
                                      .num_samples = q->num_samples,
                                      .num_hops = (uint32_t)(test_random(state) % (MAX_HOPS + 1)),
                                      .max_neighbors = max_neighbors};
}

static void compare_many(uint64_t max_nodes, uint64_t max_degree, uint32_t max_neighbors, uint64_t graphs) {
    static graph g;
    for (uint64_t number = 0; number < graphs; number++) {
        uint64_t state = 31 * number + max_nodes;
        make_graph(&g, state, max_nodes, max_degree);
        aether_sampler *s = make_sampler(&g, g.relations), *s64 = make_sampler(&g, g.relations64);
        for (int round = 0; round < 5; round++) {
            request q;
            make_request(&q, &g, &state, max_neighbors);
            ref_hgt(&g, q.seeds, &q.options);
            check_sample(&g, s, q.seeds, &q.options);
            check_sample(&g, s64, q.seeds, &q.options);
        }
        aether_sampler_destroy(s);
        aether_sampler_destroy(s64);
        free_graph(&g);
    }
}

TEST_ONE_THREAD(matches_reference_on_tiny_graphs) {
    compare_many(4, 6, 0, 100);
}
TEST_ONE_THREAD(matches_reference_with_hubs) {
    compare_many(60, 150, 0, 40);
}
TEST_ONE_THREAD(matches_reference_where_long_lists_are_cut) {
    compare_many(60, 150, 7, 40);
    compare_many(200, 40, 1, 20);
}
TEST_ONE_THREAD(matches_reference_on_larger_graphs) {
    compare_many(200, 30, 50, 20);
}

/* ---- scratch memory ---- */

TEST_ONE_THREAD(nothing_is_allocated_once_the_largest_sample_was_made) {
    static graph g;
    request q;
    uint64_t state = 5, memory = 0;
    make_graph(&g, 12, 200, 60);
    make_request(&q, &g, &state, 10);
    aether_sampler *s = make_sampler(&g, g.relations);
    for (uint64_t round = 0; round < 2000; round++) {
        q.options.key = round < 1000 ? round : round - 1000;
        aether_error err = {0};
        uint64_t hop_nodes[MAX_TYPES * (MAX_HOPS + 1)], num_nodes[MAX_TYPES], num_edges[MAX_RELATIONS];
        REQUIRE_OK(aether_sample_hgt(s, q.seeds, &q.options,
                                     AE_SIZED(aether_sample_counts, hop_nodes, NULL, num_nodes, num_edges),
                                     &err),
                   err);
        if (round == 999)
            memory = aether_sampler_memory(s);
    }
    CHECK(memory > 0);
    CHECK_EQ(aether_sampler_memory(s), memory);
    aether_sampler_destroy(s);
    free_graph(&g);
}

/* The two ways of sampling share nodes, relations and scratch. */
TEST_ONE_THREAD(neighbour_samples_in_between_leave_no_trace) {
    static graph g;
    request q;
    uint64_t state = 9;
    make_graph(&g, 12, 200, 60);
    aether_sampler *s = make_sampler(&g, g.relations);
    const int64_t fanouts[MAX_RELATIONS * 2] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 3};
    for (int round = 0; round < 20; round++) {
        aether_error err = {0};
        uint64_t hop_nodes[MAX_TYPES * 3], hop_edges[MAX_RELATIONS * 2];
        uint64_t num_nodes[MAX_TYPES], num_edges[MAX_RELATIONS];
        make_request(&q, &g, &state, 0);
        aether_sample_options o = {.key = 1,
                                   .fanouts = fanouts,
                                   .num_hops = 2,
                                   .flags = round % 2 ? AETHER_SAMPLE_DISJOINT : 0,
                                   .num_threads = 1};
        REQUIRE_OK(aether_sample_typed(
                       s, q.seeds, &o,
                       AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, num_nodes, num_edges), &err),
                   err);
        ref_hgt(&g, q.seeds, &q.options);
        check_sample(&g, s, q.seeds, &q.options);
    }
    aether_sampler_destroy(s);
    free_graph(&g);
}

/* ---- errors ---- */

static void check_fails(aether_sampler *s, const aether_seeds *seeds, const aether_hgt_options *o, int rc,
                        const char *message) {
    aether_error err = {0};
    uint64_t hop_nodes[MAX_HOPS + 1], num_nodes = 0, num_edges = 0;
    CHECK_CODE(aether_sample_hgt(s, seeds, o,
                                 AE_SIZED(aether_sample_counts, hop_nodes, NULL, &num_nodes, &num_edges),
                                 &err),
               rc);
    CHECK_HAS(err.message, message);
    out_node[0] = -1;
    CHECK_OK(
        aether_sample_export_nodes(
            s, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 0, .node = out_node), &err),
        err);
    CHECK_EQ(out_node[0], -1); /* an empty result */
}

TEST_ONE_THREAD(bad_settings_and_seeds_are_refused) {
    const uint64_t indptr[] = {0, 2, 2, 3}, num_nodes = 3;
    uint32_t indices[] = {1, 2, 0};
    const aether_lists plain = {3, 3, 3, indptr, indices, NULL, 4, 8};
    aether_error err = {0};
    aether_topology *t = NULL;
    aether_sampler *s = NULL;
    REQUIRE_OK(aether_topology_create(&plain, &t, &err), err);
    const aether_relation relation = {.topology = t};
    REQUIRE_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &s, &err),
               err);
    int64_t ids[] = {0, 3}, counts[] = {1, -1};
    const int64_t until[] = {5};
    const aether_hgt_options one = {.key = 1, .num_samples = counts, .num_hops = 1};
    const aether_hgt_options two = {.key = 1, .num_samples = counts, .num_hops = 2};
    const aether_seeds good = {.ids = ids, .count = 1}, bad = {.ids = ids, .count = 2};
    const aether_seeds timed = {.ids = ids, .count = 1, .until = until};
    check_fails(s, &good, &two, AETHER_E_INVALID, "num_samples[1] = -1");
    check_fails(s, &bad, &one, AETHER_E_RANGE, "seeds[1] = 3");
    check_fails(s, &timed, &one, AETHER_E_INVALID, "HGT does not sample in time");
    indices[0] = indices[1] = 3; /* as if the file had changed */
    check_fails(s, &good, &one, AETHER_E_CORRUPT, "");
    indices[0] = indices[1] = 2;
    uint64_t hop_nodes[2], nodes, edges;
    REQUIRE_OK(aether_sample_hgt(s, &good, &one,
                                 AE_SIZED(aether_sample_counts, hop_nodes, NULL, &nodes, &edges), &err),
               err);
    CHECK_EQ(nodes, 2);
    CHECK_EQ(edges, 3); /* twice 2 -> 0, and 0 -> 2 */
    aether_sampler_destroy(s);
    aether_topology_destroy(t);
}

TEST_MAIN()
