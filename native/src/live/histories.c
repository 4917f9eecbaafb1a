#include "live/histories.h"

#include <stdlib.h>

#define UNITS 256u /* of a slab: 4 KiB; where the arena is nearly full, fewer */
#define FEWER 16u
#define FIRST 16u

void ae_histories_free(ae_histories *h) {
    free(h->full);
    *h = (ae_histories){0};
}

static bool reserve_full(ae_histories *h) {
    if (h->end < h->room)
        return true;
    const uint64_t waiting = h->end - h->first;
    if (h->first > h->room / 2) {
        memmove(h->full, h->full + h->first, waiting * sizeof *h->full);
    } else {
        const uint64_t room = 2 * h->room + FIRST;
        ae_history_slab *grown = realloc(h->full, room * sizeof *grown);
        if (!grown)
            return false;
        h->full = grown;
        h->room = room;
        memmove(h->full, h->full + h->first, waiting * sizeof *h->full);
    }
    h->first = 0;
    h->end = waiting;
    return true;
}

bool ae_histories_reserve(ae_histories *h, ae_arena *arena) {
    if (h->used < h->filling.units)
        return true;
    if (!reserve_full(h))
        return false;
    uint32_t units = UNITS;
    ae_ref ref;
    while (!(ref = ae_arena_alloc(arena, units)) && units > 1)
        units /= FEWER;
    if (!ref)
        return false;
    if (h->filling.units) {
        h->full[h->end++] = h->filling;
        h->units += h->filling.units;
    }
    h->filling = (ae_history_slab){.ref = ref, .units = units};
    h->used = 0;
    return true;
}

void ae_histories_reclaim(ae_histories *h, ae_arena *arena, uint64_t oldest) {
    for (; h->first < h->end && h->full[h->first].commit <= oldest; h->first++) {
        ae_arena_free(arena, h->full[h->first].ref, h->full[h->first].units);
        h->units -= h->full[h->first].units;
    }
    if (h->first == h->end && h->filling.commit <= oldest)
        h->used = 0;
}
