#include "sample/draw/weighted.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/rng.h"
#include "sample/draw/position_set.h"
#include "sample/draw/reservoir.h"
#include "sample/draw/uniform.h"
#include "sample/draw/weight_sums.h"

#define RESCALE   0x1p64  /* a power of two: the proportions of weights stay exact */
#define FEW       16      /* sums are used where the list has this many entries per draw, or more */
#define PRECISION 0x1p-16 /* least share of the running sum that rounding does not blur */

/* ---- counting ---- */

static bool has_table(const ae_weighted_list *l) {
    return l->weights->sums && l->list.degree >= AE_WEIGHT_SUMS_LONG;
}

static bool can_have_sums(const ae_weighted_list *l) {
    return has_table(l) || (l->weights->own && l->list.degree >= AE_WEIGHT_SUMS_LONG);
}

/* Return the part of the list from its first entry to the last visible one. */
static ae_list to_visible_end(const ae_weighted_list *l) {
    return (ae_list){l->whole.start, l->list.start - l->whole.start + l->list.degree};
}

/* Find the sums that exist already. Those of a topology need not go on behind what is visible. */
static bool find_sums(const ae_weighted_list *l, ae_summed_list *out) {
    if (has_table(l)) {
        *out = ae_weight_sums_of(l->weights->sums, l->whole);
        return true;
    }
    if (!can_have_sums(l) || !l->t->ops->weight_sums)
        return false;
    uint64_t blocks = 0;
    *out = (ae_summed_list){to_visible_end(l), l->t->ops->weight_sums(l->t, l->whole, &blocks), false};
    return out->sums && blocks >= ae_weight_sums_blocks(out->list);
}

static bool has_zeros(const ae_weighted_list *l) {
    return !l->weights->sums || l->weights->sums->has_zeros;
}

void ae_weighted_prefetch(const ae_weighted_list *l) {
    const uint64_t size = l->weights->is_double ? sizeof(double) : sizeof(float);
    if (has_table(l)) {
        const ae_weight_sum *sums = ae_weight_sums_of(l->weights->sums, l->whole).sums;
        __builtin_prefetch(sums + l->whole.degree / AE_WEIGHT_SUMS_BLOCK - 1);
        __builtin_prefetch(sums + l->whole.degree / AE_WEIGHT_SUMS_BLOCK / 2);
    } else if (ae_weights_in_order(l->weights, l->t)) {
        const char *first = (const char *)l->weights->values + l->list.start * size;
        for (uint64_t at = 0; at < l->list.degree * size; at += 64)
            __builtin_prefetch(first + at);
    }
}

static int count_by_reading(const ae_weighted_list *l, uint64_t *count, aether_error *err) {
    ae_weight_reader r;
    int rc;
    *count = 0;
    ae_weights_open(&r, l->weights, l->t, l->list, l->exclusions, (ae_exclusions){0});
    while (!(rc = ae_weights_next(&r, err)) && r.n)
        for (uint64_t i = 0; i < r.n; i++)
            *count += r.block[i] > 0;
    return rc;
}

/* Count the excluded entries whose weight is above 0. */
static int count_excluded(const ae_weighted_list *l, uint64_t *count, aether_error *err) {
    ae_weight_reader r;
    int rc = AETHER_OK;
    *count = 0;
    for (uint64_t i = 0; !rc && i < l->exclusions.count; i++) {
        ae_weights_open(&r, l->weights, l->t, (ae_list){l->exclusions.positions[i], 1}, (ae_exclusions){0},
                        (ae_exclusions){0});
        rc = ae_weights_next(&r, err);
        *count += !rc && r.block[0] > 0;
    }
    return rc;
}

/* Compute the sums of the whole list before the visible part, and to its end. */
static int sum_up(const ae_weighted_list *l, const ae_summed_list *summed, ae_weight_sum *before,
                  ae_weight_sum *with, aether_error *err) {
    const uint64_t from = l->list.start - l->whole.start, to = from + l->list.degree;
    int rc = ae_weight_sums_before(l->weights, l->t, summed, from, before, err);
    return rc ? rc : ae_weight_sums_before(l->weights, l->t, summed, to, with, err);
}

int ae_weighted_count(const ae_weighted_list *l, uint64_t *count, aether_error *err) {
    const uint64_t most = l->list.degree - l->exclusions.count;
    *count = most;
    if (!has_zeros(l))
        return AETHER_OK;
    ae_summed_list summed;
    if (!find_sums(l, &summed))
        return count_by_reading(l, count, err);
    ae_weight_sum before = {0}, with = {0};
    uint64_t excluded = 0;
    int rc = sum_up(l, &summed, &before, &with, err);
    if (!rc)
        rc = count_excluded(l, &excluded, err);
    if (!rc)
        *count = with.drawable - before.drawable - excluded;
    *count = *count < most ? *count : most; /* a file that changed may claim more */
    return rc;
}

/* ---- all ---- */

/* Weights are read twice, for counting and for drawing; a file may change in between. */
static int changed(ae_list list, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)list.start, 0,
                       "the weights of the list at position %" PRIu64 " changed while it was sampled",
                       list.start);
}

static int draw_all_drawable(ae_weight_reader *r, uint64_t drawable, uint64_t *out, aether_error *err) {
    uint64_t n = 0;
    int rc;
    while (!(rc = ae_weights_next(r, err)) && r->n)
        for (uint64_t i = 0; i < r->n; i++)
            if (r->block[i] > 0 && n < drawable)
                out[n++] = r->list.start + r->at + i;
    return rc || n == drawable ? rc : changed(r->list, err);
}

/* ---- with replacement ------------------------------------------------------- */

static double unit(uint64_t draw) {
    return (double)(draw >> 11) * 0x1p-53;
}

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

/* Write cumulative weights (times `scale`) and positions of the entries that can be drawn. */
static int cumulate(ae_weight_reader *r, double scale, uint64_t drawable, double *cumulative,
                    uint64_t *positions, aether_error *err) {
    double total = 0;
    uint64_t n = 0;
    int rc;
    ae_weights_rewind(r);
    while (!(rc = ae_weights_next(r, err)) && r->n)
        for (uint64_t i = 0; i < r->n; i++)
            if (r->block[i] > 0 && n < drawable) {
                cumulative[n] = total += r->block[i] * scale;
                positions[n++] = r->list.start + r->at + i;
            }
    return rc || n == drawable ? rc : changed(r->list, err);
}

/* Scale the weights: the sum of large ones may overflow a double, and that of tiny ones may
 * leave u * total too few values. Draws begin with draw `first` of the stream. */
static int draw_replaced(ae_weight_reader *r, uint64_t drawable, uint64_t count, uint64_t stream,
                         uint64_t first, ae_scratch *scratch, uint64_t *out, aether_error *err) {
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
        double x = unit(ae_rng_draw(stream, first + i)) * *total;
        out[i] = positions[search(cumulative, drawable, x)];
    }
    return rc;
}

/* ---- without replacement ------------------------------------------------------ */

/* Keep the `count` smallest keys, of weights times `scale`. */
static int fill_reservoir(ae_weight_reader *r, double scale, uint64_t stream, uint64_t first,
                          ae_reservoir *drawn, aether_error *err) {
    int rc;
    ae_weights_rewind(r);
    drawn->count = 0;
    while (!(rc = ae_weights_next(r, err)) && r->n)
        for (uint64_t i = 0; i < r->n; i++)
            if (r->block[i] > 0)
                ae_reservoir_offer(drawn, r->block[i] * scale, ae_rng_draw(stream, first + r->at + i),
                                   r->list.start + r->at + i);
    return rc || drawn->count == drawn->capacity ? rc : changed(r->list, err);
}

/* Keys of tiny weights may overflow a double. If one of these keys is among the smallest, all
 * keys that do not overflow are too, and may become 0. */
static int draw_distinct(ae_weight_reader *r, uint64_t count, uint64_t stream, uint64_t first,
                         ae_scratch *scratch, uint64_t *out, aether_error *err) {
    int rc = ae_scratch_reserve(scratch, count * sizeof(ae_candidate), 0, err);
    if (rc)
        return rc;
    ae_reservoir drawn = {scratch->data, 0, count};
    rc = fill_reservoir(r, 1, stream, first, &drawn, err);
    if (!rc && drawn.heap[0].key > DBL_MAX)
        rc = fill_reservoir(r, RESCALE, stream, first, &drawn, err);
    for (uint64_t i = 0; !rc && i < count; i++)
        out[i] = drawn.heap[i].item;
    return rc;
}

/* ---- few of a long list ------------------------------------------------------- */

/* State of draws from the sums of a long list. */
typedef struct summed_draws {
    const ae_weighted_list *l;
    ae_summed_list summed; /* the list, without the end where that is not needed */
    double before, weight; /* sums before and within the list: draws fall in between */
    bool replace;
    ae_position_set seen;
    uint64_t count, drawn, draws;
} summed_draws;

static bool is_excluded_position(ae_exclusions exclusions, uint64_t position) {
    uint64_t at = ae_exclusions_below(exclusions.positions, exclusions.count, position);
    return at < exclusions.count && exclusions.positions[at] == position;
}

/* Ask for the value pages that the next draws would read if all of them succeed: fewer retries. */
static int ask_ahead(const summed_draws *f, uint64_t stream, aether_error *err) {
    for (uint64_t i = 0; i < f->count - f->drawn; i++) {
        uint64_t entry;
        const double x = f->before + unit(ae_rng_draw(stream, f->draws + i)) * f->weight;
        int rc = ae_weight_sums_find(f->l->weights, f->l->t, &f->summed, x, &entry, err);
        if (rc < 0)
            return rc;
    }
    return AE_WANTED;
}

static int draw_few(summed_draws *f, uint64_t stream, uint64_t *out, aether_error *err) {
    const ae_list whole = f->summed.list, list = f->l->list;
    for (; f->drawn < f->count && f->draws < 4 * f->count + 16; f->draws++) {
        uint64_t entry;
        const double x = f->before + unit(ae_rng_draw(stream, f->draws)) * f->weight;
        int rc = ae_weight_sums_find(f->l->weights, f->l->t, &f->summed, x, &entry, err);
        if (rc == AE_WANTED)
            return ask_ahead(f, stream, err);
        if (rc)
            return rc;
        const uint64_t position = whole.start + entry;
        if (position - list.start < list.degree && !is_excluded_position(f->l->exclusions, position) &&
            (f->replace || !ae_position_set_add(&f->seen, position)))
            out[f->drawn++] = position;
    }
    return AETHER_OK;
}

/* Make sums of a list whose weights are the topology's own, up to the end of what is visible, behind the
 * room for the set of positions. */
static int make_sums(summed_draws *f, ae_scratch *scratch, aether_error *err) {
    const uint64_t set = ae_position_set_slots(f->count) * sizeof(uint64_t);
    ae_weight_sum total;
    const ae_list list = to_visible_end(f->l);
    const uint64_t bytes = ae_weight_sums_blocks(list) * sizeof(ae_weight_sum);
    int rc = ae_scratch_reserve(scratch, set + bytes, 0, err);
    if (rc)
        return rc;
    ae_weight_sum *sums = (ae_weight_sum *)(void *)((uint8_t *)scratch->data + set);
    f->summed = (ae_summed_list){list, sums, true};
    return ae_weight_sums_make(f->l->weights, f->l->t, list, sums, &total, err);
}

/* Draw from sums if the draws are few and the list's weight is not lost in rounding of the sums. */
static int try_few(summed_draws *f, uint64_t drawable, uint64_t stream, ae_scratch *scratch, uint64_t *out,
                   aether_error *err) {
    ae_weight_sum before = {0}, with = {0};
    int rc = AETHER_OK;
    if (!can_have_sums(f->l) || f->count > drawable / FEW)
        return AETHER_OK;
    if (!find_sums(f->l, &f->summed))
        rc = make_sums(f, scratch, err);
    if (!rc)
        rc = sum_up(f->l, &f->summed, &before, &with, err);
    f->before = before.weight;
    f->weight = with.weight - before.weight;
    if (rc || !(f->weight >= DBL_MIN && f->weight <= DBL_MAX && f->weight >= with.weight * PRECISION))
        return rc;
    rc = f->replace ? AETHER_OK : ae_position_set_start(&f->seen, f->count, scratch, err);
    return rc ? rc : draw_few(f, stream, out, err);
}

/* ---- any number ---- */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_positions(uint64_t *values, uint64_t n) {
    if (n > 64) {
        qsort(values, n, sizeof *values, by_value);
        return;
    }
    for (uint64_t i = 1; i < n; i++) {
        uint64_t j = i, value = values[i];
        for (; j > 0 && values[j - 1] > value; j--)
            values[j] = values[j - 1];
        values[j] = value;
    }
}

static int draw_some(const ae_weighted_list *l, uint64_t drawable, uint64_t count, bool replace,
                     uint64_t stream, ae_scratch *scratch, uint64_t *out, aether_error *err) {
    summed_draws f = {.l = l, .replace = replace, .count = count};
    int rc = try_few(&f, drawable, stream, scratch, out, err);
    if (!rc && !replace)
        sort_positions(out, f.drawn);
    if (!rc && f.drawn < count) {
        ae_weight_reader r;
        ae_exclusions drawn = {out, replace ? 0 : f.drawn};
        uint64_t *rest = out + f.drawn, left = count - f.drawn;
        ae_weights_open(&r, l->weights, l->t, l->list, l->exclusions, drawn);
        rc = replace ? draw_replaced(&r, drawable, left, stream, f.draws, scratch, rest, err)
                     : draw_distinct(&r, left, stream, f.draws, scratch, rest, err);
        if (!rc && !replace)
            sort_positions(out, count);
    }
    return rc;
}

int ae_weighted_draw(const ae_weighted_list *l, uint64_t drawable, uint64_t count, bool replace,
                     uint64_t stream, ae_scratch *scratch, uint64_t *out, uint64_t room, aether_error *err) {
    if (count < drawable || replace)
        return draw_some(l, drawable, count, replace, stream, scratch, out, err);
    if (!has_zeros(l)) {
        ae_uniform_all((ae_list){l->list.start, drawable}, out, room);
        ae_exclusions_skip(l->exclusions, out, drawable);
        return AETHER_OK;
    }
    ae_weight_reader r;
    ae_weights_open(&r, l->weights, l->t, l->list, l->exclusions, (ae_exclusions){0});
    return draw_all_drawable(&r, drawable, out, err);
}
