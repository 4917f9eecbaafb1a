#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AETHER_EXPERIMENTAL
#include "aether/experimental.h"
#include "core/error.h"
#include "core/task.h"
#include "topology/topology.h"

/*
 * A topology that asks somebody else, such as a server:
 *
 *   locate  fetch  edge_ids  weights  times  ──>  ask(user, what, numbers)  ──>  numbers
 *
 * An answer is checked like a file: a list must lie within the positions, an id below num_minor. Positions
 * are dense, or whatever the other side makes of them, such as those of one commit of a live graph.
 */

typedef struct asked_lists {
    aether_topology base;
    ae_topology_ops ops;
    aether_ask_fn ask;
    void *user;
} asked_lists;

static const asked_lists *asked_of(const aether_topology *t) {
    return (const asked_lists *)(const void *)t;
}

static int ask_user(const aether_topology *t, uint32_t what, const uint64_t *in, uint64_t n, uint64_t *out,
                    aether_error *err) {
    aether_error own = {0};
    if (!n)
        return AETHER_OK;
    int rc = asked_of(t)->ask(asked_of(t)->user, what, in, n, out, err ? err : &own);
    return rc;
}

static int asked_locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                        aether_error *err) {
    _Static_assert(sizeof(ae_list) == 2 * sizeof(uint64_t), "two numbers");
    int rc = ask_user(t, AETHER_ASK_LISTS, nodes, n, (uint64_t *)out, err);
    for (uint64_t i = 0; !rc && i < n; i++)
        if (out[i].start > t->end_positions || out[i].degree > t->end_positions - out[i].start)
            rc = ae_error_at(err, AETHER_E_CORRUPT, (int64_t)nodes[i], (int64_t)out[i].start,
                             "the list of node %" PRIu64 " is said to be of positions from %" PRIu64
                             " on, %" PRIu64 " of them, but there are %" PRIu64,
                             nodes[i], out[i].start, out[i].degree, t->end_positions);
    return rc;
}

static void asked_prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    (void)t, (void)positions, (void)n;
}

static int asked_fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                       aether_error *err) {
    int rc = ask_user(t, AETHER_ASK_IDS, positions, n, ids, err);
    uint64_t largest = 0;
    for (uint64_t i = 0; !rc && i < n; i++)
        largest = ids[i] > largest ? ids[i] : largest;
    return !rc && n && largest >= t->num_minor ? ae_topology_bad_id(t, positions, ids, n, err) : rc;
}

static int asked_edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                          aether_error *err) {
    if (t->edge_ids_are_positions) {
        memmove(out, positions, n * sizeof *out);
        return AETHER_OK;
    }
    return ask_user(t, AETHER_ASK_EDGES, positions, n, out, err);
}

static int asked_weights(const aether_topology *t, const uint64_t *positions, uint64_t n, double *out,
                         aether_error *err) {
    return ask_user(t, AETHER_ASK_WEIGHTS, positions, n, (uint64_t *)(void *)out, err);
}

static int asked_times(const aether_topology *t, const uint64_t *positions, uint64_t n, int64_t *out,
                       aether_error *err) {
    return ask_user(t, AETHER_ASK_TIMES, positions, n, (uint64_t *)out, err);
}

/* The jobs of a hop of many samples are one question. */
static int asked_fetch_many(const aether_topology *t, const ae_fetch *jobs, uint32_t n,
                            struct aether_staging *staging, aether_task *task, aether_error *err) {
    (void)staging;
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += jobs[i].count;
    int rc = ae_task_check(task, "sampling", err);
    if (rc || !total)
        return rc;
    if (n == 1)
        return asked_fetch(t, jobs[0].positions, total, jobs[0].ids, err);
    uint64_t *both = total > SIZE_MAX / 16 ? NULL : malloc(2 * total * sizeof *both);
    if (!both)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for %" PRIu64 " positions", total);
    uint64_t *ids = both + total, at = 0;
    for (uint32_t i = 0; i < n; at += jobs[i++].count)
        memcpy(both + at, jobs[i].positions, jobs[i].count * sizeof *both);
    rc = asked_fetch(t, both, total, ids, err);
    at = 0;
    for (uint32_t i = 0; !rc && i < n; at += jobs[i++].count)
        memcpy(jobs[i].ids, ids + at, jobs[i].count * sizeof *ids);
    free(both);
    return rc;
}

static uint64_t asked_memory(const aether_topology *t) {
    return sizeof *asked_of(t);
}

static void asked_free(aether_topology *t) {
    free(t);
}

int aether_topology_create_asked(const aether_asked_lists *lists, aether_ask_fn answer, void *user,
                                 aether_topology **out, aether_error *err) {
    if (!lists || !answer || !out)
        return ae_error_set(err, AETHER_E_INVALID, "asked lists need their facts and somebody to ask");
    if (lists->num_major >= INT64_MAX || lists->num_minor >= INT64_MAX || lists->num_edges >= INT64_MAX)
        return ae_error_set(err, AETHER_E_LIMIT, "a topology holds fewer than 2^63 nodes and edges");
    const uint64_t end_positions = lists->end_positions ? lists->end_positions : lists->num_edges;
    const uint64_t end_edge_ids = lists->end_edge_ids ? lists->end_edge_ids : lists->num_edges;
    if (end_positions < lists->num_edges || end_edge_ids < lists->num_edges || end_positions > INT64_MAX ||
        end_edge_ids > INT64_MAX)
        return ae_error_set(err, AETHER_E_INVALID,
                            "positions below %" PRIu64 " and edge ids below %" PRIu64
                            " are not those of %" PRIu64 " edges",
                            end_positions, end_edge_ids, lists->num_edges);
    asked_lists *a = calloc(1, sizeof *a);
    if (!a)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a topology");
    a->ops = (ae_topology_ops){
        .locate = asked_locate,
        .prefetch = asked_prefetch,
        .fetch = asked_fetch,
        .edge_ids = asked_edge_ids,
        .weights = lists->own_values & AETHER_OWN_WEIGHTS ? asked_weights : NULL,
        .times = lists->own_values & AETHER_OWN_TIMES ? asked_times : NULL,
        .fetch_many = asked_fetch_many,
        .memory = asked_memory,
        .destroy = asked_free,
    };
    a->base = (aether_topology){
        .ops = &a->ops,
        .num_major = lists->num_major,
        .num_minor = lists->num_minor,
        .num_edges = lists->num_edges,
        .end_positions = end_positions,
        .end_edge_ids = end_edge_ids,
        .id_bytes = 8,
        .edge_ids_are_positions = lists->edge_ids_are_positions != 0,
        .is_far = true,
    };
    a->ask = answer;
    a->user = user;
    *out = &a->base;
    return AETHER_OK;
}

/* ---- the other side ---- */

int aether_topology_answer(const aether_topology *t, uint32_t what, const uint64_t *in, uint64_t n,
                           uint64_t *out, aether_error *err) {
    if (!t || (n && (!in || !out)) || what > AETHER_ASK_TIMES)
        return ae_error_set(err, AETHER_E_INVALID, "a topology, a question, numbers and out are needed");
    const ae_topology_ops *ops = t->ops;
    if ((what == AETHER_ASK_WEIGHTS && !ops->weights) || (what == AETHER_ASK_TIMES && !ops->times))
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "this topology keeps no %s itself",
                            what == AETHER_ASK_WEIGHTS ? "weights" : "times");
    const uint64_t end = what == AETHER_ASK_LISTS ? t->num_major : t->end_positions;
    for (uint64_t i = 0; i < n; i++)
        if (in[i] >= end)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)in[i],
                               "%s %" PRIu64 " is not below %" PRIu64,
                               what == AETHER_ASK_LISTS ? "node" : "position", in[i], end);
    if (!n)
        return AETHER_OK;
    switch (what) {
    case AETHER_ASK_LISTS:
        return ops->locate(t, in, n, (ae_list *)(void *)out, err);
    case AETHER_ASK_IDS:
        return ops->fetch(t, in, n, out, err);
    case AETHER_ASK_EDGES:
        return ops->edge_ids(t, in, n, out, err);
    case AETHER_ASK_WEIGHTS:
        return ops->weights(t, in, n, (double *)(void *)out, err);
    default:
        return ops->times(t, in, n, (int64_t *)(void *)out, err);
    }
}
