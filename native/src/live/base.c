#include "live/base.h"

#include <inttypes.h>

#include "core/error.h"

#define SOME 256 /* entries that are read together */

/* ---- which base ---- */

static int wrong_base(uint64_t value, const char *name, uint64_t expected, aether_error *err) {
    return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)value,
                       "the base has %" PRIu64 " %s, where the relation was created for %" PRIu64, value,
                       name, expected);
}

static int check(const aether_live_base *given, const aether_live_relation *relation, uint32_t layout,
                 aether_error *err) {
    const aether_topology *t = given->lists;
    const bool csc = layout == AETHER_LIVE_CSC;
    const uint64_t major = csc ? relation->num_dst : relation->num_src;
    const uint64_t minor = csc ? relation->num_src : relation->num_dst;
    if (!relation->base_edges)
        return ae_error_set(err, AETHER_E_INVALID,
                            "the relation was created without a base: base_edges is the number of its edges");
    if (t->num_edges != relation->base_edges)
        return wrong_base(t->num_edges, "edges", relation->base_edges, err);
    if (t->num_major > major)
        return wrong_base(t->num_major, "lists", major, err);
    if (t->num_minor > minor)
        return wrong_base(t->num_minor, "nodes in its lists", minor, err);
    if (t->id_bytes != sizeof(uint32_t) || !ae_topology_is_dense(t))
        return ae_error_set(err, AETHER_E_UNSUPPORTED,
                            "a base has lists of 32-bit ids, one after the other, as in a graph file");
    if (given->edge_ids && given->edge_id_bytes != 4 && given->edge_id_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)given->edge_id_bytes,
                           "edge_id_bytes of a base is %" PRIu32 ", not 4 or 8", given->edge_id_bytes);
    if (!given->times != !(relation->columns & AETHER_LIVE_TIMES))
        return ae_error_set(err, AETHER_E_INVALID, "the edges of base and relation must both have times");
    if (!given->weights != !(relation->columns & AETHER_LIVE_WEIGHTS))
        return ae_error_set(err, AETHER_E_INVALID, "the edges of base and relation must both have weights");
    if (given->times_of > AETHER_TIMES_OF_NODES)
        return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)given->times_of,
                           "times_of of a base is %" PRIu32 ", not AETHER_TIMES_OF_EDGES or _NODES",
                           given->times_of);
    return AETHER_OK;
}

int ae_base_set(ae_base *b, const aether_live_base *given, const aether_live_relation *relation,
                uint32_t layout, aether_error *err) {
    const int rc = check(given, relation, layout, err);
    if (rc)
        return rc;
    b->given = *given;
    b->of_in_edges = layout == AETHER_LIVE_CSC;
    if (given->times_of == AETHER_TIMES_OF_NODES && !b->of_in_edges)
        b->given.last_time = INT64_MIN;
    return AETHER_OK;
}

/* ---- reading ---- */

int ae_base_locate(const ae_base *b, const uint64_t *nodes, uint64_t n, ae_list *out, aether_error *err) {
    const aether_topology *t = b->given.lists;
    uint64_t known = 0;
    while (known < n && nodes[known] < t->num_major)
        known++;
    if (known == n)
        return t->ops->locate(t, nodes, n, out, err);
    int rc = known ? t->ops->locate(t, nodes, known, out, err) : AETHER_OK;
    for (uint64_t i = known; !rc && i < n; i++) {
        out[i] = (ae_list){0, 0};
        if (nodes[i] < t->num_major)
            rc = t->ops->locate(t, &nodes[i], 1, &out[i], err);
    }
    return rc;
}

int ae_base_ids(const ae_base *b, const uint64_t *positions, uint64_t n, uint64_t *out, aether_error *err) {
    return b->given.lists->ops->fetch(b->given.lists, positions, n, out, err);
}

/* Read the ids that edges have in the base. */
static int own_edge_ids(const ae_base *b, const uint64_t *positions, uint64_t n, uint64_t *out,
                        aether_error *err) {
    const aether_topology *t = b->given.lists;
    int rc = AETHER_OK;
    if (t->edge_ids_are_positions)
        memmove(out, positions, n * sizeof *out);
    else
        rc = t->ops->edge_ids(t, positions, n, out, err);
    for (uint64_t i = 0; !rc && i < n; i++)
        if (out[i] >= t->end_edge_ids)
            rc = ae_error_at(err, AETHER_E_CORRUPT, (int64_t)positions[i], (int64_t)out[i],
                             "edge id %" PRIu64 " of the base is not below %" PRIu64
                             ": the graph file is damaged (run `aethergraph verify`)",
                             out[i], t->end_edge_ids);
    return rc;
}

int ae_base_edge_ids(const ae_base *b, const uint64_t *positions, uint64_t n, uint64_t *out,
                     aether_error *err) {
    const int rc = own_edge_ids(b, positions, n, out, err);
    const uint32_t *narrow = b->given.edge_ids;
    const uint64_t *wide = b->given.edge_ids;
    for (uint64_t i = 0; !rc && narrow && i < n; i++)
        out[i] = b->given.edge_id_bytes == 4 ? narrow[out[i]] : wide[out[i]];
    return rc;
}

/* Read weights or times by the ids that edges have in the base, times of nodes by those of neighbours; all
 * have 8 bytes in `out`. */
static int read_values(const ae_base *b, bool times, const uint64_t *positions, uint64_t n, void *out,
                       aether_error *err) {
    const bool of_nodes = times && b->given.times_of == AETHER_TIMES_OF_NODES;
    uint64_t ids[SOME];
    int rc = AETHER_OK;
    for (uint64_t at = 0; !rc && at < n; at += SOME) {
        const uint64_t some = n - at < SOME ? n - at : SOME;
        rc = (of_nodes ? ae_base_ids : own_edge_ids)(b, positions + at, some, ids, err);
        for (uint64_t i = 0; !rc && i < some; i++)
            if (times)
                ((int64_t *)out)[at + i] = b->given.times[ids[i]];
            else
                ((double *)out)[at + i] = (double)b->given.weights[ids[i]];
    }
    return rc;
}

int ae_base_weights(const ae_base *b, const uint64_t *positions, uint64_t n, double *out, aether_error *err) {
    return read_values(b, false, positions, n, out, err);
}

int ae_base_times(const ae_base *b, const uint64_t *positions, uint64_t n, int64_t *out, aether_error *err) {
    if (b->given.times_of != AETHER_TIMES_OF_NODES || b->of_in_edges)
        return read_values(b, true, positions, n, out, err);
    for (uint64_t i = 0; i < n; i++)
        out[i] = INT64_MIN;
    return AETHER_OK;
}

/* ---- copying ---- */

static int copy_some(const ae_base *b, const ae_layout *l, uint64_t start, uint32_t n, uint8_t *groups,
                     uint32_t at, aether_error *err) {
    uint64_t positions[SOME], ids[SOME], edges[SOME];
    int64_t times[SOME];
    double weights[SOME];
    for (uint32_t i = 0; i < n; i++)
        positions[i] = start + i;
    int rc = ae_base_ids(b, positions, n, ids, err);
    if (!rc && l->edge_id_bytes)
        rc = ae_base_edge_ids(b, positions, n, edges, err);
    if (!rc && l->time)
        rc = ae_base_times(b, positions, n, times, err);
    if (!rc && l->weight)
        rc = ae_base_weights(b, positions, n, weights, err);
    for (uint32_t i = 0; !rc && i < n; i++) {
        const ae_entry entry = {.id = (uint32_t)ids[i],
                                .edge_id = l->edge_id_bytes ? edges[i] : 0,
                                .time = l->time ? times[i] : 0,
                                .weight = l->weight ? (float)weights[i] : 0};
        ae_put_entry(l, groups, at + i, &entry);
    }
    return rc;
}

int ae_base_copy(const ae_base *b, const ae_layout *l, uint64_t start, uint32_t n, uint8_t *groups,
                 uint32_t at, aether_error *err) {
    int rc = AETHER_OK;
    for (uint32_t done = 0; !rc && done < n; done += SOME) {
        const uint32_t some = n - done < SOME ? n - done : SOME;
        rc = copy_some(b, l, start + done, some, groups, at + done, err);
    }
    return rc;
}
