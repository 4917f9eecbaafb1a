#include "sample/group.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aether/live.h"
#include "core/error.h"
#include "core/failure.h"
#include "core/options.h"
#include "core/task.h"
#include "sample/neighbor.h"
#include "sample/rounds.h"
#include "topology/paged/values.h"
#include "topology/stream.h"

/* ---- making one ---- */

static bool make_members(aether_group *g) {
    g->members = calloc(g->capacity, sizeof *g->members);
    g->jobs = calloc(g->capacity, sizeof *g->jobs);
    g->caches = calloc(g->capacity, sizeof *g->caches);
    for (uint32_t i = 0; g->members && i < g->capacity; i++) {
        ae_member *m = &g->members[i];
        m->hops = calloc((size_t)g->num_relations + 1, sizeof *m->hops);
        m->jobs = calloc((size_t)g->num_relations + 1, sizeof *m->jobs);
        if (!m->hops || !m->jobs)
            return false;
    }
    return g->members && g->jobs && g->caches;
}

static bool make_workers(aether_group *g) {
    g->workers = calloc(g->num_workers, sizeof *g->workers);
    for (uint32_t i = 0; g->workers && i < g->num_workers; i++) {
        g->workers[i].maps = calloc((size_t)g->num_types + 1, sizeof *g->workers[i].maps);
        g->workers[i].held = calloc((size_t)g->num_types + 1, sizeof *g->workers[i].held);
        if (!g->workers[i].maps || !g->workers[i].held)
            return false;
    }
    return g->workers;
}

int aether_group_create(const aether_schema *schema, const aether_group_options *options, aether_group **out,
                        aether_error *err) {
    *out = NULL;
    int rc = ae_options_check(schema, sizeof *schema, "aether_schema", err);
    if (rc)
        return rc;
    if (options->capacity == 0 || options->capacity >= AE_SPAN_JOBS)
        return ae_error_at(err, AETHER_E_INVALID, 0, options->capacity,
                           "a group of %u samples is not in 1..%u", options->capacity, AE_SPAN_JOBS - 1);
    aether_group *g = calloc(1, sizeof *g);
    if (!g)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a group of samples");
    g->num_types = schema->num_types;
    g->num_relations = schema->num_relations;
    g->capacity = g->taken = options->capacity;
    g->num_workers = ae_pool_threads(options->num_threads);
    g->num_workers = g->num_workers < g->capacity ? g->num_workers : g->capacity;
    g->staging.window_bytes = options->window_bytes;
    g->most_pages = options->value_bytes ? options->value_bytes / AE_VALUE_PAGE_COST + 1
                                         : ae_value_pages_most(&g->staging);
    rc = make_members(g) && make_workers(g)
             ? AETHER_OK
             : ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a group of samples");
    for (uint32_t i = 0; !rc && i < g->capacity; i++)
        rc = aether_sampler_create_typed(schema, &g->members[i].sampler, err);
    if (rc)
        aether_group_destroy(g);
    else
        *out = g;
    return rc;
}

void aether_group_destroy(aether_group *g) {
    if (!g)
        return;
    for (uint32_t i = 0; g->members && i < g->capacity; i++) {
        aether_sampler_destroy(g->members[i].sampler);
        free(g->members[i].hops);
        free(g->members[i].jobs);
        free(g->members[i].counts);
    }
    for (uint32_t i = 0; g->workers && i < g->num_workers; i++) {
        for (uint32_t t = 0; g->workers[i].maps && t < g->num_types; t++)
            ae_idmap_free(&g->workers[i].maps[t]);
        free(g->workers[i].maps);
        free(g->workers[i].held);
        ae_scratch_free(&g->workers[i].set);
    }
    ae_staging_free(&g->staging);
    free(g->members);
    free(g->workers);
    free(g->jobs);
    free((void *)g->caches);
    free(g);
}

uint64_t aether_group_memory(const aether_group *g) {
    uint64_t total = sizeof *g + ae_staging_memory(&g->staging);
    for (uint32_t i = 0; i < g->capacity; i++)
        total += aether_sampler_memory(g->members[i].sampler);
    for (uint32_t i = 0; i < g->num_workers; i++)
        for (uint32_t t = 0; t < g->num_types; t++)
            total += g->workers[i].maps[t].memory.bytes;
    return total;
}

/* ---- lending maps ---- */

static void return_map(ae_worker *w, aether_sampler *s, uint32_t t) {
    ae_nodes *n = &s->nodes[t];
    const ae_idmap lent = n->map;
    n->map = w->maps[t];
    w->maps[t] = lent;
    w->held[t] = n->num_nodes;
}

/* Swap the worker's map of a node type with the member's own, enter the nodes that the member has
 * found so far, and reserve room for as many new nodes as `more` edges may find. */
static int lend_map(ae_worker *w, aether_sampler *s, uint32_t t, uint64_t more, aether_error *err) {
    ae_nodes *n = &s->nodes[t];
    const ae_idmap own = n->map;
    const uint64_t known = n->num_nodes;
    int rc = ae_nodes_reserve_keys(n, known + more, err);
    if (rc)
        return rc;
    n->map = w->maps[t];
    w->maps[t] = own;
    ae_idmap_restart(&n->map, w->held[t]);
    n->num_nodes = 0; /* the map holds nothing that would have to move when it grows */
    rc = ae_nodes_reserve_map(n, known + more, s->task, err);
    n->num_nodes = known;
    const uint64_t *keys = ae_nodes_keys(n);
    for (uint64_t i = 0; !rc && i < known; i++)
        ae_idmap_add(&n->map, keys[i], (uint32_t)i);
    if (rc)
        return_map(w, s, t);
    return rc;
}

/* ---- layer by layer ---- */

typedef struct layer {
    aether_group *g;
    uint32_t hop, relation;
    int stage;          /* what the members do in rounds: AE_HOP_LISTS or AE_HOP_DRAWS */
    uint32_t upto;      /* the stretch of the file that they have come to, see sample/draw/retries.h */
    atomic_bool wanted; /* a member has not done it for all its nodes */
    ae_failure failure;
} layer;

static void begin_hop(void *ctx, uint64_t i, uint32_t worker) {
    layer *l = ctx;
    ae_member *m = &l->g->members[i];
    aether_error error = {0};
    (void)worker;
    if (ae_failure_seen(&l->failure))
        return;
    m->jobs[l->relation] = (ae_fetch){0};
    int rc = ae_hop_begin(m->sampler, &m->plan, l->hop, l->relation, &m->hops[l->relation], &error);
    if (rc)
        ae_failure_note(&l->failure, rc, &error);
}

/* ---- values in a file: all members go over the same stretch of it ---- */

static ae_value_cache *cache_of(const aether_group *g, uint32_t i, uint32_t relation, uint32_t k) {
    return &g->members[i].sampler->relations[relation].caches[k];
}

static void try_member(void *ctx, uint64_t i, uint32_t worker) {
    layer *l = ctx;
    ae_hop *h = &l->g->members[i].hops[l->relation];
    aether_error error = {0};
    if (!h->lists || (int)h->stage != l->stage || ae_failure_seen(&l->failure))
        return;
    h->r->retries.upto = l->upto;
    /* Twice its share: lists are not spread evenly, and the sum over all members counts. */
    int rc = ae_rounds_next(h, 2 * l->g->most_pages / l->g->size, &l->g->workers[worker].set, &error);
    if (rc == AE_WANTED)
        atomic_store_explicit(&l->wanted, true, memory_order_relaxed);
    else if (rc)
        ae_failure_note(&l->failure, rc, &error);
}

/* Estimate the value pages that finding the lists of a hop that has begun asks for. */
static uint64_t count_value_pages(const ae_hop *h) {
    ae_value_cache *p[AE_RELATION_CACHES];
    const uint32_t n = ae_relation_caches(h->r, p);
    uint64_t total = 0;
    for (uint32_t k = 0; k < n && h->lists; k++)
        for (uint64_t i = 0; i < h->count; i++) {
            const uint64_t degree = h->lists[i].degree;
            total += ((degree < AE_TIMES_REST ? degree : AE_TIMES_REST) >> p[k]->values->shift) + 1;
        }
    return total;
}

/* Return how many stretches to take at once, so that their value pages need about the memory that all
 * members may use. */
static uint32_t choose_step(const aether_group *g, uint32_t relation) {
    uint64_t pages = 1;
    for (uint32_t i = 0; i < g->size; i++)
        pages += count_value_pages(&g->members[i].hops[relation]);
    const double share = (double)g->most_pages / (double)pages;
    return share < 1 ? 1 + (uint32_t)(share * (AE_STRETCHES - 1)) : AE_STRETCHES;
}

/* Read the value pages of all members together, one vector of values after the other. *any: there were
 * some to read. */
static int read_wanted(aether_group *g, uint32_t relation, bool *any, aether_task *task, aether_error *err) {
    int rc = AETHER_OK;
    *any = false;
    for (uint32_t k = 0; !rc && k < AE_RELATION_CACHES; k++) {
        for (uint32_t i = 0; i < g->size; i++) {
            g->caches[i] = cache_of(g, i, relation, k);
            *any |= ae_value_cache_wanted(g->caches[i]) != 0;
        }
        if (g->caches[0]->values)
            rc = ae_value_cache_read(g->caches, g->size, g->jobs, &g->staging, task, err);
    }
    return rc;
}

static void clear_caches(const aether_group *g, uint32_t relation) {
    for (uint32_t i = 0; i < g->size; i++)
        for (uint32_t k = 0; k < AE_RELATION_CACHES; k++)
            ae_value_cache_clear(cache_of(g, i, relation, k));
}

/* Do `stage` for all nodes of all members. */
static int run_group_rounds(layer *l, int stage, uint32_t step, aether_task *task, aether_error *err) {
    aether_group *g = l->g;
    l->stage = stage;
    l->upto = step;
    for (;;) {
        bool any;
        atomic_store_explicit(&l->wanted, false, memory_order_relaxed);
        ae_pool_run(try_member, l, g->size, g->num_workers);
        int rc = ae_failure_take(&l->failure, err);
        if (rc || !atomic_load_explicit(&l->wanted, memory_order_relaxed))
            return rc;
        rc = ae_task_check(task, "sampling", err);
        if (!rc)
            rc = read_wanted(g, l->relation, &any, task, err);
        if (rc)
            return rc;
        if (!any) {
            clear_caches(g, l->relation);
            l->upto = AE_STRETCHES - l->upto < step ? AE_STRETCHES : l->upto + step;
        }
    }
}

/* ---- any values ---- */

static void plan_member(void *ctx, uint64_t i, uint32_t worker) {
    layer *l = ctx;
    ae_member *m = &l->g->members[i];
    const ae_hop *h = &m->hops[l->relation];
    aether_error error = {0};
    int rc = AETHER_OK;
    if (ae_failure_seen(&l->failure))
        return;
    if (h->lists)
        rc = ae_hop_plan(h, 0, h->count, &l->g->workers[worker].set, &error);
    if (!rc && h->lists)
        rc = ae_hop_ask(h, &m->jobs[l->relation], &error);
    ae_hop_end(h);
    if (rc)
        ae_failure_note(&l->failure, rc, &error);
}

static int plan_members(layer *l, aether_task *task, aether_error *err) {
    aether_group *g = l->g;
    ae_pool_run(begin_hop, l, g->size, g->num_workers);
    int rc = ae_failure_take(&l->failure, err);
    if (!rc && g->members[0].sampler->relations[l->relation].in_rounds) {
        const uint32_t step = choose_step(g, l->relation);
        rc = run_group_rounds(l, AE_HOP_LISTS, step, task, err);
        rc = rc ? rc : run_group_rounds(l, AE_HOP_DRAWS, step, task, err);
    }
    if (rc)
        return rc;
    ae_pool_run(plan_member, l, g->size, g->num_workers);
    return ae_failure_take(&l->failure, err);
}

/* What the draws of a layer looked at is not needed by the next one, and its memory makes room for
 * more samples. */
static int plan_layer(layer *l, aether_task *task, aether_error *err) {
    int rc = plan_members(l, task, err);
    for (uint32_t i = 0; i < l->g->size; i++)
        for (uint32_t k = 0; k < AE_RELATION_CACHES; k++)
            ae_value_cache_free(cache_of(l->g, i, l->relation, k));
    return rc;
}

static void relabel_member(void *ctx, uint64_t i, uint32_t worker) {
    layer *l = ctx;
    ae_member *m = &l->g->members[i];
    aether_error error = {0};
    if (ae_failure_seen(&l->failure) || !m->jobs[l->relation].count)
        return;
    const ae_hop *h = &m->hops[l->relation];
    ae_worker *w = &l->g->workers[worker];
    int rc = lend_map(w, m->sampler, h->r->to, h->num_edges, &error);
    if (!rc) {
        rc = ae_hop_relabel_all(h, &m->jobs[l->relation], &error);
        return_map(w, m->sampler, h->r->to);
    }
    if (rc)
        ae_failure_note(&l->failure, rc, &error);
}

static int fetch_layer(aether_group *g, uint32_t relation, aether_task *task, aether_error *err) {
    const aether_topology *t = g->members[0].sampler->relations[relation].topology;
    for (uint32_t i = 0; i < g->size; i++)
        g->jobs[i] = g->members[i].jobs[relation];
    if (t->ops->fetch_many)
        return t->ops->fetch_many(t, g->jobs, g->size, &g->staging, task, err);
    int rc = AETHER_OK;
    for (uint32_t i = 0; !rc && i < g->size; i++)
        rc = ae_stream_ids(t, g->jobs[i].positions, g->jobs[i].count, g->jobs[i].ids, t->id_bytes, task, err);
    return rc;
}

static int run_layer(aether_group *g, uint32_t hop, uint32_t relation, aether_task *task, aether_error *err) {
    layer l = {.g = g, .hop = hop, .relation = relation};
    int rc = plan_layer(&l, task, err);
    if (!rc)
        rc = fetch_layer(g, relation, task, err);
    if (!rc && hop + 1 < g->members[0].plan.num_hops)
        ae_pool_run(relabel_member, &l, g->size, g->num_workers);
    return rc ? rc : ae_failure_take(&l.failure, err);
}

static void note_edges(const aether_group *g, uint32_t hop) {
    for (uint32_t i = 0; i < g->size; i++) {
        const ae_member *m = &g->members[i];
        const uint64_t hops = m->plan.num_hops;
        uint64_t *hop_edges = m->counts + g->num_types * (hops + 1);
        for (uint32_t r = 0; r < g->num_relations; r++)
            hop_edges[r * hops + hop] = m->plan.induced ? 0 : m->hops[r].num_edges;
        if (hop + 1 < hops)
            ae_sample_advance(m->sampler, &m->plan, hop, m->counts);
    }
}

static int begin_member(aether_group *g, uint32_t i, const aether_seeds *seeds,
                        const aether_sample_options *options, aether_task *task, aether_error *err) {
    ae_member *m = &g->members[i];
    const uint64_t columns = (uint64_t)options->num_hops + 1;
    const uint64_t numbers = columns * g->num_types + (uint64_t)options->num_hops * g->num_relations;
    uint64_t *counts = realloc(m->counts, (numbers + 1) * sizeof *counts);
    if (!counts)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a group of samples");
    m->counts = counts;
    memset(counts, 0, numbers * sizeof *counts);
    int rc = ae_sample_begin(m->sampler, seeds, options, &m->plan, err);
    m->sampler->task = task;
    m->plan.num_threads = 1; /* the members themselves are spread over threads */
    for (uint32_t t = 0; !rc && t < g->num_types; t++)
        counts[t * columns] = m->sampler->nodes[t].num_nodes;
    for (uint32_t r = 0; r < g->num_relations; r++)
        m->jobs[r] = (ae_fetch){0};
    m->waits = !rc;
    return rc;
}

static int check_group_options(const aether_sample_options *options, uint32_t n, aether_error *err) {
    for (uint32_t i = 1; i < n; i++)
        if (options[i].num_hops != options[0].num_hops || options[i].fanouts != options[0].fanouts ||
            options[i].flags != options[0].flags)
            return ae_error_set(err, AETHER_E_INVALID, "samples of a group have the same fanouts and flags");
    return AETHER_OK;
}

static void forget_samples(aether_group *g) {
    for (uint32_t i = 0; i < g->size; i++)
        g->members[i].waits = false;
    g->size = 0;
    g->taken = g->capacity;
}

int aether_group_retarget(aether_group *g, const aether_schema *schema, aether_error *err) {
    int rc = AETHER_OK;
    for (uint32_t i = 0; !rc && i < g->capacity; i++) /* the first may fail, the others are like it */
        rc = aether_sampler_retarget(g->members[i].sampler, schema, err);
    if (!rc)
        forget_samples(g);
    return rc;
}

int aether_group_sample(aether_group *g, const aether_seeds *seeds, const aether_sample_options *options,
                        uint32_t n, uint32_t *failed, aether_task *task, aether_error *err) {
    forget_samples(g);
    *failed = 0;
    if (n == 0 || n > g->capacity)
        return ae_error_set(err, AETHER_E_INVALID, "%u samples in a group of 1 to %u", n, g->capacity);
    int rc = check_group_options(options, n, err);
    g->size = n;
    for (uint32_t i = 0; !rc && i < n; i++) {
        *failed = i;
        rc = begin_member(g, i, seeds + (uint64_t)i * g->num_types, &options[i], task, err);
    }
    for (uint32_t hop = 0; !rc && hop < options[0].num_hops; hop++) {
        for (uint32_t r = 0; !rc && r < g->num_relations; r++)
            rc = run_layer(g, hop, r, task, err);
        if (!rc)
            note_edges(g, hop);
    }
    if (rc)
        forget_samples(g);
    return rc;
}

/* ---- values of edges ---- */

static int check_known_edges(const aether_group *g, uint32_t relation, aether_error *err) {
    if (relation >= g->num_relations)
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u of %u", relation, g->num_relations);
    const aether_topology *t = g->members[0].sampler->relations[relation].topology;
    if (!t->edge_ids_are_positions || (g->size && g->members[0].plan.induced))
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "the edges of this group are not known yet");
    return AETHER_OK;
}

static const ae_relation *edges_of(const aether_group *g, uint32_t i, uint32_t relation) {
    return &g->members[i].sampler->relations[relation];
}

int aether_group_edges(const aether_group *g, uint32_t relation, uint64_t *counts, uint64_t *hashes,
                       aether_error *err) {
    int rc = check_known_edges(g, relation, err);
    for (uint32_t i = 0; !rc && i < g->size; i++) {
        const ae_relation *r = edges_of(g, i, relation);
        counts[i] = g->members[i].waits ? r->num_edges : 0;
        hashes[i] = aether_hash_ids(r->positions.data, counts[i]);
    }
    return rc;
}

int aether_group_gather(aether_group *g, uint32_t relation, const aether_values *values, void *const *out,
                        const uint64_t *out_items, aether_task *task, aether_error *err) {
    int rc = check_known_edges(g, relation, err);
    if (rc)
        return rc;
    const aether_topology *t = g->members[0].sampler->relations[relation].topology;
    if (values->count != t->num_edges)
        return ae_error_set(err, AETHER_E_INVALID, "%" PRIu64 " values of %" PRIu64 " edges", values->count,
                            t->num_edges);
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->size; i++) {
        const ae_relation *r = edges_of(g, i, relation);
        if (!g->members[i].waits)
            continue;
        if (out_items[i] < r->num_edges)
            return ae_error_set(err, AETHER_E_INVALID,
                                "room for %" PRIu64 " values of sample %u, which has %" PRIu64 " edges",
                                out_items[i], i, r->num_edges);
        g->jobs[n++] = (ae_fetch){r->positions.data, r->num_edges, out[i]};
    }
    return ae_values_take(values, g->jobs, n, &g->staging, task, err);
}

/* ---- taking ---- */

static uint64_t edges_into(const aether_group *g, const ae_member *m, uint32_t t) {
    uint64_t total = 0;
    for (uint32_t r = 0; r < g->num_relations; r++)
        total += m->sampler->relations[r].to == t ? m->jobs[r].count : 0;
    return total;
}

/* Relabel the last hop and finish the sample, with worker 0's map for every node type. */
static int complete(aether_group *g, ae_member *m, uint64_t *num_nodes, uint64_t *num_edges,
                    aether_error *err) {
    const uint64_t hops = m->plan.num_hops;
    uint32_t lent = 0;
    int rc = AETHER_OK;
    while (!rc && lent < g->num_types) {
        rc = lend_map(&g->workers[0], m->sampler, lent, edges_into(g, m, lent), err);
        lent += !rc;
    }
    for (uint32_t r = 0; !rc && r < g->num_relations; r++)
        if (m->jobs[r].count)
            rc = ae_hop_relabel_all(&m->hops[r], &m->jobs[r], err);
    if (!rc && hops)
        ae_sample_advance(m->sampler, &m->plan, (uint32_t)hops - 1, m->counts);
    if (!rc)
        rc = ae_sample_finish(m->sampler, &m->plan, num_nodes, num_edges, err);
    while (lent-- > 0)
        return_map(&g->workers[0], m->sampler, lent);
    return rc;
}

void aether_group_release(aether_group *g) {
    if (g->taken < g->capacity)
        ae_sample_release(g->members[g->taken].sampler);
    g->taken = g->capacity;
}

int aether_group_take(aether_group *g, uint32_t i, const aether_sample_counts *counts, aether_sampler **out,
                      aether_task *task, aether_error *err) {
    aether_group_release(g);
    *out = NULL;
    int rc = ae_options_check(counts, sizeof *counts, "aether_sample_counts", err);
    if (rc)
        return rc;
    if (i >= g->size || !g->members[i].waits)
        return ae_error_set(err, AETHER_E_INVALID, "sample %u of the group was not made or is taken", i);
    ae_member *m = &g->members[i];
    const uint64_t hops = m->plan.num_hops;
    m->waits = false;
    m->sampler->task = task;
    g->taken = i;
    if (i + 1 == g->size) /* callers count this with what the samples take: idle groups do not keep it */
        ae_scratch_free(&g->staging.below);
    rc = complete(g, m, counts->num_nodes, counts->num_edges, err);
    if (rc) {
        ae_sample_clear(m->sampler);
        return rc;
    }
    memcpy(counts->hop_nodes, m->counts, g->num_types * (hops + 1) * sizeof *m->counts);
    memcpy(counts->hop_edges, m->counts + g->num_types * (hops + 1),
           g->num_relations * hops * sizeof *m->counts);
    *out = m->sampler;
    return AETHER_OK;
}
