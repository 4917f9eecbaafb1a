/*
 * topology/paged/spans.h - positions of many lists, grouped by where they lie in a file.
 *
 *   job 0  positions [ 900 901 907 | 12 15 | 90000 ]        as they were planned
 *   job 1  positions [ 903 | 14 ]
 *
 *   spans  { unit 0, job 0, at 3, 2 }  { unit 0, job 1, at 1, 1 }      sorted by unit
 *          { unit 7, job 0, at 0, 3 }  { unit 7, job 1, at 0, 1 }  ...
 *
 * A unit is a page, or a block of compressed ids (topology/paged/entries.h). A span is a run of
 * consecutive entries of a job's positions within AE_SPAN_UNITS units. The entries of a
 * short list make one span, those of a hub several.
 *
 * Caveats: a job has fewer than 2^40 positions, a call fewer than 2^12 jobs.
 */
#ifndef AE_TOPOLOGY_PAGED_SPANS_H
#define AE_TOPOLOGY_PAGED_SPANS_H

#include <stdbool.h>

#include "os/scratch.h"
#include "topology/topology.h"

#define AE_PAGE_BITS  12
#define AE_SPAN_UNITS 16u
#define AE_SPAN_MAX   2047u /* entries */
#define AE_SPAN_JOBS  4096u

typedef struct ae_span {
    uint64_t unit; /* the first unit that the span needs */
    uint64_t job : 12, count : 12, at : 40;
} ae_span;

/* Position p is in unit (base + (p << shift)) >> bits. */
typedef struct ae_place {
    uint64_t base;
    uint32_t shift, bits;
    bool narrow; /* spans lie within one unit each, so that no page is needed by two windows */
} ae_place;

static inline uint64_t ae_place_byte(ae_place place, uint64_t position) {
    return place.base + (position << place.shift);
}

static inline uint64_t ae_place_unit(ae_place place, uint64_t position) {
    return ae_place_byte(place, position) >> place.bits;
}

/* Return how many of a job's positions, from the first on, make at most `most` spans; at least 1. */
uint64_t ae_spans_within(const ae_fetch *job, ae_place place, uint64_t most);

/* Write all spans of n jobs, sorted by unit, to `out`. */
int ae_spans_make(const ae_fetch *jobs, uint32_t n, ae_place place, ae_scratch *out, uint64_t *count,
                  aether_task *task, aether_error *err);

#endif
