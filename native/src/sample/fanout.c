/*
 * One hop as a table: k neighbours per node, no relabelling.
 *
 *   nodes [ 7  2 ]  k 3   ->   out [ 4  9  1 ]
 *                                  [ 5 -1 -1 ]     a list of one
 *
 * Rows of out hold positions until they are fetched, a group of rows at a time so
 * that the cache misses of a group are in flight together.
 */
#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/failure.h"
#include "core/options.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/task.h"
#include "sample/draw/uniform.h"
#include "topology/list_reader.h"

#define GROUP 64                  /* nodes */
#define CHUNK 512                 /* nodes handed out at a time */
#define BLOCK 256                 /* positions fetched at a time */
#define LOOK  64                  /* blocks between two looks at the task */
#define CELLS (UINT64_C(1) << 18) /* of the table filled at a time, where positions are read together */

typedef struct fan {
    const aether_topology *t;
    const int64_t *nodes;
    int64_t *out;
    uint64_t n, k, base;
    bool replace;
    aether_task *task;
    ae_failure failure;
    ae_scratch sets[AE_POOL_MAX]; /* for ae_uniform_draw, per thread */
} fan;

static int plan_row(const fan *f, uint64_t i, ae_list list, ae_scratch *set, uint64_t *count,
                    aether_error *err) {
    uint64_t *row = (uint64_t *)f->out + i * f->k;
    *count = list.degree == 0 ? 0 : f->replace || f->k < list.degree ? f->k : list.degree;
    if (f->replace || *count < list.degree)
        return ae_uniform_draw(list, *count, f->replace, ae_rng_stream(f->base, (uint64_t)f->nodes[i], i),
                               set, row, err);
    for (uint64_t j = 0; j < *count; j++)
        row[j] = list.start + j;
    return AETHER_OK;
}

static int fetch_row(const fan *f, uint64_t i, uint64_t count, aether_error *err) {
    int64_t *row = f->out + i * f->k;
    uint64_t positions[BLOCK];
    for (uint64_t done = 0; done < count;) {
        uint64_t n = count - done < BLOCK ? count - done : BLOCK;
        int rc =
            done / BLOCK % LOOK == LOOK - 1 ? ae_task_check(f->task, "drawing neighbours", err) : AETHER_OK;
        if (rc)
            return rc;
        memcpy(positions, row + done, n * sizeof *positions);
        rc = f->t->ops->fetch(f->t, positions, n, (uint64_t *)row + done, err);
        if (rc)
            return rc;
        done += n;
    }
    for (uint64_t j = count; j < f->k; j++)
        row[j] = -1;
    return AETHER_OK;
}

static int fan_group(const fan *f, uint64_t first, uint64_t n, ae_scratch *set, aether_error *err) {
    ae_list lists[GROUP];
    uint64_t counts[GROUP];
    if (ae_task_cancelled(f->task))
        return ae_error_set(err, AETHER_E_CANCELLED, "cancelled");
    int rc = f->t->ops->locate(f->t, (const uint64_t *)f->nodes + first, n, lists, err);
    for (uint64_t i = 0; i < n && !rc; i++) {
        rc = plan_row(f, first + i, lists[i], set, &counts[i], err);
        if (!rc)
            f->t->ops->prefetch(f->t, (uint64_t *)f->out + (first + i) * f->k, counts[i]);
    }
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = fetch_row(f, first + i, counts[i], err);
    return rc;
}

/* ---- lists that are slow to reach ---- */

typedef struct fanout_buffers {
    ae_list_reader reader;
    ae_scratch lists, counts, positions, ids;
} fanout_buffers;

static void free_together(fanout_buffers *g) {
    ae_list_reader_free(&g->reader);
    ae_scratch_free(&g->lists);
    ae_scratch_free(&g->counts);
    ae_scratch_free(&g->positions);
    ae_scratch_free(&g->ids);
}

static int reserve_together(fanout_buffers *g, uint64_t rows, uint64_t k, aether_error *err) {
    int rc = ae_scratch_reserve(&g->lists, rows * sizeof(ae_list), 0, err);
    if (!rc)
        rc = ae_scratch_reserve(&g->counts, rows * sizeof(uint64_t), 0, err);
    if (!rc)
        rc = ae_scratch_reserve(&g->positions, rows * k * sizeof(uint64_t), 0, err);
    return rc ? rc : ae_scratch_reserve(&g->ids, rows * k * sizeof(uint64_t), 0, err);
}

static int fan_rows(fan *f, uint64_t first, uint64_t n, fanout_buffers *g, aether_error *err) {
    ae_list *lists = g->lists.data;
    uint64_t *counts = g->counts.data, *positions = g->positions.data, *ids = g->ids.data, total = 0;
    if (ae_task_cancelled(f->task))
        return ae_error_set(err, AETHER_E_CANCELLED, "cancelled");
    int rc = f->t->ops->locate(f->t, (const uint64_t *)f->nodes + first, n, lists, err);
    for (uint64_t i = 0; !rc && i < n; i++) {
        rc = plan_row(f, first + i, lists[i], &f->sets[0], &counts[i], err);
        if (!rc)
            memcpy(positions + total, f->out + (first + i) * f->k, counts[i] * sizeof *positions);
        total += rc ? 0 : counts[i];
    }
    if (!rc)
        rc = ae_list_reader_fetch(&g->reader, f->t, positions, total, ids, f->task, err);
    for (uint64_t i = 0; !rc && i < n; ids += counts[i++]) {
        int64_t *row = f->out + (first + i) * f->k;
        memcpy(row, ids, counts[i] * sizeof *row);
        for (uint64_t j = counts[i]; j < f->k; j++)
            row[j] = -1;
    }
    ae_task_add(f->task, n);
    return rc;
}

static int fan_together(fan *f, aether_error *err) {
    fanout_buffers g = {0};
    uint64_t rows = CELLS / f->k ? CELLS / f->k : 1;
    rows = rows < f->n ? rows : f->n;
    int rc = reserve_together(&g, rows, f->k, err);
    for (uint64_t at = 0; !rc && at < f->n; at += rows)
        rc = fan_rows(f, at, f->n - at < rows ? f->n - at : rows, &g, err);
    free_together(&g);
    return rc;
}

static void fan_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    fan *f = ctx;
    uint64_t begin = chunk * CHUNK, end = begin + CHUNK < f->n ? begin + CHUNK : f->n;
    for (uint64_t i = begin; i < end && !ae_failure_seen(&f->failure); i += GROUP) {
        aether_error error = {0};
        int rc = fan_group(f, i, end - i < GROUP ? end - i : GROUP, &f->sets[worker], &error);
        if (rc)
            ae_failure_note(&f->failure, rc, &error);
    }
    ae_task_add(f->task, end - begin);
}

static int check_fanout(const aether_topology *t, const int64_t *nodes, uint64_t n, uint64_t k,
                        const int64_t *out, aether_error *err) {
    uint64_t cells;
    if (!t || (n && (!nodes || (k && !out))))
        return ae_error_set(err, AETHER_E_INVALID, "a fanout needs a topology, nodes and room");
    if (__builtin_mul_overflow(n, k, &cells) || cells > INT64_MAX / sizeof *out)
        return ae_error_set(err, AETHER_E_LIMIT, "a fanout of more than 2^60 neighbours");
    for (uint64_t i = 0; i < n; i++)
        if ((uint64_t)nodes[i] >= t->num_major)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, nodes[i],
                               "nodes[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, i, nodes[i],
                               (int64_t)t->num_major - 1);
    return AETHER_OK;
}

int aether_fanout(const aether_topology *t, const int64_t *nodes, uint64_t n,
                  const aether_fanout_options *options, int64_t *out, aether_task *task, aether_error *err) {
    const aether_fanout_options *o = options;
    int rc = ae_options_check(o, sizeof *o, "aether_fanout_options", err);
    if (!rc)
        rc = check_fanout(t, nodes, n, o->k, out, err);
    if (rc || !n || !o->k)
        return rc;
    fan f = {
        .t = t,
        .nodes = nodes,
        .out = out,
        .n = n,
        .k = o->k,
        .base = ae_rng_base(o->key, 0, 0),
        .replace = o->flags & AETHER_SAMPLE_REPLACE,
        .task = task,
    };
    ae_task_begin(task, n);
    if (ae_list_reader_pays(t))
        rc = fan_together(&f, err);
    else
        ae_pool_run(fan_chunk, &f, (n + CHUNK - 1) / CHUNK, o->num_threads);
    for (uint32_t i = 0; i < AE_POOL_MAX; i++)
        ae_scratch_free(&f.sets[i]);
    return rc ? rc : ae_failure_take(&f.failure, err);
}
