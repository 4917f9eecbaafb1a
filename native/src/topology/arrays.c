#include "topology/arrays.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* Lists to prefetch ahead: enough to cover a DRAM access, few enough for the line-fill buffers. */
#define LOCATE_AHEAD 24

static int bad_list(uint64_t node, uint64_t start, uint64_t end, uint64_t num_edges, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)node, (int64_t)start,
                       "the list of node %" PRIu64 " spans positions %" PRIu64 "..%" PRIu64 " of %" PRIu64
                       " edges: the graph file is damaged (run `aethergraph verify`)",
                       node, start, end, num_edges);
}

int ae_arrays_locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                     aether_error *err) {
    const uint64_t *indptr = ae_arrays_of(t)->indptr;
    for (uint64_t i = 0; i < n; i++) {
        if (i + LOCATE_AHEAD < n)
            __builtin_prefetch(&indptr[nodes[i + LOCATE_AHEAD]]);
        uint64_t start = indptr[nodes[i]], end = indptr[nodes[i] + 1];
        if (__builtin_expect(start > end || end > t->num_edges, 0))
            return bad_list(nodes[i], start, end, t->num_edges, err);
        out[i] = (ae_list){start, end - start};
    }
    return AETHER_OK;
}

static void ram_prefetch32(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    const uint32_t *indices = ae_arrays_of(t)->indices;
    for (uint64_t i = 0; i < n; i++)
        __builtin_prefetch(&indices[positions[i]]);
}

static void ram_prefetch64(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    const uint64_t *indices = ae_arrays_of(t)->indices;
    for (uint64_t i = 0; i < n; i++)
        __builtin_prefetch(&indices[positions[i]]);
}

static int ram_fetch32(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                       aether_error *err) {
    const uint32_t *indices = ae_arrays_of(t)->indices;
    uint64_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = indices[positions[i]];
        largest = ids[i] > largest ? ids[i] : largest;
    }
    return n && largest >= t->num_minor ? ae_topology_bad_id(t, positions, ids, n, err) : AETHER_OK;
}

static int ram_fetch64(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                       aether_error *err) {
    const uint64_t *indices = ae_arrays_of(t)->indices;
    uint64_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = indices[positions[i]];
        largest = ids[i] > largest ? ids[i] : largest;
    }
    return n && largest >= t->num_minor ? ae_topology_bad_id(t, positions, ids, n, err) : AETHER_OK;
}

int ae_arrays_fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                    aether_error *err) {
    return t->id_bytes == 4 ? ram_fetch32(t, positions, n, ids, err) : ram_fetch64(t, positions, n, ids, err);
}

int ae_arrays_edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                       aether_error *err) {
    const ae_arrays *a = ae_arrays_of(t);
    const uint32_t *ids32 = a->edge_ids;
    const uint64_t *ids64 = a->edge_ids;
    (void)err;
    if (!a->edge_ids) {
        memmove(out, positions, n * sizeof *out);
        return AETHER_OK;
    }
    for (uint64_t i = 0; i < n; i++)
        out[i] = a->edge_id_bytes == 4 ? ids32[positions[i]] : ids64[positions[i]];
    return AETHER_OK;
}

uint64_t ae_arrays_memory(const aether_topology *t) {
    return sizeof *ae_arrays_of(t);
}

void ae_arrays_free(aether_topology *t) {
    free(t);
}

#define RAM_OPS(bits)                                                                                        \
    {                                                                                                        \
        .locate = ae_arrays_locate, .prefetch = ram_prefetch##bits, .fetch = ram_fetch##bits,                \
        .edge_ids = ae_arrays_edge_ids, .memory = ae_arrays_memory, .destroy = ae_arrays_free,               \
    }

static const ae_topology_ops ram_ops32 = RAM_OPS(32), ram_ops64 = RAM_OPS(64);

const uint32_t *ae_arrays_ids(const aether_topology *t) {
    return t->ops == &ram_ops32 ? ae_arrays_of(t)->indices : NULL;
}

ae_arrays ae_arrays_make(const aether_lists *l, const ae_topology_ops *ops) {
    return (ae_arrays){
        .base = {.ops = ops,
                 .num_major = l->num_major,
                 .num_minor = l->num_minor,
                 .num_edges = l->num_edges,
                 .end_positions = l->num_edges,
                 .end_edge_ids = l->num_edges,
                 .id_bytes = l->id_bytes,
                 .edge_ids_are_positions = !l->edge_ids},
        .indptr = l->indptr,
        .indices = l->indices,
        .edge_ids = l->edge_ids,
        .edge_id_bytes = l->edge_id_bytes,
    };
}

int ae_arrays_check(const aether_lists *l, aether_error *err) {
    if (!l || !l->indptr)
        return ae_error_set(err, AETHER_E_INVALID, "a topology needs indptr");
    if (l->id_bytes != 4 && l->id_bytes != 8)
        return ae_error_set(err, AETHER_E_INVALID, "id_bytes is %u, not 4 or 8", l->id_bytes);
    if (l->edge_ids && l->edge_id_bytes != 4 && l->edge_id_bytes != 8)
        return ae_error_set(err, AETHER_E_INVALID, "edge_id_bytes is %u, not 4 or 8", l->edge_id_bytes);
    if (l->num_major >= INT64_MAX || l->num_minor >= INT64_MAX || l->num_edges >= INT64_MAX)
        return ae_error_set(err, AETHER_E_LIMIT, "a topology holds fewer than 2^63 nodes and edges");
    if (l->indptr[0] != 0 || l->indptr[l->num_major] != l->num_edges)
        return ae_error_set(err, AETHER_E_CORRUPT,
                            "indptr runs from %" PRIu64 " to %" PRIu64 ", not from 0 to %" PRIu64,
                            l->indptr[0], l->indptr[l->num_major], l->num_edges);
    return AETHER_OK;
}

int aether_topology_create(const aether_lists *lists, aether_topology **out, aether_error *err) {
    int rc = ae_arrays_check(lists, err);
    if (rc)
        return rc;
    if (!lists->indices && lists->num_edges)
        return ae_error_set(err, AETHER_E_INVALID, "a topology needs indices");
    ae_arrays *a = malloc(sizeof *a);
    if (!a)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a topology handle");
    *a = ae_arrays_make(lists, lists->id_bytes == 4 ? &ram_ops32 : &ram_ops64);
    *out = &a->base;
    return AETHER_OK;
}
