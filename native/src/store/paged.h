/*
 * store/paged.h - adjacency lists whose entries stay in their file.
 *
 *   RAM    offsets (store/offsets.h)     hot pages (store/hot_pages.h)
 *            | locate                      |
 *   file   [ indptr ]  [ indices: page | page | page | ... ]
 *                             \_ io: sorted, merged, several windows in flight _/
 *
 * All ops of a topology work. `fetch` reads the pages of a few hundred positions and waits; where
 * the positions are near each other it uses a mapping of the file, if there is one. `fetch_many`
 * is the way to read a lot: the positions of a whole hop, of many samples at once, in the order of
 * the file, each page once.
 *
 *   spans    sorted by page (store/spans.h)
 *   windows  [ reading ][ reading ][ reading ][ taken apart ]    store/windows.h
 *   entries  ids taken from the pages that were read (store/entries.h)
 *
 * Compressed ids (store/blocks.h) are read the same way, block by block instead of page by page. The
 * index of blocks is in RAM as well, as offsets.
 *
 * Caveats: edge ids other than positions are in memory or mapped. The file must not
 * change; an id that is too large is AETHER_E_CORRUPT when it is read.
 */
#ifndef AE_STORE_PAGED_H
#define AE_STORE_PAGED_H

#include <stdbool.h>

#include "store/arrays.h"
#include "store/hot_pages.h"
#include "store/offsets.h"
#include "store/spans.h"
#include "store/staging.h"

typedef struct ae_paged {
    ae_arrays arrays; /* indptr NULL; indices or blocks where they are mapped as well */
    aether_io *io;    /* borrowed */
    ae_offsets *offsets;
    ae_place place;
    ae_offsets *blocks; /* where each block of compressed ids begins; NULL: ids are plain */
    uint64_t blocks_at; /* byte of the first block in the file */
    ae_hot_pages *hot;  /* page cache, or NULL */
    bool are_numbers;   /* entries are no ids, and may be anything (store/values.h) */
} ae_paged;

/* Return `t` as a paged topology, or NULL if it is of another kind. */
const ae_paged *ae_paged_of(const aether_topology *t);

#endif
