/*
 * Looking edges up by their two ends. Nothing is known about the order of a list,
 * so it is read as a whole, once for all pairs that ask for it.
 */
#include <inttypes.h>

#include "core/error.h"
#include "core/task.h"
#include "store/topology.h"

#define BLOCK 256

typedef struct find {
    const aether_topology *t;
    const int64_t *minor; /* of all pairs */
    uint64_t *pairs, *positions;
    uint64_t capacity, hits;
} find;

static int check_id(const char *name, uint64_t i, int64_t id, uint64_t count, aether_error *err) {
    if (id >= 0 && (uint64_t)id < count)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, id,
                       "%s[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, name, i, id,
                       (int64_t)count - 1);
}

static int check_order(const int64_t *major, const int64_t *minor, uint64_t i, aether_error *err) {
    if (i == 0 || major[i - 1] < major[i] || (major[i - 1] == major[i] && minor[i - 1] <= minor[i]))
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, major[i],
                       "pair %" PRIu64 " is below the one before", i);
}

/* The first of the pairs [from, to) whose minor is not below `id`. */
static uint64_t first_pair(const find *f, uint64_t from, uint64_t to, uint64_t id) {
    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        if ((uint64_t)f->minor[middle] < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void keep(find *f, uint64_t pair, uint64_t position) {
    if (f->hits < f->capacity) {
        f->pairs[f->hits] = pair;
        f->positions[f->hits] = position;
    }
    f->hits++;
}

/* The pairs [from, to) share a list. */
static int search(find *f, ae_list list, uint64_t from, uint64_t to, aether_error *err) {
    uint64_t positions[BLOCK], ids[BLOCK];
    for (uint64_t at = 0; at < list.degree; at += BLOCK) {
        uint64_t n = list.degree - at < BLOCK ? list.degree - at : BLOCK;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + at + i;
        int rc = f->t->ops->fetch(f->t, positions, n, ids, err);
        if (rc)
            return rc;
        for (uint64_t i = 0; i < n; i++)
            for (uint64_t p = first_pair(f, from, to, ids[i]); p < to && (uint64_t)f->minor[p] == ids[i]; p++)
                keep(f, p, positions[i]);
    }
    return AETHER_OK;
}

static int check_pairs(const aether_topology *t, const int64_t *major, const int64_t *minor, uint64_t n,
                       aether_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        int rc = check_id("major", i, major[i], t->lists.num_major, err);
        if (!rc)
            rc = check_id("minor", i, minor[i], t->lists.num_minor, err);
        if (!rc)
            rc = check_order(major, minor, i, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

int aether_find_edges(const aether_topology *t, const int64_t *major, const int64_t *minor, uint64_t n,
                      uint64_t *pairs, uint64_t *positions, uint64_t capacity, uint64_t *num_hits,
                      aether_task *task, aether_error *err) {
    find f = {t, minor, pairs, positions, capacity, 0};
    aether_guard();
    int rc = check_pairs(t, major, minor, n, err);
    ae_task_begin(task, n);
    for (uint64_t from = 0, to; !rc && from < n; from = to) {
        ae_list list;
        uint64_t node = (uint64_t)major[from];
        for (to = from; to < n && major[to] == major[from]; to++)
            ;
        if (ae_task_cancelled(task))
            return ae_error_set(err, AETHER_E_CANCELLED, "looking up edges was cancelled");
        rc = t->ops->locate(t, &node, 1, &list, err);
        if (!rc)
            rc = search(&f, list, from, to, err);
        ae_task_add(task, to - from);
    }
    *num_hits = f.hits;
    return rc;
}
