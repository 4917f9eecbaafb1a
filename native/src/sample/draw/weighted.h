/*
 * sample/draw/weighted.h - which positions of a list to draw, by weight.
 *
 *   with replacement      k draws of the inverse of the cumulative weights
 *   without replacement   position i gets the key -log(u_i) / w_i; the k smallest
 *                         keys win (Efraimidis and Spirakis, "Weighted random
 *                         sampling with a reservoir", IPL 97, 2006): the same
 *                         distribution as k draws one after the other
 *   few of a long list    where there are sums, or the topology has the weights itself:
 *                         draws of the inverse of the cumulative weights of
 *                         sample/draw/weight_sums.h; entries that are excluded, or were drawn
 *                         before without replacement, are refused. After 4 k + 16 draws
 *                         one of the two ways above draws the rest, from what is left.
 *
 * u_i is draw i of the node's stream, i counted from the list's start (after the draws
 * of a long list), so that a sample is a pure function here as well. Chosen positions
 * come in list order (with replacement: in the order of the draws).
 *
 * A weight that is not above 0 is never drawn, not even when that leaves fewer
 * than k, or when all are asked for.
 *
 * So a topology with weights of its own draws what the same edges draw in arrays with sums.
 *
 * Caveats: reads every weight of the list, except of a long list with sums, in a table or the topology's. A
 * weight that is negative, infinite or NaN is AETHER_E_INVALID when it is read.
 */
#ifndef AE_SAMPLE_DRAW_WEIGHTED_H
#define AE_SAMPLE_DRAW_WEIGHTED_H

#include "os/scratch.h"
#include "sample/draw/weights.h"

/* A list, and the part of it that may be drawn. */
typedef struct ae_weighted_list {
    const ae_weights *weights;
    const aether_topology *t;
    ae_list whole, list;      /* `list` is a part of it */
    ae_exclusions exclusions; /* in `list` */
} ae_weighted_list;

/* Prefetch the first weights that counting and drawing will read. */
void ae_weighted_prefetch(const ae_weighted_list *l);

/* Count the entries that can be drawn: weight above 0, not excluded. May be AE_WANTED. */
int ae_weighted_count(const ae_weighted_list *l, uint64_t *count, aether_error *err);

/* Draw `count` positions (see ae_uniform_count, with `drawable` as the degree) into `out`. The
 * function may overwrite all `room` entries from out on. May be AE_WANTED. */
int ae_weighted_draw(const ae_weighted_list *l, uint64_t drawable, uint64_t count, bool replace,
                     uint64_t stream, ae_scratch *scratch, uint64_t *out, uint64_t room, aether_error *err);

#endif
