/* Operations of a snapshot's lists over a base: what is the base's is asked of the base, many positions at a
 * time, the rest is read as everywhere (live/view.h). */
#include <inttypes.h>

#include "core/error.h"
#include "live/view.h"
#include "topology/staging.h"

#define SOME         512 /* positions that are looked at together */
#define FAR          32  /* nodes ahead whose entry in the index is prefetched */
#define NEAR         16  /* ... and whose root */
#define VALUES_AHEAD 48  /* positions */

/* ---- lists ---- */

/* The roots of a table, by value: in the table they would be loaded again after each list that is written. */
typedef struct root_view {
    const ae_root *roots;
    _Atomic uint32_t *lines;
    uint64_t end_lines;
} root_view;

static inline uint64_t line_of(const root_view *s, uint64_t node) {
    return atomic_load_explicit(&s->lines[node / AE_ROOTS_OF_LINE], memory_order_acquire);
}

static inline const ae_root *root_in(const root_view *s, uint64_t line, uint64_t node) {
    return &s->roots[line * AE_ROOTS_OF_LINE + node % AE_ROOTS_OF_LINE];
}

/* Return the root of a node for reading: where there is none, one of line 0, which is empty. */
static inline const ae_root *root_to_read(const root_view *s, uint64_t node) {
    const uint64_t line = line_of(s, node);
    return root_in(s, __builtin_expect(line < s->end_lines, 1) ? line : 0, node);
}

/* Return the head of a list. Without a past it never changed: its root is the neighbour of one that has. The
 * past is looked at once, as the writer may just be giving it one. */
static inline uint64_t seen_head(const ae_view *s, ae_stamp stamp, const ae_root *root) {
    const uint64_t head = atomic_load_explicit(&root->head, memory_order_acquire);
    const uint64_t past = atomic_load_explicit(&root->past, memory_order_acquire);
    if (__builtin_expect(ae_stamp_is_after(ae_past_stamp(past), stamp), 0))
        return ae_view_older(s, past);
    return head | (past ? 0 : AE_HEAD_BASE);
}

/* Note the places of nodes whose roots are looked at, and of the others. Whether a list has changed follows
 * no pattern: branches on it would often be wrong. */
static uint64_t divide_nodes(const ae_table *table, const uint64_t *nodes, uint64_t n, uint16_t *marked,
                             uint16_t *others) {
    uint64_t m = 0, k = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i + FAR < n)
            __builtin_prefetch(&table->changed[nodes[i + FAR] / 64]);
        const bool is_marked = ae_table_is_marked(table, nodes[i]);
        marked[m] = others[k] = (uint16_t)i;
        m += is_marked;
        k += !is_marked;
    }
    return m;
}

static int locate_some_over(const ae_view *s, const uint64_t *nodes, uint64_t n, ae_list *out,
                            aether_error *err) {
    const ae_table *table = s->table;
    const root_view roots = {s->roots, table->lines, ae_table_end_lines(s->base.num_major)};
    const ae_stamp stamp = s->now->stamp;
    uint64_t base_nodes[SOME];
    ae_list lists[SOME];
    uint16_t marked[SOME], places[SOME];
    const uint64_t m = divide_nodes(table, nodes, n, marked, places);
    uint64_t k = n - m, longest = 0;
    if (!m)
        return ae_base_locate(s->below, nodes, n, out, err);
    for (uint64_t i = 0; i < k; i++)
        base_nodes[i] = nodes[places[i]];
    for (uint64_t i = 0; i < m; i++) {
        if (i + FAR < m)
            __builtin_prefetch(&roots.lines[nodes[marked[i + FAR]] / AE_ROOTS_OF_LINE]);
        if (i + NEAR < m) {
            const uint64_t coming = nodes[marked[i + NEAR]];
            __builtin_prefetch(root_in(&roots, line_of(&roots, coming), coming));
        }
        const uint64_t node = nodes[marked[i]], head = seen_head(s, stamp, root_to_read(&roots, node));
        const bool is_base = head == AE_HEAD_BASE;
        const uint64_t length = ae_head_length(head) & ((uint64_t)is_base - 1);
        out[marked[i]] = (ae_list){ae_view_start(head), length};
        longest = length > longest ? length : longest;
        base_nodes[k] = node;
        places[k] = marked[i];
        k += is_base;
    }
    if (__builtin_expect(longest > s->longest, 0))
        return ae_view_bad_length(s, longest, err);
    const int rc = k ? ae_base_locate(s->below, base_nodes, k, lists, err) : AETHER_OK;
    for (uint64_t i = 0; !rc && i < k; i++)
        out[places[i]] = lists[i];
    return rc;
}

static int over_locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                       aether_error *err) {
    const ae_view *s = ae_view_of(t);
    int rc = AETHER_OK;
    for (uint64_t done = 0; !rc && done < n; done += SOME)
        rc = locate_some_over(s, nodes + done, n - done < SOME ? n - done : SOME, out + done, err);
    return rc ? rc : ae_view_check(s, err);
}

/* ---- entries ---- */

/* Return the group of an entry, or NULL and its position in the base. */
static inline const uint8_t *resolve_position(const ae_view *s, const ae_reach *r, uint64_t position,
                                              ae_cursor *c, uint32_t *lane, uint64_t *below) {
    if (!(position & AE_LIVE_BIT)) {
        *below = position;
        return NULL;
    }
    const uint8_t *group = ae_view_group(s, r, position, c, lane);
    *below = UINT64_MAX;
    if (!group && ae_position_is_large(position) && ae_cursor_has(c, position))
        *below = c->first + (ae_position_index(position) - c->from);
    return group;
}

static bool all_below(const ae_view *s, const uint64_t *positions, uint64_t n) {
    uint64_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (positions[i] & AE_LIVE_BIT)
            return false;
        largest = positions[i] > largest ? positions[i] : largest;
    }
    return !n || largest < s->below->given.lists->num_edges;
}

/* Positions of the base among those that were asked for. */
typedef struct base_positions {
    uint64_t positions[SOME];
    uint16_t places[SOME];
    uint32_t n;
} base_positions;

static int pick(const ae_view *s, uint64_t position, uint64_t below, uint64_t i, base_positions *p,
                aether_error *err) {
    if (__builtin_expect(below >= s->below->given.lists->num_edges, 0))
        return ae_view_bad_position(s, position, err);
    p->positions[p->n] = below;
    p->places[p->n++] = (uint16_t)i;
    return AETHER_OK;
}

static inline bool is_large(uint64_t position) {
    return position & AE_LIVE_BIT && ae_position_is_large(position);
}

/* Prefetch the directory of a large list. */
AE_PREFETCHES prefetch_directory(const ae_view *s, uint64_t position) {
    __builtin_prefetch(ae_arena_at(s->arena, ae_position_ref(position)));
}

/* Prefetch the leaves of n entries of large lists, or what says of which entries of the base an extent is. */
AE_PREFETCHES prefetch_leaves(const ae_view *s, const uint64_t *positions, uint64_t n) {
    ae_place p = {0};
    uint32_t list = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t index = ae_position_index(positions[i]);
        const uint32_t other = (uint32_t)(positions[i] >> AE_INDEX_BITS);
        if (other == list && index >= p.from && index < p.to)
            continue;
        p = ae_view_place(s, positions[i]);
        list = other;
        __builtin_prefetch(ae_arena_at(s->arena, p.ref & ~AE_EXTENT));
    }
}

/* Prefetch what resolve_position() reads of the lists of n positions, so that the cache misses overlap. */
AE_PREFETCHES prefetch_places(const ae_view *s, const uint64_t *positions, uint64_t n) {
    uint64_t large[SOME], k = 0;
    for (uint64_t i = 0; i < n; i++)
        if (is_large(positions[i])) {
            prefetch_directory(s, positions[i]);
            large[k++] = positions[i];
        }
    prefetch_leaves(s, large, k);
}

/* Short lists first, and directories; then leaves; entries in them come last, and what is the base's. */
static void prefetch_some(const ae_view *s, const uint64_t *positions, uint64_t n) {
    const aether_topology *base = s->below->given.lists;
    const ae_reach r = ae_reach_of(s);
    const uint64_t num_edges = base->num_edges;
    const uint32_t *near = s->near;
    uint64_t below[SOME], large[SOME], num_below = 0, num_large = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t position = positions[i];
        if (is_large(position)) {
            prefetch_directory(s, position);
            large[num_large++] = position;
        } else if (position & AE_LIVE_BIT) {
            ae_reach_prefetch(&r, ae_reach_block(&r, position), ae_position_index(position));
        } else if (near) {
            __builtin_prefetch(&near[position < num_edges ? position : 0]);
        } else {
            below[num_below] = position;
            num_below += position < num_edges;
        }
    }
    prefetch_leaves(s, large, num_large);
    ae_cursor c = {0};
    for (uint64_t i = 0; i < num_large; i++) {
        uint32_t lane;
        const uint8_t *group = resolve_position(s, &r, large[i], &c, &lane, &below[num_below]);
        if (group)
            ae_reach_prefetch(&r, group, lane);
        else
            num_below += below[num_below] < num_edges;
    }
    if (num_below)
        base->ops->prefetch(base, below, num_below);
}

static void over_prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    const ae_view *s = ae_view_of(t);
    if (!s->near && all_below(s, positions, n)) {
        s->below->given.lists->ops->prefetch(s->below->given.lists, positions, n);
        return;
    }
    for (uint64_t done = 0; done < n; done += SOME)
        prefetch_some(s, positions + done, n - done < SOME ? n - done : SOME);
}

/* `edges`: for edge ids, in the place of positions; NULL: they stay. */
static inline __attribute__((always_inline)) int read_some(const ae_view *s, const uint64_t *positions,
                                                           uint64_t n, uint64_t *ids, uint64_t *edges,
                                                           ae_cursor *c, aether_error *err) {
    const ae_reach r = ae_reach_of(s);
    const uint64_t num_minor = s->base.num_minor, num_edges = s->below->given.lists->num_edges;
    uint64_t got[SOME], below[SOME], k = 0;
    uint16_t places[SOME];
    for (uint64_t i = 0; i < n; i++) {
        uint32_t lane;
        const uint64_t position = positions[i];
        const uint8_t *group = resolve_position(s, &r, position, c, &lane, &below[k]);
        if (!group) {
            if (__builtin_expect(below[k] >= num_edges, 0))
                return ae_view_bad_position(s, position, err);
            places[k++] = (uint16_t)i;
            continue;
        }
        const uint64_t id = ids[i] = ae_group_id(group, lane);
        if (__builtin_expect(id >= num_minor, 0))
            return ae_view_bad_id(s, position, id, err);
        if (edges)
            edges[i] = ae_reach_edge_id(&r, group, lane);
    }
    int rc = k ? ae_base_ids(s->below, below, k, got, err) : AETHER_OK;
    for (uint64_t i = 0; !rc && i < k; i++)
        ids[places[i]] = got[i];
    if (!rc && edges && k)
        rc = ae_base_edge_ids(s->below, below, k, got, err);
    for (uint64_t i = 0; !rc && edges && i < k; i++)
        edges[places[i]] = got[i];
    return rc;
}

/* read_some() where the base's ids are an array in memory, and its edge ids, if they are wanted, positions.
 */
static inline __attribute__((always_inline)) int read_near(const ae_view *s, const uint64_t *positions,
                                                           uint64_t n, uint64_t *ids, uint64_t *edges,
                                                           ae_cursor *c, aether_error *err) {
    const aether_topology *base = s->below->given.lists;
    const ae_reach r = ae_reach_of(s);
    const uint32_t *near = s->near;
    const uint64_t num_minor = s->base.num_minor, num_below = base->num_minor, num_edges = base->num_edges;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t position = positions[i];
        uint64_t below;
        uint32_t lane;
        const uint8_t *group = resolve_position(s, &r, position, c, &lane, &below);
        if (group) {
            const uint64_t id = ids[i] = ae_group_id(group, lane);
            if (__builtin_expect(id >= num_minor, 0))
                return ae_view_bad_id(s, position, id, err);
            if (edges)
                edges[i] = ae_reach_edge_id(&r, group, lane);
        } else {
            if (__builtin_expect(below >= num_edges, 0))
                return ae_view_bad_position(s, position, err);
            const uint64_t id = ids[i] = near[below];
            if (__builtin_expect(id >= num_below, 0))
                return ae_base_ids(s->below, &below, 1, &ids[i], err);
            if (edges)
                edges[i] = below;
        }
    }
    return AETHER_OK;
}

static int over_fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                      aether_error *err) {
    const ae_view *s = ae_view_of(t);
    ae_cursor c = {0};
    int rc = AETHER_OK;
    if (s->near) {
        rc = read_near(s, positions, n, ids, NULL, &c, err);
        return rc ? rc : ae_view_check(s, err);
    }
    if (all_below(s, positions, n))
        return ae_base_ids(s->below, positions, n, ids, err);
    for (uint64_t done = 0; !rc && done < n; done += SOME)
        rc = read_some(s, positions + done, n - done < SOME ? n - done : SOME, ids + done, NULL, &c, err);
    return rc ? rc : ae_view_check(s, err);
}

static int over_fetch_edges(const aether_topology *t, uint64_t *positions, uint64_t n, uint64_t *ids,
                            aether_error *err) {
    const ae_view *s = ae_view_of(t);
    ae_cursor c = {0};
    int rc = AETHER_OK;
    if (s->near && s->below->given.lists->edge_ids_are_positions && !s->below->given.edge_ids) {
        rc = read_near(s, positions, n, ids, positions, &c, err);
        return rc ? rc : ae_view_check(s, err);
    }
    if (all_below(s, positions, n)) {
        rc = ae_base_ids(s->below, positions, n, ids, err);
        return rc ? rc : ae_base_edge_ids(s->below, positions, n, positions, err);
    }
    for (uint64_t done = 0; !rc && done < n; done += SOME)
        rc = read_some(s, positions + done, n - done < SOME ? n - done : SOME, ids + done, positions + done,
                       &c, err);
    return rc ? rc : ae_view_check(s, err);
}

/* ---- columns ---- */

static int read_base(const ae_view *s, ae_column which, const uint64_t *positions, uint64_t n, void *out,
                     aether_error *err) {
    if (which == AE_EDGE_IDS)
        return ae_base_edge_ids(s->below, positions, n, out, err);
    if (which == AE_WEIGHTS)
        return ae_base_weights(s->below, positions, n, out, err);
    return ae_base_times(s->below, positions, n, out, err);
}

/* Copy what one column has at n positions; all columns have 8 bytes here. */
static int column_some(const ae_view *s, ae_column which, const uint64_t *positions, uint64_t n,
                       uint64_t *out, ae_cursor *c, aether_error *err) {
    const ae_layout *l = &s->table->layout;
    uint32_t bytes;
    const uint32_t offset = ae_column_offset(l, which, &bytes);
    const ae_reach r = ae_reach_of(s);
    uint64_t got[SOME];
    base_positions p;
    int rc = AETHER_OK;
    prefetch_places(s, positions, n);
    p.n = 0;
    for (uint64_t i = 0; !rc && i < n; i++) {
        uint32_t lane;
        uint64_t below;
        if (i + VALUES_AHEAD < n && positions[i + VALUES_AHEAD] & AE_LIVE_BIT)
            ae_view_prefetch_value(s, positions[i + VALUES_AHEAD], offset, bytes);
        const uint8_t *group = resolve_position(s, &r, positions[i], c, &lane, &below);
        if (!group)
            rc = pick(s, positions[i], below, i, &p, err);
        else
            ae_column_take(l, which, group, lane, out, i);
    }
    if (!rc && p.n)
        rc = read_base(s, which, p.positions, p.n, got, err);
    for (uint32_t i = 0; !rc && i < p.n; i++)
        out[p.places[i]] = got[i];
    return rc;
}

static int read_over_column(const ae_view *s, ae_column which, const uint64_t *positions, uint64_t n,
                            void *out, aether_error *err) {
    ae_cursor c = {0};
    int rc = AETHER_OK;
    if (all_below(s, positions, n))
        return read_base(s, which, positions, n, out, err);
    for (uint64_t done = 0; !rc && done < n; done += SOME)
        rc = column_some(s, which, positions + done, n - done < SOME ? n - done : SOME,
                         (uint64_t *)out + done, &c, err);
    return rc ? rc : ae_view_check(s, err);
}

static int over_edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                         aether_error *err) {
    const int rc = ae_view_need_edge_ids(ae_view_of(t), err);
    return rc ? rc : read_over_column(ae_view_of(t), AE_EDGE_IDS, positions, n, out, err);
}

static int over_weights(const aether_topology *t, const uint64_t *positions, uint64_t n, double *out,
                        aether_error *err) {
    return read_over_column(ae_view_of(t), AE_WEIGHTS, positions, n, out, err);
}

static int over_times(const aether_topology *t, const uint64_t *positions, uint64_t n, int64_t *out,
                      aether_error *err) {
    return read_over_column(ae_view_of(t), AE_TIMES, positions, n, out, err);
}

/* Sums of lists that have not changed are the base's. Their last one is that of the whole list: what comes
 * behind the last block is not told from it, and nobody asks for that one. */
static const ae_weight_sum *weight_sums(const aether_topology *t, ae_list list, uint64_t *blocks) {
    const ae_view *s = ae_view_of(t);
    if (list.start & AE_LIVE_BIT)
        return ae_view_weight_sums(t, list, blocks);
    const aether_weight_sums *sums = atomic_load_explicit(&s->below->sums, memory_order_acquire);
    const bool there = sums && list.degree >= AE_WEIGHT_SUMS_LONG && list.start < sums->num_edges &&
                       list.degree <= sums->num_edges - list.start;
    *blocks = there ? list.degree / AE_WEIGHT_SUMS_BLOCK : 0;
    return there ? sums->table + list.start / AE_WEIGHT_SUMS_BLOCK : NULL;
}

/* ---- many at once ---- */

/* A job that wants something of the arena, too. */
typedef struct mixed_job {
    uint64_t *below;    /* positions in the base, in the order of the job */
    uint64_t *is_below; /* a bit for each entry of the job */
    uint64_t num_below;
} mixed_job;

/* Return a bound of the entries that lie in the base: all of large lists may. */
static uint64_t most_below(const uint64_t *positions, uint64_t n) {
    uint64_t most = 0;
    for (uint64_t i = 0; i < n; i++)
        most += !(positions[i] & AE_LIVE_BIT) || ae_position_is_large(positions[i]);
    return most;
}

/* Note which entries of a job lie in the base, and where. */
static int look(const ae_view *s, const ae_fetch *job, mixed_job *m, aether_error *err) {
    const ae_reach r = ae_reach_of(s);
    ae_cursor c = {0};
    uint64_t bits = 0;
    m->num_below = 0;
    for (uint64_t i = 0; i < job->count; i++) {
        uint32_t lane;
        uint64_t below;
        if (i % SOME == 0)
            prefetch_places(s, job->positions + i, job->count - i < SOME ? job->count - i : SOME);
        if (!resolve_position(s, &r, job->positions[i], &c, &lane, &below)) {
            if (__builtin_expect(below >= s->below->given.lists->num_edges, 0))
                return ae_view_bad_position(s, job->positions[i], err);
            m->below[m->num_below++] = below;
            bits |= UINT64_C(1) << (i % 64);
        }
        if (i % 64 == 63 || i + 1 == job->count) {
            m->is_below[i / 64] = bits;
            bits = 0;
        }
    }
    return AETHER_OK;
}

/* The first ids of a job are now the base's: spread them, from the last one on, and read those of the arena
 * between them. */
static int spread(const ae_view *s, const ae_fetch *job, const mixed_job *m, aether_error *err) {
    const ae_reach r = ae_reach_of(s);
    ae_cursor c = {0};
    uint32_t *ids = job->ids;
    uint64_t left = m->num_below;
    for (uint64_t i = job->count; i-- > 0;) {
        uint32_t lane;
        uint64_t below;
        if (i >= VALUES_AHEAD && job->positions[i - VALUES_AHEAD] & AE_LIVE_BIT)
            ae_view_prefetch_value(s, job->positions[i - VALUES_AHEAD], 0, sizeof *ids);
        if (m->is_below[i / 64] >> (i % 64) & 1) {
            ids[i] = ids[--left];
            continue;
        }
        const uint8_t *group = resolve_position(s, &r, job->positions[i], &c, &lane, &below);
        if (!group)
            return ae_view_bad_position(s, job->positions[i], err); /* the pin has expired */
        const uint64_t id = ids[i] = ae_group_id(group, lane);
        if (__builtin_expect(id >= s->base.num_minor, 0))
            return ae_view_bad_id(s, job->positions[i], id, err);
    }
    return AETHER_OK;
}

/* The base is asked for all jobs at once, so that it reads a page once for all of them. Jobs that want
 * nothing else go to it as they are. */
static int over_fetch_many(const aether_topology *t, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                           aether_task *task, aether_error *err) {
    const ae_view *s = ae_view_of(t);
    const aether_topology *base = s->below->given.lists;
    uint64_t words = 0;
    for (uint32_t j = 0; j < n; j++)
        if (!all_below(s, jobs[j].positions, jobs[j].count))
            words += most_below(jobs[j].positions, jobs[j].count) + (jobs[j].count + 63) / 64;
    const uint64_t head = n * (sizeof(ae_fetch) + sizeof(mixed_job));
    int rc = ae_scratch_reserve(&staging->below, head + words * sizeof(uint64_t), 0, err);
    if (rc)
        return rc;
    ae_fetch *asked = staging->below.data;
    mixed_job *parts = (mixed_job *)(void *)(asked + n);
    uint64_t *room = (uint64_t *)(void *)(parts + n);
    for (uint32_t j = 0; !rc && j < n; j++) {
        asked[j] = jobs[j];
        parts[j].below = NULL;
        if (all_below(s, jobs[j].positions, jobs[j].count))
            continue;
        parts[j].is_below = room;
        parts[j].below = room + (jobs[j].count + 63) / 64;
        rc = look(s, &jobs[j], &parts[j], err);
        asked[j] = (ae_fetch){parts[j].below, parts[j].num_below, jobs[j].ids};
        room = parts[j].below + parts[j].num_below;
    }
    if (!rc)
        rc = ae_view_check(s, err);
    if (!rc)
        rc = base->ops->fetch_many(base, asked, n, staging, task, err);
    for (uint32_t j = 0; !rc && j < n; j++)
        if (parts[j].below)
            rc = spread(s, &jobs[j], &parts[j], err);
    return rc ? rc : ae_view_check(s, err);
}

/* ---- operations ---- */

ae_topology_ops ae_view_ops_over(const ae_view *v) {
    const ae_layout *l = &v->table->layout;
    return (ae_topology_ops){.locate = over_locate,
                             .prefetch = over_prefetch,
                             .fetch = over_fetch,
                             .edge_ids = over_edge_ids,
                             .fetch_edges = l->edge_id_bytes ? over_fetch_edges : NULL,
                             .weights = l->weight ? over_weights : NULL,
                             .times = l->time ? over_times : NULL,
                             .weight_sums = l->weight ? weight_sums : NULL,
                             .fetch_many = v->below->given.lists->ops->fetch_many ? over_fetch_many : NULL,
                             .memory = ae_view_memory,
                             .destroy = ae_view_destroy};
}
