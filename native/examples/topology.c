/*
 * A topology of one's own: a ring that is computed, sampled through the installed headers.
 *
 *   node v     its list: v - 1, v - 2, v - 3 (modulo the number of nodes)
 *   position   3 * v + k, which is also the edge id
 *
 *   make -C native install PREFIX=$HOME/.local
 *   export PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig
 *   cc native/examples/topology.c $(pkg-config --cflags --libs aether) -o topology
 *   ./topology
 *
 * aether/topology.h is experimental. docs/tasks/own-graph.md has the same for Python.
 */
#define AETHER_EXPERIMENTAL
#include <aether/experimental.h>
#include <aether/topology.h>
#include <inttypes.h>
#include <stdio.h>

enum { NODES = 10, DEGREE = 3, HOPS = 2 };

static int locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                  aether_error *err) {
    (void)t, (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = (ae_list){.start = nodes[i] * DEGREE, .degree = DEGREE};
    return AETHER_OK;
}

static void prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    (void)t, (void)positions, (void)n;
}

static int fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                 aether_error *err) {
    (void)t, (void)err;
    for (uint64_t i = 0; i < n; i++)
        ids[i] = (positions[i] / DEGREE + NODES - 1 - positions[i] % DEGREE) % NODES;
    return AETHER_OK;
}

static int edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                    aether_error *err) {
    (void)t, (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = positions[i];
    return AETHER_OK;
}

static uint64_t memory(const aether_topology *t) {
    (void)t;
    return 0;
}

static void destroy(aether_topology *t) {
    (void)t;
}

static const ae_topology_ops ops = {.locate = locate,
                                    .prefetch = prefetch,
                                    .fetch = fetch,
                                    .edge_ids = edge_ids,
                                    .memory = memory,
                                    .destroy = destroy};

int main(void) {
    const aether_topology ring = {.ops = &ops,
                                  .num_major = NODES,
                                  .num_minor = NODES,
                                  .num_edges = NODES * DEGREE,
                                  .end_positions = NODES * DEGREE,
                                  .end_edge_ids = NODES * DEGREE,
                                  .id_bytes = 8,
                                  .edge_ids_are_positions = true};
    aether_error err = {0};
    aether_topology_facts facts;
    if (aether_topology_describe(&ring, &facts, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("%" PRIu64 " nodes, %" PRIu64 " edges\n", facts.num_major, facts.num_edges);

    const aether_relation relation = {.topology = &ring};
    const uint64_t num_nodes = NODES;
    const aether_schema schema = {.size = sizeof schema,
                                  .relations = &relation,
                                  .num_nodes = &num_nodes,
                                  .num_relations = 1,
                                  .num_types = 1};
    const int64_t seeds[] = {0, 5}, fanouts[HOPS] = {-1, 2};
    const aether_seeds given = {.ids = seeds, .count = 2};
    const aether_sample_options options = {.key = 7, .fanouts = fanouts, .num_hops = HOPS, .num_threads = 1};
    uint64_t hop_nodes[HOPS + 1], hop_edges[HOPS], nodes = 0, edges = 0;
    const aether_sample_counts counts = {.size = sizeof counts,
                                         .hop_nodes = hop_nodes,
                                         .hop_edges = hop_edges,
                                         .num_nodes = &nodes,
                                         .num_edges = &edges};
    int64_t node[NODES], row[64], col[64], edge[64];
    aether_sampler *sampler = NULL;
    int rc = aether_sampler_create_typed(&schema, &sampler, &err);
    if (!rc)
        rc = aether_sample_typed(sampler, &given, &options, &counts, &err);
    const aether_sample_arrays arrays = {.size = sizeof arrays,
                                         .num_nodes = nodes,
                                         .num_edges = edges,
                                         .node = node,
                                         .row = row,
                                         .col = col,
                                         .edge = edge,
                                         .item_bytes = 8};
    if (!rc)
        rc = aether_sample_export(sampler, &arrays, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    for (uint64_t i = 0; !rc && i < edges; i++)
        printf("edge %2" PRId64 ": %" PRId64 " -> %" PRId64 "\n", edge[i], node[row[i]], node[col[i]]);
    aether_sampler_destroy(sampler);
    return rc ? 1 : 0;
}
