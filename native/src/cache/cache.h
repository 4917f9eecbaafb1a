/*
 * cache/cache.h - frames of one size by key, shared by threads.
 *
 *   key -> index -> frame | hot: pinned, stay  | small -> main: S3-FIFO |
 *                   ghosts: keys that small let go, without their frames
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
 * for cache eviction", SOSP 2023): what is new enters a small queue, a tenth of the
 * frames; what was found at least twice there moves to the main queue when its turn comes, the rest goes,
 * but its key is remembered as long as the main queue is, and enters the main queue when put again.
 * A scan passes through the small queue and leaves the main one alone.
 *
 * Caveats
 *   - Between enter and leave found frames stay as they are: copy, then leave. No waiting for a
 *     device, no put, no fork there; one reader at a time for each thread.
 *   - Pin before the first put, and before other threads use the cache.
 *   - A forked child has the hot set (shared with its parent, copy on write); the rest
 *     begins empty, as its counts do. Threads that pin while another forks lose in the child.
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
    uint64_t frames;            /* there is room for so many */
    uint64_t hot;               /* of them pinned */
    uint64_t held;              /* of them in use, the hot ones included */
    uint64_t bytes;             /* of memory, everything included */
} ae_cache_stats;

/* The memory that `frames` frames need. */
uint64_t ae_cache_bytes(uint64_t frames, uint32_t frame_bytes);

/* As many frames as fit `bytes` with all that belongs to them. Memory is taken by the
 * system as it is written to. AETHER_E_INVALID: less than one frame; the message has the least. */
int ae_cache_create(uint64_t bytes, uint32_t frame_bytes, ae_cache **out, aether_error *err);
void ae_cache_destroy(ae_cache *c); /* NULL is fine */

/* Memory for the frame of `key`, for the caller to fill; it stays. Frames pinned one
 * after the other lie one after the other. NULL: no frame is left, the key is
 * pinned already, or something was put. The first one begins a page of memory. */
void *ae_cache_pin(ae_cache *c, uint64_t key);

void ae_cache_enter(ae_cache *c, ae_cache_reader *r);
void ae_cache_leave(ae_cache_reader *r);
void ae_cache_prefetch(const ae_cache_reader *r, uint64_t key);
const void *ae_cache_find(ae_cache_reader *r, uint64_t key); /* NULL: not there */

/* Copy frames in; keys that are there already are passed over. */
void ae_cache_put(ae_cache *c, const uint64_t *keys, const void *const *frames, uint64_t n);

void ae_cache_count(const ae_cache *c, ae_cache_stats *out);

#endif
