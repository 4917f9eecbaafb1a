/*
 * sample/induced.h - all edges among the nodes of a sample.
 *
 *   sampled  0 1 2 3     edges  0-1  0-3  2-3  2-9      ->   0-1  0-3  2-3
 *
 * Caveats: the edges that were drawn before are dropped; nodes and their local ids stay.
 */
#ifndef AE_SAMPLE_INDUCED_H
#define AE_SAMPLE_INDUCED_H

#include "sample/state.h"

/* Replace the edges by all edges among the sampled nodes, on one thread. */
int ae_sample_induced(aether_sampler *s, aether_error *err);

#endif
