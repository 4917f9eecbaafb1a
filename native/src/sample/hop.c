/*
 * One hop: plan all positions, then stream the edges through three stages,
 * each a chunk behind the one before, so that every stage's cache misses are
 * in flight while the others compute:
 *
 *   chunk c      prefetch indices[position]
 *   chunk c - 1  fetch neighbour ids, prefetch their id-map slots
 *   chunk c - 2  relabel: look up or add, write the local source
 *
 * With several threads, plan and fetch run in parallel over blocks of nodes
 * and relabelling stays in order on the calling thread, so the result does not
 * depend on the number of threads.
 */
#include "sample/hop.h"

#include <string.h>

#include "core/error.h"
#include "core/failure.h"
#include "core/pool.h"
#include "sample/draw/uniform.h"

#define BLOCK          AE_TIMES_MANY /* nodes located at a time */
#define TASK_BLOCKS    4             /* ... per parallel task */
#define WORTHWHILE     4096          /* below this many nodes waking threads does not pay */
#define FAR_BLOCK      4096          /* ... where asking costs more than the answer, and keys are not nodes */
#define CHUNK          128   /* edges: two chunks of their lines and of their map slots fit the L1 cache */
#define BLOCK_NODES    1024  /* nodes per parallel task */
#define PARALLEL_EDGES 16384 /* below this a hop is not worth waking threads */
#define WIDE_CHUNK     256

/* ---- lists of the frontier ---- */

typedef struct preparation {
    const aether_sampler *s;
    const ae_relation *r;
    const ae_sample_plan *plan;
    int64_t fanout;
    const uint64_t *keys;
    uint64_t count;
    ae_frontier f;
    bool located; /* all lists are there before the blocks begin */
    ae_failure failure;
} preparation;

static int locate_frontier(const preparation *p, uint64_t at, uint64_t n, aether_error *err) {
    const aether_topology *t = p->r->topology;
    if (!p->s->node_bits)
        return t->ops->locate(t, p->keys + at, n, p->f.lists + at, err);
    uint64_t nodes[FAR_BLOCK];
    for (uint64_t i = 0; i < n; i++)
        nodes[i] = ae_key_node(p->s, p->keys[at + i]);
    return t->ops->locate(t, nodes, n, p->f.lists + at, err);
}

/* Locate the lists of all nodes: of a far topology in one question, which it can put to many at once. */
static int locate_all(const preparation *p, uint64_t count, aether_error *err) {
    const bool is_far = p->r->topology->is_far;
    const uint64_t most = !is_far ? BLOCK : p->s->node_bits ? FAR_BLOCK : count;
    int rc = AETHER_OK;
    for (uint64_t at = 0; !rc && at < count; at += most)
        rc = locate_frontier(p, at, count - at < most ? count - at : most, err);
    return rc;
}

int ae_frontier_restrict(const aether_sampler *s, const ae_relation *r, uint64_t key, ae_list *list,
                         aether_error *err) {
    if (!s->has_bounds || !ae_times_given(&r->times))
        return AETHER_OK;
    const int64_t *own = (const int64_t *)s->bounds.data + 2 * ae_key_tree(s, key);
    return ae_times_restrict(&r->times, r->topology, own[0], own[1], list, err);
}

/* AETHER_SAMPLE_LATEST: keep only the `fanout` last entries of a list that was cut by time. */
static void keep_latest(const preparation *p, ae_list *list, ae_exclusions *exclusions) {
    uint64_t wanted = (uint64_t)p->fanout, size = list->degree - exclusions->count;
    if (!p->plan->latest || p->fanout < 0 || wanted >= size || !p->s->has_bounds ||
        !ae_times_given(&p->r->times))
        return;
    uint64_t end = list->start + list->degree, from = end;
    if (wanted) {
        from = list->start + (size - wanted);
        ae_exclusions_skip(*exclusions, &from, 1);
    }
    *list = (ae_list){from, end - from};
    *exclusions = ae_exclusions_in(exclusions->positions, exclusions->count, *list);
}

/* What follows the cut by time. */
static void finish_node(const preparation *p, uint64_t i) {
    ae_list *list = &p->f.lists[i];
    ae_exclusions exclusions = {0};
    if (p->f.exclusions)
        exclusions = ae_exclusions_in(p->r->excluded, p->r->num_excluded, *list);
    keep_latest(p, list, &exclusions);
    if (p->f.exclusions)
        p->f.exclusions[i] = exclusions;
}

/* finish_node for n lists; without exclusions in one loop. */
static void finish_many(const preparation *p, uint64_t at, uint64_t n) {
    if (p->f.exclusions || p->fanout < 0) {
        for (uint64_t i = at; i < at + n; i++)
            finish_node(p, i);
        return;
    }
    const uint64_t wanted = (uint64_t)p->fanout;
    for (uint64_t i = at; p->plan->latest && i < at + n; i++) {
        ae_list *list = &p->f.lists[i];
        const uint64_t early = list->degree > wanted ? list->degree - wanted : 0;
        *list = (ae_list){list->start + early, list->degree - early};
    }
}

static int prepare_node(const preparation *p, uint64_t i, aether_error *err) {
    if (p->f.wholes)
        p->f.wholes[i] = p->f.lists[i];
    int rc = ae_frontier_restrict(p->s, p->r, p->keys[i], &p->f.lists[i], err);
    if (!rc)
        finish_node(p, i);
    return rc;
}

/* Cut the lists of a block together. */
static int prepare_together(const preparation *p, uint64_t at, uint64_t n, aether_error *err) {
    int64_t since[BLOCK], until[BLOCK];
    const int64_t *bounds = p->s->bounds.data;
    if (p->f.wholes)
        memcpy(p->f.wholes + at, p->f.lists + at, n * sizeof(ae_list));
    for (uint64_t i = 0; i < n; i++) {
        const int64_t *own = bounds + 2 * ae_key_tree(p->s, p->keys[at + i]);
        since[i] = own[0];
        until[i] = own[1];
    }
    int rc = ae_times_restrict_many(&p->r->times, p->r->topology, since, until, p->f.lists + at, n, err);
    if (!rc)
        finish_many(p, at, n);
    return rc;
}

/* The first loop prefetches for all lists of the block, so that their cache misses overlap. */
static int count_drawable(const preparation *p, uint64_t at, uint64_t n, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t i = at; i < at + n; i++) {
        ae_weighted_list list = ae_frontier_weighted(&p->f, p->r, i);
        ae_weighted_prefetch(&list);
    }
    for (uint64_t i = at; !rc && i < at + n; i++) {
        ae_weighted_list list = ae_frontier_weighted(&p->f, p->r, i);
        rc = ae_weighted_count(&list, &p->f.drawable[i], err);
    }
    return rc;
}

static int prepare_block(const preparation *p, uint64_t at, uint64_t n, aether_error *err) {
    const bool plain = !p->f.exclusions && !(p->s->has_bounds && ae_times_given(&p->r->times));
    const bool together = p->s->has_bounds && ae_times_at_hand(&p->r->times);
    int rc = p->located ? AETHER_OK : locate_frontier(p, at, n, err);
    if (!rc && together)
        rc = prepare_together(p, at, n, err);
    for (uint64_t i = 0; !rc && !plain && !together && i < n; i++)
        rc = prepare_node(p, at + i, err);
    return rc || !p->f.drawable ? rc : count_drawable(p, at, n, err);
}

static void prepare_task(void *ctx, uint64_t task, uint32_t worker) {
    (void)worker;
    preparation *p = ctx;
    const uint64_t begin = task * TASK_BLOCKS * BLOCK;
    const uint64_t end = begin + TASK_BLOCKS * BLOCK < p->count ? begin + TASK_BLOCKS * BLOCK : p->count;
    for (uint64_t at = begin; at < end && !ae_failure_seen(&p->failure); at += BLOCK) {
        aether_error error = {0};
        int rc = ae_sample_check(p->s, &error);
        if (!rc)
            rc = prepare_block(p, at, end - at < BLOCK ? end - at : BLOCK, &error);
        if (rc)
            ae_failure_note(&p->failure, rc, &error);
    }
}

static int reserve_frontier(aether_sampler *s, const ae_relation *r, uint64_t count, ae_frontier *f,
                            aether_error *err) {
    int rc = ae_scratch_reserve(&s->lists, count * sizeof(ae_list), 0, err);
    f->lists = s->lists.data;
    if (!rc && (r->weights.sums || r->weights.own) && ae_times_given(&r->times) && s->has_bounds) {
        rc = ae_scratch_reserve(&s->wholes, count * sizeof(ae_list), 0, err);
        f->wholes = s->wholes.data;
    }
    if (!rc && r->num_excluded) {
        rc = ae_scratch_reserve(&s->exclusions, count * sizeof(ae_exclusions), 0, err);
        f->exclusions = s->exclusions.data;
    }
    if (!rc && ae_weights_given(&r->weights)) {
        rc = ae_scratch_reserve(&s->drawable, count * sizeof(uint64_t), 0, err);
        f->drawable = s->drawable.data;
    }
    return rc;
}

int ae_frontier_begin(aether_sampler *s, const ae_relation *r, int64_t fanout, uint64_t begin, uint64_t count,
                      ae_frontier *out, aether_error *err) {
    *out = (ae_frontier){0};
    if (fanout == 0 || count == 0)
        return AETHER_OK;
    int rc = reserve_frontier(s, r, count, out, err);
    const preparation p = {.s = s, .r = r, .keys = ae_nodes_keys(&s->nodes[r->from]) + begin, .f = *out};
    return rc ? rc : locate_all(&p, count, err);
}

int ae_frontier_node(const aether_sampler *s, const ae_relation *r, const ae_sample_plan *plan,
                     int64_t fanout, uint64_t begin, uint64_t i, const ae_frontier *f, aether_error *err) {
    const preparation p = {.s = s,
                           .r = r,
                           .plan = plan,
                           .fanout = fanout,
                           .keys = ae_nodes_keys(&s->nodes[r->from]) + begin,
                           .f = *f};
    int rc = locate_frontier(&p, i, 1, err);
    if (!rc)
        rc = prepare_node(&p, i, err);
    return rc || !f->drawable ? rc : count_drawable(&p, i, 1, err);
}

int ae_frontier_prepare(aether_sampler *s, ae_relation *r, const ae_sample_plan *plan, int64_t fanout,
                        uint64_t begin, uint64_t count, ae_frontier *out, aether_error *err) {
    *out = (ae_frontier){0};
    if (fanout == 0 || count == 0)
        return AETHER_OK;
    int rc = reserve_frontier(s, r, count, out, err);
    if (rc)
        return rc;
    preparation p = {.s = s,
                     .r = r,
                     .plan = plan,
                     .fanout = fanout,
                     .keys = ae_nodes_keys(&s->nodes[r->from]) + begin,
                     .count = count,
                     .f = *out};
    p.located = r->topology->is_far;
    rc = p.located ? locate_all(&p, count, err) : AETHER_OK;
    if (!rc && p.located && r->weights.own)
        rc = ae_weights_know(&r->weights, r->topology, p.f.lists, count, &r->known, err);
    if (rc)
        return rc;
    const uint64_t tasks = (count + TASK_BLOCKS * BLOCK - 1) / (TASK_BLOCKS * BLOCK);
    if (plan->num_threads > 1 && count >= WORTHWHILE)
        ae_pool_run(prepare_task, &p, tasks, plan->num_threads);
    else
        for (uint64_t task = 0; task < tasks; task++)
            prepare_task(&p, task, 0);
    return ae_failure_take(&p.failure, err);
}

/* ---- beginning ---- */

static int count_hop_edges(ae_hop *h, aether_error *err) {
    int rc = ae_scratch_reserve(&h->r->first, (h->slot + h->count + 1) * sizeof(uint64_t),
                                (h->slot + 1) * sizeof(uint64_t), err);
    if (rc)
        return rc;
    uint64_t *first = ae_relation_first(h->r) + h->slot;
    uint64_t total = h->first_edge;
    for (uint64_t i = 0; i < h->count; i++) {
        first[i] = total;
        uint64_t count = h->frontier.lists ? ae_uniform_count(h->fanout, ae_frontier_size(&h->frontier, i),
                                                              h->plan->replace)
                                           : 0;
        if (__builtin_add_overflow(total, count, &total) || total > INT64_MAX / 8)
            return ae_error_set(err, AETHER_E_LIMIT, "the sample would hold more than 2^60 edges");
    }
    first[h->count] = total;
    h->num_edges = total - h->first_edge;
    return AETHER_OK;
}

static int reserve_edges(const ae_hop *h, aether_error *err) {
    ae_relation *r = h->r;
    uint64_t total = h->first_edge + h->num_edges;
    int rc =
        ae_scratch_reserve(&r->positions, total * sizeof(uint64_t), h->first_edge * sizeof(uint64_t), err);
    return rc ? rc
              : ae_scratch_reserve(&r->rows, total * sizeof(uint32_t), h->first_edge * sizeof(uint32_t), err);
}

static int add_layer(ae_relation *r, aether_error *err) {
    const uint64_t n = r->num_layers;
    int rc = ae_scratch_reserve(&r->layers, (n + 1) * sizeof(uint64_t), n * sizeof(uint64_t), err);
    if (!rc)
        ((uint64_t *)r->layers.data)[r->num_layers++] = r->num_expanded;
    return rc;
}

static int begin_rounds(ae_hop *h, aether_error *err) {
    ae_frontier *f = &h->frontier;
    int rc = ae_frontier_begin(h->s, h->r, h->fanout, h->begin, h->count, f, err);
    if (rc || !f->lists)
        return rc;
    return ae_retries_sort(&h->r->retries, f->lists, h->count, h->r->topology->end_positions, err);
}

int ae_hop_begin(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint32_t relation, ae_hop *out,
                 aether_error *err) {
    ae_relation *r = &s->relations[relation];
    const ae_nodes *from = &s->nodes[r->from];
    *out = (ae_hop){.s = s,
                    .r = r,
                    .from = &s->nodes[r->from],
                    .to = &s->nodes[r->to],
                    .plan = plan,
                    .rng_base = ae_rng_base(plan->key, hop, relation),
                    .fanout = plan->fanouts[relation * plan->num_hops + hop],
                    .begin = from->begin,
                    .count = from->end - from->begin,
                    .slot = r->num_expanded,
                    .first_edge = r->num_edges};
    int rc = plan->layered ? add_layer(r, err) : AETHER_OK;
    if (!rc && r->in_rounds)
        rc = begin_rounds(out, err);
    else if (!rc)
        rc = ae_frontier_prepare(s, r, plan, out->fanout, out->begin, out->count, &out->frontier, err);
    if (!rc && r->in_rounds && out->frontier.lists)
        return AETHER_OK; /* ae_hop_round prepares the lists and counts the edges */
    if (!rc)
        rc = count_hop_edges(out, err);
    if (!rc && out->frontier.lists)
        rc = reserve_edges(out, err);
    return rc;
}

void ae_hop_end(const ae_hop *h) {
    h->r->num_edges = h->first_edge + h->num_edges;
    h->r->num_expanded = h->slot + h->count;
}

/* ---- planning ---- */

static int plan_node(const ae_hop *h, uint64_t i, uint64_t count, uint64_t *out, uint64_t room,
                     ae_scratch *set, aether_error *err) {
    const aether_sampler *s = h->s;
    const ae_frontier *f = &h->frontier;
    const uint64_t key = ae_nodes_keys(h->from)[h->begin + i];
    const ae_exclusions exclusions = f->exclusions ? f->exclusions[i] : (ae_exclusions){0};
    ae_list list = f->lists[i];
    list.degree -= exclusions.count;
    if (!f->drawable && (h->fanout < 0 || (!h->plan->replace && count == list.degree))) {
        ae_uniform_all(list, out, room);
        ae_exclusions_skip(exclusions, out, count);
        return AETHER_OK;
    }
    const uint64_t stream = ae_rng_stream(h->rng_base, ae_key_node(s, key), ae_key_tree(s, key));
    if (f->drawable) {
        const ae_weighted_list weighted = ae_frontier_weighted(f, h->r, i);
        return ae_weighted_draw(&weighted, f->drawable[i], count, h->plan->replace && h->fanout >= 0, stream,
                                set, out, room, err);
    }
    int rc = ae_uniform_draw(list, count, h->plan->replace, stream, set, out, err);
    ae_exclusions_skip(exclusions, out, rc ? 0 : count);
    return rc;
}

int ae_hop_plan(const ae_hop *h, uint64_t from, uint64_t to, ae_scratch *set, aether_error *err) {
    if (h->stage == AE_HOP_PLANNED)
        return AETHER_OK;
    const uint64_t *first = ae_hop_first(h);
    const uint64_t room = first[to] - h->first_edge;
    uint64_t *positions = ae_hop_positions(h), look = first[from] - h->first_edge + AE_TASK_ITEMS;
    for (uint64_t i = from; i < to; i++) {
        uint64_t count = first[i + 1] - first[i], at = first[i] - h->first_edge;
        if (at >= look) {
            int rc = ae_sample_check(h->s, err);
            if (rc)
                return rc;
            look = at + AE_TASK_ITEMS;
        }
        int rc = count ? plan_node(h, i, count, positions + at, room - at, set, err) : AETHER_OK;
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

/* ---- in rounds ---- */

typedef struct attempt {
    ae_hop *h;
    ae_scratch *set;
} attempt;

static int try_list(void *ctx, uint64_t i, bool again, aether_error *err) {
    const ae_hop *h = ((attempt *)ctx)->h;
    (void)again;
    return ae_frontier_node(h->s, h->r, h->plan, h->fanout, h->begin, i, &h->frontier, err);
}

/* A retried node may use only its own room in `positions`: the nodes behind it may be planned
 * already. */
static int try_draws(void *ctx, uint64_t i, bool again, aether_error *err) {
    const attempt *t = ctx;
    const uint64_t *first = ae_hop_first(t->h);
    const uint64_t at = first[i] - t->h->first_edge, count = first[i + 1] - first[i];
    (void)again;
    return count ? plan_node(t->h, i, count, ae_hop_positions(t->h) + at, count, t->set, err) : AETHER_OK;
}

int ae_hop_round(ae_hop *h, uint64_t most, ae_scratch *set, aether_error *err) {
    ae_value_cache *p[AE_RELATION_CACHES];
    const uint32_t n = ae_relation_caches(h->r, p);
    attempt t = {h, set};
    int rc = AETHER_OK;
    if (h->stage == AE_HOP_LISTS) {
        rc = ae_retries_round(&h->r->retries, h->count, p, n, most, try_list, &t, err);
        if (!rc)
            rc = count_hop_edges(h, err);
        if (!rc)
            rc = reserve_edges(h, err);
    } else {
        rc = ae_retries_round(&h->r->retries, h->count, p, n, most, try_draws, &t, err);
    }
    if (!rc)
        h->stage++;
    return rc;
}

uint64_t ae_hop_value_pages(const ae_hop *h) {
    ae_value_cache *p[AE_RELATION_CACHES];
    const uint32_t n = ae_relation_caches(h->r, p);
    uint64_t total = 0;
    for (uint32_t k = 0; k < n && h->frontier.lists; k++)
        for (uint64_t i = 0; i < h->count; i++) {
            const uint64_t degree = h->frontier.lists[i].degree;
            total += ((degree < AE_TIMES_REST ? degree : AE_TIMES_REST) >> p[k]->values->shift) + 1;
        }
    return total;
}

/* ---- fetching for many samples ---- */

/* 32-bit ids are read into `rows`, which relabelling overwrites in place. */
int ae_hop_ask(const ae_hop *h, ae_fetch *job, aether_error *err) {
    const bool narrow = h->r->topology->id_bytes == 4;
    int rc = narrow ? AETHER_OK : ae_scratch_reserve(&h->r->ids, h->num_edges * sizeof(uint64_t), 0, err);
    *job = (ae_fetch){ae_hop_positions(h), h->num_edges, narrow ? (void *)ae_hop_rows(h) : h->r->ids.data};
    return rc;
}

static uint64_t read_chunk(const ae_hop *h, const ae_fetch *job, uint64_t at, uint64_t *ids) {
    const uint64_t n = job->count - at < WIDE_CHUNK ? job->count - at : WIDE_CHUNK;
    if (h->r->topology->id_bytes == 4)
        for (uint64_t i = 0; i < n; i++)
            ids[i] = ((const uint32_t *)job->ids)[at + i];
    else
        memcpy(ids, (const uint64_t *)job->ids + at, n * sizeof *ids);
    return n;
}

int ae_hop_relabel_all(const ae_hop *h, const ae_fetch *job, aether_error *err) {
    uint64_t ids[2][WIDE_CHUNK], count[2] = {0, 0}, node = 0;
    uint32_t *rows = ae_hop_rows(h);
    for (uint64_t at = 0, c = 0; at < job->count + WIDE_CHUNK; at += WIDE_CHUNK, c++) {
        uint64_t *next = ids[c % 2], *now = ids[(c + 1) % 2];
        int rc = ae_sample_check(h->s, err);
        if (rc)
            return rc;
        count[c % 2] = at < job->count ? read_chunk(h, job, at, next) : 0;
        if (h->s->node_bits && count[c % 2])
            ae_hop_add_trees(h, at, count[c % 2], next, &node);
        ae_nodes_prefetch(h->to, next, count[c % 2]);
        if (c)
            ae_nodes_relabel(h->to, now, count[(c + 1) % 2], rows + at - WIDE_CHUNK);
    }
    return AETHER_OK;
}

/* ---- relabelling ---- */

/* The trees of a chunk are written list by list, all 16 that the usual list has no more of, past its end,
 * which the next list overwrites: so lists cost no branch that cannot be predicted. */
void ae_hop_add_trees(const ae_hop *h, uint64_t edge, uint64_t n, uint64_t *ids, uint64_t *node) {
    const aether_sampler *s = h->s;
    const uint64_t *keys = ae_nodes_keys(h->from) + h->begin;
    const uint64_t *first = ae_hop_first(h);
    const uint64_t mask = ~((UINT64_C(1) << s->node_bits) - 1);
    uint64_t trees[WIDE_CHUNK + 16], v = *node;
    for (uint64_t at = 0; at < n; at += WIDE_CHUNK) {
        const uint64_t m = n - at < WIDE_CHUNK ? n - at : WIDE_CHUNK, e = h->first_edge + edge + at;
        while (first[v + 1] <= e)
            v++;
        for (uint64_t i = 0; i < m; v += i < m) {
            const uint64_t stop = first[v + 1] - e < m ? first[v + 1] - e : m, tree = keys[v] & mask;
            do {
                for (uint64_t j = 0; j < 16; j++)
                    trees[i + j] = tree;
                i += 16;
            } while (i < stop);
            i = stop;
        }
        for (uint64_t i = 0; i < m; i++)
            ids[at + i] |= trees[i];
    }
    *node = v;
}

typedef struct window {
    uint64_t at, n; /* edges [at, at + n) of the hop */
} window;

static window chunk_at(uint64_t total, uint64_t c) {
    const uint64_t at = c * CHUNK;
    if (at >= total)
        return (window){total, 0};
    return (window){at, total - at < CHUNK ? total - at : CHUNK};
}

/* Fetch the neighbour ids at n positions, and the edge ids into their place where the topology has both
 * together, and all edges before this hop have theirs. */
static inline int fetch_neighbors(const ae_hop *h, uint64_t *positions, uint64_t n, uint64_t *ids,
                                  aether_error *err) {
    const aether_topology *t = h->r->topology;
    return t->ops->fetch_edges && h->r->num_known == h->first_edge
               ? t->ops->fetch_edges(t, positions, n, ids, err)
               : t->ops->fetch(t, positions, n, ids, err);
}

/* Note that fetch_neighbors() is done with all edges of a hop. */
static void know_edges(const ae_hop *h) {
    if (h->r->topology->ops->fetch_edges && h->r->num_known == h->first_edge)
        h->r->num_known += h->num_edges;
}

/* ---- one thread: three stages over chunks ---- */

/* Two buffers are enough: chunk c - 1 is fetched into one while chunk c - 2 waits in the other,
 * which chunk c takes over one step later. */
static int run_hop_chunks(const ae_hop *h, aether_error *err) {
    const aether_topology *t = h->r->topology;
    const uint64_t *first = ae_hop_first(h);
    uint64_t *positions = ae_hop_positions(h);
    const uint64_t total = h->num_edges, chunks = (total + CHUNK - 1) / CHUNK;
    uint64_t ids[2][CHUNK], planned = 0, node = 0;
    uint32_t *rows = ae_hop_rows(h);
    for (uint64_t c = 0; c < chunks + 2; c++) {
        int rc = ae_sample_check(h->s, err);
        if (rc)
            return rc;

        /* Plan whole nodes until every edge of this chunk has its position. */
        const window ahead = chunk_at(total, c);
        const uint64_t from = planned;
        while (planned < h->count && first[planned] < h->first_edge + ahead.at + ahead.n)
            planned++;
        rc = ae_hop_plan(h, from, planned, &h->s->sets[0], err);
        if (rc)
            return rc;
        t->ops->prefetch(t, positions + ahead.at, ahead.n);

        /* Fetch the neighbour ids of the chunk before. */
        if (c >= 1) {
            const window now = chunk_at(total, c - 1);
            uint64_t *keys = ids[(c - 1) % 2];
            rc = fetch_neighbors(h, positions + now.at, now.n, keys, err);
            if (rc)
                return rc;
            if (h->s->node_bits)
                ae_hop_add_trees(h, now.at, now.n, keys, &node);
            ae_nodes_prefetch(h->to, keys, now.n);
        }

        /* Relabel the chunk before that. */
        if (c >= 2) {
            const window last = chunk_at(total, c - 2);
            ae_nodes_relabel(h->to, ids[(c - 2) % 2], last.n, rows + last.at);
        }
    }
    know_edges(h);
    return AETHER_OK;
}

/* ---- several threads: plan and fetch in parallel, relabel in order ---- */

typedef struct parallel_hop {
    const ae_hop *h;
    uint64_t *neighbors; /* of this hop's edges */
    ae_failure failure;
} parallel_hop;

static int fetch_range(const parallel_hop *p, uint64_t from, uint64_t to, aether_error *err) {
    const aether_topology *t = p->h->r->topology;
    uint64_t *positions = ae_hop_positions(p->h);
    uint64_t asked = from;
    for (uint64_t at = from; at < to; at += CHUNK) {
        uint64_t n = to - at < CHUNK ? to - at : CHUNK;
        uint64_t ahead = to - asked < 2 * CHUNK ? to - asked : (at == from ? 2 * CHUNK : CHUNK);
        int rc = ae_sample_check(p->h->s, err);
        if (rc)
            return rc;
        t->ops->prefetch(t, positions + asked, ahead);
        asked += ahead;
        rc = fetch_neighbors(p->h, positions + at, n, p->neighbors + at, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static void plan_and_fetch_block(void *ctx, uint64_t block, uint32_t worker) {
    parallel_hop *p = ctx;
    const ae_hop *h = p->h;
    const uint64_t *first = ae_hop_first(h);
    uint64_t from = block * BLOCK_NODES;
    uint64_t to = from + BLOCK_NODES < h->count ? from + BLOCK_NODES : h->count;
    uint64_t first_edge = first[from] - h->first_edge, end = first[to] - h->first_edge, node = from;
    aether_error err = {0};
    if (ae_failure_seen(&p->failure))
        return;
    int rc = ae_hop_plan(h, from, to, &h->s->sets[worker], &err);
    if (!rc)
        rc = fetch_range(p, first_edge, end, &err);
    if (!rc && h->s->node_bits)
        ae_hop_add_trees(h, first_edge, end - first_edge, p->neighbors + first_edge, &node);
    if (rc)
        ae_failure_note(&p->failure, rc, &err);
}

static int run_parallel(const ae_hop *h, aether_error *err) {
    aether_sampler *s = h->s;
    const uint64_t total = h->num_edges;
    int rc = ae_scratch_reserve(&s->neighbors, total * sizeof(uint64_t), 0, err);
    if (rc)
        return rc;
    parallel_hop p = {.h = h, .neighbors = s->neighbors.data};
    ae_pool_run(plan_and_fetch_block, &p, (h->count + BLOCK_NODES - 1) / BLOCK_NODES, h->plan->num_threads);
    rc = ae_failure_take(&p.failure, err);
    if (rc)
        return rc;
    know_edges(h);
    uint32_t *rows = ae_hop_rows(h);
    ae_nodes_prefetch(h->to, p.neighbors, chunk_at(total, 0).n);
    for (uint64_t c = 0; c * CHUNK < total; c++) {
        window now = chunk_at(total, c), next = chunk_at(total, c + 1);
        rc = ae_sample_check(s, err);
        if (rc)
            return rc;
        ae_nodes_prefetch(h->to, p.neighbors + next.at, next.n);
        ae_nodes_relabel(h->to, p.neighbors + now.at, now.n, rows + now.at);
    }
    return AETHER_OK;
}

/* ---- lists that are slow to reach ---- */

static int run_fetched(const ae_hop *h, aether_error *err) {
    const aether_topology *t = h->r->topology;
    ae_fetch job;
    int rc = ae_hop_plan(h, 0, h->count, &h->s->sets[0], err);
    h->s->staging.learns = true;
    if (!rc)
        rc = ae_hop_ask(h, &job, err);
    if (!rc)
        rc = t->ops->fetch_many(t, &job, 1, &h->s->staging, h->s->task, err);
    return rc ? rc : ae_hop_relabel_all(h, &job, err);
}

static int run_hop_rounds(ae_hop *h, aether_error *err) {
    aether_sampler *s = h->s;
    int rc = AETHER_OK;
    while (!rc && h->stage != AE_HOP_PLANNED) {
        rc = ae_hop_round(h, ae_value_pages_most(&s->staging), &s->sets[0], err);
        if (rc == AE_WANTED)
            rc = ae_relation_read(h->r, &s->staging, s->task, err);
    }
    return rc;
}

/* ---- the call ---- */

static int expand_hop(ae_hop *h, aether_error *err) {
    int rc = h->r->in_rounds ? run_hop_rounds(h, err) : AETHER_OK;
    if (!rc)
        rc = ae_nodes_reserve(h->to, h->to->num_nodes + h->num_edges, h->s->task, err);
    if (rc)
        return rc;
    if (h->r->topology->ops->fetch_many)
        return run_fetched(h, err);
    if (h->plan->num_threads > 1 && h->num_edges >= PARALLEL_EDGES)
        return run_parallel(h, err);
    return run_hop_chunks(h, err);
}

int ae_sample_expand(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint32_t relation,
                     aether_error *err) {
    ae_hop h;
    int rc = ae_hop_begin(s, plan, hop, relation, &h, err);
    if (!rc && h.frontier.lists)
        rc = expand_hop(&h, err);
    ae_hop_end(&h);
    return rc;
}
