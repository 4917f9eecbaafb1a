/*
 * live/edit.h - changing a list, inside a transaction.
 *
 *   insert    at the end of a block with room    entry written behind the length    no copy
 *             elsewhere                          block copied with a gap
 *             block at its largest               cut into two leaves; a small list becomes large
 *   remove    blocks copied without the entries; lists that became short are small again
 *
 *   before  head --> directory (commit 8) --> leaf a (5)  leaf b (8)
 *   after   head --> directory (commit 9) --> leaf a (5)  leaf b' (9)       one entry put into b
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

#include "live/writer.h"

/* A list that the transaction has touched. */
typedef struct ae_edit {
    ae_writer *w;
    ae_root *root;
    uint64_t head;  /* as it is now */
    uint64_t saved; /* as the last commit has it */
} ae_edit;

/* Where an entry is, or would be put. */
typedef struct ae_spot {
    uint32_t leaf;  /* 0 in a small list */
    uint32_t index; /* in the leaf */
    uint32_t size;  /* entries of the leaf */
    bool found;     /* order id: the entry there has this id */
} ae_spot;

/* Find the place behind all entries up to `time`, or, without times, the end. */
ae_spot ae_edit_find_time(const ae_writer *w, uint64_t head, int64_t time);
/* Find `id` in a sorted list, or its place. */
ae_spot ae_edit_find_id(const ae_writer *w, uint64_t head, uint32_t id);

/* Open the list of a node for changes that drop up to `drops` blocks. */
int ae_edit_open(ae_writer *w, uint32_t node, uint32_t drops, ae_edit *out, aether_error *err);
/* Insert an entry. AETHER_E_LIMIT: the list has 2^30 - 1 entries. */
int ae_edit_insert(ae_edit *e, ae_spot spot, const ae_entry *entry, aether_error *err);
/* Remove n entries, by index in the list, ascending. */
int ae_edit_remove(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err);

/* Most blocks that ae_edit_insert() drops; ae_edit_remove() drops all at most. */
#define AE_EDIT_DROPS 4
/* Return the number of blocks of a list. */
uint32_t ae_edit_blocks(const ae_writer *w, uint64_t head);

/* Call `visit` for each stretch of entries of a list, in order; a result other than 0 ends it. */
typedef int (*ae_edit_visit)(void *ctx, const uint8_t *groups, uint32_t first, uint32_t n);
int ae_edit_each(const ae_writer *w, uint64_t head, ae_edit_visit visit, void *ctx);

/* Free the blocks of `head` that this transaction made; `saved` is the list as it was before. */
void ae_edit_discard(ae_writer *w, uint64_t head, uint64_t saved);

#endif
