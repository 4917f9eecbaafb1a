/* The public functions of live graphs: checks of what comes from outside, and one handle over
 * table, arena, pins and writer. */
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "live/edit.h"
#include "live/snapshot.h"
#include "live/transaction.h"
#include "os/membarrier.h"
#include "os/process.h"

struct aether_live {
    ae_table table;
    ae_arena arena;
    ae_shared pins;
    ae_writer writer;
    uint64_t owner; /* process that may change the graph; 0: this handle was attached */
};

/* ---- handles ---- */

static int check_count(const char *name, uint64_t count, uint64_t most, aether_error *err) {
    if (count <= most)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_LIMIT, 0, (int64_t)count,
                       "%s = %" PRIu64 ": there can be %" PRIu64 " at most", name, count, most);
}

static int check_options(const aether_live_options *o, aether_error *err) {
    const uint64_t room = o->max_major ? o->max_major : AE_TABLE_MAX_NODES;
    int rc = check_count("max_major", room, AE_TABLE_MAX_NODES, err);
    if (!rc)
        rc = check_count("num_major", o->num_major, room, err);
    if (!rc)
        rc = check_count("num_minor", o->num_minor, AE_TABLE_MAX_NODES, err);
    if (rc)
        return rc;
    if (o->order != AETHER_ORDER_TIME && o->order != AETHER_ORDER_ID)
        return ae_error_at(err, AETHER_E_INVALID, 0, (int64_t)o->order,
                           "order = %" PRIu32 ": it is AETHER_ORDER_TIME or AETHER_ORDER_ID", o->order);
    if (o->columns & ~(uint32_t)(AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS))
        return ae_error_at(err, AETHER_E_INVALID, 0, (int64_t)o->columns,
                           "columns = %" PRIu32 ": they are AETHER_LIVE_TIMES and AETHER_LIVE_WEIGHTS",
                           o->columns);
    if (o->order == AETHER_ORDER_ID && o->columns & AETHER_LIVE_TIMES)
        return ae_error_set(err, AETHER_E_INVALID,
                            "lists in the order of ids have no times: use AETHER_ORDER_TIME");
    if (o->edge_id_bytes != 0 && o->edge_id_bytes != 4 && o->edge_id_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, 0, (int64_t)o->edge_id_bytes,
                           "edge_id_bytes = %" PRIu32 ": edge ids have 4 or 8 bytes, or 0: there are none",
                           o->edge_id_bytes);
    return AETHER_OK;
}

int aether_live_create(const aether_live_options *options, aether_live **out, aether_error *err) {
    *out = NULL;
    int rc = check_options(options, err);
    if (rc)
        return rc;
    aether_live *g = calloc(1, sizeof *g);
    if (!g)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a live graph");
    ae_membarrier_register();
    rc = ae_table_create(options, &g->table, err);
    if (!rc)
        rc = ae_arena_create(options->arena_bytes, ae_table_token(&g->table), &g->arena, err);
    if (!rc)
        rc = ae_pins_create(&g->pins, err);
    if (!rc)
        rc = ae_shared_seal(&g->table.memory, false, err);
    if (!rc)
        rc = ae_shared_seal(&g->arena.memory, false, err);
    if (rc) {
        aether_live_close(g);
        return rc;
    }
    g->owner = ae_process_self();
    ae_writer_init(&g->writer, &g->table, &g->arena, &g->pins, options->max_snapshot_age);
    *out = g;
    return AETHER_OK;
}

void aether_live_descriptors(const aether_live *g, int32_t *out) {
    out[0] = g->table.memory.fd;
    out[1] = g->arena.memory.fd;
    out[2] = g->pins.fd;
}

int aether_live_attach(const int32_t *descriptors, aether_live **out, aether_error *err) {
    aether_live *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a live graph");
    int rc = ae_table_attach(descriptors[0], &g->table, err);
    if (!rc)
        rc = ae_arena_attach(descriptors[1], ae_table_token(&g->table), &g->arena, err);
    if (!rc)
        rc = ae_pins_attach(descriptors[2], &g->pins, err);
    if (rc) {
        aether_live_close(g);
        return rc;
    }
    *out = g;
    return AETHER_OK;
}

void aether_live_close(aether_live *g) {
    if (!g)
        return;
    ae_writer_free(&g->writer);
    ae_shared_close(&g->pins);
    ae_arena_close(&g->arena);
    ae_table_close(&g->table);
    free(g);
}

/* ---- transactions ---- */

static int check_writer(const aether_live *g, aether_error *err) {
    if (g->owner == ae_process_self())
        return AETHER_OK;
    if (!g->owner)
        return ae_error_set(err, AETHER_E_UNSUPPORTED,
                            "an attached live graph is read-only: change it where it was created");
    return ae_error_at(err, AETHER_E_UNSUPPORTED, -1, (int64_t)ae_process_pid(g->owner),
                       "only process %" PRIu32 ", which created this live graph, can change it",
                       ae_process_pid(g->owner));
}

int aether_live_begin(aether_live *g, aether_error *err) {
    int rc = check_writer(g, err);
    if (!rc && g->writer.open)
        rc = ae_error_set(err, AETHER_E_INVALID, "a transaction has begun already: commit or abort it");
    return rc ? rc : ae_transaction_begin(&g->writer, err);
}

static int check_open(const aether_live *g, aether_error *err) {
    const int rc = check_writer(g, err);
    if (!rc && !g->writer.open)
        return ae_error_set(err, AETHER_E_INVALID, "no transaction has begun, or a failure has undone it");
    return rc;
}

int aether_live_commit(aether_live *g, aether_error *err) {
    const int rc = check_open(g, err);
    if (!rc)
        ae_transaction_commit(&g->writer);
    return rc;
}

int aether_live_abort(aether_live *g, aether_error *err) {
    const int rc = check_open(g, err);
    if (!rc)
        ae_transaction_abort(&g->writer);
    return rc;
}

/* Begin a transaction for one call, unless one is open. */
static int begin_call(aether_live *g, bool *own, aether_error *err) {
    *own = !g->writer.open;
    return *own ? ae_transaction_begin(&g->writer, err) : AETHER_OK;
}

/* End the call: a failure undoes the transaction, the call's own or the caller's. */
static int end_call(aether_live *g, bool own, int rc) {
    if (rc)
        ae_transaction_abort(&g->writer);
    else if (own)
        ae_transaction_commit(&g->writer);
    return rc;
}

/* ---- changes ---- */

static int check_ids(const char *name, const int64_t *ids, uint64_t n, uint64_t count, aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint64_t)ids[i] >= count)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, ids[i],
                               "%s[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, name, i, ids[i],
                               (int64_t)count - 1);
    return AETHER_OK;
}

static int check_weights(const float *weights, uint64_t n, aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        if (!(weights[i] >= 0 && weights[i] <= FLT_MAX))
            return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, 0,
                               "weights[%" PRIu64 "] is %g: weights are finite and not negative", i,
                               (double)weights[i]);
    return AETHER_OK;
}

static int check_column(const char *name, bool given, bool wanted, aether_error *err) {
    if (given == wanted)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_INVALID,
                        wanted ? "this live graph has %s, and they were not given"
                               : "this live graph was created without %s, and they were given",
                        name);
}

static int check_edges(const aether_live *g, const aether_live_edges *edges, aether_error *err) {
    const ae_layout *l = &g->table.layout;
    const uint64_t n = edges->count, next = g->writer.counts.next_edge_id;
    int rc = check_writer(g, err);
    if (!rc)
        rc = check_column("times", edges->times || !n, l->time || !n, err);
    if (!rc)
        rc = check_column("weights", edges->weights || !n, l->weight || !n, err);
    if (!rc && l->edge_id_bytes == 4 && n > UINT32_MAX - next)
        rc = ae_error_at(err, AETHER_E_LIMIT, 0, (int64_t)next,
                         "%" PRIu64 " edges were inserted, and edge ids of 4 bytes end at 2^32 - 2: create "
                         "the live graph with edge_id_bytes 8",
                         next);
    if (!rc)
        rc = check_ids("major", edges->major, n, g->writer.counts.num_major, err);
    if (!rc)
        rc = check_ids("minor", edges->minor, n, g->writer.counts.num_minor, err);
    if (!rc && edges->weights)
        rc = check_weights(edges->weights, n, err);
    return rc;
}

#define FAR  32 /* edges ahead whose roots are prefetched */
#define NEAR 16 /* ... and the ends of whose lists */

/* Prefetch for the edges that come next, so that their cache misses overlap. */
static void look_ahead(const aether_live *g, const int64_t *major, uint64_t left) {
    if (left > FAR)
        __builtin_prefetch(&g->table.roots[major[FAR]], 1);
    if (left > NEAR) {
        const uint64_t head = atomic_load_explicit(&g->table.roots[major[NEAR]].head, memory_order_relaxed);
        const uint8_t *block = ae_arena_at(&g->arena, ae_place_ref(ae_head_place(head)));
        if (!ae_place_is_large(ae_head_place(head)))
            block += (uint64_t)(ae_head_length(head) / AE_GROUP) * g->table.layout.group;
        __builtin_prefetch(block, 1);
    }
}

/* Return the id of an entry that is there, or -1 if edges have none. */
static int64_t edge_at(const aether_live *g, uint64_t head, ae_spot spot) {
    const ae_layout *l = &g->table.layout;
    uint8_t *groups = ae_arena_at(&g->arena, ae_place_ref(ae_head_place(head)));
    if (!l->edge_id_bytes)
        return -1;
    if (ae_place_is_large(ae_head_place(head))) {
        ae_directory *d = (ae_directory *)(void *)groups;
        groups = (uint8_t *)ae_arena_at(&g->arena, ae_directory_leaves(d)[spot.leaf]) + sizeof(ae_leaf);
    }
    return (int64_t)ae_group_edge_id(l, ae_group_of(l, groups, spot.index), spot.index % AE_GROUP);
}

static int insert_one(aether_live *g, uint32_t node, ae_entry *entry, int64_t *edge, aether_error *err) {
    ae_writer *w = &g->writer;
    const uint64_t head = atomic_load_explicit(&g->table.roots[node].head, memory_order_relaxed);
    const ae_spot spot = g->table.order == AETHER_ORDER_ID ? ae_edit_find_id(w, head, entry->id)
                                                           : ae_edit_find_time(w, head, entry->time);
    if (spot.found) {
        *edge = edge_at(g, head, spot);
        return AETHER_OK;
    }
    ae_edit e;
    entry->edge_id = w->counts.next_edge_id;
    int rc = ae_edit_open(w, node, AE_EDIT_DROPS, &e, err);
    if (!rc)
        rc = ae_edit_insert(&e, spot, entry, err);
    if (rc)
        return rc;
    w->counts.num_edges++;
    *edge = (int64_t)w->counts.next_edge_id++;
    return AETHER_OK;
}

int aether_live_insert(aether_live *g, const aether_live_edges *edges, int64_t *edge_ids, uint64_t *inserted,
                       aether_error *err) {
    const uint64_t before = g->writer.counts.num_edges;
    bool own = false;
    int64_t edge = -1;
    *inserted = 0;
    int rc = check_edges(g, edges, err);
    if (!rc)
        rc = begin_call(g, &own, err);
    if (rc)
        return rc;
    for (uint64_t i = 0; !rc && i < edges->count; i++) {
        ae_entry entry = {.id = (uint32_t)edges->minor[i],
                          .time = edges->times ? edges->times[i] : 0,
                          .weight = edges->weights ? edges->weights[i] : 0};
        look_ahead(g, edges->major + i, edges->count - i);
        rc = insert_one(g, (uint32_t)edges->major[i], &entry, &edge, err);
        if (edge_ids)
            edge_ids[i] = edge;
    }
    rc = end_call(g, own, rc);
    *inserted = rc ? 0 : g->writer.counts.num_edges - before;
    return rc;
}

/* ---- deleting ---- */

/* The entries of a list that are to go. */
typedef struct doom {
    const ae_layout *layout;
    uint32_t id;
    int64_t edge; /* -1: every edge to the id */
    uint32_t *indexes;
    uint32_t n, room;
} doom;

static int find_doomed(void *ctx, const uint8_t *groups, uint32_t first, uint32_t n) {
    doom *d = ctx;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *group = groups + (uint64_t)(i / AE_GROUP) * d->layout->group;
        if (ae_group_id(group, i % AE_GROUP) != d->id ||
            (d->edge >= 0 && ae_group_edge_id(d->layout, group, i % AE_GROUP) != (uint64_t)d->edge))
            continue;
        if (d->n == d->room) {
            const uint32_t room = 2 * d->room + 64;
            uint32_t *grown = realloc(d->indexes, room * sizeof *grown);
            if (!grown)
                return AETHER_E_NO_MEMORY;
            d->indexes = grown;
            d->room = room;
        }
        d->indexes[d->n++] = first + i;
    }
    return 0;
}

/* In sorted lists the place of the id is known. */
static int find_doomed_in(const aether_live *g, uint64_t head, doom *d) {
    d->n = 0;
    if (g->table.order != AETHER_ORDER_ID)
        return ae_edit_each(&g->writer, head, find_doomed, d);
    const ae_spot spot = ae_edit_find_id(&g->writer, head, d->id);
    if (!spot.found || (d->edge >= 0 && edge_at(g, head, spot) != d->edge))
        return AETHER_OK;
    uint32_t before = 0;
    if (ae_place_is_large(ae_head_place(head)))
        before = ae_directory_before(ae_arena_at(&g->arena, ae_place_ref(ae_head_place(head))))[spot.leaf];
    d->indexes[d->n++] = before + spot.index;
    return AETHER_OK;
}

static int delete_one(aether_live *g, uint32_t node, doom *d, aether_error *err) {
    ae_writer *w = &g->writer;
    const uint64_t head = atomic_load_explicit(&g->table.roots[node].head, memory_order_relaxed);
    int rc = find_doomed_in(g, head, d);
    if (rc)
        return ae_error_set(err, rc, "no memory for deleting edges");
    if (!d->n)
        return AETHER_OK;
    ae_edit e;
    rc = ae_edit_open(w, node, ae_edit_blocks(w, head), &e, err);
    if (!rc)
        rc = ae_edit_remove(&e, d->indexes, d->n, err);
    if (!rc)
        w->counts.num_edges -= d->n;
    return rc;
}

int aether_live_delete(aether_live *g, const int64_t *major, const int64_t *minor, const int64_t *edge_ids,
                       uint64_t n, uint64_t *deleted, aether_error *err) {
    const uint64_t before = g->writer.counts.num_edges;
    doom d = {.layout = &g->table.layout, .edge = -1, .room = 64};
    bool own = false;
    *deleted = 0;
    int rc = check_writer(g, err);
    if (!rc)
        rc = check_ids("major", major, n, g->writer.counts.num_major, err);
    if (!rc)
        rc = check_ids("minor", minor, n, g->writer.counts.num_minor, err);
    if (!rc && edge_ids && !d.layout->edge_id_bytes)
        rc = ae_error_set(err, AETHER_E_UNSUPPORTED,
                          "the edges of this live graph have no ids: create it with edge_id_bytes 4 or 8");
    if (!rc && edge_ids)
        rc = check_ids("edge_ids", edge_ids, n, g->writer.counts.next_edge_id, err);
    if (rc)
        return rc;
    d.indexes = malloc(d.room * sizeof *d.indexes);
    if (!d.indexes)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for deleting edges");
    rc = begin_call(g, &own, err);
    if (!rc) {
        for (uint64_t i = 0; !rc && i < n; i++) {
            d.id = (uint32_t)minor[i];
            d.edge = edge_ids ? edge_ids[i] : -1;
            rc = delete_one(g, (uint32_t)major[i], &d, err);
        }
        rc = end_call(g, own, rc);
        *deleted = rc ? 0 : before - g->writer.counts.num_edges;
    }
    free(d.indexes);
    return rc;
}

int aether_live_add_nodes(aether_live *g, uint64_t num_major, uint64_t num_minor, aether_error *err) {
    ae_counts *counts = &g->writer.counts;
    bool own = false;
    int rc = check_writer(g, err);
    if (!rc && num_major > ae_table_room(&g->table) - counts->num_major)
        rc = ae_error_at(err, AETHER_E_LIMIT, 0, (int64_t)num_major,
                         "%" PRIu64 " more nodes than %" PRIu64 " are more than max_major = %" PRIu64,
                         num_major, counts->num_major, ae_table_room(&g->table));
    if (!rc && num_minor > AE_TABLE_MAX_NODES - counts->num_minor)
        rc = ae_error_at(err, AETHER_E_LIMIT, 1, (int64_t)num_minor,
                         "%" PRIu64 " more nodes than %" PRIu64 " are more than 2^32 - 1", num_minor,
                         counts->num_minor);
    if (!rc)
        rc = begin_call(g, &own, err);
    if (rc)
        return rc;
    counts->num_major += num_major;
    counts->num_minor += num_minor;
    return end_call(g, own, AETHER_OK);
}

int aether_live_reclaim(aether_live *g, aether_error *err) {
    int rc = check_writer(g, err);
    if (!rc && g->writer.open)
        rc = ae_error_set(err, AETHER_E_INVALID, "a transaction has begun: commit or abort it first");
    if (!rc)
        rc = ae_transaction_begin(&g->writer, err);
    if (rc)
        return rc;
    ae_writer_reclaim(&g->writer, true);
    ae_transaction_commit(&g->writer);
    return AETHER_OK;
}

/* ---- reading ---- */

int aether_live_snapshot(const aether_live *g, aether_topology **out, aether_error *err) {
    ae_snapshot *s;
    *out = NULL;
    const int rc = ae_snapshot_create(&g->table, &g->arena, &g->pins, &s, err);
    if (!rc)
        *out = &s->base;
    return rc;
}

static int snapshot_of(const aether_topology *t, const ae_snapshot **out, aether_error *err) {
    *out = ae_snapshot_of(t);
    return *out ? AETHER_OK
                : ae_error_set(err, AETHER_E_INVALID, "this topology is no snapshot of a live graph");
}

int aether_live_describe(const aether_topology *snapshot, aether_live_commit_info *out, aether_error *err) {
    const ae_snapshot *s;
    const int rc = snapshot_of(snapshot, &s, err);
    if (!rc)
        *out = (aether_live_commit_info){.epoch = s->epoch,
                                         .num_major = s->counts.num_major,
                                         .num_minor = s->counts.num_minor,
                                         .num_edges = s->counts.num_edges,
                                         .end_edge_ids = s->counts.next_edge_id};
    return rc;
}

int aether_live_has_edges(const aether_topology *snapshot, const int64_t *major, const int64_t *minor,
                          uint64_t n, uint8_t *out, aether_error *err) {
    const ae_snapshot *s;
    int rc = snapshot_of(snapshot, &s, err);
    if (!rc)
        rc = check_ids("major", major, n, s->counts.num_major, err);
    if (!rc)
        rc = check_ids("minor", minor, n, s->counts.num_minor, err);
    for (uint64_t i = 0; !rc && i < n; i++) {
        bool found;
        rc = ae_snapshot_has_edge(s, (uint64_t)major[i], (uint32_t)minor[i], &found, err);
        out[i] = found;
    }
    return rc;
}

void aether_live_count(const aether_live *g, aether_live_stats *out) {
    uint64_t epoch;
    ae_counts counts;
    do
        epoch = atomic_load_explicit(g->table.committed, memory_order_acquire);
    while (!ae_table_counts(&g->table, epoch, &counts));
    const ae_pins_seen pins = ae_pins_look(&g->pins, g->table.committed);
    const uint64_t now = ae_pins_now();
    *out = (aether_live_stats){.epoch = epoch,
                               .num_edges = counts.num_edges,
                               .touched_nodes = counts.touched,
                               .arena_bytes = g->arena.memory.size,
                               .used_bytes = counts.used,
                               .retired_bytes = counts.retired,
                               .snapshots = pins.count,
                               .oldest_epoch = pins.oldest,
                               .oldest_age = pins.count && now > pins.since ? now - pins.since : 0,
                               .oldest_pid = pins.pid};
}
