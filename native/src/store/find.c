/*
 * Looking edges up by their two ends: one pass over the list of each pair, for
 * nothing is known about the order of a list.
 */
#include <inttypes.h>

#include "core/error.h"
#include "store/topology.h"

#define BLOCK 256

typedef struct find {
    const aether_topology *t;
    uint64_t *positions;
    uint64_t capacity, used;
} find;

static int check_id(const char *name, uint64_t i, int64_t id, uint64_t count, aether_error *err) {
    if (id >= 0 && (uint64_t)id < count)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, id,
                       "%s[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, name, i, id,
                       (int64_t)count - 1);
}

static void keep(find *f, uint64_t position) {
    if (f->positions && f->used < f->capacity)
        f->positions[f->used] = position;
    f->used++;
}

static int search(find *f, ae_list list, uint64_t wanted, aether_error *err) {
    uint64_t positions[BLOCK], ids[BLOCK];
    for (uint64_t at = 0; at < list.degree; at += BLOCK) {
        uint64_t n = list.degree - at < BLOCK ? list.degree - at : BLOCK;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + at + i;
        int rc = f->t->ops->fetch(f->t, positions, n, ids, err);
        if (rc)
            return rc;
        for (uint64_t i = 0; i < n; i++)
            if (ids[i] == wanted)
                keep(f, positions[i]);
    }
    return AETHER_OK;
}

int aether_find_edges(const aether_topology *t, const int64_t *major, const int64_t *minor, uint64_t n,
                      uint64_t *found, uint64_t *positions, uint64_t capacity, aether_error *err) {
    find f = {t, positions, capacity, 0};
    aether_guard();
    for (uint64_t i = 0; i < n; i++) {
        ae_list list;
        uint64_t node = (uint64_t)major[i], before = f.used;
        int rc = check_id("major", i, major[i], t->lists.num_major, err);
        if (!rc)
            rc = check_id("minor", i, minor[i], t->lists.num_minor, err);
        if (!rc)
            rc = t->ops->locate(t, &node, 1, &list, err);
        if (!rc)
            rc = search(&f, list, (uint64_t)minor[i], err);
        if (rc)
            return rc;
        found[i] = f.used - before;
    }
    return AETHER_OK;
}
