#include "live/insert.h"

#include <sched.h>
#include <stdlib.h>

#include "core/pool.h"
#include "live/edit.h"

#define FAR       32    /* edges ahead whose roots are prefetched */
#define NEAR      16    /* ... and what they read of their lists */
#define CLOSE     8     /* ... and of the leaves of long sorted ones */
#define LINE      64    /* bytes of a cache line */
#define MOST      128   /* entries of a block that are prefetched: those behind follow by themselves */
#define DIRECTORY 256   /* bytes of a directory that are prefetched */
#define SHORT     64    /* entries of a block that grows the quick way: one of twice as many has no sums */
#define CHUNK     1024  /* edges that go into one layout before they go into the other */
#define MANY      32768 /* edges from which on two threads are worth it */

/* What most entries need of a writer, by value: it would be loaded again after each store. */
typedef struct quick_writer {
    ae_root *roots;
    const _Atomic uint32_t *lines;
    uint8_t *arena;
    ae_layout layout;
    uint64_t commit;
    ae_stamp stamp;
    bool sorted;
} quick_writer;

static inline quick_writer quick_of(const ae_writer *w) {
    return (quick_writer){.roots = w->table->roots,
                          .lines = w->table->lines,
                          .arena = w->arena->memory.data,
                          .layout = w->table->layout,
                          .commit = w->commit,
                          .stamp = w->stamp,
                          .sorted = ae_blocks_sorted(w)};
}

static inline ae_root *quick_root(const quick_writer *q, uint64_t node) {
    if (__builtin_expect(!q->lines, 1))
        return &q->roots[node];
    const uint32_t line = atomic_load_explicit(&q->lines[node / AE_ROOTS_OF_LINE], memory_order_relaxed);
    return line ? &q->roots[(uint64_t)line * AE_ROOTS_OF_LINE + node % AE_ROOTS_OF_LINE] : NULL;
}

static inline uint8_t *arena_at(const quick_writer *q, ae_ref ref) {
    return q->arena + (uint64_t)ref * AE_UNIT;
}

/* ---- looking ahead ---- */

AE_PREFETCHES prefetch_lines(const uint8_t *at, uint64_t bytes) {
    const uintptr_t end = (uintptr_t)at + bytes;
    for (uintptr_t line = (uintptr_t)at & ~(uintptr_t)(LINE - 1); line < end; line += LINE)
        __builtin_prefetch((const void *)line, 1);
}

/* Prefetch what putting an entry into a list reads and writes of it. */
AE_PREFETCHES prefetch_list(const quick_writer *q, uint64_t head) {
    const ae_layout *l = &q->layout;
    const uint32_t n = ae_head_length(head);
    const uint8_t *block = arena_at(q, ae_place_ref(ae_head_place(head)));
    if (!n || head == AE_HEAD_BASE)
        return;
    if (ae_place_is_large(ae_head_place(head)))
        prefetch_lines(block, DIRECTORY);
    else if (q->sorted || (n % AE_GROUP == 0 && n == ae_room(n))) /* it is copied, and searched before that */
        prefetch_lines(block, ae_groups_bytes(l, n < MOST ? ae_room(n) : MOST));
    else /* the last entry tells whether another one may come behind it */
        prefetch_lines(block + (uint64_t)((n - !!l->time) / AE_GROUP) * l->group,
                       n % AE_GROUP || !l->time ? l->group : 2 * l->group);
}

static inline uint64_t quick_head(const quick_writer *q, uint64_t node) {
    const ae_root *root = quick_root(q, node);
    return root ? atomic_load_explicit(&root->head, memory_order_relaxed) : 0;
}

/* Prefetch the leaf of a long sorted list that an id goes into. */
AE_PREFETCHES prefetch_leaf(const ae_writer *w, uint64_t head, uint32_t id) {
    if (head == AE_HEAD_BASE || !ae_place_is_large(ae_head_place(head)))
        return;
    ae_directory *d = ae_blocks_directory(w, head);
    const uint32_t c = ae_find_leaf(d, id), n = ae_blocks_leaf_size(d, c, ae_head_length(head));
    const ae_ref ref = ae_directory_leaves(d)[c];
    if (!ae_ref_is_extent(ref))
        prefetch_lines((const uint8_t *)ae_blocks_leaf(w, ref),
                       ae_leaf_bytes(ae_blocks_layout(w), ae_room(n < MOST ? n : MOST)));
}

/* Prefetch for the edges that come next, so that their cache misses overlap. */
AE_PREFETCHES look_ahead(const ae_writer *w, const quick_writer *q, const int64_t *major,
                         const int64_t *minor, uint64_t left) {
    const ae_root *root = left > FAR ? quick_root(q, (uint64_t)major[FAR]) : NULL;
    if (root)
        __builtin_prefetch(root, 1);
    if (left > NEAR)
        prefetch_list(q, quick_head(q, (uint64_t)major[NEAR]));
    if (q->sorted && left > CLOSE)
        prefetch_leaf(w, quick_head(q, (uint64_t)major[CLOSE]), (uint32_t)minor[CLOSE]);
}

/* ---- one entry ---- */

/* Return whether the version of a list can be kept without taking memory, if it must be. */
static inline bool can_keep(const ae_writer *w, uint64_t past) {
    return w->num_touched < w->room_touched && (!past || ae_histories_have_room(&w->histories));
}

/* Keep the version of a list before its first change in this transaction, as ae_writer_touch() does. */
static inline void keep_version(ae_writer *w, const quick_writer *q, uint32_t node, ae_root *root,
                                uint64_t head, uint64_t past) {
    if (!past)
        ae_writer_count_node(w, root);
    const ae_ref history = past ? ae_histories_new(&w->histories, q->commit) : 0;
    ae_writer_keep(w, q->arena, node, root, head, past, history);
}

static inline uint32_t room_units(const ae_layout *l, uint32_t room) {
    return ae_arena_units(ae_groups_bytes(l, room));
}

/* Copy the block of a list, which is full and of an older version, into one with more room. Return its place,
 * or 0 where that takes memory. */
static inline uint32_t grow(ae_writer *w, const quick_writer *q, uint32_t place, uint32_t n) {
    const ae_layout *l = &q->layout;
    if (w->end_retired == w->room_retired)
        return 0;
    const ae_ref ref = ae_arena_alloc(w->arena, room_units(l, ae_room(n + 1)));
    if (ref && n) {
        memcpy(arena_at(q, ref), arena_at(q, place), ae_groups_bytes(l, n));
        ae_writer_retire(w, place, room_units(l, n));
    }
    return ref;
}

/* Put an entry behind the last one of a short list, as most entries are put; false: nothing is done, as there
 * is more to do than here. */
static inline __attribute__((always_inline)) bool put_behind(ae_writer *w, const quick_writer *q,
                                                             uint32_t node, const ae_entry *entry) {
    const ae_layout *l = &q->layout;
    ae_root *root = quick_root(q, node);
    if (!root)
        return false;
    const uint64_t head = atomic_load_explicit(&root->head, memory_order_relaxed);
    const uint64_t past = atomic_load_explicit(&root->past, memory_order_relaxed);
    const uint32_t n = ae_head_length(head);
    uint32_t place = ae_head_place(head);
    if (ae_place_is_large(place) || (!past && q->lines)) /* the list may be the base's */
        return false;
    const bool is_full = n % AE_GROUP == 0 && n == ae_room(n), is_first = ae_past_stamp(past) != q->stamp;
    if ((l->time && n && ae_blocks_time(l, arena_at(q, place), n - 1) > entry->time) ||
        (l->weight && (n + 1) % AE_WEIGHT_SUMS_BLOCK == 0) || (is_full && (!is_first || n > SHORT)) ||
        (is_first && !can_keep(w, past)))
        return false;
    if (is_full) {
        place = grow(w, q, place, n);
        if (!place)
            return false;
    }
    if (is_first)
        keep_version(w, q, node, root, head, past);
    ae_put_entry(l, arena_at(q, place), n, entry);
    atomic_store_explicit(&root->head, ae_head(place, n + 1), memory_order_release);
    return true;
}

/* Put an entry into the sorted list of a node, unless it has the id. *fresh says whether it was put there; if
 * not, *edge is the edge that is there, or -1 if edges have no ids. */
static int put_sorted(ae_writer *w, uint32_t node, const ae_entry *entry, bool *fresh, int64_t *edge,
                      aether_error *err) {
    const bool has_ids = w->table->layout.edge_id_bytes;
    uint64_t head = ae_writer_head(w, node);
    ae_edit e = {0};
    ae_spot spot;
    int rc;
    *fresh = false;
    *edge = -1;
    if (head == AE_HEAD_BASE) { /* it is adopted only if it changes */
        uint64_t found;
        rc = ae_find_in_base(w, node, entry->id, &found, err);
        if (!rc && found != UINT64_MAX && has_ids)
            rc = ae_base_edge_ids(w->base, &found, 1, (uint64_t *)edge, err);
        if (rc || found != UINT64_MAX)
            return rc;
        rc = ae_edit_open(w, node, AE_EDIT_DROPS, &e, err);
        if (rc)
            return rc;
        head = e.head;
    }
    rc = ae_find_id(w, head, entry->id, &spot, err);
    if (!rc && spot.found)
        return has_ids ? ae_find_edge_id(w, head, spot, (uint64_t *)edge, err) : rc;
    *fresh = !rc;
    if (!rc && !e.w)
        rc = ae_edit_open(w, node, AE_EDIT_DROPS, &e, err);
    return rc ? rc : ae_edit_insert(&e, &spot, entry, err);
}

/* Put an entry into the list of a node; *fresh and *edge as above. */
static inline int put_entry(ae_writer *w, const quick_writer *q, uint32_t node, const ae_entry *entry,
                            bool *fresh, int64_t *edge, aether_error *err) {
    if (q->sorted)
        return put_sorted(w, node, entry, fresh, edge, err);
    *fresh = true;
    return put_behind(w, q, node, entry) ? AETHER_OK : ae_edit_put(w, node, entry, err);
}

static ae_writer *first_of(const ae_changing *c) {
    return c->csc ? c->csc : c->csr;
}

static inline int put_first(ae_changing *c, ae_writer *w, const quick_writer *q, uint32_t node,
                            ae_entry *entry, int64_t *edge, bool *fresh, aether_error *err) {
    entry->edge_id = c->counts.next_edge_id;
    const int rc = put_entry(w, q, node, entry, fresh, edge, err);
    if (rc || !*fresh)
        return rc;
    c->counts.num_edges++;
    *edge = (int64_t)c->counts.next_edge_id++;
    return AETHER_OK;
}

static inline int put_second(ae_writer *w, const quick_writer *q, uint32_t node, const ae_entry *entry,
                             aether_error *err) {
    int64_t edge;
    bool fresh;
    return put_entry(w, q, node, entry, &fresh, &edge, err);
}

static bool has_both(const ae_changing *c) {
    return c->csc && c->csr;
}

/* ---- one edge ---- */

/* Prefetch what both lists of an edge need. Looking for the second list's block waits for its root; that of
 * the first list comes meanwhile. */
AE_PREFETCHES look_at_both(const ae_changing *c, const quick_writer *second, uint32_t src, uint32_t dst) {
    const ae_root *first = ae_table_root(c->csc->table, dst);
    if (first)
        __builtin_prefetch(first, 1);
    prefetch_list(second, quick_head(second, src));
}

int ae_insert_one(ae_changing *c, uint32_t src, uint32_t dst, ae_entry *entry, int64_t *edge, bool *fresh,
                  aether_error *err) {
    const quick_writer first = quick_of(first_of(c)), second = quick_of(c->csr ? c->csr : c->csc);
    if (has_both(c))
        look_at_both(c, &second, src, dst);
    entry->id = c->csc ? src : dst;
    const int rc = put_first(c, first_of(c), &first, c->csc ? dst : src, entry, edge, fresh, err);
    if (rc || !*fresh || !has_both(c))
        return rc;
    entry->id = dst;
    return put_second(c->csr, &second, src, entry, err);
}

/* ---- many edges ---- */

/* Edges on their way into both layouts: the first `first` are in one, the first `second` in the other. */
typedef struct batch {
    ae_changing *c;
    const aether_live_edges *edges;
    uint64_t first, second;
    uint64_t base; /* the edge that place 0 of the arrays is for */
    int64_t *ids;
    bool *fresh;
} batch;

static inline ae_entry new_entry(const aether_live_edges *edges, const int64_t *minor, uint64_t i) {
    return (ae_entry){.id = (uint32_t)minor[i],
                      .time = edges->times ? edges->times[i] : 0,
                      .weight = edges->weights ? edges->weights[i] : 0};
}

static int insert_first(batch *b, uint64_t to, aether_error *err) {
    ae_changing *c = b->c;
    ae_writer *w = first_of(c);
    const quick_writer q = quick_of(w);
    const aether_live_edges edges = *b->edges;
    const int64_t *major = c->csc ? edges.dst : edges.src, *minor = c->csc ? edges.src : edges.dst;
    const uint64_t base = b->base;
    int rc = AETHER_OK;
    uint64_t i = b->first;
    for (; i < to; i++) {
        ae_entry entry = new_entry(&edges, minor, i);
        look_ahead(w, &q, major + i, minor + i, edges.count - i);
        rc = put_first(c, w, &q, (uint32_t)major[i], &entry, &b->ids[i - base], &b->fresh[i - base], err);
        if (rc)
            break;
    }
    b->first = i;
    return rc;
}

static int insert_second(batch *b, uint64_t to, aether_error *err) {
    ae_writer *w = b->c->csr;
    const quick_writer q = quick_of(w);
    const aether_live_edges edges = *b->edges;
    const uint64_t base = b->base;
    int rc = AETHER_OK;
    uint64_t i = b->second;
    for (; i < to; i++) {
        ae_entry entry = new_entry(&edges, edges.dst, i);
        look_ahead(w, &q, edges.src + i, edges.dst + i, edges.count - i);
        entry.edge_id = (uint64_t)b->ids[i - base];
        rc = b->fresh[i - base] ? put_second(w, &q, (uint32_t)edges.src[i], &entry, err) : AETHER_OK;
        if (rc)
            break;
    }
    b->second = i;
    return rc;
}

static uint64_t batch_chunk_end(const batch *b, uint64_t from) {
    return b->edges->count - from < CHUNK ? b->edges->count : from + CHUNK;
}

/* Insert what is left, chunk after chunk. */
static int insert_rest(batch *b, aether_error *err) {
    int rc = AETHER_OK;
    while (!rc && (b->first < b->edges->count || (has_both(b->c) && b->second < b->first))) {
        rc = insert_first(b, batch_chunk_end(b, b->first), err);
        if (!rc && has_both(b->c))
            rc = insert_second(b, b->first, err);
    }
    return rc;
}

static int insert_few(ae_changing *c, const aether_live_edges *edges, int64_t *edge_ids, aether_error *err) {
    int64_t ids[CHUNK];
    bool fresh[CHUNK];
    batch b = {.c = c, .edges = edges, .ids = ids, .fresh = fresh};
    int rc = AETHER_OK;
    while (!rc && b.first < edges->count) {
        b.base = b.first;
        rc = insert_first(&b, batch_chunk_end(&b, b.first), err);
        if (!rc && has_both(c))
            rc = insert_second(&b, b.first, err);
        if (!rc && edge_ids)
            memcpy(edge_ids + b.base, ids, (b.first - b.base) * sizeof *ids);
    }
    return rc;
}

/* ---- both layouts at once ---- */

typedef struct pair {
    batch *b;
    _Atomic uint64_t ready; /* edges that the first layout is done with */
    atomic_bool ended;      /* there will not be more */
} pair;

static void lead(pair *p) {
    batch *b = p->b;
    while (b->first < b->edges->count && !insert_first(b, batch_chunk_end(b, b->first), NULL))
        atomic_store_explicit(&p->ready, b->first, memory_order_release);
    atomic_store_explicit(&p->ready, b->first, memory_order_release);
    atomic_store_explicit(&p->ended, true, memory_order_release);
}

static void follow(pair *p) {
    batch *b = p->b;
    for (;;) {
        const bool ended = atomic_load_explicit(&p->ended, memory_order_acquire);
        const uint64_t ready = atomic_load_explicit(&p->ready, memory_order_acquire);
        if (b->second < ready) {
            if (insert_second(b, ready, NULL))
                return;
        } else if (ended) {
            return;
        } else {
            sched_yield();
        }
    }
}

/* Chunk 0 is handed out first, so whoever follows has somebody who leads, or led. */
static void run_pair(void *ctx, uint64_t chunk, uint32_t worker) {
    (void)worker;
    if (chunk == 0)
        lead(ctx);
    else
        follow(ctx);
}

/* Insert as many edges as memory lets two threads insert that do not know of each other. A failure ends
 * that: the rest is then for insert_rest(), which has all of the memory and says what fails. */
static void insert_side_by_side(batch *b) {
    pair p = {.b = b};
    ae_apart apart;
    ae_writer_set_apart(b->c->csr, &apart);
    ae_pool_run(run_pair, &p, 2, 2);
    ae_writer_rejoin(b->c->csr, &apart);
}

/* Reading a base and taking memory of a user's is for one thread. */
static bool is_worth_two(const ae_changing *c, uint64_t n) {
    return n >= MANY && has_both(c) && !c->csc->base && !c->csc->arena->memory.given &&
           ae_pool_threads(0) > 1;
}

int ae_insert(ae_changing *c, const aether_live_edges *edges, int64_t *edge_ids, aether_error *err) {
    const uint64_t n = edges->count;
    bool *fresh = is_worth_two(c, n) ? malloc(n) : NULL;
    int64_t *ids = !fresh ? NULL : edge_ids ? edge_ids : malloc(n * sizeof *ids);
    int rc;
    if (ids) {
        batch b = {.c = c, .edges = edges, .ids = ids, .fresh = fresh};
        insert_side_by_side(&b);
        rc = insert_rest(&b, err);
    } else {
        rc = insert_few(c, edges, edge_ids, err);
    }
    if (ids != edge_ids)
        free(ids);
    free(fresh);
    return rc;
}
