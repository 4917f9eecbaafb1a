/*
 * live/stamp.h - the commit of a version in 32 bits, beside a reference in one word.
 *
 *   commit   64 bits                  ...  4294967294   4294967295   4294967297  ...
 *   stamp    its last 32 bits         ...    fffffffe     ffffffff            1  ...      0 is no stamp
 *
 *   What the stamps that a reader meets can be of, by commits from its own; Q is AE_STAMP_REACH:
 *
 *     -8Q           -5Q                    0        Q                8Q
 *      |- - never - -|-- what it is shown --|- later -|- - - never - - -|
 *
 * Stamps come round: which of two is later is told by the shorter way from one to the other. So none may
 * be half a round away from a reader. Snapshots that are Q commits old expire (ae_pins_reap()), and the
 * writer passes all roots again and again, within Q commits each time, and gives what is older than 2 Q a
 * later stamp (live/sweep.h): readers on both sides of it see the same list before and after.
 *
 * A number whose stamp would be 0 is passed over by the writer, as if an empty transaction had been undone.
 *
 * Caveats: numbers may be passed over, but not so many at once that the writer cannot keep up: tests pass
 * over some millions with each commit, and so go round in a second.
 */
#ifndef AE_LIVE_STAMP_H
#define AE_LIVE_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#define AE_COMMIT_BITS 48 /* of a commit, where blocks name it: nine years of a million each second */
#define AE_STAMP_REACH (UINT64_C(1) << 28) /* commits, a sixteenth of a round */

typedef uint32_t ae_stamp;

static inline ae_stamp ae_stamp_of(uint64_t commit) {
    return (ae_stamp)commit;
}

/* Return how many commits `to` is after `from`, within half a round; negative: before. */
static inline int32_t ae_stamp_distance(ae_stamp from, ae_stamp to) {
    return (int32_t)(to - from);
}

static inline bool ae_stamp_is_after(ae_stamp stamp, ae_stamp other) {
    return ae_stamp_distance(other, stamp) > 0;
}

/* Return the number of the commit after `commit`. */
static inline uint64_t ae_stamp_next_commit(uint64_t commit) {
    return commit + 1 + (ae_stamp_of(commit + 1) == 0);
}

#endif
