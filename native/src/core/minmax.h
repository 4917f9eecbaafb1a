/*
 * core/minmax.h - smaller and larger of two numbers, and the smallest that
 * several threads find.
 *
 *   least = UINT64_MAX     worker 0: ae_lower(&least, 70)
 *                          worker 1: ae_lower(&least, 12)   ->  least = 12
 *
 * Parallel checks report the first bad position this way, whichever thread came
 * upon one first.
 *
 * Caveats: read `least` after the pool's run; during it the value may still fall.
 */
#ifndef AE_CORE_MINMAX_H
#define AE_CORE_MINMAX_H

#include <stdatomic.h>
#include <stdint.h>

static inline uint64_t ae_min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t ae_max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Lower `least` to `value`, unless it is as low already. */
static inline void ae_lower(atomic_ullong *least, uint64_t value) {
    unsigned long long seen = atomic_load_explicit(least, memory_order_relaxed);
    while (value < seen && !atomic_compare_exchange_weak(least, &seen, value))
        ;
}

#endif
