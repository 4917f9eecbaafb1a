/*
 * topology/arrays.h - adjacency lists in arrays.
 *
 *   indptr   [0 | 2 | 2 | 5]           list of node v: [indptr[v], indptr[v+1])
 *   indices  [a b | | c d e]           a position is an index into this array
 *
 * The ids are an array (arrays.c), compressed blocks in memory (compressed.c), or stay in
 * their file (topology/paged/paged.h), and each has its own ops table.
 *
 * Caveats: the arrays are borrowed. They may be mapped from a file that changes, so every
 * list and id is checked when it is used.
 */
#ifndef AE_TOPOLOGY_ARRAYS_H
#define AE_TOPOLOGY_ARRAYS_H

#include "topology/topology.h"

typedef struct ae_arrays {
    aether_topology base;
    const uint64_t *indptr;
    const void *indices;  /* NULL where ids are compressed, or in a file that is not mapped */
    const void *edge_ids; /* by position; NULL: the position itself */
    uint32_t edge_id_bytes;
    aether_blocks blocks; /* compressed ids */
} ae_arrays;

static inline const ae_arrays *ae_arrays_of(const aether_topology *t) {
    return (const ae_arrays *)(const void *)t;
}

/* Return the array of 32-bit ids that the positions of a topology are indexes into, for callers that check
 * what they take from it; NULL: it keeps its ids in another way. */
const uint32_t *ae_arrays_ids(const aether_topology *t);

/* Return a topology of `lists` with the operations `ops`. */
ae_arrays ae_arrays_make(const aether_lists *lists, const ae_topology_ops *ops);
/* Check the arrays that a topology in memory is made of: widths, counts, ends of indptr. */
int ae_arrays_check(const aether_lists *lists, aether_error *err);

/* Implement `locate` for an indptr in memory. */
int ae_arrays_locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                     aether_error *err);
/* Implement `fetch` for lists whose ids are in memory. */
int ae_arrays_fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                    aether_error *err);
/* Implement `fetch` for compressed lists whose blocks and index are in memory. */
int ae_arrays_fetch_blocks(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                           aether_error *err);
/* Implement `edge_ids` for edge ids in memory, or none: positions are edge ids then. */
int ae_arrays_edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                       aether_error *err);
/* Implement `memory` and `destroy` for topologies that own nothing but themselves. */
uint64_t ae_arrays_memory(const aether_topology *t);
void ae_arrays_free(aether_topology *t);

#endif
