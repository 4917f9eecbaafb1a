/*
 * sample/walk/node2vec.h - node2vec's rule, over all pending walks of a block (see sample/walk/walk.h).
 *
 *   pending   walker   3    5      9       proposals      7  2  4
 *             settle   take reject take    still pending  5
 *
 * Caveats: p->id is overwritten; the nodes that were taken are in l->next.
 */
#ifndef AE_SAMPLE_WALK_NODE2VEC_H
#define AE_SAMPLE_WALK_NODE2VEC_H

#include "sample/walk/walkers.h"

/* Accept or reject the proposals (p->id) of the pending walkers, by node2vec's rule. Rejected walkers
 * stay pending, unless their attempts are used up. */
int ae_node2vec_settle(const ae_walks *w, ae_walkers *l, uint64_t attempt, ae_pending *p, aether_error *err);

#endif
