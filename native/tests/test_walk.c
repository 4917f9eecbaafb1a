/* Walks, fan-outs and their tables: tables against plain searches and sums, walks
 * against each other (threads, widths, with and without tables), and their errors.
 * The draws themselves are compared with a model in tests/sampling/test_walks.py. */
#include "sample/walk/alias.h"
#include "sample/walk/members.h"
#include "sample/walk/walk.h"
#include "test.h"

typedef struct graph {
    uint64_t num_nodes, num_edges;
    uint64_t *indptr, *wide;
    uint32_t *indices;
    float *weights;
    aether_topology *topology, *topology64;
} graph;

/* Lists of every length: none, few, and hubs that radix sort and gallop. */
static graph make_graph(uint64_t seed, uint64_t num_nodes, uint64_t hub) {
    aether_error err = {0};
    graph g = {.num_nodes = num_nodes, .indptr = calloc(num_nodes + 1, sizeof(uint64_t))};
    for (uint64_t v = 0; v < num_nodes; v++) {
        uint64_t kind = test_random(&seed) % 8;
        g.indptr[v + 1] = g.indptr[v] + (kind == 0 ? 0 : kind == 1 ? hub : test_random(&seed) % 40);
    }
    g.num_edges = g.indptr[num_nodes];
    g.indices = calloc(g.num_edges + 1, sizeof(uint32_t));
    g.wide = calloc(g.num_edges + 1, sizeof(uint64_t));
    g.weights = calloc(g.num_edges + 1, sizeof(float));
    for (uint64_t e = 0; e < g.num_edges; e++) {
        g.wide[e] = g.indices[e] = (uint32_t)(test_random(&seed) % num_nodes);
        g.weights[e] = test_random(&seed) % 4 ? (float)(test_random(&seed) % 1000) / 7 : 0;
    }
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
    free(g->weights);
}

static ae_list list_of(const graph *g, uint64_t v) {
    return (ae_list){g->indptr[v], g->indptr[v + 1] - g->indptr[v]};
}

TEST(members_tell_what_a_scan_tells) {
    graph g = make_graph(1, 300, 900);
    aether_error err = {0};
    uint32_t *narrow = calloc(g.num_edges, sizeof *narrow);
    uint64_t *wide = calloc(g.num_edges, sizeof *wide);
    REQUIRE_OK(aether_members_build(g.topology, narrow, g.num_edges, NULL, &err), err);
    REQUIRE_OK(aether_members_build(g.topology64, wide, g.num_edges, NULL, &err), err);
    for (uint64_t v = 0; v < g.num_nodes; v++) {
        ae_list list = list_of(&g, v);
        for (uint64_t x = 0; x < g.num_nodes + 20; x++) {
            bool there = false;
            for (uint64_t i = 0; i < list.degree; i++)
                there |= g.indices[list.start + i] == x;
            CHECK_EQ(ae_members_has(narrow, 4, list, x), there);
            CHECK_EQ(ae_members_has(wide, 8, list, x), there);
            ae_members_prefetch(narrow, 4, list, x);
        }
    }
    free(narrow);
    free(wide);
    free_graph(&g);
}

TEST(members_of_lists_with_one_id_only) {
    aether_error err = {0};
    uint64_t indptr[] = {0, 5000};
    uint32_t *indices = calloc(5000, sizeof *indices), *members = calloc(5000, sizeof *members);
    for (uint64_t i = 0; i < 5000; i++)
        indices[i] = i == 77 ? 1 : 2;
    aether_lists lists = {1, 9, 5000, indptr, indices, NULL, 4, 8};
    aether_topology *t;
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    REQUIRE_OK(aether_members_build(t, members, 5000, NULL, &err), err);
    for (uint64_t x = 0; x < 9; x++)
        CHECK_EQ(ae_members_has(members, 4, (ae_list){0, 5000}, x), x == 1 || x == 2);
    aether_topology_destroy(t);
    free(indices);
    free(members);
}

/* What each place weighs in the table, against its share of the weights. */
TEST(alias_tables_hold_the_weights) {
    graph g = make_graph(2, 200, 700);
    aether_error err = {0};
    uint64_t *table = calloc(g.num_edges, sizeof *table);
    double *mass = calloc(g.num_edges, sizeof *mass);
    REQUIRE_OK(aether_alias_build(g.topology, g.weights, AETHER_F32, table, g.num_edges, NULL, &err), err);
    for (uint64_t v = 0; v < g.num_nodes; v++) {
        ae_list list = list_of(&g, v);
        double sum = 0;
        for (uint64_t i = 0; i < list.degree; i++)
            sum += g.weights[list.start + i];
        for (uint64_t i = 0; i < list.degree; i++) {
            uint64_t entry = table[list.start + i];
            CHECK_EQ(entry == AE_ALIAS_NONE, sum == 0);
            if (entry == AE_ALIAS_NONE)
                continue;
            REQUIRE(entry >> 32 < list.degree);
            mass[list.start + i] += (double)(uint32_t)entry / 0x1p32;
            mass[list.start + (entry >> 32)] += 1 - (double)(uint32_t)entry / 0x1p32;
        }
        for (uint64_t i = 0; i < list.degree && sum > 0; i++) {
            double expected = g.weights[list.start + i] / sum * (double)list.degree;
            double off = mass[list.start + i] - expected;
            CHECK(off < 1e-5 && off > -1e-5);
            CHECK(g.weights[list.start + i] > 0 || mass[list.start + i] == 0);
        }
    }
    free(table);
    free(mass);
    free_graph(&g);
}

#define WALKS  1500
#define LENGTH 12

static int64_t first[WALKS * (LENGTH + 1)], second[WALKS * (LENGTH + 1)];

static void check_walks(const graph *g, const int64_t *starts, const aether_walk_options *o) {
    for (uint64_t i = 0; i < WALKS; i++) {
        const int64_t *row = first + i * (LENGTH + 1);
        CHECK_EQ(row[0], starts[i]);
        for (uint64_t s = 0; s < LENGTH; s++) {
            ae_list list = list_of(g, (uint64_t)row[s]);
            bool edge = row[s + 1] == row[s] || (o->restart > 0 && row[s + 1] == starts[i]);
            for (uint64_t e = 0; e < list.degree && !edge; e++)
                edge = g->indices[list.start + e] == row[s + 1];
            CHECK(edge);
        }
    }
}

TEST(threads_widths_and_tables_do_not_show) {
    graph g = make_graph(3, 400, 600);
    aether_error err = {0};
    int64_t starts[WALKS];
    uint64_t seed = 9;
    for (uint64_t i = 0; i < WALKS; i++)
        starts[i] = (int64_t)(test_random(&seed) % g.num_nodes);
    uint32_t *narrow = calloc(g.num_edges, sizeof *narrow);
    uint64_t *wide = calloc(g.num_edges, sizeof *wide), *alias = calloc(g.num_edges, sizeof *alias);
    REQUIRE_OK(aether_members_build(g.topology, narrow, g.num_edges, NULL, &err), err);
    REQUIRE_OK(aether_members_build(g.topology64, wide, g.num_edges, NULL, &err), err);
    REQUIRE_OK(aether_alias_build(g.topology, g.weights, AETHER_F32, alias, g.num_edges, NULL, &err), err);
    const double rates[][3] = {{1, 1, 0}, {0.25, 4, 0}, {4, 0.25, 0.1}, {1e-7, 1, 0}, {1, 1, 0.3}};
    for (uint32_t k = 0; k < 10; k++) {
        const double *r = rates[k / 2];
        aether_walk_options o = {.key = k, .length = LENGTH, .p = r[0], .q = r[1], .restart = r[2]};
        o.alias = k % 2 ? alias : NULL;
        o.num_threads = 1;
        REQUIRE_OK(aether_random_walk(g.topology, starts, WALKS, &o, first, NULL, &err), err);
        check_walks(&g, starts, &o);
        o.members = narrow;
        o.num_threads = 4;
        REQUIRE_OK(aether_random_walk(g.topology, starts, WALKS, &o, second, NULL, &err), err);
        CHECK(memcmp(first, second, sizeof first) == 0);
        o.members = wide;
        REQUIRE_OK(aether_random_walk(g.topology64, starts, WALKS, &o, second, NULL, &err), err);
        CHECK(memcmp(first, second, sizeof first) == 0);
    }
    free(narrow);
    free(wide);
    free(alias);
    free_graph(&g);
}

/* node2vec from the middle of a path of three nodes, where a walk that was at an end last may not come back
 * to it: after a restart there is no node that it was at last. */
TEST_ONE_THREAD(a_restart_forgets_where_the_walk_was) {
    const uint64_t indptr[] = {0, 2, 3, 4};
    const uint32_t indices[] = {1, 2, 0, 0};
    const aether_lists lists = {3, 3, 4, indptr, indices, NULL, 4, 8};
    const aether_walk_options o = {.key = 1, .length = 1000, .p = 1e9, .q = 1, .restart = 0.5};
    const int64_t start = 0;
    int64_t out[1001];
    aether_topology *t;
    aether_error err = {0};
    uint64_t repeats = 0;
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    REQUIRE_OK(aether_random_walk(t, &start, 1, &o, out, NULL, &err), err);
    for (uint64_t i = 2; i <= o.length; i++)
        repeats += out[i] && out[i - 1] == 0 && out[i - 2] == out[i];
    CHECK(repeats > 20); /* some 60: half of the ways back to the middle are restarts */
    aether_topology_destroy(t);
}

TEST(fanouts_are_distinct_positions) {
    graph g = make_graph(4, 300, 500);
    aether_error err = {0};
    int64_t nodes[WALKS];
    for (uint64_t i = 0; i < WALKS; i++)
        nodes[i] = (int64_t)(i % g.num_nodes);
    for (uint64_t k = 0; k <= LENGTH; k += 3) {
        REQUIRE_OK(
            aether_fanout(g.topology, nodes, WALKS,
                          AE_SIZED(aether_fanout_options, .key = 5, .k = k, .flags = 0, .num_threads = 1),
                          first, NULL, &err),
            err);
        REQUIRE_OK(
            aether_fanout(g.topology64, nodes, WALKS,
                          AE_SIZED(aether_fanout_options, .key = 5, .k = k, .flags = 0, .num_threads = 4),
                          second, NULL, &err),
            err);
        CHECK(memcmp(first, second, WALKS * k * sizeof *first) == 0);
        for (uint64_t i = 0; i < WALKS; i++)
            for (uint64_t j = 0; j < k; j++)
                CHECK_EQ(first[i * k + j] >= 0, j < list_of(&g, (uint64_t)nodes[i]).degree);
    }
    REQUIRE_OK(aether_fanout(g.topology, nodes, WALKS,
                             AE_SIZED(aether_fanout_options, .key = 5, .k = 4, .flags = AETHER_SAMPLE_REPLACE,
                                      .num_threads = 0),
                             first, NULL, &err),
               err);
    for (uint64_t i = 0; i < WALKS; i++)
        CHECK_EQ(first[4 * i + 3] >= 0, list_of(&g, (uint64_t)nodes[i]).degree > 0);
    free_graph(&g);
}

TEST(calls_can_be_cancelled) {
    graph g = make_graph(5, 100, 200);
    aether_error err = {0};
    aether_task task = {.cancel = 1};
    int64_t starts[2] = {1, 2};
    uint64_t *table = calloc(g.num_edges, sizeof *table);
    aether_walk_options o = {.length = 3, .p = 1, .q = 1};
    CHECK_EQ(aether_random_walk(g.topology, starts, 2, &o, first, &task, &err), AETHER_E_CANCELLED);
    CHECK_EQ(aether_fanout(g.topology, starts, 2,
                           AE_SIZED(aether_fanout_options, .key = 0, .k = 2, .flags = 0, .num_threads = 0),
                           first, &task, &err),
             AETHER_E_CANCELLED);
    CHECK_EQ(aether_members_build(g.topology, table, g.num_edges, &task, &err), AETHER_E_CANCELLED);
    CHECK_EQ(aether_alias_build(g.topology, g.weights, AETHER_F32, table, g.num_edges, &task, &err),
             AETHER_E_CANCELLED);
    task.cancel = 0;
    REQUIRE_OK(aether_members_build(g.topology, table, g.num_edges, &task, &err), err);
    CHECK_EQ(task.done, g.num_edges);
    CHECK_EQ(task.total, g.num_edges);
    free(table);
    free_graph(&g);
}

static int polls;

static int32_t cancel_at_the_second_poll(void) {
    return ++polls == 2;
}

TEST(a_step_between_hubs_can_be_cancelled) {
    enum { DEGREE = 20000 }; /* a step takes DEGREE^2 comparisons: much longer than 50 ms, a poll */
    const uint64_t indptr[4] = {0, DEGREE, 2 * DEGREE, 2 * DEGREE};
    uint32_t *indices = calloc(2 * DEGREE, sizeof *indices); /* 0 leads to 1, 1 leads to 2 */
    for (uint64_t i = 0; i < 2 * DEGREE; i++)
        indices[i] = i < DEGREE ? 1 : 2;
    const aether_lists lists = {3, 3, 2 * DEGREE, indptr, indices, NULL, 4, 8};
    aether_topology *t = NULL;
    aether_error err = {0};
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    aether_task task = {.poll = cancel_at_the_second_poll};
    const int64_t starts[8] = {0};
    const aether_walk_options o = {.length = 2, .p = 1e15, .q = 1e15, .num_threads = 1};
    polls = 0;
    CHECK_EQ(aether_random_walk(t, starts, 8, &o, first, &task, &err), AETHER_E_CANCELLED);
    CHECK_EQ(polls, 2);
    aether_topology_destroy(t);
    free(indices);
}

TEST(wrong_arguments_are_named) {
    graph g = make_graph(6, 50, 60);
    aether_error err = {0};
    int64_t starts[3] = {0, 1, 50};
    aether_walk_options good = {.length = 3, .p = 1, .q = 1}, o = good;
    CHECK_EQ(aether_random_walk(g.topology, starts, 3, &o, first, NULL, &err), AETHER_E_RANGE);
    CHECK_EQ(err.position, 2);
    CHECK_EQ(err.value, 50);
    CHECK_EQ(aether_fanout(g.topology, starts, 3,
                           AE_SIZED(aether_fanout_options, .key = 0, .k = 1, .flags = 0, .num_threads = 0),
                           first, NULL, &err),
             AETHER_E_RANGE);
    CHECK_EQ(err.position, 2);
    const double bad[] = {0, -1, 1e-320, 0.0 / 0.0, 1.0 / 0.0};
    for (uint32_t i = 0; i < 5; i++) {
        o = good;
        o.p = bad[i];
        CHECK_EQ(aether_random_walk(g.topology, starts, 1, &o, first, NULL, &err), AETHER_E_INVALID);
        o = good;
        o.q = bad[i];
        CHECK_EQ(aether_random_walk(g.topology, starts, 1, &o, first, NULL, &err), AETHER_E_INVALID);
    }
    o = good;
    o.restart = 1.5;
    CHECK_EQ(aether_random_walk(g.topology, starts, 1, &o, first, NULL, &err), AETHER_E_INVALID);
    o = good;
    o.length = UINT64_MAX;
    CHECK_EQ(aether_random_walk(g.topology, starts, 1, &o, first, NULL, &err), AETHER_E_LIMIT);
    CHECK_EQ(aether_fanout(
                 g.topology, starts, 2,
                 AE_SIZED(aether_fanout_options, .key = 0, .k = UINT64_MAX / 2, .flags = 0, .num_threads = 0),
                 first, NULL, &err),
             AETHER_E_LIMIT);
    CHECK_EQ(aether_random_walk(g.topology, NULL, 1, &good, first, NULL, NULL), AETHER_E_INVALID);
    CHECK_EQ(aether_random_walk(g.topology, NULL, 0, &good, NULL, NULL, NULL), AETHER_OK);
    const uint64_t n = g.num_edges;
    uint64_t *table = (uint64_t *)first;
    CHECK_EQ(aether_alias_build(g.topology, g.weights, AETHER_I32, table, n, NULL, &err), AETHER_E_INVALID);
    for (int by = -1; by <= 1; by += 2) { /* tables of another length */
        CHECK_EQ(aether_alias_build(g.topology, g.weights, AETHER_F32, table, n + (uint64_t)by, NULL, &err),
                 AETHER_E_INVALID);
        CHECK_HAS(err.message, "the topology has");
        CHECK_EQ(aether_members_build(g.topology, table, n + (uint64_t)by, NULL, &err), AETHER_E_INVALID);
        CHECK_HAS(err.message, "the topology has");
    }
    free_graph(&g);
}

/* A table that is older than its list: a damaged or changed file. */
TEST(tables_that_do_not_fit_are_refused) {
    aether_error err = {0};
    uint64_t indptr[] = {0, 2, 2}, table[] = {UINT64_C(7) << 32, UINT64_C(7) << 32};
    uint32_t indices[] = {0, 1};
    aether_lists lists = {2, 2, 2, indptr, indices, NULL, 4, 8};
    aether_topology *t;
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    int64_t starts[] = {0};
    aether_walk_options o = {.length = 3, .p = 1, .q = 1, .alias = table};
    CHECK_EQ(aether_random_walk(t, starts, 1, &o, first, NULL, &err), AETHER_E_CORRUPT);
    indices[1] = 5;
    o.alias = NULL;
    o.length = LENGTH;
    CHECK_EQ(aether_random_walk(t, starts, 1, &o, first, NULL, &err), AETHER_E_CORRUPT);
    aether_topology_destroy(t);
}

TEST_MAIN()
