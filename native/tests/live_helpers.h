/*
 * live_helpers.h - live graphs of one relation, lists of in-edges: a list's node is the destination.
 *
 *   live_spec   what the relation is, and the options of its graph
 */
#ifndef AE_LIVE_HELPERS_H
#define AE_LIVE_HELPERS_H

#include "test.h"

typedef struct live_spec {
    aether_live_relation relation;
    uint64_t arena_bytes, max_snapshot_age, first_commit;
} live_spec;

static inline int live_create(const live_spec *s, aether_live **out, aether_error *err) {
    const aether_live_options o = {.relations = &s->relation,
                                   .num_relations = 1,
                                   .arena_bytes = s->arena_bytes,
                                   .max_snapshot_age = s->max_snapshot_age,
                                   .first_commit = s->first_commit};
    return aether_live_create(&o, out, err);
}

static inline aether_live *live_make(live_spec s) {
    aether_live *g = NULL;
    aether_error err = {0};
    CHECK_OK(live_create(&s, &g, &err), err);
    return g;
}

static inline int live_insert(aether_live *g, int64_t major, int64_t minor, aether_error *err) {
    return aether_live_insert_one(g, 0, minor, major, 0, 0, NULL, NULL, err);
}

static inline int live_delete(aether_live *g, int64_t major, int64_t minor, aether_error *err) {
    uint64_t deleted;
    return aether_live_delete(g, 0, &minor, &major, NULL, 1, &deleted, err);
}

static inline aether_snapshot *live_pin(const aether_live *g) {
    aether_snapshot *s = NULL;
    aether_error err = {0};
    CHECK_OK(aether_snapshot_take(g, &s, &err), err);
    return s;
}

static inline aether_topology *live_lists(const aether_snapshot *s) {
    return aether_snapshot_topology(s, 0, AETHER_LIVE_CSC);
}

/* Return the length of a node's list, or -1. */
static inline int64_t live_degree(const aether_live *g, int64_t node) {
    aether_snapshot *s = NULL;
    int64_t out = -1;
    if (aether_snapshot_take(g, &s, NULL) == AETHER_OK)
        aether_topology_degrees(live_lists(s), &node, 1, &out, NULL, NULL);
    aether_snapshot_release(s);
    return out;
}

#endif
