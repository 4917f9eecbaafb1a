/*
 * Sampling from arbitrary lists: damaged indptr and indices of either width,
 * any seeds, any settings, several samples from one sampler, by neighbours and by
 * budget (HGT). Whatever the bytes
 * say, a call returns an error or a result that is within bounds, made of edges
 * of the lists, and the same that a new sampler gives.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "aether.h"
#include "core/options.h"

#define MAX_NODES   64
#define MAX_EDGES   512
#define MAX_SEEDS   256
#define MAX_SAMPLES 6
#define MAX_OUT     (1 << 18)
#define HGT         32 /* beside the flags */

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

/* The lists in both widths; `lists` points to one of each. */
typedef struct graph {
    aether_lists lists;
    uint64_t indptr[MAX_NODES + 1], indices8[MAX_EDGES], edge_ids8[MAX_EDGES];
    uint32_t indices4[MAX_EDGES], edge_ids4[MAX_EDGES];
} graph;

typedef struct result {
    int rc;
    uint64_t hop_nodes[4], hop_edges[3], totals[2];
    int64_t node[MAX_OUT], row[MAX_OUT], col[MAX_OUT], edge[MAX_OUT], batch[MAX_OUT];
} result;

static uint8_t byte(input *in) {
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

static void require(bool condition) {
    if (!condition)
        abort();
}

/* Mostly small steps, so that many inputs are nearly valid graphs. */
static void fill_indptr(input *in, graph *g) {
    uint64_t at = 0;
    for (uint64_t v = 0; v < g->lists.num_major; v++) {
        g->indptr[v] = at;
        uint8_t step = byte(in);
        at = step == 255 ? (uint64_t)byte(in) << 56 : at + step % 12;
    }
    g->indptr[0] = 0;
    g->indptr[g->lists.num_major] = g->lists.num_edges;
}

/* Edge ids count down, so that a position taken for one shows. */
static void fill_edges(input *in, graph *g) {
    for (uint64_t e = 0; e < g->lists.num_edges; e++) {
        uint8_t id = byte(in);
        g->indices4[e] = id == 255 ? UINT32_MAX : id % (uint32_t)(g->lists.num_minor + 1);
        g->indices8[e] = id == 255 ? (uint64_t)byte(in) << 32 : g->indices4[e];
        g->edge_ids4[e] = UINT32_MAX - (uint32_t)e;
        g->edge_ids8[e] = INT64_MAX - e;
    }
}

static void fill_graph(input *in, graph *g) {
    uint8_t widths = byte(in);
    uint64_t n = 1 + byte(in) % MAX_NODES;
    g->lists =
        (aether_lists){.num_major = n, .num_minor = n, .num_edges = byte(in) * 2u, .indptr = g->indptr};
    g->lists.id_bytes = widths & 1 ? 8 : 4;
    g->lists.indices = widths & 1 ? (void *)g->indices8 : (void *)g->indices4;
    g->lists.edge_id_bytes = widths & 2 ? 8 : 4;
    if (widths & 4)
        g->lists.edge_ids = widths & 2 ? (void *)g->edge_ids8 : (void *)g->edge_ids4;
    fill_indptr(in, g);
    fill_edges(in, g);
}

static uint64_t position_of(const graph *g, int64_t edge) {
    if (!g->lists.edge_ids)
        return (uint64_t)edge;
    return (g->lists.edge_id_bytes == 4 ? UINT32_MAX : INT64_MAX) - (uint64_t)edge;
}

/* HGT samples take no flags. */
static bool has_flag(const aether_sample_options *o, uint32_t flag) {
    return !(o->flags & HGT) && o->flags & flag;
}

/* Whether destinations may start again at this edge: each layer begins with the seeds. */
static bool begins_layer(const result *r, const aether_sample_options *o, uint64_t e) {
    uint64_t first = 0;
    bool begins = false;
    for (uint32_t h = 0; h < o->num_hops && has_flag(o, AETHER_SAMPLE_LAYERED); h++) {
        begins |= e == first;
        first += r->hop_edges[h];
    }
    return e == 0 || begins;
}

static void check_edge(const graph *g, const result *r, const aether_sample_options *o, uint64_t e) {
    uint64_t row = (uint64_t)r->row[e], col = (uint64_t)r->col[e], at = position_of(g, r->edge[e]);
    require(row < r->totals[0] && col < r->totals[0] && at < g->lists.num_edges);
    require(begins_layer(r, o, e) || r->col[e] >= r->col[e - 1]);
    uint64_t source = g->lists.id_bytes == 4 ? g->indices4[at] : g->indices8[at];
    require((uint64_t)r->node[row] == source);
    require(at >= g->indptr[r->node[col]] && at < g->indptr[r->node[col] + 1]);
    require(!has_flag(o, AETHER_SAMPLE_DISJOINT) || r->batch[row] == r->batch[col]);
}

/* The fanouts are the numbers of samples here. */
static int sample_hgt(aether_sampler *s, const int64_t *seeds, uint64_t num_seeds,
                      const aether_sample_options *o, result *r) {
    const aether_seeds all = {.ids = seeds, .count = num_seeds};
    const aether_hgt_options options = {.key = o->key,
                                        .num_samples = o->fanouts,
                                        .num_hops = o->num_hops,
                                        .max_neighbors = (uint32_t)o->key % 8};
    return aether_sample_hgt(s, &all, &options,
                             AE_SIZED(aether_sample_counts, r->hop_nodes, NULL, r->totals, r->totals + 1),
                             NULL);
}

static void sample(aether_sampler *s, const graph *g, const int64_t *seeds, uint64_t num_seeds,
                   const aether_sample_options *o, result *r) {
    bool disjoint = has_flag(o, AETHER_SAMPLE_DISJOINT);
    r->totals[0] = r->totals[1] = 0;
    if (o->flags & HGT)
        r->rc = sample_hgt(s, seeds, num_seeds, o, r);
    else
        r->rc = aether_sample(
            s, seeds, num_seeds, o,
            AE_SIZED(aether_sample_counts, r->hop_nodes, r->hop_edges, r->totals, r->totals + 1), NULL);
    if (r->rc || r->totals[0] > MAX_OUT || r->totals[1] > MAX_OUT)
        return;
    require(
        !aether_sample_export(s,
                              AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = r->totals[0],
                                       .num_edges = r->totals[1], .node = r->node, .row = r->row,
                                       .col = r->col, .edge = r->edge, .batch = disjoint ? r->batch : NULL),
                              NULL));
    for (uint64_t i = 0; i < r->totals[0]; i++)
        require((uint64_t)r->node[i] < g->lists.num_major);
    for (uint64_t e = 0; e < r->totals[1]; e++)
        check_edge(g, r, o, e);
}

/* What earlier samples left in the scratch memory must not be seen. */
static void check_same(const result *a, const result *b) {
    require(a->rc == b->rc && memcmp(a->totals, b->totals, sizeof a->totals) == 0);
    if (a->rc || a->totals[0] > MAX_OUT || a->totals[1] > MAX_OUT)
        return;
    require(memcmp(a->node, b->node, a->totals[0] * sizeof *a->node) == 0);
    require(memcmp(a->row, b->row, a->totals[1] * sizeof *a->row) == 0);
    require(memcmp(a->edge, b->edge, a->totals[1] * sizeof *a->edge) == 0);
}

/* One sample with settings of its own: from 0 to MAX_SEEDS - 1 seeds, so that
 * scratch arrays and the id map grow, and are too large, in turn. */
static void sample_twice(input *in, const graph *g, const aether_topology *t, aether_sampler *used) {
    static result a, b;
    int64_t seeds[MAX_SEEDS], fanouts[3];
    aether_sample_options o = {.key = byte(in),
                               .fanouts = fanouts,
                               .num_hops = byte(in) % 4,
                               .flags = byte(in) % (2 * HGT),
                               .num_threads = 1};
    uint64_t num_seeds = byte(in);
    uint8_t first = byte(in), step = byte(in) % 8;
    for (uint64_t i = 0; i < num_seeds; i++) /* mostly valid, many of them equal */
        seeds[i] = step == 7 ? (int64_t)byte(in) - 1 : (int64_t)((first + i * step) % g->lists.num_major);
    for (int h = 0; h < 3; h++)
        fanouts[h] = (int64_t)(byte(in) % 80) - 2;
    sample(used, g, seeds, num_seeds, &o, &a);
    aether_sampler *fresh = NULL;
    if (aether_sampler_create(t, &fresh, NULL))
        return;
    sample(fresh, g, seeds, num_seeds, &o, &b);
    check_same(&a, &b);
    aether_sampler_destroy(fresh);
}

static void read_lists(const graph *g, const aether_topology *t) {
    int64_t neighbors[MAX_EDGES], edges[MAX_EDGES];
    if (aether_topology_neighbors(t,
                                  AE_SIZED(aether_list_request, .n = g->lists.num_major,
                                           .capacity = MAX_EDGES, .neighbors = neighbors, .edges = edges),
                                  NULL, NULL))
        return;
    for (uint64_t i = 0; i < g->lists.num_edges; i++)
        require((uint64_t)neighbors[i] < g->lists.num_minor && position_of(g, edges[i]) < g->lists.num_edges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static graph g;
    input in = {data, size};
    fill_graph(&in, &g);
    aether_topology *t = NULL;
    aether_sampler *s = NULL;
    if (aether_topology_create(&g.lists, &t, NULL) == 0 && aether_sampler_create(t, &s, NULL) == 0) {
        read_lists(&g, t);
        for (int i = 0; i < MAX_SAMPLES && (i == 0 || in.size); i++)
            sample_twice(&in, &g, t, s);
    }
    aether_sampler_destroy(s);
    aether_topology_destroy(t);
    return 0;
}
