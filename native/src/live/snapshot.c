#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "live/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/error.h"
#include "core/task.h"

#define AHEAD 24 /* roots to prefetch ahead, as in topology/arrays.c */

static const ae_view *cast(const aether_topology *t) {
    return (const ae_view *)(const void *)t;
}

static int check_pin(const ae_view *s, aether_error *err) {
    if (__builtin_expect(ae_pin_held(s->pin, s->epoch), 1))
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_EXPIRED, -1, (int64_t)s->epoch,
                       "the snapshot of commit %" PRIu64
                       " was held too long, and its memory is in use again: take a new one, or raise the "
                       "greatest age of snapshots",
                       s->epoch);
}

/* ---- lists ---- */

/* Return `bytes` of the arena from unit `ref` on, or NULL if they do not exist: an expired pin may
 * lead anywhere. */
static inline const void *at(const ae_view *s, ae_ref ref, uint64_t bytes) {
    const uint64_t offset = (uint64_t)ref * AE_UNIT;
    return bytes <= s->arena->memory.size && offset <= s->arena->memory.size - bytes
               ? s->arena->memory.data + offset
               : NULL;
}

/* Return the head of a version that is older than the root's. Epochs descend from history to
 * history, so the walk ends, whatever an expired pin reads. */
static uint64_t older_head(const ae_view *s, uint64_t past) {
    for (;;) {
        const ae_history *h = at(s, (ae_ref)(past >> 32), sizeof *h);
        if (!(past >> 32) || !h || h->epoch >= (uint32_t)past)
            return 0;
        if (h->epoch <= s->epoch)
            return h->head;
        past = ae_past(h->epoch, h->next);
    }
}

static inline uint64_t head_at(const ae_view *s, const ae_root *root) {
    /* In this order: a new head is never seen without the past that says so. */
    const uint64_t head = atomic_load_explicit(&root->head, memory_order_acquire);
    const uint64_t past = atomic_load_explicit(&root->past, memory_order_acquire);
    return __builtin_expect((uint32_t)past <= s->epoch, 1) ? head : older_head(s, past);
}

static int locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                  aether_error *err) {
    const ae_view *s = cast(t);
    const ae_root *roots = s->table->roots;
    for (uint64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(&roots[nodes[i + AHEAD]]);
        const uint64_t head = head_at(s, &roots[nodes[i]]);
        out[i] =
            (ae_list){AE_LIVE_BIT | (uint64_t)ae_head_place(head) << AE_INDEX_BITS, ae_head_length(head)};
    }
    return check_pin(s, err);
}

/* ---- entries ---- */

/* The leaf, or small block, that was used last: positions often follow each other. */
typedef struct cursor {
    uint32_t place;
    uint32_t from, to; /* entries of the list that `groups` has */
    const uint8_t *groups;
} cursor;

static ae_ref ref_of(uint64_t position) {
    return ae_place_ref((uint32_t)(position >> AE_INDEX_BITS));
}

static uint32_t index_of(uint64_t position) {
    return (uint32_t)position & (AE_LIST_MAX - 1);
}

static inline bool is_large(uint64_t position) {
    return ae_place_is_large((uint32_t)(position >> AE_INDEX_BITS));
}

/* Point the cursor at the leaf of an entry; return false if there is none. What is checked is read
 * once: an expired pin may see it change. */
static bool seek(const ae_view *s, uint64_t position, cursor *c) {
    const uint32_t index = index_of(position);
    const ae_directory *d = at(s, ref_of(position), sizeof *d);
    const uint32_t count = d ? __atomic_load_n(&d->count, __ATOMIC_RELAXED) : 0;
    const uint32_t room = d ? __atomic_load_n(&d->room, __ATOMIC_RELAXED) : 0;
    if (!count || count > room || !at(s, ref_of(position), ae_directory_bytes(room)))
        return false;
    const uint32_t *before = (const uint32_t *)(const void *)(d + 1);
    const ae_ref *leaves = before + room;
    const uint32_t found = ae_directory_find(before, count, index);
    const ae_leaf *leaf = at(s, leaves[found], sizeof *leaf);
    *c = (cursor){.place = (uint32_t)(position >> AE_INDEX_BITS),
                  .from = before[found],
                  .to = found + 1 < count ? before[found + 1] : AE_LIST_MAX,
                  .groups = (const uint8_t *)(leaf + 1)};
    return leaf && index >= c->from;
}

/* Return the group of an entry, or NULL if there is none. */
static inline const uint8_t *group_at(const ae_view *s, uint64_t position, cursor *c, uint32_t *lane) {
    uint32_t index = index_of(position);
    const uint64_t group = s->table->layout.group;
    if (!is_large(position)) {
        *lane = index % AE_GROUP;
        const uint64_t offset = (uint64_t)ref_of(position) * AE_UNIT + index / AE_GROUP * group;
        return offset + group <= s->arena->memory.size ? s->arena->memory.data + offset : NULL;
    }
    if ((c->place != (uint32_t)(position >> AE_INDEX_BITS) || index < c->from || index >= c->to) &&
        !seek(s, position, c))
        return NULL;
    index -= c->from;
    *lane = index % AE_GROUP;
    const uint8_t *found = c->groups + index / AE_GROUP * group;
    return found + group <= s->arena->memory.data + s->arena->memory.size ? found : NULL;
}

/* A position that no version has: made by hand, or read after the pin had expired. */
static int bad_position(const ae_view *s, uint64_t position, aether_error *err) {
    const int rc = check_pin(s, err);
    return rc ? rc
              : ae_error_at(err, AETHER_E_RANGE, (int64_t)position, (int64_t)position,
                            "position %" PRIu64 " is not one of this snapshot's", position);
}

/* Large lists in two rounds, so that cache misses overlap: directories first, then leaves. */
static void prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    const ae_view *s = cast(t);
    cursor c = {0};
    uint32_t lane;
    bool any_large = false;
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *first = ae_arena_at(s->arena, ref_of(positions[i]));
        any_large |= is_large(positions[i]);
        __builtin_prefetch(is_large(positions[i]) ? first
                                                  : first + (uint64_t)(index_of(positions[i]) / AE_GROUP) *
                                                                s->table->layout.group);
    }
    for (uint64_t i = 0; any_large && i < n; i++)
        if (is_large(positions[i])) {
            const uint8_t *group = group_at(s, positions[i], &c, &lane);
            if (group)
                __builtin_prefetch(group);
        }
}

static int bad_id(const ae_view *s, const uint64_t *positions, const uint64_t *ids, uint64_t n,
                  aether_error *err) {
    const int rc = check_pin(s, err);
    return rc ? rc : ae_topology_bad_id(&s->base, positions, ids, n, err);
}

static int fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                 aether_error *err) {
    const ae_view *s = cast(t);
    cursor c = {0};
    uint64_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t lane;
        const uint8_t *group = group_at(s, positions[i], &c, &lane);
        if (__builtin_expect(!group, 0))
            return bad_position(s, positions[i], err);
        ids[i] = ae_group_id(group, lane);
        largest = ids[i] > largest ? ids[i] : largest;
    }
    if (n && largest >= t->num_minor)
        return bad_id(s, positions, ids, n, err);
    return check_pin(s, err);
}

typedef enum column { EDGE_IDS, WEIGHTS, TIMES } column;

/* Copy what one column has at n positions; `out` may be `positions`. Inlined for each column. */
static inline __attribute__((always_inline)) int read_column(const ae_view *s, column which,
                                                             const uint64_t *positions, uint64_t n, void *out,
                                                             aether_error *err) {
    const ae_layout *l = &s->table->layout;
    cursor c = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint32_t lane;
        const uint8_t *group = group_at(s, positions[i], &c, &lane);
        if (__builtin_expect(!group, 0))
            return bad_position(s, positions[i], err);
        if (which == EDGE_IDS)
            ((uint64_t *)out)[i] = ae_group_edge_id(l, group, lane);
        else if (which == WEIGHTS)
            ((double *)out)[i] = (double)ae_group_weight(l, group, lane);
        else
            ((int64_t *)out)[i] = ae_group_time(l, group, lane);
    }
    return check_pin(s, err);
}

static int edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                    aether_error *err) {
    if (!cast(t)->table->layout.edge_id_bytes)
        return ae_error_set(err, AETHER_E_UNSUPPORTED,
                            "the edges of this live graph have no ids: create it with edge_id_bytes 4 or 8");
    return read_column(cast(t), EDGE_IDS, positions, n, out, err);
}

static int weights(const aether_topology *t, const uint64_t *positions, uint64_t n, double *out,
                   aether_error *err) {
    return read_column(cast(t), WEIGHTS, positions, n, out, err);
}

static int times(const aether_topology *t, const uint64_t *positions, uint64_t n, int64_t *out,
                 aether_error *err) {
    return read_column(cast(t), TIMES, positions, n, out, err);
}

/* ---- views ---- */

static uint64_t memory(const aether_topology *t) {
    (void)t;
    return sizeof(ae_view);
}

static void destroy(aether_topology *t) {
    (void)t; /* the snapshot's */
}

static ae_topology_ops operations(const ae_layout *l) {
    return (ae_topology_ops){.locate = locate,
                             .prefetch = prefetch,
                             .fetch = fetch,
                             .edge_ids = edge_ids,
                             .weights = l->weight ? weights : NULL,
                             .times = l->time ? times : NULL,
                             .memory = memory,
                             .destroy = destroy};
}

static void init_view(ae_view *v, const ae_lists *lists, const ae_pin *pin) {
    v->table = &lists->table;
    v->arena = &lists->arena;
    v->ops = operations(&lists->table.layout);
    v->pin = pin;
    v->base = (aether_topology){.ops = &v->ops, .end_positions = AE_LIVE_END, .id_bytes = sizeof(uint32_t)};
}

/* Let a view show a commit. */
static void show(ae_view *v, uint32_t layout, const ae_counts *counts, uint64_t epoch) {
    v->epoch = epoch;
    v->base.num_major = layout == AETHER_LIVE_CSC ? counts->num_dst : counts->num_src;
    v->base.num_minor = layout == AETHER_LIVE_CSC ? counts->num_src : counts->num_dst;
    v->base.num_edges = counts->num_edges;
    v->base.end_edge_ids = counts->next_edge_id;
}

/* ---- snapshots ---- */

static bool read_counts(aether_snapshot *s) {
    bool good = true;
    for (uint32_t r = 0; good && r < s->graph->control.num_relations; r++)
        good = ae_control_counts(&s->graph->control, r, s->epoch, &s->counts[r]);
    return good;
}

/* Show the commit that is pinned. Where the writer was so fast that its numbers are gone, show a later
 * one. */
static void show_all(aether_snapshot *s) {
    const ae_graph *g = s->graph;
    while (!read_counts(s))
        s->epoch = ae_pin_renew(s->pin, g->control.committed, g->control.fences);
    for (uint32_t i = 0; i < g->num_lists; i++)
        show(&s->views[i], g->lists[i].layout, &s->counts[g->lists[i].relation], s->epoch);
}

int ae_snapshot_create(const ae_graph *graph, aether_snapshot **out, aether_error *err) {
    const uint64_t views = sizeof(aether_snapshot) + graph->num_lists * sizeof(ae_view);
    aether_snapshot *s = calloc(1, views + graph->control.num_relations * sizeof(ae_counts));
    *out = NULL;
    if (!s)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a snapshot");
    s->graph = graph;
    s->counts = (ae_counts *)(void *)((uint8_t *)s + views);
    const int rc =
        ae_pin_take(&graph->pins, graph->control.committed, graph->control.fences, &s->pin, &s->epoch, err);
    if (rc) {
        free(s);
        return rc;
    }
    for (uint32_t i = 0; i < graph->num_lists; i++)
        init_view(&s->views[i], &graph->lists[i], s->pin);
    show_all(s);
    *out = s;
    return AETHER_OK;
}

int aether_snapshot_renew(aether_snapshot *s, aether_error *err) {
    const ae_control *c = &s->graph->control;
    if (!ae_pin_is_own(s->pin))
        return ae_error_set(
            err, AETHER_E_UNSUPPORTED,
            "the snapshot was taken by another process, the parent of this one: take one here");
    s->epoch = ae_pin_renew(s->pin, c->committed, c->fences);
    show_all(s);
    return AETHER_OK;
}

void aether_snapshot_release(aether_snapshot *s) {
    if (!s)
        return;
    ae_pin_release(s->pin);
    free(s);
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
                                     .end_edge_ids = counts->next_edge_id};
    return AETHER_OK;
}

/* ---- what has changed ---- */

#define AT_ONCE 4096 /* nodes between two looks at the task */

/* Return the commit of the version of a list that a view shows. */
static uint64_t epoch_at(const ae_view *s, const ae_root *root) {
    uint64_t past = atomic_load_explicit(&root->past, memory_order_acquire);
    while ((uint32_t)past > s->epoch) {
        const ae_history *h = at(s, (ae_ref)(past >> 32), sizeof *h);
        if (!(past >> 32) || !h || h->epoch >= (uint32_t)past)
            return 0;
        past = ae_past(h->epoch, h->next);
    }
    return (uint32_t)past;
}

/* Return the first node from `node` on whose root lies on a page that was ever written, and the end of
 * such pages: reading the others would take memory for them. */
static uint64_t written_from(const ae_table *t, uint64_t node, uint64_t *end) {
    const uint64_t roots = (uint64_t)((const uint8_t *)t->roots - t->memory.data);
    const off_t data = lseek(t->memory.fd, (off_t)(roots + node * sizeof(ae_root)), SEEK_DATA);
    if (data < 0)
        return *end = UINT64_MAX; /* ENXIO: there is none */
    const off_t hole = lseek(t->memory.fd, data, SEEK_HOLE);
    *end = hole < 0 ? UINT64_MAX : ((uint64_t)hole - roots + sizeof(ae_root) - 1) / sizeof(ae_root);
    const uint64_t first = (uint64_t)data > roots ? ((uint64_t)data - roots) / sizeof(ae_root) : 0;
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
    const ae_view *view = cast(t);
    ae_task_begin(task, t->num_major);
    uint64_t end = 0;
    for (uint64_t node = 0; node < t->num_major; node++) {
        if (node >= end && (node = written_from(view->table, node, &end)) >= t->num_major)
            break;
        if (node % AT_ONCE == 0 && (rc = ae_task_check(task, "looking for changes", err)))
            return rc;
        if (epoch_at(view, &view->table->roots[node]) <= since)
            continue;
        if (*count < capacity)
            nodes[*count] = (int64_t)node;
        ++*count;
    }
    return check_pin(view, err);
}

/* ---- looking for an edge ---- */

#define SEARCH 256

static int search_all(const ae_view *s, ae_list list, uint32_t id, bool *found, aether_error *err) {
    uint64_t positions[SEARCH], ids[SEARCH];
    int rc = AETHER_OK;
    for (uint64_t done = 0; !rc && !*found && done < list.degree;) {
        const uint64_t n = list.degree - done < SEARCH ? list.degree - done : SEARCH;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + done + i;
        rc = fetch(&s->base, positions, n, ids, err);
        for (uint64_t i = 0; !rc && i < n; i++)
            *found |= ids[i] == id;
        done += n;
    }
    return rc;
}

static int search_sorted(const ae_view *s, ae_list list, uint32_t id, bool *found, aether_error *err) {
    uint64_t low = 0, high = list.degree;
    int rc = AETHER_OK;
    while (!rc && low < high) {
        const uint64_t middle = low + (high - low) / 2, position = list.start + middle;
        uint64_t other = 0;
        rc = fetch(&s->base, &position, 1, &other, err);
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
                         aether_error *err) {
    const ae_view *csc = view_of(s, relation, AETHER_LIVE_CSC);
    const ae_view *csr = view_of(s, relation, AETHER_LIVE_CSR);
    const uint64_t major[2] = {dst, src};
    ae_list in = {.degree = UINT64_MAX}, out = {.degree = UINT64_MAX};
    int rc = csc ? locate(&csc->base, &major[0], 1, &in, err) : AETHER_OK;
    if (!rc && csr)
        rc = locate(&csr->base, &major[1], 1, &out, err);
    *found = false;
    if (rc)
        return rc;
    const bool by_dst = in.degree <= out.degree;
    const ae_view *view = by_dst ? csc : csr;
    const ae_list list = by_dst ? in : out;
    const uint32_t id = by_dst ? src : dst;
    return view->table->order == AETHER_ORDER_ID ? search_sorted(view, list, id, found, err)
                                                 : search_all(view, list, id, found, err);
}
