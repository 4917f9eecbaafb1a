/*
 * A block of walks goes step by step together, so that the cache misses of all
 * of them are in flight at once:
 *
 *   locate     the lists of the nodes they stand on
 *   propose    a position in each list: draw, look up the alias, prefetch
 *   fetch      the neighbours there
 *   settle     node2vec: take it or try again; the undecided ask for an edge
 *
 * propose, fetch and settle are repeated for the walks that are still pending;
 * one that is unlucky for long weighs all its neighbours instead.
 * A walk is a pure function of the key and its number: blocks and threads do
 * not show.
 */
#include "sample/walk.h"

#include <inttypes.h>

#include "core/error.h"
#include "core/pool.h"
#include "core/task.h"
#include "sample/alias.h"
#include "sample/failure.h"
#include "sample/lists.h"
#include "sample/members.h"

#define BLOCK       256 /* walks: their state and the lines they wait for fit the L1 cache */
#define SMALL_BLOCK 32  /* not smaller, for the sake of more threads */
#define NOWHERE     UINT64_MAX

typedef struct walks {
    const aether_topology *t;
    const uint64_t *alias;
    const void *members;
    const int64_t *starts;
    int64_t *out;
    uint64_t num_walks, length, block, base;
    ae_walk_rule rule;
    uint64_t restart;
    bool pad, plain;
    aether_task *task;
    ae_failure failure;
} walks;

/* The walks of a block that still go on, one lane each. */
typedef struct lanes {
    uint64_t n;
    uint64_t walk[BLOCK];   /* number in the call */
    uint64_t stream[BLOCK]; /* of the walk */
    uint64_t node[BLOCK];   /* where it stands; NOWHERE once it jumps */
    ae_list list[BLOCK];    /* of that node; no entries: a dead end */
    uint64_t before[BLOCK]; /* where it came from, or NOWHERE */
    ae_list behind[BLOCK];  /* the list of that node */
    uint64_t draw[BLOCK];   /* of this step */
    uint64_t next[BLOCK];
} lanes;

/* Lanes that have no next node yet. */
typedef struct pending {
    uint64_t n;
    uint32_t lane[BLOCK];
    uint64_t position[BLOCK];
    uint64_t id[BLOCK];
} pending;

/* ---- first-order draws ---- */

static void propose(const lanes *l, uint64_t attempt, pending *p) {
    for (uint64_t k = 0; k < p->n; k++) {
        uint32_t i = p->lane[k];
        uint64_t x = ae_walk_draw(l->draw[i], 2 * attempt);
        p->position[k] = l->list[i].start + ae_rng_bounded(x, l->list[i].degree);
    }
}

/* Tables may be older than the mapped list that is there now. */
static int bad_place(const lanes *l, uint64_t i, uint64_t place, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)l->node[i], (int64_t)place,
                       "the list of node %" PRIu64 " has changed since its weights were read", l->node[i]);
}

/* Positions to where their alias entries point. A lane whose weights are all zero
 * is at a dead end. */
static int follow_aliases(const walks *w, lanes *l, uint64_t attempt, pending *p, aether_error *err) {
    uint64_t kept = 0;
    for (uint64_t k = 0; k < p->n; k++)
        __builtin_prefetch(&w->alias[p->position[k]]);
    for (uint64_t k = 0; k < p->n; k++) {
        uint32_t i = p->lane[k];
        uint64_t entry = w->alias[p->position[k]];
        if (entry == AE_ALIAS_NONE) {
            l->list[i].degree = 0;
            continue;
        }
        uint64_t place = ae_alias_place(entry, ae_walk_draw(l->draw[i], 2 * attempt), l->list[i].degree);
        if (place >= l->list[i].degree)
            return bad_place(l, i, place, err);
        p->lane[kept] = i;
        p->position[kept++] = l->list[i].start + place;
    }
    p->n = kept;
    return AETHER_OK;
}

/* ---- node2vec ---- */

/* Is `id` in the list? Without a member table: a scan. */
static int has_edge(const walks *w, ae_list list, uint64_t id, bool *found, aether_error *err) {
    uint64_t positions[AE_LISTS_PIECE], ids[AE_LISTS_PIECE];
    *found = w->members && ae_members_has(w->members, w->t->lists.id_bytes, list, id);
    for (uint64_t done = 0; done < list.degree && !w->members && !*found;) {
        uint64_t n = ae_lists_piece(list, done, positions);
        int rc = w->t->ops->fetch(w->t, positions, n, ids, err);
        if (rc)
            return rc;
        for (uint64_t i = 0; i < n; i++)
            *found |= ids[i] == id;
        done += n;
    }
    return AETHER_OK;
}

typedef enum verdict { REJECT, TAKE, ASK } verdict;

/* What the coin says before the edge is looked for. */
static inline verdict judge(const ae_walk_rule *rule, uint64_t before, uint64_t id, uint64_t coin) {
    if (before == NOWHERE)
        return TAKE;
    if (id == before)
        return coin < rule->back ? TAKE : REJECT;
    bool near = coin < rule->near, far = coin < rule->far;
    return near && far ? TAKE : near || far ? ASK : REJECT;
}

/* Take proposals, or leave them pending for the next attempt. */
static int settle(const walks *w, lanes *l, uint64_t attempt, pending *p, aether_error *err) {
    const bool take_near = w->rule.near > w->rule.far;
    uint32_t asking[BLOCK];
    uint64_t kept = 0, num_asking = 0;
    for (uint64_t k = 0; k < p->n; k++) {
        uint32_t i = p->lane[k];
        uint64_t coin = ae_walk_coin(ae_walk_draw(l->draw[i], 2 * attempt + 1));
        verdict v = judge(&w->rule, l->before[i], p->id[k], coin);
        l->next[i] = p->id[k];
        if (v == ASK) {
            asking[num_asking++] = i;
            if (w->members)
                ae_members_prefetch(w->members, w->t->lists.id_bytes, l->behind[i], p->id[k]);
        }
        p->lane[kept] = i;
        kept += v == REJECT;
    }
    for (uint64_t k = 0; k < num_asking; k++) {
        uint32_t i = asking[k];
        bool found;
        int rc = has_edge(w, l->behind[i], l->next[i], &found, err);
        if (rc)
            return rc;
        p->lane[kept] = i;
        kept += found != take_near;
    }
    p->n = kept;
    return AETHER_OK;
}

/* ---- node2vec without luck: weigh every neighbour ---- */

/* A running sum of what is gone through, which ends above `stop`. */
typedef struct tally {
    unsigned __int128 sum, stop;
} tally;

/* Add place `place` of lane i's list, of which `part` / 2^32 counts: next[i] is the
 * last neighbour that weighs anything. */
static int add_place(const walks *w, lanes *l, uint64_t i, uint64_t place, uint32_t part, tally *sum,
                     aether_error *err) {
    uint64_t position = l->list[i].start + place, id, share = w->rule.back;
    if (place >= l->list[i].degree)
        return bad_place(l, i, place, err);
    if (part == 0 || sum->sum > sum->stop)
        return AETHER_OK;
    int rc = w->t->ops->fetch(w->t, &position, 1, &id, err);
    if (!rc && id != l->before[i]) {
        bool near = false;
        rc = has_edge(w, l->behind[i], id, &near, err);
        share = near ? w->rule.near : w->rule.far;
    }
    if (rc)
        return rc;
    sum->sum += (unsigned __int128)share * part;
    l->next[i] = id;
    return AETHER_OK;
}

static int add_up(const walks *w, lanes *l, uint64_t i, tally *sum, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t place = 0; place < l->list[i].degree && !rc; place++) {
        if (!w->alias) {
            rc = add_place(w, l, i, place, 1, sum, err);
            continue;
        }
        uint64_t entry = w->alias[l->list[i].start + place];
        uint32_t own = (uint32_t)entry;
        rc = add_place(w, l, i, place, own, sum, err);
        if (!rc)
            rc = add_place(w, l, i, entry >> 32, UINT32_MAX - own, sum, err);
    }
    return rc;
}

static int choose_exactly(const walks *w, lanes *l, uint64_t i, aether_error *err) {
    tally all = {0, ~(unsigned __int128)0}, part = {0, 0};
    int rc = add_up(w, l, i, &all, err);
    if (rc)
        return rc;
    double coin = (double)ae_walk_coin(ae_walk_draw(l->draw[i], AE_WALK_EXACT)) * 0x1p-53;
    part.stop = (unsigned __int128)((double)all.sum * coin);
    return add_up(w, l, i, &part, err);
}

/* Lanes that have had their attempts. */
static int give_up(const walks *w, lanes *l, uint64_t attempts, pending *p, aether_error *err) {
    uint64_t kept = 0;
    for (uint64_t k = 0; k < p->n; k++) {
        uint32_t i = p->lane[k];
        if (attempts < AE_WALK_ATTEMPTS + l->list[i].degree) {
            p->lane[kept++] = i;
            continue;
        }
        int rc = choose_exactly(w, l, i, err);
        if (rc)
            return rc;
    }
    p->n = kept;
    return AETHER_OK;
}

/* ---- one step ---- */

/* Who looks for a neighbour, and who goes back to the start instead. */
static void begin_step(const walks *w, lanes *l, uint64_t step, pending *p) {
    p->n = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        l->draw[i] = ae_rng_draw(l->stream[i], step);
        if (l->list[i].degree == 0)
            continue;
        if (w->restart && ae_walk_coin(ae_walk_draw(l->draw[i], AE_WALK_RESTART)) < w->restart) {
            l->next[i] = (uint64_t)w->starts[l->walk[i]];
            l->node[i] = NOWHERE; /* forget what it leaves */
            continue;
        }
        p->lane[p->n++] = (uint32_t)i;
    }
}

static int attempt_once(const walks *w, lanes *l, uint64_t attempt, pending *p, aether_error *err) {
    const aether_topology *t = w->t;
    propose(l, attempt, p);
    int rc = w->alias ? follow_aliases(w, l, attempt, p, err) : AETHER_OK;
    if (rc)
        return rc;
    t->ops->prefetch(t, p->position, p->n);
    return t->ops->fetch(t, p->position, p->n, p->id, err);
}

/* A next node for every pending lane, except for dead ends by weight. */
static int choose(const walks *w, lanes *l, pending *p, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t attempt = 0; p->n && !rc; attempt++) {
        rc = attempt_once(w, l, attempt, p, err);
        if (rc)
            return rc;
        if (w->rule.first_order) {
            for (uint64_t k = 0; k < p->n; k++)
                l->next[p->lane[k]] = p->id[k];
            return AETHER_OK;
        }
        rc = settle(w, l, attempt, p, err);
        if (!rc && attempt >= AE_WALK_ATTEMPTS)
            rc = give_up(w, l, attempt, p, err);
    }
    return rc;
}

/* A walk that ends: its row is filled up from `column` on. */
static void finish(const walks *w, const lanes *l, uint64_t i, uint64_t column) {
    int64_t *row = w->out + l->walk[i] * (w->length + 1);
    for (uint64_t c = column; c <= w->length; c++)
        row[c] = w->pad ? -1 : (int64_t)l->node[i];
}

/* Write the nodes of `column`; lanes at dead ends go back to the start or close. */
static void end_step(const walks *w, lanes *l, uint64_t column) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        uint64_t walk = l->walk[i], node = l->node[i], next = l->next[i];
        if (l->list[i].degree == 0) {
            if (!w->restart) {
                finish(w, l, i, column);
                continue;
            }
            next = (uint64_t)w->starts[walk];
            node = NOWHERE;
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

static int step_freely(const walks *w, lanes *l, uint64_t step, pending *p, aether_error *err) {
    begin_step(w, l, step, p);
    int rc = choose(w, l, p, err);
    if (!rc)
        end_step(w, l, step + 1);
    return rc;
}

/* ---- one step of plain walks: uniform, first order, no restarts ---- */

static void close_dead_ends(const walks *w, lanes *l, uint64_t column, uint64_t *positions) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        if (l->list[i].degree == 0) {
            finish(w, l, i, column);
            continue;
        }
        l->walk[kept] = l->walk[i];
        l->stream[kept] = l->stream[i];
        positions[kept++] = positions[i];
    }
    l->n = kept;
}

/* Positions of step `step`; whether any lane is at a dead end. */
static bool draw_positions(const lanes *l, uint64_t step, uint64_t *restrict positions) {
    const uint64_t n = l->n;
    uint64_t shortest = 1;
    for (uint64_t i = 0; i < n; i++) {
        ae_list list = l->list[i];
        positions[i] = list.start + ae_rng_bounded(ae_rng_draw(l->stream[i], step), list.degree);
        shortest = list.degree < shortest ? list.degree : shortest;
    }
    return shortest == 0;
}

static void write_column(const walks *w, const lanes *l, uint64_t column) {
    const uint64_t n = l->n, width = w->length + 1;
    int64_t *restrict out = w->out + column;
    for (uint64_t i = 0; i < n; i++)
        out[l->walk[i] * width] = (int64_t)l->node[i];
}

static int step_plainly(const walks *w, lanes *l, uint64_t step, uint64_t *positions, aether_error *err) {
    const aether_topology *t = w->t;
    if (draw_positions(l, step, positions))
        close_dead_ends(w, l, step + 1, positions);
    t->ops->prefetch(t, positions, l->n);
    int rc = t->ops->fetch(t, positions, l->n, l->node, err);
    write_column(w, l, step + 1);
    return rc;
}

/* ---- a call ---- */

static void begin_walks(const walks *w, lanes *l, uint64_t first) {
    l->n = w->num_walks - first < w->block ? w->num_walks - first : w->block;
    for (uint64_t i = 0; i < l->n; i++) {
        l->walk[i] = first + i;
        l->stream[i] = ae_rng_stream(w->base, first + i, AE_RNG_NO_SEED);
        l->node[i] = (uint64_t)w->starts[first + i];
        l->before[i] = NOWHERE;
        w->out[(first + i) * (w->length + 1)] = w->starts[first + i];
    }
}

static int walk_block(const walks *w, uint64_t first, aether_error *err) {
    lanes l;
    pending p;
    begin_walks(w, &l, first);
    for (uint64_t step = 0; step < w->length && l.n; step++) {
        if (ae_task_cancelled(w->task))
            return ae_error_set(err, AETHER_E_CANCELLED, "cancelled");
        int rc = w->t->ops->locate(w->t, l.node, l.n, l.list, err);
        if (!rc)
            rc = w->plain ? step_plainly(w, &l, step, p.position, err) : step_freely(w, &l, step, &p, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static void walk_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    walks *w = ctx;
    aether_error error = {0};
    (void)worker;
    if (ae_failure_seen(&w->failure))
        return;
    int rc = walk_block(w, chunk * w->block, &error);
    if (rc)
        ae_failure_note(&w->failure, rc, &error);
    ae_task_add(w->task, w->block);
}

static int check_rate(const char *name, double value, aether_error *err) {
    if (value > 0 && isfinite(value) && isfinite(1 / value))
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_INVALID, "%s = %g is not a positive number", name, value);
}

static int check_options(const aether_topology *t, const aether_walk_options *o, aether_error *err) {
    int rc = check_rate("p", o->p, err);
    if (!rc)
        rc = check_rate("q", o->q, err);
    if (rc)
        return rc;
    if (!(o->restart >= 0 && o->restart <= 1))
        return ae_error_set(err, AETHER_E_INVALID, "restart = %g is not in 0..1", o->restart);
    if (t->lists.num_minor > t->lists.num_major)
        return ae_error_set(err, AETHER_E_INVALID, "walks need lists of all nodes they can come to");
    return AETHER_OK;
}

static int check_starts(const aether_topology *t, const int64_t *starts, uint64_t n, aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        if ((uint64_t)starts[i] >= t->lists.num_major)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, starts[i],
                               "starts[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, i, starts[i],
                               (int64_t)t->lists.num_major - 1);
    return AETHER_OK;
}

/* Full blocks, unless threads would go without. */
static uint64_t block_size(uint64_t n, uint32_t threads) {
    uint64_t size = (n + threads - 1) / threads;
    size = size < SMALL_BLOCK ? SMALL_BLOCK : size;
    return size < BLOCK ? size : BLOCK;
}

int aether_random_walk(const aether_topology *t, const int64_t *starts, uint64_t n,
                       const aether_walk_options *o, int64_t *out, aether_task *task, aether_error *err) {
    if (!t || !o || (n && (!starts || !out)))
        return ae_error_set(err, AETHER_E_INVALID, "walks need a topology, starts, options and room");
    uint64_t cells;
    if (__builtin_add_overflow(o->length, 1, &cells) || __builtin_mul_overflow(cells, n, &cells) ||
        cells > INT64_MAX / sizeof *out)
        return ae_error_set(err, AETHER_E_LIMIT, "walks of more than 2^60 nodes in all");
    int rc = check_options(t, o, err);
    if (!rc)
        rc = check_starts(t, starts, n, err);
    if (rc || !n)
        return rc;
    walks w = {
        .t = t,
        .alias = o->alias,
        .members = o->members,
        .starts = starts,
        .out = out,
        .num_walks = n,
        .length = o->length,
        .block = block_size(n, ae_pool_threads(o->num_threads)),
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
