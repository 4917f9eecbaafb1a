/*
 * rows/gather.h - rows by id into the caller's memory; parallel copies.
 *
 *   ids     7      2      7      0   ...          a block of ids is checked and
 *           |      |      |      |                turned into row addresses,
 *   rows  [r0][r1][r2]...[r7]...                  then row i is copied while
 *           v      v      v      v                row i + distance is fetched
 *   out   [r7   ][r2   ][r7   ][r0   ]            into the cache
 *
 * Rows may lie `stride` bytes apart (0 repeats one row) and need not be
 * aligned; ids must be aligned to their size. An id is read once, so a caller
 * that changes ids meanwhile gets other rows but never an access outside.
 *
 * Caveats
 *   - out must not overlap the rows.
 *   - out is undefined after an error; the position reported is the smallest
 *     bad one, whatever the number of threads.
 *   - A prefetch does not fault pages in: a cold mapping is read page by page.
 *   - aether_task counts ids (aether_copy: bytes).
 */
#ifndef AE_ROWS_GATHER_H
#define AE_ROWS_GATHER_H

#include "rows/convert.h"

/* Check the types of a gather; `convert` is NULL where rows are copied as they are. */
int ae_gather_types(uint32_t dtype, uint32_t id_bytes, uint32_t out_dtype, ae_convert_fn *convert,
                    aether_error *err);

/* Check that n rows of row_bytes take exactly out_size bytes. */
int ae_gather_room(uint64_t n, uint64_t row_bytes, uint64_t out_size, aether_error *err);

#endif
