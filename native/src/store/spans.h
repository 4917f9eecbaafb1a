/*
 * store/spans.h - positions of many lists, grouped by where they lie in a file.
 *
 *   job 0  positions [ 900 901 907 | 12 15 | 90000 ]        as they were planned
 *   job 1  positions [ 903 | 14 ]
 *
 *   spans  { page 0, job 0, at 3, 2 }  { page 0, job 1, at 1, 1 }      sorted by page
 *          { page 7, job 0, at 0, 3 }  { page 7, job 1, at 0, 1 }  ...
 *
 * A span is a run of consecutive entries of a job's positions within AE_SPAN_PAGES
 * pages. The entries of a short list make one span, those of a hub several.
 *
 * Caveats: a job has fewer than 2^40 positions, a call fewer than 2^12 jobs.
 */
#ifndef AE_STORE_SPANS_H
#define AE_STORE_SPANS_H

#include "os/scratch.h"
#include "store/topology.h"

#define AE_PAGE_BITS  12
#define AE_SPAN_PAGES 16u
#define AE_SPAN_MAX   2047u /* entries */
#define AE_SPAN_JOBS  4096u

typedef struct ae_span {
    uint64_t page; /* the first that it needs */
    uint64_t job : 12, count : 12, at : 40;
} ae_span;

/* Position p lies at byte `base` + p << shift of the file. */
typedef struct ae_place {
    uint64_t base;
    uint32_t shift;
} ae_place;

static inline uint64_t ae_place_byte(ae_place place, uint64_t position) {
    return place.base + (position << place.shift);
}
static inline uint64_t ae_place_page(ae_place place, uint64_t position) {
    return ae_place_byte(place, position) >> AE_PAGE_BITS;
}

/* All spans of n jobs, sorted by page, in `out`. */
int ae_spans_make(const ae_fetch *jobs, uint32_t n, ae_place place, ae_scratch *out, uint64_t *count,
                  aether_error *err);

#endif
