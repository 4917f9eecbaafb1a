/*
 * live/base.h - the lists that a relation begins with: a graph file's, larger than memory maybe.
 *
 *   root of node 7    none: the list is the base's
 *                     head AE_HEAD_BASE: the same, as no change of it was committed
 *                     directory --> extent {start 100, 60 entries}     entries 0..59 of the base's list
 *                                   leaf   {2 entries}                 inserted between
 *                                   extent {start 160, 40 entries}     the rest
 *
 *   position          bit 62 clear: one of the base; set: one of a list that has changed, whose
 *                     entry may be in an extent
 *
 * The first change of a list copies it if it is short and in memory. Else it makes a directory with one
 * extent, which is what the base has. Inserting and deleting inside of an extent cut it; pieces that are too
 * short to be worth an extent are copied into leaves.
 *
 * Edges of the base have edge ids of their own, the number of their entry in most files; `edge_ids`
 * says which they have here. Times and weights are found by the base's ids, times of nodes by the neighbours.
 *
 * Caveats: the base is borrowed, by every process on its own, and never changes. Reading it may wait
 * for a disk and may fail.
 */
#ifndef AE_LIVE_BASE_H
#define AE_LIVE_BASE_H

#include "live/layout.h"
#include "topology/topology.h"

typedef struct ae_base {
    aether_live_base given;                   /* lists NULL: there is none */
    bool of_in_edges;                         /* the lists are */
    _Atomic(const aether_weight_sums *) sums; /* of the weights of its lists; NULL: not known */
} ae_base;

/* Take a base, which must be the one that a relation was created over, in one of its layouts. */
int ae_base_set(ae_base *b, const aether_live_base *given, const aether_live_relation *relation,
                uint32_t layout, aether_error *err);

static inline bool ae_base_is_there(const ae_base *b) {
    return b->given.lists != NULL;
}

/* Return whether reading a short stretch takes no more than cache misses, rather than waiting for a disk. */
static inline bool ae_base_is_near(const ae_base *b) {
    return !b->given.lists->ops->fetch_many;
}

/* Find the lists of n nodes; those that were added later have empty ones. */
int ae_base_locate(const ae_base *b, const uint64_t *nodes, uint64_t n, ae_list *out, aether_error *err);

/* Read one column at n positions of the base; `out` may be `positions`. */
int ae_base_ids(const ae_base *b, const uint64_t *positions, uint64_t n, uint64_t *out, aether_error *err);
int ae_base_edge_ids(const ae_base *b, const uint64_t *positions, uint64_t n, uint64_t *out,
                     aether_error *err);
int ae_base_weights(const ae_base *b, const uint64_t *positions, uint64_t n, double *out, aether_error *err);
int ae_base_times(const ae_base *b, const uint64_t *positions, uint64_t n, int64_t *out, aether_error *err);

/* Copy n entries from position `start` on to places at, at + 1 ... of groups. */
int ae_base_copy(const ae_base *b, const ae_layout *l, uint64_t start, uint32_t n, uint8_t *groups,
                 uint32_t at, aether_error *err);

#endif
