/*
 * aether_aggregate: rows of lists of ids, added up or their maximum, into accumulators.
 *
 *   bounds  | 0   3     4       7          lists of ids
 *   ids     [ 7 2 9 | 2 | 0 1 7 ]
 *              |      |     |
 *   out     [ r7+r2+r9 ][ r2 ][ r0+r1+r7 ]   list i goes to row i, or to row places[i]
 *
 * A thread has lists, and takes the rows of one in its order: sums do not depend on the number of threads.
 * An accumulator stays in the first cache while rows on the way there are prefetched, as in rows/gather.c.
 *
 * Caveats
 *   - out begins as the caller fills it: with zeros for sums, -inf for a maximum. So rows that come in
 *     parts, as from a file chunk by chunk, are added by several calls.
 *   - A maximum with NaN is NaN.
 *   - out is undefined after an error, and must not overlap the rows.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/pool.h"
#include "core/task.h"
#include "rows/gather.h"

#define LINE        64u
#define LISTS       64u          /* of a chunk */
#define THREAD_WORK (128u << 10) /* bytes of rows that are worth a thread */
#define AHEAD_BYTES (16u << 10)  /* in flight, as in gather.c; of a row LINES_MAX lines at most */
#define AHEAD_MAX   64u          /* rows */
#define LINES_MAX   32u
#define CONVERTED   256u /* items that are widened at a time */
#define NONE        UINT64_MAX
/* As functions of no effect that the compiler sees, prefetches would be left out. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Rows may lie anywhere. */
typedef float any_f32 __attribute__((aligned(1), may_alias));
typedef double any_f64 __attribute__((aligned(1), may_alias));

/* Combine n items of a row, times a factor, with an accumulator. */
typedef void (*combine_fn)(void *acc, const void *row, uint64_t n, const void *factor);

#define SUM(acc, value) ((acc) + (value))
/* The first comparison is false for NaN on either side: NaN comes by the second, and stays. */
#define MAX(acc, value) ((value) > (acc) || (value) != (value) ? (value) : (acc))
#define COMBINE(name, type, at, OP)                                                                          \
    static void name(void *acc, const void *row, uint64_t n, const void *factor) {                           \
        type *restrict out = acc; /* NOLINT(bugprone-macro-parentheses): a declaration */                    \
        const at *restrict in = row;                                                                         \
        if (factor) {                                                                                        \
            const type by = *(const type *)factor;                                                           \
            for (uint64_t i = 0; i < n; i++) {                                                               \
                const type value = by * in[i];                                                               \
                out[i] = OP(out[i], value);                                                                  \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (uint64_t i = 0; i < n; i++)                                                                     \
            out[i] = OP(out[i], in[i]);                                                                      \
    }
COMBINE(sum_f32, float, any_f32, SUM)
COMBINE(sum_f64, double, any_f64, SUM)
COMBINE(max_f32, float, any_f32, MAX)
COMBINE(max_f64, double, any_f64, MAX)

typedef struct aggregation {
    const aether_rows *rows;
    const aether_row_lists *lists;
    uint64_t in_bytes, item_bytes; /* of a row; of an item of out */
    uint64_t ahead;                /* rows between adding and prefetching */
    combine_fn combine;
    ae_convert_fn convert;
    aether_task *task;
    atomic_ullong bad; /* the first position of a bad id so far, or NONE */
    atomic_int cancelled;
} aggregation;

ALWAYS_INLINE const char *row_at(const aggregation *a, uint64_t e) {
    const uint64_t row = (uint64_t)a->lists->ids[e]; /* negative ids are large numbers here */
    return row < a->rows->num_rows ? (const char *)a->rows->data + row * a->rows->stride : NULL;
}

ALWAYS_INLINE void prefetch_row_at(const aggregation *a, uint64_t e) {
    const char *row = row_at(a, e);
    for (uint64_t i = 0; row && i < ae_min_u64(a->in_bytes, LINES_MAX * LINE); i += LINE)
        __builtin_prefetch(row + i, 0, 2);
}

static void combine_row(const aggregation *a, char *acc, const char *row, const void *factor) {
    if (!a->convert) {
        a->combine(acc, row, a->rows->row_items, factor);
        return;
    }
    const uint64_t from = aether_dtype_size(a->rows->dtype);
    double wide[CONVERTED];
    for (uint64_t i = 0, n; i < a->rows->row_items; i += n) {
        n = ae_min_u64(CONVERTED, a->rows->row_items - i);
        a->convert(wide, row + i * from, n);
        a->combine(acc + i * a->item_bytes, wide, n, factor);
    }
}

static bool go_on_aggregating(aggregation *a, uint64_t done, uint64_t position) {
    ae_task_add(a->task, done);
    if (ae_task_cancelled(a->task))
        atomic_store_explicit(&a->cancelled, 1, memory_order_relaxed);
    return !atomic_load_explicit(&a->cancelled, memory_order_relaxed) &&
           position < atomic_load_explicit(&a->bad, memory_order_relaxed);
}

static void aggregate_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    aggregation *a = ctx;
    const aether_row_lists *l = a->lists;
    const uint64_t begin = chunk * LISTS, end = ae_min_u64(begin + LISTS, l->n), stop = l->bounds[end];
    const uint64_t acc_bytes = a->rows->row_items * a->item_bytes;
    uint64_t done = 0;
    (void)worker;
    for (uint64_t e = l->bounds[begin]; e < ae_min_u64(l->bounds[begin] + a->ahead, stop); e++)
        prefetch_row_at(a, e);
    for (uint64_t i = begin; i < end; i++) {
        char *acc = (char *)l->out + (l->places ? (uint64_t)l->places[i] : i) * acc_bytes;
        for (uint64_t e = l->bounds[i]; e < l->bounds[i + 1]; e++) {
            if (e + a->ahead < stop)
                prefetch_row_at(a, e + a->ahead);
            const char *row = row_at(a, e);
            if (!row) {
                ae_lower(&a->bad, e);
                return;
            }
            combine_row(a, acc, row, l->weights ? (const char *)l->weights + e * a->item_bytes : NULL);
            if (++done == AE_TASK_ITEMS) {
                if (!go_on_aggregating(a, done, e))
                    return;
                done = 0;
            }
        }
    }
    (void)go_on_aggregating(a, done, stop);
}

/* ---- arguments ------------------------------------------------------------------- */

static int check_row_lists(const aggregation *a, uint64_t out_size, aether_error *err) {
    const aether_row_lists *l = a->lists;
    uint64_t before = l->bounds[0];
    if (before != 0)
        return ae_error_at(err, AETHER_E_INVALID, 0, (int64_t)before, "the first list begins at %" PRIu64,
                           before);
    for (uint64_t i = 0; i < l->n; before = l->bounds[++i])
        if (l->bounds[i + 1] < before || l->bounds[i + 1] > l->num_ids)
            return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, (int64_t)l->bounds[i + 1],
                               "list %" PRIu64 " ends at %" PRIu64 ", and begins at %" PRIu64 " of %" PRIu64
                               " ids",
                               i, l->bounds[i + 1], before, l->num_ids);
    /* Two lists of one place would be added by two threads at once. */
    for (uint64_t i = 0; l->places && i < l->n; i++)
        if ((uint64_t)l->places[i] >= l->num_out || (i && l->places[i] <= l->places[i - 1]))
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, l->places[i],
                               "place %" PRId64 " at position %" PRIu64 " is not below %" PRIu64
                               ", or not behind the one before it",
                               l->places[i], i, l->num_out);
    if (!l->places && l->n > l->num_out)
        return ae_error_set(err, AETHER_E_INVALID, "%" PRIu64 " lists for %" PRIu64 " rows of out", l->n,
                            l->num_out);
    return ae_gather_room(l->num_out, a->rows->row_items * a->item_bytes, out_size, err);
}

int aether_aggregate(const aether_rows *rows, const aether_row_lists *lists, aether_task *task,
                     aether_error *err) {
    int rc = ae_options_check(lists, sizeof *lists, "aether_row_lists", err);
    if (rc)
        return rc;
    if (!rows || !lists->bounds || (lists->num_ids && !lists->ids))
        return ae_error_set(err, AETHER_E_INVALID, "rows, ids and bounds are needed");
    aggregation a = {.rows = rows, .lists = lists, .task = task};
    const bool is_wide = lists->out_dtype == AETHER_F64, is_max = lists->how == AETHER_MAX;
    if ((!is_wide && lists->out_dtype != AETHER_F32) || (!is_max && lists->how != AETHER_SUM))
        return ae_error_set(err, AETHER_E_UNSUPPORTED,
                            "out_dtype %" PRIu32 ", how %" PRIu32
                            ": float32 and float64 are added up (0) or their maximum is taken (1)",
                            lists->out_dtype, lists->how);
    a.item_bytes = is_wide ? sizeof(double) : sizeof(float);
    a.in_bytes = rows->row_items * aether_dtype_size(rows->dtype);
    a.combine = is_max ? (is_wide ? max_f64 : max_f32) : (is_wide ? sum_f64 : sum_f32);
    rc = ae_gather_types(rows->dtype, 8, lists->out_dtype, &a.convert, err);
    if (rc || (rc = check_row_lists(&a, lists->out_size, err)) != 0)
        return rc;
    const uint64_t count = lists->bounds[lists->n];
    ae_task_begin(task, count);
    if (!count || !a.in_bytes)
        return AETHER_OK;
    if (!lists->out || (rows->num_rows && !rows->data))
        return ae_error_set(err, AETHER_E_INVALID, "out and data are needed");
    a.ahead = ae_min_u64(ae_max_u64(AHEAD_BYTES / a.in_bytes, 2), AHEAD_MAX);
    atomic_init(&a.bad, NONE);
    atomic_init(&a.cancelled, 0);
    const uint64_t worth = count / ae_max_u64(THREAD_WORK / ae_max_u64(a.in_bytes, LINE), 1);
    const uint32_t threads = (uint32_t)ae_max_u64(ae_min_u64(worth, ae_pool_threads(0)), 1);
    ae_pool_run(aggregate_chunk, &a, (lists->n - 1) / LISTS + 1, threads);
    if (atomic_load(&a.cancelled))
        return ae_error_set(err, AETHER_E_CANCELLED, "aggregating was cancelled");
    const uint64_t position = atomic_load(&a.bad);
    if (position == NONE)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)position, lists->ids[position],
                       "id %" PRId64 " at position %" PRIu64 " is not in [0, %" PRIu64 ")",
                       lists->ids[position], position, rows->num_rows);
}
