/*
 * cache/cache.h - frames of one size by key, shared by threads.
 *
 *   key -> index -> frame | hot: pinned, stay  | small -> main: S3-FIFO |
 *                   ghosts: keys that left the small queue, without their frames
 *
 * A reader looks up many keys between enter and leave:
 *
 *   ae_cache_reader r;
 *   ae_cache_enter(cache, &r);
 *   for each key:  ae_cache_prefetch(&r, the key some places ahead);
 *                  frame = ae_cache_find(&r, key);  if (frame) copy it;  else note it as missing
 *   ae_cache_leave(&r);
 *   read what is missing;  ae_cache_put(cache, keys, frames, n);
 *
 * The policy is S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need
 * for cache eviction", SOSP 2023). A new key enters the small queue, a tenth of the frames. When a
 * key is the oldest there, it moves to the main queue if it was found at least twice, else it is
 * evicted and remembered as a ghost; as many ghosts are kept as the main queue has frames. A ghost
 * that is put again enters the main queue. A scan passes through the small queue and leaves the
 * main queue alone.
 *
 * Caveats
 *   - Between enter and leave, found frames stay as they are: copy, then leave. Do not wait for a
 *     device, put or fork in between; one reader at a time for each thread.
 *   - Pin before the first put, and before other threads use the cache.
 *   - A forked child has the hot set (shared with its parent, copy on write); the rest of its
 *     cache and its counts begin empty. Pins that were under way during the fork are lost there.
 */
#ifndef AE_CACHE_CACHE_H
#define AE_CACHE_CACHE_H

#include "aether.h"

typedef struct ae_cache ae_cache;

typedef struct ae_cache_reader { /* private */
    ae_cache *cache;
    uint64_t hits, misses;
} ae_cache_reader;

typedef struct ae_cache_stats {
    uint64_t hits, misses;      /* of ae_cache_find */
    uint64_t inserted, evicted; /* by ae_cache_put */
    uint64_t frames;            /* room of the cache */
    uint64_t hot;               /* pinned frames */
    uint64_t held;              /* frames in use, the hot ones included */
    uint64_t bytes;             /* memory, everything included */
} ae_cache_stats;

/* Return the bytes that a cache of `frames` frames needs. */
uint64_t ae_cache_bytes(uint64_t frames, uint32_t frame_bytes);

/* Create a cache of as many frames as fit `bytes`, index and queues included. The system grants
 * memory as it is written to. AETHER_E_INVALID: less than one frame; the message has the least. */
int ae_cache_create(uint64_t bytes, uint32_t frame_bytes, ae_cache **out, aether_error *err);
void ae_cache_destroy(ae_cache *c); /* NULL is fine */

/* Pin a frame for `key` and return its memory, for the caller to fill. Frames pinned one after the
 * other lie one after the other; the first begins a page of memory. NULL: no frame is left, the
 * key is pinned already, or something was put. */
void *ae_cache_pin(ae_cache *c, uint64_t key);

/* Begin to read: frames that are found stay as they are until ae_cache_leave. */
void ae_cache_enter(ae_cache *c, ae_cache_reader *r);
/* End reading. */
void ae_cache_leave(ae_cache_reader *r);
/* Prefetch the index slot that finding `key` reads. */
void ae_cache_prefetch(const ae_cache_reader *r, uint64_t key);
/* Return the frame of `key`, or NULL if the cache has none. */
const void *ae_cache_find(ae_cache_reader *r, uint64_t key);

/* Copy n frames in; keys that the cache has already are passed over. */
void ae_cache_put(ae_cache *c, const uint64_t *keys, const void *const *frames, uint64_t n);

void ae_cache_count(const ae_cache *c, ae_cache_stats *out);

#endif
