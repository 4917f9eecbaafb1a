/*
 * sample/draw/exclusions.h - excluded positions: entries of a list that a sample must not hold.
 *
 *   list   [ a  b  c  d  e  f ]     exclusions at b and d
 *   drawn  [ a     c     e  f ]     as if the list were this; position 1 of it is c
 *
 * The exclusions of one list are a run of the ascending positions that a relation
 * excludes, found by two binary searches.
 *
 * Caveats: positions are distinct.
 */
#ifndef AE_SAMPLE_DRAW_EXCLUSIONS_H
#define AE_SAMPLE_DRAW_EXCLUSIONS_H

#include <stdbool.h>

#include "topology/topology.h"

typedef struct ae_exclusions {
    const uint64_t *positions;
    uint64_t count;
} ae_exclusions;

/* Return how many of n ascending positions are below `bound`. */
static inline uint64_t ae_exclusions_below(const uint64_t *positions, uint64_t n, uint64_t bound) {
    uint64_t low = 0;
    while (n) {
        uint64_t half = n / 2;
        bool right = positions[low + half] < bound;
        low += right ? half + 1 : 0;
        n = right ? n - half - 1 : half;
    }
    return low;
}

/* Return the run of n ascending positions that lies in `list`. */
static inline ae_exclusions ae_exclusions_in(const uint64_t *positions, uint64_t n, ae_list list) {
    if (n == 0)
        return (ae_exclusions){0};
    uint64_t first = ae_exclusions_below(positions, n, list.start);
    uint64_t last = first;
    if (first < n && positions[first] < list.start + list.degree)
        last += ae_exclusions_below(positions + first, n - first, list.start + list.degree);
    return (ae_exclusions){positions + first, last - first};
}

/* Map positions in the list without its exclusions to positions in the list, in place. */
static inline void ae_exclusions_skip(ae_exclusions exclusions, uint64_t *positions, uint64_t n) {
    for (uint64_t i = 0; i < n && exclusions.count; i++) {
        uint64_t low = 0, high = exclusions.count; /* exclusions[j] - j does not fall with j */
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            if (exclusions.positions[middle] - middle <= positions[i])
                low = middle + 1;
            else
                high = middle;
        }
        positions[i] += low;
    }
}

/* Keep of a list the last `most` entries that are not excluded, with what is excluded between them. */
static inline void ae_exclusions_keep_last(ae_list *list, ae_exclusions *exclusions, uint64_t most) {
    const uint64_t size = list->degree - exclusions->count, end = list->start + list->degree;
    uint64_t from = end;
    if (most >= size)
        return;
    if (most) {
        from = list->start + (size - most);
        ae_exclusions_skip(*exclusions, &from, 1);
    }
    *list = (ae_list){from, end - from};
    *exclusions = ae_exclusions_in(exclusions->positions, exclusions->count, *list);
}

#endif
