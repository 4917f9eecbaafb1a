/*
 * live/blocks.h - the blocks of a list as its writer sees them: entries, leaves, directories.
 *
 *   head --place--> block                         ae_blocks_at
 *               --> directory --ref--> leaf       ae_blocks_directory, ae_blocks_leaf
 *                                        groups   ae_blocks_groups
 *
 * Caveats: for those who write. Readers check each step (live/view.h). live/layout.h has the layouts.
 */
#ifndef AE_LIVE_BLOCKS_H
#define AE_LIVE_BLOCKS_H

#include "live/writer.h"

static inline const ae_layout *ae_blocks_layout(const ae_writer *w) {
    return &w->table->layout;
}

static inline bool ae_blocks_sorted(const ae_writer *w) {
    return w->table->order == AETHER_ORDER_ID;
}

static inline uint32_t ae_blocks_id(const ae_layout *l, const uint8_t *groups, uint32_t i) {
    return ae_group_id(groups + (uint64_t)(i / AE_GROUP) * l->group, i % AE_GROUP);
}

static inline int64_t ae_blocks_time(const ae_layout *l, const uint8_t *groups, uint32_t i) {
    return ae_group_time(l, groups + (uint64_t)(i / AE_GROUP) * l->group, i % AE_GROUP);
}

/* Return the bytes of a small list's block. */
static inline uint64_t ae_blocks_bytes(const ae_writer *w, uint32_t room) {
    return ae_small_bytes(ae_blocks_layout(w), room);
}

static inline uint8_t *ae_blocks_at(const ae_writer *w, ae_ref ref) {
    return ae_arena_at(w->arena, ref);
}

static inline ae_directory *ae_blocks_directory(const ae_writer *w, uint64_t head) {
    return ae_arena_at(w->arena, ae_place_ref(ae_head_place(head)));
}

static inline ae_leaf *ae_blocks_leaf(const ae_writer *w, ae_ref ref) {
    return ae_arena_at(w->arena, ref & ~AE_EXTENT);
}

static inline uint8_t *ae_blocks_groups(ae_leaf *leaf) {
    return (uint8_t *)(leaf + 1);
}

/* Return the entries of leaf c in a list of `length`. */
static inline uint32_t ae_blocks_leaf_size(ae_directory *d, uint32_t c, uint32_t length) {
    const uint32_t *before = ae_directory_before(d);
    return (c + 1 < d->count ? before[c + 1] : length) - before[c];
}

static inline int64_t ae_blocks_key(const ae_writer *w, const uint8_t *groups, uint32_t i) {
    if (ae_blocks_sorted(w))
        return ae_blocks_id(ae_blocks_layout(w), groups, i);
    return ae_blocks_layout(w)->time ? ae_blocks_time(ae_blocks_layout(w), groups, i) : 0;
}

/* Copy n entries from place s to place d. Within one block, entries only move to the right. Lanes
 * behind the last entry of a group may get anything. */
void ae_blocks_move(const ae_layout *l, uint8_t *dst, uint32_t d, const uint8_t *src, uint32_t s, uint32_t n);

/* Write n entries of `src`, and one more at place `at` among them, into `dst`: the same block, or another
 * one. Lanes behind the last entry of a group may get anything. */
void ae_blocks_insert(const ae_layout *layout, uint8_t *dst, const uint8_t *src, uint32_t at, uint32_t n,
                      const ae_entry *entry);

#endif
