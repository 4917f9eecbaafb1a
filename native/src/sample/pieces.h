/*
 * sample/pieces.h - what a sample has of numbers that stay in a file.
 *
 *   asked  [ 7  2  900 | 12  40 ]     numbers of pieces, in order of asking
 *   data   [ .. .. ..  |        ]     64 bytes each; those up to `read` are there
 *
 * Who needs a number looks it up. If its piece is not there it is asked for, and the
 * look-up returns AE_WANTED; so does everything that called it, and is called again
 * when what was asked for has been read. As draws are pure functions of their stream,
 * coming again costs time and changes nothing.
 *
 * Caveats: AE_WANTED is no error and never leaves the sampler.
 */
#ifndef AE_SAMPLE_PIECES_H
#define AE_SAMPLE_PIECES_H

#include <stdbool.h>

#include "sample/idmap.h"
#include "store/values.h"

#define AE_WANTED 1

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

/* Number `at`: in memory until the next call of another function, or AE_WANTED. */
int ae_pieces_find(ae_pieces *p, uint64_t at, const void **out, aether_error *err);

/* Ask for all of n numbers from `at` on. */
int ae_pieces_ask(ae_pieces *p, uint64_t at, uint64_t n, aether_error *err);

/* What is still to be read. */
static inline uint64_t ae_pieces_wanted(const ae_pieces *p) {
    return p->count - p->read;
}
static inline ae_fetch ae_pieces_job(const ae_pieces *p) {
    return (ae_fetch){(const uint64_t *)p->asked.data + p->read, p->count - p->read,
                      (char *)p->data.data + p->read * AE_PIECE_BYTES};
}

/* Read what n samples want of the same values; `jobs` has room for n. */
int ae_pieces_read(ae_pieces *const *p, uint32_t n, ae_fetch *jobs, ae_staging *staging, aether_task *task,
                   aether_error *err);

#endif
