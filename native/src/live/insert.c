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
#define CHUNK     1024  /* edges that go into one layout before they go into the other */
#define MANY      32768 /* edges from which on two threads are worth it */

AE_PREFETCHES prefetch_lines(const uint8_t *at, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch(at + i, 1);
    __builtin_prefetch(at + bytes - 1, 1); /* blocks and groups do not begin with a line */
}

/* Prefetch what putting an entry into a list reads and writes of it. */
AE_PREFETCHES prefetch_list(const ae_writer *w, uint64_t head) {
    const ae_layout *l = ae_blocks_layout(w);
    const uint32_t n = ae_head_length(head), room = ae_room(n);
    const uint8_t *block = ae_blocks_at(w, ae_place_ref(ae_head_place(head)));
    if (!n || head == AE_HEAD_BASE)
        return;
    if (ae_place_is_large(ae_head_place(head)))
        prefetch_lines(block, DIRECTORY);
    else if (n == room || ae_blocks_sorted(w)) /* it is copied, and searched before that */
        prefetch_lines(block, ae_groups_bytes(l, n < MOST ? room : MOST));
    else /* the last entry tells whether another one may come behind it */
        prefetch_lines(block + (uint64_t)((n - !!l->time) / AE_GROUP) * l->group,
                       n % AE_GROUP || !l->time ? l->group : 2 * l->group);
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
AE_PREFETCHES look_ahead(const ae_writer *w, const int64_t *major, const int64_t *minor, uint64_t left) {
    const ae_root *root = left > FAR ? ae_table_root(w->table, (uint64_t)major[FAR]) : NULL;
    if (root)
        __builtin_prefetch(root, 1);
    if (left > NEAR)
        prefetch_list(w, ae_writer_head(w, (uint32_t)major[NEAR]));
    if (left > CLOSE && ae_blocks_sorted(w))
        prefetch_leaf(w, ae_writer_head(w, (uint32_t)major[CLOSE]), (uint32_t)minor[CLOSE]);
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

static ae_writer *first_of(const ae_changing *c) {
    return c->csc ? c->csc : c->csr;
}

static int put_first(ae_changing *c, uint32_t node, ae_entry *entry, int64_t *edge, bool *fresh,
                     aether_error *err) {
    ae_writer *w = first_of(c);
    entry->edge_id = c->counts.next_edge_id;
    *fresh = true;
    const int rc =
        ae_blocks_sorted(w) ? put_sorted(w, node, entry, fresh, edge, err) : ae_edit_put(w, node, entry, err);
    if (rc || !*fresh)
        return rc;
    c->counts.num_edges++;
    *edge = (int64_t)c->counts.next_edge_id++;
    return AETHER_OK;
}

static int put_second(ae_changing *c, uint32_t node, const ae_entry *entry, aether_error *err) {
    ae_writer *w = c->csr;
    int64_t edge;
    bool fresh;
    return ae_blocks_sorted(w) ? put_sorted(w, node, entry, &fresh, &edge, err)
                               : ae_edit_put(w, node, entry, err);
}

static bool has_both(const ae_changing *c) {
    return c->csc && c->csr;
}

/* ---- one edge ---- */

/* Prefetch what both lists of an edge need. Looking for the second list's block waits for its root; that of
 * the first list comes meanwhile. */
AE_PREFETCHES look_at_both(const ae_changing *c, uint32_t src, uint32_t dst) {
    const ae_root *first = ae_table_root(c->csc->table, dst);
    if (first)
        __builtin_prefetch(first, 1);
    prefetch_list(c->csr, ae_writer_head(c->csr, src));
}

int ae_insert_one(ae_changing *c, uint32_t src, uint32_t dst, ae_entry *entry, int64_t *edge, bool *fresh,
                  aether_error *err) {
    if (has_both(c))
        look_at_both(c, src, dst);
    entry->id = c->csc ? src : dst;
    const int rc = put_first(c, c->csc ? dst : src, entry, edge, fresh, err);
    if (rc || !*fresh || !has_both(c))
        return rc;
    entry->id = dst;
    return put_second(c, src, entry, err);
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

static ae_entry entry_of(const aether_live_edges *edges, const int64_t *minor, uint64_t i) {
    return (ae_entry){.id = (uint32_t)minor[i],
                      .time = edges->times ? edges->times[i] : 0,
                      .weight = edges->weights ? edges->weights[i] : 0};
}

static int insert_first(batch *b, uint64_t to, aether_error *err) {
    const ae_changing *c = b->c;
    const int64_t *major = c->csc ? b->edges->dst : b->edges->src;
    const int64_t *minor = c->csc ? b->edges->src : b->edges->dst;
    for (; b->first < to; b->first++) {
        const uint64_t i = b->first, at = i - b->base;
        ae_entry entry = entry_of(b->edges, minor, i);
        look_ahead(first_of(c), major + i, minor + i, b->edges->count - i);
        const int rc = put_first(b->c, (uint32_t)major[i], &entry, &b->ids[at], &b->fresh[at], err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static int insert_second(batch *b, uint64_t to, aether_error *err) {
    for (; b->second < to; b->second++) {
        const uint64_t i = b->second, at = i - b->base;
        ae_entry entry = entry_of(b->edges, b->edges->dst, i);
        look_ahead(b->c->csr, b->edges->src + i, b->edges->dst + i, b->edges->count - i);
        entry.edge_id = (uint64_t)b->ids[at];
        const int rc = b->fresh[at] ? put_second(b->c, (uint32_t)b->edges->src[i], &entry, err) : AETHER_OK;
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static uint64_t next_chunk(const batch *b, uint64_t from) {
    return b->edges->count - from < CHUNK ? b->edges->count : from + CHUNK;
}

/* Insert what is left, chunk after chunk. */
static int insert_rest(batch *b, aether_error *err) {
    int rc = AETHER_OK;
    while (!rc && (b->first < b->edges->count || (has_both(b->c) && b->second < b->first))) {
        rc = insert_first(b, next_chunk(b, b->first), err);
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
        rc = insert_first(&b, next_chunk(&b, b.first), err);
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
    while (b->first < b->edges->count && !insert_first(b, next_chunk(b, b->first), NULL))
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
