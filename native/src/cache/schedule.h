/*
 * cache/schedule.h - what a cache keeps when all that will be asked for is known.
 *
 *   lists of keys       7 2 9 | 2 7 4 | 9 2        asked for one list after the other
 *   steps, 2 frames     K P K | P F P | F P        found in the frame, kept there, passed on
 *
 * A list's keys are asked for at once: what is found is copied before anything is kept. Of
 * what is there and what was read stays what is used again soonest, which makes the fewest keys
 * be read (Belady, "A study of replacement algorithms for a virtual-storage computer", IBM
 * Systems Journal 5(2), 1966, with bypassing). What is not used again is let go first; of that
 * what was never found goes before what was, which the next schedule may need, and then the oldest.
 *
 * A frame waits in the queue of the list that uses it next:
 *
 *   waiting   [list 1: 5 -> 0] [list 2: 3] ... [none, found: 4 -> 1] [none: 2]   the last ones go first
 *
 * Caveats: a key several times in a list is read once, and all its positions have the same step.
 */
#ifndef AE_CACHE_SCHEDULE_H
#define AE_CACHE_SCHEDULE_H

#include "cache/loan.h"

#define AE_CACHE_POSITIONS ((UINT64_C(1) << 29) - 1) /* and frames, at most */

enum { AE_STEP_FOUND, AE_STEP_KEPT, AE_STEP_PASSED, AE_STEP_OPEN, AE_STEP_AGAIN };

typedef struct ae_cache_step {
    uint32_t what : 3;   /* AE_STEP_FOUND, _KEPT or _PASSED; the others while it is made */
    uint32_t value : 29; /* the frame of FOUND and KEPT */
} ae_cache_step;

typedef struct ae_cache_wishes {
    const uint64_t *sorted; /* key << shift | position, for every position, ascending */
    uint64_t num_positions;
    unsigned shift;
    const uint64_t *ends; /* list i ends before position ends[i], which does not descend */
    uint64_t num_lists;
} ae_cache_wishes;

/* steps: one for each position; num_read: keys that are read, once for each list that does not find them.
 * AETHER_E_LIMIT: more than AE_CACHE_POSITIONS of something. */
int ae_cache_schedule(const ae_cache_loan *loan, const ae_cache_wishes *wishes, ae_cache_step *steps,
                      uint64_t *num_read, aether_error *err);

#endif
