/*
 * live/sweep.h - stamps of lists that have not changed for long follow the commits.
 *
 *   lists 0   | root | root | root | root | ...          each commit of a pass looks at a few roots, so that
 *   lists 1   | root | root | ...     ^ next             a pass takes Q commits at most (AE_STAMP_REACH)
 *
 *   commit        10Q                                     14Q
 *   root     head | past: history, 2Q   --->   head | past: none, 12Q
 *
 * A root that is older than 2 Q gets the stamp of 2 Q before, and no history: who reads is at Q before or
 * later, so `head` is its version, before and after the store, and nobody needs the versions before. As
 * the next pass comes within 2 Q commits, no stamp gets older than 4 Q.
 *
 * Caveats: the writer's thread, between transactions.
 */
#ifndef AE_LIVE_SWEEP_H
#define AE_LIVE_SWEEP_H

#include "live/writer.h"

typedef struct ae_sweep {
    uint32_t lists;     /* whose roots are passed */
    uint64_t next, end; /* of their roots */
    uint64_t written;   /* roots before lie on pages that were written */
    uint64_t share;     /* roots to pass for each number of a commit; 0: no pass is going on */
    uint64_t last;      /* commit up to which they were */
    uint64_t began;     /* commit at which the last pass began */
    uint64_t looked;    /* commit at which snapshots were looked for that are too old */
} ae_sweep;

/* Begin behind a commit. */
static inline ae_sweep ae_sweep_from(uint64_t commit) {
    return (ae_sweep){.last = commit, .began = commit, .looked = commit};
}

/* Pass the share of a commit, which was just published. */
void ae_sweep_some(ae_sweep *s, ae_writers *all, uint64_t commit);

#endif
