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

static int locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                  aether_error *err) {
    const ae_view *s = ae_view_of(t);
    const ae_root *roots = s->table->roots;
    uint64_t longest = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(&roots[nodes[i + AHEAD]]);
        const uint64_t head = ae_view_head(s, &roots[nodes[i]]), length = ae_head_length(head);
        out[i] = (ae_list){ae_view_start(head), length};
        longest = length > longest ? length : longest;
    }
    return ae_view_check_length(s, longest, err);
}

/* ---- entries ---- */

/* Large lists in two rounds, so that cache misses overlap: directories first, then leaves. */
static void prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
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
static inline __attribute__((always_inline)) int read_entries(const ae_view *s, const uint64_t *positions,
                                                              uint64_t n, uint64_t *ids, uint64_t *edges,
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

static int fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                 aether_error *err) {
    return read_entries(ae_view_of(t), positions, n, ids, NULL, err);
}

static int fetch_edges(const aether_topology *t, uint64_t *positions, uint64_t n, uint64_t *ids,
                       aether_error *err) {
    return read_entries(ae_view_of(t), positions, n, ids, positions, err);
}

/* Copy what one column has at n positions; `out` may be `positions`. Inlined for each column. */
static inline __attribute__((always_inline)) int read_column(const ae_view *s, ae_column which,
                                                             const uint64_t *positions, uint64_t n, void *out,
                                                             aether_error *err) {
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

static int edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                    aether_error *err) {
    const int rc = ae_view_need_edge_ids(ae_view_of(t), err);
    return rc ? rc : read_column(ae_view_of(t), AE_EDGE_IDS, positions, n, out, err);
}

static int weights(const aether_topology *t, const uint64_t *positions, uint64_t n, double *out,
                   aether_error *err) {
    return read_column(ae_view_of(t), AE_WEIGHTS, positions, n, out, err);
}

static int times(const aether_topology *t, const uint64_t *positions, uint64_t n, int64_t *out,
                 aether_error *err) {
    return read_column(ae_view_of(t), AE_TIMES, positions, n, out, err);
}

/* ---- views ---- */

static uint64_t written_from(const ae_table *t, uint64_t node, uint64_t *end);

static uint64_t written(const aether_topology *t, uint64_t node, uint64_t *end) {
    return written_from(ae_view_of(t)->table, node, end);
}

static ae_topology_ops operations(const ae_layout *l) {
    return (ae_topology_ops){.locate = locate,
                             .prefetch = prefetch,
                             .fetch = fetch,
                             .edge_ids = edge_ids,
                             .fetch_edges = l->edge_id_bytes ? fetch_edges : NULL,
                             .weights = l->weight ? weights : NULL,
                             .times = l->time ? times : NULL,
                             .weight_sums = l->weight ? ae_view_weight_sums : NULL,
                             .written = written,
                             .memory = ae_view_memory,
                             .destroy = ae_view_destroy};
}

static void init_view(ae_view *v, const ae_lists *lists, const ae_pin *pin) {
    v->table = &lists->table;
    v->arena = &lists->arena;
    v->below = ae_base_is_there(&lists->base) ? &lists->base : NULL;
    v->near = v->below ? ae_arrays_ids(v->below->given.lists) : NULL;
    v->ops = v->below ? ae_view_ops_over(v) : operations(&lists->table.layout);
    v->pin = pin;
    v->base = (aether_topology){.ops = &v->ops, .end_positions = AE_LIVE_END, .id_bytes = sizeof(uint32_t)};
}

/* Let a view show a commit. */
static void show(ae_view *v, uint32_t layout, const ae_counts *counts, uint64_t epoch) {
    v->epoch = epoch;
    v->end = ae_arena_taken(v->arena);
    v->longest = v->end / sizeof(uint32_t) + (v->below ? v->below->given.lists->num_edges : 0);
    v->base.num_major = layout == AETHER_LIVE_CSC ? counts->num_dst : counts->num_src;
    v->base.num_minor = layout == AETHER_LIVE_CSC ? counts->num_src : counts->num_dst;
    v->base.num_edges = counts->num_edges;
    v->base.end_edge_ids = counts->next_edge_id;
}

/* ---- snapshots ---- */

/* A relation whose numbers were gone when its turn came is read first from then on. So those that change fast
 * get to the front, and there the writer, who needs 63 changes of one of them, is too slow. */
static bool read_counts(aether_snapshot *s) {
    if (!ae_control_lsn(&s->graph->control, s->epoch, &s->lsn))
        return false;
    for (uint32_t i = 0; i < s->graph->control.num_relations; i++) {
        const uint32_t r = s->order[i];
        if (ae_control_counts(&s->graph->control, r, s->epoch, &s->counts[r]))
            continue;
        memmove(s->order + 1, s->order, i * sizeof *s->order);
        s->order[0] = r;
        return false;
    }
    return true;
}

/* Show the commit that is pinned. Where the writer was so fast that its numbers are gone, show a later
 * one; after AE_CONTROL_TRIES of these give up. */
static int show_all(aether_snapshot *s, aether_error *err) {
    const ae_graph *g = s->graph;
    for (uint32_t tries = 1; !read_counts(s); tries++) {
        if (tries == AE_CONTROL_TRIES)
            return ae_error_at(err, AETHER_E_EXPIRED, -1, (int64_t)s->epoch,
                               "the numbers of commit %" PRIu64 " were gone before they could be read, as "
                               "those of %" PRIu32 " commits before: the writer is too fast, or the memory "
                               "of the live graph is damaged",
                               s->epoch, tries - 1);
        s->epoch = ae_pin_renew(s->pin, g->control.committed, g->control.fences);
    }
    for (uint32_t i = 0; i < g->num_lists; i++)
        show(&s->views[i], g->lists[i].layout, &s->counts[g->lists[i].relation], s->epoch);
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
    s->num_views = graph->num_lists;
    s->counts = (ae_counts *)(void *)((uint8_t *)s + views);
    s->order = (uint32_t *)(void *)(s->counts + n);
    for (uint32_t r = 0; r < n; r++)
        s->order[r] = r;
    rc = ae_pin_take(&graph->pins, graph->control.committed, graph->control.fences, &s->pin, &s->epoch, err);
    if (rc) {
        free(s);
        return rc;
    }
    for (uint32_t i = 0; i < graph->num_lists; i++)
        init_view(&s->views[i], &graph->lists[i], s->pin);
    rc = show_all(s, err);
    if (rc)
        aether_snapshot_release(s);
    else
        *out = s;
    return rc;
}

/* What views that rest have for a pin: it is never held. */
static const ae_pin nobodys;

static void set_pin(aether_snapshot *s, ae_pin *pin, const ae_pin *of_views) {
    s->pin = pin;
    for (uint32_t i = 0; i < s->num_views; i++)
        s->views[i].pin = of_views;
}

/* A forked child has its parent's snapshots, too; the slot of one may have become another one's of the child.
 */
static bool has_pin(const aether_snapshot *s) {
    return s->owner == ae_process_self() && ae_pin_is_own(s->pin);
}

int aether_snapshot_renew(aether_snapshot *s, aether_error *err) {
    if (!s->pin) {
        const ae_graph *g = s->graph;
        ae_pin *pin;
        int rc = ae_graph_check_shared(g, s->owner, err);
        if (!rc)
            rc = ae_pin_take(&g->pins, g->control.committed, g->control.fences, &pin, &s->epoch, err);
        if (rc)
            return rc;
        s->owner = ae_process_self();
        set_pin(s, pin, pin);
        return show_all(s, err);
    }
    const ae_control *c = &s->graph->control;
    if (!has_pin(s))
        return ae_error_set(
            err, AETHER_E_UNSUPPORTED,
            "the snapshot was taken by another process, the parent of this one: take one here");
    s->epoch = ae_pin_renew(s->pin, c->committed, c->fences);
    return show_all(s, err);
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
    set_pin(s, NULL, &nobodys);
}

static const ae_view *view_of(const aether_snapshot *s, uint32_t relation, uint32_t layout) {
    const ae_lists *lists = ae_graph_lists(s->graph, relation, layout);
    return lists ? &s->views[lists - s->graph->lists] : NULL;
}

aether_topology *aether_snapshot_topology(const aether_snapshot *s, uint32_t relation, uint32_t layout) {
    if (relation >= s->graph->control.num_relations ||
        (layout != AETHER_LIVE_CSC && layout != AETHER_LIVE_CSR))
        return NULL;
    const ae_view *view = view_of(s, relation, layout);
    return view ? (aether_topology *)&view->base : NULL;
}

int aether_snapshot_describe(const aether_snapshot *s, uint32_t relation, aether_live_commit_info *out,
                             aether_error *err) {
    const int rc = ae_graph_check_relation(s->graph, relation, err);
    if (rc)
        return rc;
    const ae_counts *counts = &s->counts[relation];
    *out = (aether_live_commit_info){.epoch = s->epoch,
                                     .num_src = counts->num_src,
                                     .num_dst = counts->num_dst,
                                     .num_edges = counts->num_edges,
                                     .end_edge_ids = counts->next_edge_id,
                                     .lsn = s->lsn};
    return AETHER_OK;
}

/* ---- what has changed ---- */

#define AT_ONCE 4096 /* nodes between two looks at the task */

/* Return the commit of the version of a list that a view shows. */
static uint64_t epoch_at(const ae_view *s, const ae_root *root) {
    uint64_t past = atomic_load_explicit(&root->past, memory_order_acquire);
    while ((uint32_t)past > s->epoch) {
        const ae_history *h = ae_view_at(s, (ae_ref)(past >> 32), sizeof *h);
        const uint32_t epoch = h ? __atomic_load_n(&h->epoch, __ATOMIC_RELAXED) : 0;
        if (!h || !(past >> 32) || epoch >= (uint32_t)past)
            return 0;
        past = ae_past(epoch, h->next);
    }
    return (uint32_t)past;
}

/* Return the first node from `node` on whose root lies on a page that was ever written, and the end of
 * such pages: reading the others would take memory for them. */
static uint64_t written_from(const ae_table *t, uint64_t node, uint64_t *end) {
    const uint8_t *entries = t->lines ? (const uint8_t *)t->lines : (const uint8_t *)t->roots;
    const uint64_t bytes = t->lines ? sizeof *t->lines / AE_ROOTS_OF_LINE : sizeof(ae_root); /* of a node */
    const uint64_t begin = (uint64_t)(entries - t->memory.data);
    const off_t data = lseek(t->memory.fd, (off_t)(begin + node * bytes), SEEK_DATA);
    if (data < 0)
        return *end = UINT64_MAX; /* ENXIO: there is none */
    const off_t hole = lseek(t->memory.fd, data, SEEK_HOLE);
    *end = hole < 0 ? UINT64_MAX : ((uint64_t)hole - begin + bytes - 1) / bytes;
    const uint64_t first = (uint64_t)data > begin ? ((uint64_t)data - begin) / bytes : 0;
    return first > node ? first : node;
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
    if (since > s->epoch)
        return ae_error_at(err, AETHER_E_RANGE, 0, (int64_t)since,
                           "commit %" PRIu64 " is after that of the snapshot, %" PRIu64, since, s->epoch);
    const uint64_t first = ae_control_first_commit(&s->graph->control);
    if (since && since < first)
        return ae_error_at(err, AETHER_E_UNSUPPORTED, 0, (int64_t)since,
                           "what has changed since commit %" PRIu64
                           " is not known any more: the graph was merged at commit %" PRIu64
                           ", so take all nodes for changed",
                           since, first);
    const ae_view *view = ae_view_of(t);
    ae_task_begin(task, t->num_major);
    uint64_t end = 0;
    for (uint64_t node = 0; node < t->num_major; node++) {
        if (node >= end && (node = written_from(view->table, node, &end)) >= t->num_major)
            break;
        if (node % AT_ONCE == 0 && (rc = ae_task_check(task, "looking for changes", err)))
            return rc;
        const ae_root *root = ae_table_root(view->table, node);
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

int ae_snapshot_has_edge(const aether_snapshot *s, uint32_t relation, uint32_t src, uint32_t dst, bool *found,
                         aether_task *task, aether_error *err) {
    const ae_view *csc = view_of(s, relation, AETHER_LIVE_CSC);
    const ae_view *csr = view_of(s, relation, AETHER_LIVE_CSR);
    const uint64_t major[2] = {dst, src};
    ae_list in = {.degree = UINT64_MAX}, out = {.degree = UINT64_MAX};
    int rc = csc ? csc->base.ops->locate(&csc->base, &major[0], 1, &in, err) : AETHER_OK;
    if (!rc && csr)
        rc = csr->base.ops->locate(&csr->base, &major[1], 1, &out, err);
    *found = false;
    if (rc)
        return rc;
    const bool by_dst = in.degree <= out.degree;
    const ae_view *view = by_dst ? csc : csr;
    const ae_list list = by_dst ? in : out;
    const uint32_t id = by_dst ? src : dst;
    return view->table->order == AETHER_ORDER_ID ? search_sorted(view, list, id, found, err)
                                                 : search_all(view, list, id, found, task, err);
}
