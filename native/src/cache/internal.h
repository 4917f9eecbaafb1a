/*
 * cache/internal.h - the parts of a cache, for the files of this module.
 *
 *   memory  [frame 0][frame 1]...   [nodes]   [ghosts]   [slots]
 *           ^ page                  each aligned to 64 bytes
 */
#ifndef AE_CACHE_INTERNAL_H
#define AE_CACHE_INTERNAL_H

#include "cache/cache.h"
#include "cache/lock.h"
#include "cache/policy.h"

struct ae_cache {
    ae_cache_lock lock;
    atomic_ullong hits, misses;
    ae_cache_policy policy; /* under the lock, except a node's `found` */
    uint8_t *frames;
    uint64_t frame_bytes, mapped;
};

static inline void *ae_cache_frame_at(const ae_cache *c, uint32_t number) {
    return c->frames + number * c->frame_bytes;
}

/* Lock the cache for one writer; ae_cache_unlock_alone(&c->lock) unlocks it. */
void ae_cache_lock_all(ae_cache *c);

#endif
