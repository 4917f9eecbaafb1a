/*
 * sample/walk/alias.h - weighted draws from a list in constant time.
 *
 *   list      [  a      b      c   ]        weights 1, 6, 2
 *   table     [ .33|1  full   .67|1 ]       one u64 per position
 *               |   |
 *               |   other: the place in the list that takes the rest
 *               threshold: this place keeps that share of its third
 *
 * The alias method (Walker, "An efficient method for generating discrete random
 * variables with general distributions", ACM TOMS 3(3), 1977), filled in linear
 * time (Vose, IEEE TSE 17(9), 1991). Shares are 32-bit fixed point and Vose's
 * loop is in integers, so a table is the same on every platform.
 *
 *   entry = other << 32 | threshold
 *
 * Caveats: a share is exact to 2^-32 of an even share; a positive weight keeps at
 * least that much and a weight of zero is never drawn. Where all weights are zero
 * every entry is AE_ALIAS_NONE. Lists hold fewer than 2^31 entries.
 */
#ifndef AE_SAMPLE_WALK_ALIAS_H
#define AE_SAMPLE_WALK_ALIAS_H

#include <stdint.h>

#define AE_ALIAS_NONE UINT64_MAX

/* Return the place that a uniform 64-bit x draws from a list of `degree` entries. `entry` is the
 * table's entry at the high half of x * degree; the low half is the coin. */
static inline uint64_t ae_alias_place(uint64_t entry, uint64_t x, uint64_t degree) {
    unsigned __int128 product = (unsigned __int128)x * degree;
    uint32_t coin = (uint32_t)((uint64_t)product >> 32);
    return coin < (uint32_t)entry ? (uint64_t)(product >> 64) : entry >> 32;
}

#endif
