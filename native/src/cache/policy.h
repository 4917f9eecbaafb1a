/*
 * cache/policy.h - the queues of S3-FIFO, which decide what frames stay.
 *
 *   nodes   one per frame: key, next in its queue, how often the key was found (0 to 3)
 *   small   oldest -> ... -> newest        main   oldest -> ... -> newest
 *   ghosts  ring of keys; a ghost counts while the index still leads to its place
 *   index   numbers below num_frames are frames, those from there on ghosts
 *
 * Caveats: the caller holds the cache's lock, as the writer for every change.
 */
#ifndef AE_CACHE_POLICY_H
#define AE_CACHE_POLICY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cache/index.h"

#define AE_CACHE_OFTEN 3 /* the most that `found` counts */

typedef struct ae_cache_node {
    uint64_t key;
    uint32_t next;
    atomic_uchar found;
} ae_cache_node;

typedef struct ae_cache_queue {
    uint32_t oldest, newest, count;
} ae_cache_queue;

typedef struct ae_cache_policy {
    ae_cache_index index;
    ae_cache_node *nodes;
    uint64_t *ghosts;
    uint32_t num_frames;
    uint32_t shown;      /* frames that can be found: all, or the pinned ones while the others are lent */
    uint32_t hot;        /* frames [0, hot) are pinned */
    uint32_t touched;    /* frames [hot, touched) have been used */
    uint32_t small_goal; /* frames of the small queue; the rest is main's, and as many are ghosts */
    uint32_t main_goal;
    uint64_t num_ghosts; /* ghosts so far: the next one's place is this number modulo main_goal */
    ae_cache_queue small, main, free;
    uint64_t inserted, evicted;
} ae_cache_policy;

/* Begin; the memory of index, nodes and ghosts is set and zero, and num_frames is set. */
void ae_cache_policy_begin(ae_cache_policy *p);

/* Forget every key that is not pinned. */
void ae_cache_policy_reset(ae_cache_policy *p);

/* Return the frame that holds a key, lent or not, or AE_CACHE_NONE. */
uint32_t ae_cache_policy_find(const ae_cache_policy *p, uint64_t key);

/* Lend the frames that are not pinned: they are neither found nor put until the refill. The numbers
 * of those that hold something, the oldest first, go to `used`, which has room for all. Return false
 * if they are lent already. */
bool ae_cache_policy_lend(ae_cache_policy *p, uint32_t *used, uint32_t *num_used);

/* Put a key that no frame holds into a lent frame; `used` says whether the frame held another. */
void ae_cache_policy_replace(ae_cache_policy *p, uint32_t frame, bool used, uint64_t key);

/* Return whether a lent frame was in the main queue, or found often since. */
bool ae_cache_policy_often(const ae_cache_policy *p, uint32_t frame);

/* Take all lent frames back: first the num_used that hold something, the oldest first, then the
 * others. */
void ae_cache_policy_refill(ae_cache_policy *p, const uint32_t *frames, uint32_t num_used);

/* Pin a frame for a key and return it, or AE_CACHE_NONE. */
uint32_t ae_cache_policy_pin(ae_cache_policy *p, uint64_t key);
/* Return a frame for a key, evicting another if needed, for the caller to fill; or AE_CACHE_NONE. */
uint32_t ae_cache_policy_put(ae_cache_policy *p, uint64_t key);

#endif
