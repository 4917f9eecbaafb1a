/*
 * live/find.h - finding entries of a list, for those who change it.
 *
 *   small     the keys of a block                  bisected
 *   large     the keys of the directory            bisected, then those of the leaf
 *   extent    keys of the base                     bisected; the last of them are read together
 *
 * A key is an id (sorted lists) or a time.
 *
 * Caveats: reading an extent reads the base, which may wait for a disk, and may fail.
 */
#ifndef AE_LIVE_FIND_H
#define AE_LIVE_FIND_H

#include "live/blocks.h"

/* Where an entry is, or would be put. */
typedef struct ae_spot {
    uint32_t leaf;  /* 0 in a small list */
    uint32_t index; /* in the leaf */
    uint32_t size;  /* entries of the leaf */
    bool found;     /* order id: the entry there has this id */
} ae_spot;

/* Return the last leaf of a directory that begins at or below a key, or the first. */
static inline uint32_t ae_find_leaf(ae_directory *d, int64_t key) {
    const int64_t *keys = ae_directory_keys(d);
    uint32_t low = 0, high = d->count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (keys[middle] <= key)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Find the place behind all entries up to `time`, or, without times, the end. The list is not the
 * base's. Extents are read, which may fail. */
int ae_find_time(const ae_writer *w, uint64_t head, int64_t time, ae_spot *out, aether_error *err);
/* Find `id` in a sorted list, or its place. */
int ae_find_id(const ae_writer *w, uint64_t head, uint32_t id, ae_spot *out, aether_error *err);
/* Return the edge id of an entry, of relations that have them. */
int ae_find_edge_id(const ae_writer *w, uint64_t head, ae_spot spot, uint64_t *out, aether_error *err);
/* Return the place in the list of a spot. */
static inline uint32_t ae_find_index(const ae_writer *w, uint64_t head, const ae_spot *spot) {
    if (!ae_place_is_large(ae_head_place(head)))
        return spot->index;
    return ae_directory_before(ae_blocks_directory(w, head))[spot->leaf] + spot->index;
}
/* Find `id` in the base's sorted list of a node: *position is its first edge's; UINT64_MAX: there is none. */
int ae_find_in_base(const ae_writer *w, uint32_t node, uint32_t id, uint64_t *position, aether_error *err);
/* Find out whether the base's list of a node, in any order, has an id that is wanted. */
typedef bool (*ae_find_is_wanted)(void *ctx, uint32_t id);
int ae_find_any_in_base(const ae_writer *w, uint32_t node, ae_find_is_wanted is_wanted, void *ctx,
                        bool *found, aether_error *err);
/* Return the number of entries of a node's list. */
int ae_find_length(const ae_writer *w, uint32_t node, uint64_t *out, aether_error *err);

/* Return the number of blocks of a list, at most. */
uint32_t ae_find_blocks(const ae_writer *w, uint64_t head);

/* Call `visit` for each stretch of entries of a list, in order; a result other than 0 ends it. */
typedef int (*ae_find_visit)(void *ctx, const uint8_t *groups, uint32_t first, uint32_t n);
int ae_find_each(const ae_writer *w, uint64_t head, ae_find_visit visit, void *ctx, aether_error *err);

#define AE_FIND_AT_ONCE 64 /* keys that are read together, where a search ends */

/* Read the keys of n entries of the base, AE_FIND_AT_ONCE at most. */
int ae_find_base_keys(const ae_writer *w, uint64_t start, uint32_t n, int64_t *keys, aether_error *err);
/* Find the base's list of a node. AETHER_E_LIMIT: it is too long to change. */
int ae_find_base_list(const ae_writer *w, uint32_t node, ae_list *out, aether_error *err);

#endif
