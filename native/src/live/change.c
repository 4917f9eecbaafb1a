/* Inserting and deleting edges, adding nodes: checks of what comes from outside, then the lists of
 * a relation one after the other, inside one transaction. */
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "live/handle.h"
#include "live/insert.h"
#include "live/remove.h"

/* ---- checks ---- */

static int check_relation(const aether_live *g, uint32_t relation, aether_error *err) {
    const int rc = ae_live_check_writer(g, err);
    return rc ? rc : ae_graph_check_relation(&g->graph, relation, err);
}

static int bad_weight(uint64_t i, float weight, aether_error *err) {
    return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, 0,
                       "weights[%" PRIu64 "] is %g: weights are finite and not negative", i, (double)weight);
}

static bool is_weight(float weight) {
    return weight >= 0 && weight <= FLT_MAX;
}

static int check_weights(const float *weights, uint64_t n, aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        if (!is_weight(weights[i]))
            return bad_weight(i, weights[i], err);
    return AETHER_OK;
}

static int check_column(const char *name, bool given, bool wanted, aether_error *err) {
    if (given == wanted)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_INVALID,
                        wanted ? "this relation has %s, and they were not given"
                               : "this relation was created without %s, and they were given",
                        name);
}

static int check_edge_ids(const aether_live_relation *r, const ae_counts *counts, uint64_t more,
                          aether_error *err) {
    if (r->edge_id_bytes != 4 || more <= UINT32_MAX - counts->next_edge_id)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_LIMIT, 0, (int64_t)counts->next_edge_id,
                       "%" PRIu64
                       " edges were inserted, and edge ids of 4 bytes end at 2^32 - 2: create the relation "
                       "with edge_id_bytes 8",
                       counts->next_edge_id);
}

static int check_edges(const aether_live *g, uint32_t relation, const aether_live_edges *edges,
                       aether_error *err) {
    const aether_live_relation *r = ae_control_relation(&g->graph.control, relation);
    const ae_counts *counts = &g->transaction.relations[relation].counts;
    const uint64_t n = edges->count;
    int rc = check_column("times", edges->times || !n, r->columns & AETHER_LIVE_TIMES || !n, err);
    if (!rc)
        rc = check_column("weights", edges->weights || !n, r->columns & AETHER_LIVE_WEIGHTS || !n, err);
    if (!rc)
        rc = check_edge_ids(r, counts, n, err);
    if (!rc)
        rc = ae_live_check_ids("src", edges->src, n, counts->num_src, err);
    if (!rc)
        rc = ae_live_check_ids("dst", edges->dst, n, counts->num_dst, err);
    if (!rc && edges->weights)
        rc = check_weights(edges->weights, n, err);
    return rc;
}

/* ---- inserting ---- */

int aether_live_insert(aether_live *g, uint32_t relation, const aether_live_edges *edges, int64_t *edge_ids,
                       uint64_t *inserted, aether_error *err) {
    bool own = false;
    *inserted = 0;
    int rc = check_relation(g, relation, err);
    if (!rc)
        rc = check_edges(g, relation, edges, err);
    if (!rc)
        rc = ae_live_begin_call(g, &own, err);
    if (rc)
        return rc;
    ae_changing *c = ae_transaction_open(&g->transaction, relation);
    const uint64_t before = c->counts.num_edges;
    if (g->journal)
        rc = g->journal->ops->insert(g->journal, relation, c->counts.next_edge_id, edges, err);
    if (!rc)
        rc = ae_insert(c, edges, edge_ids, err);
    const uint64_t fresh = c->counts.num_edges - before;
    rc = ae_live_end_call(g, own, rc, err);
    *inserted = rc ? 0 : fresh;
    return rc;
}

static int check_edge(const aether_live *g, uint32_t relation, int64_t src, int64_t dst, float weight,
                      aether_error *err) {
    const ae_counts *counts = &g->transaction.relations[relation].counts;
    const aether_live_relation *r = ae_control_relation(&g->graph.control, relation);
    if ((uint64_t)src >= counts->num_src || (uint64_t)dst >= counts->num_dst) {
        const int rc = ae_live_check_ids("src", &src, 1, counts->num_src, err);
        return rc ? rc : ae_live_check_ids("dst", &dst, 1, counts->num_dst, err);
    }
    if (r->columns & AETHER_LIVE_WEIGHTS && !is_weight(weight))
        return bad_weight(0, weight, err);
    return check_edge_ids(r, counts, 1, err);
}

typedef struct one_edge {
    int64_t src, dst, time;
    float weight;
} one_edge;

static int journal_one(const aether_live *g, uint32_t relation, const one_edge *e, aether_error *err) {
    const uint32_t columns = ae_control_relation(&g->graph.control, relation)->columns;
    const aether_live_edges edges = {.src = &e->src,
                                     .dst = &e->dst,
                                     .times = columns & AETHER_LIVE_TIMES ? &e->time : NULL,
                                     .weights = columns & AETHER_LIVE_WEIGHTS ? &e->weight : NULL,
                                     .count = 1};
    return g->journal->ops->insert(g->journal, relation,
                                   g->transaction.relations[relation].counts.next_edge_id, &edges, err);
}

int aether_live_insert_one(aether_live *g, uint32_t relation, int64_t src, int64_t dst, int64_t time,
                           float weight, int64_t *edge_id, int *inserted, aether_error *err) {
    ae_entry entry = {.time = time, .weight = weight};
    int64_t edge = -1;
    bool own = false, fresh = false;
    if (inserted)
        *inserted = 0;
    int rc = check_relation(g, relation, err);
    if (!rc)
        rc = check_edge(g, relation, src, dst, weight, err);
    if (!rc)
        rc = ae_live_begin_call(g, &own, err);
    if (rc)
        return rc;
    ae_changing *c = ae_transaction_open(&g->transaction, relation);
    if (g->journal)
        rc = journal_one(g, relation, &(one_edge){src, dst, time, weight}, err);
    if (!rc)
        rc = ae_insert_one(c, (uint32_t)src, (uint32_t)dst, &entry, &edge, &fresh, err);
    rc = ae_live_end_call(g, own, rc, err);
    if (edge_id)
        *edge_id = edge;
    if (inserted)
        *inserted = !rc && fresh;
    return rc;
}

int64_t aether_live_insert_plain(aether_live *g, uint32_t relation, int64_t src, int64_t dst,
                                 aether_error *err) {
    int64_t edge = -1;
    const int rc = aether_live_insert_one(g, relation, src, dst, 0, 0, &edge, NULL, err);
    return rc ? rc : edge < 0 ? 0 : edge;
}

/* ---- deleting ---- */

/* The entries of a list that are to go. */
typedef struct doom {
    const ae_layout *layout;
    uint32_t id;
    int64_t edge; /* -1: every edge to the id */
    uint32_t *indexes;
    uint32_t n, room;
    aether_error *err;
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
                return ae_error_set(d->err, AETHER_E_NO_MEMORY, "no memory for deleting edges");
            d->indexes = grown;
            d->room = room;
        }
        d->indexes[d->n++] = first + i;
    }
    return 0;
}

/* In sorted lists the place of the id is known. */
static int find_doomed_in(const ae_writer *w, uint64_t head, doom *d) {
    d->n = 0;
    if (!ae_blocks_sorted(w))
        return ae_find_each(w, head, find_doomed, d, d->err);
    ae_spot spot;
    uint64_t edge = 0;
    int rc = ae_find_id(w, head, d->id, &spot, d->err);
    if (!rc && spot.found && d->edge >= 0)
        rc = ae_find_edge_id(w, head, spot, &edge, d->err);
    if (!rc && spot.found && (d->edge < 0 || edge == (uint64_t)d->edge))
        d->indexes[d->n++] = ae_find_index(w, head, &spot);
    return rc;
}

/* Delete the edges to d->id from the list of a node; d->n says how many they were. */
static int delete_in(ae_writer *w, uint32_t node, doom *d, aether_error *err) {
    uint64_t head = ae_writer_head(w, node);
    ae_edit e;
    int rc = AETHER_OK;
    d->n = 0;
    if (head == AE_HEAD_BASE) { /* it is adopted only if it changes */
        uint64_t found;
        rc = ae_find_in_base(w, node, d->id, &found, err);
        if (rc || found == UINT64_MAX)
            return rc;
        rc = ae_edit_open(w, node, 0, &e, err);
        if (rc)
            return rc;
        head = e.head;
    }
    rc = find_doomed_in(w, head, d);
    if (rc || !d->n)
        return rc;
    rc = ae_edit_open(w, node, ae_find_blocks(w, head), &e, err);
    return rc ? rc : ae_remove(&e, d->indexes, d->n, err);
}

/* The shorter list tells what there is to delete: most pairs without an edge then cost little. */
static int delete_pair(ae_changing *c, uint32_t src, uint32_t dst, doom *d, aether_error *err) {
    const bool both = c->csc && c->csr;
    uint64_t in = 0, out = 0;
    int rc = both ? ae_find_length(c->csc, dst, &in, err) : AETHER_OK;
    if (!rc && both)
        rc = ae_find_length(c->csr, src, &out, err);
    const bool csc_first = both ? in <= out : c->csc != NULL;
    for (int second = 0; !rc && second <= both; second++) {
        const bool csc = csc_first != second;
        d->id = csc ? src : dst;
        rc = delete_in(csc ? c->csc : c->csr, csc ? dst : src, d, err);
        if (!rc && !second)
            c->counts.num_edges -= d->n;
        if (!d->n)
            break;
    }
    return rc;
}

static int check_pairs(const aether_live *g, uint32_t relation, const int64_t *src, const int64_t *dst,
                       const int64_t *edge_ids, uint64_t n, aether_error *err) {
    const ae_counts *counts = &g->transaction.relations[relation].counts;
    int rc = ae_live_check_ids("src", src, n, counts->num_src, err);
    if (!rc)
        rc = ae_live_check_ids("dst", dst, n, counts->num_dst, err);
    if (!rc && edge_ids && !ae_control_relation(&g->graph.control, relation)->edge_id_bytes)
        rc = ae_error_set(err, AETHER_E_UNSUPPORTED,
                          "the edges of this relation have no ids: create it with edge_id_bytes 4 or 8");
    if (!rc && edge_ids)
        rc = ae_live_check_ids("edge_ids", edge_ids, n, counts->next_edge_id, err);
    return rc;
}

static int delete_pairs(ae_changing *c, const int64_t *src, const int64_t *dst, const int64_t *edge_ids,
                        uint64_t n, aether_error *err) {
    const ae_writer *any = c->csc ? c->csc : c->csr;
    doom d = {.layout = &any->table->layout, .edge = -1, .err = err};
    int rc = AETHER_OK;
    d.room = 64;
    d.indexes = malloc(d.room * sizeof *d.indexes);
    if (!d.indexes)
        rc = ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for deleting edges");
    for (uint64_t i = 0; !rc && i < n; i++) {
        d.edge = edge_ids ? edge_ids[i] : -1;
        rc = delete_pair(c, (uint32_t)src[i], (uint32_t)dst[i], &d, err);
    }
    free(d.indexes);
    return rc;
}

int aether_live_delete(aether_live *g, uint32_t relation, const int64_t *src, const int64_t *dst,
                       const int64_t *edge_ids, uint64_t n, uint64_t *deleted, aether_error *err) {
    bool own = false;
    *deleted = 0;
    int rc = check_relation(g, relation, err);
    if (!rc)
        rc = check_pairs(g, relation, src, dst, edge_ids, n, err);
    if (!rc)
        rc = ae_live_begin_call(g, &own, err);
    if (rc)
        return rc;
    ae_changing *c = ae_transaction_open(&g->transaction, relation);
    const uint64_t before = c->counts.num_edges;
    if (g->journal)
        rc = g->journal->ops->remove(g->journal, relation, src, dst, edge_ids, n, err);
    if (!rc)
        rc = delete_pairs(c, src, dst, edge_ids, n, err);
    const uint64_t gone = before - c->counts.num_edges;
    rc = ae_live_end_call(g, own, rc, err);
    *deleted = rc ? 0 : gone;
    return rc;
}

/* ---- nodes ---- */

static int check_room(const char *end, uint64_t count, uint64_t more, uint64_t max, aether_error *err) {
    const uint64_t room = ae_room_of(max);
    if (more <= room - count)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_LIMIT, -1, (int64_t)more,
                       "%" PRIu64 " more nodes than num_%s = %" PRIu64 " are more than max_%s = %" PRIu64,
                       more, end, count, end, room);
}

int aether_live_skip_edge_ids(aether_live *g, uint32_t relation, uint64_t count, aether_error *err) {
    bool own = false;
    int rc = check_relation(g, relation, err);
    if (!rc && g->journal)
        rc =
            ae_error_set(err, AETHER_E_UNSUPPORTED,
                         "edge ids are skipped before a live graph gets its journal, which does not note it");
    if (rc)
        return rc;
    const aether_live_relation *r = ae_control_relation(&g->graph.control, relation);
    const uint64_t next = g->transaction.relations[relation].counts.next_edge_id;
    const uint64_t end = r->edge_id_bytes == 8 ? (uint64_t)INT64_MAX : UINT32_MAX;
    if (count > end - next)
        return ae_error_at(err, AETHER_E_LIMIT, 0, (int64_t)count,
                           "%" PRIu64 " edge ids after %" PRIu64 " are more than there are", count, next);
    rc = ae_live_begin_call(g, &own, err);
    if (rc)
        return rc;
    ae_transaction_open(&g->transaction, relation)->counts.next_edge_id += count;
    return ae_live_end_call(g, own, AETHER_OK, err);
}

int aether_live_add_nodes(aether_live *g, uint32_t relation, uint64_t num_src, uint64_t num_dst,
                          aether_error *err) {
    bool own = false;
    int rc = check_relation(g, relation, err);
    if (rc)
        return rc;
    const aether_live_relation *r = ae_control_relation(&g->graph.control, relation);
    const ae_counts *now = &g->transaction.relations[relation].counts;
    rc = check_room("src", now->num_src, num_src, r->max_src, err);
    if (!rc)
        rc = check_room("dst", now->num_dst, num_dst, r->max_dst, err);
    if (!rc)
        rc = ae_live_begin_call(g, &own, err);
    if (rc)
        return rc;
    ae_counts *counts = &ae_transaction_open(&g->transaction, relation)->counts;
    if (g->journal)
        rc = g->journal->ops->add_nodes(g->journal, relation, num_src, num_dst, err);
    if (!rc) {
        counts->num_src += num_src;
        counts->num_dst += num_dst;
    }
    return ae_live_end_call(g, own, rc, err);
}
