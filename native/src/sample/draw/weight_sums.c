#include "sample/draw/weight_sums.h"

#include <stdlib.h>

#include "core/error.h"
#include "topology/visit_lists.h"

#define BLOCK AE_WEIGHT_SUMS_BLOCK

/* ---- building ---- */

typedef struct job {
    ae_weights weights;
    aether_weight_sums *sums;
} job;

int ae_weight_sums_make(const ae_weights *weights, const aether_topology *t, ae_list list, ae_weight_sum *out,
                        ae_weight_sum *total, aether_error *err) {
    ae_weight_sum sum = {0, 0};
    ae_weight_reader r;
    int rc;
    ae_weights_open(&r, weights, t, list, (ae_exclusions){0}, (ae_exclusions){0});
    while (!(rc = ae_weights_next(&r, err)) && r.n)
        for (uint64_t i = 0; i < r.n; i++) {
            sum.weight += r.block[i];
            sum.drawable += r.block[i] > 0;
            if (list.degree >= AE_WEIGHT_SUMS_LONG && (r.at + i) % BLOCK == BLOCK - 1)
                out[(r.at + i) / BLOCK] = sum;
        }
    if (list.degree >= AE_WEIGHT_SUMS_LONG)
        out[ae_weight_sums_blocks(list) - 1] = sum;
    *total = sum;
    return rc;
}

/* Write the block sums of a long list; note for every list whether it has a weight of 0. */
static int sum_list(const void *ctx, const aether_topology *t, uint64_t node, ae_list list,
                    ae_scratch *scratch, aether_error *err) {
    (void)node;
    (void)scratch;
    const job *j = ctx;
    ae_weight_sum total;
    int rc = ae_weight_sums_make(&j->weights, t, list, j->sums->table + list.start / BLOCK, &total, err);
    if (total.drawable < list.degree)
        __atomic_store_n(&j->sums->has_zeros, true, __ATOMIC_RELAXED);
    return rc;
}

int aether_weight_sums_create(const aether_topology *t, const void *weights, uint32_t dtype,
                              aether_weight_sums **out, aether_task *task, aether_error *err) {
    *out = NULL;
    if (!t || (!weights && t->num_edges))
        return ae_error_set(err, AETHER_E_INVALID, "sums of weights need a topology and weights");
    if (dtype != AETHER_F32 && dtype != AETHER_F64)
        return ae_error_set(err, AETHER_E_INVALID, "weights are float32 or float64, not dtype %u", dtype);
    int rc = ae_topology_need_dense(t, "sums of weights", err);
    if (rc)
        return rc;
    aether_weight_sums *s = calloc(1, sizeof *s);
    if (!s)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for the sums of weights");
    s->num_edges = t->num_edges;
    s->bytes = (s->num_edges / BLOCK + 1) * sizeof(ae_weight_sum);
    s->table = aether_buffer_alloc(s->bytes, err);
    rc = s->table ? AETHER_OK : AETHER_E_NO_MEMORY;
    const job j = {{.values = weights, .is_double = dtype == AETHER_F64}, s};
    if (!rc)
        rc = ae_visit_lists(t, sum_list, &j, task, err);
    if (rc) {
        aether_weight_sums_destroy(s);
        return rc;
    }
    *out = s;
    return AETHER_OK;
}

void aether_weight_sums_destroy(aether_weight_sums *s) {
    if (s && s->table)
        aether_buffer_free(s->table, s->bytes);
    free(s);
}

uint64_t aether_weight_sums_memory(const aether_weight_sums *s) {
    return sizeof *s + s->bytes;
}

/* ---- looking up ---- */

/* All blocks are full; the last one also has the rest of the list. */
static uint64_t last_block(ae_list list) {
    return ae_weight_sums_blocks(list) - 1;
}

int ae_weight_sums_before(const ae_weights *weights, const aether_topology *t, const ae_summed_list *l,
                          uint64_t n, ae_weight_sum *out, aether_error *err) {
    const uint64_t last = last_block(l->list), block = n / BLOCK < last ? n / BLOCK : last;
    const bool whole = l->closed && n == l->list.degree;
    *out = whole ? l->sums[block] : block ? l->sums[block - 1] : (ae_weight_sum){0, 0};
    if (whole || n == block * BLOCK)
        return AETHER_OK;
    ae_weight_reader r;
    ae_weights_open(&r, weights, t, (ae_list){l->list.start + block * BLOCK, n - block * BLOCK},
                    (ae_exclusions){0}, (ae_exclusions){0});
    int rc = ae_weights_next(&r, err);
    for (uint64_t i = 0; !rc && i < r.n; i++) {
        out->weight += r.block[i];
        out->drawable += r.block[i] > 0;
    }
    return rc;
}

/* Return the first of n weights at which `sum` passes x, or n. */
#define PASS(values)                                                                                         \
    do {                                                                                                     \
        for (uint64_t i = 0; i < n; i++)                                                                     \
            if ((sum += (values)[i]) > x)                                                                    \
                return i;                                                                                    \
        return n;                                                                                            \
    } while (0)

static uint64_t pass_doubles(const double *values, uint64_t n, double sum, double x) {
    PASS(values);
}

static uint64_t pass_floats(const float *values, uint64_t n, double sum, double x) {
    PASS(values);
}

/* Find, in a part of the list, the entry at which `sum` passes x. */
static int pass(const ae_weights *weights, const aether_topology *t, ae_list part, double sum, double x,
                uint64_t *entry, aether_error *err) {
    if (ae_weights_in_order(weights, t) && weights->is_double) {
        *entry = pass_doubles((const double *)weights->values + part.start, part.degree, sum, x);
        return AETHER_OK;
    }
    if (ae_weights_in_order(weights, t)) {
        *entry = pass_floats((const float *)weights->values + part.start, part.degree, sum, x);
        return AETHER_OK;
    }
    ae_weight_reader r;
    ae_weights_open(&r, weights, t, part, (ae_exclusions){0}, (ae_exclusions){0});
    int rc = ae_weights_next(&r, err);
    *entry = rc ? 0 : pass_doubles(r.block, r.n, sum, x);
    return rc;
}

int ae_weight_sums_find(const ae_weights *weights, const aether_topology *t, const ae_summed_list *l,
                        double x, uint64_t *entry, aether_error *err) {
    const ae_weight_sum *sums = l->sums;
    const ae_list list = l->list;
    uint64_t low = 0, n = last_block(list);
    while (n) { /* the first block whose sum is above x, or the last */
        uint64_t half = n / 2;
        bool right = sums[low + half].weight <= x;
        low += right ? half + 1 : 0;
        n = right ? n - half - 1 : half;
    }
    const uint64_t from = low * BLOCK, to = low < last_block(list) ? from + BLOCK : list.degree;
    int rc = pass(weights, t, (ae_list){list.start + from, to - from}, low ? sums[low - 1].weight : 0, x,
                  entry, err);
    *entry = *entry < to - from ? *entry + from : list.degree;
    return rc;
}
