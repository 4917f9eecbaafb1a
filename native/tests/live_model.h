/*
 * live_model.h - a live graph written to be obviously right: an array of edges per node, copied
 * whole for every snapshot that is held.
 *
 *   model   node -> edges in the order of the list       what the last commit, or the open
 *                                                        transaction, should show of one layout
 *
 * Two models of a relation, one with ends exchanged, give its edges the same ids by themselves.
 *
 * Caveats: everything is linear; for some ten thousand edges. Whoever needs more than 64 nodes
 * defines MODEL_NODES first.
 */
#ifndef AE_LIVE_MODEL_H
#define AE_LIVE_MODEL_H

#include "live_helpers.h"
#include "topology/topology.h"

#ifndef MODEL_NODES
#define MODEL_NODES 64
#endif

typedef struct model_edge {
    int64_t id, edge_id, time;
    float weight;
} model_edge;

typedef struct model_list {
    model_edge *edges;
    uint64_t n, room;
} model_list;

typedef struct model {
    uint32_t order, columns, edge_id_bytes;
    uint64_t num_minor, num_nodes, num_edges, next_edge_id;
    model_list lists[MODEL_NODES];
} model;

static inline model model_copy(const model *m) {
    model copy = *m;
    for (uint64_t v = 0; v < MODEL_NODES; v++) {
        model_list *l = &copy.lists[v];
        l->room = l->n;
        l->edges = malloc((l->n + 1) * sizeof *l->edges);
        memcpy(l->edges, m->lists[v].edges, l->n * sizeof *l->edges);
    }
    return copy;
}

static inline void model_free(model *m) {
    for (uint64_t v = 0; v < MODEL_NODES; v++)
        free(m->lists[v].edges);
    *m = (model){0};
}

static inline model model_make(const aether_live_relation *r, uint32_t layout) {
    const bool csc = layout == AETHER_LIVE_CSC;
    model m = {.order = r->order,
               .columns = r->columns,
               .edge_id_bytes = r->edge_id_bytes,
               .num_minor = csc ? r->num_src : r->num_dst,
               .num_nodes = csc ? r->num_dst : r->num_src};
    for (uint64_t v = 0; v < MODEL_NODES; v++)
        m.lists[v].edges = calloc(1, sizeof(model_edge));
    return m;
}

/* Return the id of the edge, new or found; -1: found, and edges have no ids. */
static inline int64_t model_insert(model *m, int64_t major, int64_t minor, int64_t time, float weight) {
    model_list *l = &m->lists[major];
    uint64_t at = 0;
    if (m->order == AETHER_ORDER_ID) {
        while (at < l->n && l->edges[at].id < minor)
            at++;
        if (at < l->n && l->edges[at].id == minor)
            return m->edge_id_bytes ? l->edges[at].edge_id : -1;
    } else {
        at = l->n;
        while (m->columns & AETHER_LIVE_TIMES && at > 0 && l->edges[at - 1].time > time)
            at--;
    }
    if (l->n == l->room) {
        l->room = 2 * l->room + 8;
        l->edges = realloc(l->edges, l->room * sizeof *l->edges);
    }
    memmove(l->edges + at + 1, l->edges + at, (l->n - at) * sizeof *l->edges);
    l->edges[at] = (model_edge){minor, (int64_t)m->next_edge_id, time, weight};
    l->n++;
    m->num_edges++;
    return (int64_t)m->next_edge_id++;
}

/* Delete all edges of the pair, or the one of `edge_id` (-1: all); return how many. */
static inline uint64_t model_delete(model *m, int64_t major, int64_t minor, int64_t edge_id) {
    model_list *l = &m->lists[major];
    uint64_t kept = 0, before = l->n;
    for (uint64_t i = 0; i < l->n; i++)
        if (l->edges[i].id != minor || (edge_id >= 0 && l->edges[i].edge_id != edge_id))
            l->edges[kept++] = l->edges[i];
    l->n = kept;
    m->num_edges -= before - kept;
    return before - kept;
}

/* ---- comparing ---- */

static inline void model_check_values(const aether_topology *t, const model *m, const model_list *l,
                                      const uint64_t *positions, uint64_t begin, uint64_t n) {
    uint64_t ids[256], edges[256];
    double weights[256];
    int64_t times[256];
    aether_error err = {0};
    uint64_t wrong = 0;
    t->ops->prefetch(t, positions, n);
    REQUIRE_OK(t->ops->fetch(t, positions, n, ids, &err), err);
    if (m->edge_id_bytes)
        REQUIRE_OK(t->ops->edge_ids(t, positions, n, edges, &err), err);
    if (m->columns & AETHER_LIVE_WEIGHTS)
        REQUIRE_OK(t->ops->weights(t, positions, n, weights, &err), err);
    if (m->columns & AETHER_LIVE_TIMES)
        REQUIRE_OK(t->ops->times(t, positions, n, times, &err), err);
    for (uint64_t i = 0; i < n; i++) {
        const model_edge *e = &l->edges[positions[i] - begin];
        wrong += (int64_t)ids[i] != e->id;
        wrong += m->edge_id_bytes && (int64_t)edges[i] != e->edge_id;
        wrong += m->columns & AETHER_LIVE_WEIGHTS && weights[i] != (double)e->weight;
        wrong += m->columns & AETHER_LIVE_TIMES && times[i] != e->time;
    }
    CHECK_EQ(wrong, 0);
}

/* Check the answers for a pair that is there, if any is, and for one that may not be. */
static inline void model_check_edges(const aether_snapshot *s, uint32_t relation, bool csc, const model *m,
                                     uint64_t v, uint64_t *state) {
    const model_list *l = &m->lists[v];
    const int64_t major[2] = {(int64_t)v, (int64_t)v};
    const int64_t minor[2] = {l->n ? l->edges[test_random(state) % l->n].id : 0,
                              (int64_t)(test_random(state) % m->num_minor)};
    uint8_t has[2], expected[2] = {0, 0};
    aether_error err = {0};
    for (uint64_t i = 0; i < l->n; i++)
        for (int k = 0; k < 2; k++)
            expected[k] |= l->edges[i].id == minor[k];
    REQUIRE_OK(
        aether_snapshot_has_edges(s, relation, csc ? minor : major, csc ? major : minor, 2, has, NULL, &err),
        err);
    CHECK_EQ(has[0], expected[0]);
    CHECK_EQ(has[1], expected[1]);
}

/* Check that a snapshot shows the model, every entry in order and some at random. */
static inline void model_check_layout(const aether_snapshot *s, uint32_t relation, uint32_t layout,
                                      const model *m, uint64_t *state) {
    const bool csc = layout == AETHER_LIVE_CSC;
    const aether_topology *t = aether_snapshot_topology(s, relation, layout);
    aether_live_commit_info info;
    aether_error err = {0};
    REQUIRE_OK(aether_snapshot_describe(s, relation, &info, &err), err);
    CHECK_EQ(csc ? info.num_dst : info.num_src, m->num_nodes);
    CHECK_EQ(csc ? info.num_src : info.num_dst, m->num_minor);
    CHECK_EQ(info.num_edges, m->num_edges);
    CHECK_EQ(info.end_edge_ids, m->next_edge_id);
    CHECK_EQ(t->num_major, m->num_nodes);
    CHECK_EQ(t->num_minor, m->num_minor);
    CHECK_EQ(t->num_edges, m->num_edges);
    for (uint64_t v = 0; v < m->num_nodes; v++) {
        const model_list *l = &m->lists[v];
        uint64_t positions[256];
        ae_list list;
        REQUIRE_OK(t->ops->locate(t, &v, 1, &list, &err), err);
        CHECK_EQ(list.degree, l->n);
        if (list.degree != l->n)
            return;
        for (uint64_t at = 0; at < l->n; at += 256) {
            const uint64_t n = l->n - at < 256 ? l->n - at : 256;
            for (uint64_t i = 0; i < n; i++)
                positions[i] = list.start + at + i;
            model_check_values(t, m, l, positions, list.start, n);
        }
        for (uint64_t i = 0; l->n && i < 256; i++)
            positions[i] = list.start + test_random(state) % l->n;
        if (l->n)
            model_check_values(t, m, l, positions, list.start, 256);
        model_check_edges(s, relation, csc, m, v, state);
    }
}

/* ... of the in-edges of the only relation. */
static inline void model_check(const aether_snapshot *s, const model *m, uint64_t *state) {
    model_check_layout(s, 0, AETHER_LIVE_CSC, m, state);
}

#endif
