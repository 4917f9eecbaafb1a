/*
 * topology/paged/values.h - a vector of numbers that stays in its file, read by value pages.
 *
 *   file     [ ... | v v v v v v v v | v v v ... ]     4 or 8 bytes each
 *                    \_ a value page: AE_VALUE_PAGE_BYTES _/
 *
 * Weights, times and ids are looked at before anything is drawn. A draw that needs some of them
 * asks for their value pages (sample/draw/value_cache.h), and one ae_values_read reads all value pages that
 * were asked for: sorted, near ones together, as the entries of lists are read. aether_values_gather reads
 * single items this way, each page once.
 *
 * Both use the page cache of the values (topology/paged/hot_pages.h), if there is memory for one. Values
 * that are the ids of lists use the page cache of their topology.
 *
 * Caveats: the file must not change. Nothing is checked of the numbers.
 */
#ifndef AE_TOPOLOGY_PAGED_VALUES_H
#define AE_TOPOLOGY_PAGED_VALUES_H

#include "topology/paged/paged.h"

#define AE_VALUE_PAGE_SHIFT 6u
#define AE_VALUE_PAGE_BYTES (UINT64_C(1) << AE_VALUE_PAGE_SHIFT)

struct aether_values {
    ae_paged pages; /* "positions" are numbers of value pages, "ids" their bytes */
    ae_paged items; /* "positions" are numbers of items, "ids" their bytes */
    uint64_t count;
    uint32_t shift;    /* a value page holds 1 << shift items */
    ae_hot_pages *own; /* page cache of these values alone, or NULL */
};

/* Read the value pages of n jobs: numbers of value pages, and room for AE_VALUE_PAGE_BYTES of each. */
int ae_values_read(const aether_values *v, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                   aether_task *task, aether_error *err);

/* Read the items of n jobs: numbers of items, and room for the bytes of each. */
int ae_values_take(const aether_values *v, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                   aether_task *task, aether_error *err);

#endif
