/*
 * sample/walk/walk.h - the draws of random walks, and node2vec's rule.
 *
 *   key ---> walk (its number)  ---> step ---> draws of that step
 *            stream                  x         draw 0 is x itself
 *
 *   attempt a of a step   draw 2a: which neighbour    draw 2a + 1: taken or not
 *   restart               draw AE_WALK_RESTART
 *   no attempt succeeds   draw AE_WALK_EXACT
 *
 * node2vec (Grover and Leskovec, KDD 2016): after t -> v, a neighbour x of v is
 * drawn in proportion to its weight times
 *
 *   1/p if x is t        1 if there is an edge t -> x        1/q otherwise
 *
 * by rejection: a first-order draw is taken with that factor over the largest of
 * the three. Mostly the coin decides alone, without looking for the edge.
 *
 * Caveats: part of the walks' contract, as core/rng.h is. Factors are integers,
 * so that walks are the same on every platform.
 */
#ifndef AE_SAMPLE_WALK_WALK_H
#define AE_SAMPLE_WALK_WALK_H

#include <math.h>
#include <stdbool.h>

#include "core/rng.h"

#define AE_WALK_HOP      UINT32_MAX /* no sampler's hop: walks and samples of one key are unrelated */
#define AE_WALK_RESTART  UINT64_MAX
#define AE_WALK_EXACT    (UINT64_MAX - 1)
#define AE_WALK_ATTEMPTS 32 /* and as many as there are neighbours; then all of them are weighed */

static inline uint64_t ae_walk_draw(uint64_t step, uint64_t i) {
    return i == 0 ? step : ae_rng_draw(step, i);
}

/* Return a share (0 to 1) in units of 2^-53; a positive share is at least one unit. A coin, the
 * top 53 bits of a draw, is below it with the chance `share`. */
static inline uint64_t ae_walk_share(double share) {
    return (uint64_t)ceil(share * 0x1p53);
}

static inline uint64_t ae_walk_coin(uint64_t x) {
    return x >> 11;
}

/* Chances to accept a proposal in node2vec's three cases; `near` and `far` are equal if q is 1. */
typedef struct ae_walk_rule {
    bool first_order;
    uint64_t back, near, far;
} ae_walk_rule;

static inline ae_walk_rule ae_walk_make_rule(double p, double q) {
    double back = 1 / p, far = 1 / q, most = back > 1 ? back : 1;
    most = far > most ? far : most;
    return (ae_walk_rule){p == 1 && q == 1, ae_walk_share(back / most), ae_walk_share(1 / most),
                          ae_walk_share(far / most)};
}

#endif
