/*
 * sample/draw/uniform.h - which positions of a list to draw.
 *
 *   list [start ........ start+degree)   fanout k   ->   k positions
 *
 *   k < 0, or k >= degree without replacement   every position, in order
 *   with replacement                            k draws
 *   else                                        k distinct (Floyd's algorithm,
 *                                               Bentley, CACM 30(9), 1987)
 *
 * Pure functions of the stream (core/rng.h) and the degree.
 *
 * Caveats: Floyd's algorithm makes all sets of k positions equally likely, not
 * all orders of a set: output i is at most degree - k + i, so the last positions
 * of a list come late. The first few outputs are no fair smaller sample.
 */
#ifndef AE_SAMPLE_DRAW_UNIFORM_H
#define AE_SAMPLE_DRAW_UNIFORM_H

#include <stdbool.h>

#include "os/scratch.h"
#include "topology/topology.h"

/* Return how many positions to draw from a list of `degree` entries; a fanout below 0 takes all. */
static inline uint64_t ae_uniform_count(int64_t fanout, uint64_t degree, bool replace) {
    if (fanout < 0 || degree == 0)
        return degree;
    return replace || (uint64_t)fanout < degree ? (uint64_t)fanout : degree;
}

/* Write every position of a list to `out`. The function may overwrite all `room` entries from out
 * on: it writes whole vectors, so that short lists cost no branches. */
static inline void ae_uniform_all(ae_list list, uint64_t *out, uint64_t room) {
    uint64_t i = 0;
    do {
        if (room - i < 8)
            break;
        for (uint64_t j = 0; j < 8; j++)
            out[i + j] = list.start + i + j;
        i += 8;
    } while (i < list.degree);
    for (; i < list.degree; i++)
        out[i] = list.start + i;
}

/* Draw `count` positions (see ae_uniform_count) of a longer list, or with
 * replacement. `set` is scratch for large counts; the only failure is
 * AETHER_E_NO_MEMORY. */
int ae_uniform_draw(ae_list list, uint64_t count, bool replace, uint64_t stream, ae_scratch *set,
                    uint64_t *out, aether_error *err);

#endif
