/*
 * A block of walks goes step by step together, so that the cache misses of all
 * of them are in flight at once:
 *
 *   locate     the lists of the nodes they stand on
 *   propose    a position in each list: draw, look up the alias, prefetch
 *   fetch      the neighbours there
 *   settle     node2vec: take it or try again; the undecided ask for an edge
 *
 * propose, fetch and settle (node2vec.c) are repeated for the walks that are still
 * pending. Where lists are slow to reach, blocks are as large as a call allows, and
 * what a step of all walks needs is read in the order of the file.
 * A walk is a pure function of the key and its number: blocks and threads do
 * not show.
 */
#include <inttypes.h>

#include "core/error.h"
#include "core/pool.h"
#include "sample/walk/alias.h"
#include "sample/walk/node2vec.h"

#define BLOCK       256        /* walks: their state and the lines they wait for fit the L1 cache */
#define SMALL_BLOCK 32         /* not smaller, for the sake of more threads */
#define WIDE_BLOCK  (1u << 16) /* walks, where a step of all of them is read at once */

/* ---- first-order draws ---- */

static void propose(const ae_walkers *l, uint64_t attempt, ae_pending *p) {
    for (uint64_t k = 0; k < p->n; k++) {
        uint32_t i = p->walker[k];
        uint64_t x = ae_walk_draw(l->draw[i], 2 * attempt);
        p->position[k] = l->list[i].start + ae_rng_bounded(x, l->list[i].degree);
    }
}

/* Replace proposed positions by those that their alias entries point to. A walker whose weights
 * are all zero is at a dead end. */
static int follow_aliases(const ae_walks *w, ae_walkers *l, uint64_t attempt, ae_pending *p,
                          aether_error *err) {
    uint64_t kept = 0;
    for (uint64_t k = 0; k < p->n; k++)
        __builtin_prefetch(&w->alias[p->position[k]]);
    for (uint64_t k = 0; k < p->n; k++) {
        uint32_t i = p->walker[k];
        uint64_t entry = w->alias[p->position[k]];
        if (entry == AE_ALIAS_NONE) {
            l->list[i].degree = 0;
            continue;
        }
        uint64_t place = ae_alias_place(entry, ae_walk_draw(l->draw[i], 2 * attempt), l->list[i].degree);
        if (place >= l->list[i].degree)
            return ae_walk_bad_place(l, i, place, err);
        p->walker[kept] = i;
        p->position[kept++] = l->list[i].start + place;
    }
    p->n = kept;
    return AETHER_OK;
}

/* ---- one step ---- */

/* Draw for each walker whether it goes back to its start; the others become pending. */
static void begin_step(const ae_walks *w, ae_walkers *l, uint64_t step, ae_pending *p) {
    p->n = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        l->draw[i] = ae_rng_draw(l->stream[i], step);
        if (l->list[i].degree == 0)
            continue;
        if (w->restart && ae_walk_coin(ae_walk_draw(l->draw[i], AE_WALK_RESTART)) < w->restart) {
            l->next[i] = (uint64_t)w->starts[l->walk[i]];
            l->node[i] = AE_WALK_NOWHERE; /* no node before, for node2vec */
            continue;
        }
        p->walker[p->n++] = (uint32_t)i;
    }
}

static int attempt_once(const ae_walks *w, ae_walkers *l, uint64_t attempt, ae_pending *p,
                        aether_error *err) {
    propose(l, attempt, p);
    int rc = w->alias ? follow_aliases(w, l, attempt, p, err) : AETHER_OK;
    if (rc)
        return rc;
    return ae_walkers_fetch(w, l, p->position, p->n, p->id, err);
}

static int choose_neighbors(const ae_walks *w, ae_walkers *l, ae_pending *p, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t attempt = 0; p->n && !rc; attempt++) {
        rc = ae_task_check(w->task, "walking", err); /* hubs take many attempts */
        if (!rc)
            rc = attempt_once(w, l, attempt, p, err);
        if (rc)
            return rc;
        if (w->rule.first_order) {
            for (uint64_t k = 0; k < p->n; k++)
                l->next[p->walker[k]] = p->id[k];
            return AETHER_OK;
        }
        rc = ae_node2vec_settle(w, l, attempt, p, err);
    }
    return rc;
}

static void finish_walk(const ae_walks *w, const ae_walkers *l, uint64_t i, uint64_t column) {
    int64_t *row = w->out + l->walk[i] * (w->length + 1);
    for (uint64_t c = column; c <= w->length; c++)
        row[c] = w->pad ? -1 : (int64_t)l->node[i];
}

/* Write the nodes of `column`; walkers at dead ends go back to the start or close. */
static void end_step(const ae_walks *w, ae_walkers *l, uint64_t column) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        uint64_t walk = l->walk[i], node = l->node[i], next = l->next[i];
        if (l->list[i].degree == 0) {
            if (!w->restart) {
                finish_walk(w, l, i, column);
                continue;
            }
            next = (uint64_t)w->starts[walk];
            node = AE_WALK_NOWHERE;
        }
        w->out[walk * (w->length + 1) + column] = (int64_t)next;
        l->walk[kept] = walk;
        l->stream[kept] = l->stream[i];
        l->node[kept] = next;
        l->before[kept] = node;
        l->behind[kept] = l->list[i];
        kept++;
    }
    l->n = kept;
}

static int step_freely(const ae_walks *w, ae_walkers *l, uint64_t step, ae_pending *p, aether_error *err) {
    begin_step(w, l, step, p);
    int rc = choose_neighbors(w, l, p, err);
    if (!rc)
        end_step(w, l, step + 1);
    return rc;
}

/* ---- one step of plain walks: uniform, first order, no restarts ---- */

static void close_dead_ends(const ae_walks *w, ae_walkers *l, uint64_t column, uint64_t *positions) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        if (l->list[i].degree == 0) {
            finish_walk(w, l, i, column);
            continue;
        }
        l->walk[kept] = l->walk[i];
        l->stream[kept] = l->stream[i];
        positions[kept++] = positions[i];
    }
    l->n = kept;
}

/* Return whether any walker is at a dead end: its position means nothing. */
static bool draw_positions(const ae_walkers *l, uint64_t step, uint64_t *restrict positions) {
    const uint64_t n = l->n;
    uint64_t shortest = 1;
    for (uint64_t i = 0; i < n; i++) {
        ae_list list = l->list[i];
        positions[i] = list.start + ae_rng_bounded(ae_rng_draw(l->stream[i], step), list.degree);
        shortest = list.degree < shortest ? list.degree : shortest;
    }
    return shortest == 0;
}

static void write_column(const ae_walks *w, const ae_walkers *l, uint64_t column) {
    const uint64_t n = l->n, width = w->length + 1;
    int64_t *restrict out = w->out + column;
    for (uint64_t i = 0; i < n; i++)
        out[l->walk[i] * width] = (int64_t)l->node[i];
}

static int step_plainly(const ae_walks *w, ae_walkers *l, uint64_t step, uint64_t *positions,
                        aether_error *err) {
    if (draw_positions(l, step, positions))
        close_dead_ends(w, l, step + 1, positions);
    int rc = ae_walkers_fetch(w, l, positions, l->n, l->node, err);
    write_column(w, l, step + 1);
    return rc;
}

/* ---- a call ---- */

static void begin_walks(const ae_walks *w, ae_walkers *l, uint64_t first) {
    l->n = w->num_walks - first < w->block ? w->num_walks - first : w->block;
    for (uint64_t i = 0; i < l->n; i++) {
        l->walk[i] = first + i;
        l->stream[i] = ae_rng_stream(w->base, w->number + first + i, AE_RNG_NO_SEED);
        l->node[i] = (uint64_t)w->starts[first + i];
        l->before[i] = AE_WALK_NOWHERE;
        w->out[(first + i) * (w->length + 1)] = w->starts[first + i];
    }
}

static int step_all(const ae_walks *w, ae_walkers *l, ae_pending *p, uint64_t first, aether_error *err) {
    begin_walks(w, l, first);
    for (uint64_t step = 0; step < w->length && l->n; step++) {
        if (ae_task_cancelled(w->task))
            return ae_error_set(err, AETHER_E_CANCELLED, "cancelled");
        int rc = w->t->ops->locate(w->t, l->node, l->n, l->list, err);
        if (!rc)
            rc = w->plain ? step_plainly(w, l, step, p->position, err) : step_freely(w, l, step, p, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static int walk_block(const ae_walks *w, uint64_t first, aether_error *err) {
    uint64_t memory[BLOCK * AE_WALKER_BYTES / sizeof(uint64_t)];
    ae_walkers l;
    ae_pending p;
    ae_walkers_make(memory, BLOCK, &l, &p);
    return step_all(w, &l, &p, first, err);
}

static int walk_wide_block(const ae_walks *w, uint64_t first, aether_error *err) {
    ae_scratch memory = {0};
    ae_list_reader reader = {0};
    ae_walkers l;
    ae_pending p;
    int rc = ae_scratch_reserve(&memory, w->block * AE_WALKER_BYTES, 0, err);
    if (rc)
        return rc;
    ae_walkers_make(memory.data, w->block, &l, &p);
    l.reader = &reader;
    rc = step_all(w, &l, &p, first, err);
    ae_list_reader_free(&reader);
    ae_scratch_free(&memory);
    return rc;
}

static void walk_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    ae_walks *w = ctx;
    aether_error error = {0};
    (void)worker;
    if (ae_failure_seen(&w->failure))
        return;
    const uint64_t first = chunk * w->block;
    int rc = ae_list_reader_pays(w->t) ? walk_wide_block(w, first, &error) : walk_block(w, first, &error);
    if (rc)
        ae_failure_note(&w->failure, rc, &error);
    ae_task_add(w->task, w->block);
}

static int check_rate(const char *name, double value, aether_error *err) {
    if (value > 0 && isfinite(value) && isfinite(1 / value))
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_INVALID, "%s = %g is not a positive number", name, value);
}

static int check_walk_options(const aether_topology *t, const aether_walk_options *o, aether_error *err) {
    int rc = check_rate("p", o->p, err);
    if (!rc)
        rc = check_rate("q", o->q, err);
    if (rc)
        return rc;
    if (!(o->restart >= 0 && o->restart <= 1))
        return ae_error_set(err, AETHER_E_INVALID, "restart = %g is not in 0..1", o->restart);
    if (t->num_minor > t->num_major)
        return ae_error_set(err, AETHER_E_INVALID, "walks need lists of all nodes they can come to");
    return o->alias || o->members ? ae_topology_need_dense(t, "alias and member tables", err) : AETHER_OK;
}

static int check_starts(const aether_topology *t, const int64_t *starts, uint64_t n, aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        if ((uint64_t)starts[i] >= t->num_major)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, starts[i],
                               "starts[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, i, starts[i],
                               (int64_t)t->num_major - 1);
    return AETHER_OK;
}

/* Blocks are full unless that would leave threads without one. */
static uint64_t block_size(const aether_topology *t, uint64_t n, uint32_t threads) {
    const uint64_t most = ae_list_reader_pays(t) ? WIDE_BLOCK : BLOCK;
    uint64_t size = (n + threads - 1) / threads;
    size = size < SMALL_BLOCK ? SMALL_BLOCK : size;
    return size < most ? size : most;
}

int aether_random_walk(const aether_topology *t, const int64_t *starts, uint64_t n,
                       const aether_walk_options *o, int64_t *out, aether_task *task, aether_error *err) {
    if (!t || !o || (n && (!starts || !out)))
        return ae_error_set(err, AETHER_E_INVALID, "walks need a topology, starts, options and room");
    uint64_t cells;
    if (__builtin_add_overflow(o->length, 1, &cells) || __builtin_mul_overflow(cells, n, &cells) ||
        cells > INT64_MAX / sizeof *out)
        return ae_error_set(err, AETHER_E_LIMIT, "walks of more than 2^60 nodes in all");
    int rc = check_walk_options(t, o, err);
    if (!rc)
        rc = check_starts(t, starts, n, err);
    if (rc || !n)
        return rc;
    ae_walks w = {
        .t = t,
        .alias = o->alias,
        .members = o->members,
        .starts = starts,
        .out = out,
        .num_walks = n,
        .number = o->first,
        .length = o->length,
        .block = block_size(t, n, ae_pool_threads(o->num_threads)),
        .base = ae_rng_base(o->key, AE_WALK_HOP, 0),
        .rule = ae_walk_make_rule(o->p, o->q),
        .restart = ae_walk_share(o->restart),
        .pad = o->flags & AETHER_WALK_PAD,
        .task = task,
    };
    w.plain = w.rule.first_order && !w.alias && !w.restart;
    ae_task_begin(task, n);
    ae_pool_run(walk_chunk, &w, (n + w.block - 1) / w.block, o->num_threads);
    return ae_failure_take(&w.failure, err);
}
