/*
 * typed_graph.h - small random graphs of several node types and edge types.
 *
 *   types       one without nodes, one with a single node, others with a few
 *   relations   between any two types; ids and edge ids of either width, or no
 *               edge ids; weights of either dtype, times of either dtype and of
 *               edges or nodes, or none
 *
 * Weights and times come from a few values, so that zeros and ties abound. Lists
 * are sorted by time.
 *
 * Caveats: a typed_graph points into itself; do not copy it.
 */
#ifndef AE_TYPED_GRAPH_H
#define AE_TYPED_GRAPH_H

#include <float.h>
#include <math.h>

#include "test.h"

enum { TYPED_TYPES = 4, TYPED_RELATIONS = 7, TYPED_NODES = 30, TYPED_DEGREE = 12, TYPED_EDGES = 360 };
enum { TYPED_WEIGHTS = 1, TYPED_TIMES = 2 }; /* what the relations of a graph may have */

typedef struct typed_lists {
    uint64_t indptr[TYPED_NODES + 1];
    uint64_t ids8[TYPED_EDGES], edge_ids8[TYPED_EDGES];
    uint32_t ids4[TYPED_EDGES], edge_ids4[TYPED_EDGES];
    double weights8[TYPED_EDGES], times_f64[TYPED_EDGES];
    float weights4[TYPED_EDGES];
    int64_t times_i64[TYPED_EDGES];
    uint32_t time[TYPED_EDGES]; /* index into the tables of times */
} typed_lists;

typedef struct typed_graph {
    uint64_t num_nodes[TYPED_TYPES];
    aether_relation relations[TYPED_RELATIONS];
    aether_topology *topologies[TYPED_RELATIONS];
    typed_lists lists[TYPED_RELATIONS];
} typed_graph;

/* Ascending. */
static const int64_t typed_times_i64[] = {INT64_MIN, INT64_MIN + 1, -2, -1, 0, 1, 2, INT64_MAX};
static const double typed_times_f64[] = {-INFINITY, -DBL_MAX,     -0.5, -DBL_TRUE_MIN,
                                         0.0,       DBL_TRUE_MIN, 1.5,  INFINITY};
#define TYPED_NUM_TIMES 8

static inline int typed_compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static inline void typed_fill_lists(uint64_t *state, uint64_t from, uint64_t to, typed_lists *l) {
    l->indptr[0] = 0;
    for (uint64_t v = 0; v < from; v++) {
        uint64_t kind = test_random(state) % 4;
        uint64_t degree = kind == 0 || to == 0 ? 0 : 1 + test_random(state) % (kind == 1 ? TYPED_DEGREE : 4);
        l->indptr[v + 1] = l->indptr[v] + degree;
    }
    for (uint64_t e = 0; e < l->indptr[from]; e++) {
        l->ids4[e] = (uint32_t)(test_random(state) % to);
        uint64_t other = test_random(state) % (e + 1); /* a random permutation */
        l->edge_ids4[e] = l->edge_ids4[other];
        l->edge_ids4[other] = (uint32_t)e;
    }
}

/* Every list gets weights of its own kind: all positive, some, or none. */
static inline void typed_fill_weights(uint64_t *state, uint64_t from, bool edge_ids, typed_lists *l) {
    static const float values[] = {1, 2, 0.25f, 3e5f, 1e-3f, 7, 0, -0.0f};
    for (uint64_t v = 0; v < from; v++) {
        uint64_t kind = test_random(state) % 5, base = kind == 0 ? 6 : 0, range = kind == 1 ? 6 : 8 - base;
        for (uint64_t p = l->indptr[v]; p < l->indptr[v + 1]; p++) {
            uint64_t edge = edge_ids ? l->edge_ids4[p] : p;
            l->weights8[edge] = l->weights4[edge] = values[base + test_random(state) % range];
        }
    }
}

static inline void typed_fill_times(uint64_t *state, uint64_t from, uint64_t to, bool of_nodes, bool edge_ids,
                                    typed_lists *l) {
    for (uint64_t i = 0; of_nodes && i < to; i++)
        l->time[i] = (uint32_t)(test_random(state) % TYPED_NUM_TIMES);
    for (uint64_t v = 0; v < from; v++) {
        uint32_t keys[TYPED_DEGREE]; /* time, and for node times which node */
        uint64_t start = l->indptr[v], degree = l->indptr[v + 1] - start;
        for (uint64_t i = 0; i < degree; i++) {
            uint32_t time = (uint32_t)(test_random(state) % TYPED_NUM_TIMES);
            keys[i] = of_nodes ? l->time[l->ids4[start + i]] << 16 | l->ids4[start + i] : time;
        }
        qsort(keys, degree, sizeof *keys, typed_compare);
        for (uint64_t i = 0; i < degree; i++)
            if (of_nodes)
                l->ids4[start + i] = keys[i] & 0xFFFF;
            else
                l->time[edge_ids ? l->edge_ids4[start + i] : start + i] = keys[i];
    }
    for (uint64_t i = 0; i < (of_nodes ? to : l->indptr[from]); i++) {
        l->times_i64[i] = typed_times_i64[l->time[i]];
        l->times_f64[i] = typed_times_f64[l->time[i]];
        if (l->times_f64[i] == 0 && i % 2)
            l->times_f64[i] = -0.0;
    }
}

static inline void typed_make_relation(uint64_t *state, typed_graph *g, uint32_t i, unsigned may_have) {
    uint64_t choice = test_random(state);
    aether_relation *r = &g->relations[i];
    typed_lists *l = &g->lists[i];
    *r = (aether_relation){.from = choice % TYPED_TYPES, .to = choice / 8 % TYPED_TYPES};
    uint64_t from = g->num_nodes[r->from], to = g->num_nodes[r->to];
    bool wide = choice & 64, edge_ids = choice & 128, wide_edges = choice & 256;
    typed_fill_lists(state, from, to, l);
    if (may_have & TYPED_WEIGHTS && choice & (512 | 1024)) {
        typed_fill_weights(state, from, edge_ids, l);
        r->weight_dtype = choice & 512 ? AETHER_F32 : AETHER_F64;
        r->weights = choice & 512 ? (void *)l->weights4 : (void *)l->weights8;
    }
    if (may_have & TYPED_TIMES && choice & (2048 | 4096)) {
        r->times_of = choice & 8192 ? AETHER_TIMES_OF_NODES : AETHER_TIMES_OF_EDGES;
        typed_fill_times(state, from, to, choice & 8192, edge_ids, l);
        r->time_dtype = choice & 2048 ? AETHER_F64 : AETHER_I64;
        r->times = choice & 2048 ? (void *)l->times_f64 : (void *)l->times_i64;
    }
    for (uint64_t e = 0; e < l->indptr[from]; e++) {
        l->ids8[e] = l->ids4[e];
        l->edge_ids8[e] = l->edge_ids4[e];
    }
    aether_lists lists = {
        from,         to, l->indptr[from], l->indptr, wide ? (void *)l->ids8 : (void *)l->ids4, NULL,
        wide ? 8 : 4, 8};
    if (edge_ids) {
        lists.edge_ids = wide_edges ? (void *)l->edge_ids8 : (void *)l->edge_ids4;
        lists.edge_id_bytes = wide_edges ? 8 : 4;
    }
    aether_error err = {0};
    CHECK_OK(aether_topology_create(&lists, &g->topologies[i], &err), err);
    r->topology = g->topologies[i];
}

static inline typed_graph *typed_make(uint64_t seed, unsigned may_have) {
    typed_graph *g = calloc(1, sizeof *g);
    uint64_t state = seed;
    for (uint64_t t = 0; t < TYPED_TYPES; t++)
        g->num_nodes[(t + seed) % TYPED_TYPES] = t < 2 ? t : 2 + test_random(&state) % (TYPED_NODES - 1);
    for (uint32_t i = 0; i < TYPED_RELATIONS; i++)
        typed_make_relation(&state, g, i, may_have);
    return g;
}

static inline void typed_free(typed_graph *g) {
    for (uint32_t i = 0; i < TYPED_RELATIONS; i++)
        aether_topology_destroy(g->topologies[i]);
    free(g);
}

#endif
