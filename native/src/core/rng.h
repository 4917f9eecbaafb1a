/*
 * core/rng.h - the counter-based generator behind every sample.
 *
 *   key, hop ------> base   (once per hop; typed graphs: and edge type)
 *   base, node ----> stream (once per node; disjoint: and the seed's slot)
 *   stream, i -----> draw i (no state: any draw, in any order, on any thread)
 *
 * The mixer is SplitMix64's finaliser (Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", OOPSLA 2014, with Stafford's variant 13
 * constants); draw i of a stream is the i-th output of SplitMix64 started there.
 *
 * Caveats: part of the samples' contract. Changing a constant changes every
 * sample ever recorded; tests hold golden values. Not for cryptography.
 */
#ifndef AE_CORE_RNG_H
#define AE_CORE_RNG_H

#include <stdint.h>

#define AE_RNG_GAMMA   UINT64_C(0x9E3779B97F4A7C15)
#define AE_RNG_NO_SEED UINT64_MAX

static inline uint64_t ae_rng_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Return the base of a hop. `relation` is the number of the edge type: 0 in a homogeneous graph. */
static inline uint64_t ae_rng_base(uint64_t key, uint32_t hop, uint32_t relation) {
    uint64_t base = ae_rng_mix(ae_rng_mix(key) + ((uint64_t)hop + 1) * AE_RNG_GAMMA);
    return relation ? ae_rng_mix(base + relation * AE_RNG_GAMMA) : base;
}

/* Return the stream of a node. `seed` is AE_RNG_NO_SEED unless the trees of the seeds are disjoint. */
static inline uint64_t ae_rng_stream(uint64_t base, uint64_t node, uint64_t seed) {
    uint64_t s = ae_rng_mix(base + node * AE_RNG_GAMMA);
    return seed == AE_RNG_NO_SEED ? s : ae_rng_mix(s + (seed + 1) * AE_RNG_GAMMA);
}

static inline uint64_t ae_rng_draw(uint64_t stream, uint64_t i) {
    return ae_rng_mix(stream + (i + 1) * AE_RNG_GAMMA);
}

/* Map a uniform x to [0, n): the high half of x * n (Lemire, "Fast random integer
 * generation in an interval", 2019), bias below n / 2^64. */
static inline uint64_t ae_rng_bounded(uint64_t x, uint64_t n) {
    return (uint64_t)(((unsigned __int128)x * n) >> 64);
}

#endif
