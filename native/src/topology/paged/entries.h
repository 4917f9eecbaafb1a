/*
 * topology/paged/entries.h - how a position becomes bytes of a file, and bytes become ids.
 *
 *                    plain            compressed
 *   position      -> page             block                   ae_place
 *            unit -> that page        the pages it lies on    ae_entries_pages
 *   runs          -> ids as they are  ids decoded             ae_entries_take
 *
 * Blocks lie one after the other, whatever page begins between or inside them. A few blocks stay
 * open from span to span: neighbouring lists share blocks, and the positions of one list go to and
 * fro between its blocks.
 *
 * Caveats: the pages of a span must be in the runs, in order of pages. An open block is a view of
 * its runs.
 */
#ifndef AE_TOPOLOGY_PAGED_ENTRIES_H
#define AE_TOPOLOGY_PAGED_ENTRIES_H

#include "topology/blocks.h"
#include "topology/paged/paged.h"

#define AE_OPEN_BLOCKS 4u

typedef struct ae_pages {
    uint64_t first, last;
} ae_pages;

/* Bytes [begin, end) of the file. */
typedef struct ae_bytes {
    uint64_t begin, end;
} ae_bytes;

/* Consecutive pages in memory. */
typedef struct ae_run {
    uint64_t page, count;
    const uint8_t *data;
} ae_run;

typedef struct ae_open_block {
    uint64_t number; /* of the block, plus 1; 0: none */
    ae_block block;
    uint8_t bytes[AE_BLOCK_MAX(8) + sizeof(uint64_t)]; /* copy of a block that lies in two runs */
} ae_open_block;

/* Blocks that were opened last. All zeros at first, and again whenever the runs change. */
typedef struct ae_open_blocks {
    ae_open_block of[AE_OPEN_BLOCKS];
} ae_open_blocks;

static inline void ae_entries_close(ae_open_blocks *open) {
    for (uint32_t i = 0; i < AE_OPEN_BLOCKS; i++)
        open->of[i].number = 0;
}

/* Return the bytes of the file that hold a block. */
ae_bytes ae_entries_block_bytes(const ae_paged *p, uint64_t block);

/* Return the bytes of the file to read for a position: its entry, or the block that it is in. */
static inline ae_bytes ae_entries_bytes(const ae_paged *p, uint64_t position) {
    if (p->blocks)
        return ae_entries_block_bytes(p, position / AE_BLOCK);
    const uint64_t begin = ae_place_byte(p->place, position);
    return (ae_bytes){begin, begin + (UINT64_C(1) << p->place.shift)};
}

/* Return whether two positions lie in one block. */
static inline bool ae_entries_together(const ae_paged *p, uint64_t a, uint64_t b) {
    return p->blocks && a / AE_BLOCK == b / AE_BLOCK;
}

/* Return the pages that a unit lies on. */
static inline ae_pages ae_entries_pages(const ae_paged *p, uint64_t unit) {
    if (!p->blocks)
        return (ae_pages){unit, unit};
    const ae_bytes bytes = ae_entries_block_bytes(p, unit);
    return (ae_pages){bytes.begin >> AE_PAGE_BITS, (bytes.end - 1) >> AE_PAGE_BITS};
}

/* Copy the entries of a span to its job; `r` is a run that does not end before the span's first
 * page. AETHER_E_CORRUPT: an id is too large, or in a damaged block. */
int ae_entries_take(const ae_paged *p, const ae_fetch *job, const ae_span *span, const ae_run *r,
                    ae_open_blocks *open, aether_error *err);
/* Do the work of ae_entries_take for compressed ids. */
int ae_entries_take_blocks(const ae_paged *p, const ae_fetch *job, const ae_span *span, const ae_run *r,
                           ae_open_blocks *open, aether_error *err);

/* Read the index of `positions` compressed ids, at byte `offset` of a file: where each block
 * begins, and where the last one ends, which is `size`. AETHER_E_CORRUPT: a block is empty or
 * longer than any block can be. An index that is accepted stays within the section. */
int ae_entries_read_index(aether_io *io, uint64_t offset, uint64_t positions, uint64_t size,
                          uint32_t id_bytes, ae_offsets **out, aether_error *err);

#endif
