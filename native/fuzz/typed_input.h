/*
 * typed_input.h - relations between node types, made of arbitrary bytes.
 *
 *   sound    lists and ids are within bounds, edge ids a permutation, weights finite
 *            and not negative
 *   sorted   lists are sorted by time
 *
 * The byte 255 does damage; without it lists are sound. Every array has its exact
 * size, so that a sanitizer sees each step beyond it.
 */
#ifndef AE_TYPED_INPUT_H
#define AE_TYPED_INPUT_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "aether/build.h"

#define MAX_TYPES     3
#define MAX_RELATIONS 4
#define MAX_NODES     24
#define LONG_LIST     252 /* a byte */

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

typedef struct relation {
    aether_relation public;
    aether_lists lists;
    aether_topology *topology;
    aether_weight_sums *sums; /* or NULL */
    uint64_t *indptr;
    void *ids, *edge_ids, *weights, *times;
    bool sound, sorted;
} relation;

typedef struct graph {
    uint64_t num_nodes[MAX_TYPES];
    uint32_t num_types, num_relations;
    relation relations[MAX_RELATIONS];
} graph;

static inline uint8_t byte(input *in) {
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

static inline void require(bool condition) {
    if (!condition)
        abort();
}

static inline void *array(uint64_t n, uint64_t size) {
    void *a = n ? calloc(n, size) : malloc(1);
    require(a);
    return a;
}

static inline uint64_t id_at(const void *ids, uint32_t bytes, uint64_t i) {
    return bytes == 4 ? ((const uint32_t *)ids)[i] : ((const uint64_t *)ids)[i];
}

static inline void put_id(void *ids, uint32_t bytes, uint64_t i, uint64_t id) {
    if (bytes == 4)
        ((uint32_t *)ids)[i] = (uint32_t)id;
    else
        ((uint64_t *)ids)[i] = id;
}

static inline uint64_t neighbor_at(const relation *r, uint64_t position) {
    return id_at(r->ids, r->lists.id_bytes, position);
}

static inline uint64_t edge_at(const relation *r, uint64_t position) {
    return r->edge_ids ? id_at(r->edge_ids, r->lists.edge_id_bytes, position) : position;
}

/* Mostly small steps, so that many inputs are nearly valid graphs. */
static inline void fill_lists(input *in, relation *r) {
    aether_lists *l = &r->lists;
    r->indptr = array(l->num_major + 1, sizeof *r->indptr);
    for (uint64_t v = 0; v < l->num_major; v++) {
        uint8_t step = byte(in);
        uint64_t at = r->indptr[v], degree = l->num_minor ? step % 8 : 0;
        if (step == LONG_LIST && l->num_minor)
            degree = 128 + byte(in);
        r->indptr[v + 1] = step == 255 ? (uint64_t)byte(in) << 56 : step == 254 ? at / 2 : at + degree;
    }
    l->num_edges = r->indptr[l->num_major] < 2000 ? r->indptr[l->num_major] : 30;
    r->indptr[0] = 0;
    r->indptr[l->num_major] = l->num_edges;
    r->ids = array(l->num_edges, l->id_bytes);
    for (uint64_t e = 0; e < l->num_edges; e++) {
        uint8_t id = byte(in);
        put_id(r->ids, l->id_bytes, e,
               id == 255 || !l->num_minor ? UINT64_MAX >> byte(in) % 64 : id % l->num_minor);
    }
}

/* A permutation, most often. */
static inline void fill_edge_ids(input *in, relation *r) {
    uint64_t n = r->lists.num_edges;
    uint32_t bytes = r->lists.edge_id_bytes;
    r->edge_ids = array(n, bytes);
    for (uint64_t e = 0; e < n; e++) {
        uint8_t choice = byte(in);
        uint64_t other = choice % (e + 1);
        put_id(r->edge_ids, bytes, e, id_at(r->edge_ids, bytes, other));
        put_id(r->edge_ids, bytes, other, choice == 255 ? UINT64_MAX >> byte(in) % 64 : e);
    }
}

static inline void fill_weights(input *in, relation *r, bool wide) {
    static const double good[] = {1, 0, 0.5, 7, -0.0, 1e-45, 3e38, 1, 1e308, 5e-324};
    static const double bad[] = {-1, NAN, INFINITY, -INFINITY};
    r->weights = array(r->lists.num_edges, wide ? 8 : 4);
    for (uint64_t e = 0; e < r->lists.num_edges; e++) {
        uint8_t choice = byte(in);
        double weight = choice == 255 ? bad[byte(in) % 4] : good[choice % (wide ? 10 : 8)];
        if (wide)
            ((double *)r->weights)[e] = weight;
        else
            ((float *)r->weights)[e] = (float)weight;
    }
}

/* Times rise with the node, or within a list; lists may be unsorted for all that. */
static inline void fill_times(input *in, relation *r, bool of_nodes, bool wide) {
    static const int64_t integers[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX};
    static const double reals[] = {-INFINITY, -DBL_TRUE_MIN, -0.0, 0, 2.5, INFINITY};
    uint64_t n = of_nodes ? r->lists.num_minor : r->lists.num_edges, last = 0;
    r->times = array(n, 8);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = of_nodes ? i : edge_at(r, i);
        uint8_t choice = byte(in);
        last = choice % 4 ? last : choice == 252 ? 0 : last + 1 < 6 ? last + 1 : 5;
        for (uint64_t v = 0; !of_nodes && v < r->lists.num_major; v++)
            last = r->indptr[v] == i ? choice % 3 : last;
        if (at < n && wide)
            ((double *)r->times)[at] = choice == 255 ? NAN : reals[last];
        else if (at < n)
            ((int64_t *)r->times)[at] = integers[last];
    }
}

static inline double weight_of(const relation *r, uint64_t edge) {
    return r->public.weight_dtype == AETHER_F64 ? ((const double *)r->weights)[edge]
                                                : (double)((const float *)r->weights)[edge];
}

static inline int64_t time_at(const relation *r, uint64_t position) {
    uint64_t at =
        r->public.times_of == AETHER_TIMES_OF_NODES ? neighbor_at(r, position) : edge_at(r, position);
    int64_t time = ((const int64_t *)r->times)[at];
    if (r->public.time_dtype == AETHER_F64)
        aether_time_of_double(&((const double *)r->times)[at], 1, &time);
    return time;
}

/* Nothing that a sampler could come upon is damaged, and no edge id is there twice. */
static inline bool is_sound(const relation *r) {
    const aether_lists *l = &r->lists;
    bool sound = aether_check_lists(&(aether_lists){.num_major = l->num_major,
                                                    .num_minor = l->num_minor,
                                                    .num_edges = l->num_edges,
                                                    .indptr = r->indptr,
                                                    .indices = r->ids,
                                                    .id_bytes = l->id_bytes},
                                    NULL, NULL) == 0;
    bool *seen = array(l->num_edges, sizeof *seen);
    for (uint64_t e = 0; sound && e < l->num_edges; e++) {
        uint64_t edge = edge_at(r, e);
        sound = edge < l->num_edges && !seen[edge] &&
                (!r->weights || (weight_of(r, edge) >= 0 && weight_of(r, edge) <= DBL_MAX));
        if (sound)
            seen[edge] = true;
    }
    free(seen);
    return sound;
}

/* Those of damaged lists may be refused. */
static inline void fill_sums(relation *r) {
    int rc = aether_weight_sums_create(r->topology, r->weights, r->public.weight_dtype, &r->sums, NULL, NULL);
    require(!r->sums == (rc != 0));
    require(rc == 0 || rc == AETHER_E_INVALID || rc == AETHER_E_CORRUPT);
    require(rc == 0 || !r->sound || r->public.weight_dtype == AETHER_I8);
    r->public.sums = r->sums;
}

static inline void fill_relation(input *in, graph *g, relation *r) {
    uint8_t widths = byte(in), has = byte(in), ends = byte(in);
    r->public.from = ends == 255 ? g->num_types : ends % g->num_types;
    r->public.to = ends == 254 ? UINT32_MAX : ends / 4 % g->num_types;
    r->lists.num_major = r->public.from < g->num_types ? g->num_nodes[r->public.from] : 3;
    r->lists.num_minor = r->public.to < g->num_types ? g->num_nodes[r->public.to] : 3;
    r->lists.num_minor += ends == 253;
    r->lists.id_bytes = widths & 1 ? 8 : 4;
    r->lists.edge_id_bytes = widths & 2 ? 8 : 4;
    fill_lists(in, r);
    if (widths & 4)
        fill_edge_ids(in, r);
    if (has & 1)
        fill_weights(in, r, has & 2);
    if (has & 4)
        fill_times(in, r, has & 8, has & 16);
    r->lists.indptr = r->indptr;
    r->lists.indices = r->ids;
    r->lists.edge_ids = r->edge_ids;
    require(aether_topology_create(&r->lists, &r->topology, NULL) == 0);
    r->public.topology = r->topology;
    r->public.weights = r->weights;
    r->public.weight_dtype = has == 255 ? AETHER_I8 : has & 2 ? AETHER_F64 : AETHER_F32;
    r->public.times = r->times;
    r->public.time_dtype = has & 16 ? AETHER_F64 : AETHER_I64;
    r->public.times_of = has & 8 ? AETHER_TIMES_OF_NODES : AETHER_TIMES_OF_EDGES;
    r->sound = is_sound(r);
    if (r->weights && has & 32)
        fill_sums(r);
    aether_error err = {0};
    int rc = aether_check_times(&r->public, NULL, &err);
    r->sorted = rc == 0;
    require(rc == 0 || rc == AETHER_E_INVALID || rc == AETHER_E_CORRUPT);
    require(rc != AETHER_E_INVALID || (uint64_t)err.position < r->lists.num_major);
    require(rc != AETHER_E_CORRUPT || !r->sound);
}

static inline void free_relation(relation *r) {
    aether_weight_sums_destroy(r->sums);
    aether_topology_destroy(r->topology);
    free(r->indptr);
    free(r->ids);
    free(r->edge_ids);
    free(r->weights);
    free(r->times);
}

static inline void fill_graph(input *in, graph *g) {
    g->num_types = 1 + byte(in) % MAX_TYPES;
    g->num_relations = byte(in) % (MAX_RELATIONS + 1);
    for (uint32_t t = 0; t < g->num_types; t++)
        g->num_nodes[t] = byte(in) % (MAX_NODES + 1);
    for (uint32_t i = 0; i < g->num_relations; i++)
        fill_relation(in, g, &g->relations[i]);
}

static inline void free_graph(graph *g) {
    for (uint32_t i = 0; i < g->num_relations; i++)
        free_relation(&g->relations[i]);
}

#endif
