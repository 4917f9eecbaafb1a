/*
 * sample/draw/pieces.h - a sample's cache of numbers that stay in a file, in value pages of 64 bytes
 * ("pieces", topology/paged/values.h).
 *
 *   asked  [ 7  2  900 | 12  40 ]     numbers of pieces, in order of asking
 *   data   [ .. .. ..  |        ]     64 bytes each; the first `read` pieces are there
 *
 * A draw looks up the numbers that it needs. A look-up of a piece that is not there asks for the
 * piece and returns AE_WANTED, and so do its callers, up to the retry loop (sample/draw/turns.h), which
 * reads all pieces that were asked for and calls again. Draws are pure functions of their stream,
 * so a retry costs time and changes nothing.
 *
 * Caveats: AE_WANTED is no error and never leaves the sampler.
 */
#ifndef AE_SAMPLE_DRAW_PIECES_H
#define AE_SAMPLE_DRAW_PIECES_H

#include <stdbool.h>

#include "sample/relabel/idmap.h"
#include "topology/paged/values.h"

#define AE_WANTED 1

/* Bytes of memory for a piece: its data and number, which grow by doubling, and its slot of the map. */
#define AE_PIECE_COST 144u

typedef struct ae_pieces {
    const aether_values *values; /* NULL: the numbers are in memory or mapped */
    ae_idmap map;                /* piece -> place in data */
    ae_scratch asked, data;
    uint64_t count, read;
    uint64_t room; /* pieces that map, asked and data all have room for */
} ae_pieces;

void ae_pieces_free(ae_pieces *p);
uint64_t ae_pieces_memory(const ae_pieces *p);
void ae_pieces_clear(ae_pieces *p);

/* Find number `at`; *out is valid until the next call of another function. AE_WANTED: its piece
 * was asked for. */
int ae_pieces_find(ae_pieces *p, uint64_t at, const void **out, aether_error *err);

/* Ask for n numbers from `at` on. */
int ae_pieces_ask(ae_pieces *p, uint64_t at, uint64_t n, aether_error *err);

/* Return how many pieces are still to be read. */
static inline uint64_t ae_pieces_wanted(const ae_pieces *p) {
    return p->count - p->read;
}
/* Return the pieces that are still to be read as a job of ae_values_read. */
static inline ae_fetch ae_pieces_job(const ae_pieces *p) {
    return (ae_fetch){(const uint64_t *)p->asked.data + p->read, p->count - p->read,
                      (char *)p->data.data + p->read * AE_PIECE_BYTES};
}

/* Read the pieces that n samples ask for of one vector of values; `jobs` is scratch for n. */
int ae_pieces_read(ae_pieces *const *p, uint32_t n, ae_fetch *jobs, ae_staging *staging, aether_task *task,
                   aether_error *err);

#endif
