/*
 * sample/draw/value_cache.h - a sample's cache of numbers that stay in a file, in value pages of 64 bytes
 * (topology/paged/values.h).
 *
 *   asked  [ 7  2  900 | 12  40 ]     numbers of value pages, in order of asking
 *   data   [ .. .. ..  |        ]     64 bytes each; the first `read` value pages are there
 *
 * A draw looks up the numbers that it needs. A look-up of a value page that is not there asks for the
 * value page and returns AE_WANTED, and so do its callers, up to the retry loop (sample/draw/retries.h),
 * which reads all value pages that were asked for and calls again. Draws are pure functions of their stream,
 * so a retry costs time and changes nothing.
 *
 * Caveats: AE_WANTED is no error and never leaves the sampler.
 */
#ifndef AE_SAMPLE_DRAW_VALUE_CACHE_H
#define AE_SAMPLE_DRAW_VALUE_CACHE_H

#include <stdbool.h>

#include "sample/relabel/idmap.h"
#include "topology/paged/values.h"

#define AE_WANTED 1

/* Bytes of memory for a value page: its data and number, which grow by doubling, and its slot of the map. */
#define AE_VALUE_PAGE_COST 144u

typedef struct ae_value_cache {
    const aether_values *values; /* NULL: the numbers are in memory or mapped */
    ae_idmap map;                /* page -> place in data */
    ae_scratch asked, data;
    uint64_t count, read;
    uint64_t room; /* value pages that map, asked and data all have room for */
} ae_value_cache;

void ae_value_cache_free(ae_value_cache *c);
uint64_t ae_value_cache_memory(const ae_value_cache *c);
void ae_value_cache_clear(ae_value_cache *c);

/* Find number `at`; *out is valid until the next call of another function. AE_WANTED: its value page
 * was asked for. */
int ae_value_cache_find(ae_value_cache *c, uint64_t at, const void **out, aether_error *err);

/* Ask for n numbers from `at` on. */
int ae_value_cache_ask(ae_value_cache *c, uint64_t at, uint64_t n, aether_error *err);

/* Return how many value pages are still to be read. */
static inline uint64_t ae_value_cache_wanted(const ae_value_cache *c) {
    return c->count - c->read;
}
/* Return the value pages that are still to be read as a job of ae_values_read. */
static inline ae_fetch ae_value_cache_job(const ae_value_cache *c) {
    return (ae_fetch){(const uint64_t *)c->asked.data + c->read, c->count - c->read,
                      (char *)c->data.data + c->read * AE_VALUE_PAGE_BYTES};
}

/* Read the value pages that n samples ask for of one vector of values; `jobs` is scratch for n. */
int ae_value_cache_read(ae_value_cache *const *c, uint32_t n, ae_fetch *jobs, ae_staging *staging,
                        aether_task *task, aether_error *err);

#endif
