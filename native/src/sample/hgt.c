#include "sample/hgt.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/options.h"
#include "sample/draw/reservoir.h"
#include "sample/draw/uniform.h"
#include "sample/induced.h"
#include "topology/stream.h"

typedef struct work {
    aether_sampler *s;
    const aether_hgt_options *o;
    uint32_t hop;
    aether_error *err;
} work;

/* ---- budgets ---- */

void ae_hgt_free(ae_hgt *h, uint32_t num_types) {
    if (!h)
        return;
    for (uint32_t t = 0; t < num_types; t++) {
        ae_idmap_free(&h->budgets[t].map);
        ae_scratch_free(&h->budgets[t].nodes);
        ae_scratch_free(&h->budgets[t].scores);
    }
    ae_scratch_free(&h->positions);
    free(h->budgets);
    free(h);
}

uint64_t ae_hgt_memory(const ae_hgt *h, uint32_t num_types) {
    if (!h)
        return 0;
    uint64_t total = sizeof *h + h->positions.bytes;
    for (uint32_t t = 0; t < num_types; t++) {
        const ae_budget *b = &h->budgets[t];
        total += sizeof *b + b->map.memory.bytes + b->nodes.bytes + b->scores.bytes;
    }
    return total;
}

/* Empty budgets, made by the first sample. */
static int start_budgets(aether_sampler *s, aether_error *err) {
    if (!s->hgt) {
        ae_hgt *h = calloc(1, sizeof *h);
        ae_budget *budgets = calloc((size_t)s->num_types + 1, sizeof *budgets);
        if (!h || !budgets) {
            free(h);
            free(budgets);
            return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for the budgets of a sampler");
        }
        h->budgets = budgets;
        s->hgt = h;
    }
    for (uint32_t t = 0; t < s->num_types; t++) {
        ae_budget *b = &s->hgt->budgets[t];
        ae_idmap_restart(&b->map, b->size);
        b->size = 0;
    }
    return AETHER_OK;
}

static int reserve_budget(ae_budget *b, uint64_t more, uint64_t num_ids, aether_task *task,
                          aether_error *err) {
    uint64_t bound = more < num_ids - b->size ? b->size + more : num_ids;
    int rc = ae_scratch_reserve(&b->nodes, (bound + 1) * sizeof(uint64_t), b->size * sizeof(uint64_t), err);
    if (!rc)
        rc = ae_scratch_reserve(&b->scores, (bound + 1) * sizeof(double), b->size * sizeof(double), err);
    return rc ? rc : ae_idmap_reserve(&b->map, bound, num_ids, b->nodes.data, b->size, task, err);
}

/* Each node is written behind the known ones before it is known to be new; the next node
 * overwrites it if it was not. */
static void add_share(ae_budget *b, uint64_t node, double share) {
    uint64_t *nodes = b->nodes.data;
    double *scores = b->scores.data;
    uint32_t slot = ae_idmap_add(&b->map, node, (uint32_t)b->size);
    nodes[b->size] = node;
    scores[b->size] = 0;
    scores[slot] += share;
    b->size += slot == b->size;
}

static int add_budget_seeds(aether_sampler *s, aether_error *err) {
    for (uint32_t t = 0; t < s->num_types; t++) {
        const ae_nodes *n = &s->nodes[t];
        ae_budget *b = &s->hgt->budgets[t];
        int rc = reserve_budget(b, n->num_seeds, n->num_ids, s->task, err);
        if (rc)
            return rc;
        for (uint64_t i = 0; i < n->num_seeds; i++)
            add_share(b, ae_nodes_keys(n)[i], -INFINITY);
    }
    return AETHER_OK;
}

/* ---- spread ---- */

/* The lists that one edge type gives to the nodes of the last hop. */
typedef struct spread {
    const aether_topology *t;
    const ae_nodes *from;
    ae_list *lists; /* lists of these nodes; a degree above max_neighbors becomes max_neighbors */
    uint64_t count; /* lists */
    uint64_t *positions;
    uint64_t total;       /* positions */
    uint64_t *ids;        /* what stands there, where it was read at once; else NULL */
    uint64_t list, taken; /* progress of add_shares: the current list, and how many of its entries are done */
    ae_budget *budget;    /* budget of the entries' node type */
} spread;

static uint64_t bound_degree(const work *w, uint64_t degree) {
    return w->o->max_neighbors && degree > w->o->max_neighbors ? w->o->max_neighbors : degree;
}

static int locate_spread(const work *w, spread *p) {
    int rc = ae_scratch_reserve(&w->s->lists, p->count * sizeof(ae_list), 0, w->err);
    if (rc)
        return rc;
    p->lists = w->s->lists.data;
    rc = p->t->ops->locate(p->t, ae_nodes_keys(p->from) + p->from->begin, p->count, p->lists, w->err);
    for (uint64_t i = 0; !rc && i < p->count; i++)
        if (__builtin_add_overflow(p->total, bound_degree(w, p->lists[i].degree), &p->total) ||
            p->total > INT64_MAX / 8)
            return ae_error_set(w->err, AETHER_E_LIMIT,
                                "the lists of the sample hold more than 2^60 entries");
    return rc;
}

static int plan(const work *w, spread *p, uint32_t relation) {
    const uint64_t base = ae_rng_base(w->o->key, w->hop | AE_HGT_LISTS, relation);
    const uint64_t *keys = ae_nodes_keys(p->from) + p->from->begin;
    ae_scratch *positions = &w->s->hgt->positions;
    int rc = ae_scratch_reserve(positions, p->total * sizeof(uint64_t), 0, w->err);
    p->positions = positions->data;
    for (uint64_t i = 0, at = 0, look = 0; !rc && i < p->count; i++) {
        if (at >= look) {
            rc = ae_sample_check(w->s, w->err);
            if (rc)
                break;
            look = at + AE_TASK_ITEMS;
        }
        uint64_t count = bound_degree(w, p->lists[i].degree);
        if (count < p->lists[i].degree)
            rc = ae_uniform_draw(p->lists[i], count, false, ae_rng_stream(base, keys[i], AE_RNG_NO_SEED),
                                 &w->s->sets[0], p->positions + at, w->err);
        else if (count)
            ae_uniform_all(p->lists[i], p->positions + at, p->total - at);
        p->lists[i].degree = count;
        at += count;
    }
    return rc;
}

/* ---- ... and their entries, a chunk after the other (topology/stream.h) ---- */

static int ask_entries(void *ctx, uint64_t at, uint64_t n, aether_error *err) {
    const spread *p = ctx;
    (void)err;
    p->t->ops->prefetch(p->t, p->positions + at, n);
    return AETHER_OK;
}

static int fetch_entries(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    const spread *p = ctx;
    int rc = AETHER_OK;
    if (p->ids)
        memcpy(ids, p->ids + at, n * sizeof *ids);
    else
        rc = p->t->ops->fetch(p->t, p->positions + at, n, ids, err);
    for (uint64_t i = 0; !rc && i < n; i++)
        ae_idmap_prefetch(&p->budget->map, ids[i]);
    return rc;
}

static int add_shares(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err) {
    spread *p = ctx;
    (void)at, (void)err;
    for (uint64_t i = 0; i < n;) {
        uint64_t degree = p->lists[p->list].degree, end = i + degree - p->taken;
        const double share = 1.0 / (double)degree;
        uint64_t stop = end < n ? end : n;
        p->taken += stop - i;
        for (; i < stop; i++)
            add_share(p->budget, ids[i], share);
        if (p->taken == degree) {
            p->list++;
            p->taken = 0;
        }
    }
    return AETHER_OK;
}

/* Scores are needed only for types of which nodes are still to be drawn. */
static bool is_drawn(const work *w, uint32_t type) {
    const int64_t *counts = w->o->num_samples + (uint64_t)type * w->o->num_hops;
    for (uint32_t h = w->hop; h < w->o->num_hops; h++)
        if (counts[h])
            return true;
    return false;
}

static int spread_relation(const work *w, uint32_t relation) {
    static const ae_stream stages = {ask_entries, fetch_entries, add_shares};
    const ae_relation *r = &w->s->relations[relation];
    const ae_nodes *from = &w->s->nodes[r->from];
    spread p = {.t = r->topology,
                .from = from,
                .count = from->end - from->begin,
                .budget = &w->s->hgt->budgets[r->to]};
    if (!p.count || !is_drawn(w, r->to))
        return AETHER_OK;
    int rc = locate_spread(w, &p);
    if (!rc)
        rc = plan(w, &p, relation);
    if (!rc)
        rc = reserve_budget(p.budget, p.total, w->s->nodes[r->to].num_ids, w->s->task, w->err);
    if (rc)
        return rc;
    if (ae_list_reader_pays(p.t)) { /* ids that are slow to reach are read at once */
        rc = ae_scratch_reserve(&w->s->neighbors, p.total * sizeof(uint64_t), 0, w->err);
        p.ids = w->s->neighbors.data;
        if (!rc)
            rc = ae_list_reader_fetch(&w->s->reader, p.t, p.positions, p.total, p.ids, w->s->task, w->err);
    }
    return rc ? rc : ae_stream_run(&stages, p.total, &p, w->s->task, w->err);
}

/* ---- draw ---- */

/* Nodes enter the sample in the order of their draws. */
static int move_drawn(const work *w, ae_nodes *n, ae_budget *b, const ae_reservoir *drawn) {
    int rc = ae_nodes_reserve(n, n->num_nodes + drawn->count, w->s->task, w->err);
    if (rc)
        return rc;
    const uint64_t *nodes = b->nodes.data;
    double *scores = b->scores.data;
    for (uint64_t i = 0; i < drawn->count; i++) {
        uint64_t slot = drawn->heap[i].item;
        ae_nodes_keys(n)[n->num_nodes] = nodes[slot];
        ae_idmap_add(&n->map, nodes[slot], (uint32_t)n->num_nodes++);
        scores[slot] = -INFINITY;
    }
    return AETHER_OK;
}

static int draw_type(const work *w, uint32_t type) {
    ae_budget *b = &w->s->hgt->budgets[type];
    uint64_t count = (uint64_t)w->o->num_samples[(uint64_t)type * w->o->num_hops + w->hop];
    count = count < b->size ? count : b->size;
    if (!count)
        return AETHER_OK;
    int rc = ae_scratch_reserve(&w->s->sets[0], count * sizeof(ae_candidate), 0, w->err);
    if (rc)
        return rc;
    ae_reservoir drawn = {w->s->sets[0].data, 0, count};
    const uint64_t base = ae_rng_base(w->o->key, w->hop, type), *nodes = b->nodes.data;
    const double *scores = b->scores.data;
    for (uint64_t slot = 0; slot < b->size; slot++) {
        if (slot % AE_TASK_ITEMS == 0 && (rc = ae_sample_check(w->s, w->err)) != AETHER_OK)
            return rc;
        if (scores[slot] > 0) {
            uint64_t stream = ae_rng_stream(base, nodes[slot], AE_RNG_NO_SEED);
            ae_reservoir_offer(&drawn, scores[slot] * scores[slot], ae_rng_draw(stream, 0), slot);
        }
    }
    ae_reservoir_sort_by_key(&drawn);
    return move_drawn(w, &w->s->nodes[type], b, &drawn);
}

/* ---- the call ---- */

static int check_hgt_options(const aether_sampler *s, const aether_hgt_options *o, aether_error *err) {
    for (uint64_t i = 0; i < (uint64_t)o->num_hops * s->num_types; i++)
        if (o->num_samples[i] < 0)
            return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, o->num_samples[i],
                               "num_samples[%" PRIu64 "] = %" PRId64 " is not at least 0", i,
                               o->num_samples[i]);
    return AETHER_OK;
}

static int run_hgt_hop(const work *w, uint64_t *hop_nodes) {
    aether_sampler *s = w->s;
    int rc = AETHER_OK;
    for (uint32_t r = 0; !rc && r < s->num_relations; r++)
        rc = spread_relation(w, r);
    for (uint32_t t = 0; !rc && t < s->num_types; t++)
        rc = draw_type(w, t);
    for (uint32_t t = 0; !rc && t < s->num_types; t++) {
        ae_nodes *n = &s->nodes[t];
        n->begin = n->end;
        n->end = n->num_nodes;
        hop_nodes[t * ((uint64_t)w->o->num_hops + 1) + w->hop + 1] = n->end - n->begin;
    }
    return rc;
}

static int run_hgt(aether_sampler *s, const aether_seeds *seeds, const aether_hgt_options *o,
                   uint64_t *hop_nodes, aether_error *err) {
    int rc = check_hgt_options(s, o, err);
    s->task = o->task;
    if (!rc)
        rc = ae_sample_start(s, seeds, false, err);
    if (!rc && s->has_bounds)
        rc = ae_error_set(err, AETHER_E_INVALID, "HGT does not sample in time: give seeds no bounds");
    if (!rc)
        rc = start_budgets(s, err);
    if (!rc)
        rc = add_budget_seeds(s, err);
    for (uint32_t t = 0; !rc && t < s->num_types; t++)
        hop_nodes[t * ((uint64_t)o->num_hops + 1)] = s->nodes[t].num_nodes;
    work w = {.s = s, .o = o, .err = err};
    for (; !rc && w.hop < o->num_hops; w.hop++)
        rc = run_hgt_hop(&w, hop_nodes);
    return rc ? rc : ae_sample_induced(s, err);
}

int aether_sample_hgt(aether_sampler *s, const aether_seeds *seeds, const aether_hgt_options *options,
                      const aether_sample_counts *counts, aether_error *err) {
    int rc = ae_options_check(counts, sizeof *counts, "aether_sample_counts", err);
    if (!rc)
        rc = run_hgt(s, seeds, options, counts->hop_nodes, err);
    if (rc) { /* an empty result, not half of one */
        ae_sample_clear(s);
        return rc;
    }
    for (uint32_t t = 0; t < s->num_types; t++)
        counts->num_nodes[t] = s->nodes[t].num_nodes;
    for (uint32_t i = 0; i < s->num_relations; i++)
        counts->num_edges[i] = s->relations[i].num_edges;
    return AETHER_OK;
}
