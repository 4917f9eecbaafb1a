/*
 * sample/draw/position_set.h - a small set of numbers: the positions that were drawn already.
 *
 *   slots [ 0 | x + 1 | 0 | y + 1 ]     open addressing, 0 is empty, half full at most
 *
 * Caveats: lives in the caller's scratch memory, until that is used for something else.
 */
#ifndef AE_SAMPLE_DRAW_POSITION_SET_H
#define AE_SAMPLE_DRAW_POSITION_SET_H

#include <stdbool.h>
#include <string.h>

#include "core/rng.h"
#include "os/scratch.h"

typedef struct ae_position_set {
    uint64_t *slots, mask;
} ae_position_set;

/* Return the slots of a set for `count` numbers. */
static inline uint64_t ae_position_set_slots(uint64_t count) {
    uint64_t slots = 1;
    while (slots < 2 * count)
        slots *= 2;
    return slots;
}

/* Start an empty set for `count` numbers, at the beginning of the scratch memory. */
static inline int ae_position_set_start(ae_position_set *s, uint64_t count, ae_scratch *scratch,
                                        aether_error *err) {
    const uint64_t slots = ae_position_set_slots(count);
    int rc = ae_scratch_reserve(scratch, slots * sizeof(uint64_t), 0, err);
    if (rc)
        return rc;
    memset(scratch->data, 0, slots * sizeof(uint64_t));
    *s = (ae_position_set){scratch->data, slots - 1};
    return AETHER_OK;
}

/* Add x; return whether the set had it already. */
static inline bool ae_position_set_add(ae_position_set *s, uint64_t x) {
    uint64_t i = ae_rng_mix(x) & s->mask;
    while (s->slots[i] && s->slots[i] != x + 1)
        i = (i + 1) & s->mask;
    bool found = s->slots[i] != 0;
    s->slots[i] = x + 1;
    return found;
}

#endif
