/* Sampling over several node types and edge types, by weight and in time, against
 * typed_reference.h on random graphs; and by several threads. */
#include "typed_graph.h"
#include "typed_reference.h"

/* ---- against the reference ---- */

enum { SEEDS = 5 };

typedef struct request {
    aether_seeds seeds[TYPED_TYPES];
    int64_t ids[TYPED_TYPES][SEEDS], since[TYPED_TYPES][SEEDS], until[TYPED_TYPES][SEEDS];
    int64_t fanouts[TYPED_RELATIONS * TREF_HOPS];
    aether_sample_options options;
} request;

static const uint32_t all_flags[] = {0,
                                     AETHER_SAMPLE_REPLACE,
                                     AETHER_SAMPLE_INDUCED,
                                     AETHER_SAMPLE_INDUCED | AETHER_SAMPLE_REPLACE,
                                     AETHER_SAMPLE_DISJOINT,
                                     AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_REPLACE,
                                     AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_LATEST,
                                     AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_LATEST | AETHER_SAMPLE_REPLACE};

static int64_t random_bound(uint64_t *state) {
    uint64_t i = test_random(state) % TYPED_NUM_TIMES;
    int64_t of_double;
    aether_time_of_double(&typed_times_f64[i], 1, &of_double);
    return test_random(state) % 2 ? typed_times_i64[i] : of_double;
}

static void random_request(uint64_t *state, const typed_graph *g, unsigned may_have, request *r) {
    static const int64_t choices[] = {-1, 0, 1, 2, 3, 5, 20};
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        uint64_t n = g->num_nodes[t] ? test_random(state) % (SEEDS + 1) : 0;
        for (uint64_t i = 0; i < n; i++) {
            r->ids[t][i] = (int64_t)(test_random(state) % g->num_nodes[t]);
            r->since[t][i] = random_bound(state);
            r->until[t][i] = random_bound(state);
        }
        r->seeds[t] = (aether_seeds){.ids = r->ids[t], .count = n};
    }
    for (uint32_t i = 0; i < TYPED_RELATIONS * TREF_HOPS; i++)
        r->fanouts[i] = choices[test_random(state) % 7];
    r->options = (aether_sample_options){.key = test_random(state),
                                         .fanouts = r->fanouts,
                                         .num_hops = (uint32_t)(test_random(state) % (TREF_HOPS + 1)),
                                         .flags = all_flags[test_random(state) % 8],
                                         .num_threads = 1 + (uint32_t)(test_random(state) % 2)};
    if (may_have & TYPED_TIMES && r->options.flags & AETHER_SAMPLE_DISJOINT)
        for (uint32_t t = 0; t < TYPED_TYPES; t++) {
            r->seeds[t].since = test_random(state) % 2 ? r->since[t] : NULL;
            r->seeds[t].until = test_random(state) % 2 ? r->until[t] : NULL;
        }
}

static void compare_many(unsigned may_have, uint64_t graphs) {
    uint64_t state = may_have, edges = 0;
    request r;
    for (uint64_t i = 0; i < graphs; i++) {
        typed_graph *g = typed_make(i, may_have);
        const typed_source source = {g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES};
        aether_error err = {0};
        aether_sampler *s = NULL;
        CHECK_OK(
            aether_sampler_create_typed(
                AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES), &s, &err),
            err);
        for (uint32_t k = 0; k < TYPED_RELATIONS; k++)
            CHECK_OK(aether_check_times(&g->relations[k], NULL, &err), err);
        for (int round = 0; s && round < 8; round++) {
            random_request(&state, g, may_have, &r);
            edges += tref_check(&source, s, r.seeds, &r.options);
        }
        aether_sampler_destroy(s);
        typed_free(g);
    }
    CHECK(edges > 50 * graphs);
}

TEST(matches_reference) {
    compare_many(0, 60);
}
TEST_ONE_THREAD(matches_reference_with_weights) {
    compare_many(TYPED_WEIGHTS, 60);
}
TEST_ONE_THREAD(matches_reference_in_time) {
    compare_many(TYPED_TIMES, 60);
}
TEST_ONE_THREAD(matches_reference_with_weights_in_time) {
    compare_many(TYPED_WEIGHTS | TYPED_TIMES, 60);
}

/* ---- several threads ---- */

typedef struct output {
    uint64_t hop_nodes[TYPED_TYPES * 3], hop_edges[TYPED_RELATIONS * 2];
    uint64_t num_nodes[TYPED_TYPES], num_edges[TYPED_RELATIONS];
    int64_t *values; /* every exported array, one after the other */
    uint64_t num_values;
} output;

static output run(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *o) {
    output out = {.num_values = 0};
    aether_error err = {0};
    CHECK_OK(aether_sample_typed(
                 s, seeds, o,
                 AE_SIZED(aether_sample_counts, out.hop_nodes, out.hop_edges, out.num_nodes, out.num_edges),
                 &err),
             err);
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        out.num_values += 2 * out.num_nodes[t];
    for (uint32_t i = 0; i < TYPED_RELATIONS; i++)
        out.num_values += 3 * out.num_edges[i];
    int64_t *at = out.values = calloc(out.num_values + 1, sizeof *at);
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        uint64_t n = out.num_nodes[t];
        bool disjoint = o->flags & AETHER_SAMPLE_DISJOINT;
        CHECK_OK(aether_sample_export_nodes(s, t,
                                            AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = n,
                                                     .node = at, .batch = disjoint ? at + n : NULL),
                                            &err),
                 err);
        at += 2 * n;
    }
    for (uint32_t i = 0; i < TYPED_RELATIONS; i++) {
        uint64_t n = out.num_edges[i];
        CHECK_OK(aether_sample_export_edges(s, i,
                                            AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = n,
                                                     .row = at, .col = at + n, .edge = at + 2 * n),
                                            &err),
                 err);
        at += 3 * n;
    }
    return out;
}

/* Seeds enough that hops are worth several threads; one thread is the reference.
 * Returns how many hops are that large. */
static uint32_t compare_threads(uint64_t graph, uint32_t flags) {
    enum { MANY = 9000 };
    typed_graph *g = typed_make(graph, TYPED_WEIGHTS | TYPED_TIMES);
    static int64_t ids[TYPED_TYPES][MANY], until[MANY], fanouts[TYPED_RELATIONS * 2];
    aether_seeds seeds[TYPED_TYPES] = {{0}};
    uint32_t large = 0;
    uint64_t state = graph;
    for (uint64_t i = 0; i < MANY; i++)
        until[i] = random_bound(&state);
    for (int i = 0; i < TYPED_RELATIONS * 2; i++)
        fanouts[i] = i % 2 ? 1 : 6;
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        for (uint64_t i = 0; g->num_nodes[t] && i < MANY; i++)
            ids[t][i] = (int64_t)(i % g->num_nodes[t]);
        seeds[t] = (aether_seeds){.ids = ids[t], .count = g->num_nodes[t] ? MANY : 0};
        seeds[t].until = flags & AETHER_SAMPLE_DISJOINT ? until : NULL;
    }
    aether_error err = {0};
    aether_sampler *s = NULL;
    CHECK_OK(aether_sampler_create_typed(
                 AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES), &s, &err),
             err);
    aether_sample_options o = {.key = 5, .fanouts = fanouts, .num_hops = 2, .flags = flags, .num_threads = 1};
    output one = run(s, seeds, &o);
    for (uint32_t i = 0; i < TYPED_RELATIONS; i++)
        large += one.hop_edges[i * 2] >= 16384 || one.hop_edges[i * 2 + 1] >= 16384;
    for (o.num_threads = 2; o.num_threads <= 8; o.num_threads *= 2) {
        output many = run(s, seeds, &o);
        CHECK(memcmp(one.hop_nodes, many.hop_nodes, sizeof one.hop_nodes) == 0);
        CHECK(memcmp(one.hop_edges, many.hop_edges, sizeof one.hop_edges) == 0);
        CHECK(one.num_values == many.num_values);
        CHECK(one.num_values != many.num_values || memcmp(one.values, many.values, one.num_values * 8) == 0);
        free(many.values);
    }
    free(one.values);
    aether_sampler_destroy(s);
    typed_free(g);
    return large;
}

TEST(threads_do_not_change_the_sample) {
    const uint32_t flags[] = {0, AETHER_SAMPLE_REPLACE, AETHER_SAMPLE_DISJOINT,
                              AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_REPLACE,
                              AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_LATEST};
    for (int f = 0; f < 5; f += TEST_ONLY_RACES ? 2 : 1) {
        uint32_t large = 0;
        for (uint64_t graph = 0; graph < 6; graph++)
            large += compare_threads(graph, flags[f]);
        CHECK(large >= 3);
    }
}

TEST_MAIN()
