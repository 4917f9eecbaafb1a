#include "sample/weighted.h"

#include <float.h>
#include <inttypes.h>

#include "core/error.h"
#include "core/rng.h"
#include "sample/reservoir.h"

#define BLOCK   256
#define RESCALE 0x1p64 /* a power of two: the proportions of weights stay exact */

/* Weights of a list, a block at a time. */
typedef struct reader {
    const ae_weights *weights;
    const aether_topology *t;
    ae_list list;
    ae_holes holes;
    uint64_t hole;  /* the next of them */
    uint64_t at, n; /* entries [at, at + n) of the list are in `block` */
    double block[BLOCK];
} reader;

static reader read_from(const ae_weights *weights, const aether_topology *t, ae_list list, ae_holes holes) {
    reader r;
    r.weights = weights;
    r.t = t;
    r.list = list;
    r.holes = holes;
    r.at = r.n = r.hole = 0;
    return r;
}

static void start_again(reader *r) {
    r->at = r->n = r->hole = 0;
}

static int bad_edge(const reader *r, uint64_t i, uint64_t edge, aether_error *err) {
    uint64_t position = r->list.start + r->at + i;
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)position, (int64_t)edge,
                       "edge id %" PRIu64 " at position %" PRIu64 " is not below %" PRIu64, edge, position,
                       r->t->lists.num_edges);
}

static int bad_weight(uint64_t edge, double weight, aether_error *err) {
    return ae_error_at(err, AETHER_E_INVALID, (int64_t)edge, 0,
                       "the weight of edge %" PRIu64 " is %g: weights are finite and not negative", edge,
                       weight);
}

/* A hole weighs nothing. */
static void empty_holes(reader *r) {
    const uint64_t begin = r->list.start + r->at;
    for (; r->hole < r->holes.count && r->holes.positions[r->hole] < begin + r->n; r->hole++)
        r->block[r->holes.positions[r->hole] - begin] = 0;
}

/* The next block; n is 0 at the end. */
static int next_block(reader *r, aether_error *err) {
    uint64_t left = r->list.degree - (r->at += r->n);
    r->n = left < BLOCK ? left : BLOCK;
    const double *doubles = r->weights->values;
    const float *floats = r->weights->values;
    uint64_t edges[BLOCK];
    for (uint64_t i = 0; i < r->n; i++)
        edges[i] = r->list.start + r->at + i;
    if (r->t->lists.edge_ids)
        r->t->ops->edge_ids(r->t, edges, r->n, edges);
    for (uint64_t i = 0; i < r->n; i++) {
        if (edges[i] >= r->t->lists.num_edges)
            return bad_edge(r, i, edges[i], err);
        double weight = r->weights->is_double ? doubles[edges[i]] : (double)floats[edges[i]];
        if (!(weight >= 0 && weight <= DBL_MAX))
            return bad_weight(edges[i], weight, err);
        r->block[i] = weight;
    }
    empty_holes(r);
    return AETHER_OK;
}

int ae_weights_count(const ae_weights *weights, const aether_topology *t, ae_list list, ae_holes holes,
                     uint64_t *count, aether_error *err) {
    reader r = read_from(weights, t, list, holes);
    *count = 0;
    for (;;) {
        int rc = next_block(&r, err);
        if (rc || r.n == 0)
            return rc;
        for (uint64_t i = 0; i < r.n; i++)
            *count += r.block[i] > 0;
    }
}

/* Weights are read twice, counted and drawn; a file may change in between. */
static int changed(ae_list list, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)list.start, 0,
                       "the weights of the list at position %" PRIu64 " changed while it was sampled",
                       list.start);
}

static int draw_all(reader *r, uint64_t drawable, uint64_t *out, aether_error *err) {
    uint64_t n = 0;
    int rc;
    while (!(rc = next_block(r, err)) && r->n)
        for (uint64_t i = 0; i < r->n; i++)
            if (r->block[i] > 0 && n < drawable)
                out[n++] = r->list.start + r->at + i;
    return rc || n == drawable ? rc : changed(r->list, err);
}

/* ---- with replacement ------------------------------------------------------- */

/* The first entry whose cumulative weight is above x. */
static uint64_t search(const double *cumulative, uint64_t n, double x) {
    uint64_t low = 0, high = n - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (cumulative[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Cumulative weights, times `scale`, and positions of the entries that can be drawn. */
static int cumulate(reader *r, double scale, uint64_t drawable, double *cumulative, uint64_t *positions,
                    aether_error *err) {
    double total = 0;
    uint64_t n = 0;
    int rc;
    start_again(r);
    while (!(rc = next_block(r, err)) && r->n)
        for (uint64_t i = 0; i < r->n; i++)
            if (r->block[i] > 0 && n < drawable) {
                cumulative[n] = total += r->block[i] * scale;
                positions[n++] = r->list.start + r->at + i;
            }
    return rc || n == drawable ? rc : changed(r->list, err);
}

/* The sum of large weights may be no double, and that of tiny ones too small for
 * u * total to have many values. */
static int draw_replaced(reader *r, uint64_t drawable, uint64_t count, uint64_t stream, ae_scratch *scratch,
                         uint64_t *out, aether_error *err) {
    int rc = ae_scratch_reserve(scratch, drawable * (sizeof(double) + sizeof(uint64_t)), 0, err);
    if (rc)
        return rc;
    double *cumulative = scratch->data, *total = &cumulative[drawable - 1];
    uint64_t *positions = (uint64_t *)(cumulative + drawable);
    rc = cumulate(r, 1, drawable, cumulative, positions, err);
    if (!rc && *total > DBL_MAX)
        rc = cumulate(r, 1 / RESCALE, drawable, cumulative, positions, err);
    else if (!rc && *total < DBL_MIN)
        rc = cumulate(r, RESCALE, drawable, cumulative, positions, err);
    for (uint64_t i = 0; !rc && i < count; i++) {
        double u = (double)(ae_rng_draw(stream, i) >> 11) * 0x1p-53;
        out[i] = positions[search(cumulative, drawable, u * *total)];
    }
    return rc;
}

/* ---- without replacement ------------------------------------------------------ */

/* The `count` smallest keys of weights times `scale`. */
static int fill_reservoir(reader *r, double scale, uint64_t stream, ae_reservoir *drawn, aether_error *err) {
    int rc;
    start_again(r);
    drawn->count = 0;
    while (!(rc = next_block(r, err)) && r->n)
        for (uint64_t i = 0; i < r->n; i++)
            if (r->block[i] > 0)
                ae_reservoir_offer(drawn, r->block[i] * scale, ae_rng_draw(stream, r->at + i),
                                   r->list.start + r->at + i);
    return rc || drawn->count == drawn->capacity ? rc : changed(r->list, err);
}

/* The keys of tiny weights may be beyond the doubles. If one of them is among the
 * smallest, so are all that are not, which may then become 0. */
static int draw_distinct(reader *r, uint64_t count, uint64_t stream, ae_scratch *scratch, uint64_t *out,
                         aether_error *err) {
    int rc = ae_scratch_reserve(scratch, count * sizeof(ae_candidate), 0, err);
    if (rc)
        return rc;
    ae_reservoir drawn = {scratch->data, 0, count};
    rc = fill_reservoir(r, 1, stream, &drawn, err);
    if (!rc && drawn.heap[0].key > DBL_MAX)
        rc = fill_reservoir(r, RESCALE, stream, &drawn, err);
    if (rc)
        return rc;
    ae_reservoir_sort_by_item(&drawn);
    for (uint64_t i = 0; i < count; i++)
        out[i] = drawn.heap[i].item;
    return AETHER_OK;
}

int ae_weights_draw(const ae_weights *weights, const aether_topology *t, ae_list list, ae_holes holes,
                    uint64_t drawable, uint64_t count, bool replace, uint64_t stream, ae_scratch *scratch,
                    uint64_t *out, aether_error *err) {
    reader r = read_from(weights, t, list, holes);
    if (count == drawable && !replace)
        return draw_all(&r, drawable, out, err);
    if (replace)
        return draw_replaced(&r, drawable, count, stream, scratch, out, err);
    return draw_distinct(&r, count, stream, scratch, out, err);
}
