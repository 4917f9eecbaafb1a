/* Finds edges by their two ends. Lists may be in any order, so each list is read whole, once for
 * all pairs that ask for it. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/options.h"
#include "core/task.h"
#include "topology/list_reader.h"

#define BLOCK 256
#define LISTS 4096 /* lists read together, where they are slow to reach */

typedef struct finding {
    const aether_topology *t;
    const int64_t *minor; /* of all pairs */
    uint64_t *pairs, *positions;
    uint64_t capacity, hits;
} finding;

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
static uint64_t first_pair(const finding *f, uint64_t from, uint64_t to, uint64_t id) {
    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        if ((uint64_t)f->minor[middle] < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void keep_hit(finding *f, uint64_t pair, uint64_t position) {
    if (f->hits < f->capacity) {
        f->pairs[f->hits] = pair;
        f->positions[f->hits] = position;
    }
    f->hits++;
}

/* The pairs [from, to) ask for one list, of which these are n entries from `position` on. */
static void search_entries(finding *f, uint64_t from, uint64_t to, uint64_t position, const uint64_t *ids,
                           uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t p = first_pair(f, from, to, ids[i]); p < to && (uint64_t)f->minor[p] == ids[i]; p++)
            keep_hit(f, p, position + i);
}

static int search_list(finding *f, ae_list list, uint64_t from, uint64_t to, aether_task *task,
                       aether_error *err) {
    uint64_t positions[BLOCK], ids[BLOCK];
    for (uint64_t at = 0; at < list.degree; at += BLOCK) {
        uint64_t n = list.degree - at < BLOCK ? list.degree - at : BLOCK;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + at + i;
        int rc = ae_task_check(task, "looking up edges", err);
        if (!rc)
            rc = f->t->ops->fetch(f->t, positions, n, ids, err);
        if (rc)
            return rc;
        search_entries(f, from, to, positions[0], ids, n);
    }
    return AETHER_OK;
}

/* Lists that are read together. The pairs of list i are [from[i], from[i + 1]). */
typedef struct reading {
    finding *f;
    uint64_t from[LISTS + 1];
    ae_list lists[LISTS];
} reading;

static int search_read(void *ctx, uint64_t list, uint64_t at, uint64_t *ids, uint64_t n, aether_error *err) {
    const reading *r = ctx;
    (void)err;
    search_entries(r->f, r->from[list], r->from[list + 1], at, ids, n);
    return AETHER_OK;
}

static int check_asked_pairs(const aether_topology *t, const int64_t *major, const int64_t *minor, uint64_t n,
                             aether_task *task, aether_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        int rc = i % AE_TASK_ITEMS ? AETHER_OK : ae_task_check(task, "looking up edges", err);
        if (!rc)
            rc = check_id("major", i, major[i], t->num_major, err);
        if (!rc)
            rc = check_id("minor", i, minor[i], t->num_minor, err);
        if (!rc)
            rc = check_order(major, minor, i, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static uint64_t end_of(const int64_t *major, uint64_t n, uint64_t from) {
    uint64_t to = from + 1;
    while (to < n && major[to] == major[from])
        to++;
    return to;
}

static int search_each(finding *f, const int64_t *major, uint64_t n, aether_task *task, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t from = 0, to; !rc && from < n; from = to) {
        ae_list list;
        uint64_t node = (uint64_t)major[from];
        to = end_of(major, n, from);
        if (ae_task_cancelled(task))
            return ae_error_set(err, AETHER_E_CANCELLED, "looking up edges was cancelled");
        rc = f->t->ops->locate(f->t, &node, 1, &list, err);
        if (!rc)
            rc = search_list(f, list, from, to, task, err);
        ae_task_add(task, to - from);
    }
    return rc;
}

/* Lists that are slow to reach are read many at a time. */
static int search_together(finding *f, const int64_t *major, uint64_t n, aether_task *task,
                           aether_error *err) {
    reading *r = calloc(1, sizeof *r);
    ae_list_reader reader = {0};
    int rc = r ? AETHER_OK : ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for looking up edges");
    for (uint64_t from = 0; !rc && from < n;) {
        uint64_t lists = 0, begin = from;
        if (ae_task_cancelled(task)) {
            rc = ae_error_set(err, AETHER_E_CANCELLED, "looking up edges was cancelled");
            break;
        }
        for (; !rc && lists < LISTS && from < n; lists++) {
            uint64_t node = (uint64_t)major[from];
            rc = f->t->ops->locate(f->t, &node, 1, &r->lists[lists], err);
            r->from[lists] = from;
            r->from[lists + 1] = from = end_of(major, n, from);
        }
        r->f = f;
        if (!rc)
            rc = ae_list_reader_lists(&reader, f->t, r->lists, lists, search_read, r, task, err);
        ae_task_add(task, from - begin);
    }
    ae_list_reader_free(&reader);
    free(r);
    return rc;
}

int aether_find_edges(const aether_topology *t, const aether_edge_search *search, uint64_t *num_hits,
                      aether_task *task, aether_error *err) {
    const aether_edge_search *s = search;
    int rc = ae_options_check(s, sizeof *s, "aether_edge_search", err);
    if (rc)
        return rc;
    finding f = {t, s->minor, s->pairs, s->positions, s->capacity, 0};
    aether_guard();
    rc = check_asked_pairs(t, s->major, s->minor, s->n, task, err);
    ae_task_begin(task, s->n);
    if (!rc)
        rc = ae_list_reader_pays(t) ? search_together(&f, s->major, s->n, task, err)
                                    : search_each(&f, s->major, s->n, task, err);
    *num_hits = f.hits;
    return rc;
}
