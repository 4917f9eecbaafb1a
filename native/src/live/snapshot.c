#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/task.h"
#include "live/view.h"
#include "os/process.h"
#include "topology/arrays.h"

#define AHEAD        24 /* roots to prefetch ahead, as in topology/arrays.c */
#define VALUES_AHEAD 48 /* positions */

/* ---- lists in the arena ---- */

static int snapshot_locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                           aether_error *err) {
    const ae_view *s = ae_view_of(t);
    const ae_root *roots = s->roots;
    const ae_stamp stamp = s->now->stamp;
    uint64_t longest = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(&roots[nodes[i + AHEAD]]);
        const uint64_t head = ae_view_head(s, stamp, &roots[nodes[i]]), length = ae_head_length(head);
        out[i] = (ae_list){ae_view_start(head), length};
        longest = length > longest ? length : longest;
    }
    return ae_view_check_length(s, longest, err);
}

/* ---- entries ---- */

/* Large lists in two rounds, so that cache misses overlap: directories first, then leaves. */
static void snapshot_prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    const ae_view *s = ae_view_of(t);
    const ae_reach r = ae_reach_of(s);
    ae_cursor c = {0};
    uint32_t lane;
    bool any_large = false;
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *first = ae_reach_block(&r, positions[i]);
        any_large |= ae_position_is_large(positions[i]);
        if (ae_position_is_large(positions[i]))
            __builtin_prefetch(first);
        else
            ae_reach_prefetch(&r, first, ae_position_index(positions[i]));
    }
    for (uint64_t i = 0; any_large && i < n; i++)
        if (ae_position_is_large(positions[i])) {
            const uint8_t *group = ae_view_group(s, &r, positions[i], &c, &lane);
            if (group)
                ae_reach_prefetch(&r, group, lane);
        }
}

/* `edges`: for edge ids, in the place of positions; NULL: they stay. */
static inline __attribute__((always_inline)) int read_arena_entries(const ae_view *s,
                                                                    const uint64_t *positions, uint64_t n,
                                                                    uint64_t *ids, uint64_t *edges,
                                                                    aether_error *err) {
    const ae_reach r = ae_reach_of(s);
    const uint64_t num_minor = s->base.num_minor;
    ae_cursor c = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint32_t lane;
        const uint64_t position = positions[i];
        const uint8_t *group = ae_view_group(s, &r, position, &c, &lane);
        if (__builtin_expect(!group, 0))
            return ae_view_bad_position(s, position, err);
        const uint64_t id = ids[i] = ae_group_id(group, lane);
        if (__builtin_expect(id >= num_minor, 0))
            return ae_view_bad_id(s, position, id, err);
        if (edges)
            edges[i] = ae_reach_edge_id(&r, group, lane);
    }
    return ae_view_check(s, err);
}

static int snapshot_fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                          aether_error *err) {
    return read_arena_entries(ae_view_of(t), positions, n, ids, NULL, err);
}

static int snapshot_fetch_edges(const aether_topology *t, uint64_t *positions, uint64_t n, uint64_t *ids,
                                aether_error *err) {
    return read_arena_entries(ae_view_of(t), positions, n, ids, positions, err);
}

/* Copy what one column has at n positions; `out` may be `positions`. Inlined for each column. */
static inline __attribute__((always_inline)) int read_arena_column(const ae_view *s, ae_column which,
                                                                   const uint64_t *positions, uint64_t n,
                                                                   void *out, aether_error *err) {
    const ae_layout *l = &s->table->layout;
    uint32_t bytes;
    const uint32_t offset = ae_column_offset(l, which, &bytes);
    const ae_reach r = ae_reach_of(s);
    ae_cursor c = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint32_t lane;
        if (i + VALUES_AHEAD < n)
            ae_view_prefetch_value(s, positions[i + VALUES_AHEAD], offset, bytes);
        const uint8_t *group = ae_view_group(s, &r, positions[i], &c, &lane);
        if (__builtin_expect(!group, 0))
            return ae_view_bad_position(s, positions[i], err);
        ae_column_take(l, which, group, lane, out, i);
    }
    return ae_view_check(s, err);
}

static int snapshot_edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                             aether_error *err) {
    const int rc = ae_view_need_edge_ids(ae_view_of(t), err);
    return rc ? rc : read_arena_column(ae_view_of(t), AE_EDGE_IDS, positions, n, out, err);
}

static int snapshot_weights(const aether_topology *t, const uint64_t *positions, uint64_t n, double *out,
                            aether_error *err) {
    return read_arena_column(ae_view_of(t), AE_WEIGHTS, positions, n, out, err);
}

static int snapshot_times(const aether_topology *t, const uint64_t *positions, uint64_t n, int64_t *out,
                          aether_error *err) {
    return read_arena_column(ae_view_of(t), AE_TIMES, positions, n, out, err);
}

/* ---- views ---- */

static uint64_t written(const aether_topology *t, uint64_t node, uint64_t *end) {
    return ae_table_written(ae_view_of(t)->table, node, end);
}

static ae_topology_ops operations(const ae_layout *l) {
    return (ae_topology_ops){.locate = snapshot_locate,
                             .prefetch = snapshot_prefetch,
                             .fetch = snapshot_fetch,
                             .edge_ids = snapshot_edge_ids,
                             .fetch_edges = l->edge_id_bytes ? snapshot_fetch_edges : NULL,
                             .weights = l->weight ? snapshot_weights : NULL,
                             .times = l->time ? snapshot_times : NULL,
                             .weight_sums = l->weight ? ae_view_weight_sums : NULL,
                             .written = written,
                             .memory = ae_view_memory,
                             .destroy = ae_view_destroy};
}

void ae_view_init(ae_view *v, const ae_lists *lists, const ae_moment *now) {
    v->table = &lists->table;
    v->arena = &lists->arena;
    v->below = ae_base_is_there(&lists->base) ? &lists->base : NULL;
    v->near = v->below ? ae_arrays_ids(v->below->given.lists) : NULL;
    v->ops = v->below ? ae_view_ops_over(v) : operations(&lists->table.layout);
    v->now = now;
    v->base = (aether_topology){.ops = &v->ops, .end_positions = AE_LIVE_END, .id_bytes = sizeof(uint32_t)};
}

int ae_view_show(ae_view *v, uint32_t layout, const ae_counts *counts, aether_error *err) {
    v->end = ae_arena_taken(v->arena);
    v->longest = v->end / sizeof(uint32_t) + (v->below ? v->below->given.lists->num_edges : 0);
    v->base.num_major = layout == AETHER_LIVE_CSC ? counts->num_dst : counts->num_src;
    v->base.num_minor = layout == AETHER_LIVE_CSC ? counts->num_src : counts->num_dst;
    v->base.num_edges = counts->num_edges;
    v->base.end_edge_ids = counts->next_edge_id;
    v->roots = ae_table_reach(v->table, v->base.num_major, err);
    return v->roots ? AETHER_OK : AETHER_E_NO_MEMORY;
}

/* ---- snapshots ---- */

const ae_view *ae_snapshot_view(const aether_snapshot *s, uint32_t relation, uint32_t layout) {
    const ae_lists *lists = ae_graph_lists(s->graph, relation, layout);
    return lists ? &s->views[lists - s->graph->lists] : NULL;
}

/* Read the numbers of a relation at a commit, and let its views show them. AETHER_E_EXPIRED: they are gone.
 */
static int read_relation(aether_snapshot *s, uint32_t r, uint64_t commit, aether_error *err) {
    if (!ae_control_counts(&s->graph->control, r, commit, &s->counts[r]))
        return AETHER_E_EXPIRED;
    int rc = AETHER_OK;
    for (uint32_t layout = AETHER_LIVE_CSC; !rc && layout <= AETHER_LIVE_CSR; layout++) {
        const ae_lists *lists = ae_graph_lists(s->graph, r, layout);
        if (lists)
            rc = ae_view_show(&s->views[lists - s->graph->lists], layout, &s->counts[r], err);
    }
    return rc;
}

/* A relation whose numbers were gone when its turn came is read first from then on. So those that change fast
 * get to the front, and there the writer, who needs 63 changes of one of them, is too slow. */
static int read_relations(aether_snapshot *s, uint64_t commit, aether_error *err) {
    for (uint32_t i = 0; i < s->graph->control.num_relations; i++) {
        const uint32_t r = s->order[i];
        const int rc = read_relation(s, r, commit, err);
        if (!rc)
            continue;
        memmove(s->order + 1, s->order, i * sizeof *s->order);
        s->order[0] = r;
        return rc;
    }
    return AETHER_OK;
}

/* Read the relations that have changed behind change `seen`, or all where those are more, or not known. */
static int read_changed(aether_snapshot *s, uint64_t seen, uint64_t changes, uint64_t commit,
                        aether_error *err) {
    const ae_control *c = &s->graph->control;
    if (!seen || changes < seen || changes - seen >= c->num_relations)
        return read_relations(s, commit, err);
    for (; seen < changes; seen++) {
        const uint32_t r = ae_control_changed(c, seen);
        if (r == UINT32_MAX)
            return read_relations(s, commit, err);
        const int rc = read_relation(s, r, commit, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

int ae_snapshot_pin_later(const ae_control *c, ae_pin *pin, uint32_t tries, uint64_t *commit,
                          aether_error *err) {
    if (tries == AE_CONTROL_TRIES)
        return ae_error_at(err, AETHER_E_EXPIRED, -1, (int64_t)*commit,
                           "the numbers of commit %" PRIu64 " were gone before they could be read, as "
                           "those of %" PRIu32 " commits before: the writer is too fast, or the memory "
                           "of the live graph is damaged",
                           *commit, tries - 1);
    *commit = ae_pin_renew(pin, c->committed, c->fences);
    return AETHER_OK;
}

/* Show the commit that is pinned, or a later one where the writer was so fast that its numbers are gone. */
static int show_commit(aether_snapshot *s, uint64_t commit, aether_error *err) {
    const ae_control *c = &s->graph->control;
    const uint64_t seen = s->now.commit ? s->at.changes : 0;
    s->now.commit = 0;
    for (uint32_t tries = 1;; tries++) {
        int rc = ae_control_at(c, commit, &s->at) ? read_changed(s, seen, s->at.changes, commit, err)
                                                  : AETHER_E_EXPIRED;
        if (!rc)
            break;
        if (rc == AETHER_E_EXPIRED)
            rc = ae_snapshot_pin_later(c, s->pin, tries, &commit, err);
        if (rc)
            return rc;
    }
    s->now.commit = commit;
    s->now.stamp = ae_stamp_of(commit);
    return AETHER_OK;
}

int ae_snapshot_create(const ae_graph *graph, aether_snapshot **out, aether_error *err) {
    const uint64_t views = sizeof(aether_snapshot) + graph->num_lists * sizeof(ae_view);
    *out = NULL;
    int rc = ae_graph_check_bases(graph, err);
    if (rc)
        return rc;
    const uint32_t n = graph->control.num_relations;
    aether_snapshot *s = calloc(1, views + n * (sizeof(ae_counts) + sizeof(uint32_t)));
    if (!s)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a snapshot");
    s->graph = graph;
    s->owner = ae_process_self();
    s->counts = (ae_counts *)(void *)((uint8_t *)s + views);
    s->order = (uint32_t *)(void *)(s->counts + n);
    for (uint32_t r = 0; r < n; r++)
        s->order[r] = r;
    uint64_t commit;
    rc = ae_pin_take(&graph->pins, graph->control.committed, graph->control.fences, &s->pin, &commit, err);
    if (rc) {
        free(s);
        return rc;
    }
    for (uint32_t i = 0; i < graph->num_lists; i++)
        ae_view_init(&s->views[i], &graph->lists[i], &s->now);
    s->now.pin = s->pin;
    rc = show_commit(s, commit, err);
    if (rc)
        aether_snapshot_release(s);
    else
        *out = s;
    return rc;
}

/* What a snapshot that rests has for a pin: it is never held. */
static const ae_pin nobodys;

/* A forked child has its parent's snapshots, too; the slot of one may have become another one's of the child.
 */
static bool has_pin(const aether_snapshot *s) {
    return s->owner == ae_process_self() && ae_pin_is_own(s->pin);
}

int aether_snapshot_renew(aether_snapshot *s, aether_error *err) {
    if (!s->pin) {
        const ae_graph *g = s->graph;
        uint64_t commit;
        int rc = ae_graph_check_shared(g, s->owner, err);
        if (!rc)
            rc = ae_pin_take(&g->pins, g->control.committed, g->control.fences, &s->pin, &commit, err);
        if (rc)
            return rc;
        s->owner = ae_process_self();
        s->now.pin = s->pin;
        return show_commit(s, commit, err);
    }
    const ae_control *c = &s->graph->control;
    if (!has_pin(s))
        return ae_error_set(
            err, AETHER_E_UNSUPPORTED,
            "the snapshot was taken by another process, the parent of this one: take one here");
    return show_commit(s, ae_pin_renew(s->pin, c->committed, c->fences), err);
}

void aether_snapshot_release(aether_snapshot *s) {
    if (!s)
        return;
    if (s->pin && has_pin(s))
        ae_pin_release(s->pin);
    free(s);
}

void aether_snapshot_rest(aether_snapshot *s) {
    if (!s->pin)
        return;
    if (has_pin(s))
        ae_pin_release(s->pin);
    s->pin = NULL;
    s->now.pin = &nobodys;
}

aether_topology *aether_snapshot_topology(const aether_snapshot *s, uint32_t relation, uint32_t layout) {
    if (relation >= s->graph->control.num_relations ||
        (layout != AETHER_LIVE_CSC && layout != AETHER_LIVE_CSR))
        return NULL;
    const ae_view *view = ae_snapshot_view(s, relation, layout);
    return view ? (aether_topology *)&view->base : NULL;
}

int aether_snapshot_describe(const aether_snapshot *s, uint32_t relation, aether_live_commit_info *out,
                             aether_error *err) {
    const int rc = ae_graph_check_relation(s->graph, relation, err);
    if (rc)
        return rc;
    const ae_counts *counts = &s->counts[relation];
    *out = (aether_live_commit_info){.epoch = s->now.commit,
                                     .num_src = counts->num_src,
                                     .num_dst = counts->num_dst,
                                     .num_edges = counts->num_edges,
                                     .end_edge_ids = counts->next_edge_id,
                                     .lsn = s->at.lsn};
    return AETHER_OK;
}

/* ---- what has changed ---- */

#define AT_ONCE 4096 /* nodes between two looks at the task */

/* Return the commit of the version of a list that a view shows. */
static uint64_t epoch_at(const ae_view *s, const ae_root *root) {
    uint64_t past = atomic_load_explicit(&root->past, memory_order_acquire);
    int32_t later;
    while (past && (later = ae_stamp_distance(s->now->stamp, ae_past_stamp(past))) > 0) {
        const ae_history *h = ae_view_at(s, ae_past_history(past), sizeof *h);
        const ae_stamp stamp = h ? __atomic_load_n(&h->stamp, __ATOMIC_RELAXED) : 0;
        if (!h || !ae_past_history(past) || ae_stamp_distance(s->now->stamp, stamp) >= later)
            return 0;
        past = ae_past(stamp, h->next);
    }
    return past ? s->now->commit - (uint64_t) - (int64_t)later : 0;
}

int aether_snapshot_changed(const aether_snapshot *s, uint32_t relation, uint32_t layout, uint64_t since,
                            int64_t *nodes, uint64_t capacity, uint64_t *count, aether_task *task,
                            aether_error *err) {
    *count = 0;
    int rc = ae_graph_check_relation(s->graph, relation, err);
    if (rc)
        return rc;
    const aether_topology *t = aether_snapshot_topology(s, relation, layout);
    if (!t)
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "the live graph does not store that layout");
    if (since > s->now.commit)
        return ae_error_at(err, AETHER_E_RANGE, 0, (int64_t)since,
                           "commit %" PRIu64 " is after that of the snapshot, %" PRIu64, since,
                           s->now.commit);
    const uint64_t first = s->graph->control.first_commit;
    if (since && since < first)
        return ae_error_at(err, AETHER_E_UNSUPPORTED, 0, (int64_t)since,
                           "what has changed since commit %" PRIu64
                           " is not known any more: the graph was merged at commit %" PRIu64
                           ", so take all nodes for changed",
                           since, first);
    if (since > first && s->now.commit - since > AE_STAMP_REACH)
        return ae_error_at(err, AETHER_E_UNSUPPORTED, 0, (int64_t)since,
                           "what has changed since commit %" PRIu64 " is not known any more: that is %" PRIu64
                           " commits ago, and changes are known of %" PRIu64
                           ", so take all nodes for changed",
                           since, s->now.commit - since, AE_STAMP_REACH);
    const ae_view *view = ae_view_of(t);
    ae_task_begin(task, t->num_major);
    uint64_t end = 0;
    for (uint64_t node = 0; node < t->num_major; node++) {
        if (node >= end && (node = ae_table_written(view->table, node, &end)) >= t->num_major)
            break;
        if (node % AT_ONCE == 0 && (rc = ae_task_check(task, "looking for changes", err)))
            return rc;
        const ae_root *root = ae_view_root(view, node);
        if (!root || epoch_at(view, root) <= since)
            continue;
        if (*count < capacity)
            nodes[*count] = (int64_t)node;
        ++*count;
    }
    return ae_view_check(view, err);
}

/* ---- looking for an edge ---- */

#define SEARCH 256

static int search_all(const ae_view *s, ae_list list, uint32_t id, bool *found, aether_task *task,
                      aether_error *err) {
    uint64_t positions[SEARCH], ids[SEARCH];
    int rc = AETHER_OK;
    for (uint64_t done = 0; !rc && !*found && done < list.degree;) {
        const uint64_t n = list.degree - done < SEARCH ? list.degree - done : SEARCH;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + done + i;
        rc = s->base.ops->fetch(&s->base, positions, n, ids, err);
        for (uint64_t i = 0; !rc && i < n; i++)
            *found |= ids[i] == id;
        done += n;
        if (!rc && done % AE_TASK_ITEMS == 0)
            rc = ae_task_check(task, "looking for edges", err);
    }
    return rc;
}

static int search_sorted(const ae_view *s, ae_list list, uint32_t id, bool *found, aether_error *err) {
    uint64_t low = 0, high = list.degree;
    int rc = AETHER_OK;
    while (!rc && low < high) {
        const uint64_t middle = low + (high - low) / 2, position = list.start + middle;
        uint64_t other = 0;
        rc = s->base.ops->fetch(&s->base, &position, 1, &other, err);
        if (!rc && other == id) {
            *found = true;
            break;
        }
        if (other < id)
            low = middle + 1;
        else
            high = middle;
    }
    return rc;
}

int ae_view_has_edge(const ae_view *csc, const ae_view *csr, uint32_t src, uint32_t dst, uint64_t most,
                     bool *found, aether_task *task, aether_error *err) {
    const uint64_t major[2] = {dst, src};
    ae_list in = {.degree = UINT64_MAX}, out = {.degree = UINT64_MAX};
    int rc = csc ? csc->base.ops->locate(&csc->base, &major[0], 1, &in, err) : AETHER_OK;
    if (!rc && csr)
        rc = csr->base.ops->locate(&csr->base, &major[1], 1, &out, err);
    *found = false;
    if (rc)
        return rc;
    const bool by_dst = csc && (!csr || in.degree <= out.degree);
    const ae_view *view = by_dst ? csc : csr;
    if (!view) /* no relation is without lists */
        return AETHER_OK;
    const ae_list list = by_dst ? in : out;
    const uint32_t id = by_dst ? src : dst;
    if (view->table->order == AETHER_ORDER_ID)
        return search_sorted(view, list, id, found, err);
    if (list.degree > most)
        return ae_error_at(err, AETHER_E_LIMIT, -1, (int64_t)list.degree,
                           "a list of %" PRIu64 " entries by time would be read whole: take a snapshot, and "
                           "ask it by aether_snapshot_has_edges(), which can be ended",
                           list.degree);
    return search_all(view, list, id, found, task, err);
}
