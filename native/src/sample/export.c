/* Copies the last sample to the caller's arrays, widened to int32 or int64. */
#include <inttypes.h>
#include <stdbool.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "sample/state.h"

#define BLOCK    512
#define NO_BATCH "only a disjoint sample has a batch vector"
#define INLINE   static inline __attribute__((always_inline))

static int cancelled(aether_error *err) {
    return ae_error_set(err, AETHER_E_CANCELLED, "copying a sample was cancelled");
}

/* Loop over n items in stretches [at, end), looking at the task before each; return from the
 * function if it is cancelled. */
#define EACH_STRETCH(n)                                                                                      \
    for (uint64_t at = 0, end; at < (n); at = end)                                                           \
        if ((end = ae_min_u64(at + AE_TASK_ITEMS, (n))), ae_task_cancelled(s->task))                         \
            return cancelled(err);                                                                           \
        else

/* Each put_* is inlined once with bytes 4 and once with 8, so that its loops
 * have one element size and vectorise. */
INLINE void put_id(void *out, uint32_t bytes, uint64_t i, uint64_t value) {
    if (bytes == 4)
        ((int32_t *)out)[i] = (int32_t)value;
    else
        ((int64_t *)out)[i] = (int64_t)value;
}

INLINE int put_nodes(const aether_sampler *s, const ae_nodes *n, uint32_t bytes, void *restrict node,
                     aether_error *err) {
    const uint64_t *keys = ae_nodes_keys(n);
    const uint64_t mask = s->node_bits ? (UINT64_C(1) << s->node_bits) - 1 : UINT64_MAX;
    EACH_STRETCH(n->num_nodes)
    for (uint64_t i = at; i < end; i++)
        put_id(node, bytes, i, keys[i] & mask);
    return AETHER_OK;
}

INLINE int put_trees(const aether_sampler *s, const ae_nodes *n, uint32_t bytes, void *restrict batch,
                     aether_error *err) {
    const uint64_t *keys = ae_nodes_keys(n);
    EACH_STRETCH(n->num_nodes)
    for (uint64_t i = at; i < end; i++)
        put_id(batch, bytes, i, keys[i] >> s->node_bits);
    return AETHER_OK;
}

INLINE int put_rows(const aether_sampler *s, const ae_relation *r, uint32_t bytes, void *restrict row,
                    aether_error *err) {
    const uint32_t *rows = r->rows.data;
    EACH_STRETCH(r->num_edges)
    for (uint64_t i = at; i < end; i++)
        put_id(row, bytes, i, rows[i]);
    return AETHER_OK;
}

/* Write the near end of each edge of slots [from, to), which are local ids 0, 1... Sixteen at a
 * time and past the end of a list, which the next list overwrites: most lists then cost one pass
 * and no mispredicted branch. */
INLINE int put_layer(const aether_sampler *s, const ae_relation *r, uint64_t from, uint64_t to,
                     uint32_t bytes, void *restrict col, aether_error *err) {
    const uint64_t *first = ae_relation_first(r) + from;
    const uint64_t bulk = r->num_edges & ~UINT64_C(15);
    for (uint64_t v = 0, look = 0; v < to - from; v++) {
        uint64_t e = first[v];
        if (e + v >= look) {
            if (ae_task_cancelled(s->task))
                return cancelled(err);
            look = e + v + AE_TASK_ITEMS;
        }
        for (; e < first[v + 1] && e + 16 <= bulk; e += 16)
            for (uint64_t j = 0; j < 16; j++)
                put_id(col, bytes, e + j, v);
        for (; e < first[v + 1]; e++)
            put_id(col, bytes, e, v);
    }
    return AETHER_OK;
}

INLINE int put_cols(const aether_sampler *s, const ae_relation *r, uint32_t bytes, void *restrict col,
                    aether_error *err) {
    const uint64_t *layers = r->layers.data;
    int rc = r->num_layers ? AETHER_OK : put_layer(s, r, 0, r->num_expanded, bytes, col, err);
    for (uint32_t i = 0; !rc && i < r->num_layers; i++)
        rc = put_layer(s, r, layers[i], i + 1 < r->num_layers ? layers[i + 1] : r->num_expanded, bytes, col,
                       err);
    return rc;
}

/* Write the ids of the edges: those that stand in `positions`, and those that the topology finds there. Lists
 * elsewhere are asked for all at once. */
INLINE int put_edges(const aether_sampler *s, const ae_relation *r, uint32_t bytes, void *restrict edge,
                     aether_error *err) {
    const aether_topology *t = r->topology;
    const uint64_t *positions = r->positions.data;
    const uint64_t known = t->edge_ids_are_positions ? r->num_edges : r->num_known;
    const bool at_once = t->is_far && bytes == 8;
    uint64_t ids[BLOCK];
    EACH_STRETCH(known)
    for (uint64_t i = at; i < end; i++)
        put_id(edge, bytes, i, positions[i]);
    for (uint64_t at = known, end; at < r->num_edges; at = end) {
        end = at_once ? r->num_edges : ae_min_u64(at + BLOCK, r->num_edges);
        if ((at - known) % AE_TASK_ITEMS == 0 && ae_task_cancelled(s->task))
            return cancelled(err);
        int rc = t->ops->edge_ids(t, positions + at, end - at, at_once ? (uint64_t *)edge + at : ids, err);
        if (rc)
            return rc;
        for (uint64_t i = at; !at_once && i < end; i++)
            put_id(edge, bytes, i, ids[i - at]);
    }
    return AETHER_OK;
}

INLINE int put_type(const aether_sampler *s, const ae_nodes *n, uint32_t bytes, void *node, void *batch,
                    aether_error *err) {
    int rc = node ? put_nodes(s, n, bytes, node, err) : AETHER_OK;
    return rc || !batch ? rc : put_trees(s, n, bytes, batch, err);
}

INLINE int put_relation(const aether_sampler *s, const ae_relation *r, uint32_t bytes, void *row, void *col,
                        void *edge, aether_error *err) {
    int rc = row ? put_rows(s, r, bytes, row, err) : AETHER_OK;
    if (!rc && col)
        rc = put_cols(s, r, bytes, col, err);
    return rc || !edge ? rc : put_edges(s, r, bytes, edge, err);
}

static int check_bytes(uint32_t item_bytes, bool fits_int32, aether_error *err) {
    if (item_bytes != 4 && item_bytes != 8)
        return ae_error_set(err, AETHER_E_INVALID, "item_bytes is %u, not 4 or 8", item_bytes);
    if (item_bytes == 4 && !fits_int32)
        return ae_error_set(err, AETHER_E_LIMIT, "ids of this sample do not fit int32: ask for int64");
    return AETHER_OK;
}

static int check_count(const char *what, uint64_t count, uint64_t have, aether_error *err) {
    if (count == have)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_INVALID, "room for %" PRIu64 " %s, the sample has %" PRIu64, count,
                        what, have);
}

/* int32 is checked against both counts: a sample may have more slots than the graph has nodes,
 * because a node may be in many disjoint trees and every repeated seed has its own slot. */
int aether_sample_export_nodes(const aether_sampler *s, uint32_t type, const aether_sample_arrays *arrays,
                               aether_error *err) {
    int rc = ae_options_check(arrays, sizeof *arrays, "aether_sample_arrays", err);
    if (rc)
        return rc;
    if (type >= s->num_types)
        return ae_error_set(err, AETHER_E_INVALID, "node type %u of %u", type, s->num_types);
    const ae_nodes *n = &s->nodes[type];
    const aether_sample_arrays *a = arrays;
    rc = check_bytes(a->item_bytes, n->num_ids <= INT32_MAX && n->num_nodes <= INT32_MAX, err);
    if (rc || (rc = check_count("nodes", a->num_nodes, n->num_nodes, err)) != 0)
        return rc;
    if (a->batch && !s->node_bits && n->num_nodes)
        return ae_error_set(err, AETHER_E_INVALID, NO_BATCH);
    return a->item_bytes == 4 ? put_type(s, n, 4, a->node, a->batch, err)
                              : put_type(s, n, 8, a->node, a->batch, err);
}

int aether_sample_export_edges(const aether_sampler *s, uint32_t relation, const aether_sample_arrays *arrays,
                               aether_error *err) {
    int rc = ae_options_check(arrays, sizeof *arrays, "aether_sample_arrays", err);
    if (rc)
        return rc;
    if (relation >= s->num_relations)
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u of %u", relation, s->num_relations);
    const ae_relation *r = &s->relations[relation];
    const aether_sample_arrays *a = arrays;
    bool fits = r->topology->end_edge_ids <= INT32_MAX && s->nodes[r->from].num_nodes <= INT32_MAX &&
                s->nodes[r->to].num_nodes <= INT32_MAX;
    rc = check_bytes(a->item_bytes, fits, err);
    if (rc || (rc = check_count("edges", a->num_edges, r->num_edges, err)) != 0)
        return rc;
    return a->item_bytes == 4 ? put_relation(s, r, 4, a->row, a->col, a->edge, err)
                              : put_relation(s, r, 8, a->row, a->col, a->edge, err);
}

int aether_sample_export(const aether_sampler *s, const aether_sample_arrays *arrays, aether_error *err) {
    int rc = aether_sample_export_nodes(s, 0, arrays, err);
    return rc ? rc : aether_sample_export_edges(s, 0, arrays, err);
}

int aether_sample_export_typed(const aether_sampler *s, uint64_t num_nodes, uint64_t num_edges, int64_t *node,
                               int64_t *batch, int64_t *edges, aether_error *err) {
    uint64_t nodes = 0, total = 0;
    for (uint32_t i = 0; i < s->num_types; i++)
        nodes += s->nodes[i].num_nodes;
    for (uint32_t i = 0; i < s->num_relations; i++)
        total += s->relations[i].num_edges;
    int rc = check_count("nodes", num_nodes, nodes, err);
    if (!rc)
        rc = check_count("edges", num_edges, total, err);
    if (!rc && batch && !s->node_bits && nodes)
        return ae_error_set(err, AETHER_E_INVALID, NO_BATCH);
    for (uint32_t i = 0; !rc && i < s->num_types; i++) {
        const ae_nodes *n = &s->nodes[i];
        rc = put_type(s, n, 8, node, batch, err);
        node += n->num_nodes;
        batch = batch ? batch + n->num_nodes : NULL;
    }
    for (uint32_t i = 0; !rc && i < s->num_relations; i++) {
        const ae_relation *r = &s->relations[i];
        const uint64_t n = r->num_edges;
        rc = put_relation(s, r, 8, edges, edges + n, edges + 2 * n, err);
        edges += 3 * n;
    }
    return rc;
}

/* The edges of hop i lie between those of the hops around it, so first[] needs no
 * end of its own for each. */
static int64_t *put_offsets(const ae_relation *r, int64_t *out) {
    const uint64_t *layers = r->layers.data, *first = ae_relation_first(r);
    for (uint32_t i = 0; i < r->num_layers; i++) {
        const uint64_t end = i + 1 < r->num_layers ? layers[i + 1] : r->num_expanded;
        for (uint64_t v = layers[i]; v <= end; v++)
            *out++ = (int64_t)(first[v] - first[layers[i]]);
    }
    return out;
}

static uint64_t count_layers(const aether_sampler *s) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < s->num_types; i++)
        count += s->nodes[i].num_nodes;
    for (uint32_t i = 0; i < s->num_relations; i++) {
        const ae_relation *r = &s->relations[i];
        count += 2 * r->num_edges + (r->num_layers ? r->num_expanded + r->num_layers : 0);
    }
    return count;
}

int aether_sample_export_layers(const aether_sampler *s, int64_t *out, uint64_t count, aether_error *err) {
    int rc = check_count("numbers", count, count_layers(s), err);
    for (uint32_t i = 0; !rc && i < s->num_types; out += s->nodes[i++].num_nodes)
        rc = put_nodes(s, &s->nodes[i], 8, out, err);
    for (uint32_t i = 0; !rc && i < s->num_relations; i++) {
        const ae_relation *r = &s->relations[i];
        rc = put_rows(s, r, 8, out, err);
        if (!rc)
            rc = put_edges(s, r, 8, out + r->num_edges, err);
        if (!rc)
            out = put_offsets(r, out + 2 * r->num_edges);
    }
    return rc;
}
