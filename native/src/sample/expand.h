/*
 * sample/expand.h - one hop over one relation, whole: from the frontier to new nodes and edges.
 *
 *   frontier [ 3 4 5 6 ]  --sample/hop.h-->  edges of 3, 4, 5, 6, and their far ends 7, 8, ...
 *
 * Caveats: after an error some edges and nodes may be there already; callers clear the sample.
 */
#ifndef AE_SAMPLE_EXPAND_H
#define AE_SAMPLE_EXPAND_H

#include "sample/state.h"

/* Expand the frontier over relation `r`. Appends edges, and nodes at the far end. */
int ae_sample_expand(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint32_t r,
                     aether_error *err);

#endif
