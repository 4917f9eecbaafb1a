/*
 * Sampling from arbitrary lists: damaged indptr and indices, any seeds, any
 * settings. Whatever the bytes say, the call returns a result within bounds or
 * an error.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "aether.h"

#define MAX_NODES 64
#define MAX_EDGES 512

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static uint8_t byte(input *in) {
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

/* Mostly small steps, so that many inputs are nearly valid graphs. */
static void fill_lists(input *in, uint64_t *indptr, uint32_t *indices, aether_lists *lists) {
    uint64_t at = 0;
    for (uint64_t v = 0; v < lists->num_major; v++) {
        indptr[v] = at;
        uint8_t step = byte(in);
        at = step == 255 ? (uint64_t)byte(in) << 56 : at + step % 12;
    }
    indptr[0] = 0;
    indptr[lists->num_major] = lists->num_edges;
    for (uint64_t e = 0; e < lists->num_edges; e++)
        indices[e] = byte(in) % (lists->num_minor + 1);
}

static void check_result(const aether_sampler *s, const uint64_t *totals, const aether_lists *lists,
                         bool disjoint) {
    static int64_t node[1 << 16], row[1 << 20], col[1 << 20], edge[1 << 20], batch[1 << 16];
    if (totals[0] > 1 << 16 || totals[1] > 1 << 20)
        return;
    if (aether_sample_export(s, 8, node, row, col, edge, disjoint ? batch : NULL, NULL))
        abort();
    for (uint64_t i = 0; i < totals[0]; i++)
        if ((uint64_t)node[i] >= lists->num_major)
            abort();
    for (uint64_t i = 0; i < totals[1]; i++)
        if ((uint64_t)row[i] >= totals[0] || (uint64_t)col[i] >= totals[0] ||
            (uint64_t)edge[i] >= lists->num_edges || (i && col[i] < col[i - 1]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    uint64_t indptr[MAX_NODES + 1];
    uint32_t indices[MAX_EDGES];
    uint64_t n = 1 + byte(&in) % MAX_NODES;
    aether_lists lists = {n, n, byte(&in) * 2u, indptr, indices, NULL, 4, 8};
    int64_t seeds[16], fanouts[3];
    aether_sample_options o = {
        .fanouts = fanouts, .num_hops = byte(&in) % 4, .flags = byte(&in) % 8, .num_threads = 1};
    o.key = byte(&in);
    uint64_t num_seeds = byte(&in) % 17;
    for (uint64_t i = 0; i < num_seeds; i++)
        seeds[i] = (int64_t)byte(&in) - 1;
    for (int h = 0; h < 3; h++)
        fanouts[h] = (int64_t)(byte(&in) % 80) - 2;
    fill_lists(&in, indptr, indices, &lists);

    aether_topology *t = NULL;
    aether_sampler *s = NULL;
    uint64_t hop_nodes[4], hop_edges[3], totals[2];
    if (aether_topology_create(&lists, &t, NULL) == 0 && aether_sampler_create(t, &s, NULL) == 0) {
        for (int again = 0; again < 2; again++) /* the second call meets the first one's scratch */
            if (aether_sample(s, seeds, num_seeds, &o, hop_nodes, hop_edges, totals, NULL) == 0)
                check_result(s, totals, &lists, o.flags & AETHER_SAMPLE_DISJOINT);
        int64_t neighbors[MAX_EDGES], edges[MAX_EDGES];
        (void)aether_topology_neighbors(t, seeds, num_seeds, neighbors, edges, MAX_EDGES, NULL);
    }
    aether_sampler_destroy(s);
    aether_topology_destroy(t);
    return 0;
}
