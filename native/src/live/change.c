/* Inserting and deleting edges, adding nodes: checks of what comes from outside, then the lists of
 * a relation one after the other, inside one transaction. */
#include <float.h>
#include <inttypes.h>

#include "core/error.h"
#include "live/delete.h"
#include "live/handle.h"
#include "live/insert.h"

/* ---- checks ---- */

static int check_changed_relation(const aether_live *g, uint32_t relation, aether_error *err) {
    const int rc = ae_live_check_writer(g, err);
    return rc ? rc : ae_graph_check_relation(&g->graph, relation, err);
}

static int bad_new_weight(uint64_t i, float weight, aether_error *err) {
    return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, 0,
                       "weights[%" PRIu64 "] is %g: weights are finite and not negative", i, (double)weight);
}

static bool is_weight(float weight) {
    return weight >= 0 && weight <= FLT_MAX;
}

static int check_weights(const float *weights, uint64_t n, aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        if (!is_weight(weights[i]))
            return bad_new_weight(i, weights[i], err);
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

static int check_new_edges(const aether_live *g, uint32_t relation, const aether_live_edges *edges,
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
    int rc = check_changed_relation(g, relation, err);
    if (!rc)
        rc = check_new_edges(g, relation, edges, err);
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
        return bad_new_weight(0, weight, err);
    return check_edge_ids(r, counts, 1, err);
}

typedef struct single_edge {
    int64_t src, dst, time;
    float weight;
} single_edge;

static int journal_one(const aether_live *g, uint32_t relation, const single_edge *e, aether_error *err) {
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
    int rc = check_changed_relation(g, relation, err);
    if (!rc)
        rc = check_edge(g, relation, src, dst, weight, err);
    if (!rc)
        rc = ae_live_begin_call(g, &own, err);
    if (rc)
        return rc;
    ae_changing *c = ae_transaction_open(&g->transaction, relation);
    if (g->journal)
        rc = journal_one(g, relation, &(single_edge){src, dst, time, weight}, err);
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

static int check_deleted_pairs(const aether_live *g, uint32_t relation, const int64_t *src,
                               const int64_t *dst, const int64_t *edge_ids, uint64_t n, aether_error *err) {
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

int aether_live_delete(aether_live *g, uint32_t relation, const int64_t *src, const int64_t *dst,
                       const int64_t *edge_ids, uint64_t n, uint64_t *deleted, aether_error *err) {
    bool own = false;
    *deleted = 0;
    int rc = check_changed_relation(g, relation, err);
    if (!rc)
        rc = check_deleted_pairs(g, relation, src, dst, edge_ids, n, err);
    if (!rc)
        rc = ae_live_begin_call(g, &own, err);
    if (rc)
        return rc;
    ae_changing *c = ae_transaction_open(&g->transaction, relation);
    const uint64_t before = c->counts.num_edges;
    if (g->journal)
        rc = g->journal->ops->remove(g->journal, relation, src, dst, edge_ids, n, err);
    if (!rc)
        rc = ae_delete(c, src, dst, edge_ids, n, err);
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

/* Have the roots of so many nodes mapped; readers map them when they see the nodes. */
static int reach_nodes(const ae_writer *w, uint64_t nodes, aether_error *err) {
    ae_root *roots = w ? ae_table_reach(w->table, nodes, err) : NULL;
    if (w && !roots)
        return AETHER_E_NO_MEMORY;
    if (w)
        w->table->roots = roots;
    return AETHER_OK;
}

int aether_live_skip_edge_ids(aether_live *g, uint32_t relation, uint64_t count, aether_error *err) {
    bool own = false;
    int rc = check_changed_relation(g, relation, err);
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
    int rc = check_changed_relation(g, relation, err);
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
    ae_changing *c = ae_transaction_open(&g->transaction, relation);
    ae_counts *counts = &c->counts;
    rc = reach_nodes(c->csc, counts->num_dst + num_dst, err);
    if (!rc)
        rc = reach_nodes(c->csr, counts->num_src + num_src, err);
    if (!rc && g->journal)
        rc = g->journal->ops->add_nodes(g->journal, relation, num_src, num_dst, err);
    if (!rc) {
        counts->num_src += num_src;
        counts->num_dst += num_dst;
    }
    return ae_live_end_call(g, own, rc, err);
}
