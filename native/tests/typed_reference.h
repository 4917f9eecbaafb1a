/*
 * typed_reference.h - typed, timed and weighted sampling written to be obviously
 * right: one node at a time, linear searches, the rules of sample/draw/times.h and
 * sample/draw/weighted.h spelled out.
 *
 * It takes what the sampler takes, and compares.
 *
 * Caveats: quadratic, for small graphs only; lists are sound and sorted by time.
 */
#ifndef AE_TYPED_REFERENCE_H
#define AE_TYPED_REFERENCE_H

#include <float.h>
#include <math.h>

#include "sample_reference.h"
#include "topology/arrays.h"

enum { TREF_TYPES = 5, TREF_RELATIONS = 8, TREF_HOPS = 4, TREF_MAX = 1 << 15 };

typedef struct typed_nodes {
    uint64_t num, node[TREF_MAX], tree[TREF_MAX], hops[TREF_HOPS + 1];
} typed_nodes;

typedef struct typed_edges {
    uint64_t num, row[TREF_MAX], col[TREF_MAX], edge[TREF_MAX], position[TREF_MAX], hops[TREF_HOPS];
} typed_edges;

/* What is sampled from, as the sampler gets it. */
typedef struct typed_source {
    const aether_relation *relations;
    const uint64_t *num_nodes;
    uint32_t num_relations, num_types;
} typed_source;

static typed_nodes tref_nodes[TREF_TYPES];
static typed_edges tref_edges[TREF_RELATIONS];

/* ---- a relation's arrays ---- */

static inline uint64_t tref_id(const void *ids, uint32_t bytes, uint64_t i) {
    return bytes == 4 ? ((const uint32_t *)ids)[i] : ((const uint64_t *)ids)[i];
}
static inline uint64_t tref_neighbor(const aether_relation *r, uint64_t position) {
    return tref_id(ae_arrays_of(r->topology)->indices, r->topology->id_bytes, position);
}
static inline uint64_t tref_edge(const aether_relation *r, uint64_t position) {
    const ae_arrays *a = ae_arrays_of(r->topology);
    return a->edge_ids ? tref_id(a->edge_ids, a->edge_id_bytes, position) : position;
}
static inline double tref_weight(const aether_relation *r, uint64_t position) {
    uint64_t edge = tref_edge(r, position);
    return r->weight_dtype == AETHER_F32 ? (double)((const float *)r->weights)[edge]
                                         : ((const double *)r->weights)[edge];
}

/* The bits of a double count up with its absolute value. */
static inline int64_t tref_time_of_double(double x) {
    double absolute = fabs(x);
    int64_t bits;
    memcpy(&bits, &absolute, sizeof bits);
    return x < 0 ? -bits - 1 : bits;
}
static inline int64_t tref_time(const aether_relation *r, uint64_t position) {
    uint64_t at = r->times_of == AETHER_TIMES_OF_NODES ? tref_neighbor(r, position) : tref_edge(r, position);
    return r->time_dtype == AETHER_F64 ? tref_time_of_double(((const double *)r->times)[at])
                                       : ((const int64_t *)r->times)[at];
}

/* ---- which positions of a list ---- */

static inline void tref_restrict(const aether_relation *r, int64_t since, int64_t until, ae_list *list) {
    uint64_t first = list->start, end = list->start + list->degree, degree = 0;
    while (first < end && tref_time(r, first) < since)
        first++;
    while (first + degree < end && tref_time(r, first + degree) <= until)
        degree++;
    *list = (ae_list){first, degree};
}

static inline double tref_unit(uint64_t stream, uint64_t i) {
    return (double)(ae_rng_draw(stream, i) >> 11) * 0x1p-53;
}

/* Draws from n on, with draw `draws` of the stream first. */
static inline uint64_t tref_draw_replaced(const aether_relation *r, ae_list list, uint64_t k, uint64_t stream,
                                          uint64_t n, uint64_t draws, uint64_t *out) {
    double total = 0;
    for (uint64_t i = 0; i < list.degree; i++)
        total += tref_weight(r, list.start + i);
    for (; n < k; n++, draws++) {
        double x = tref_unit(stream, draws) * total, sum = 0;
        bool found = false;
        for (uint64_t i = 0; i < list.degree && !found; i++)
            if (tref_weight(r, list.start + i) > 0) {
                out[n] = i; /* the last one, should rounding leave x at the total */
                sum += tref_weight(r, list.start + i);
                found = sum > x;
            }
    }
    return k;
}

static inline bool tref_holds(const uint64_t *values, uint64_t n, uint64_t x) {
    for (uint64_t i = 0; i < n; i++)
        if (values[i] == x)
            return true;
    return false;
}

/* The n that were drawn and those of the k - n smallest keys, in list order. */
static inline uint64_t tref_draw_distinct(const aether_relation *r, ae_list list, uint64_t k, uint64_t stream,
                                          uint64_t n, uint64_t draws, uint64_t *out) {
    static double keys[REF_MAX];
    static bool chosen[REF_MAX];
    for (uint64_t i = 0; i < list.degree; i++) {
        double u = ((double)(ae_rng_draw(stream, draws + i) >> 11) + 0.5) * 0x1p-53;
        double weight = tref_weight(r, list.start + i);
        chosen[i] = tref_holds(out, n, i);
        keys[i] = weight > 0 && !chosen[i] ? -log(u) / weight : INFINITY;
    }
    for (uint64_t i = 0; i < list.degree; i++) {
        uint64_t before = 0;
        for (uint64_t j = 0; j < list.degree; j++)
            before += keys[j] < keys[i];
        chosen[i] |= keys[i] < INFINITY && before < k - n;
    }
    n = 0;
    for (uint64_t i = 0; i < list.degree; i++)
        if (chosen[i])
            out[n++] = i;
    return n;
}

/* As many as 4 k + 16 draws find, from sums that run from the start of `whole`. */
static inline uint64_t tref_draw_few(const aether_relation *r, ae_list whole, ae_list list, uint64_t k,
                                     bool replace, uint64_t stream, uint64_t *draws, uint64_t *out) {
    static double sums[REF_MAX + 1];
    const uint64_t from = list.start - whole.start, to = from + list.degree;
    uint64_t n = 0;
    for (uint64_t i = 0; i < whole.degree; i++)
        sums[i + 1] = sums[i] + tref_weight(r, whole.start + i);
    const double total = sums[to] - sums[from];
    *draws = 0;
    if (!(total >= DBL_MIN && total <= DBL_MAX && total >= sums[to] / 65536))
        return 0;
    for (; n < k && *draws < 4 * k + 16; ++*draws) {
        double x = sums[from] + tref_unit(stream, *draws) * total;
        uint64_t i = 0;
        while (i < whole.degree && sums[i + 1] <= x)
            i++;
        if (i >= from && i < to && (replace || !tref_holds(out, n, i - from)))
            out[n++] = i - from;
    }
    return n;
}

static inline uint64_t tref_draw_weighted(const aether_relation *r, ae_list whole, ae_list list, int64_t k,
                                          bool replace, uint64_t stream, uint64_t *out) {
    uint64_t drawable = 0, n = 0, draws = 0;
    for (uint64_t i = 0; i < list.degree; i++)
        if (tref_weight(r, list.start + i) > 0)
            out[drawable++] = i;
    if (drawable == 0 || k < 0 || (!replace && (uint64_t)k >= drawable))
        return drawable;
    if (r->sums && list.degree >= 128 && 16 * (uint64_t)k <= drawable)
        n = tref_draw_few(r, whole, list, (uint64_t)k, replace, stream, &draws, out);
    return replace ? tref_draw_replaced(r, list, (uint64_t)k, stream, n, draws, out)
                   : tref_draw_distinct(r, list, (uint64_t)k, stream, n, draws, out);
}

/* ---- the sample ---- */

static inline uint64_t tref_local(typed_nodes *nodes, uint64_t node, uint64_t tree, bool add) {
    for (uint64_t i = 0; i < nodes->num; i++)
        if (nodes->node[i] == node && nodes->tree[i] == tree)
            return i;
    if (!add)
        return UINT64_MAX;
    if (nodes->num == TREF_MAX)
        abort();
    nodes->node[nodes->num] = node;
    nodes->tree[nodes->num] = tree;
    return nodes->num++;
}

static inline void tref_add_edge(typed_edges *edges, const aether_relation *r, uint64_t row, uint64_t col,
                                 uint64_t position) {
    if (edges->num == TREF_MAX)
        abort();
    edges->row[edges->num] = row;
    edges->col[edges->num] = col;
    edges->position[edges->num] = position;
    edges->edge[edges->num++] = tref_edge(r, position);
}

static inline ae_list tref_list(const aether_relation *r, uint64_t node) {
    const uint64_t *indptr = ae_arrays_of(r->topology)->indptr;
    return (ae_list){indptr[node], indptr[node + 1] - indptr[node]};
}

/* Bounds of a tree: trees are numbered through the types in order. */
static inline void tref_bounds(const aether_seeds *seeds, uint64_t tree, int64_t *since, int64_t *until) {
    while (tree >= seeds->count)
        tree -= seeds++->count;
    *since = seeds->since ? seeds->since[tree] : INT64_MIN;
    *until = seeds->until ? seeds->until[tree] : INT64_MAX;
}

static inline bool tref_is_bounded(const typed_source *g, const aether_seeds *seeds) {
    bool bounded = false;
    for (uint32_t t = 0; t < g->num_types; t++)
        bounded |= seeds[t].count && (seeds[t].since || seeds[t].until);
    return bounded;
}

static inline void tref_expand(const typed_source *g, uint32_t relation, uint64_t v, uint32_t hop,
                               const aether_seeds *seeds, const aether_sample_options *o) {
    static uint64_t chosen[REF_MAX];
    const aether_relation *r = &g->relations[relation];
    const typed_nodes *from = &tref_nodes[r->from];
    bool disjoint = o->flags & AETHER_SAMPLE_DISJOINT, replace = o->flags & AETHER_SAMPLE_REPLACE;
    int64_t since, until, k = o->fanouts[relation * o->num_hops + hop];
    const ae_list whole = tref_list(r, from->node[v]);
    ae_list list = whole;
    if (r->times && tref_is_bounded(g, seeds)) {
        tref_bounds(seeds, from->tree[v], &since, &until);
        tref_restrict(r, since, until, &list);
        if (o->flags & AETHER_SAMPLE_LATEST)
            for (; k >= 0 && list.degree > (uint64_t)k; list.degree--)
                list.start++;
    }
    uint64_t stream = ae_rng_stream(ae_rng_base(o->key, hop, relation), from->node[v],
                                    disjoint ? from->tree[v] : AE_RNG_NO_SEED);
    uint64_t n = r->weights ? tref_draw_weighted(r, whole, list, k, replace, stream, chosen)
                            : ref_positions(list.degree, k, replace, stream, chosen);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t position = list.start + chosen[i];
        uint64_t row = tref_local(&tref_nodes[r->to], tref_neighbor(r, position), from->tree[v], true);
        tref_add_edge(&tref_edges[relation], r, row, v, position);
    }
}

static inline void tref_induced(const typed_source *g, uint32_t relation) {
    const aether_relation *r = &g->relations[relation];
    typed_edges *edges = &tref_edges[relation];
    edges->num = 0;
    for (uint64_t v = 0; v < tref_nodes[r->from].num; v++) {
        ae_list list = tref_list(r, tref_nodes[r->from].node[v]);
        for (uint64_t p = list.start; p < list.start + list.degree; p++) {
            uint64_t row = tref_local(&tref_nodes[r->to], tref_neighbor(r, p), 0, false);
            if (row != UINT64_MAX)
                tref_add_edge(edges, r, row, v, p);
        }
    }
}

static inline void tref_sample(const typed_source *g, const aether_seeds *seeds,
                               const aether_sample_options *o) {
    uint64_t begin[TREF_TYPES] = {0}, end[TREF_TYPES], tree = 0;
    bool induced = o->flags & AETHER_SAMPLE_INDUCED;
    for (uint32_t t = 0; t < g->num_types; t++) {
        tref_nodes[t].num = tref_nodes[t].hops[0] = seeds[t].count;
        for (uint64_t i = 0; i < seeds[t].count; i++, tree++) {
            tref_nodes[t].node[i] = (uint64_t)seeds[t].ids[i];
            tref_nodes[t].tree[i] = o->flags & AETHER_SAMPLE_DISJOINT ? tree : 0;
        }
    }
    for (uint32_t i = 0; i < g->num_relations; i++)
        tref_edges[i].num = 0;
    for (uint32_t h = 0; h < o->num_hops; h++) {
        for (uint32_t t = 0; t < g->num_types; t++)
            end[t] = tref_nodes[t].num;
        for (uint32_t i = 0; i < g->num_relations; i++) {
            uint64_t before = tref_edges[i].num, from = g->relations[i].from;
            for (uint64_t v = begin[from]; v < end[from]; v++)
                tref_expand(g, i, v, h, seeds, o);
            tref_edges[i].hops[h] = induced ? 0 : tref_edges[i].num - before;
        }
        for (uint32_t t = 0; t < g->num_types; t++) {
            tref_nodes[t].hops[h + 1] = tref_nodes[t].num - end[t];
            begin[t] = end[t];
        }
    }
    for (uint32_t i = 0; induced && i < g->num_relations; i++)
        tref_induced(g, i);
}

/* ---- comparing ---- */

static inline void tref_check_same(const char *what, uint32_t of, const int64_t *actual,
                                   const uint64_t *wanted, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (actual[i] != (int64_t)wanted[i]) {
            TEST_FAIL("%s[%" PRIu64 "] of %u is %" PRId64 ", expected %" PRIu64, what, i, of, actual[i],
                      wanted[i]);
            return;
        }
}

static inline void tref_check_narrow(const int32_t *narrow, const int64_t *wide, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (narrow[i] != wide[i]) {
            TEST_FAIL("as int32, value %" PRIu64 " is %d, expected %" PRId64, i, narrow[i], wide[i]);
            return;
        }
}

static inline void tref_check_nodes(const aether_sampler *s, uint32_t type, bool disjoint) {
    static int64_t node[TREF_MAX], batch[TREF_MAX];
    static int32_t node4[TREF_MAX], batch4[TREF_MAX];
    const typed_nodes *wanted = &tref_nodes[type];
    aether_error err = {0};
    REQUIRE_OK(
        aether_sample_export_nodes(s, type,
                                   AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = wanted->num,
                                            .node = node, .batch = disjoint ? batch : NULL),
                                   &err),
        err);
    REQUIRE_OK(
        aether_sample_export_nodes(s, type,
                                   AE_SIZED(aether_sample_arrays, .item_bytes = 4, .num_nodes = wanted->num,
                                            .node = node4, .batch = disjoint ? batch4 : NULL),
                                   &err),
        err);
    tref_check_same("node", type, node, wanted->node, wanted->num);
    tref_check_narrow(node4, node, wanted->num);
    if (disjoint) {
        tref_check_same("batch", type, batch, wanted->tree, wanted->num);
        tref_check_narrow(batch4, batch, wanted->num);
    }
}

static inline void tref_check_edges(const aether_sampler *s, uint32_t relation) {
    static int64_t row[TREF_MAX], col[TREF_MAX], edge[TREF_MAX];
    static int32_t row4[TREF_MAX], col4[TREF_MAX], edge4[TREF_MAX];
    const typed_edges *wanted = &tref_edges[relation];
    aether_error err = {0};
    REQUIRE_OK(
        aether_sample_export_edges(s, relation,
                                   AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = wanted->num,
                                            .row = row, .col = col, .edge = edge),
                                   &err),
        err);
    REQUIRE_OK(
        aether_sample_export_edges(s, relation,
                                   AE_SIZED(aether_sample_arrays, .item_bytes = 4, .num_edges = wanted->num,
                                            .row = row4, .col = col4, .edge = edge4),
                                   &err),
        err);
    tref_check_same("row", relation, row, wanted->row, wanted->num);
    tref_check_same("col", relation, col, wanted->col, wanted->num);
    tref_check_same("edge", relation, edge, wanted->edge, wanted->num);
    tref_check_narrow(row4, row, wanted->num);
    tref_check_narrow(col4, col, wanted->num);
    tref_check_narrow(edge4, edge, wanted->num);
}

/* Sample by both; returns the number of edges. */
static inline uint64_t tref_check(const typed_source *g, aether_sampler *s, const aether_seeds *seeds,
                                  const aether_sample_options *o) {
    uint64_t hop_nodes[TREF_TYPES * (TREF_HOPS + 1)], hop_edges[TREF_RELATIONS * TREF_HOPS], total = 0;
    uint64_t num_nodes[TREF_TYPES], num_edges[TREF_RELATIONS];
    aether_error err = {0};
    tref_sample(g, seeds, o);
    int rc = aether_sample_typed(
        s, seeds, o, AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, num_nodes, num_edges), &err);
    CHECK_OK(rc, err);
    for (uint32_t t = 0; !rc && t < g->num_types; t++) {
        CHECK_EQ(num_nodes[t], tref_nodes[t].num);
        tref_check_same("hop_nodes", t, (int64_t *)hop_nodes + t * (o->num_hops + 1), tref_nodes[t].hops,
                        o->num_hops + 1);
        if (num_nodes[t] == tref_nodes[t].num)
            tref_check_nodes(s, t, o->flags & AETHER_SAMPLE_DISJOINT);
    }
    for (uint32_t i = 0; !rc && i < g->num_relations; i++) {
        CHECK_EQ(num_edges[i], tref_edges[i].num);
        tref_check_same("hop_edges", i, (int64_t *)hop_edges + i * o->num_hops, tref_edges[i].hops,
                        o->num_hops);
        if (num_edges[i] == tref_edges[i].num)
            tref_check_edges(s, i);
        total += tref_edges[i].num;
    }
    return total;
}

#endif
