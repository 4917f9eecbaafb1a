/*
 * sample.c - the core from C: build lists from edges, sample two hops, print the subgraph.
 *
 *   make -C native install PREFIX=$HOME/.local
 *   export PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig
 *   cc native/examples/sample.c $(pkg-config --cflags --libs aether) -o sample
 *   ./sample
 */
#include <aether.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#if AETHER_VERSION_NUMBER < AETHER_MAKE_VERSION(0, 1, 0)
#error "this example needs aether 0.1"
#endif

/* Every function returns 0 or a negative code, and fills the error that it is given. */
static void check(int code, const aether_error *err) {
    if (code == AETHER_OK)
        return;
    fprintf(stderr, "error %d: %s\n", code, err->message);
    exit(1);
}

int main(void) {
    /* Messages flow from src to dst, so lists are grouped by dst: node 0 hears from 1, 2 and 3. */
    const int64_t src[] = {1, 2, 3, 2, 3, 4, 0, 4};
    const int64_t dst[] = {0, 0, 0, 1, 1, 2, 3, 3};
    enum { NODES = 5, EDGES = 8, HOPS = 2 };
    uint64_t indptr[NODES + 1];
    uint32_t indices[EDGES];
    aether_error err = {0};
    check(aether_build_lists(dst, src, EDGES, NODES, NODES, indptr, indices, 4, NULL, 0, NULL, &err), &err);

    const aether_lists lists = {.num_major = NODES,
                                .num_minor = NODES,
                                .num_edges = EDGES,
                                .indptr = indptr,
                                .indices = indices,
                                .id_bytes = 4};
    aether_topology *topology = NULL;
    aether_sampler *sampler = NULL;
    check(aether_topology_create(&lists, &topology, &err), &err);
    check(aether_sampler_create(topology, &sampler, &err), &err);

    /* The key decides all draws: the same key gives the same sample, on any machine. */
    const int64_t seeds[] = {0}, fanouts[HOPS] = {2, 2};
    const aether_sample_options options = {.key = 7, .fanouts = fanouts, .num_hops = HOPS, .num_threads = 1};
    uint64_t hop_nodes[HOPS + 1], hop_edges[HOPS], totals[2];
    check(aether_sample(sampler, seeds, 1, &options, hop_nodes, hop_edges, totals, &err), &err);

    int64_t *node = calloc(totals[0], sizeof *node), *row = calloc(totals[1], sizeof *row);
    int64_t *col = calloc(totals[1], sizeof *col), *edge = calloc(totals[1], sizeof *edge);
    if (!node || !row || !col || !edge)
        return 1;
    check(aether_sample_export(sampler, 8, totals[0], totals[1], node, row, col, edge, NULL, &err), &err);
    printf("%" PRIu64 " nodes, %" PRIu64 " edges, aether %s\n", totals[0], totals[1], aether_version());
    for (uint64_t i = 0; i < totals[1]; i++)
        printf("%" PRId64 " -> %" PRId64 " (edge %" PRId64 ")\n", node[row[i]], node[col[i]], edge[i]);

    free(node);
    free(row);
    free(col);
    free(edge);
    aether_sampler_destroy(sampler);
    aether_topology_destroy(topology);
    return 0;
}
