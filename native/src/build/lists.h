/*
 * build/lists.h - from an edge list to compressed lists, and checks of both.
 *
 *   rows      (major, minor)  3,7  0,2  3,1  1,2        input order
 *               |  count, then scatter by the high bits of major
 *   buckets   | 0,2  1,2 | 3,7  3,1 |                   input order within a bucket
 *               |  count, prefix sum and scatter inside each bucket, in cache
 *   lists     indptr 0 1 2 2 4   indices 2 2 7 1   order 1 3 0 2
 *
 * Every step goes through its input in order, and the slices of the input that
 * threads scatter at the same time have their places reserved in input order,
 * so the sort is stable whatever the number of threads.
 *
 * Memory: the output arrays double as the buckets. Beside them one key per
 * edge, 2 bytes (4 if a bucket spans more than 65536 lists), and per thread a
 * copy of the bucket it sorts. Were all edges in one bucket, that copy would
 * be id_bytes + order_bytes per edge; over all threads it never is more.
 *
 * Caveats
 *   - indptr, indices and order are undefined after an error.
 *   - One list is sorted by one thread.
 *   - aether_task counts row visits: every row three times.
 */
#ifndef AE_BUILD_LISTS_H
#define AE_BUILD_LISTS_H

#include "aether/build.h"

/* Buckets and slices into which aether_build_lists cuts its work; depends on sizes only. */
typedef struct ae_build_shape {
    uint32_t shift;     /* bucket = major >> shift */
    uint64_t buckets;   /* at most AE_BUILD_BUCKETS */
    uint64_t slices;    /* of the rows */
    uint64_t slice_len; /* rows per slice, the last one excepted */
} ae_build_shape;

#define AE_BUILD_BUCKETS 1024

/* Choose buckets and slices for num_edges rows of record_bytes on so many threads. */
ae_build_shape ae_build_plan(uint64_t num_edges, uint64_t num_major, uint32_t record_bytes, uint32_t threads);

#endif
