/*
 * store/entries.h - how a position becomes bytes of a file, and bytes become ids.
 *
 *   position -> unit (ae_place)           a page of ids
 *            -> pages of the file         ae_entries_pages
 *   runs     -> ids of a span             ae_entries_take
 *
 * Caveats: what a span needs is in the runs, in order of pages.
 */
#ifndef AE_STORE_ENTRIES_H
#define AE_STORE_ENTRIES_H

#include "store/paged.h"

typedef struct ae_pages {
    uint64_t first, last;
} ae_pages;

/* Consecutive pages in memory. */
typedef struct ae_run {
    uint64_t page, count;
    const uint8_t *data;
} ae_run;

/* The pages that a unit lies on. */
static inline ae_pages ae_entries_pages(const ae_paged *p, uint64_t unit) {
    (void)p;
    return (ae_pages){unit, unit};
}

/* Entries of a span into its job; `r` is a run that does not end before its first page.
 * AETHER_E_CORRUPT: an id is too large. */
int ae_entries_take(const ae_paged *p, const ae_fetch *job, const ae_span *span, const ae_run *r,
                    aether_error *err);

#endif
