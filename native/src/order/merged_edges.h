/*
 * order/merged_edges.h - edges of a community, one for each community that they go to.
 *
 *   add 7:1  add 9:1  add 7:3      pairs  7:4 | 9:1        in order of first appearance
 *                                  slots  . 1 . . 0 . . .  hash table of places in pairs
 *
 * Caveats: one thread. Memory is that of the most pairs so far: 8 bytes for each, and 8 to 16 for its
 * slots. Weights stop at 2^32 - 1.
 */
#ifndef AE_ORDER_MERGED_EDGES_H
#define AE_ORDER_MERGED_EDGES_H

#include "os/scratch.h"

typedef struct ae_merged_edge {
    uint32_t node, weight;
} ae_merged_edge;

typedef struct ae_merged_edges {
    ae_scratch pairs, slots;
    uint64_t n, room; /* pairs, and how many there may be before the table grows */
    uint32_t bits;    /* of the number of slots */
} ae_merged_edges;

/* Make room for more pairs. */
int ae_merged_edges_grow(ae_merged_edges *m, aether_error *err);
/* Forget all pairs. */
void ae_merged_edges_clear(ae_merged_edges *m);
void ae_merged_edges_free(ae_merged_edges *m);

#define AE_MERGED_EMPTY UINT32_MAX

static inline uint64_t ae_merged_slot(const ae_merged_edges *m, uint32_t node) {
    return node * UINT64_C(0x9e3779b97f4a7c15) >> (64 - m->bits);
}

static inline ae_merged_edge *ae_merged_pairs(const ae_merged_edges *m) {
    return m->pairs.data;
}

/* Add an edge to `node`. */
static inline int ae_merged_edges_add(ae_merged_edges *m, uint32_t node, uint32_t weight, aether_error *err) {
    if (m->n == m->room) {
        const int rc = ae_merged_edges_grow(m, err);
        if (rc)
            return rc;
    }
    const uint64_t mask = (UINT64_C(1) << m->bits) - 1;
    uint32_t *slots = m->slots.data;
    ae_merged_edge *pairs = m->pairs.data;
    for (uint64_t s = ae_merged_slot(m, node);; s = (s + 1) & mask) {
        if (slots[s] == AE_MERGED_EMPTY) {
            slots[s] = (uint32_t)m->n;
            pairs[m->n++] = (ae_merged_edge){node, weight};
            return AETHER_OK;
        }
        ae_merged_edge *pair = pairs + slots[s];
        if (pair->node == node) {
            pair->weight = pair->weight > UINT32_MAX - weight ? UINT32_MAX : pair->weight + weight;
            return AETHER_OK;
        }
    }
}

#endif
