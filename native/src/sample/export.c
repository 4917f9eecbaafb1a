/* Widening the last sample into the caller's arrays, int32 or int64. */
#include <inttypes.h>
#include <stdbool.h>

#include "core/error.h"
#include "sample/sampler.h"

#define BLOCK  512
#define INLINE static inline __attribute__((always_inline))

/* Each put_* is inlined once with bytes 4 and once with 8, so that its loops
 * have one element size and vectorise. */
INLINE void put(void *out, uint32_t bytes, uint64_t i, uint64_t value) {
    if (bytes == 4)
        ((int32_t *)out)[i] = (int32_t)value;
    else
        ((int64_t *)out)[i] = (int64_t)value;
}

INLINE void put_nodes(const aether_sampler *s, uint32_t bytes, void *restrict node) {
    const uint64_t *keys = ae_sampler_keys(s);
    const uint64_t mask = s->node_bits ? (UINT64_C(1) << s->node_bits) - 1 : UINT64_MAX;
    for (uint64_t i = 0; i < s->num_nodes; i++)
        put(node, bytes, i, keys[i] & mask);
}

INLINE void put_trees(const aether_sampler *s, uint32_t bytes, void *restrict batch) {
    const uint64_t *keys = ae_sampler_keys(s);
    for (uint64_t i = 0; i < s->num_nodes; i++)
        put(batch, bytes, i, keys[i] >> s->node_bits);
}

INLINE void put_rows(const aether_sampler *s, uint32_t bytes, void *restrict row) {
    const uint32_t *rows = s->rows.data;
    for (uint64_t i = 0; i < s->num_edges; i++)
        put(row, bytes, i, rows[i]);
}

/* Eight at a time and past the end of a list, which the next one overwrites:
 * most lists then cost one pass and no mispredicted branch. */
INLINE void put_cols(const aether_sampler *s, uint32_t bytes, void *restrict col) {
    const uint64_t *first = ae_sampler_first(s);
    const uint64_t bulk = s->num_edges & ~UINT64_C(7);
    for (uint64_t v = 0; v < s->num_expanded; v++) {
        uint64_t e = first[v];
        for (; e < first[v + 1] && e + 8 <= bulk; e += 8)
            for (uint64_t j = 0; j < 8; j++)
                put(col, bytes, e + j, v);
        for (; e < first[v + 1]; e++)
            put(col, bytes, e, v);
    }
}

INLINE void put_edges(const aether_sampler *s, uint32_t bytes, void *restrict edge) {
    const aether_topology *t = s->topology;
    const uint64_t *positions = s->positions.data;
    uint64_t ids[BLOCK];
    for (uint64_t at = 0; at < s->num_edges; at += BLOCK) {
        uint64_t n = s->num_edges - at < BLOCK ? s->num_edges - at : BLOCK;
        t->ops->edge_ids(t, positions + at, n, ids);
        for (uint64_t i = 0; i < n; i++)
            put(edge, bytes, at + i, ids[i]);
    }
}

typedef struct columns {
    void *node, *row, *col, *edge, *batch;
} columns;

INLINE void put_all(const aether_sampler *s, uint32_t bytes, const columns *out) {
    if (out->node)
        put_nodes(s, bytes, out->node);
    if (out->row)
        put_rows(s, bytes, out->row);
    if (out->col)
        put_cols(s, bytes, out->col);
    if (out->edge)
        put_edges(s, bytes, out->edge);
    if (out->batch)
        put_trees(s, bytes, out->batch);
}

/* Slots may outnumber the graph's nodes: a node is in many disjoint trees, and
 * every repeated seed has its own. */
static bool fits_int32(const aether_sampler *s) {
    const aether_lists *l = &s->topology->lists;
    return l->num_minor <= INT32_MAX && l->num_edges <= INT32_MAX && s->num_nodes <= INT32_MAX;
}

int aether_sample_export(const aether_sampler *s, uint32_t out_bytes, void *node, void *row, void *col,
                         void *edge, void *batch, aether_error *err) {
    if (out_bytes != 4 && out_bytes != 8)
        return ae_error_set(err, AETHER_E_INVALID, "out_bytes is %u, not 4 or 8", out_bytes);
    if (out_bytes == 4 && !fits_int32(s))
        return ae_error_set(err, AETHER_E_LIMIT, "ids of this sample do not fit int32: ask for int64");
    if (batch && !s->node_bits && s->num_nodes)
        return ae_error_set(err, AETHER_E_INVALID, "only a disjoint sample has a batch vector");
    const columns out = {node, row, col, edge, batch};
    if (out_bytes == 4)
        put_all(s, 4, &out);
    else
        put_all(s, 8, &out);
    return AETHER_OK;
}
