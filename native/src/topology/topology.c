#include "topology/topology.h"

#include <inttypes.h>

#include "core/error.h"
#include "core/task.h"

#define COPY_BLOCK 256
#define NODES      4096 /* between two looks at the task */

int ae_topology_bad_id(const aether_topology *t, const uint64_t *positions, const uint64_t *ids, uint64_t n,
                       aether_error *err) {
    uint64_t i = 0;
    while (i + 1 < n && ids[i] < t->num_minor)
        i++;
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)positions[i], (int64_t)ids[i],
                       "neighbour %" PRIu64 " at position %" PRIu64 " is not below %" PRIu64
                       ": the graph file is damaged (run `aethergraph verify`)",
                       ids[i], positions[i], t->num_minor);
}

int ae_topology_need_dense(const aether_topology *t, const char *tables, aether_error *err) {
    if (ae_topology_is_dense(t))
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_UNSUPPORTED,
                        "%s are by position, and the positions of this graph are not 0..%" PRId64
                        ": leave them out, or copy the graph into arrays",
                        tables, (int64_t)t->num_edges - 1);
}

int ae_topology_need_length(const aether_topology *t, uint64_t num_edges, aether_error *err) {
    if (num_edges == t->num_edges)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_INVALID, "room for %" PRIu64 " edges, the topology has %" PRIu64,
                        num_edges, t->num_edges);
}

void aether_topology_destroy(aether_topology *t) {
    if (t)
        t->ops->destroy(t);
}

uint64_t aether_topology_memory(const aether_topology *t) {
    return t->ops->memory(t);
}

int aether_topology_keep_pages(aether_topology *t, uint64_t bytes, aether_error *err) {
    if (!t->ops->keep_pages)
        return ae_error_set(err, AETHER_E_INVALID, "only lists in a file have pages to keep");
    return t->ops->keep_pages(t, bytes, err);
}

uint64_t aether_topology_kept(const aether_topology *t) {
    return t->ops->kept ? t->ops->kept(t) : 0;
}

static int check_node(const aether_topology *t, int64_t node, uint64_t i, aether_error *err) {
    if (node >= 0 && (uint64_t)node < t->num_major)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, node,
                       "nodes[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, i, node,
                       (int64_t)t->num_major - 1);
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
        if (edges) {
            rc = t->ops->edge_ids(t, positions, n, (uint64_t *)edges + done, err);
            if (rc)
                return rc;
        }
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
