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
#include <string.h>

#include "core/error.h"
#include "sample/failure.h"
#include "sample/frontier.h"
#include "sample/plan.h"

#define CHUNK          256   /* edges: two chunks of lines fit the L1 cache */
#define BLOCK_NODES    1024  /* nodes per parallel task */
#define PARALLEL_EDGES 16384 /* below this a hop is not worth waking threads */

typedef struct hop {
    aether_sampler *s;
    ae_relation *r;
    ae_nodes *from, *to;
    const ae_sample_plan *plan;
    uint64_t rng_base;
    int64_t fanout;
    uint64_t begin, count;          /* frontier */
    uint64_t first_edge, num_edges; /* this hop's edges */
    ae_frontier frontier;
    uint64_t *positions; /* of this hop */
    uint64_t *neighbors; /* of this hop, or NULL */
    ae_failure failure;  /* of parallel tasks */
    aether_error *err;
} hop;

/* ---- plan ---- */

/* Fill first[] for the frontier and set num_edges. */
static int count_edges(hop *h) {
    int rc = ae_scratch_reserve(&h->r->first, (h->begin + h->count + 1) * sizeof(uint64_t),
                                (h->begin + 1) * sizeof(uint64_t), h->err);
    if (rc)
        return rc;
    uint64_t *first = ae_relation_first(h->r) + h->begin;
    uint64_t total = h->first_edge;
    for (uint64_t i = 0; i < h->count; i++) {
        first[i] = total;
        uint64_t count = h->frontier.lists
                             ? ae_plan_count(h->fanout, ae_frontier_size(&h->frontier, i), h->plan->replace)
                             : 0;
        if (__builtin_add_overflow(total, count, &total) || total > INT64_MAX / 8)
            return ae_error_set(h->err, AETHER_E_LIMIT, "the sample would hold more than 2^60 edges");
    }
    first[h->count] = total;
    h->num_edges = total - h->first_edge;
    return AETHER_OK;
}

static int reserve_edges(hop *h) {
    ae_relation *r = h->r;
    uint64_t total = h->first_edge + h->num_edges;
    int rc =
        ae_scratch_reserve(&r->positions, total * sizeof(uint64_t), h->first_edge * sizeof(uint64_t), h->err);
    if (!rc)
        rc = ae_scratch_reserve(&r->rows, total * sizeof(uint32_t), h->first_edge * sizeof(uint32_t), h->err);
    if (rc)
        return rc;
    h->positions = (uint64_t *)r->positions.data + h->first_edge;
    return ae_nodes_reserve(h->s, h->to, h->to->num_nodes + h->num_edges, h->err);
}

/* The positions of frontier node `i`, `count` of them. */
static int plan_node(const hop *h, uint64_t i, uint64_t count, uint64_t *out, uint64_t room, ae_scratch *set,
                     aether_error *err) {
    const aether_sampler *s = h->s;
    const ae_frontier *f = &h->frontier;
    const uint64_t key = ae_nodes_keys(h->from)[h->begin + i];
    const ae_holes holes = f->holes ? f->holes[i] : (ae_holes){0};
    const uint64_t stream = ae_rng_stream(h->rng_base, ae_key_node(s, key), ae_key_tree(s, key));
    ae_list list = f->lists[i];
    if (f->drawable) {
        const ae_weighted_list weighted = ae_frontier_weighted(f, h->r, i);
        return ae_weighted_draw(&weighted, f->drawable[i], count, h->plan->replace && h->fanout >= 0, stream,
                                set, out, room, err);
    }
    int rc = AETHER_OK;
    list.degree -= holes.count;
    if (h->fanout < 0 || (!h->plan->replace && count == list.degree))
        ae_plan_all(list, out, room);
    else
        rc = ae_plan_positions(list, count, h->plan->replace, stream, set, out, err);
    ae_holes_skip(holes, out, rc ? 0 : count);
    return rc;
}

/* Positions of frontier nodes [from, to). */
static int plan_nodes(hop *h, uint64_t from, uint64_t to, ae_scratch *set, aether_error *err) {
    const uint64_t *first = ae_relation_first(h->r) + h->begin;
    const uint64_t room = first[to] - h->first_edge;
    for (uint64_t i = from; i < to; i++) {
        uint64_t count = first[i + 1] - first[i], at = first[i] - h->first_edge;
        int rc = count ? plan_node(h, i, count, h->positions + at, room - at, set, err) : AETHER_OK;
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

/* ---- relabel ---- */

/* In a disjoint sample a neighbour belongs to the tree of its destination. */
static void add_trees(const hop *h, uint64_t edge, uint64_t n, uint64_t *ids, uint64_t *node) {
    const aether_sampler *s = h->s;
    const uint64_t *keys = ae_nodes_keys(h->from) + h->begin;
    const uint64_t *first = ae_relation_first(h->r) + h->begin;
    for (uint64_t i = 0; i < n; i++) {
        while (first[*node + 1] <= h->first_edge + edge + i)
            ++*node;
        ids[i] |= ae_key_tree(s, keys[*node]) << s->node_bits;
    }
}

static void prefetch_slots(const ae_idmap *m, const uint64_t *ids, uint64_t n) {
    const char *slots = m->memory.data;
    if (m->kind == AE_IDMAP_DIRECT) {
        for (uint64_t i = 0; i < n; i++)
            __builtin_prefetch(slots + ids[i] * sizeof(uint32_t), 1);
        return;
    }
    uint64_t size = m->kind == AE_IDMAP_NARROW ? sizeof(uint64_t) : sizeof(ae_wide_slot);
    for (uint64_t i = 0; i < n; i++)
        __builtin_prefetch(slots + ae_idmap_home(ids[i], m->capacity) * size, 1);
}

/* The key is written before it is known to be new; a known one is overwritten by the next. */
#define RELABEL_LOOP(add)                                                                                    \
    do {                                                                                                     \
        for (uint64_t i = 0; i < n; i++) {                                                                   \
            keys[fresh] = ids[i];                                                                            \
            rows[i] = add;                                                                                   \
        }                                                                                                    \
    } while (0)

static void relabel(ae_nodes *nodes, const uint64_t *restrict ids, uint64_t n, uint32_t *restrict rows) {
    const ae_idmap m = nodes->map;
    uint64_t *restrict keys = ae_nodes_keys(nodes);
    uint32_t fresh = (uint32_t)nodes->num_nodes;
    if (m.kind == AE_IDMAP_DIRECT)
        RELABEL_LOOP(ae_idmap_add_direct(m.memory.data, m.base, ids[i], &fresh));
    else if (m.kind == AE_IDMAP_NARROW)
        RELABEL_LOOP(ae_idmap_add_narrow(m.memory.data, m.capacity, m.base, ids[i], &fresh));
    else
        RELABEL_LOOP(ae_idmap_add_wide(m.memory.data, m.capacity, m.base, ids[i], &fresh));
    nodes->num_nodes = fresh;
}

/* ---- one thread: three stages over chunks ---- */

typedef struct window {
    uint64_t at, n; /* edges [at, at + n) of the hop */
} window;

static window chunk_at(const hop *h, uint64_t c) {
    uint64_t at = c * CHUNK;
    if (at >= h->num_edges)
        return (window){h->num_edges, 0};
    return (window){at, h->num_edges - at < CHUNK ? h->num_edges - at : CHUNK};
}

/* Whole nodes are planned, until every edge before `end` has its position. */
static int plan_until(hop *h, uint64_t end, uint64_t *planned) {
    const uint64_t *first = ae_relation_first(h->r) + h->begin;
    uint64_t from = *planned, to = from;
    while (to < h->count && first[to] < h->first_edge + end)
        to++;
    *planned = to;
    return plan_nodes(h, from, to, &h->s->sets[0], h->err);
}

/* `node` is the frontier node that add_trees has come to. */
static int fetch_chunk(hop *h, window w, uint64_t *ids, uint64_t *node) {
    const aether_topology *t = h->r->topology;
    int rc = t->ops->fetch(t, h->positions + w.at, w.n, ids, h->err);
    if (rc)
        return rc;
    if (h->s->node_bits)
        add_trees(h, w.at, w.n, ids, node);
    prefetch_slots(&h->to->map, ids, w.n);
    return AETHER_OK;
}

/* Two buffers are enough: chunk c - 1 is fetched into one while chunk c - 2
 * waits in the other, which chunk c takes over one step later. */
static int run_chunks(hop *h) {
    const aether_topology *t = h->r->topology;
    uint32_t *rows = (uint32_t *)h->r->rows.data + h->first_edge;
    uint64_t ids[2][CHUNK], planned = 0, node = 0;
    uint64_t chunks = (h->num_edges + CHUNK - 1) / CHUNK;
    for (uint64_t c = 0; c < chunks + 2; c++) {
        window ahead = chunk_at(h, c);
        int rc = plan_until(h, ahead.at + ahead.n, &planned);
        if (rc)
            return rc;
        t->ops->prefetch(t, h->positions + ahead.at, ahead.n);
        if (c >= 1 && (rc = fetch_chunk(h, chunk_at(h, c - 1), ids[(c - 1) % 2], &node)))
            return rc;
        if (c >= 2) {
            window last = chunk_at(h, c - 2);
            relabel(h->to, ids[(c - 2) % 2], last.n, rows + last.at);
        }
    }
    return AETHER_OK;
}

/* ---- several threads: plan and fetch in parallel, relabel in order ---- */

static int fetch_range(const hop *h, uint64_t from, uint64_t to, aether_error *err) {
    const aether_topology *t = h->r->topology;
    uint64_t asked = from;
    for (uint64_t at = from; at < to; at += CHUNK) {
        uint64_t n = to - at < CHUNK ? to - at : CHUNK;
        uint64_t ahead = to - asked < 2 * CHUNK ? to - asked : (at == from ? 2 * CHUNK : CHUNK);
        t->ops->prefetch(t, h->positions + asked, ahead);
        asked += ahead;
        int rc = t->ops->fetch(t, h->positions + at, n, h->neighbors + at, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static void plan_and_fetch_block(void *ctx, uint64_t block, uint32_t worker) {
    hop *h = ctx;
    uint64_t from = block * BLOCK_NODES;
    uint64_t to = from + BLOCK_NODES < h->count ? from + BLOCK_NODES : h->count;
    const uint64_t *first = ae_relation_first(h->r) + h->begin;
    aether_error err = {0};
    int rc = plan_nodes(h, from, to, &h->s->sets[worker], &err);
    uint64_t node = from;
    if (!rc)
        rc = fetch_range(h, first[from] - h->first_edge, first[to] - h->first_edge, &err);
    if (!rc && h->s->node_bits)
        add_trees(h, first[from] - h->first_edge, first[to] - first[from],
                  h->neighbors + (first[from] - h->first_edge), &node);
    if (rc)
        ae_failure_note(&h->failure, rc, &err);
}

static int run_parallel(hop *h) {
    aether_sampler *s = h->s;
    int rc = ae_scratch_reserve(&s->neighbors, h->num_edges * sizeof(uint64_t), 0, h->err);
    if (rc)
        return rc;
    h->neighbors = s->neighbors.data;
    ae_pool_run(plan_and_fetch_block, h, (h->count + BLOCK_NODES - 1) / BLOCK_NODES, h->plan->num_threads);
    rc = ae_failure_take(&h->failure, h->err);
    if (rc)
        return rc;
    uint32_t *rows = (uint32_t *)h->r->rows.data + h->first_edge;
    prefetch_slots(&h->to->map, h->neighbors, chunk_at(h, 0).n);
    for (uint64_t c = 0; c * CHUNK < h->num_edges; c++) {
        window now = chunk_at(h, c), next = chunk_at(h, c + 1);
        prefetch_slots(&h->to->map, h->neighbors + next.at, next.n);
        relabel(h->to, h->neighbors + now.at, now.n, rows + now.at);
    }
    return AETHER_OK;
}

int ae_sample_hop(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop_index, uint32_t relation,
                  aether_error *err) {
    ae_relation *r = &s->relations[relation];
    const ae_nodes *from = &s->nodes[r->from];
    hop h = {.s = s,
             .r = r,
             .from = &s->nodes[r->from],
             .to = &s->nodes[r->to],
             .plan = plan,
             .rng_base = ae_rng_base(plan->key, hop_index, relation),
             .fanout = plan->fanouts[relation * plan->num_hops + hop_index],
             .begin = from->begin,
             .count = from->end - from->begin,
             .first_edge = r->num_edges,
             .err = err};
    int rc = ae_frontier_prepare(s, r, plan, h.fanout, h.begin, h.count, &h.frontier, err);
    if (!rc)
        rc = count_edges(&h);
    if (!rc && h.frontier.lists)
        rc = reserve_edges(&h);
    if (!rc && h.frontier.lists)
        rc = plan->num_threads > 1 && h.num_edges >= PARALLEL_EDGES ? run_parallel(&h) : run_chunks(&h);
    r->num_edges += h.num_edges;
    r->num_expanded = from->end;
    return rc;
}
