#include "sample/walk/alias.h"

#include <float.h>
#include <inttypes.h>

#include "core/error.h"
#include "core/task.h"
#include "topology/visit_lists.h"

#define ONE UINT64_C(0x100000000) /* an even share */

typedef struct job {
    const void *weights;
    uint32_t dtype;
    uint64_t *table;
} job;

static double alias_weight(const job *j, uint64_t edge) {
    return j->dtype == AETHER_F32 ? (double)((const float *)j->weights)[edge]
                                  : ((const double *)j->weights)[edge];
}

static int read_weights(const job *j, const aether_topology *t, ae_list list, double *out,
                        aether_error *err) {
    uint64_t positions[AE_VISIT_POSITIONS], edges[AE_VISIT_POSITIONS];
    for (uint64_t done = 0; done < list.degree;) {
        uint64_t n = ae_visit_positions(list, done, positions);
        int rc = t->ops->edge_ids(t, positions, n, edges, err);
        if (rc)
            return rc;
        for (uint64_t i = 0; i < n; i++) {
            if (edges[i] >= t->end_edge_ids)
                return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)positions[i], (int64_t)edges[i],
                                   "edge id %" PRIu64 " at position %" PRIu64 " is not below %" PRIu64
                                   ": the graph file is damaged (run `aethergraph verify`)",
                                   edges[i], positions[i], t->end_edge_ids);
            out[done + i] = alias_weight(j, edges[i]);
            if (!(out[done + i] >= 0 && out[done + i] <= DBL_MAX))
                return ae_error_at(err, AETHER_E_INVALID, (int64_t)edges[i], 0,
                                   "the weight of edge %" PRIu64 " is %g: weights are finite and >= 0",
                                   edges[i], out[done + i]);
        }
        done += n;
    }
    return AETHER_OK;
}

/* Turn weights into shares: ONE each if all are equal. Return the place of the largest weight,
 * or `degree` if all are zero. Weights are divided by the largest first, so that no sum
 * overflows. */
static uint64_t make_shares(const double *weights, uint64_t degree, uint64_t *shares) {
    uint64_t top = 0;
    double sum = 0;
    for (uint64_t i = 1; i < degree; i++)
        top = weights[i] > weights[top] ? i : top;
    if (weights[top] <= 0)
        return degree;
    for (uint64_t i = 0; i < degree; i++)
        sum += weights[i] / weights[top];
    const double scale = (double)degree / sum;
    for (uint64_t i = 0; i < degree; i++) {
        double share = weights[i] / weights[top] * scale;
        shares[i] = (uint64_t)(share * (double)ONE);
        if (shares[i] == 0 && weights[i] > 0)
            shares[i] = 1;
    }
    return top;
}

static uint64_t alias_entry(uint64_t threshold, uint64_t other) {
    return other << 32 | threshold;
}

/* Vose's loop: each small share is filled up from a large one. `stack` holds places of small
 * shares from the left, of large shares from the right. */
static void fill_table(uint64_t *shares, uint64_t degree, uint64_t top, uint32_t *stack, uint64_t *table) {
    uint64_t small = 0, large = degree; /* first free; first used */
    for (uint64_t i = 0; i < degree; i++)
        if (shares[i] < ONE)
            stack[small++] = (uint32_t)i;
        else
            stack[--large] = (uint32_t)i;
    while (small > 0 && large < degree) {
        uint32_t s = stack[--small], l = stack[large];
        table[s] = alias_entry(shares[s], l);
        shares[l] -= ONE - shares[s];
        if (shares[l] < ONE) {
            large++;
            stack[small++] = l;
        }
    }
    for (; large < degree; large++)
        table[stack[large]] = alias_entry(ONE - 1, stack[large]);
    /* Small shares are left over by rounding only; a place of weight zero stays undrawn. */
    while (small > 0) {
        uint32_t s = stack[--small];
        table[s] = shares[s] ? alias_entry(ONE - 1, s) : alias_entry(0, top);
    }
}

static int build_alias_list(const void *ctx, const aether_topology *t, uint64_t node, ae_list list,
                            ae_scratch *s, aether_error *err) {
    const job *j = ctx;
    if (list.degree >= ONE / 2)
        return ae_error_at(err, AETHER_E_LIMIT, (int64_t)node, (int64_t)list.degree,
                           "node %" PRIu64 " has %" PRIu64 " edges: weighted draws take less than 2^31", node,
                           list.degree);
    int rc =
        ae_scratch_reserve(s, list.degree * (sizeof(double) + sizeof(uint64_t) + sizeof(uint32_t)), 0, err);
    if (rc)
        return rc;
    double *weights = s->data;
    uint64_t *shares = (uint64_t *)(weights + list.degree);
    rc = read_weights(j, t, list, weights, err);
    if (rc)
        return rc;
    uint64_t top = make_shares(weights, list.degree, shares);
    uint64_t *table = j->table + list.start;
    if (top < list.degree)
        fill_table(shares, list.degree, top, (uint32_t *)(shares + list.degree), table);
    else
        for (uint64_t i = 0; i < list.degree; i++)
            table[i] = AE_ALIAS_NONE;
    return AETHER_OK;
}

int aether_alias_build(const aether_topology *t, const void *weights, uint32_t dtype, uint64_t *table,
                       uint64_t num_edges, aether_task *task, aether_error *err) {
    if (!t || ((!weights || !table) && t->num_edges))
        return ae_error_set(err, AETHER_E_INVALID, "an alias table needs a topology, weights and room");
    if (dtype != AETHER_F32 && dtype != AETHER_F64)
        return ae_error_set(err, AETHER_E_INVALID, "weights are float32 or float64, not dtype %u", dtype);
    const job j = {weights, dtype, table};
    int rc = ae_topology_need_dense(t, "alias tables", err);
    if (!rc)
        rc = ae_topology_need_length(t, num_edges, err);
    return rc ? rc : ae_visit_lists(t, build_alias_list, &j, task, err);
}
