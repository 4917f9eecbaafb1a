#include "sample/draw/weights.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

#define BLOCK      AE_WEIGHTS_BLOCK
#define MOST_KNOWN (UINT64_C(4) << 20) /* weights that are held at once */

/* ---- of many lists at once ---- */

static int by_start(const void *a, const void *b) {
    const ae_list *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start)
                                : (x->degree < y->degree) - (x->degree > y->degree);
}

/* Copy the lists that fit, without those that are a part of one before; return their number. */
static uint64_t choose_known_lists(const ae_list *lists, uint64_t n, ae_list *out, uint64_t *total) {
    uint64_t found = 0, kept = 0, held = 0;
    for (uint64_t i = 0; i < n; i++)
        if (lists[i].degree && lists[i].degree <= MOST_KNOWN - held) {
            held += lists[i].degree;
            out[found++] = lists[i];
        }
    if (found)
        qsort(out, found, sizeof *out, by_start);
    *total = 0;
    for (uint64_t i = 0; i < found; i++)
        if (!kept || out[i].start - out[kept - 1].start + out[i].degree > out[kept - 1].degree) {
            out[kept++] = out[i];
            *total += out[i].degree;
        }
    return kept;
}

int ae_weights_know(ae_weights *w, const aether_topology *t, const ae_list *lists, uint64_t n,
                    ae_scratch *scratch, aether_error *err) {
    uint64_t most = 0, total;
    w->known = (ae_known_weights){0};
    for (uint64_t i = 0; i < n; i++)
        most += lists[i].degree <= MOST_KNOWN - most ? lists[i].degree : 0;
    int rc = ae_scratch_reserve(scratch, (3 * n + 2 * most) * sizeof(uint64_t), 0, err);
    if (rc || !most)
        return rc;
    ae_list *own = scratch->data;
    uint64_t *at = (uint64_t *)(void *)(own + n), *positions = at + n, next = 0;
    double *values = (double *)(void *)(positions + most);
    const uint64_t kept = choose_known_lists(lists, n, own, &total);
    for (uint64_t i = 0; i < kept; i++) {
        at[i] = next;
        for (uint64_t j = 0; j < own[i].degree; j++)
            positions[next++] = own[i].start + j;
    }
    rc = t->ops->weights(t, positions, total, values, err);
    if (!rc)
        w->known = (ae_known_weights){own, at, values, kept};
    return rc;
}

/* Return the values from position `first` on, n of them; NULL: they are not known. */
static const double *find_known(const ae_known_weights *k, uint64_t first, uint64_t n) {
    uint64_t low = 0, high = k->n;
    while (low < high) { /* the last list that does not begin behind `first` */
        const uint64_t middle = low + (high - low) / 2;
        if (k->lists[middle].start <= first)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    const ae_list list = k->lists[low - 1];
    const uint64_t from = first - list.start;
    return from <= list.degree && n <= list.degree - from ? k->values + k->at[low - 1] + from : NULL;
}

/* ---- of one ---- */

void ae_weights_open(ae_weight_reader *r, const ae_weights *weights, const aether_topology *t, ae_list list,
                     ae_exclusions exclusions, ae_exclusions drawn) {
    r->weights = weights;
    r->t = t;
    r->list = list;
    r->exclusions = exclusions;
    r->drawn = drawn;
    ae_weights_rewind(r);
}

void ae_weights_rewind(ae_weight_reader *r) {
    r->at = r->n = r->next_exclusion = r->next_drawn = 0;
}

static int bad_weighted_edge(const ae_weight_reader *r, uint64_t i, uint64_t edge, aether_error *err) {
    uint64_t position = r->list.start + r->at + i;
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)position, (int64_t)edge,
                       "edge id %" PRIu64 " at position %" PRIu64 " is not below %" PRIu64, edge, position,
                       r->t->end_edge_ids);
}

static int bad_edge_weight(uint64_t edge, double weight, aether_error *err) {
    return ae_error_at(err, AETHER_E_INVALID, (int64_t)edge, 0,
                       "the weight of edge %" PRIu64 " is %g: weights are finite and not negative", edge,
                       weight);
}

static double edge_weight(const ae_weight_reader *r, uint64_t edge) {
    return r->weights->is_double ? ((const double *)r->weights->values)[edge]
                                 : (double)((const float *)r->weights->values)[edge];
}

static uint64_t zero_positions(ae_weight_reader *r, ae_exclusions exclusions, uint64_t next) {
    const uint64_t begin = r->list.start + r->at;
    for (; next < exclusions.count && exclusions.positions[next] < begin + r->n; next++)
        r->block[exclusions.positions[next] - begin] = 0;
    return next;
}

/* Values in a file belong to lists whose positions are edge ids. */
static int read_cached(ae_weight_reader *r, aether_error *err) {
    const uint64_t first = r->list.start + r->at;
    for (uint64_t i = 0; i < r->n; i++) {
        const void *value;
        int rc = ae_value_cache_find(r->weights->cache, first + i, &value, err);
        if (rc == AE_WANTED) {
            rc = ae_value_cache_ask(r->weights->cache, first + i, r->list.degree - r->at - i, err);
            return rc ? rc : AE_WANTED;
        }
        if (rc)
            return rc;
        r->block[i] = r->weights->is_double ? *(const double *)value : (double)*(const float *)value;
        if (!(r->block[i] >= 0 && r->block[i] <= DBL_MAX))
            return bad_edge_weight(first + i, r->block[i], err);
    }
    return AETHER_OK;
}

/* Positions are edge ids here, so whole vectors are read. */
static int read_in_place(ae_weight_reader *r, aether_error *err) {
    const uint64_t first = r->list.start + r->at;
    bool good = true;
    if (r->weights->is_double)
        for (uint64_t i = 0; i < r->n; i++)
            r->block[i] = ((const double *)r->weights->values)[first + i];
    else
        for (uint64_t i = 0; i < r->n; i++)
            r->block[i] = (double)((const float *)r->weights->values)[first + i];
    for (uint64_t i = 0; i < r->n; i++)
        good &= r->block[i] >= 0 && r->block[i] <= DBL_MAX;
    for (uint64_t i = 0; !good && i < r->n; i++)
        if (!(r->block[i] >= 0 && r->block[i] <= DBL_MAX))
            return bad_edge_weight(first + i, r->block[i], err);
    return AETHER_OK;
}

/* The edge id is for the message. */
static int bad_own_weight(const ae_weight_reader *r, uint64_t position, double weight, aether_error *err) {
    uint64_t edge;
    int rc = r->t->ops->edge_ids(r->t, &position, 1, &edge, err);
    return rc ? rc : bad_edge_weight(edge, weight, err);
}

static int ask_topology(ae_weight_reader *r, aether_error *err) {
    uint64_t positions[BLOCK];
    const double *known = find_known(&r->weights->known, r->list.start + r->at, r->n);
    for (uint64_t i = 0; i < r->n; i++)
        positions[i] = r->list.start + r->at + i;
    int rc = AETHER_OK;
    if (known)
        memcpy(r->block, known, r->n * sizeof *known);
    else
        rc = r->t->ops->weights(r->t, positions, r->n, r->block, err);
    for (uint64_t i = 0; !rc && i < r->n; i++)
        if (!(r->block[i] >= 0 && r->block[i] <= DBL_MAX))
            rc = bad_own_weight(r, positions[i], r->block[i], err);
    return rc;
}

static int read_by_edge_id(ae_weight_reader *r, aether_error *err) {
    uint64_t edges[BLOCK];
    for (uint64_t i = 0; i < r->n; i++)
        edges[i] = r->list.start + r->at + i;
    int rc = r->t->ops->edge_ids(r->t, edges, r->n, edges, err);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < r->n; i++) {
        if (edges[i] >= r->t->end_edge_ids)
            return bad_weighted_edge(r, i, edges[i], err);
        r->block[i] = edge_weight(r, edges[i]);
        if (!(r->block[i] >= 0 && r->block[i] <= DBL_MAX))
            return bad_edge_weight(edges[i], r->block[i], err);
    }
    return AETHER_OK;
}

int ae_weights_next(ae_weight_reader *r, aether_error *err) {
    uint64_t left = r->list.degree - (r->at += r->n);
    r->n = left < BLOCK ? left : BLOCK;
    int rc = ae_weights_in_order(r->weights, r->t) ? read_in_place(r, err)
             : r->weights->cache                   ? read_cached(r, err)
             : r->weights->own                     ? ask_topology(r, err)
                                                   : read_by_edge_id(r, err);
    if (rc)
        return rc;
    r->next_exclusion = zero_positions(r, r->exclusions, r->next_exclusion);
    r->next_drawn = zero_positions(r, r->drawn, r->next_drawn);
    return AETHER_OK;
}
