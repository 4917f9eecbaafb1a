#include "sample/hop.h"

#include <string.h>

#include "core/error.h"
#include "sample/draw/uniform.h"

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

#define CHUNK 256

static uint64_t read_chunk(const ae_hop *h, const ae_fetch *job, uint64_t at, uint64_t *ids) {
    const uint64_t n = job->count - at < CHUNK ? job->count - at : CHUNK;
    if (h->r->topology->id_bytes == 4)
        for (uint64_t i = 0; i < n; i++)
            ids[i] = ((const uint32_t *)job->ids)[at + i];
    else
        memcpy(ids, (const uint64_t *)job->ids + at, n * sizeof *ids);
    return n;
}

int ae_hop_relabel_all(const ae_hop *h, const ae_fetch *job, aether_error *err) {
    uint64_t ids[2][CHUNK], count[2] = {0, 0}, node = 0;
    uint32_t *rows = ae_hop_rows(h);
    for (uint64_t at = 0, c = 0; at < job->count + CHUNK; at += CHUNK, c++) {
        uint64_t *next = ids[c % 2], *now = ids[(c + 1) % 2];
        int rc = ae_sample_check(h->s, err);
        if (rc)
            return rc;
        count[c % 2] = at < job->count ? read_chunk(h, job, at, next) : 0;
        if (h->s->node_bits && count[c % 2])
            ae_hop_add_trees(h, at, count[c % 2], next, &node);
        ae_nodes_prefetch(h->to, next, count[c % 2]);
        if (c)
            ae_nodes_relabel(h->to, now, count[(c + 1) % 2], rows + at - CHUNK);
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
    uint64_t trees[CHUNK + 16], v = *node;
    for (uint64_t at = 0; at < n; at += CHUNK) {
        const uint64_t m = n - at < CHUNK ? n - at : CHUNK, e = h->first_edge + edge + at;
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
