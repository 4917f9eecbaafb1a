/*
 * live/insert.h - edges into the lists of a relation, in both layouts.
 *
 *   few     csc | 0 .. 1023 |           | 1024 .. 2047 |         one thread, a chunk at a time, so that what
 *           csr             | 0 .. 1023 |              | ...     both need of the batch is in the caches
 *   many    csc | 0 .. 1023 | 1024 .. 2047 | ...                 two threads: the second goes on as far as
 *           csr             | 0 ..           | ...               the first one has got
 *
 * The first layout decides which edges are new, and their ids; the second follows. Each thread has lists,
 * arena and retired blocks of its own, so the result is that of one thread, but for where in the arenas it
 * is. Where memory gets scarce both stop, and one thread goes on.
 *
 * Caveats: edges were checked. After an error some are inserted: the transaction is to be undone.
 */
#ifndef AE_LIVE_INSERT_H
#define AE_LIVE_INSERT_H

#include "live/transaction.h"

/* Insert edges; their ids, new or found, go to `edge_ids` unless it is NULL. */
int ae_insert(ae_changing *c, const aether_live_edges *edges, int64_t *edge_ids, aether_error *err);

/* Insert an edge; *edge is its id, new or found, and *fresh says which. entry->id and ->edge_id are set here.
 */
int ae_insert_one(ae_changing *c, uint32_t src, uint32_t dst, ae_entry *entry, int64_t *edge, bool *fresh,
                  aether_error *err);

#endif
