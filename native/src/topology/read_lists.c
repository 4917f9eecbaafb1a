/*
 * aether_topology_ends, aether_topology_read: all lists of a topology as the sections of a file, some
 * at a time, whatever the length of a list.
 *
 *   lists      | . . . | . | . . . . . . |            place {node, entry}: where the next call goes on
 *   positions  [ 256 ][ 256 ][ 256 ] ...             of several short lists, or of a part of a long one
 *                 ^      ^
 *              copied  prefetched
 *
 * Caveats: one thread. Writing a file beside a writer and readers is not to take all cores.
 */
#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/options.h"
#include "core/task.h"
#include "topology/topology.h"

#define LISTS   256 /* located at a time */
#define ENTRIES 256 /* copied at a time */
#define STEP    4   /* entries that lie together: one of them is prefetched */

/* ---- ends of lists ------------------------------------------------------------------- */

/* Return the first node from `node` on whose list may hold something; `end`, of the nodes that were seen
 * to be such, is moved on. */
static uint64_t skip_to_written(const aether_topology *t, uint64_t node, uint64_t *end) {
    if (node < *end)
        return node;
    *end = t->num_major;
    return t->ops->written ? t->ops->written(t, node, end) : node;
}

static int locate_from_node(const aether_topology *t, uint64_t node, uint64_t n, ae_list *lists,
                            aether_error *err) {
    uint64_t nodes[LISTS];
    for (uint64_t i = 0; i < n; i++)
        nodes[i] = node + i;
    return t->ops->locate(t, nodes, n, lists, err);
}

int aether_topology_ends(const aether_topology *t, uint64_t first, uint64_t n, uint64_t before, uint64_t *out,
                         aether_task *task, aether_error *err) {
    if (first > t->num_major || n > t->num_major - first)
        return ae_error_at(err, AETHER_E_RANGE, (int64_t)first, (int64_t)n,
                           "%" PRIu64 " lists from %" PRIu64 " on are not below %" PRIu64, n, first,
                           t->num_major);
    ae_task_begin(task, n);
    uint64_t written = 0;
    for (uint64_t done = 0; done < n;) {
        ae_list lists[LISTS];
        const uint64_t node = skip_to_written(t, first + done, &written);
        const uint64_t empty = node - first < n ? node - first : n;
        int rc = ae_task_check(task, "reading lists", err);
        for (; done < empty; done++)
            out[done] = before;
        uint64_t some = n - done < LISTS ? n - done : LISTS;
        some = some && written - node < some ? written - node : some;
        if (!rc && some)
            rc = locate_from_node(t, node, some, lists, err);
        if (rc)
            return rc;
        for (uint64_t i = 0; i < some; i++)
            out[done + i] = before += lists[i].degree;
        done += some;
    }
    ae_task_add(task, n);
    return AETHER_OK;
}

/* ---- entries ------------------------------------------------------------------------- */

/* Positions of the entries from `at` on; `lists` are those of nodes first .. first + count - 1. */
typedef struct walk {
    const aether_topology *t;
    aether_list_place at;
    uint64_t first, count;
    uint64_t written; /* end of the nodes that may have lists */
    ae_list lists[LISTS];
} walk;

/* A run of positions, and those that stand for their neighbours when memory is prefetched. */
typedef struct run {
    uint64_t n, num_ahead;
    uint64_t positions[ENTRIES], ahead[ENTRIES];
} run;

static void add_positions(run *r, uint64_t start, uint64_t first, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        r->positions[r->n + i] = start + first + i;
    r->n += n;
    for (uint64_t i = first; i < first + n; i = (i / STEP + 1) * STEP)
        r->ahead[r->num_ahead++] = start + i;
}

static int next_run(walk *w, uint64_t most, run *r, aether_error *err) {
    r->n = r->num_ahead = 0;
    most = most < ENTRIES ? most : ENTRIES;
    while (r->n < most && w->at.node < w->t->num_major) {
        if (w->at.node >= w->first + w->count) {
            w->at.node = skip_to_written(w->t, w->at.node, &w->written);
            if (w->at.node >= w->t->num_major)
                break;
            const uint64_t end = w->written < w->t->num_major ? w->written : w->t->num_major;
            w->first = w->at.node;
            w->count = end - w->first < LISTS ? end - w->first : LISTS;
            const int rc = locate_from_node(w->t, w->first, w->count, w->lists, err);
            if (rc)
                return rc;
        }
        const ae_list list = w->lists[w->at.node - w->first];
        const uint64_t left = list.degree > w->at.entry ? list.degree - w->at.entry : 0;
        const uint64_t some = left < most - r->n ? left : most - r->n;
        add_positions(r, list.start, w->at.entry, some);
        w->at = some == left ? (aether_list_place){w->at.node + 1, 0}
                             : (aether_list_place){w->at.node, w->at.entry + some};
    }
    return AETHER_OK;
}

/* Copy a column of n positions to its place; 64-bit numbers go through `wide` where items are of 4
 * bytes. */
static int copy(const aether_topology *t, const aether_entry_column *column, uint64_t done,
                const uint64_t *positions, uint64_t n, aether_error *err) {
    const uint32_t what = column->what, item_bytes = column->item_bytes;
    uint8_t *out = (uint8_t *)column->out + done * item_bytes;
    union {
        uint64_t ids[ENTRIES];
        double weights[ENTRIES];
    } wide;
    void *to = item_bytes == 8 ? (void *)out : (void *)&wide;
    const int rc = what == AETHER_READ_NEIGHBORS  ? t->ops->fetch(t, positions, n, to, err)
                   : what == AETHER_READ_EDGE_IDS ? t->ops->edge_ids(t, positions, n, to, err)
                   : what == AETHER_READ_WEIGHTS  ? t->ops->weights(t, positions, n, to, err)
                                                  : t->ops->times(t, positions, n, to, err);
    if (rc || item_bytes == 8)
        return rc;
    if (what == AETHER_READ_WEIGHTS) {
        float *weights = (float *)(void *)out;
        for (uint64_t i = 0; i < n; i++)
            weights[i] = (float)wide.weights[i];
        return AETHER_OK;
    }
    uint32_t *ids = (uint32_t *)(void *)out;
    for (uint64_t i = 0; i < n; i++)
        ids[i] = (uint32_t)wide.ids[i];
    return AETHER_OK;
}

static int check_read_column(const aether_topology *t, const aether_entry_column *column, aether_error *err) {
    const uint32_t what = column->what, item_bytes = column->item_bytes;
    if (what > AETHER_READ_TIMES || (item_bytes != 4 && item_bytes != 8) ||
        (what == AETHER_READ_TIMES && item_bytes != 8))
        return ae_error_set(err, AETHER_E_INVALID, "what = %" PRIu32 " as items of %" PRIu32 " bytes", what,
                            item_bytes);
    if ((what == AETHER_READ_WEIGHTS && !t->ops->weights) || (what == AETHER_READ_TIMES && !t->ops->times))
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "this topology keeps no %s itself",
                            what == AETHER_READ_WEIGHTS ? "weights" : "times");
    const uint64_t end = what == AETHER_READ_NEIGHBORS ? t->num_minor : t->end_edge_ids;
    if (what <= AETHER_READ_EDGE_IDS && item_bytes == 4 && end > (uint64_t)UINT32_MAX + 1)
        return ae_error_set(err, AETHER_E_LIMIT, "ids below %" PRIu64 " do not fit in 32 bits", end);
    return AETHER_OK;
}

int aether_topology_read(const aether_topology *t, const aether_entry_columns *columns, aether_list_place *at,
                         uint64_t *count, aether_task *task, aether_error *err) {
    run runs[2];
    walk w = {.t = t, .at = *at};
    *count = 0;
    int rc = ae_options_check(columns, sizeof *columns, "aether_entry_columns", err);
    for (uint64_t i = 0; !rc && i < columns->num_columns; i++)
        rc = check_read_column(t, &columns->columns[i], err);
    if (rc)
        return rc;
    const uint64_t capacity = columns->capacity;
    ae_task_begin(task, capacity);
    rc = next_run(&w, capacity, &runs[0], err);
    for (uint32_t now = 0; !rc && runs[now].n; now ^= 1) {
        const run *r = &runs[now];
        run *next = &runs[now ^ 1];
        rc = ae_task_check(task, "reading lists", err);
        if (!rc)
            rc = next_run(&w, capacity - *count - r->n, next, err);
        if (rc)
            return rc;
        t->ops->prefetch(t, next->ahead, next->num_ahead);
        for (uint64_t i = 0; !rc && i < columns->num_columns; i++)
            rc = copy(t, &columns->columns[i], *count, r->positions, r->n, err);
        *count += r->n;
        ae_task_add(task, r->n);
    }
    if (!rc)
        *at = w.at;
    return rc;
}
