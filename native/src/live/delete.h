/*
 * live/delete.h - edges out of the lists of a relation, in both layouts.
 *
 *   pairs          1 > 7   2 > 7   1 > 9   3 > 8
 *   csr, shorter   of 1 | 7 | 9 |   of 2 | 7 |   of 3 | 8: no such edge |     each list once, for all its
 * pairs csc            of 7 | 1 | 2 |   of 9 | 1 |                                the pairs that had edges
 *
 * The shorter list of a pair tells what there is to delete: most pairs without an edge then cost little. Of a
 * list all entries are found before any is removed, and then removed together: a batch of deletions from a
 * long list, which may be in no order, reads and writes it once.
 *
 * Caveats: pairs were checked. After an error some edges are deleted: the transaction is to be undone.
 */
#ifndef AE_LIVE_DELETE_H
#define AE_LIVE_DELETE_H

#include "live/transaction.h"

/* Delete, for each of n pairs, the edges between them; with `edge_ids`, of those the one that has the id. */
int ae_delete(ae_changing *c, const int64_t *src, const int64_t *dst, const int64_t *edge_ids, uint64_t n,
              aether_error *err);

#endif
