#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cache/internal.h"
#include "core/error.h"
#include "core/minmax.h"

#define PAGE       4096u
#define MOST       ((uint64_t)1 << 30) /* most frames: numbers of frames and ghosts fit 32 bits, slots too */
#define COPY_BYTES (256u << 10)        /* bytes of frames copied under one lock */

/* ---- memory ---------------------------------------------------------------------------- */

typedef struct layout {
    uint64_t nodes, ghosts, slots, num_slots, end;
} layout;

static uint64_t align_to(uint64_t n, uint64_t alignment) {
    return (n + alignment - 1) & ~(alignment - 1);
}

static layout lay_out_cache(uint64_t frames, uint32_t frame_bytes) {
    layout l = {.num_slots = ae_cache_slots_for(2 * frames)};
    l.nodes = align_to(frames * frame_bytes, 64);
    l.ghosts = align_to(l.nodes + frames * sizeof(ae_cache_node), 64);
    l.slots = align_to(l.ghosts + frames * sizeof(uint64_t), 64);
    l.end = align_to(l.slots + l.num_slots * sizeof(uint64_t), PAGE);
    return l;
}

uint64_t ae_cache_bytes(uint64_t frames, uint32_t frame_bytes) {
    return lay_out_cache(ae_min_u64(frames, MOST), frame_bytes).end + sizeof(ae_cache);
}

static uint64_t frames_in(uint64_t bytes, uint32_t frame_bytes) {
    uint64_t fits = 0, beyond = MOST + 1;
    while (beyond - fits > 1) {
        uint64_t middle = fits + (beyond - fits) / 2;
        if (ae_cache_bytes(middle, frame_bytes) <= bytes)
            fits = middle;
        else
            beyond = middle;
    }
    return fits;
}

int ae_cache_create(uint64_t bytes, uint32_t frame_bytes, ae_cache **out, aether_error *err) {
    *out = NULL;
    if (frame_bytes == 0)
        return ae_error_at(err, AETHER_E_INVALID, 0, 0, "frames of a cache have no bytes");
    uint64_t frames = frames_in(bytes, frame_bytes);
    if (frames == 0)
        return ae_error_at(err, AETHER_E_INVALID, 0, (int64_t)bytes,
                           "a cache of %" PRIu64 " bytes holds no frame of %" PRIu32
                           " bytes: it needs at least %" PRIu64,
                           bytes, frame_bytes, ae_cache_bytes(1, frame_bytes));
    layout l = lay_out_cache(frames, frame_bytes);
    uint8_t *memory = aether_buffer_alloc(l.end, err);
    if (!memory)
        return AETHER_E_NO_MEMORY;
    ae_cache *c = calloc(1, sizeof *c);
    if (!c) {
        aether_buffer_free(memory, l.end);
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory making a cache");
    }
    ae_cache_lock_init(&c->lock);
    c->frames = memory;
    c->frame_bytes = frame_bytes;
    c->mapped = l.end;
    c->policy.num_frames = (uint32_t)frames;
    c->policy.nodes = (ae_cache_node *)(memory + l.nodes);
    c->policy.ghosts = (uint64_t *)(memory + l.ghosts);
    c->policy.index = (ae_cache_index){(uint64_t *)(memory + l.slots), l.num_slots};
    ae_cache_policy_begin(&c->policy);
    *out = c;
    return AETHER_OK;
}

void ae_cache_destroy(ae_cache *c) {
    if (!c)
        return;
    aether_buffer_free(c->frames, c->mapped);
    free(c);
}

/* ---- locking ------------------------------------------------------------------------------ */

/* Frames in a forked child are its parent's and may be half written; a loan is the parent's too. */
static void renew(ae_cache *c) {
    if (!ae_cache_lock_claim(&c->lock))
        return;
    ae_cache_policy_reset(&c->policy);
    atomic_store_explicit(&c->hits, 0, memory_order_relaxed);
    atomic_store_explicit(&c->misses, 0, memory_order_relaxed);
    ae_cache_unlock_alone(&c->lock);
}

void ae_cache_lock_all(ae_cache *c) {
    renew(c);
    ae_cache_lock_alone(&c->lock);
}

/* ---- finding -------------------------------------------------------------------------------- */

void ae_cache_enter(ae_cache *c, ae_cache_reader *r) {
    *r = (ae_cache_reader){.cache = c};
    renew(c);
    ae_cache_lock_shared(&c->lock);
}

void ae_cache_leave(ae_cache_reader *r) {
    ae_cache *c = r->cache;
    ae_cache_unlock_shared(&c->lock);
    atomic_fetch_add_explicit(&c->hits, r->hits, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->misses, r->misses, memory_order_relaxed);
}

void ae_cache_prefetch(const ae_cache_reader *r, uint64_t key) {
    const ae_cache_index *x = &r->cache->policy.index;
    __builtin_prefetch(&x->slots[ae_cache_home(x, ae_cache_tag(key))], 0, 3);
}

const void *ae_cache_find(ae_cache_reader *r, uint64_t key) {
    ae_cache_policy *p = &r->cache->policy;
    uint32_t frame = ae_cache_policy_find(p, key);
    if (frame == AE_CACHE_NONE || frame >= p->shown) {
        r->misses++;
        return NULL;
    }
    r->hits++;
    /* Two readers at once may count one: only a hint is lost. */
    atomic_uchar *found = &p->nodes[frame].found;
    unsigned n = atomic_load_explicit(found, memory_order_relaxed);
    if (n < AE_CACHE_OFTEN)
        atomic_store_explicit(found, (unsigned char)(n + 1), memory_order_relaxed);
    return ae_cache_frame_at(r->cache, frame);
}

/* ---- filling --------------------------------------------------------------------------------- */

void *ae_cache_pin(ae_cache *c, uint64_t key) {
    ae_cache_lock_all(c);
    uint32_t frame = ae_cache_policy_pin(&c->policy, key);
    ae_cache_unlock_alone(&c->lock);
    return frame == AE_CACHE_NONE ? NULL : ae_cache_frame_at(c, frame);
}

void ae_cache_put(ae_cache *c, const uint64_t *keys, const void *const *frames, uint64_t n) {
    uint64_t at_once = ae_max_u64(COPY_BYTES / c->frame_bytes, 1);
    for (uint64_t i = 0; i < n;) {
        uint64_t end = i + ae_min_u64(at_once, n - i);
        ae_cache_lock_all(c);
        for (; i < end; i++) {
            uint32_t frame = ae_cache_policy_put(&c->policy, keys[i]);
            if (frame != AE_CACHE_NONE)
                memcpy(ae_cache_frame_at(c, frame), frames[i], c->frame_bytes);
        }
        ae_cache_unlock_alone(&c->lock);
    }
}

/* ---- counting ------------------------------------------------------------------------------- */

void ae_cache_count(const ae_cache *cache, ae_cache_stats *out) {
    ae_cache *c = (ae_cache *)cache; /* the lock is taken */
    renew(c);
    ae_cache_lock_shared(&c->lock);
    const ae_cache_policy *p = &c->policy;
    *out = (ae_cache_stats){
        .hits = atomic_load_explicit(&c->hits, memory_order_relaxed),
        .misses = atomic_load_explicit(&c->misses, memory_order_relaxed),
        .inserted = p->inserted,
        .evicted = p->evicted,
        .frames = p->num_frames,
        .hot = p->hot,
        .held = p->hot + p->small.count + p->main.count,
        .bytes = c->mapped + sizeof *c,
    };
    ae_cache_unlock_shared(&c->lock);
}
