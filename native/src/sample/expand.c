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
#include "sample/expand.h"

#include "core/error.h"
#include "core/failure.h"
#include "sample/hop.h"

#define CHUNK          128   /* edges: two chunks of their lines and of their map slots fit the L1 cache */
#define BLOCK_NODES    1024  /* nodes per parallel task */
#define PARALLEL_EDGES 16384 /* below this a hop is not worth waking threads */

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
