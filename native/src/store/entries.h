/*
 * store/entries.h - how a position becomes bytes of a file, and bytes become ids.
 *
 *                    plain            compressed
 *   position      -> page             block                   ae_place
 *            unit -> that page        the pages it lies on    ae_entries_pages
 *   runs          -> ids as they are  ids decoded             ae_entries_take
 *
 * Blocks lie one after the other, whatever page begins between or inside them. A few stay
 * open from span to span: lists next to each other share blocks, and the positions of a
 * list go to and fro between its own.
 *
 * Caveats: what a span needs is in the runs, in order of pages. An open block is a view of its runs.
 */
#ifndef AE_STORE_ENTRIES_H
#define AE_STORE_ENTRIES_H

#include "store/blocks.h"
#include "store/paged.h"

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
    uint64_t number; /* plus 1; 0: none */
    ae_block block;
    uint8_t bytes[AE_BLOCK_MAX(8) + sizeof(uint64_t)]; /* of one that lies in two runs */
} ae_open_block;

/* Zero at first, and whenever the runs are others. */
typedef struct ae_open_blocks {
    ae_open_block of[AE_OPEN_BLOCKS];
} ae_open_blocks;

static inline void ae_entries_close(ae_open_blocks *open) {
    for (uint32_t i = 0; i < AE_OPEN_BLOCKS; i++)
        open->of[i].number = 0;
}

ae_bytes ae_entries_block_bytes(const ae_paged *p, uint64_t block);

/* What is read for a position: its entry, or the block that it is in. */
static inline ae_bytes ae_entries_bytes(const ae_paged *p, uint64_t position) {
    if (p->blocks)
        return ae_entries_block_bytes(p, position / AE_BLOCK);
    const uint64_t begin = ae_place_byte(p->place, position);
    return (ae_bytes){begin, begin + (UINT64_C(1) << p->place.shift)};
}

/* Whether two positions need the same bytes. */
static inline bool ae_entries_together(const ae_paged *p, uint64_t a, uint64_t b) {
    return p->blocks && a / AE_BLOCK == b / AE_BLOCK;
}

/* The pages that a unit lies on. */
static inline ae_pages ae_entries_pages(const ae_paged *p, uint64_t unit) {
    if (!p->blocks)
        return (ae_pages){unit, unit};
    const ae_bytes bytes = ae_entries_block_bytes(p, unit);
    return (ae_pages){bytes.begin >> AE_PAGE_BITS, (bytes.end - 1) >> AE_PAGE_BITS};
}

/* Entries of a span into its job; `r` is a run that does not end before its first page.
 * AETHER_E_CORRUPT: an id is too large, or in a damaged block. */
int ae_entries_take(const ae_paged *p, const ae_fetch *job, const ae_span *span, const ae_run *r,
                    ae_open_blocks *open, aether_error *err);
int ae_entries_take_blocks(const ae_paged *p, const ae_fetch *job, const ae_span *span, const ae_run *r,
                           ae_open_blocks *open, aether_error *err);

/* The index of `positions` compressed ids, at byte `offset` of a file: where each block begins,
 * and where the last one ends, which is `size`. AETHER_E_CORRUPT: a block is longer than any
 * can be, or empty, so that what is accepted lies in the section. */
int ae_entries_read_index(aether_io *io, uint64_t offset, uint64_t positions, uint64_t size,
                          uint32_t id_bytes, ae_offsets **out, aether_error *err);

#endif
