/*
 * One hop over one relation, in the order in which it happens:
 *
 *   1. frontier   which nodes, and room for what is known of each
 *   2. lists      where their lists are, and which part of each may be drawn
 *   3. counts     how many edges each node gets, and room for them
 *   4. plan       positions of the edges
 *   5. fetch      ids at these positions
 *   6. relabel    ids become local ones, new nodes are added
 *
 * Steps 1 to 3 go over the whole frontier. Then chunks of edges stream through the others, each step a chunk
 * behind the one before (topology/stream.h). With several threads, 4 and 5 run in parallel over blocks of
 * nodes, and 6 stays in order on the calling thread, so the result does not depend on the number of threads.
 *
 * What a uniform hop over arrays does not need is behind one branch each: times (draw/times.c), excluded
 * edges (draw/exclusions.h), weights (draw/weighted.c), lists that are slow to reach (fetch_many of their
 * topology), and values that stay in a file, for which nodes are tried in rounds (rounds.c).
 */
#include "sample/hop.h"

#include <string.h>

#include "core/error.h"
#include "core/failure.h"
#include "core/pool.h"
#include "sample/draw/uniform.h"
#include "topology/stream.h"

#define BLOCK          AE_TIMES_MANY /* nodes whose lists are found at a time */
#define FAR_BLOCK      4096          /* ... where asking costs more than the answer, and keys are not nodes */
#define TASK_NODES     1024          /* nodes per parallel task */
#define PARALLEL_NODES 4096          /* below this many nodes waking threads to find lists does not pay */
#define PARALLEL_EDGES 16384         /* ... nor below this many edges to draw them */

/* ---- 1. frontier --------------------------------------------------------------------- */

/* Return the keys of the frontier; they move when nodes are added. */
static const uint64_t *frontier_keys(const ae_hop *h) {
    return ae_nodes_keys(h->from) + h->begin;
}

static int reserve_frontier(ae_hop *h, aether_error *err) {
    aether_sampler *s = h->s;
    const ae_relation *r = h->r;
    int rc = ae_scratch_reserve(&s->lists, h->count * sizeof(ae_list), 0, err);
    h->lists = s->lists.data;
    if (!rc && h->in_time && (r->weights.sums || r->weights.own)) {
        rc = ae_scratch_reserve(&s->wholes, h->count * sizeof(ae_list), 0, err);
        h->wholes = s->wholes.data;
    }
    if (!rc && r->num_excluded) {
        rc = ae_scratch_reserve(&s->exclusions, h->count * sizeof(ae_exclusions), 0, err);
        h->exclusions = s->exclusions.data;
    }
    if (!rc && ae_weights_given(&r->weights)) {
        rc = ae_scratch_reserve(&s->drawable, h->count * sizeof(uint64_t), 0, err);
        h->drawable = s->drawable.data;
    }
    return rc;
}

/* ---- 2. lists ------------------------------------------------------------------------ */

/* Find the whole lists of nodes [at, at + n); of at most FAR_BLOCK where keys are not nodes. */
static int locate_lists(const ae_hop *h, uint64_t at, uint64_t n, aether_error *err) {
    const aether_topology *t = h->r->topology;
    const uint64_t *keys = frontier_keys(h) + at;
    if (!h->s->node_bits)
        return t->ops->locate(t, keys, n, h->lists + at, err);
    uint64_t nodes[FAR_BLOCK];
    for (uint64_t i = 0; i < n; i++)
        nodes[i] = ae_key_node(h->s, keys[i]);
    return t->ops->locate(t, nodes, n, h->lists + at, err);
}

/* AETHER_SAMPLE_LATEST: keep the last entries of lists that were cut by time, as many as may be drawn. */
static void keep_latest(const ae_hop *h, uint64_t at, uint64_t n) {
    const uint64_t most = (uint64_t)h->fanout;
    for (uint64_t i = at; i < at + n; i++) {
        ae_list *list = &h->lists[i];
        const uint64_t early = list->degree > most ? list->degree - most : 0;
        if (h->exclusions)
            ae_exclusions_keep_last(list, &h->exclusions[i], most);
        else
            *list = (ae_list){list->start + early, list->degree - early};
    }
}

/* Return list i as ae_weighted_draw takes it. */
static inline ae_weighted_list weighted_list(const ae_hop *h, uint64_t i) {
    return (ae_weighted_list){&h->r->weights, h->r->topology, h->wholes ? h->wholes[i] : h->lists[i],
                              h->lists[i], h->exclusions ? h->exclusions[i] : (ae_exclusions){0}};
}

/* The first loop prefetches for all lists, so that their cache misses overlap. */
static int count_drawable(const ae_hop *h, uint64_t at, uint64_t n, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t i = at; i < at + n; i++) {
        const ae_weighted_list list = weighted_list(h, i);
        ae_weighted_prefetch(&list);
    }
    for (uint64_t i = at; !rc && i < at + n; i++) {
        const ae_weighted_list list = weighted_list(h, i);
        rc = ae_weighted_count(&list, &h->drawable[i], err);
    }
    return rc;
}

int ae_hop_find_lists(const ae_hop *h, uint64_t at, uint64_t n, aether_error *err) {
    int rc = h->located ? AETHER_OK : locate_lists(h, at, n, err);
    if (!rc && h->wholes)
        memcpy(h->wholes + at, h->lists + at, n * sizeof(ae_list));
    if (!rc && h->in_time)
        rc = ae_sample_cut(h->s, h->r, frontier_keys(h) + at, h->lists + at, n, err);
    for (uint64_t i = at; !rc && h->exclusions && i < at + n; i++)
        h->exclusions[i] = ae_exclusions_in(h->r->excluded, h->r->num_excluded, h->lists[i]);
    if (!rc && h->in_time && h->plan->latest && h->fanout >= 0)
        keep_latest(h, at, n);
    return rc || !h->drawable ? rc : count_drawable(h, at, n, err);
}

static int find_lists_of(const ae_hop *h, uint64_t at, uint64_t end, aether_error *err) {
    int rc = AETHER_OK;
    for (; !rc && at < end; at += BLOCK) {
        rc = ae_sample_check(h->s, err);
        if (!rc)
            rc = ae_hop_find_lists(h, at, end - at < BLOCK ? end - at : BLOCK, err);
    }
    return rc;
}

typedef struct list_search {
    const ae_hop *h;
    ae_failure failure;
} list_search;

static void find_lists_of_task(void *ctx, uint64_t task, uint32_t worker) {
    list_search *p = ctx;
    const uint64_t at = task * TASK_NODES, rest = p->h->count - at;
    aether_error error = {0};
    (void)worker;
    int rc = ae_failure_seen(&p->failure)
                 ? AETHER_OK
                 : find_lists_of(p->h, at, at + (rest < TASK_NODES ? rest : TASK_NODES), &error);
    if (rc)
        ae_failure_note(&p->failure, rc, &error);
}

/* Locate all lists: of a far topology in one question, which it can put to many at once. */
static int locate_all(const ae_hop *h, aether_error *err) {
    const bool is_far = h->r->topology->is_far;
    const uint64_t most = !is_far ? BLOCK : h->s->node_bits ? FAR_BLOCK : h->count;
    int rc = AETHER_OK;
    for (uint64_t at = 0; !rc && at < h->count; at += most)
        rc = locate_lists(h, at, h->count - at < most ? h->count - at : most, err);
    return rc;
}

static int find_all_lists(ae_hop *h, aether_error *err) {
    ae_relation *r = h->r;
    int rc = AETHER_OK;
    h->located = r->topology->is_far;
    if (h->located)
        rc = locate_all(h, err);
    if (!rc && h->located && r->weights.own)
        rc = ae_weights_know(&r->weights, r->topology, h->lists, h->count, &r->known, err);
    if (rc || h->plan->num_threads <= 1 || h->count < PARALLEL_NODES)
        return rc ? rc : find_lists_of(h, 0, h->count, err);
    list_search p = {.h = h};
    ae_pool_run(find_lists_of_task, &p, (h->count + TASK_NODES - 1) / TASK_NODES, h->plan->num_threads);
    return ae_failure_take(&p.failure, err);
}

/* ---- 3. counts ----------------------------------------------------------------------- */

int ae_hop_count_edges(ae_hop *h, aether_error *err) {
    ae_relation *r = h->r;
    int rc = ae_scratch_reserve(&r->first, (h->slot + h->count + 1) * sizeof(uint64_t),
                                (h->slot + 1) * sizeof(uint64_t), err);
    if (rc)
        return rc;
    uint64_t *first = ae_relation_first(r) + h->slot, total = h->first_edge;
    const ae_list *lists = h->lists;
    const uint64_t *drawable = h->drawable;
    const int64_t fanout = h->fanout;
    const bool replace = h->plan->replace;
    for (uint64_t i = 0; i < h->count; i++) {
        uint64_t count = 0;
        if (drawable)
            count = drawable[i];
        else if (lists)
            count = lists[i].degree - (h->exclusions ? h->exclusions[i].count : 0);
        count = ae_uniform_count(fanout, count, replace);
        if (count > INT64_MAX / 8 - total)
            return ae_error_set(err, AETHER_E_LIMIT, "the sample would hold more than 2^60 edges");
        first[i] = total;
        total += count;
    }
    first[h->count] = total;
    h->num_edges = total - h->first_edge;
    if (h->lists)
        rc = ae_scratch_reserve(&r->positions, total * sizeof(uint64_t), h->first_edge * sizeof(uint64_t),
                                err);
    if (!rc && h->lists)
        rc = ae_scratch_reserve(&r->rows, total * sizeof(uint32_t), h->first_edge * sizeof(uint32_t), err);
    return rc;
}

static int add_layer(ae_relation *r, aether_error *err) {
    const uint64_t n = r->num_layers;
    int rc = ae_scratch_reserve(&r->layers, (n + 1) * sizeof(uint64_t), n * sizeof(uint64_t), err);
    if (!rc)
        ((uint64_t *)r->layers.data)[r->num_layers++] = r->num_expanded;
    return rc;
}

int ae_hop_begin(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint32_t relation, ae_hop *out,
                 aether_error *err) {
    ae_relation *r = &s->relations[relation];
    ae_nodes *from = &s->nodes[r->from];
    *out = (ae_hop){.s = s,
                    .r = r,
                    .from = from,
                    .to = &s->nodes[r->to],
                    .plan = plan,
                    .rng_base = ae_rng_base(plan->key, hop, relation),
                    .fanout = plan->fanouts[relation * plan->num_hops + hop],
                    .begin = from->begin,
                    .count = from->end - from->begin,
                    .slot = r->num_expanded,
                    .first_edge = r->num_edges,
                    .in_time = s->has_bounds && ae_times_given(&r->times),
                    .with_edge_ids = r->topology->ops->fetch_edges && r->num_known == r->num_edges};
    int rc = plan->layered ? add_layer(r, err) : AETHER_OK;
    if (!rc && out->fanout && out->count) {
        rc = reserve_frontier(out, err);
        if (!rc && !r->in_rounds)
            rc = find_all_lists(out, err);
        else if (!rc) { /* the rest is done in rounds (sample/rounds.h) */
            rc = locate_all(out, err);
            return rc ? rc
                      : ae_retries_sort(&r->retries, out->lists, out->count, r->topology->end_positions, err);
        }
    }
    return rc ? rc : ae_hop_count_edges(out, err);
}

/* ---- 4. plan ------------------------------------------------------------------------- */

int ae_hop_plan_node(const ae_hop *h, uint64_t i, uint64_t count, uint64_t *out, uint64_t room,
                     ae_scratch *set, aether_error *err) {
    const uint64_t key = frontier_keys(h)[i];
    const ae_exclusions exclusions = h->exclusions ? h->exclusions[i] : (ae_exclusions){0};
    ae_list list = h->lists[i];
    list.degree -= exclusions.count;
    if (!h->drawable && (h->fanout < 0 || (!h->plan->replace && count == list.degree))) {
        ae_uniform_all(list, out, room);
        ae_exclusions_skip(exclusions, out, count);
        return AETHER_OK;
    }
    const uint64_t stream = ae_rng_stream(h->rng_base, ae_key_node(h->s, key), ae_key_tree(h->s, key));
    if (h->drawable) {
        const ae_weighted_list weighted = weighted_list(h, i);
        return ae_weighted_draw(&weighted, h->drawable[i], count, h->plan->replace && h->fanout >= 0, stream,
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
        int rc = count ? ae_hop_plan_node(h, i, count, positions + at, room - at, set, err) : AETHER_OK;
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

/* Edges [begin, ...) of the hop on their way through the steps. */
typedef struct edge_stream {
    const ae_hop *h;
    uint64_t begin;
    uint64_t planned, end;  /* nodes that have their positions, and those that are to get them */
    ae_scratch *set;        /* of the thread that plans */
    uint64_t node;          /* at or before that of the next edge to be fetched */
    uint64_t *ids;          /* all ids of the hop; NULL: those of some chunks, in the buffers of the stream */
    const uint32_t *narrow; /* ids that were read, if they are not 64-bit numbers in `ids` */
    bool have_trees;        /* ids that were read are keys already */
} edge_stream;

/* Plan whole nodes until every edge of the chunk has its position. */
static inline int plan_edges(void *ctx, uint64_t at, uint64_t n, aether_error *err) {
    edge_stream *e = ctx;
    const ae_hop *h = e->h;
    const aether_topology *t = h->r->topology;
    const uint64_t *first = ae_hop_first(h), end = h->first_edge + e->begin + at + n, from = e->planned;
    uint64_t to = from;
    while (to < e->end && first[to] < end)
        to++;
    e->planned = to;
    int rc = ae_hop_plan(h, from, to, e->set, err);
    if (!rc)
        t->ops->prefetch(t, ae_hop_positions(h) + e->begin + at, n);
    return rc;
}

/* ---- 5. fetch ------------------------------------------------------------------------ */

static void add_trees(edge_stream *e, uint64_t edge, uint64_t n, uint64_t *ids) {
    const ae_hop *h = e->h;
    ae_nodes_add_trees(frontier_keys(h), ae_hop_first(h), h->s->node_bits, h->first_edge + edge, n, ids,
                       &e->node);
}

static inline int fetch_edges(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    edge_stream *e = ctx;
    const ae_hop *h = e->h;
    const aether_topology *t = h->r->topology;
    const uint64_t edge = e->begin + at;
    uint64_t *positions = ae_hop_positions(h) + edge, *keys = e->ids ? e->ids + edge : ids;
    int rc = h->with_edge_ids ? t->ops->fetch_edges(t, positions, n, keys, err)
                              : t->ops->fetch(t, positions, n, keys, err);
    if (rc)
        return rc;
    if (h->s->node_bits)
        add_trees(e, edge, n, keys);
    if (!e->ids)
        ae_nodes_prefetch(h->to, keys, n);
    return AETHER_OK;
}

/* ---- 6. relabel ---------------------------------------------------------------------- */

static int relabel_edges(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    const edge_stream *e = ctx;
    const ae_hop *h = e->h;
    ae_nodes_relabel(h->to, e->ids ? e->ids + at : ids, n, (uint32_t *)h->r->rows.data + h->first_edge + at);
    (void)err;
    return AETHER_OK;
}

/* ---- arrays in memory ---------------------------------------------------------------- */

static int run_in_chunks(const ae_hop *h, aether_error *err) {
    static const ae_stream stages = {plan_edges, fetch_edges, relabel_edges};
    edge_stream e = {.h = h, .end = h->count, .set = &h->s->sets[0]};
    return ae_stream_run(&stages, h->num_edges, &e, h->s->task, err);
}

/* ---- ids that are there: of several threads, or read together ---- */

static int take_fetched(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    edge_stream *e = ctx;
    uint64_t *keys = e->ids ? e->ids + at : ids;
    (void)err;
    for (uint64_t i = 0; e->narrow && i < n; i++)
        keys[i] = e->narrow[at + i];
    if (e->h->s->node_bits && !e->have_trees)
        add_trees(e, at, n, keys);
    ae_nodes_prefetch(e->h->to, keys, n);
    return AETHER_OK;
}

static int relabel_all(edge_stream *e, aether_error *err) {
    static const ae_stream stages = {NULL, take_fetched, relabel_edges};
    return ae_stream_run(&stages, e->h->num_edges, e, e->h->s->task, err);
}

int ae_hop_relabel_all(const ae_hop *h, const ae_fetch *job, aether_error *err) {
    const bool narrow = h->r->topology->id_bytes == 4;
    edge_stream e = {.h = h, .ids = narrow ? NULL : job->ids, .narrow = narrow ? job->ids : NULL};
    return relabel_all(&e, err);
}

/* ---- arrays in memory, several threads ---- */

typedef struct parallel_hop {
    const ae_hop *h;
    uint64_t *ids;
    ae_failure failure;
} parallel_hop;

static void plan_and_fetch_task(void *ctx, uint64_t task, uint32_t worker) {
    static const ae_stream stages = {plan_edges, fetch_edges, NULL};
    parallel_hop *p = ctx;
    const ae_hop *h = p->h;
    const uint64_t *first = ae_hop_first(h), from = task * TASK_NODES, rest = h->count - from;
    const uint64_t to = from + (rest < TASK_NODES ? rest : TASK_NODES);
    edge_stream e = {.h = h,
                     .begin = first[from] - h->first_edge,
                     .planned = from,
                     .end = to,
                     .set = &h->s->sets[worker],
                     .node = from,
                     .ids = p->ids};
    aether_error error = {0};
    int rc = ae_failure_seen(&p->failure)
                 ? AETHER_OK
                 : ae_stream_run(&stages, first[to] - first[from], &e, h->s->task, &error);
    if (rc)
        ae_failure_note(&p->failure, rc, &error);
}

static int run_parallel(const ae_hop *h, aether_error *err) {
    ae_scratch *ids = &h->s->neighbors;
    int rc = ae_scratch_reserve(ids, h->num_edges * sizeof(uint64_t), 0, err);
    if (rc)
        return rc;
    parallel_hop p = {.h = h, .ids = ids->data};
    ae_pool_run(plan_and_fetch_task, &p, (h->count + TASK_NODES - 1) / TASK_NODES, h->plan->num_threads);
    rc = ae_failure_take(&p.failure, err);
    return rc ? rc : relabel_all(&(edge_stream){.h = h, .ids = p.ids, .have_trees = true}, err);
}

/* ---- lists that are slow to reach ---- */

/* 32-bit ids are read into `rows`, which relabelling overwrites in place. */
int ae_hop_ask(const ae_hop *h, ae_fetch *job, aether_error *err) {
    ae_relation *r = h->r;
    const bool narrow = r->topology->id_bytes == 4;
    int rc = narrow ? AETHER_OK : ae_scratch_reserve(&r->ids, h->num_edges * sizeof(uint64_t), 0, err);
    void *ids = narrow ? (void *)((uint32_t *)r->rows.data + h->first_edge) : r->ids.data;
    *job = (ae_fetch){ae_hop_positions(h), h->num_edges, ids};
    return rc;
}

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

/* ---- steps 4 to 6 -------------------------------------------------------------------- */

int ae_hop_run(const ae_hop *h, aether_error *err) {
    int rc = ae_nodes_reserve(h->to, h->to->num_nodes + h->num_edges, h->s->task, err);
    if (rc)
        return rc;
    if (h->r->topology->ops->fetch_many)
        return run_fetched(h, err);
    if (h->plan->num_threads > 1 && h->num_edges >= PARALLEL_EDGES)
        rc = run_parallel(h, err);
    else
        rc = run_in_chunks(h, err);
    if (!rc && h->with_edge_ids)
        h->r->num_known += h->num_edges;
    return rc;
}

void ae_hop_end(const ae_hop *h) {
    h->r->num_edges = h->first_edge + h->num_edges;
    h->r->num_expanded = h->slot + h->count;
}
