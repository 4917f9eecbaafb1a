/*
 * store/topology.h - adjacency lists behind an ops table.
 *
 *   indptr   [0 | 2 | 2 | 5]           list of node v: [indptr[v], indptr[v+1])
 *   indices  [a b | | c d e]           a position is an index into this array
 *
 * The sampler sees a topology through these operations only; another storage
 * (io_uring, a live tree) is another table.
 *
 * Caveats: `locate` checks each list's bounds and `fetch` each id, so a file
 * damaged after it was opened yields AETHER_E_CORRUPT, never a wild read. Edge
 * ids are never used as an index here, so nothing checks them.
 */
#ifndef AE_STORE_TOPOLOGY_H
#define AE_STORE_TOPOLOGY_H

#include "aether.h"

typedef struct ae_list {
    uint64_t start; /* position of the first entry */
    uint64_t degree;
} ae_list;

/* One job of fetch_many: positions, and memory for their ids, of lists.id_bytes each. */
typedef struct ae_fetch {
    const uint64_t *positions; /* positions of one list follow each other */
    uint64_t count;
    void *ids;
} ae_fetch;

struct aether_staging;

typedef struct ae_topology_ops {
    /* Find the lists of n nodes, each below num_major. */
    int (*locate)(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                  aether_error *err);
    /* Prefetch the memory that `fetch` of these positions will read. */
    void (*prefetch)(const aether_topology *t, const uint64_t *positions, uint64_t n);
    /* Copy the ids at n positions, as 64-bit numbers, and check that each is below num_minor. */
    int (*fetch)(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                 aether_error *err);
    /* Copy the edge ids of n positions. */
    void (*edge_ids)(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out);
    /* Read the ids of n jobs at once, in the order of the file; `staging` (store/paged.h) is the
     * memory to read into. NULL where `fetch` is as good. */
    int (*fetch_many)(const aether_topology *t, const ae_fetch *jobs, uint32_t n,
                      struct aether_staging *staging, aether_task *task, aether_error *err);
    void (*destroy)(aether_topology *t);
} ae_topology_ops;

struct aether_topology {
    const ae_topology_ops *ops;
    aether_lists lists;
    aether_blocks blocks; /* compressed ids; lists.indices is NULL then */
};

/* Implement `fetch` for lists whose ids are in memory. */
int ae_topology_fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                      aether_error *err);

/* Implement `fetch` for compressed lists whose blocks and index are in memory. */
int ae_topology_fetch_blocks(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                             aether_error *err);

/* Implement `locate` for an indptr in memory. */
int ae_topology_locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                       aether_error *err);
/* Implement `edge_ids` for edge ids in memory, or none: positions are edge ids then. */
void ae_topology_edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out);
/* Fail with AETHER_E_CORRUPT and the first of n ids that is too large; there is one. */
int ae_topology_bad_id(const aether_topology *t, const uint64_t *positions, const uint64_t *ids, uint64_t n,
                       aether_error *err);
/* Check the arrays that a topology in memory is made of: widths, counts, ends of indptr. */
int ae_topology_check(const aether_lists *lists, aether_error *err);
/* Implement `destroy` for topologies that own nothing but themselves. */
void ae_topology_free(aether_topology *t);

#endif
