#include "store/topology.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/task.h"

/* Lists to prefetch ahead: enough to cover a DRAM access, few enough for the line-fill buffers. */
#define LOCATE_AHEAD 24

#define COPY_BLOCK 256
#define NODES      4096 /* between two looks at the task */

static int bad_list(uint64_t node, uint64_t start, uint64_t end, uint64_t num_edges, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)node, (int64_t)start,
                       "the list of node %" PRIu64 " spans positions %" PRIu64 "..%" PRIu64 " of %" PRIu64
                       " edges: the graph file is damaged (run `aethergraph verify`)",
                       node, start, end, num_edges);
}

int ae_topology_locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                       aether_error *err) {
    const uint64_t *indptr = t->lists.indptr;
    for (uint64_t i = 0; i < n; i++) {
        if (i + LOCATE_AHEAD < n)
            __builtin_prefetch(&indptr[nodes[i + LOCATE_AHEAD]]);
        uint64_t start = indptr[nodes[i]], end = indptr[nodes[i] + 1];
        if (__builtin_expect(start > end || end > t->lists.num_edges, 0))
            return bad_list(nodes[i], start, end, t->lists.num_edges, err);
        out[i] = (ae_list){start, end - start};
    }
    return AETHER_OK;
}

int ae_topology_bad_id(const aether_topology *t, const uint64_t *positions, const uint64_t *ids, uint64_t n,
                       aether_error *err) {
    uint64_t i = 0;
    while (i + 1 < n && ids[i] < t->lists.num_minor)
        i++;
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)positions[i], (int64_t)ids[i],
                       "neighbour %" PRIu64 " at position %" PRIu64 " is not below %" PRIu64
                       ": the graph file is damaged (run `aethergraph verify`)",
                       ids[i], positions[i], t->lists.num_minor);
}

static void ram_prefetch32(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    const uint32_t *indices = t->lists.indices;
    for (uint64_t i = 0; i < n; i++)
        __builtin_prefetch(&indices[positions[i]]);
}

static void ram_prefetch64(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    const uint64_t *indices = t->lists.indices;
    for (uint64_t i = 0; i < n; i++)
        __builtin_prefetch(&indices[positions[i]]);
}

static int ram_fetch32(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                       aether_error *err) {
    const uint32_t *indices = t->lists.indices;
    uint64_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = indices[positions[i]];
        largest = ids[i] > largest ? ids[i] : largest;
    }
    return n && largest >= t->lists.num_minor ? ae_topology_bad_id(t, positions, ids, n, err) : AETHER_OK;
}

static int ram_fetch64(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                       aether_error *err) {
    const uint64_t *indices = t->lists.indices;
    uint64_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = indices[positions[i]];
        largest = ids[i] > largest ? ids[i] : largest;
    }
    return n && largest >= t->lists.num_minor ? ae_topology_bad_id(t, positions, ids, n, err) : AETHER_OK;
}

int ae_topology_fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                      aether_error *err) {
    return t->lists.id_bytes == 4 ? ram_fetch32(t, positions, n, ids, err)
                                  : ram_fetch64(t, positions, n, ids, err);
}

void ae_topology_edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out) {
    const uint32_t *ids32 = t->lists.edge_ids;
    const uint64_t *ids64 = t->lists.edge_ids;
    if (!t->lists.edge_ids) {
        memcpy(out, positions, n * sizeof *out);
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        out[i] = t->lists.edge_id_bytes == 4 ? ids32[positions[i]] : ids64[positions[i]];
}

void ae_topology_free(aether_topology *t) {
    free(t);
}

static const ae_topology_ops ram_ops32 = {
    ae_topology_locate, ram_prefetch32, ram_fetch32, ae_topology_edge_ids, NULL, ae_topology_free,
};
static const ae_topology_ops ram_ops64 = {
    ae_topology_locate, ram_prefetch64, ram_fetch64, ae_topology_edge_ids, NULL, ae_topology_free,
};

int ae_topology_check(const aether_lists *l, aether_error *err) {
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
    int rc = ae_topology_check(lists, err);
    if (rc)
        return rc;
    if (!lists->indices && lists->num_edges)
        return ae_error_set(err, AETHER_E_INVALID, "a topology needs indices");
    aether_topology *t = calloc(1, sizeof *t);
    if (!t)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a topology handle");
    t->lists = *lists;
    t->ops = lists->id_bytes == 4 ? &ram_ops32 : &ram_ops64;
    *out = t;
    return AETHER_OK;
}

void aether_topology_destroy(aether_topology *t) {
    if (t)
        t->ops->destroy(t);
}

static int check_node(const aether_topology *t, int64_t node, uint64_t i, aether_error *err) {
    if (node >= 0 && (uint64_t)node < t->lists.num_major)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, node,
                       "nodes[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, i, node,
                       (int64_t)t->lists.num_major - 1);
}

static int list_of(const aether_topology *t, const int64_t *nodes, uint64_t i, ae_list *list,
                   aether_error *err) {
    uint64_t node = nodes ? (uint64_t)nodes[i] : i;
    int rc = check_node(t, (int64_t)node, i, err);
    return rc ? rc : t->ops->locate(t, &node, 1, list, err);
}

int aether_topology_degrees(const aether_topology *t, const int64_t *nodes, uint64_t n, int64_t *out,
                            aether_task *task, aether_error *err) {
    ae_task_begin(task, n);
    for (uint64_t i = 0; i < n; i++) {
        ae_list list;
        int rc = i % NODES ? AETHER_OK : ae_task_check(task, "reading degrees", err);
        if (!rc)
            rc = list_of(t, nodes, i, &list, err);
        if (rc)
            return rc;
        out[i] = (int64_t)list.degree;
    }
    return AETHER_OK;
}

static int copy_list(const aether_topology *t, ae_list list, int64_t *neighbors, int64_t *edges,
                     aether_task *task, aether_error *err) {
    uint64_t positions[COPY_BLOCK];
    for (uint64_t done = 0; done < list.degree;) {
        uint64_t n = list.degree - done < COPY_BLOCK ? list.degree - done : COPY_BLOCK;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + done + i;
        int rc = ae_task_check(task, "reading lists", err);
        if (rc)
            return rc;
        if (neighbors) {
            rc = t->ops->fetch(t, positions, n, (uint64_t *)neighbors + done, err);
            if (rc)
                return rc;
        }
        if (edges)
            t->ops->edge_ids(t, positions, n, (uint64_t *)edges + done);
        done += n;
    }
    return AETHER_OK;
}

int aether_topology_neighbors(const aether_topology *t, const int64_t *nodes, uint64_t n, int64_t *neighbors,
                              int64_t *edges, uint64_t capacity, aether_task *task, aether_error *err) {
    uint64_t used = 0;
    ae_task_begin(task, capacity);
    for (uint64_t i = 0; i < n; i++) {
        ae_list list;
        int rc = list_of(t, nodes, i, &list, err);
        if (rc)
            return rc;
        if (list.degree > capacity - used)
            return ae_error_set(err, AETHER_E_INVALID, "the lists hold more than %" PRIu64 " entries",
                                capacity);
        rc = copy_list(t, list, neighbors ? neighbors + used : NULL, edges ? edges + used : NULL, task, err);
        if (rc)
            return rc;
        used += list.degree;
        ae_task_add(task, list.degree);
    }
    return AETHER_OK;
}
