/*
 * sample_reference.h - the sampler written to be obviously right: one node at
 * a time, linear searches, the rules of sample/draw/uniform.h spelled out.
 *
 * Caveats: quadratic, for small graphs only.
 */
#ifndef AE_SAMPLE_REFERENCE_H
#define AE_SAMPLE_REFERENCE_H

#include "core/rng.h"
#include "test.h"

#define REF_MAX 200000

typedef struct reference {
    uint64_t num_nodes, num_edges;
    uint64_t node[REF_MAX], tree[REF_MAX];
    uint64_t row[REF_MAX], col[REF_MAX], edge[REF_MAX];
    uint64_t hop_nodes[16], hop_edges[16];
} reference;

static inline uint64_t ref_local(reference *r, uint64_t node, uint64_t tree, bool add) {
    for (uint64_t i = 0; i < r->num_nodes; i++)
        if (r->node[i] == node && r->tree[i] == tree)
            return i;
    if (!add)
        return UINT64_MAX;
    r->node[r->num_nodes] = node;
    r->tree[r->num_nodes] = tree;
    return r->num_nodes++;
}

static inline uint64_t ref_positions(uint64_t degree, int64_t k, bool replace, uint64_t stream,
                                     uint64_t *out) {
    if (degree == 0)
        return 0;
    if (k < 0 || (!replace && (uint64_t)k >= degree)) {
        for (uint64_t i = 0; i < degree; i++)
            out[i] = i;
        return degree;
    }
    for (uint64_t i = 0; i < (uint64_t)k; i++) {
        uint64_t x = ae_rng_mix(stream + (i + 1) * AE_RNG_GAMMA);
        uint64_t j = degree - (uint64_t)k + i;
        uint64_t range = replace ? degree : j + 1;
        uint64_t t = (uint64_t)(((unsigned __int128)x * range) >> 64);
        for (uint64_t m = 0; m < i && !replace; m++)
            if (out[m] == t)
                t = j;
        out[i] = t;
    }
    return (uint64_t)k;
}

static inline void ref_edge(reference *r, uint64_t row, uint64_t col, uint64_t edge) {
    r->row[r->num_edges] = row;
    r->col[r->num_edges] = col;
    r->edge[r->num_edges++] = edge;
}

static inline bool ref_excluded(const aether_sample_options *o, uint64_t position) {
    for (uint64_t i = 0; o->exclude && i < o->exclude->count; i++)
        if (o->exclude->positions[i] == position)
            return true;
    return false;
}

/* Positions of the list that are not excluded. */
static inline uint64_t ref_list(const aether_sample_options *o, uint64_t begin, uint64_t end, uint64_t *out) {
    uint64_t n = 0;
    for (uint64_t p = begin; p < end; p++)
        if (!ref_excluded(o, p))
            out[n++] = p;
    return n;
}

static inline void ref_induced(reference *r, const uint64_t *indptr, const uint32_t *indices,
                               const aether_sample_options *o) {
    r->num_edges = 0;
    for (uint64_t v = 0; v < r->num_nodes; v++) {
        for (uint64_t p = indptr[r->node[v]]; p < indptr[r->node[v] + 1]; p++) {
            uint64_t row = ref_local(r, indices[p], r->tree[v], false);
            if (row != UINT64_MAX && !ref_excluded(o, p))
                ref_edge(r, row, v, p);
        }
    }
}

static inline void ref_sample(reference *r, const uint64_t *indptr, const uint32_t *indices,
                              const int64_t *seeds, uint64_t num_seeds, const aether_sample_options *o) {
    static uint64_t chosen[REF_MAX], list[REF_MAX];
    bool disjoint = o->flags & AETHER_SAMPLE_DISJOINT, replace = o->flags & AETHER_SAMPLE_REPLACE;
    r->num_edges = 0;
    r->num_nodes = num_seeds;
    for (uint64_t i = 0; i < num_seeds; i++) {
        r->node[i] = (uint64_t)seeds[i];
        r->tree[i] = disjoint ? i : 0;
    }
    r->hop_nodes[0] = num_seeds;
    uint64_t begin = 0;
    for (uint32_t h = 0; h < o->num_hops; h++) {
        uint64_t end = r->num_nodes, edges = r->num_edges;
        for (uint64_t v = begin; v < end; v++) {
            uint64_t base = ae_rng_mix(ae_rng_mix(o->key) + (h + UINT64_C(1)) * AE_RNG_GAMMA);
            uint64_t stream = ae_rng_mix(base + r->node[v] * AE_RNG_GAMMA);
            if (disjoint)
                stream = ae_rng_mix(stream + (r->tree[v] + 1) * AE_RNG_GAMMA);
            uint64_t degree = ref_list(o, indptr[r->node[v]], indptr[r->node[v] + 1], list);
            uint64_t n = ref_positions(degree, o->fanouts[h], replace, stream, chosen);
            for (uint64_t i = 0; i < n; i++)
                ref_edge(r, ref_local(r, indices[list[chosen[i]]], r->tree[v], true), v, list[chosen[i]]);
        }
        r->hop_nodes[h + 1] = r->num_nodes - end;
        r->hop_edges[h] = o->flags & AETHER_SAMPLE_INDUCED ? 0 : r->num_edges - edges;
        begin = o->flags & AETHER_SAMPLE_LAYERED ? 0 : end;
    }
    if (o->flags & AETHER_SAMPLE_INDUCED)
        ref_induced(r, indptr, indices, o);
}

#endif
