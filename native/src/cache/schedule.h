/*
 * cache/schedule.h - deciding what a cache keeps when all coming requests are known.
 *
 *   lists of keys       7 2 9 | 2 7 4 | 9 2        asked for one list after the other
 *   steps, 2 frames     K P K | P F P | F P        F: found in a frame, K: read and kept,
 *                                                  P: read and passed on
 *
 * The keys of a list are asked for at once: found frames are copied before any key is kept. Among
 * the keys in frames and the keys just read, those that are used again soonest stay. This reads the
 * fewest keys (Belady, "A study of replacement algorithms for a virtual-storage computer", IBM
 * Systems Journal 5(2), 1966, with bypassing). Keys that are not used again leave first. Among
 * these, keys that were never found go before keys that were, which the next schedule may need;
 * then the oldest go.
 *
 * A frame waits in the queue of the list that uses it next:
 *
 *   waiting   [list 1: 5 -> 0] [list 2: 3] ... [none, found: 4 -> 1] [none: 2]   the last queue goes first
 *
 * Caveats: a key several times in a list is read once, and all its positions have the same step.
 */
#ifndef AE_CACHE_SCHEDULE_H
#define AE_CACHE_SCHEDULE_H

#include "cache/loan.h"

#define AE_CACHE_POSITIONS ((UINT64_C(1) << 29) - 1) /* and frames, at most */

enum { AE_STEP_FOUND, AE_STEP_KEPT, AE_STEP_PASSED, AE_STEP_OPEN, AE_STEP_AGAIN };

typedef struct ae_cache_step {
    uint32_t what : 3;   /* AE_STEP_FOUND, _KEPT or _PASSED; the others while steps are made */
    uint32_t value : 29; /* the frame of FOUND and KEPT */
} ae_cache_step;

typedef struct ae_cache_wishes {
    const uint64_t *sorted; /* key << shift | position, for every position, ascending */
    uint64_t num_positions;
    unsigned shift;
    const uint64_t *ends; /* list i ends before position ends[i], which does not descend */
    uint64_t num_lists;
} ae_cache_wishes;

/* Decide a step for each position. num_read gets the keys that are read, once for each list that
 * does not find them. AETHER_E_LIMIT: more than AE_CACHE_POSITIONS positions or frames. */
int ae_cache_schedule(const ae_cache_loan *loan, const ae_cache_wishes *wishes, ae_cache_step *steps,
                      uint64_t *num_read, aether_error *err);

#endif
