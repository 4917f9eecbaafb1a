/*
 * Sampling from arbitrary tables of relations: damaged lists, ids and edge ids, any
 * weights, times, bounds, seeds and settings. Whatever the bytes say, a call returns
 * an error or edges of the lists, within bounds, and the same that a new sampler
 * gives; if the lists are sound, also a sample of the right size that keeps to
 * weights and times.
 */
#include "core/options.h"
#include "typed_input.h"

#define MAX_SEEDS   24
#define MAX_HOPS    3
#define MAX_SAMPLES 4
#define MAX_OUT     (1 << 16) /* larger results are only compared in size */

typedef struct request {
    aether_seeds seeds[MAX_TYPES];
    int64_t *ids[MAX_TYPES], *since[MAX_TYPES], *until[MAX_TYPES];
    int64_t fanouts[MAX_RELATIONS * MAX_HOPS];
    aether_sample_options options;
    bool bounded, valid; /* there is no reason to refuse it */
} request;

typedef struct result {
    int rc;
    uint64_t hop_nodes[MAX_TYPES * (MAX_HOPS + 1)], hop_edges[MAX_RELATIONS * MAX_HOPS];
    uint64_t num_nodes[MAX_TYPES], num_edges[MAX_RELATIONS];
    int64_t *node[MAX_TYPES], *batch[MAX_TYPES];
    int64_t *row[MAX_RELATIONS], *col[MAX_RELATIONS], *edge[MAX_RELATIONS];
} result;

/* ---- what is asked ---- */

static int64_t bound(input *in) {
    static const int64_t bounds[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    static const double reals[] = {-INFINITY, -1, -DBL_TRUE_MIN, 0, 2.5, DBL_MAX, INFINITY};
    uint8_t choice = byte(in);
    int64_t of_double;
    aether_time_of_double(&reals[choice % 7], 1, &of_double);
    return choice & 128 ? of_double : bounds[choice % 7];
}

static int64_t fanout(input *in, bool first_hop) {
    uint8_t choice = byte(in);
    return choice == 255 ? -2 : choice == 254 && first_hop ? 800 : choice % 16 - 1;
}

static void fill_seeds(input *in, const graph *g, uint32_t t, request *q) {
    uint64_t n = g->num_nodes[t] ? byte(in) % (MAX_SEEDS + 1) : byte(in) == 255;
    uint8_t has = byte(in), first = byte(in), step = byte(in);
    q->ids[t] = array(n, sizeof(int64_t));
    q->since[t] = has & 1 ? array(n, sizeof(int64_t)) : NULL;
    q->until[t] = has & 2 ? array(n, sizeof(int64_t)) : NULL;
    for (uint64_t i = 0; i < n; i++) { /* many of them equal */
        uint64_t id = g->num_nodes[t] ? (first + i * step) % g->num_nodes[t] : 0;
        q->ids[t][i] = has == 255 ? (int64_t)byte(in) - 1 : (int64_t)id;
        q->valid &= (uint64_t)q->ids[t][i] < g->num_nodes[t];
        if (has & 1)
            q->since[t][i] = bound(in);
        if (has & 2)
            q->until[t][i] = bound(in);
    }
    q->seeds[t] = (aether_seeds){q->ids[t], n, q->since[t], q->until[t]};
    q->bounded |= n && has & 3;
}

/* The bounds of a tree. */
static void find_bounds(const request *q, uint64_t tree, int64_t *since, int64_t *until) {
    const aether_seeds *seeds = q->seeds;
    while (tree >= seeds->count)
        tree -= seeds++->count;
    *since = seeds->since ? seeds->since[tree] : INT64_MIN;
    *until = seeds->until ? seeds->until[tree] : INT64_MAX;
}

/* Whether all trees have the bounds of the first, as they must if they share nodes. */
static bool shares_bounds(const request *q, uint32_t num_types) {
    uint64_t trees = 0;
    int64_t since, until, first_since, first_until;
    for (uint32_t t = 0; t < num_types; t++)
        trees += q->seeds[t].count;
    for (uint64_t tree = 0; tree < trees; tree++) {
        find_bounds(q, tree, &since, &until);
        find_bounds(q, 0, &first_since, &first_until);
        if (since != first_since || until != first_until)
            return false;
    }
    return true;
}

static void fill_request(input *in, const graph *g, request *q) {
    *q = (request){.options = {.key = byte(in), .fanouts = q->fanouts}, .valid = true};
    q->options.num_hops = byte(in) % (MAX_HOPS + 1);
    q->options.flags = byte(in);
    q->options.flags %= q->options.flags == 255 ? 256 : 32;
    for (uint32_t t = 0; t < g->num_types; t++)
        fill_seeds(in, g, t, q);
    for (uint32_t i = 0; i < g->num_relations * q->options.num_hops; i++) {
        q->fanouts[i] = fanout(in, i % q->options.num_hops == 0);
        q->valid &= q->fanouts[i] >= -1;
    }
    q->valid &= q->options.flags < 32;
    q->valid &= q->options.flags & AETHER_SAMPLE_DISJOINT || !q->bounded || shares_bounds(q, g->num_types);
}

static void free_request(request *q) {
    for (int t = 0; t < MAX_TYPES; t++) {
        free(q->ids[t]);
        free(q->since[t]);
        free(q->until[t]);
    }
}

/* ---- what comes back ---- */

static void export(const aether_sampler *s, const graph *g, const request *q, result *r) {
    bool disjoint = q->options.flags & AETHER_SAMPLE_DISJOINT;
    for (uint32_t t = 0; t < g->num_types; t++) {
        r->node[t] = array(r->num_nodes[t], sizeof(int64_t));
        r->batch[t] = array(r->num_nodes[t], sizeof(int64_t));
        require(aether_sample_export_nodes(s, t,
                                           AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                                    .num_nodes = r->num_nodes[t], .node = r->node[t],
                                                    .batch = disjoint ? r->batch[t] : NULL),
                                           NULL) == 0);
    }
    for (uint32_t i = 0; i < g->num_relations; i++) {
        r->row[i] = array(r->num_edges[i], sizeof(int64_t));
        r->col[i] = array(r->num_edges[i], sizeof(int64_t));
        r->edge[i] = array(r->num_edges[i], sizeof(int64_t));
        require(aether_sample_export_edges(s, i,
                                           AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                                    .num_edges = r->num_edges[i], .row = r->row[i],
                                                    .col = r->col[i], .edge = r->edge[i]),
                                           NULL) == 0);
    }
}

static void free_result(result *r) {
    for (int t = 0; t < MAX_TYPES; t++) {
        free(r->node[t]);
        free(r->batch[t]);
    }
    for (int i = 0; i < MAX_RELATIONS; i++) {
        free(r->row[i]);
        free(r->col[i]);
        free(r->edge[i]);
    }
}

static void check_nodes(const graph *g, const request *q, const result *r, uint32_t t) {
    const uint64_t *hops = r->hop_nodes + t * (q->options.num_hops + 1);
    uint64_t total = 0, tree = 0, n = q->seeds[t].count;
    for (uint32_t h = 0; h <= q->options.num_hops; h++)
        total += hops[h];
    require(hops[0] == n && total == r->num_nodes[t]);
    for (uint32_t before = 0; before < t; before++)
        tree += q->seeds[before].count;
    for (uint64_t i = 0; i < r->num_nodes[t]; i++) {
        require((uint64_t)r->node[t][i] < g->num_nodes[t]);
        require(i >= n || r->node[t][i] == q->ids[t][i]);
        require(i >= n || !(q->options.flags & AETHER_SAMPLE_DISJOINT) ||
                (uint64_t)r->batch[t][i] == tree + i);
        for (uint64_t j = 0; i >= n && i < 300 && j < i; j++) /* a node is new once */
            require(r->node[t][j] != r->node[t][i] || r->batch[t][j] != r->batch[t][i]);
    }
}

static bool is_visible(const request *q, const relation *l, uint64_t tree, uint64_t position) {
    int64_t since, until;
    if (!l->times || !q->bounded)
        return true;
    find_bounds(q, tree, &since, &until);
    return time_at(l, position) >= since && time_at(l, position) <= until;
}

/* Whether destinations may start again at this edge: each layer begins with the seeds. */
static bool begins_layer(const request *q, const result *r, uint32_t i, uint64_t e) {
    uint64_t first = 0;
    bool begins = false;
    for (uint32_t h = 0; h < q->options.num_hops && q->options.flags & AETHER_SAMPLE_LAYERED; h++) {
        begins |= e == first;
        first += r->hop_edges[i * q->options.num_hops + h];
    }
    return e == 0 || begins;
}

/* The edge stands in the list of its near end, with its far end. */
static void check_edge(const graph *g, const request *q, const result *r, uint32_t i, uint64_t e) {
    const relation *l = &g->relations[i];
    uint64_t row = (uint64_t)r->row[i][e], col = (uint64_t)r->col[i][e], edge = (uint64_t)r->edge[i][e];
    uint32_t from = l->public.from, to = l->public.to;
    require(row < r->num_nodes[to] && col < r->num_nodes[from]);
    require(begins_layer(q, r, i, e) || r->col[i][e - 1] <= r->col[i][e]);
    require(r->batch[to][row] == r->batch[from][col]);
    uint64_t v = (uint64_t)r->node[from][col], p = l->indptr[v];
    while (p < l->indptr[v + 1] && (edge_at(l, p) != edge || neighbor_at(l, p) != (uint64_t)r->node[to][row]))
        p++;
    require(p < l->indptr[v + 1]);
    if (q->options.flags & AETHER_SAMPLE_INDUCED || !l->sound)
        return;
    require(!l->weights || weight_of(l, edge) > 0);
    require(!l->sorted || is_visible(q, l, (uint64_t)r->batch[from][col], p));
}

/* How many edges a node of sound and sorted lists has to have. */
static uint64_t wanted_edges(const request *q, const relation *l, uint64_t v, uint64_t tree, int64_t k) {
    uint64_t end = l->indptr[v + 1], drawable = 0, last = 0;
    bool bounded = l->times && q->bounded,
         latest = bounded && q->options.flags & AETHER_SAMPLE_LATEST && k >= 0;
    for (uint64_t p = end; p-- > l->indptr[v];)
        if (is_visible(q, l, tree, p) && (!latest || last < (uint64_t)k)) {
            last++;
            drawable += !l->weights || weight_of(l, edge_at(l, p)) > 0;
        }
    if (k < 0 || drawable == 0)
        return drawable;
    return q->options.flags & AETHER_SAMPLE_REPLACE || (uint64_t)k < drawable ? (uint64_t)k : drawable;
}

static void check_counts(const graph *g, const request *q, const result *r, uint32_t i) {
    const relation *l = &g->relations[i];
    uint32_t from = l->public.from, num_hops = q->options.num_hops;
    const uint64_t *hop_nodes = r->hop_nodes + from * (num_hops + 1);
    uint64_t e = 0, v = 0, end = 0;
    for (uint32_t h = 0; h < num_hops; h++) {
        uint64_t last = e + r->hop_edges[i * num_hops + h];
        require(last <= r->num_edges[i]);
        v = q->options.flags & AETHER_SAMPLE_LAYERED ? 0 : v;
        for (end += hop_nodes[h]; v < end; v++) {
            uint64_t before = e;
            for (; e < last && (uint64_t)r->col[i][e] == v; e++)
                for (uint64_t d = before; d < e && !(q->options.flags & AETHER_SAMPLE_REPLACE); d++)
                    require(r->edge[i][d] != r->edge[i][e]);
            require(e - before == wanted_edges(q, l, (uint64_t)r->node[from][v], (uint64_t)r->batch[from][v],
                                               q->fanouts[i * num_hops + h]));
        }
        require(e == last);
    }
    require(e == r->num_edges[i]);
}

/* As many edges as entries of the lists that were sampled in the same tree, and can be
 * seen there. */
static void check_induced(const graph *g, const request *q, const result *r, uint32_t i) {
    const relation *l = &g->relations[i];
    static bool sampled[MAX_TYPES * MAX_SEEDS][MAX_NODES];
    uint64_t n = 0;
    memset(sampled, 0, sizeof sampled);
    for (uint64_t v = 0; v < r->num_nodes[l->public.to]; v++)
        sampled[r->batch[l->public.to][v]][r->node[l->public.to][v]] = true;
    for (uint64_t v = 0; v < r->num_nodes[l->public.from]; v++) {
        uint64_t node = (uint64_t)r->node[l->public.from][v], tree = (uint64_t)r->batch[l->public.from][v];
        for (uint64_t p = l->indptr[node]; p < l->indptr[node + 1]; p++)
            n += sampled[tree][neighbor_at(l, p)] && is_visible(q, l, tree, p);
    }
    require(n == r->num_edges[i]);
    for (uint32_t h = 0; h < q->options.num_hops; h++)
        require(r->hop_edges[i * q->options.num_hops + h] == 0);
}

static void check_result(const graph *g, const request *q, const result *r) {
    for (uint32_t t = 0; t < g->num_types; t++)
        check_nodes(g, q, r, t);
    for (uint32_t i = 0; i < g->num_relations; i++) {
        const relation *l = &g->relations[i];
        for (uint64_t e = 0; e < r->num_edges[i]; e++)
            check_edge(g, q, r, i, e);
        if (!l->sound || !l->sorted)
            continue;
        if (q->options.flags & AETHER_SAMPLE_INDUCED)
            check_induced(g, q, r, i);
        else
            check_counts(g, q, r, i);
    }
}

/* ---- sampling ---- */

/* Returns whether the result was small enough to be looked at. */
static bool sample(aether_sampler *s, const graph *g, const request *q, uint32_t threads, result *r) {
    aether_sample_options o = q->options;
    uint64_t total = 0;
    o.num_threads = threads;
    r->rc = aether_sample_typed(
        s, q->seeds, &o,
        AE_SIZED(aether_sample_counts, r->hop_nodes, r->hop_edges, r->num_nodes, r->num_edges), NULL);
    if (r->rc)
        return false;
    for (uint32_t t = 0; t < g->num_types; t++)
        total += r->num_nodes[t];
    for (uint32_t i = 0; i < g->num_relations; i++)
        total += r->num_edges[i];
    if (total > MAX_OUT)
        return false;
    export(s, g, q, r);
    return true;
}

/* What earlier samples left in the scratch memory must not be seen, nor who worked. */
static void check_same(const graph *g, const result *a, const result *b) {
    for (uint32_t t = 0; t < g->num_types; t++) {
        require(a->num_nodes[t] == b->num_nodes[t]);
        require(memcmp(a->node[t], b->node[t], a->num_nodes[t] * sizeof(int64_t)) == 0);
        require(memcmp(a->batch[t], b->batch[t], a->num_nodes[t] * sizeof(int64_t)) == 0);
    }
    for (uint32_t i = 0; i < g->num_relations; i++) {
        require(a->num_edges[i] == b->num_edges[i]);
        require(memcmp(a->row[i], b->row[i], a->num_edges[i] * sizeof(int64_t)) == 0);
        require(memcmp(a->col[i], b->col[i], a->num_edges[i] * sizeof(int64_t)) == 0);
        require(memcmp(a->edge[i], b->edge[i], a->num_edges[i] * sizeof(int64_t)) == 0);
    }
}

static aether_sampler *make_sampler(const graph *g) {
    aether_relation relations[MAX_RELATIONS];
    aether_sampler *s = NULL;
    for (uint32_t i = 0; i < g->num_relations; i++)
        relations[i] = g->relations[i].public;
    int rc = aether_sampler_create_typed(
        AE_SIZED(aether_schema, relations, g->num_nodes, g->num_relations, g->num_types), &s, NULL);
    require(!s == (rc != 0));
    return s;
}

static void sample_twice(input *in, const graph *g, aether_sampler *used, bool sound) {
    request q;
    result a = {0}, b = {0};
    fill_request(in, g, &q);
    aether_sampler *fresh = make_sampler(g);
    bool small = sample(used, g, &q, 2, &a);
    require(small == sample(fresh, g, &q, 1, &b) && a.rc == b.rc);
    require(q.valid || a.rc);
    require(!q.valid || !sound || !a.rc);
    if (small) {
        check_same(g, &a, &b);
        check_result(g, &q, &a);
    }
    free_result(&a);
    free_result(&b);
    free_request(&q);
    aether_sampler_destroy(fresh);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static graph g;
    input in = {data, size};
    bool sound = true;
    memset(&g, 0, sizeof g);
    fill_graph(&in, &g);
    for (uint32_t i = 0; i < g.num_relations; i++)
        sound &= g.relations[i].sound;
    aether_sampler *s = make_sampler(&g);
    for (int i = 0; s && i < MAX_SAMPLES && (i == 0 || in.size); i++)
        sample_twice(&in, &g, s, sound);
    aether_sampler_destroy(s);
    free_graph(&g);
    return 0;
}
