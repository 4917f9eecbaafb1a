/*
 * store/values.h - a vector of numbers that stays in its file, read in small pieces.
 *
 *   file     [ ... | v v v v v v v v | v v v ... ]     4 or 8 bytes each
 *                    \_ a piece: AE_PIECE_BYTES _/
 *
 * Weights, times and ids that are looked at before anything is drawn: whoever needs some
 * of them asks for their pieces (sample/pieces.h), and all that were asked for are read
 * by one ae_values_read: sorted, near ones together, as the entries of lists are.
 * aether_values_gather reads single items in the same way, each page once, whatever is kept.
 *
 * Pages are kept for both (store/hot_pages.h), if there is memory for them. Ids are entries
 * of lists, and use the pages that those keep.
 *
 * Caveats: the file must not change. Nothing is checked of the numbers.
 */
#ifndef AE_STORE_VALUES_H
#define AE_STORE_VALUES_H

#include "store/paged.h"

#define AE_PIECE_SHIFT 6u
#define AE_PIECE_BYTES (UINT64_C(1) << AE_PIECE_SHIFT)

struct aether_values {
    ae_paged pieces; /* "positions" are numbers of pieces, "ids" their bytes */
    ae_paged items;  /* the same of single items */
    uint64_t count;
    uint32_t shift;    /* a piece holds 1 << shift items */
    ae_hot_pages *own; /* kept pages that are not those of lists, or NULL */
};

/* Jobs of the numbers of pieces, and room for the bytes of each. */
int ae_values_read(const aether_values *v, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                   aether_task *task, aether_error *err);

/* Jobs of the numbers of items, and room for the bytes of each. */
int ae_values_take(const aether_values *v, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                   aether_task *task, aether_error *err);

#endif
