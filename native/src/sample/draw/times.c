#include "sample/draw/times.h"

#include <inttypes.h>
#include <math.h>

#include "core/error.h"
#include "core/pool.h"
#include "core/task.h"

#define CACHED_NODES (UINT64_C(1) << 17) /* as many times are 1 MiB */
#define REST         8                   /* entries that are looked at without a search */

void aether_time_of_double(const double *times, uint64_t n, int64_t *out) {
    for (uint64_t i = 0; i < n; i++)
        out[i] = ae_time_of_double(times[i]);
}

static int neighbor_at(const ae_times *times, const aether_topology *t, uint64_t position, uint64_t *id,
                       aether_error *err) {
    const void *value;
    if (!times->ids)
        return t->ops->fetch(t, &position, 1, id, err);
    int rc = ae_value_cache_find(times->ids, position, &value, err);
    if (rc)
        return rc;
    *id = t->id_bytes == 4 ? *(const uint32_t *)value : *(const uint64_t *)value;
    return *id < t->num_minor ? AETHER_OK : ae_topology_bad_id(t, &position, id, 1, err);
}

static inline int edge_at(const aether_topology *t, uint64_t position, uint64_t *edge, aether_error *err) {
    *edge = position;
    return t->edge_ids_are_positions ? AETHER_OK : t->ops->edge_ids(t, &position, 1, edge, err);
}

static int bad_timed_edge(const aether_topology *t, uint64_t position, uint64_t edge, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)position, (int64_t)edge,
                       "edge id %" PRIu64 " at position %" PRIu64 " is not below %" PRIu64, edge, position,
                       t->end_edge_ids);
}

static int time_at(const ae_times *times, const aether_topology *t, uint64_t position, int64_t *out,
                   aether_error *err) {
    uint64_t at;
    int rc;
    if (times->by == AE_TIMES_BY_EDGE) {
        rc = edge_at(t, position, &at, err);
        if (!rc && at >= t->end_edge_ids)
            return bad_timed_edge(t, position, at, err);
    } else if (times->by == AE_TIMES_BY_NODE) {
        rc = neighbor_at(times, t, position, &at, err);
    } else {
        return t->ops->times(t, &position, 1, out, err);
    }
    if (rc)
        return rc;
    const void *value = times->is_double ? (const void *)((const double *)times->values + at)
                                         : (const void *)((const int64_t *)times->values + at);
    rc = times->cache ? ae_value_cache_find(times->cache, at, &value, err) : AETHER_OK;
    if (!rc)
        *out = times->is_double ? ae_time_of_double(*(const double *)value) : *(const int64_t *)value;
    return rc;
}

/* When the rest of a binary search fits a few pages, ask for all of it: one read instead of
 * several. */
static int ask_rest(const ae_times *times, uint64_t from, uint64_t n, aether_error *err) {
    ae_value_cache *p = times->by == AE_TIMES_BY_NODE ? times->ids : times->cache;
    int rc = p && n <= AE_TIMES_REST ? ae_value_cache_ask(p, from, n, err) : AETHER_OK;
    return rc ? rc : AE_WANTED;
}

/* Count the entries of `list` with times up to `bound`. */
static int count_until(const ae_times *times, const aether_topology *t, ae_list list, int64_t bound,
                       uint64_t *count, aether_error *err) {
    uint64_t low = 0, high = list.degree;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int64_t time;
        int rc = time_at(times, t, list.start + middle, &time, err);
        if (rc == AE_WANTED)
            return ask_rest(times, list.start + low, high - low, err);
        if (rc)
            return rc;
        if (time <= bound)
            low = middle + 1;
        else
            high = middle;
    }
    *count = low;
    return AETHER_OK;
}

int ae_times_restrict(const ae_times *times, const aether_topology *t, int64_t since, int64_t until,
                      ae_list *list, aether_error *err) {
    uint64_t visible = 0, before = 0;
    int rc = count_until(times, t, *list, until, &visible, err);
    list->degree = visible;
    if (!rc && since > INT64_MIN)
        rc = count_until(times, t, *list, since - 1, &before, err);
    *list = (ae_list){list->start + before, visible - before};
    return rc;
}

/* ---- many lists at once ---- */

/* Look up the times at n positions; `at` is scratch. All look-ups are in flight together. */
static int times_at(const ae_times *times, const aether_topology *t, const uint64_t *positions, uint64_t n,
                    uint64_t *at, int64_t *out, aether_error *err) {
    int rc;
    if (times->by == AE_TIMES_BY_POSITION)
        return t->ops->times(t, positions, n, out, err);
    if (times->by == AE_TIMES_BY_NODE) {
        t->ops->prefetch(t, positions, n);
        rc = t->ops->fetch(t, positions, n, at, err);
    } else {
        rc = t->ops->edge_ids(t, positions, n, at, err);
        for (uint64_t i = 0; !rc && i < n; i++)
            if (at[i] >= t->end_edge_ids)
                rc = bad_timed_edge(t, positions[i], at[i], err);
    }
    if (rc)
        return rc;
    const int64_t *values = times->values;
    const double *doubles = times->values;
    for (uint64_t i = 0; i < n; i++)
        __builtin_prefetch(&values[at[i]]);
    for (uint64_t i = 0; i < n; i++)
        out[i] = times->is_double ? ae_time_of_double(doubles[at[i]]) : values[at[i]];
    return AETHER_OK;
}

/* Return the number of entries from which on a search is cut in halves. Fewer are all looked at: times that
 * follow each other lie on two or three cache lines, which are asked for at once, and those of few nodes are
 * in a cache, where a step of the search costs more than the entries that it saves. */
static uint64_t few_entries(const ae_times *times, const aether_topology *t) {
    if (times->by == AE_TIMES_BY_EDGE && t->edge_ids_are_positions)
        return 16;
    return times->by == AE_TIMES_BY_NODE && t->num_minor <= CACHED_NODES ? REST : 0;
}

static inline int64_t value_at(const ae_times *times, uint64_t at) {
    return times->is_double ? ae_time_of_double(((const double *)times->values)[at])
                            : ((const int64_t *)times->values)[at];
}

/* Add to counts[] what the rest of each search holds, where the times follow each other. */
static int count_rests_of_edges(const ae_times *times, const aether_topology *t, const ae_list *lists,
                                const int64_t *bounds, uint64_t n, const uint64_t *high, uint64_t *counts,
                                aether_error *err) {
    const int64_t *values = times->values; /* doubles are as wide */
    for (uint64_t i = 0; i < n; i++) {
        __builtin_prefetch(&values[lists[i].start + counts[i]]);
        __builtin_prefetch(&values[lists[i].start + high[i]]);
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t begin = lists[i].start + counts[i], end = lists[i].start + high[i];
        uint64_t seen = 0;
        if (end > t->end_edge_ids)
            return bad_timed_edge(t, end - 1, end - 1, err);
        for (uint64_t at = begin; at < end; at++)
            seen += value_at(times, at) <= bounds[i];
        counts[i] += seen;
    }
    return AETHER_OK;
}

/* The same where the times are those of the entries' nodes, of which at most REST are left. Lists take REST
 * steps whatever they have left, as the end of a short loop cannot be predicted: positions are written past
 * the end of a list, which the next one overwrites, and nodes of the next one are looked up and not counted.
 */
static int count_rests_of_nodes(const ae_times *times, const aether_topology *t, const ae_list *lists,
                                const int64_t *bounds, uint64_t n, const uint64_t *high, uint64_t *counts,
                                aether_error *err) {
    uint64_t positions[AE_TIMES_MANY], ids[AE_TIMES_MANY];
    for (uint64_t i = 0, from = 0; i < n; from = i) {
        uint64_t used = 0, at = 0;
        for (; i < n && used + REST <= AE_TIMES_MANY - REST; i++) {
            for (uint64_t k = 0; k < REST; k++)
                positions[used + k] = lists[i].start + counts[i] + k;
            used += high[i] - counts[i];
        }
        int rc = used ? t->ops->fetch(t, positions, used, ids, err) : AETHER_OK;
        if (rc)
            return rc;
        for (uint64_t k = 0; used && k < REST; k++)
            ids[used + k] = ids[0];
        for (uint64_t k = from; used && k < i; k++) {
            const uint64_t rest = high[k] - counts[k];
            uint64_t seen = 0;
            for (uint64_t j = 0; j < REST; j++)
                seen += (j < rest) & (value_at(times, ids[at + j]) <= bounds[k]);
            counts[k] += seen;
            at += rest;
        }
    }
    return AETHER_OK;
}

/* Count the entries of each list with times up to its bound; the searches go step by step together. */
static int count_many(const ae_times *times, const aether_topology *t, const ae_list *lists,
                      const int64_t *bounds, uint64_t n, uint64_t *counts, aether_error *err) {
    uint64_t high[AE_TIMES_MANY], middle[AE_TIMES_MANY], at[AE_TIMES_MANY];
    int64_t found[AE_TIMES_MANY];
    uint32_t open[AE_TIMES_MANY];
    const uint64_t few = few_entries(times, t);
    uint64_t left = 0;
    for (uint64_t i = 0; i < n; i++) {
        counts[i] = 0; /* the lower end of what is searched */
        high[i] = lists[i].degree;
        if (high[i] > few)
            open[left++] = (uint32_t)i;
    }
    while (left) {
        for (uint64_t k = 0; k < left; k++) {
            const uint32_t i = open[k];
            middle[k] = lists[i].start + counts[i] + (high[i] - counts[i]) / 2;
        }
        int rc = times_at(times, t, middle, left, at, found, err);
        if (rc)
            return rc;
        uint64_t kept = 0;
        for (uint64_t k = 0; k < left; k++) {
            const uint32_t i = open[k];
            const uint64_t place = middle[k] - lists[i].start;
            const bool seen = found[k] <= bounds[i];
            counts[i] = seen ? place + 1 : counts[i];
            high[i] = seen ? high[i] : place;
            open[kept] = i;
            kept += counts[i] + few < high[i];
        }
        left = kept;
    }
    if (!few)
        return AETHER_OK;
    return times->by == AE_TIMES_BY_EDGE
               ? count_rests_of_edges(times, t, lists, bounds, n, high, counts, err)
               : count_rests_of_nodes(times, t, lists, bounds, n, high, counts, err);
}

int ae_times_restrict_many(const ae_times *times, const aether_topology *t, const int64_t *since,
                           const int64_t *until, ae_list *lists, uint64_t n, aether_error *err) {
    uint64_t counts[AE_TIMES_MANY];
    int64_t before[AE_TIMES_MANY];
    bool from_beginning = true;
    int rc = count_many(times, t, lists, until, n, counts, err);
    for (uint64_t i = 0; !rc && i < n; i++) {
        lists[i].degree = counts[i];
        from_beginning &= !since || since[i] == INT64_MIN;
    }
    if (rc || from_beginning)
        return rc;
    for (uint64_t i = 0; i < n; i++)
        before[i] = since[i] == INT64_MIN ? INT64_MIN : since[i] - 1;
    rc = count_many(times, t, lists, before, n, counts, err);
    for (uint64_t i = 0; !rc && i < n; i++)
        if (since[i] > INT64_MIN)
            lists[i] = (ae_list){lists[i].start + counts[i], lists[i].degree - counts[i]};
    return rc;
}

/* ---- checking --------------------------------------------------------------- */

#define CHECK_NODES 4096

typedef struct checking {
    ae_times times;
    const aether_topology *t;
    aether_task *task;
    uint64_t worst; /* first bad node found so far */
    int rc;
    aether_error *err;
} checking;

/* The map of doubles puts NaN beyond the infinities. */
static bool is_time(const ae_times *times, int64_t time) {
    return !times->is_double || (time >= ae_time_of_double(-INFINITY) && time <= ae_time_of_double(INFINITY));
}

static int check_node_times(const checking *c, uint64_t node, bool *sorted, aether_error *err) {
    ae_list list;
    int64_t last = INT64_MIN, time = INT64_MIN;
    int rc = c->t->ops->locate(c->t, &node, 1, &list, err);
    *sorted = true;
    for (uint64_t i = 0; !rc && i < list.degree; i++) {
        rc = time_at(&c->times, c->t, list.start + i, &time, err);
        *sorted &= rc || (time >= last && is_time(&c->times, time));
        last = time;
    }
    return rc;
}

static void note_checked_node(checking *c, int rc, uint64_t node, const aether_error *err) {
    int none = AETHER_OK;
    if (rc && __atomic_compare_exchange_n(&c->rc, &none, rc, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        if (c->err)
            *c->err = *err;
        return;
    }
    uint64_t worst = __atomic_load_n(&c->worst, __ATOMIC_RELAXED);
    while (!rc && node < worst &&
           !__atomic_compare_exchange_n(&c->worst, &worst, node, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void check_node_block(void *ctx, uint64_t block, uint32_t worker) {
    (void)worker;
    checking *c = ctx;
    uint64_t from = block * CHECK_NODES, to = from + CHECK_NODES;
    if (to > c->t->num_major)
        to = c->t->num_major;
    if (from > __atomic_load_n(&c->worst, __ATOMIC_RELAXED) || ae_task_cancelled(c->task))
        return;
    for (uint64_t node = from; node < to; node++) {
        aether_error err = {0};
        bool sorted;
        int rc = check_node_times(c, node, &sorted, &err);
        if (rc || !sorted) {
            note_checked_node(c, rc, node, &err);
            return;
        }
    }
    ae_task_add(c->task, to - from);
}

int aether_check_times(const aether_relation *relation, aether_task *task, aether_error *err) {
    const aether_topology *t = relation->topology;
    checking c = {.times = ae_times_of(relation), .t = t, .task = task, .worst = UINT64_MAX, .err = err};
    if (!ae_times_given(&c.times))
        return AETHER_OK;
    if (c.times.by == AE_TIMES_BY_POSITION && !t->ops->times)
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "this graph keeps no times of its own");
    if (!ae_times_known(relation))
        return ae_error_set(err, AETHER_E_INVALID, "times are int64 or float64, of edges or nodes");
    aether_guard();
    ae_task_begin(task, t->num_major);
    ae_pool_run(check_node_block, &c, t->num_major / CHECK_NODES + 1, 0);
    if (c.rc)
        return c.rc;
    if (ae_task_cancelled(task))
        return ae_error_set(err, AETHER_E_CANCELLED, "checking times was cancelled");
    if (c.worst != UINT64_MAX)
        return ae_error_at(err, AETHER_E_INVALID, (int64_t)c.worst, 0,
                           "the list of node %" PRIu64 " is not sorted by time", c.worst);
    return AETHER_OK;
}
