/*
 * cache/index.h - from keys to numbers: open addressing, linear probing.
 *
 *   slots   [.] [tag|5] [tag|0] [.] [.] [tag|9] [.]      0: empty
 *               upper half: hash of the key, lower half: the number + 1
 *
 * A number stands for a key that the owner keeps at keys[number * step]; a slot's tag
 * says where its search begins, so that entries move without their keys being read.
 *
 * Caveats: the owner adds a key once, and leaves a third of the slots empty. No lock.
 */
#ifndef AE_CACHE_INDEX_H
#define AE_CACHE_INDEX_H

#include <stdint.h>

#include "core/rng.h"

#define AE_CACHE_NONE UINT32_MAX

typedef struct ae_cache_index {
    uint64_t *slots;
    uint64_t num_slots; /* below 2^32 */
} ae_cache_index;

static inline uint64_t ae_cache_slots_for(uint64_t entries) {
    return entries + entries / 2 + 2;
}

static inline uint32_t ae_cache_tag(uint64_t key) {
    return (uint32_t)(ae_rng_mix(key + AE_RNG_GAMMA) >> 32);
}

static inline uint64_t ae_cache_home(const ae_cache_index *x, uint32_t tag) {
    return ((uint64_t)tag * x->num_slots) >> 32;
}

static inline uint64_t ae_cache_next(const ae_cache_index *x, uint64_t slot) {
    return slot + 1 == x->num_slots ? 0 : slot + 1;
}

static inline uint32_t ae_cache_number(uint64_t slot) {
    return (uint32_t)slot - 1;
}

static inline void ae_cache_index_add(ae_cache_index *x, uint64_t key, uint32_t number) {
    uint32_t tag = ae_cache_tag(key);
    uint64_t i = ae_cache_home(x, tag);
    while (x->slots[i])
        i = ae_cache_next(x, i);
    x->slots[i] = (uint64_t)tag << 32 | (number + 1);
}

/* Empty a slot; entries whose probing went past it move up. */
static inline void ae_cache_index_remove(ae_cache_index *x, uint64_t hole) {
    uint64_t n = x->num_slots;
    for (uint64_t i = ae_cache_next(x, hole); x->slots[i]; i = ae_cache_next(x, i)) {
        uint64_t home = ae_cache_home(x, (uint32_t)(x->slots[i] >> 32));
        uint64_t from_home = i >= home ? i - home : i + n - home;
        uint64_t from_hole = i >= hole ? i - hole : i + n - hole;
        if (from_home >= from_hole) {
            x->slots[hole] = x->slots[i];
            hole = i;
        }
    }
    x->slots[hole] = 0;
}

#endif
