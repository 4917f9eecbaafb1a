/*
 * topology/paged/paged.h - adjacency lists whose entries stay in their file.
 *
 *   RAM    offsets (topology/paged/offsets.h)     hot pages (topology/paged/hot_pages.h)
 *            | locate                      |
 *   file   [ indptr ]  [ indices: page | page | page | ... ]
 *                             \_ io: sorted, merged, several windows in flight _/
 *
 * All ops of a topology work. `fetch` reads the pages of a few hundred positions and waits; where
 * the positions are near each other it uses a mapping of the file, if there is one. `fetch_many`
 * is the way to read a lot: the positions of a whole hop, of many samples at once, in the order of
 * the file, each page once.
 *
 *   spans    sorted by page (topology/paged/spans.h)
 *   windows  [ reading ][ reading ][ reading ][ taken apart ]    topology/paged/windows.h
 *   entries  ids taken from the pages that were read (topology/paged/entries.h)
 *
 * Compressed ids (topology/blocks.h) are read the same way, block by block instead of page by page. The
 * index of blocks is in RAM as well, as offsets.
 *
 * Caveats: edge ids other than positions are in memory or mapped. The file must not
 * change; an id that is too large is AETHER_E_CORRUPT when it is read.
 */
#ifndef AE_TOPOLOGY_PAGED_PAGED_H
#define AE_TOPOLOGY_PAGED_PAGED_H

#include <stdbool.h>

#include "topology/arrays.h"
#include "topology/paged/hot_pages.h"
#include "topology/paged/offsets.h"
#include "topology/paged/spans.h"
#include "topology/staging.h"

typedef struct ae_paged {
    ae_arrays arrays; /* indptr NULL; indices or blocks where they are mapped as well */
    aether_io *io;    /* borrowed */
    ae_offsets *offsets;
    ae_place place;
    ae_offsets *blocks; /* where each block of compressed ids begins; NULL: ids are plain */
    uint64_t blocks_at; /* byte of the first block in the file */
    ae_hot_pages *hot;  /* page cache, or NULL */
    bool are_numbers;   /* entries are no ids, and may be anything (topology/paged/values.h) */
} ae_paged;

/* Return `t` as a paged topology, or NULL if it is of another kind. */
const ae_paged *ae_paged_of(const aether_topology *t);

#endif
