/*
 * sample/draw/retries.h - retry rounds, for nodes that need numbers of a file.
 *
 *   round 0   try 0 1 2 3 4 ...  until enough is asked for        waiting: 1 4
 *             read what 1 and 4 asked for
 *   round 1   try 1 4                                             waiting: 4
 *             read what 4 asked for next                          (a search in a long list)
 *   round 2   try 4, then the next nodes ...
 *
 * The nodes of a hop are tried in the order of their lists in the file (ae_retries_sort), so that a
 * page is read once. Samples that go in rounds together share its reading: their caller raises
 * `upto` for all of them at once.
 *
 * Caveats: nodes are tried in order but finish in any.
 */
#ifndef AE_SAMPLE_DRAW_RETRIES_H
#define AE_SAMPLE_DRAW_RETRIES_H

#include "sample/draw/value_cache.h"
#include "topology/topology.h"

#define AE_STRETCHES 1024u /* equal parts of the file */

typedef struct ae_retries {
    uint64_t next, num_waiting;
    ae_scratch waiting; /* u64 */
    ae_scratch order;   /* u32: where each stretch ends, then which node is tried first, second ... */
    bool sorted;        /* nodes are tried in `order`, not by their number */
    uint32_t upto;      /* sorted: lists of so many stretches may be tried, at least 1 */
} ae_retries;

void ae_retries_free(ae_retries *r);
uint64_t ae_retries_memory(const ae_retries *r);

/* Try nodes 0..count-1, each of which has its list in `lists`, stretch after stretch of num_edges
 * entries; all of them, if the caller does not lower `upto`. */
int ae_retries_sort(ae_retries *r, const ae_list *lists, uint64_t count, uint64_t num_edges,
                    aether_error *err);

/* Try one node; `again` says that it was tried before. AE_WANTED: it has to be tried once more. */
typedef int (*ae_retries_try)(void *ctx, uint64_t node, bool again, aether_error *err);

/* Try nodes 0..count-1 once more, as far as `upto`. AE_WANTED: read what p[] asks for, then call
 * again; if nothing is asked for, raise `upto`. AETHER_OK: all nodes are done, and the next call
 * begins anew. About `most` value pages are held at a time. */
int ae_retries_round(ae_retries *r, uint64_t count, ae_value_cache *const *p, uint32_t num_caches,
                     uint64_t most, ae_retries_try try, void *ctx, aether_error *err);

#endif
