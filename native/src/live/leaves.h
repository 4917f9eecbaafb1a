/*
 * live/leaves.h - leaves and directories of a list that is being changed: made, put in place, let go of.
 *
 *   directory    before | 0 | 64 | 100 |     leaves | a | b | c |     keys | .. | .. | .. |
 *                              add, take, replace a leaf; shift what is before those behind it
 *   extent       100 entries of the base          cut:  extent of 34 | leaf of 32 copies | extent of 34
 *
 * What insert and remove (live/edit.h, live/remove.h) have in common. Blocks of the transaction itself are
 * changed in place, others are copied first: directories and leaves say which commit made them.
 *
 * Caveats: after each step, successful or not, the root's head names a whole list.
 */
#ifndef AE_LIVE_LEAVES_H
#define AE_LIVE_LEAVES_H

#include "live/blocks.h"

/* A list that the transaction has touched. */
typedef struct ae_edit {
    ae_writer *w;
    ae_root *root;
    uint32_t node;
    uint64_t head;  /* as it is now */
    uint64_t saved; /* as the last commit has it */
} ae_edit;

#define AE_LEAVES_SHORT 32 /* pieces of the base of fewer entries are copied */

/* Return the most entries of a list in one block. */
static inline uint32_t ae_leaves_small_max(const ae_writer *w) {
    return ae_blocks_sorted(w) ? AE_LEAF_ID : AE_LEAF_TIME;
}

static inline uint64_t ae_leaves_directory_bytes(const ae_writer *w, uint32_t room) {
    return ae_directory_bytes(ae_blocks_layout(w), room);
}

static inline void ae_leaves_set_head(ae_edit *e, uint32_t place, uint32_t length) {
    e->head = ae_head(place, length);
    atomic_store_explicit(&e->root->head, e->head, memory_order_release);
}

/* Let go of the block of a small list. */
static inline void ae_leaves_drop_block(ae_edit *e, uint64_t head) {
    if (ae_head_length(head))
        ae_writer_drop(e->w, ae_place_ref(ae_head_place(head)),
                       ae_blocks_bytes(e->w, ae_room(ae_head_length(head))),
                       ae_head_place(head) != ae_head_place(e->saved));
}

/* Return the most entries of a leaf. Sorted lists get wider leaves as they grow, so that neither
 * leaf nor directory, which a change copies, is much longer than the other. */
uint32_t ae_leaves_max(const ae_writer *w, uint32_t length);
/* Allocate a leaf for n entries. */
ae_ref ae_leaves_new(ae_writer *w, uint32_t n, aether_error *err);
void ae_leaves_drop(ae_writer *w, ae_ref ref);
void ae_leaves_drop_directory(ae_writer *w, const ae_directory *d, ae_ref ref);
/* Make an extent: a leaf that is entries of the base, from `start` on. */
ae_ref ae_leaves_new_extent(ae_writer *w, uint64_t start, aether_error *err);

/* Make the directory one of this transaction's, with room for `count` leaves. */
int ae_leaves_own(ae_edit *e, uint32_t count, aether_error *err);
/* Put a leaf of entries into the directory, which has room for it, as leaf c. */
void ae_leaves_add(const ae_writer *w, ae_directory *d, uint32_t c, ae_ref ref, uint32_t before);
/* Take leaf c out of the directory. */
void ae_leaves_take(ae_directory *d, uint32_t c);
/* Put another leaf, with the same entries or others, in the place of leaf c. */
void ae_leaves_replace(ae_writer *w, ae_directory *d, uint32_t c, ae_ref ref);
/* Add to the numbers of entries before the leaves from `from` on. */
void ae_leaves_shift(ae_directory *d, uint32_t from, int64_t by);
/* Copy the entries [from, to) of extent c, of `size` entries, into a leaf, *at; up to two pieces of the
 * extent are left around it. The directory is the transaction's and has room. */
int ae_leaves_cut_extent(ae_edit *e, uint32_t c, uint32_t size, uint32_t from, uint32_t to, uint32_t *at,
                         aether_error *err);
/* Replace extent c, of `size` entries, by what is left without n of them, not all: `doomed` are their numbers
 * in the list, ascending. The directory becomes the transaction's. */
int ae_leaves_thin_extent(ae_edit *e, uint32_t c, uint32_t size, const uint32_t *doomed, uint32_t n,
                          aether_error *err);

#endif
