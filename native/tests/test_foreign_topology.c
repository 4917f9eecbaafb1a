/*
 * A topology of one's own, as native/README.md describes it: a graph that is computed, without any
 * array. Its samples are those of the same graph in arrays.
 *
 *   node v        a circle of NODES nodes
 *   its list      v + 1, v + 2, v + 5, v + 10 ... (v + k^2 + 1), DEGREES[v % PERIOD] of them
 *   position      bit 62 | v << 16 | k          with gaps, far beyond the number of edges
 *   edge id       counted from the last edge back to the first
 *   weight, time  kept by the graph itself: functions of v and k
 */
#include <math.h>

#include "core/error.h"
#include "test.h"
#include "topology/arrays.h"

enum { PERIOD = 8, NODES = 40 * PERIOD, EDGES = 40 * 332 };

static const uint64_t degrees[PERIOD] = {3, 0, 1, 2, 5, 300, 8, 13};

/* ---- the topology -------------------------------------------------------------------- */

typedef struct circle {
    aether_topology base; /* first: the sampler knows no more than this */
    int broken;           /* code that every look-up beside the lists fails with; 0: none */
} circle;

#define BIT (UINT64_C(1) << 62)

static uint64_t position_of(uint64_t node, uint64_t k) {
    return BIT | node << 16 | k;
}

static uint64_t node_at(uint64_t position) {
    return (position & ~BIT) >> 16;
}

static uint64_t place_at(uint64_t position) {
    return position & 0xFFFF;
}

static uint64_t neighbor_of(uint64_t node, uint64_t k) {
    return (node + k * k + 1) % NODES;
}

static uint64_t edges_before(uint64_t node) {
    uint64_t before = node / PERIOD * (EDGES / (NODES / PERIOD));
    for (uint64_t i = 0; i < node % PERIOD; i++)
        before += degrees[i];
    return before;
}

static uint64_t edge_of(uint64_t node, uint64_t k) {
    return EDGES - 1 - (edges_before(node) + k);
}

/* Some weigh nothing. */
static double weight_of(uint64_t node, uint64_t k) {
    return (double)((node * 31 + k * 17) % 5);
}

/* Ascending in every list, with equal ones. */
static int64_t time_of(uint64_t node, uint64_t k) {
    return (int64_t)(k / 2 + node % 3);
}

static int locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                  aether_error *err) {
    (void)t, (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = (ae_list){position_of(nodes[i], 0), degrees[nodes[i] % PERIOD]};
    return AETHER_OK;
}

static void prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    (void)t, (void)positions, (void)n;
}

static int fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                 aether_error *err) {
    (void)t, (void)err;
    for (uint64_t i = 0; i < n; i++)
        ids[i] = neighbor_of(node_at(positions[i]), place_at(positions[i]));
    return AETHER_OK;
}

/* What a graph on another machine would answer while its connection is down. */
static int look_up(const aether_topology *t, aether_error *err) {
    const circle *c = (const circle *)(const void *)t;
    return c->broken ? ae_error_set(err, c->broken, "the circle is broken") : AETHER_OK;
}

static int edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                    aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        out[i] = edge_of(node_at(positions[i]), place_at(positions[i]));
    return look_up(t, err);
}

static int weights(const aether_topology *t, const uint64_t *positions, uint64_t n, double *out,
                   aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        out[i] = weight_of(node_at(positions[i]), place_at(positions[i]));
    return look_up(t, err);
}

static int times(const aether_topology *t, const uint64_t *positions, uint64_t n, int64_t *out,
                 aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        out[i] = time_of(node_at(positions[i]), place_at(positions[i]));
    return look_up(t, err);
}

static uint64_t memory(const aether_topology *t) {
    (void)t;
    return sizeof(circle);
}

static void destroy(aether_topology *t) {
    free(t);
}

static const ae_topology_ops circle_ops = {.locate = locate,
                                           .prefetch = prefetch,
                                           .fetch = fetch,
                                           .edge_ids = edge_ids,
                                           .weights = weights,
                                           .times = times,
                                           .memory = memory,
                                           .destroy = destroy};

/* The same as a graph that is slow to reach: the ids of many positions are asked for at once. */
static int fetch_many(const aether_topology *t, const ae_fetch *jobs, uint32_t n,
                      struct aether_staging *staging, aether_task *task, aether_error *err) {
    (void)staging, (void)task, (void)err;
    CHECK_EQ(t->id_bytes, 4);
    for (uint32_t j = 0; j < n; j++)
        for (uint64_t i = 0; i < jobs[j].count; i++)
            ((uint32_t *)jobs[j].ids)[i] =
                (uint32_t)neighbor_of(node_at(jobs[j].positions[i]), place_at(jobs[j].positions[i]));
    return AETHER_OK;
}

static const ae_topology_ops far_circle_ops = {.locate = locate,
                                               .prefetch = prefetch,
                                               .fetch = fetch,
                                               .fetch_many = fetch_many,
                                               .edge_ids = edge_ids,
                                               .weights = weights,
                                               .times = times,
                                               .memory = memory,
                                               .destroy = destroy};

/* The same as a graph that has ids and edge ids beside each other. */
static int fetch_edges(const aether_topology *t, uint64_t *positions, uint64_t n, uint64_t *ids,
                       aether_error *err) {
    const int rc = fetch(t, positions, n, ids, err);
    return rc ? rc : edge_ids(t, positions, n, positions, err);
}

static const ae_topology_ops paired_circle_ops = {.locate = locate,
                                                  .prefetch = prefetch,
                                                  .fetch = fetch,
                                                  .fetch_edges = fetch_edges,
                                                  .edge_ids = edge_ids,
                                                  .weights = weights,
                                                  .times = times,
                                                  .memory = memory,
                                                  .destroy = destroy};

static aether_topology *make_circle(const ae_topology_ops *ops) {
    circle *c = calloc(1, sizeof *c);
    c->base = (aether_topology){.ops = ops,
                                .num_major = NODES,
                                .num_minor = NODES,
                                .num_edges = EDGES,
                                .end_positions = position_of(NODES, 0),
                                .end_edge_ids = EDGES,
                                .id_bytes = 4};
    return &c->base;
}

/* ---- the same graph in arrays -------------------------------------------------------- */

static uint64_t twin_indptr[NODES + 1];
static uint32_t twin_indices[EDGES], twin_edge_ids[EDGES];
static double twin_weights[EDGES];
static int64_t twin_times[EDGES];

static aether_topology *make_twin(void) {
    aether_topology *t = NULL;
    for (uint64_t v = 0; v < NODES; v++) {
        twin_indptr[v + 1] = edges_before(v + 1);
        for (uint64_t k = 0; k < degrees[v % PERIOD]; k++) {
            const uint64_t edge = edge_of(v, k), at = twin_indptr[v] + k;
            twin_indices[at] = (uint32_t)neighbor_of(v, k);
            twin_edge_ids[at] = (uint32_t)edge;
            twin_weights[edge] = weight_of(v, k);
            twin_times[edge] = time_of(v, k);
        }
    }
    const aether_lists lists = {NODES, NODES, EDGES, twin_indptr, twin_indices, twin_edge_ids, 4, 4};
    CHECK_CODE(aether_topology_create(&lists, &t, NULL), AETHER_OK);
    return t;
}

typedef struct pair {
    aether_topology *own, *twin;
    aether_weight_sums *sums; /* of the twin */
} pair;

static pair make_pair(const ae_topology_ops *ops) {
    pair p = {make_circle(ops), make_twin(), NULL};
    CHECK_CODE(aether_weight_sums_create(p.twin, twin_weights, AETHER_F64, &p.sums, NULL, NULL), AETHER_OK);
    return p;
}

static void free_pair(pair p) {
    aether_weight_sums_destroy(p.sums);
    aether_topology_destroy(p.own);
    aether_topology_destroy(p.twin);
}

static aether_relation own_relation(pair p, bool weighted, bool timed) {
    return (aether_relation){.topology = p.own,
                             .own_values =
                                 (weighted ? AETHER_OWN_WEIGHTS : 0u) | (timed ? AETHER_OWN_TIMES : 0u)};
}

static aether_relation twin_relation(pair p, bool weighted, bool timed) {
    return (aether_relation){.topology = p.twin,
                             .weights = weighted ? twin_weights : NULL,
                             .weight_dtype = AETHER_F64,
                             .sums = weighted ? p.sums : NULL,
                             .times = timed ? twin_times : NULL,
                             .time_dtype = AETHER_I64,
                             .times_of = AETHER_TIMES_OF_EDGES};
}

static aether_sampler *make_sampler(aether_relation relation) {
    const uint64_t num_nodes = NODES;
    aether_sampler *s = NULL;
    aether_error err = {0};
    CHECK_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &s, &err),
             err);
    return s;
}

/* ---- comparing ----------------------------------------------------------------------- */

enum { HOPS = 3, SEEDS = 24, EXCLUSIONS = 60, MEMBERS = 3 };

typedef struct counts {
    uint64_t hop_nodes[HOPS + 1], hop_edges[HOPS], nodes, edges;
} counts;

static uint64_t compare(const aether_sampler *own, const aether_sampler *twin, const counts *a,
                        const counts *b, bool disjoint) {
    CHECK(memcmp(a, b, sizeof *a) == 0);
    if (a->nodes != b->nodes || a->edges != b->edges)
        return 0;
    const uint64_t size = 2 * a->nodes + 3 * a->edges;
    int64_t *out[2] = {calloc(size + 1, 8), calloc(size + 1, 8)};
    for (int i = 0; i < 2; i++) {
        int64_t *node = out[i], *row = node + 2 * a->nodes;
        aether_error err = {0};
        CHECK_OK(aether_sample_export(i ? twin : own,
                                      AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = a->nodes,
                                               .num_edges = a->edges, .node = node, .row = row,
                                               .col = row + a->edges, .edge = row + 2 * a->edges,
                                               .batch = disjoint ? node + a->nodes : NULL),
                                      &err),
                 err);
    }
    CHECK(memcmp(out[0], out[1], 8 * size) == 0);
    free(out[0]);
    free(out[1]);
    return a->edges;
}

typedef struct request {
    int64_t ids[SEEDS], since[SEEDS], until[SEEDS];
    uint64_t own_exclusions[EXCLUSIONS], twin_exclusions[EXCLUSIONS];
    aether_excluded exclude[2]; /* of the circle, of its twin */
    aether_seeds seeds;
    aether_sample_options options;
} request;

static const int64_t fanouts[HOPS] = {7, -1, 3};

static void make_request(uint32_t flags, bool timed, bool excluding, uint64_t key, request *r) {
    uint64_t state = key, exclusion = 0;
    r->options = (aether_sample_options){
        .key = key, .fanouts = fanouts, .num_hops = HOPS, .flags = flags, .num_threads = 1 + key % 2};
    for (int i = 0; i < SEEDS; i++) {
        r->ids[i] = (int64_t)(test_random(&state) % NODES);
        r->since[i] = (int64_t)(test_random(&state) % 3);
        r->until[i] = r->since[i] + (int64_t)(test_random(&state) % 90);
    }
    r->seeds = (aether_seeds){.ids = r->ids, .count = SEEDS};
    if (timed && flags & AETHER_SAMPLE_DISJOINT) {
        r->seeds.since = r->since;
        r->seeds.until = r->until;
    }
    for (uint64_t v = 5; exclusion < EXCLUSIONS; v += PERIOD) /* of the long lists */
        for (uint64_t k = v % 7; k < 300 && exclusion < EXCLUSIONS; k += 37, exclusion++) {
            r->own_exclusions[exclusion] = position_of(v, k);
            r->twin_exclusions[exclusion] = twin_indptr[v] + k;
        }
    r->exclude[0] = (aether_excluded){r->own_exclusions, excluding ? EXCLUSIONS : 0};
    r->exclude[1] = (aether_excluded){r->twin_exclusions, excluding ? EXCLUSIONS : 0};
}

static const uint32_t all_flags[] = {0,
                                     AETHER_SAMPLE_REPLACE,
                                     AETHER_SAMPLE_INDUCED,
                                     AETHER_SAMPLE_LAYERED,
                                     AETHER_SAMPLE_DISJOINT,
                                     AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_REPLACE,
                                     AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_INDUCED,
                                     AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_LATEST};

static int sample(aether_sampler *s, const request *r, int side, counts *c, aether_error *err) {
    aether_sample_options o = r->options;
    o.exclude = &r->exclude[side];
    return aether_sample_typed(
        s, &r->seeds, &o, AE_SIZED(aether_sample_counts, c->hop_nodes, c->hop_edges, &c->nodes, &c->edges),
        err);
}

static void compare_samples(const ae_topology_ops *ops, bool weighted, bool timed) {
    pair p = make_pair(ops);
    aether_sampler *own = make_sampler(own_relation(p, weighted, timed));
    aether_sampler *twin = make_sampler(twin_relation(p, weighted, timed));
    uint64_t edges = 0;
    static request r;
    for (uint64_t i = 0; i < 8 * 4; i++) {
        counts a = {0}, b = {0};
        aether_error err = {0};
        make_request(all_flags[i % 8], timed, i / 8 % 2, i, &r);
        REQUIRE_OK(sample(own, &r, 0, &a, &err), err);
        REQUIRE_OK(sample(twin, &r, 1, &b, &err), err);
        edges += compare(own, twin, &a, &b, r.options.flags & AETHER_SAMPLE_DISJOINT);
    }
    CHECK(edges > 32 * 1000);
    aether_sampler_destroy(own);
    aether_sampler_destroy(twin);
    free_pair(p);
}

TEST_ONE_THREAD(samples_are_those_of_the_same_graph_in_arrays) {
    compare_samples(&circle_ops, false, false);
    compare_samples(&far_circle_ops, false, false);
    compare_samples(&paired_circle_ops, false, false);
}
TEST_ONE_THREAD(samples_by_weights_of_its_own) {
    compare_samples(&circle_ops, true, false);
    compare_samples(&far_circle_ops, true, false);
}
TEST_ONE_THREAD(samples_in_times_of_its_own) {
    compare_samples(&circle_ops, false, true);
    compare_samples(&far_circle_ops, false, true);
    compare_samples(&paired_circle_ops, false, true);
}
TEST_ONE_THREAD(samples_by_weights_in_times_of_its_own) {
    compare_samples(&circle_ops, true, true);
}

/* ---- facts and edge ids ---------------------------------------------------------------- */

TEST(facts_are_those_of_the_struct) {
    aether_topology *t = make_circle(&circle_ops);
    aether_topology_facts f;
    aether_error err = {0};
    REQUIRE_OK(aether_topology_describe(t, &f, &err), err);
    CHECK_EQ(f.num_major, NODES);
    CHECK_EQ(f.num_minor, NODES);
    CHECK_EQ(f.num_edges, EDGES);
    CHECK_EQ(f.end_positions, position_of(NODES, 0));
    CHECK_EQ(f.end_edge_ids, EDGES);
    CHECK_EQ(f.id_bytes, 4);
    CHECK_EQ(f.edge_ids_are_positions, 0);
    CHECK_EQ(f.own_values, AETHER_OWN_WEIGHTS | AETHER_OWN_TIMES);
    aether_topology_destroy(t);
    t = make_twin();
    REQUIRE_OK(aether_topology_describe(t, &f, &err), err);
    CHECK_EQ(f.end_positions, EDGES);
    CHECK_EQ(f.own_values, 0);
    aether_topology_destroy(t);
}

TEST(what_is_missing_or_wrong_is_named) {
    const struct {
        aether_topology facts;
        const char *name;
    } cases[] = {
        {{.ops = &circle_ops, .id_bytes = 2}, "id_bytes"},
        {{.ops = &circle_ops, .id_bytes = 4, .num_minor = (UINT64_C(1) << 32) + 1}, "id_bytes"},
        {{.ops = &circle_ops, .id_bytes = 4, .num_edges = 3, .end_edge_ids = 3}, "end_positions"},
        {{.ops = &circle_ops, .id_bytes = 4, .num_edges = 3, .end_positions = 3}, "end_edge_ids"},
        {{.ops = &circle_ops, .id_bytes = 4, .end_positions = BIT << 1}, "end_positions"},
        {{.ops = &circle_ops, .id_bytes = 4, .num_major = BIT << 1}, "num_major"},
        {{.ops = &circle_ops, .id_bytes = 4, .end_positions = 1, .edge_ids_are_positions = true},
         "edge_ids_are_positions"},
        {{.ops = NULL, .id_bytes = 4}, "table of operations"},
    };
    aether_topology_facts f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        aether_error err = {0};
        CHECK_CODE(aether_topology_describe(&cases[i].facts, &f, &err), AETHER_E_INVALID);
        CHECK(strstr(err.message, cases[i].name));
    }
    ae_topology_ops broken[6];
    for (int i = 0; i < 6; i++)
        broken[i] = circle_ops;
    broken[0].locate = NULL;
    broken[1].prefetch = NULL;
    broken[2].fetch = NULL;
    broken[3].edge_ids = NULL;
    broken[4].memory = NULL;
    broken[5].destroy = NULL;
    const char *names[] = {"locate", "prefetch", "fetch", "edge_ids", "memory", "destroy"};
    for (int i = 0; i < 6; i++) {
        const aether_topology t = {.ops = &broken[i], .id_bytes = 4};
        aether_error err = {0};
        CHECK_CODE(aether_topology_describe(&t, &f, &err), AETHER_E_INVALID);
        CHECK(strstr(err.message, names[i]));
    }
}

TEST(edge_ids_at_positions) {
    aether_topology *t = make_circle(&circle_ops);
    int64_t ids[] = {(int64_t)position_of(5, 299), (int64_t)position_of(0, 0), (int64_t)position_of(5, 0)};
    aether_error err = {0};
    REQUIRE_OK(aether_topology_edge_ids(t, ids, 3, ids, &err), err);
    CHECK_EQ(ids[0], edge_of(5, 299));
    CHECK_EQ(ids[1], edge_of(0, 0));
    CHECK_EQ(ids[2], edge_of(5, 0));
    const int64_t bad[] = {(int64_t)position_of(1, 0), -1};
    CHECK_CODE(aether_topology_edge_ids(t, bad, 2, ids, &err), AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    CHECK_EQ(err.value, -1);
    aether_topology_destroy(t);
}

/* ---- groups, HGT, walks -------------------------------------------------------------- */

static void compare_group(const ae_topology_ops *ops, uint32_t flags) {
    pair p = make_pair(ops);
    const aether_relation relation = own_relation(p, true, true);
    const uint64_t num_nodes = NODES;
    const aether_group_options room = {.capacity = MEMBERS, .num_threads = 2};
    aether_sampler *twin = make_sampler(twin_relation(p, true, true));
    aether_group *g = NULL;
    static request r[MEMBERS];
    aether_seeds seeds[MEMBERS];
    aether_sample_options options[MEMBERS];
    aether_error err = {0};
    uint32_t failed;
    uint64_t edges, hash;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        make_request(flags, true, m == 1, 50 + m, &r[m]);
        seeds[m] = r[m].seeds;
        options[m] = r[m].options;
        options[m].exclude = &r[m].exclude[0];
    }
    REQUIRE_OK(aether_group_create(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &room, &g, &err),
               err);
    REQUIRE_OK(aether_group_sample(g, seeds, options, MEMBERS, &failed, NULL, &err), err);
    CHECK_CODE(aether_group_edges(g, 0, &edges, &hash, &err), AETHER_E_UNSUPPORTED);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        counts a = {0}, b = {0};
        aether_sampler *own;
        REQUIRE_OK(aether_group_take(
                       g, m, AE_SIZED(aether_sample_counts, a.hop_nodes, a.hop_edges, &a.nodes, &a.edges),
                       &own, NULL, &err),
                   err);
        REQUIRE_OK(sample(twin, &r[m], 1, &b, &err), err);
        CHECK(compare(own, twin, &a, &b, flags & AETHER_SAMPLE_DISJOINT) > 100);
    }
    aether_group_destroy(g);
    aether_sampler_destroy(twin);
    free_pair(p);
}

TEST(groups) {
    for (int far = 0; far < 2; far++) {
        compare_group(far ? &far_circle_ops : &circle_ops, 0);
        compare_group(far ? &far_circle_ops : &circle_ops, AETHER_SAMPLE_DISJOINT);
    }
}

TEST(hgt) {
    for (int far = 0; far < 2; far++) {
        pair p = make_pair(far ? &far_circle_ops : &circle_ops);
        const int64_t num_samples[] = {30, 40};
        aether_sampler *s[] = {make_sampler(own_relation(p, false, false)),
                               make_sampler(twin_relation(p, false, false))};
        counts c[2] = {{{0}, {0}, 0, 0}};
        static request r;
        make_request(0, false, false, 4, &r);
        for (int i = 0; i < 2; i++) {
            const aether_hgt_options o = {
                .key = 3, .num_samples = num_samples, .num_hops = 2, .max_neighbors = 50};
            aether_error err = {0};
            CHECK_OK(aether_sample_hgt(
                         s[i], &r.seeds, &o,
                         AE_SIZED(aether_sample_counts, c[i].hop_nodes, NULL, &c[i].nodes, &c[i].edges),
                         &err),
                     err);
        }
        CHECK(compare(s[0], s[1], &c[0], &c[1], false) > 100);
        aether_sampler_destroy(s[0]);
        aether_sampler_destroy(s[1]);
        free_pair(p);
    }
}

TEST(walks_and_fanouts) {
    enum { WALKS = 300, LENGTH = 12 };
    static int64_t starts[WALKS], out[2][WALKS * (LENGTH + 1)];
    for (int64_t i = 0; i < WALKS; i++)
        starts[i] = i % NODES;
    for (int far = 0; far < 2; far++) {
        pair p = make_pair(far ? &far_circle_ops : &circle_ops);
        aether_error err = {0};
        const aether_walk_options rules[] = {
            {.key = 1, .length = LENGTH, .p = 1, .q = 1},
            {.key = 2, .length = LENGTH, .p = 0.25, .q = 4, .restart = 0.1},
            {.key = 3, .length = LENGTH, .p = 1, .q = 0.5, .flags = AETHER_WALK_PAD, .num_threads = 1},
        };
        for (int i = 0; i < 3; i++) {
            CHECK_OK(aether_random_walk(p.own, starts, WALKS, &rules[i], out[0], NULL, &err), err);
            CHECK_OK(aether_random_walk(p.twin, starts, WALKS, &rules[i], out[1], NULL, &err), err);
            CHECK(memcmp(out[0], out[1], sizeof out[0]) == 0);
        }
        CHECK_OK(
            aether_fanout(p.own, starts, WALKS,
                          AE_SIZED(aether_fanout_options, .key = 5, .k = 9, .flags = 0, .num_threads = 1),
                          out[0], NULL, &err),
            err);
        CHECK_OK(
            aether_fanout(p.twin, starts, WALKS,
                          AE_SIZED(aether_fanout_options, .key = 5, .k = 9, .flags = 0, .num_threads = 1),
                          out[1], NULL, &err),
            err);
        CHECK(memcmp(out[0], out[1], WALKS * 9 * sizeof *out[0]) == 0);
        free_pair(p);
    }
}

/* ---- calls on topologies -------------------------------------------------------------- */

TEST(lists_and_edges) {
    pair p = make_pair(&circle_ops);
    static int64_t degree[2][NODES], ids[2][EDGES], edges[2][EDGES];
    aether_topology *both[] = {p.own, p.twin};
    aether_error err = {0};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aether_topology_degrees(both[i], NULL, NODES, degree[i], NULL, &err), err);
        CHECK_OK(aether_topology_neighbors(both[i],
                                           AE_SIZED(aether_list_request, .n = NODES, .capacity = EDGES,
                                                    .neighbors = ids[i], .edges = edges[i]),
                                           NULL, &err),
                 err);
    }
    CHECK(memcmp(degree[0], degree[1], sizeof degree[0]) == 0);
    CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
    CHECK(memcmp(edges[0], edges[1], sizeof edges[0]) == 0);
    CHECK_EQ(aether_topology_memory(p.own), sizeof(circle));
    CHECK_EQ(aether_topology_kept(p.own), 0);
    CHECK_CODE(aether_topology_keep_pages(p.own, 1 << 20, &err), AETHER_E_INVALID);

    const int64_t major[] = {4, 5, 7}, minor[] = {6, 5 + 17, 7};
    uint64_t pairs[8], positions[8], hits;
    CHECK_OK(aether_find_edges(p.own, AE_SIZED(aether_edge_search, major, minor, 3, pairs, positions, 8),
                               &hits, NULL, &err),
             err);
    REQUIRE(hits >= 2);
    CHECK_EQ(positions[0], position_of(4, 1));
    CHECK_EQ(positions[1], position_of(5, 4));
    free_pair(p);
}

/* ---- failures ------------------------------------------------------------------------- */

TEST(look_ups_that_fail_end_the_call) {
    pair p = make_pair(&circle_ops);
    circle *c = (circle *)(void *)p.own;
    static request r;
    static int64_t edge[EDGES];
    aether_error err = {0};
    counts n = {0};
    aether_sampler *plain = make_sampler(own_relation(p, false, false));
    aether_sampler *weighted = make_sampler(own_relation(p, true, false));
    aether_sampler *timed = make_sampler(own_relation(p, false, true));
    make_request(AETHER_SAMPLE_DISJOINT, true, false, 1, &r);
    REQUIRE_OK(sample(plain, &r, 0, &n, &err), err);
    int64_t *ids = calloc(n.edges + 1, sizeof *ids);
    c->broken = AETHER_E_IO;
    CHECK_CODE(aether_sample_export(plain,
                                    AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = n.nodes,
                                             .num_edges = n.edges, .edge = ids),
                                    &err),
               AETHER_E_IO);
    CHECK_STR(err.message, "the circle is broken");
    CHECK_OK(aether_sample_export(plain,
                                  AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = n.nodes,
                                           .num_edges = n.edges, .row = ids),
                                  &err),
             err);
    CHECK_CODE(
        aether_topology_neighbors(
            p.own, AE_SIZED(aether_list_request, .n = NODES, .capacity = EDGES, .edges = edge), NULL, &err),
        AETHER_E_IO);
    CHECK_CODE(sample(weighted, &r, 0, &n, &err), AETHER_E_IO);
    CHECK_CODE(sample(timed, &r, 0, &n, &err), AETHER_E_IO);
    const aether_relation with_times = own_relation(p, false, true);
    CHECK_CODE(aether_check_times(&with_times, NULL, &err), AETHER_E_IO);
    c->broken = 0;
    CHECK_OK(aether_check_times(&with_times, NULL, &err), err);
    CHECK_OK(sample(weighted, &r, 0, &n, &err), err);
    CHECK_OK(sample(timed, &r, 0, &n, &err), err);
    free(ids);
    aether_sampler_destroy(plain);
    aether_sampler_destroy(weighted);
    aether_sampler_destroy(timed);
    free_pair(p);
}

static int bad_weights(const aether_topology *t, const uint64_t *positions, uint64_t n, double *out,
                       aether_error *err) {
    (void)t, (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = place_at(positions[i]) == 2 ? NAN : 1;
    return AETHER_OK;
}

TEST(a_weight_that_is_none_is_named_by_its_edge) {
    ae_topology_ops ops = circle_ops;
    ops.weights = bad_weights;
    pair p = make_pair(&ops);
    const int64_t seed = 8, fanout = 2; /* a list of three */
    const aether_seeds seeds = {.ids = &seed, .count = 1};
    const aether_sample_options o = {.fanouts = &fanout, .num_hops = 1, .num_threads = 1};
    counts n;
    aether_error err = {0};
    aether_sampler *s = make_sampler(own_relation(p, true, false));
    CHECK_CODE(aether_sample_typed(
                   s, &seeds, &o,
                   AE_SIZED(aether_sample_counts, n.hop_nodes, n.hop_edges, &n.nodes, &n.edges), &err),
               AETHER_E_INVALID);
    CHECK_EQ(err.position, edge_of(8, 2));
    aether_sampler_destroy(s);
    free_pair(p);
}

static void check_refused(aether_relation relation, int rc) {
    const uint64_t num_nodes = NODES;
    aether_sampler *s = NULL;
    aether_error err = {0};
    CHECK_CODE(aether_sampler_create_typed(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &s, &err),
               rc);
    CHECK(!s);
}

TEST(values_are_arrays_or_the_topologys_own) {
    pair p = make_pair(&circle_ops);
    aether_relation r = own_relation(p, true, true);
    r.weights = twin_weights;
    r.weight_dtype = AETHER_F64;
    check_refused(r, AETHER_E_INVALID);
    r = own_relation(p, true, true);
    r.times = twin_times;
    r.time_dtype = AETHER_I64;
    r.times_of = AETHER_TIMES_OF_EDGES;
    check_refused(r, AETHER_E_INVALID);
    r = own_relation(p, false, false);
    r.own_values = 4;
    check_refused(r, AETHER_E_INVALID);
    r = twin_relation(p, false, false); /* arrays have none of their own */
    r.own_values = AETHER_OWN_WEIGHTS;
    check_refused(r, AETHER_E_UNSUPPORTED);
    r.own_values = AETHER_OWN_TIMES;
    check_refused(r, AETHER_E_UNSUPPORTED);
    CHECK_CODE(aether_check_times(&r, NULL, NULL), AETHER_E_UNSUPPORTED);
    free_pair(p);
}

/* The draws need none of them: tests above. */
TEST(tables_by_position_are_refused) {
    pair p = make_pair(&circle_ops);
    static uint64_t table[EDGES];
    aether_weight_sums *sums = NULL;
    aether_error err = {0};
    CHECK_CODE(aether_weight_sums_create(p.own, twin_weights, AETHER_F64, &sums, NULL, &err),
               AETHER_E_UNSUPPORTED);
    CHECK_HAS(err.message, "copy the graph into arrays");
    CHECK_CODE(aether_alias_build(p.own, twin_weights, AETHER_F64, table, EDGES, NULL, &err),
               AETHER_E_UNSUPPORTED);
    CHECK_CODE(aether_members_build(p.own, table, EDGES, NULL, &err), AETHER_E_UNSUPPORTED);
    aether_relation r = twin_relation(p, true, false);
    r.topology = p.own; /* arrays by edge id go with any topology, sums do not */
    r.sums = NULL;
    aether_sampler_destroy(make_sampler(r));
    r.sums = p.sums;
    check_refused(r, AETHER_E_UNSUPPORTED);
    free_pair(p);
}

/* Runs of nodes that have lists, as a graph of few lists tells them. */
static uint64_t written(const aether_topology *t, uint64_t node, uint64_t *end) {
    (void)t;
    while (node < NODES && degrees[node % PERIOD] == 0)
        node++;
    for (*end = node; *end < NODES && degrees[*end % PERIOD];)
        ++*end;
    return node < NODES ? node : UINT64_MAX;
}

static void check_columns(const ae_topology_ops *ops, uint64_t capacity) {
    static uint32_t ids[EDGES], edges[EDGES];
    static double wide[EDGES];
    static float narrow[EDGES];
    static int64_t times_at[EDGES];
    pair p = make_pair(ops);
    aether_error err = {0};
    aether_list_place at = {0, 0};
    uint64_t total = 0, count = 1, ends[NODES];
    while (count) {
        const aether_entry_column columns[] = {{AETHER_READ_NEIGHBORS, 4, ids + total},
                                               {AETHER_READ_EDGE_IDS, 4, edges + total},
                                               {AETHER_READ_WEIGHTS, 8, wide + total},
                                               {AETHER_READ_WEIGHTS, 4, narrow + total},
                                               {AETHER_READ_TIMES, 8, times_at + total}};
        const uint64_t left = EDGES - total;
        REQUIRE_OK(aether_topology_read(
                       p.own, AE_SIZED(aether_entry_columns, columns, 5, left < capacity ? left : capacity),
                       &at, &count, NULL, &err),
                   err);
        total += count;
    }
    CHECK_EQ(total, EDGES);
    for (uint64_t i = 0; i < EDGES; i++) {
        CHECK_EQ(ids[i], twin_indices[i]);
        CHECK_EQ(edges[i], twin_edge_ids[i]);
        CHECK(wide[i] == twin_weights[edges[i]]);
        CHECK(narrow[i] == (float)twin_weights[edges[i]]);
        CHECK_EQ(times_at[i], twin_times[edges[i]]);
    }
    for (uint64_t first = 0; first < NODES; first += capacity) {
        const uint64_t left = NODES - first;
        CHECK_OK(aether_topology_ends(p.own, first, left < capacity ? left : capacity, twin_indptr[first],
                                      ends + first, NULL, &err),
                 err);
    }
    for (uint64_t v = 0; v < NODES; v++)
        CHECK_EQ(ends[v], twin_indptr[v + 1]);
    free_pair(p);
}

TEST(all_columns_are_read_and_empty_lists_skipped) {
    ae_topology_ops skipping = circle_ops;
    skipping.written = written;
    const uint64_t capacities[] = {1, 7, 300, EDGES};
    for (uint32_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        check_columns(&circle_ops, capacities[i]);
        check_columns(&skipping, capacities[i]);
    }
}

TEST_MAIN()
