#include "topology/topology.h"

#include <inttypes.h>
#include <stdbool.h>

#define AETHER_EXPERIMENTAL
#include "aether/experimental.h"
#include "aether/io.h"
#include "core/error.h"
#include "core/options.h"
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

static int check_node_id(const aether_topology *t, int64_t node, uint64_t i, aether_error *err) {
    if (node >= 0 && (uint64_t)node < t->num_major)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, node,
                       "nodes[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, i, node,
                       (int64_t)t->num_major - 1);
}

static int locate_node(const aether_topology *t, const int64_t *nodes, uint64_t i, ae_list *list,
                       aether_error *err) {
    uint64_t node = nodes ? (uint64_t)nodes[i] : i;
    int rc = check_node_id(t, (int64_t)node, i, err);
    return rc ? rc : t->ops->locate(t, &node, 1, list, err);
}

int aether_topology_degrees(const aether_topology *t, const int64_t *nodes, uint64_t n, int64_t *out,
                            aether_task *task, aether_error *err) {
    ae_task_begin(task, n);
    for (uint64_t i = 0; i < n; i++) {
        ae_list list;
        int rc = i % NODES ? AETHER_OK : ae_task_check(task, "reading degrees", err);
        if (!rc)
            rc = locate_node(t, nodes, i, &list, err);
        if (rc)
            return rc;
        out[i] = (int64_t)list.degree;
    }
    return AETHER_OK;
}

/* Copy a column of n positions to its place, if it is asked for. */
static int copy_columns(const aether_topology *t, const aether_list_request *r, const uint64_t *positions,
                        uint64_t n, uint64_t at, aether_error *err) {
    int rc = AETHER_OK;
    if (r->neighbors)
        rc = t->ops->fetch(t, positions, n, (uint64_t *)r->neighbors + at, err);
    if (!rc && r->edges)
        rc = t->ops->edge_ids(t, positions, n, (uint64_t *)r->edges + at, err);
    if (!rc && r->weights)
        rc = t->ops->weights(t, positions, n, r->weights + at, err);
    if (!rc && r->times)
        rc = t->ops->times(t, positions, n, r->times + at, err);
    return rc;
}

static int copy_list(const aether_topology *t, const aether_list_request *r, ae_list list, uint64_t at,
                     aether_task *task, aether_error *err) {
    uint64_t positions[COPY_BLOCK];
    for (uint64_t done = 0; done < list.degree;) {
        uint64_t n = list.degree - done < COPY_BLOCK ? list.degree - done : COPY_BLOCK;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + done + i;
        int rc = ae_task_check(task, "reading lists", err);
        if (!rc)
            rc = copy_columns(t, r, positions, n, at + done, err);
        if (rc)
            return rc;
        done += n;
    }
    return AETHER_OK;
}

int aether_topology_neighbors(const aether_topology *t, const aether_list_request *request, aether_task *task,
                              aether_error *err) {
    const aether_list_request *r = request;
    uint64_t used = 0;
    int rc = ae_options_check(r, sizeof *r, "aether_list_request", err);
    if (!rc && ((r->weights && !t->ops->weights) || (r->times && !t->ops->times)))
        rc = ae_error_set(err, AETHER_E_UNSUPPORTED, "this topology keeps no %s itself",
                          r->weights && !t->ops->weights ? "weights" : "times");
    if (rc)
        return rc;
    ae_task_begin(task, r->capacity);
    for (uint64_t i = 0; i < r->n; i++) {
        ae_list list;
        rc = locate_node(t, r->nodes, i, &list, err);
        if (rc)
            return rc;
        if (list.degree > r->capacity - used)
            return ae_error_set(err, AETHER_E_INVALID, "the lists hold more than %" PRIu64 " entries",
                                r->capacity);
        rc = copy_list(t, r, list, used, task, err);
        if (rc)
            return rc;
        used += list.degree;
        ae_task_add(task, list.degree);
    }
    return AETHER_OK;
}

int aether_topology_edge_ids(const aether_topology *t, const int64_t *positions, uint64_t n, int64_t *out,
                             aether_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        if ((uint64_t)positions[i] >= t->end_positions)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, positions[i],
                               "positions[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, i, positions[i],
                               (int64_t)t->end_positions - 1);
    }
    return t->ops->edge_ids(t, (const uint64_t *)positions, n, (uint64_t *)out, err);
}

/* Return the name of the first operation that every topology needs and that is not there. */
static const char *missing_operation(const ae_topology_ops *ops) {
    return !ops             ? "table of operations"
           : !ops->locate   ? "operation locate"
           : !ops->prefetch ? "operation prefetch (which may do nothing)"
           : !ops->fetch    ? "operation fetch"
           : !ops->edge_ids ? "operation edge_ids"
           : !ops->memory   ? "operation memory"
           : !ops->destroy  ? "operation destroy"
                            : NULL;
}

static int check_facts(const aether_topology *t, aether_error *err) {
    if (t->id_bytes != 4 && t->id_bytes != 8)
        return ae_error_set(err, AETHER_E_INVALID, "id_bytes of the topology = %" PRIu32 ": make it 4 or 8",
                            t->id_bytes);
    if (t->id_bytes == 4 && t->num_minor > UINT64_C(1) << 32)
        return ae_error_set(err, AETHER_E_INVALID,
                            "id_bytes of the topology = 4, but it has %" PRIu64 " nodes: make it 8",
                            t->num_minor);
    const struct {
        const char *name;
        uint64_t end;
    } ends[] = {{"end_positions", t->end_positions}, {"end_edge_ids", t->end_edge_ids}};
    for (uint32_t i = 0; i < 2; i++) {
        if (ends[i].end < t->num_edges || ends[i].end > (uint64_t)INT64_MAX)
            return ae_error_set(err, AETHER_E_INVALID,
                                "%s of the topology = %" PRIu64 ": make it at least num_edges = %" PRIu64
                                " and below 2^63",
                                ends[i].name, ends[i].end, t->num_edges);
    }
    if (t->num_major > (uint64_t)INT64_MAX || t->num_minor > (uint64_t)INT64_MAX)
        return ae_error_set(err, AETHER_E_INVALID,
                            "num_major = %" PRIu64 " and num_minor = %" PRIu64
                            " of the topology must be below 2^63",
                            t->num_major, t->num_minor);
    if (t->edge_ids_are_positions && t->end_edge_ids != t->end_positions)
        return ae_error_set(err, AETHER_E_INVALID,
                            "edge_ids_are_positions of the topology is true, but end_edge_ids = %" PRIu64
                            " and end_positions = %" PRIu64 " differ",
                            t->end_edge_ids, t->end_positions);
    return AETHER_OK;
}

int aether_topology_describe(const aether_topology *t, aether_topology_facts *out, aether_error *err) {
    const char *missing = missing_operation(t->ops);
    if (missing)
        return ae_error_set(err, AETHER_E_INVALID, "the topology has no %s: set it before it is handed over",
                            missing);
    int rc = check_facts(t, err);
    if (rc)
        return rc;
    *out = (aether_topology_facts){.num_major = t->num_major,
                                   .num_minor = t->num_minor,
                                   .num_edges = t->num_edges,
                                   .end_positions = t->end_positions,
                                   .end_edge_ids = t->end_edge_ids,
                                   .id_bytes = t->id_bytes,
                                   .edge_ids_are_positions = t->edge_ids_are_positions,
                                   .own_values = (t->ops->weights ? AETHER_OWN_WEIGHTS : 0) |
                                                 (t->ops->times ? AETHER_OWN_TIMES : 0)};
    return AETHER_OK;
}
