/*
 * sample/draw/reservoir.h - draws a few of many items by weight, without replacement.
 *
 *   item i, weight w_i   ->   key -log(u_i) / w_i   ->   the `capacity` smallest keys
 *
 *   heap [ largest | ... ]    a binary heap, so that most items cost one comparison
 *
 * The kept items, by ascending key, are distributed as draws without replacement
 * one after the other, each in proportion to the weights of what is left
 * (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", IPL 97,
 * 2006).
 *
 * Caveats: weights are above 0 and `capacity` is at least 1; the heap's memory is
 * the caller's. In the heap items have no order: sort them.
 */
#ifndef AE_SAMPLE_DRAW_RESERVOIR_H
#define AE_SAMPLE_DRAW_RESERVOIR_H

#include <stdint.h>

typedef struct ae_candidate {
    double key;
    uint64_t item;
} ae_candidate;

typedef struct ae_reservoir {
    ae_candidate *heap;
    uint64_t count, capacity;
} ae_reservoir;

/* Put an item into the heap if its key is small enough: the slow half of ae_reservoir_offer. */
void ae_reservoir_put(ae_reservoir *r, double weight, double u, uint64_t item);

/* Offer an item; `draw` is uniform over 64 bits. 1 - u is below -log(u), so the first comparison
 * spares nearly all items the logarithm. */
static inline void ae_reservoir_offer(ae_reservoir *r, double weight, uint64_t draw, uint64_t item) {
    double u = ((double)(draw >> 11) + 0.5) * 0x1p-53;
    if (r->count < r->capacity || (1 - u) / weight < r->heap[0].key)
        ae_reservoir_put(r, weight, u, item);
}

void ae_reservoir_sort_by_item(ae_reservoir *r);
void ae_reservoir_sort_by_key(ae_reservoir *r); /* equal keys by item */

#endif
