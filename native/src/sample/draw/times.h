/*
 * sample/draw/times.h - which part of a list a seed may see.
 *
 *   times   [ 1  3  3  7  9 ]     ascending in every list
 *            ^^^^^^^^^            since <= time <= until: a shorter list
 *
 * Times are compared as int64; float64 ones by the order-keeping map of
 * ae_time_of_double (-0.0 as 0.0), which callers apply to their bounds too.
 *
 * Caveats: a list that is not sorted would leak the future: whoever makes a
 * sampler calls aether_check_times() first.
 */
#ifndef AE_SAMPLE_DRAW_TIMES_H
#define AE_SAMPLE_DRAW_TIMES_H

#include <stdbool.h>
#include <string.h>

#include "sample/draw/value_cache.h"

#define AE_TIMES_MANY 256 /* lists that are cut together at most */
#define AE_TIMES_REST 512 /* entries: a search in so few asks for all of them at once */

/* What times are looked up by. */
typedef enum ae_times_key { AE_TIMES_BY_EDGE, AE_TIMES_BY_NODE, AE_TIMES_BY_POSITION } ae_times_key;

typedef struct ae_times {
    const void *values; /* NULL: the topology's own, or every edge is visible */
    bool is_double;
    ae_times_key by;             /* edge id; id of the list entry; position: asked of the topology */
    ae_value_cache *cache, *ids; /* caches of times and list entries; NULL: in memory or mapped */
} ae_times;

/* Return the times of a relation, without caches. */
static inline ae_times ae_times_of(const aether_relation *r) {
    if (r->own_values & AETHER_OWN_TIMES)
        return (ae_times){.by = AE_TIMES_BY_POSITION};
    return (ae_times){.values = r->times,
                      .is_double = r->time_dtype == AETHER_F64,
                      .by = r->times_of == AETHER_TIMES_OF_NODES ? AE_TIMES_BY_NODE : AE_TIMES_BY_EDGE};
}

/* Return whether edges have times at all. */
static inline bool ae_times_given(const ae_times *times) {
    return times->values || times->by == AE_TIMES_BY_POSITION;
}

static inline int64_t ae_time_of_double(double time) {
    int64_t bits;
    time += 0.0;
    memcpy(&bits, &time, sizeof bits);
    return bits < 0 ? (int64_t)((uint64_t)bits ^ INT64_MAX) : bits;
}

/* Return whether a relation's times are of a known dtype and of edges or nodes, or absent. */
static inline bool ae_times_known(const aether_relation *r) {
    return !r->times || ((r->time_dtype == AETHER_I64 || r->time_dtype == AETHER_F64) &&
                         (r->times_of == AETHER_TIMES_OF_EDGES || r->times_of == AETHER_TIMES_OF_NODES));
}

/* Cut `list` to its part with since <= time <= until. May be AE_WANTED. */
int ae_times_restrict(const ae_times *times, const aether_topology *t, int64_t since, int64_t until,
                      ae_list *list, aether_error *err);

/* Return whether times are looked up without waiting for a file, so that many lists may be cut together. */
static inline bool ae_times_at_hand(const ae_times *times) {
    return ae_times_given(times) && !times->cache && !times->ids;
}

/* Cut n lists, at most AE_TIMES_MANY, each by its own bounds; `since` may be NULL. The searches go step by
 * step together, so that their cache misses overlap. Only of times that are at hand. */
int ae_times_restrict_many(const ae_times *times, const aether_topology *t, const int64_t *since,
                           const int64_t *until, ae_list *lists, uint64_t n, aether_error *err);

#endif
