/*
 * live/edit.h - opening a list for changes and inserting, inside a transaction; live/remove.h removes.
 *
 *   insert    at the end of a block with room    entry written behind the length    no copy
 *             elsewhere                          block copied with a gap
 *             block at its largest               cut into two leaves; a small list becomes large
 *
 *   before  head --> directory (commit 8) --> leaf a (5)  leaf b (8)
 *   after   head --> directory (commit 9) --> leaf a (5)  leaf b' (9)       one entry put into b
 *
 *   over a base    an extent                         100 entries of the base, from 40 on
 *                  an entry goes into its middle     extent of 34 | leaf of 32 copies and it | extent of 34
 *
 * Blocks of the transaction itself are changed in place: readers cannot reach them. A small block
 * is the transaction's if the version before has another one; directories and leaves say which
 * commit made them.
 *
 * Caveats: after each step, successful or not, the root's head names a whole list, so that
 * ae_edit_discard() can free what the transaction has made.
 */
#ifndef AE_LIVE_EDIT_H
#define AE_LIVE_EDIT_H

#include "live/find.h"
#include "live/leaves.h"

/* Open the list of a node for changes that drop up to `drops` blocks; one of the base is adopted. */
int ae_edit_open(ae_writer *w, uint32_t node, uint32_t drops, ae_edit *out, aether_error *err);
/* Insert an entry. AETHER_E_LIMIT: the list has 2^30 - 1 entries. */
int ae_edit_insert(ae_edit *e, const ae_spot *spot, const ae_entry *entry, aether_error *err);
/* Find the place of an entry by its time, and insert it there. */
int ae_edit_put(ae_writer *w, uint32_t node, const ae_entry *entry, aether_error *err);
/* Make the directory of a large list the transaction's. */
int ae_edit_own(ae_edit *e, aether_error *err);

/* Most blocks that ae_edit_insert() drops. */
#define AE_EDIT_DROPS 5
/* Free the blocks of `head` that this transaction made; `saved` is the list as it was before. */
void ae_edit_discard(ae_writer *w, uint64_t head, uint64_t saved);

#endif
