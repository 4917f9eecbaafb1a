/*
 * live_base.h - a model (live_model.h) as the base of a live graph.
 *
 *   model    node -> edges          arrays   indptr, ids | own edge ids | by these: ids there, times, weights
 *
 * Edge ids of the base are a permutation of its positions, or the positions.
 */
#ifndef AE_LIVE_BASE_H_TESTS
#define AE_LIVE_BASE_H_TESTS

#include "live_model.h"

typedef struct model_base {
    uint64_t indptr[MODEL_NODES + 1];
    uint32_t *ids, *own;
    uint64_t *edge_ids;
    int64_t *times;
    float *weights;
    aether_topology *lists;
    aether_live_base given;
} model_base;

static inline void model_base_make(const model *m, bool permuted, uint64_t state, model_base *b) {
    const uint64_t n = m->num_edges;
    aether_error err = {0};
    *b = (model_base){.ids = calloc(n + 1, sizeof *b->ids),
                      .own = calloc(n + 1, sizeof *b->own),
                      .edge_ids = calloc(n + 1, sizeof *b->edge_ids),
                      .times = calloc(n + 1, sizeof *b->times),
                      .weights = calloc(n + 1, sizeof *b->weights)};
    for (uint64_t i = 0; i < n; i++)
        b->own[i] = (uint32_t)i;
    for (uint64_t i = n; permuted && i > 1; i--) {
        const uint64_t k = test_random(&state) % i;
        const uint32_t other = b->own[k];
        b->own[k] = b->own[i - 1];
        b->own[i - 1] = other;
    }
    uint64_t at = 0;
    for (uint64_t v = 0; v < m->num_nodes; v++) {
        for (uint64_t i = 0; i < m->lists[v].n; i++, at++) {
            const model_edge *e = &m->lists[v].edges[i];
            b->ids[at] = (uint32_t)e->id;
            b->edge_ids[b->own[at]] = (uint64_t)e->edge_id;
            b->times[b->own[at]] = e->time;
            b->weights[b->own[at]] = e->weight;
        }
        b->indptr[v + 1] = at;
    }
    const aether_lists lists = {.indptr = b->indptr,
                                .indices = b->ids,
                                .edge_ids = permuted ? b->own : NULL,
                                .num_major = m->num_nodes,
                                .num_minor = m->num_minor,
                                .num_edges = n,
                                .id_bytes = 4,
                                .edge_id_bytes = permuted ? 4 : 0};
    REQUIRE_OK(aether_topology_create(&lists, &b->lists, &err), err);
    b->given = (aether_live_base){.lists = b->lists,
                                  .edge_ids = b->edge_ids,
                                  .edge_id_bytes = 8,
                                  .times = m->columns & AETHER_LIVE_TIMES ? b->times : NULL,
                                  .weights = m->columns & AETHER_LIVE_WEIGHTS ? b->weights : NULL,
                                  .last_time = INT64_MAX};
    for (uint64_t i = 0; permuted && i < n; i++) /* known now and then */
        if (i == 0 || b->times[i] > b->given.last_time)
            b->given.last_time = b->times[i];
}

static inline void model_base_free(model_base *b) {
    aether_topology_destroy(b->lists);
    free(b->ids);
    free(b->own);
    free(b->edge_ids);
    free(b->times);
    free(b->weights);
}

#endif
