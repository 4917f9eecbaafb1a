/* Samples of a snapshot, beside a writer that goes on, are those of the same edges in arrays: the
 * same key, bit for bit. */
#define MODEL_NODES 320
#include <math.h>

#include "live_model.h"

enum { HOPS = 3, SEEDS = 24, HOLES = 60, MEMBERS = 3, HUBS = 2, HUB_EDGES = 20000 };

typedef struct twin {
    uint64_t *indptr;
    uint32_t *indices;
    int64_t *edge_ids;
    float *weights; /* by edge id */
    int64_t *times;
    aether_topology *topology;
    aether_weight_sums *sums;
} twin;

typedef struct pair {
    aether_live *g;
    aether_snapshot *snapshot;
    aether_topology *own; /* of the snapshot */
    model shows;
    twin twin;
} pair;

/* ---- graphs ---- */

/* Some weigh nothing. The others differ so much that the order in which they are added up matters. */
static float random_weight(uint64_t *state) {
    const int power = -(int)(test_random(state) % 30);
    return test_random(state) % 6 ? (float)ldexp((double)(test_random(state) % 99 + 1), power) : 0;
}

static void insert(aether_live *g, model *m, uint64_t n, uint64_t *state) {
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        const int64_t major =
            (int64_t)(test_random(state) % 4 ? test_random(state) % MODEL_NODES : test_random(state) % 8 * 5);
        const int64_t minor = (int64_t)(test_random(state) % MODEL_NODES);
        const int64_t time = (int64_t)(test_random(state) % 90);
        const float weight = random_weight(state);
        model_insert(m, major, minor, time, weight);
        REQUIRE_OK(aether_live_insert_one(g, 0, minor, major, time, weight, NULL, NULL, &err), err);
    }
}

/* Lists of many leaves; sorted ones are that long anyway. */
static void insert_hubs(aether_live *g, model *m, uint64_t *state) {
    static int64_t major[HUB_EDGES], minor[HUB_EDGES], time[HUB_EDGES];
    static float weight[HUB_EDGES];
    aether_error err = {0};
    for (int64_t hub = 0; hub < HUBS && m->order == AETHER_ORDER_TIME; hub++) {
        uint64_t inserted;
        for (int64_t i = 0; i < HUB_EDGES; i++) {
            major[i] = hub;
            minor[i] = (int64_t)(test_random(state) % MODEL_NODES);
            time[i] = 90 * i / HUB_EDGES;
            weight[i] = random_weight(state);
            model_insert(m, hub, minor[i], time[i], weight[i]);
        }
        const aether_live_edges all = {minor, major, m->columns & AETHER_LIVE_TIMES ? time : NULL,
                                       m->columns & AETHER_LIVE_WEIGHTS ? weight : NULL, HUB_EDGES};
        REQUIRE_OK(aether_live_insert(g, 0, &all, NULL, &inserted, &err), err);
        CHECK_EQ(inserted, HUB_EDGES);
    }
}

static void delete (aether_live *g, model *m, uint64_t n, uint64_t *state) {
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        const int64_t major = (int64_t)(test_random(state) % MODEL_NODES);
        const int64_t minor = (int64_t)(test_random(state) % MODEL_NODES);
        uint64_t deleted;
        REQUIRE_OK(aether_live_delete(g, 0, &minor, &major, NULL, 1, &deleted, &err), err);
        CHECK_EQ(deleted, model_delete(m, major, minor, -1));
    }
}

static twin make_twin(const model *m) {
    twin w = {.indptr = calloc(MODEL_NODES + 1, sizeof *w.indptr),
              .indices = calloc(m->num_edges, sizeof *w.indices),
              .edge_ids = calloc(m->num_edges, sizeof *w.edge_ids),
              .weights = calloc(m->next_edge_id, sizeof *w.weights),
              .times = calloc(m->next_edge_id, sizeof *w.times)};
    uint64_t at = 0;
    for (uint64_t v = 0; v < MODEL_NODES; v++) {
        for (uint64_t i = 0; i < m->lists[v].n; i++, at++) {
            const model_edge *e = &m->lists[v].edges[i];
            w.indices[at] = (uint32_t)e->id;
            w.edge_ids[at] = e->edge_id;
            w.weights[e->edge_id] = e->weight;
            w.times[e->edge_id] = e->time;
        }
        w.indptr[v + 1] = at;
    }
    const aether_lists lists = {
        MODEL_NODES, MODEL_NODES, m->num_edges, w.indptr, w.indices, w.edge_ids, 4, 8};
    CHECK_CODE(aether_topology_create(&lists, &w.topology, NULL), AETHER_OK);
    /* Arrays by edge id have room for deleted edges, too. */
    w.topology->end_edge_ids = m->next_edge_id;
    CHECK_CODE(aether_weight_sums_create(w.topology, w.weights, AETHER_F32, &w.sums, NULL, NULL), AETHER_OK);
    return w;
}

static pair make_pair(uint32_t order, uint32_t columns) {
    const live_spec o = {.relation = {.num_src = MODEL_NODES,
                                      .num_dst = MODEL_NODES,
                                      .layouts = AETHER_LIVE_CSC,
                                      .order = order,
                                      .columns = columns,
                                      .edge_id_bytes = 8},
                         .arena_bytes = 64 << 20};
    uint64_t state = order * 10 + columns;
    pair p = {0};
    aether_error err = {0};
    CHECK_OK(live_create(&o, &p.g, &err), err);
    model m = model_make(&o.relation, AETHER_LIVE_CSC);
    insert_hubs(p.g, &m, &state);
    insert(p.g, &m, 12000, &state);
    delete (p.g, &m, 3000, &state);
    p.snapshot = live_pin(p.g);
    p.own = live_lists(p.snapshot);
    p.shows = model_copy(&m);
    p.twin = make_twin(&m);
    insert(p.g, &m, 3000, &state); /* the snapshot stays as it is */
    delete (p.g, &m, 1000, &state);
    model_free(&m);
    return p;
}

static void free_pair(pair *p) {
    aether_snapshot_release(p->snapshot);
    aether_weight_sums_destroy(p->twin.sums);
    aether_topology_destroy(p->twin.topology);
    aether_live_close(p->g);
    model_free(&p->shows);
    free(p->twin.indptr);
    free(p->twin.indices);
    free(p->twin.edge_ids);
    free(p->twin.weights);
    free(p->twin.times);
}

static aether_relation relation(const pair *p, bool own, bool weighted, bool timed) {
    if (own)
        return (aether_relation){.topology = p->own,
                                 .own_values =
                                     (weighted ? AETHER_OWN_WEIGHTS : 0u) | (timed ? AETHER_OWN_TIMES : 0u)};
    return (aether_relation){.topology = p->twin.topology,
                             .weights = weighted ? p->twin.weights : NULL,
                             .weight_dtype = AETHER_F32,
                             .sums = weighted ? p->twin.sums : NULL,
                             .times = timed ? p->twin.times : NULL,
                             .time_dtype = AETHER_I64,
                             .times_of = AETHER_TIMES_OF_EDGES};
}

static aether_sampler *make_sampler(aether_relation r) {
    const uint64_t num_nodes = MODEL_NODES;
    aether_sampler *s = NULL;
    aether_error err = {0};
    CHECK_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &r, &num_nodes, 1, 1), &s, &err), err);
    return s;
}

/* ---- requests ---- */

typedef struct counts {
    uint64_t hop_nodes[HOPS + 1], hop_edges[HOPS], nodes, edges;
} counts;

typedef struct request {
    int64_t ids[SEEDS], since[SEEDS], until[SEEDS];
    uint64_t holes[2][HOLES]; /* of the snapshot, of its twin */
    aether_excluded exclude[2];
    aether_seeds seeds;
    aether_sample_options options;
} request;

static const uint32_t all_flags[] = {0,
                                     AETHER_SAMPLE_REPLACE,
                                     AETHER_SAMPLE_INDUCED,
                                     AETHER_SAMPLE_LAYERED,
                                     AETHER_SAMPLE_DISJOINT,
                                     AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_REPLACE,
                                     AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_INDUCED,
                                     AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_LATEST};

static int by_value(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Exclude some entries of the first lists, those of hubs among them. */
static uint64_t make_holes(const pair *p, request *r, uint64_t *state) {
    uint64_t n = 0;
    for (uint64_t v = 0; v < HOLES / 2; v++) {
        ae_list list;
        aether_error err = {0};
        const uint64_t degree = p->shows.lists[v].n, at = degree ? test_random(state) % degree : 0;
        CHECK_OK(p->own->ops->locate(p->own, &v, 1, &list, &err), err);
        for (uint64_t i = at; i < degree && i < at + 2; i++, n++) {
            r->holes[0][n] = list.start + i;
            r->holes[1][n] = p->twin.indptr[v] + i;
        }
    }
    qsort(r->holes[0], n, sizeof **r->holes, by_value);
    return n;
}

static void make_request(const pair *p, uint32_t flags, bool timed, bool excluding, uint64_t key,
                         request *r) {
    static const int64_t fanouts[HOPS] = {7, 12, 3};
    uint64_t state = key;
    r->options = (aether_sample_options){
        .key = key, .fanouts = fanouts, .num_hops = HOPS, .flags = flags, .num_threads = 1 + key % 2};
    for (int i = 0; i < SEEDS; i++) {
        r->ids[i] = (int64_t)(test_random(&state) % (i % 4 ? MODEL_NODES : HUBS));
        r->since[i] = (int64_t)(test_random(&state) % 20);
        r->until[i] = r->since[i] + (int64_t)(test_random(&state) % 90);
    }
    r->seeds = (aether_seeds){.ids = r->ids, .count = SEEDS};
    if (timed && flags & AETHER_SAMPLE_DISJOINT) {
        r->seeds.since = r->since;
        r->seeds.until = r->until;
    }
    const uint64_t holes = excluding ? make_holes(p, r, &state) : 0;
    r->exclude[0] = (aether_excluded){r->holes[0], holes};
    r->exclude[1] = (aether_excluded){r->holes[1], holes};
}

static int sample(aether_sampler *s, const request *r, int side, counts *c, aether_error *err) {
    aether_sample_options o = r->options;
    o.exclude = &r->exclude[side];
    return aether_sample_typed(
        s, &r->seeds, &o, AE_SIZED(aether_sample_counts, c->hop_nodes, c->hop_edges, &c->nodes, &c->edges),
        err);
}

static uint64_t compare(const aether_sampler *own, const aether_sampler *other, const counts *a,
                        const counts *b, bool disjoint) {
    CHECK(memcmp(a, b, sizeof *a) == 0);
    if (a->nodes != b->nodes || a->edges != b->edges)
        return 0;
    const uint64_t size = 2 * a->nodes + 3 * a->edges;
    int64_t *out[2] = {calloc(size + 1, 8), calloc(size + 1, 8)};
    for (int i = 0; i < 2; i++) {
        int64_t *node = out[i], *row = node + 2 * a->nodes;
        aether_error err = {0};
        CHECK_OK(aether_sample_export(i ? other : own,
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

static void compare_samples(uint32_t order, bool weighted, bool timed) {
    pair p = make_pair(order, (weighted ? AETHER_LIVE_WEIGHTS : 0u) | (timed ? AETHER_LIVE_TIMES : 0u));
    aether_sampler *own = make_sampler(relation(&p, true, weighted, timed));
    aether_sampler *other = make_sampler(relation(&p, false, weighted, timed));
    uint64_t edges = 0;
    static request r;
    for (uint64_t i = 0; i < 8 * 4; i++) {
        counts a = {0}, b = {0};
        aether_error err = {0};
        make_request(&p, all_flags[i % 8], timed, i / 8 % 2, i, &r);
        REQUIRE_OK(sample(own, &r, 0, &a, &err), err);
        REQUIRE_OK(sample(other, &r, 1, &b, &err), err);
        edges += compare(own, other, &a, &b, r.options.flags & AETHER_SAMPLE_DISJOINT);
    }
    CHECK(edges > 32 * 300);
    aether_sampler_destroy(own);
    aether_sampler_destroy(other);
    free_pair(&p);
}

TEST_ONE_THREAD(order_time) {
    compare_samples(AETHER_ORDER_TIME, false, false);
    compare_samples(AETHER_ORDER_TIME, true, false);
    compare_samples(AETHER_ORDER_TIME, false, true);
    compare_samples(AETHER_ORDER_TIME, true, true);
}
TEST_ONE_THREAD(order_id) {
    compare_samples(AETHER_ORDER_ID, false, false);
    compare_samples(AETHER_ORDER_ID, true, false);
}

static void compare_group(uint32_t order, bool timed, uint32_t flags) {
    pair p = make_pair(order, AETHER_LIVE_WEIGHTS | (timed ? AETHER_LIVE_TIMES : 0u));
    const aether_relation own = relation(&p, true, true, timed);
    const uint64_t num_nodes = MODEL_NODES;
    const aether_group_options room = {.capacity = MEMBERS, .num_threads = 2};
    aether_sampler *other = make_sampler(relation(&p, false, true, timed));
    aether_group *g = NULL;
    static request r[MEMBERS];
    aether_seeds seeds[MEMBERS];
    aether_sample_options options[MEMBERS];
    aether_error err = {0};
    uint32_t failed;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        make_request(&p, flags, timed, m == 1, 50 + m, &r[m]);
        seeds[m] = r[m].seeds;
        options[m] = r[m].options;
        options[m].exclude = &r[m].exclude[0];
    }
    REQUIRE_OK(aether_group_create(AE_SIZED(aether_schema, &own, &num_nodes, 1, 1), &room, &g, &err), err);
    REQUIRE_OK(aether_group_sample(g, seeds, options, MEMBERS, &failed, NULL, &err), err);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        counts a = {0}, b = {0};
        aether_sampler *taken;
        REQUIRE_OK(aether_group_take(
                       g, m, AE_SIZED(aether_sample_counts, a.hop_nodes, a.hop_edges, &a.nodes, &a.edges),
                       &taken, NULL, &err),
                   err);
        REQUIRE_OK(sample(other, &r[m], 1, &b, &err), err);
        CHECK(compare(taken, other, &a, &b, flags & AETHER_SAMPLE_DISJOINT) > 100);
    }
    aether_group_destroy(g);
    aether_sampler_destroy(other);
    free_pair(&p);
}

TEST(groups) {
    compare_group(AETHER_ORDER_TIME, true, AETHER_SAMPLE_DISJOINT);
    compare_group(AETHER_ORDER_ID, false, 0);
}

TEST(walks_and_fanouts) {
    enum { WALKS = 300, LENGTH = 12 };
    static int64_t starts[WALKS], out[2][WALKS * (LENGTH + 1)];
    const aether_walk_options rules[] = {
        {.key = 1, .length = LENGTH, .p = 1, .q = 1},
        {.key = 2, .length = LENGTH, .p = 0.25, .q = 4, .restart = 0.1},
    };
    for (int64_t i = 0; i < WALKS; i++)
        starts[i] = i % MODEL_NODES;
    for (uint32_t order = AETHER_ORDER_TIME; order <= AETHER_ORDER_ID; order++) {
        pair p = make_pair(order, 0);
        aether_error err = {0};
        for (int i = 0; i < 2; i++) {
            CHECK_OK(aether_random_walk(p.own, starts, WALKS, &rules[i], out[0], NULL, &err), err);
            CHECK_OK(aether_random_walk(p.twin.topology, starts, WALKS, &rules[i], out[1], NULL, &err), err);
            CHECK(memcmp(out[0], out[1], sizeof out[0]) == 0);
        }
        CHECK_OK(
            aether_fanout(p.own, starts, WALKS,
                          AE_SIZED(aether_fanout_options, .key = 5, .k = 9, .flags = 0, .num_threads = 1),
                          out[0], NULL, &err),
            err);
        CHECK_OK(
            aether_fanout(p.twin.topology, starts, WALKS,
                          AE_SIZED(aether_fanout_options, .key = 5, .k = 9, .flags = 0, .num_threads = 1),
                          out[1], NULL, &err),
            err);
        CHECK(memcmp(out[0], out[1], WALKS * 9 * sizeof *out[0]) == 0);
        free_pair(&p);
    }
}

TEST_ONE_THREAD(one_sampler_goes_on_from_snapshot_to_snapshot) {
    pair p = make_pair(AETHER_ORDER_TIME, 0);
    aether_relation r = relation(&p, true, false, false);
    aether_sampler *s = make_sampler(r);
    const uint64_t num_nodes = MODEL_NODES;
    uint64_t state = 1;
    for (uint64_t i = 0; i < 20; i++) {
        static request q;
        aether_error err = {0};
        counts a = {0}, b = {0};
        insert(p.g, &p.shows, 10, &state); /* the model is only needed to make edges */
        if (i % 2) {
            CHECK_OK(aether_snapshot_renew(p.snapshot, &err), err);
            CHECK_OK(aether_sampler_retarget(s, AE_SIZED(aether_schema, &r, &num_nodes, 1, 1), &err), err);
        } else {
            aether_snapshot *next = live_pin(p.g);
            r.topology = p.own = live_lists(next);
            CHECK_OK(aether_sampler_retarget(s, AE_SIZED(aether_schema, &r, &num_nodes, 1, 1), &err), err);
            aether_snapshot_release(p.snapshot);
            p.snapshot = next;
        }
        make_request(&p, 0, false, false, i, &q);
        aether_sampler *fresh = make_sampler(r);
        REQUIRE_OK(sample(s, &q, 0, &a, &err), err);
        REQUIRE_OK(sample(fresh, &q, 0, &b, &err), err);
        CHECK(compare(s, fresh, &a, &b, false) > 50);
        aether_sampler_destroy(fresh);
    }
    aether_sampler_destroy(s);
    free_pair(&p);
}

TEST_MAIN()
