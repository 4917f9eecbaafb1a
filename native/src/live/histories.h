/*
 * live/histories.h - memory of histories, which are made and let go in the order of commits.
 *
 *   full     [ slab, last of commit 11 | slab, 12 | slab, 12 ]    wait until every pin is there or later
 *   filling  [ 12 | 12 | 13 | 13 |      ]                         the next history comes behind
 *
 * A history that commit 13 makes has the list as commits before it see it, so it may go when every pin is at
 * 13 or later: those of a slab go together. One is made for almost every change of a list, without being
 * noted anywhere. The same slabs are used again and again: most of what an insert costs is finding memory
 * that was not used for long.
 *
 * Caveats: one thread of the process that made it. What an aborted transaction made waits like the rest.
 */
#ifndef AE_LIVE_HISTORIES_H
#define AE_LIVE_HISTORIES_H

#include "live/table.h"

typedef struct ae_history_slab {
    ae_ref ref;
    uint32_t units;  /* a history takes one */
    uint64_t commit; /* of its last history */
} ae_history_slab;

typedef struct ae_histories {
    ae_history_slab filling; /* units 0: none */
    uint32_t used;           /* histories in it */
    ae_history_slab *full;   /* [first, end) wait */
    uint64_t first, end, room;
    uint64_t units; /* of the slabs that wait */
} ae_histories;

_Static_assert(sizeof(ae_history) == AE_UNIT, "a history takes a unit");

void ae_histories_free(ae_histories *h);
/* Make room for a history; false: neither the arena nor the process has memory for it. */
bool ae_histories_reserve(ae_histories *h, ae_arena *arena);
/* Let go of what every pin is behind, the oldest of which is at `oldest`. */
void ae_histories_reclaim(ae_histories *h, ae_arena *arena, uint64_t oldest);

static inline bool ae_histories_have_room(const ae_histories *h) {
    return h->used < h->filling.units;
}

/* Return a new history of a commit, or 0 if there is no room: ae_histories_reserve() makes some. */
static inline ae_ref ae_histories_new(ae_histories *h, uint64_t commit) {
    if (!ae_histories_have_room(h))
        return 0;
    h->filling.commit = commit;
    return h->filling.ref + h->used++;
}

#endif
