/* Sampling over several node types and edge types: worked examples, and what is
 * refused. test_typed_match.c has the rest. */
#include "test.h"

/* ---- a worked example ---- */

/* Papers (4) and authors (3), and a type without nodes.
 *   0 cites    paper -> paper    0: [1 2]  1: [3]  2: []  3: [0]
 *   1 written  paper -> author   0: [2]    1: [2 0]  2: [1]  3: []
 *   2 wrote    author -> paper   0: [1]    1: [2]  2: [0 3]
 *   3 nothing  none -> author
 *   4 nothing  author -> none */
typedef struct example {
    aether_topology *topologies[5];
    aether_relation relations[5];
    aether_sampler *sampler;
} example;

static const uint64_t example_nodes[] = {4, 3, 0};

static bool open_example(example *x) {
    static const uint64_t indptr[5][5] = {{0, 2, 3, 3, 4}, {0, 1, 3, 4, 4}, {0, 1, 2, 4}, {0}, {0, 0, 0, 0}};
    static const uint32_t ids[5][4] = {{1, 2, 3, 0}, {2, 2, 0, 1}, {1, 2, 0, 3}, {0}, {0}};
    static const uint64_t num_edges[] = {4, 4, 4, 0, 0};
    static const uint32_t ends[5][2] = {{0, 0}, {0, 1}, {1, 0}, {2, 1}, {1, 2}};
    aether_error err = {0};
    for (uint32_t i = 0; i < 5; i++) {
        uint64_t from = example_nodes[ends[i][0]], to = example_nodes[ends[i][1]];
        aether_lists lists = {from, to, num_edges[i], indptr[i], ids[i], NULL, 4, 8};
        CHECK_OK(aether_topology_create(&lists, &x->topologies[i], &err), err);
        x->relations[i] =
            (aether_relation){.topology = x->topologies[i], .from = ends[i][0], .to = ends[i][1]};
    }
    CHECK_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, x->relations, example_nodes, 5, 3),
                                         &x->sampler, &err),
             err);
    return x->sampler;
}

static void close_example(example *x) {
    aether_sampler_destroy(x->sampler);
    for (uint32_t i = 0; i < 5; i++)
        aether_topology_destroy(x->topologies[i]);
}

static void check_values(const int64_t *actual, const int64_t *wanted, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(actual[i], wanted[i]);
}

/* Relation 0 adds papers before relation 2 could, and relation 1 expands in hop 1
 * what relations 0 and 2 have added in hop 0, in that order. */
TEST(relations_take_turns_in_every_hop) {
    example x = {0};
    REQUIRE(open_example(&x));
    const int64_t papers[] = {0}, authors[] = {2}, fanouts[10] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const aether_seeds seeds[3] = {{.ids = papers, .count = 1}, {.ids = authors, .count = 1}};
    aether_sample_options o = {.fanouts = fanouts, .num_hops = 2, .num_threads = 1};
    uint64_t hop_nodes[9], hop_edges[10], num_nodes[3], num_edges[5];
    aether_error err = {0};
    REQUIRE_OK(aether_sample_typed(x.sampler, seeds, &o,
                                   AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, num_nodes, num_edges),
                                   &err),
               err);
    int64_t a[8], b[8], c[8];
    check_values((int64_t *)hop_nodes, (int64_t[]){1, 3, 0, 1, 0, 2, 0, 0, 0}, 9);
    check_values((int64_t *)hop_edges, (int64_t[]){2, 2, 1, 3, 2, 0, 0, 0, 0, 0}, 10);
    check_values((int64_t *)num_nodes, (int64_t[]){4, 3, 0}, 3);
    check_values((int64_t *)num_edges, (int64_t[]){4, 4, 2, 0, 0}, 5);
    CHECK_OK(
        aether_sample_export_nodes(
            x.sampler, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 4, .node = a), &err),
        err);
    check_values(a, (int64_t[]){0, 1, 2, 3}, 4);
    CHECK_OK(
        aether_sample_export_nodes(
            x.sampler, 1, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 3, .node = a), &err),
        err);
    check_values(a, (int64_t[]){2, 0, 1}, 3);
    CHECK_OK(aether_sample_export_edges(x.sampler, 0,
                                        AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = 4,
                                                 .row = a, .col = b, .edge = c),
                                        &err),
             err);
    check_values(a, (int64_t[]){1, 2, 3, 0}, 4);
    check_values(b, (int64_t[]){0, 0, 1, 3}, 4);
    check_values(c, (int64_t[]){0, 1, 2, 3}, 4);
    CHECK_OK(aether_sample_export_edges(x.sampler, 1,
                                        AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = 4,
                                                 .row = a, .col = b, .edge = c),
                                        &err),
             err);
    check_values(a, (int64_t[]){0, 0, 1, 2}, 4);
    check_values(b, (int64_t[]){0, 1, 1, 2}, 4);
    CHECK_OK(aether_sample_export_edges(x.sampler, 2,
                                        AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = 2,
                                                 .row = a, .col = b, .edge = c),
                                        &err),
             err);
    check_values(a, (int64_t[]){0, 3}, 2);
    check_values(b, (int64_t[]){0, 0}, 2);
    check_values(c, (int64_t[]){2, 3}, 2);
    close_example(&x);
}

/* Author trees follow the paper trees; a neighbour has the number of its tree. */
TEST(trees_are_numbered_through_the_types) {
    example x = {0};
    REQUIRE(open_example(&x));
    const int64_t papers[] = {3, 3}, authors[] = {0, 2}, fanouts[5] = {-1, -1, -1, -1, -1};
    const aether_seeds seeds[3] = {{.ids = papers, .count = 2}, {.ids = authors, .count = 2}};
    aether_sample_options o = {
        .fanouts = fanouts, .num_hops = 1, .flags = AETHER_SAMPLE_DISJOINT, .num_threads = 1};
    uint64_t hop_nodes[6], hop_edges[5], num_nodes[3], num_edges[5];
    aether_error err = {0};
    REQUIRE_OK(aether_sample_typed(x.sampler, seeds, &o,
                                   AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, num_nodes, num_edges),
                                   &err),
               err);
    int64_t node[8], batch[8];
    check_values((int64_t *)num_nodes, (int64_t[]){7, 2, 0}, 3);
    CHECK_OK(aether_sample_export_nodes(x.sampler, 0,
                                        AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 7,
                                                 .node = node, .batch = batch),
                                        &err),
             err);
    check_values(node, (int64_t[]){3, 3, 0, 0, 1, 0, 3}, 7);
    check_values(batch, (int64_t[]){0, 1, 0, 1, 2, 3, 3}, 7);
    CHECK_OK(aether_sample_export_nodes(x.sampler, 1,
                                        AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 2,
                                                 .node = node, .batch = batch),
                                        &err),
             err);
    check_values(batch, (int64_t[]){2, 3}, 2);
    close_example(&x);
}

/* ---- refused ---- */

static int create_with(const example *x, aether_relation changed, const uint64_t *num_nodes,
                       aether_error *err) {
    aether_relation relations[5];
    aether_sampler *s = NULL;
    memcpy(relations, x->relations, sizeof relations);
    relations[1] = changed;
    int rc = aether_sampler_create_typed(AE_SIZED(aether_schema, relations, num_nodes, 5, 3), &s, err);
    CHECK(!s == (rc != AETHER_OK));
    aether_sampler_destroy(s);
    return rc;
}

TEST(relations_that_do_not_fit_are_named) {
    example x = {0};
    REQUIRE(open_example(&x));
    const aether_relation good = x.relations[1];
    const double values[4] = {0};
    aether_error err = {0};
    aether_relation r = good;
    CHECK_CODE(create_with(&x, good, example_nodes, &err), AETHER_OK);
    r.to = 3;
    CHECK_CODE(create_with(&x, r, example_nodes, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "edge type 1: 0 -> 3 are not below 3 node types");
    r = good, r.from = 3;
    CHECK_CODE(create_with(&x, r, example_nodes, &err), AETHER_E_INVALID);
    r = good, r.to = 0;
    CHECK_CODE(create_with(&x, r, example_nodes, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message,
              "edge type 1: lists of 4 nodes with ids below 3 do not fit node types of 4 and 4 nodes");
    r = good, r.from = 1;
    CHECK_CODE(create_with(&x, r, example_nodes, &err), AETHER_E_INVALID);
    r = good, r.weights = values, r.weight_dtype = AETHER_I64;
    CHECK_CODE(create_with(&x, r, example_nodes, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "edge type 1: weights are float32 or float64");
    r = good, r.times = values, r.time_dtype = AETHER_F32, r.times_of = AETHER_TIMES_OF_EDGES;
    CHECK_CODE(create_with(&x, r, example_nodes, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "edge type 1: times are int64 or float64, of edges or nodes");
    r.time_dtype = AETHER_I64, r.times_of = 3;
    CHECK_CODE(create_with(&x, r, example_nodes, &err), AETHER_E_INVALID);
    r.times_of = AETHER_TIMES_OF_NODES;
    CHECK_CODE(create_with(&x, r, example_nodes, &err), AETHER_OK);
    close_example(&x);
}

typedef struct attempt {
    int64_t fanouts[5], papers[2], authors[2], bounds[2];
    aether_seeds seeds[3];
    aether_sample_options options;
    uint64_t hop_nodes[6], hop_edges[5], num_nodes[3], num_edges[5];
    aether_error err;
} attempt;

static int try(const example *x, attempt *a) {
    a->options.fanouts = a->fanouts;
    a->options.num_hops = a->options.num_threads = 1;
    a->seeds[0].ids = a->papers;
    a->seeds[1].ids = a->authors;
    return aether_sample_typed(
        x->sampler, a->seeds, &a->options,
        AE_SIZED(aether_sample_counts, a->hop_nodes, a->hop_edges, a->num_nodes, a->num_edges), &a->err);
}

/* After a failure there is an empty result, and the sampler is as good as new. */
static void check_recovers(const example *x) {
    int64_t values[8] = {-7, -7, -7, -7, -7, -7, -7, -7};
    aether_error err = {0};
    CHECK_OK(aether_sample_export_nodes(
                 x->sampler, 0,
                 AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 0, .node = values), &err),
             err);
    CHECK_OK(aether_sample_export_edges(x->sampler, 0,
                                        AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = 0,
                                                 .row = values, .col = values, .edge = values),
                                        &err),
             err);
    CHECK_EQ(values[0], -7);
    attempt good = {.fanouts = {-1, -1, -1, -1, -1}, .seeds = {{.count = 1}, {.count = 1}}};
    CHECK_OK(try(x, &good), good.err);
    CHECK_EQ(good.num_nodes[0], 3);
    CHECK_EQ(good.num_edges[1], 1);
}

TEST(bad_requests_are_named) {
    example x = {0};
    REQUIRE(open_example(&x));
    attempt a = {.authors = {2, 3}, .seeds = {{.count = 1}, {.count = 2}}};
    CHECK_CODE(try(&x, &a), AETHER_E_RANGE);
    CHECK_EQ(a.err.position, 1);
    CHECK_HAS(a.err.message, "seeds[1] = 3 is not in 0..2 (the graph has 3 nodes)");
    check_recovers(&x);
    a = (attempt){.seeds = {{.count = 1}, {.count = 1}, {.ids = a.papers, .count = 1}}};
    CHECK_CODE(try(&x, &a), AETHER_E_RANGE);
    CHECK_HAS(a.err.message, "the graph has 0 nodes");
    check_recovers(&x);
    a = (attempt){.fanouts = {1, 1, 1, -2, 1}};
    CHECK_CODE(try(&x, &a), AETHER_E_INVALID);
    CHECK_HAS(a.err.message, "fanouts[3] = -2");
    a = (attempt){.options = {.flags = AETHER_SAMPLE_LAYERED << 1}};
    CHECK_CODE(try(&x, &a), AETHER_E_INVALID);
    CHECK_HAS(a.err.message, "unknown sampling flags 0x20");
    a = (attempt){.seeds = {{.count = 1}, {.count = 1, .until = a.bounds}}};
    CHECK_CODE(try(&x, &a), AETHER_E_INVALID);
    CHECK_HAS(a.err.message, "seeds of different times need a disjoint sample");
    a = (attempt){.seeds = {{.count = 1}, {.count = 0, .until = a.bounds}}}; /* bounds of no seed */
    CHECK_CODE(try(&x, &a), AETHER_OK);
    CHECK_EQ(a.num_nodes[0], 1);
    close_example(&x);
}

TEST(bad_exports_are_named) {
    example x = {0};
    REQUIRE(open_example(&x));
    attempt a = {.seeds = {{.count = 1}}};
    int64_t values[8];
    aether_error err = {0};
    REQUIRE_OK(try(&x, &a), a.err);
    CHECK_CODE(aether_sample_export_nodes(
                   x.sampler, 3,
                   AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 0, .node = values), &err),
               AETHER_E_INVALID);
    CHECK_HAS(err.message, "node type 3 of 3");
    CHECK_CODE(aether_sample_export_edges(x.sampler, 5,
                                          AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = 0,
                                                   .row = values, .col = values, .edge = values),
                                          &err),
               AETHER_E_INVALID);
    CHECK_HAS(err.message, "edge type 5 of 5");
    CHECK_CODE(aether_sample_export_nodes(
                   x.sampler, 0,
                   AE_SIZED(aether_sample_arrays, .item_bytes = 5, .num_nodes = 0, .node = values), &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_sample_export_edges(x.sampler, 0,
                                          AE_SIZED(aether_sample_arrays, .item_bytes = 2, .num_edges = 0,
                                                   .row = values, .col = values, .edge = values),
                                          &err),
               AETHER_E_INVALID);
    CHECK_CODE(
        aether_sample_export_nodes(x.sampler, 0,
                                   AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                            .num_nodes = a.num_nodes[0], .node = values, .batch = values),
                                   &err),
        AETHER_E_INVALID);
    CHECK_CODE(aether_sample_export_nodes(x.sampler, 2,
                                          AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 0,
                                                   .node = values, .batch = values),
                                          &err),
               AETHER_OK); /* of nothing */
    uint64_t totals[2];
    CHECK_CODE(aether_sample(x.sampler, a.papers, 1, &a.options,
                             AE_SIZED(aether_sample_counts, a.hop_nodes, a.hop_edges, totals, totals + 1),
                             &err),
               AETHER_E_INVALID);
    CHECK_HAS(err.message, "a typed sampler needs aether_sample_typed");
    close_example(&x);
}

/* The edges of relation 0 are drawn already when relation 1 turns out to be damaged. */
TEST(damage_in_one_relation_leaves_nothing_of_the_others) {
    uint64_t indptr[2][3] = {{0, 1, 2}, {0, 1, 2}};
    uint32_t ids[2][2] = {{0, 1}, {0, 2}};
    const uint64_t num_nodes[] = {2};
    aether_topology *t[2] = {NULL};
    aether_relation relations[2] = {{0}};
    aether_error err = {0};
    for (int i = 0; i < 2; i++) {
        aether_lists lists = {2, 2, 2, indptr[i], ids[i], NULL, 4, 8};
        REQUIRE_OK(aether_topology_create(&lists, &t[i], &err), err);
        relations[i].topology = t[i];
    }
    const uint32_t flags[] = {0, AETHER_SAMPLE_INDUCED};
    for (int f = 0; f < 2; f++) {
        aether_sampler *s = NULL;
        REQUIRE_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, relations, num_nodes, 2, 1), &s, &err),
                   err);
        const int64_t ids_of_seeds[] = {0, 1}, fanouts[] = {-1, f ? 0 : -1};
        const aether_seeds seeds = {.ids = ids_of_seeds, .count = 2};
        aether_sample_options o = {.fanouts = fanouts, .num_hops = 1, .flags = flags[f], .num_threads = 1};
        uint64_t hop_nodes[2], hop_edges[2], nodes[1], edges[2];
        ids[1][1] = 2;
        CHECK_CODE(aether_sample_typed(s, &seeds, &o,
                                       AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, nodes, edges),
                                       &err),
                   AETHER_E_CORRUPT);
        CHECK_EQ(err.position, 1);
        CHECK_EQ(err.value, 2);
        int64_t row[4] = {-7, -7, -7, -7};
        CHECK_OK(aether_sample_export_edges(
                     s, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = 0, .row = row), &err),
                 err);
        CHECK_EQ(row[0], -7);
        ids[1][1] = 1;
        CHECK_OK(aether_sample_typed(
                     s, &seeds, &o, AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, nodes, edges), &err),
                 err);
        CHECK_EQ(edges[0], 2);
        CHECK_EQ(edges[1], 2);
        aether_sampler_destroy(s);
    }
    aether_topology_destroy(t[0]);
    aether_topology_destroy(t[1]);
}

/* Lists are read a block at a time. */
TEST(long_lists_are_induced_whole) {
    const uint64_t degrees[] = {1, 255, 256, 257, 512, 700}, num_nodes[] = {2, 5};
    static uint32_t ids[1400];
    for (uint32_t p = 0; p < 1400; p++)
        ids[p] = p * p % 7 % 5; /* 0 1 4 2 2 4 1, again and again */
    for (int d = 0; d < 6; d++) {
        const uint64_t indptr[] = {0, degrees[d], 2 * degrees[d]};
        const aether_lists lists = {2, 5, 2 * degrees[d], indptr, ids, NULL, 4, 8};
        aether_relation r = {.to = 1};
        aether_topology *t = NULL;
        aether_sampler *s = NULL;
        aether_error err = {0};
        REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
        r.topology = t;
        REQUIRE_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &r, num_nodes, 1, 2), &s, &err), err);
        const int64_t from[] = {1}, to[] = {4, 1};
        const aether_seeds seeds[] = {{.ids = from, .count = 1}, {.ids = to, .count = 2}};
        aether_sample_options o = {.flags = AETHER_SAMPLE_INDUCED, .num_threads = 1};
        uint64_t hop_nodes[2], nodes[2], num_edges[1], n = 0;
        static int64_t row[700], edge[700];
        REQUIRE_OK(aether_sample_typed(
                       s, seeds, &o, AE_SIZED(aether_sample_counts, hop_nodes, NULL, nodes, num_edges), &err),
                   err);
        CHECK_OK(aether_sample_export_edges(s, 0,
                                            AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                                     .num_edges = num_edges[0], .row = row, .edge = edge),
                                            &err),
                 err);
        for (uint64_t p = degrees[d]; p < 2 * degrees[d]; p++)
            if (ids[p] == 4 || ids[p] == 1) {
                CHECK(n < num_edges[0] && edge[n] == (int64_t)p && row[n] == (ids[p] == 1));
                n++;
            }
        CHECK_EQ(num_edges[0], n);
        aether_sampler_destroy(s);
        aether_topology_destroy(t);
    }
}

TEST(types_without_relations_and_no_types_at_all) {
    const uint64_t num_nodes[] = {3};
    const int64_t ids[] = {2, 0, 2};
    const aether_seeds seeds = {.ids = ids, .count = 3};
    aether_sample_options o = {.num_hops = 2, .num_threads = 1};
    aether_error err = {0};
    aether_sampler *s = NULL;
    uint64_t hop_nodes[3], total[1];
    int64_t node[3];
    REQUIRE_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, NULL, num_nodes, 0, 1), &s, &err), err);
    CHECK_OK(aether_sample_typed(s, &seeds, &o, AE_SIZED(aether_sample_counts, hop_nodes, NULL, total, NULL),
                                 &err),
             err);
    check_values((int64_t *)hop_nodes, (int64_t[]){3, 0, 0}, 3);
    CHECK_OK(aether_sample_export_nodes(
                 s, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 3, .node = node), &err),
             err);
    check_values(node, ids, 3);
    aether_sampler_destroy(s);
    REQUIRE_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, NULL, NULL, 0, 0), &s, &err), err);
    CHECK_OK(aether_sample_typed(s, NULL, &o, AE_SIZED(aether_sample_counts, NULL, NULL, NULL, NULL), &err),
             err);
    aether_sampler_destroy(s);
}

TEST_MAIN()
