/*
 * sample/weighted.h - which positions of a list to draw, by weight.
 *
 *   with replacement      k draws of the inverse of the cumulative weights
 *   without replacement   position i gets the key -log(u_i) / w_i; the k smallest
 *                         keys win (Efraimidis and Spirakis, "Weighted random
 *                         sampling with a reservoir", IPL 97, 2006): the same
 *                         distribution as k draws one after the other
 *
 * u_i is draw i of the node's stream, i counted from the list's start, so that a
 * sample is a pure function here as well. Chosen positions come in list order
 * (with replacement: in the order of the draws).
 *
 * A weight that is not above 0 is never drawn, not even when that leaves fewer
 * than k, or when all are asked for.
 *
 * Caveats: reads every weight of the list. A weight that is negative, infinite or
 * NaN is AETHER_E_INVALID when a list with it is sampled.
 */
#ifndef AE_SAMPLE_WEIGHTED_H
#define AE_SAMPLE_WEIGHTED_H

#include <stdbool.h>

#include "sample/holes.h"
#include "sample/scratch.h"
#include "store/topology.h"

typedef struct ae_weights {
    const void *values; /* by edge id; NULL: unweighted */
    bool is_double;
} ae_weights;

/* Entries of `list` that can be drawn: those that weigh something and are no hole. */
int ae_weights_count(const ae_weights *weights, const aether_topology *t, ae_list list, ae_holes holes,
                     uint64_t *count, aether_error *err);

/* `count` positions (see ae_plan_count, with `drawable` as the degree). */
int ae_weights_draw(const ae_weights *weights, const aether_topology *t, ae_list list, ae_holes holes,
                    uint64_t drawable, uint64_t count, bool replace, uint64_t stream, ae_scratch *scratch,
                    uint64_t *out, aether_error *err);

#endif
