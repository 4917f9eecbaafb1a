/*
 * sample/relabel/idmap.h - global node -> local id, in order of first appearance.
 *
 *   DIRECT  u32 slot per node of the graph          small graphs
 *   NARROW  u64 slot {value:32, node:32}, hashed     nodes below 2^32
 *   WIDE    {u64 key, u64 value}, hashed             64-bit nodes, or (tree, node)
 *
 * A slot's value is base + local id; values below `base` belong to earlier
 * samples and count as empty. So starting a sample only raises `base`, and
 * nothing is cleared from batch to batch.
 *
 * Hashed slots: Fibonacci hashing, range by multiplication (so capacities need
 * not be powers of two), linear probing, at most a third full.
 *
 * Caveats: `add` assumes a reserve that covers it, and that keys are below the
 * bound given to reserve.
 */
#ifndef AE_SAMPLE_RELABEL_IDMAP_H
#define AE_SAMPLE_RELABEL_IDMAP_H

#include <stdbool.h>

#include "core/rng.h"
#include "os/scratch.h"

typedef enum ae_idmap_kind { AE_IDMAP_NONE, AE_IDMAP_DIRECT, AE_IDMAP_NARROW, AE_IDMAP_WIDE } ae_idmap_kind;

typedef struct ae_wide_slot {
    uint64_t key;
    uint64_t value;
} ae_wide_slot;

typedef struct ae_idmap {
    ae_scratch memory;
    ae_idmap_kind kind;
    uint32_t base;     /* values from here on are live */
    uint64_t capacity; /* slots in use */
} ae_idmap;

#define AE_IDMAP_ABSENT UINT32_MAX

/* Forget the `count` entries of the last sample. */
void ae_idmap_restart(ae_idmap *m, uint64_t count);

/* Reserve room for local ids below `bound` and keys below num_keys. The map holds `count` entries
 * keys[i] -> i (the first i of equal keys); they are entered again if the table changes.
 * AETHER_E_LIMIT: 2^32 - 2 ids or more. */
int ae_idmap_reserve(ae_idmap *m, uint64_t bound, uint64_t num_keys, const uint64_t *keys, uint64_t count,
                     aether_task *task, aether_error *err);

void ae_idmap_free(ae_idmap *m);

/* Return the first slot to look at for a key. The key is folded first: multiplication alone sends
 * ids that lie a Fibonacci number apart to neighbouring slots. */
static inline uint64_t ae_idmap_home(uint64_t key, uint64_t capacity) {
    return ae_rng_bounded((key ^ key >> 15) * AE_RNG_GAMMA, capacity);
}

static inline uint64_t ae_idmap_next(uint64_t slot, uint64_t capacity) {
    return slot + 1 == capacity ? 0 : slot + 1;
}

/* Return is_new ? fresh : known, in arithmetic: compilers turn the conditional into a
 * branch, and whether a node is new cannot be predicted. */
static inline uint32_t ae_idmap_pick(uint32_t is_new, uint32_t fresh, uint32_t known) {
    return known ^ ((known ^ fresh) & (0u - is_new));
}

/* Return a number that is not 0 if a slot is taken by another key. In arithmetic, too: this is rare, which
 * a branch can predict, while whether a slot is taken at all it cannot. */
static inline uint64_t ae_idmap_is_other(bool is_taken, uint64_t owner, uint64_t key) {
    return (owner ^ key) & (UINT64_C(0) - is_taken);
}

/* Return the local id of `key` in a DIRECT map, entering the key if it is new. `*fresh` is the next
 * new local id, and is counted up if it is taken. ae_idmap_add_narrow and _wide do so in hashed
 * maps. */
static inline uint32_t ae_idmap_add_direct(uint32_t *slots, uint32_t base, uint64_t key, uint32_t *fresh) {
    uint32_t value = slots[key];
    uint32_t is_new = value < base;
    uint32_t local = ae_idmap_pick(is_new, *fresh, value - base);
    slots[key] = base + local;
    *fresh += is_new;
    return local;
}

static inline uint32_t ae_idmap_add_narrow(uint64_t *slots, uint64_t capacity, uint32_t base, uint64_t key,
                                           uint32_t *fresh) {
    uint64_t i = ae_idmap_home(key, capacity);
    while (ae_idmap_is_other((uint32_t)slots[i] >= base, slots[i] >> 32, key))
        i = ae_idmap_next(i, capacity);
    uint32_t value = (uint32_t)slots[i];
    uint32_t is_new = value < base;
    uint32_t local = ae_idmap_pick(is_new, *fresh, value - base);
    slots[i] = key << 32 | (base + local);
    *fresh += is_new;
    return local;
}

static inline uint32_t ae_idmap_add_wide(ae_wide_slot *slots, uint64_t capacity, uint32_t base, uint64_t key,
                                         uint32_t *fresh) {
    uint64_t i = ae_idmap_home(key, capacity);
    while (ae_idmap_is_other(slots[i].value >= base, slots[i].key, key))
        i = ae_idmap_next(i, capacity);
    uint32_t is_new = slots[i].value < base;
    uint32_t local = ae_idmap_pick(is_new, *fresh, (uint32_t)(slots[i].value - base));
    slots[i] = (ae_wide_slot){key, base + local};
    *fresh += is_new;
    return local;
}

/* Return the local id of `key` in a map of any kind; a new key gets the id `fresh`. */
uint32_t ae_idmap_add(ae_idmap *m, uint64_t key, uint32_t fresh);
uint32_t ae_idmap_find(const ae_idmap *m, uint64_t key); /* AE_IDMAP_ABSENT if it is not there */
void ae_idmap_prefetch(const ae_idmap *m, uint64_t key);

#endif
