/*
 * sample/relabel/nodes.h - the nodes of one type in a sample: their local ids, and relabelling.
 *
 *   local id   0   1   2 | 3   4   5   6 | 7 ...         hop 0 | hop 1 | hop 2
 *   keys     [ s0  s1  s2  n3  n4  n5  n6  n7 ... ]      global node (and tree)
 *   map        key -> local id
 *
 * Relabelling looks keys up in the map, in order, and appends those that are not there.
 *
 * Caveats: room is reserved beforehand: relabelling n keys may add n nodes.
 */
#ifndef AE_SAMPLE_RELABEL_NODES_H
#define AE_SAMPLE_RELABEL_NODES_H

#include "sample/relabel/idmap.h"

typedef struct ae_nodes {
    uint64_t num_ids;  /* nodes of this type in the graph */
    uint64_t num_keys; /* keys of this sample are below it */
    ae_idmap map;
    ae_scratch keys;     /* u64 per node */
    uint64_t num_nodes;  /* sampled so far */
    uint64_t num_seeds;  /* the first of them */
    uint64_t begin, end; /* the frontier: nodes to expand in this hop */
    uint64_t first_tree; /* of the seeds; disjoint only */
} ae_nodes;

static inline uint64_t *ae_nodes_keys(const ae_nodes *n) {
    return n->keys.data;
}

/* Grow keys, map, or both, to room for `bound` nodes. */
int ae_nodes_reserve_keys(ae_nodes *n, uint64_t bound, aether_error *err);
int ae_nodes_reserve_map(ae_nodes *n, uint64_t bound, aether_task *task, aether_error *err);
int ae_nodes_reserve(ae_nodes *n, uint64_t bound, aether_task *task, aether_error *err);

/* Turn the ids of n edges from `edge` on into keys of a disjoint sample, where a neighbour belongs to the
 * tree of its destination. Destination v has keys[v] and the edges [first[v], first[v + 1]); *v, at or before
 * that of the first edge, is moved along. */
void ae_nodes_add_trees(const uint64_t *keys, const uint64_t *first, uint32_t node_bits, uint64_t edge,
                        uint64_t n, uint64_t *ids, uint64_t *v);

/* Prefetch the slots of the map that relabelling these keys will read. */
void ae_nodes_prefetch(const ae_nodes *nodes, const uint64_t *keys, uint64_t n);

/* Write the local ids of n keys to rows[]; keys that are new are appended. */
void ae_nodes_relabel(ae_nodes *nodes, const uint64_t *restrict keys, uint64_t n, uint32_t *restrict rows);

#endif
