/*
 * order/rabbit.h - Rabbit Order: communities by incremental aggregation, and an order of their nodes.
 *
 * J. Arai, H. Shiokawa, T. Yamamuro, M. Onizuka, S. Iwamura: Rabbit Order: Just-in-time Parallel Reordering
 * for Fast Graph Analysis. IPDPS 2016.
 *
 *   by ascending degree, each node u:
 *     lock u --> add up the edges of u and of what joined it --> join the community that gains the most
 *
 *   atom[v]   | strength, float | the last that joined v |      one word, changed by compare-and-swap
 *   next[u]   what joined v before u did                        v <- c3 -> c2 -> c1
 *   into[u]   what u joined, or nearer to its root; u itself for a root
 *   kept[u]   edges of the community that u was when it joined another, added up; 0: as in the lists
 *
 *   dendrogram, depth first:  v  c1 (and what joined it)  c2 ...  c3 ...     new ids of one community
 *
 * What is gained where communities of strengths (sums of degrees) s and t become one, with w edges between
 * them out of m, is w - s t / 2m, over m. Of equal gains the community of the lowest rank is taken; of none
 * above 0, u stays a root. Edges are added up when it is the community's turn to look at them, once
 * ("lazily"), so later looks at them are cheaper; they are freed when they went into those of another.
 *
 * Several threads take nodes in turn. A community that another thread has locked, or that has just joined
 * one, is left alone: a node that finds nothing else waits until all threads are done.
 *
 * Caveats
 *   - One thread: the same result for the same edges, whatever their order in the lists. More threads:
 *     results differ from run to run, and so does their modularity, by little.
 *   - Memory, beside the lists: 24 bytes per node with what is returned; for the edges that are kept 8 bytes
 *     each, of which there never are more than entries in the lists (half as many, and less, where there
 *     are communities); for each thread 16 to 24 bytes for every community beside the one that has the most.
 *     Kept edges beyond `memory` go to a file, which grows by all that is put there, as the place of what
 *     was read is not used again. Pages of `mapped` lists are let go of when a thread has about 64 MiB of
 *     them; they stay in the page cache as long as there is room, and where
 *     it holds them in large folios, some more of them are mapped.
 *   - Strengths are floats, as one word holds them together with an id: of large communities they are right
 *     to 7 digits.
 */
#ifndef AE_ORDER_RABBIT_H
#define AE_ORDER_RABBIT_H

#include <stdatomic.h>

#include "core/failure.h"
#include "order/merged_edges.h"

#define AE_RABBIT_NONE UINT32_MAX

/* Edges that are kept for later. */
typedef struct ae_kept {
    uint64_t n;
    ae_merged_edge edges[];
} ae_kept;

/* The edges of all communities that wait to be looked at again: in memory, or in a file. */
typedef struct ae_kept_edges {
    _Atomic uint64_t *places; /* by node: 0, an address, or a place in the file times 2, plus 1 */
    uint64_t memory;          /* bytes that they may take before the file is used */
    int32_t file;             /* -1: there is none */
    atomic_uint_fast64_t bytes, file_end;
} ae_kept_edges;

/* Keep n edges for a node. */
int ae_kept_edges_put(ae_kept_edges *k, uint32_t node, const ae_merged_edge *edges, uint64_t n,
                      aether_error *err);
/* Return the kept edges of a node, which has some; those in the file are read into `buffer`, and `end_node`
 * is above all ids. NULL: failed. */
const ae_kept *ae_kept_edges_get(ae_kept_edges *k, uint32_t node, uint64_t num_nodes, ae_scratch *buffer,
                                 aether_error *err);
static inline bool ae_kept_edges_has(const ae_kept_edges *k, uint32_t node) {
    return atomic_load_explicit(&k->places[node], memory_order_relaxed) != 0;
}
/* Forget the edges of a node, if it has some. */
void ae_kept_edges_drop(ae_kept_edges *k, uint32_t node);

#endif
