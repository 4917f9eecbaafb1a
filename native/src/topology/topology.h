/*
 * topology/topology.h - adjacency lists behind an ops table.
 *
 *   node 7  --locate-->  list {start, degree}
 *                          position start + i  --fetch-->     neighbour id
 *                                              --edge_ids-->  edge id
 *                                              --weights, times-->  where they are kept here
 *
 * The sampler sees a topology through this header only: the facts in the struct, and the
 * operations. Arrays are one kind (topology/arrays.h); a file, a live tree or a remote shard
 * begins its own struct with an aether_topology and brings its own table. native/README.md
 * says how ("A topology of your own"). It is installed as aether/topology.h, for topologies in
 * libraries of users. That is experimental: compile against the header of the version you run.
 *
 * A position is a number that the topology makes and reads again; `start + i` is all that
 * others do with it. Dense positions count the entries of all lists, one list after the
 * other, as those of arrays do. Others may name anything, say block and place in a tree.
 *
 * Caveats: the facts hold for the life of the handle: a graph that grows makes a topology
 * for every snapshot. `locate` checks each list's bounds and `fetch` each id, so a file
 * damaged after it was opened yields AETHER_E_CORRUPT, never a wild read. Edge ids are
 * never used as an index here, so nothing checks them.
 */
#ifndef AE_TOPOLOGY_TOPOLOGY_H
#define AE_TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>

#include "aether.h"

typedef struct ae_list {
    uint64_t start; /* position of the first entry */
    uint64_t degree;
} ae_list;

/* A running sum of the weights of a list, from its first entry on. */
typedef struct ae_weight_sum {
    double weight;
    uint64_t drawable; /* entries that weigh something */
} ae_weight_sum;

#define AE_WEIGHT_SUMS_BLOCK 64  /* entries between two of the sums that are kept */
#define AE_WEIGHT_SUMS_LONG  128 /* entries from which on a list has sums */

/* Sums of all long lists of a topology whose positions count the edges (sample/draw/weight_sums.h): those of
 * a list begin at place start / AE_WEIGHT_SUMS_BLOCK; the last one is that of the whole list. */
struct aether_weight_sums {
    uint64_t num_edges, bytes;
    bool has_zeros; /* some edge weighs nothing */
    ae_weight_sum *table;
};

/* One job of fetch_many: positions, and memory for their ids, of the topology's id_bytes each. */
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
    /* Copy the edge ids of n positions; `out` may be `positions`. */
    int (*edge_ids)(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                    aether_error *err);
    /* `fetch` that also puts the edge ids in the place of the positions: for topologies that have them beside
     * the ids, where reading both at once costs hardly more. NULL: `edge_ids` is as good. */
    int (*fetch_edges)(const aether_topology *t, uint64_t *positions, uint64_t n, uint64_t *ids,
                       aether_error *err);
    /* Copy the weights (finite, not negative) or the times of the edges at n positions, where the
     * topology keeps them itself; NULL where it does not. Times are int64, or float64 mapped by
     * aether_time_of_double(), and ascend in every list. */
    int (*weights)(const aether_topology *t, const uint64_t *positions, uint64_t n, double *out,
                   aether_error *err);
    int (*times)(const aether_topology *t, const uint64_t *positions, uint64_t n, int64_t *out,
                 aether_error *err);
    /* Return the running sums of the weights of a list, as `locate` has given it, behind each of its first
     * *blocks blocks of 64 entries: the weights added up as doubles, one after the other. They stay where
     * they are as long as positions do, and what was read of them is good if a later call of `weights`
     * succeeds. NULL: the list has none, and its weights are read; NULL in place of the function: no list
     * has. */
    const ae_weight_sum *(*weight_sums)(const aether_topology *t, ae_list list, uint64_t *blocks);
    /* Read the ids of n jobs at once, in the order of the file; `staging` (topology/staging.h) is the
     * memory to read into. NULL where `fetch` is as good. */
    int (*fetch_many)(const aether_topology *t, const ae_fetch *jobs, uint32_t n,
                      struct aether_staging *staging, aether_task *task, aether_error *err);
    /* Return the first node from `node` on whose list may hold something, UINT64_MAX if there is none,
     * and where such nodes end; the lists between are empty. NULL: any list may hold something. For
     * topologies of far more nodes than lists, where looking at a list would take memory for it. */
    uint64_t (*written)(const aether_topology *t, uint64_t node, uint64_t *end);
    /* Start a page cache of `bytes`, and return the bytes that it takes so far; both NULL where
     * nothing is read page by page. */
    int (*keep_pages)(aether_topology *t, uint64_t bytes, aether_error *err);
    uint64_t (*kept)(const aether_topology *t);
    /* Return the bytes that the topology holds, without those that it borrows. */
    uint64_t (*memory)(const aether_topology *t);
    void (*destroy)(aether_topology *t);
} ae_topology_ops;

struct aether_topology {
    const ae_topology_ops *ops;
    uint64_t num_major;          /* lists */
    uint64_t num_minor;          /* ids are below it */
    uint64_t num_edges;          /* entries of all lists */
    uint64_t end_positions;      /* positions are below it */
    uint64_t end_edge_ids;       /* edge ids are below it */
    uint32_t id_bytes;           /* of an id in jobs of fetch_many, and in member tables: 4 or 8 */
    bool edge_ids_are_positions; /* the edge at position p is edge p */
    bool is_far;                 /* a call of `locate` costs far more than the lists of it: ask for many */
};

/* Return whether positions are 0 .. num_edges - 1, as tables by position need. */
static inline bool ae_topology_is_dense(const aether_topology *t) {
    return t->end_positions == t->num_edges;
}

/* ---- for the core alone: these two are not exported ----------------------------------- */

/* Fail with AETHER_E_UNSUPPORTED unless positions are dense; `tables`, in the plural, are tables by
 * position. */
int ae_topology_need_dense(const aether_topology *t, const char *tables, aether_error *err);

/* Fail with AETHER_E_INVALID unless a table of the topology's edges has room for num_edges, which the
 * caller says. */
int ae_topology_need_length(const aether_topology *t, uint64_t num_edges, aether_error *err);

/* Fail with AETHER_E_CORRUPT and the first of n ids that is too large; there is one. */
int ae_topology_bad_id(const aether_topology *t, const uint64_t *positions, const uint64_t *ids, uint64_t n,
                       aether_error *err);

#endif
