/*
 * live_damage.h - a live graph whose memory somebody else writes to, and what a reader does with it.
 *
 *   relation    lists of in-edges with ids, times and weights, over a base or not
 *   stretches   the words that readers go by: control block | roots, and what is behind them | arena
 *   read        a snapshot, and every kind of reading from it; whatever it returns
 */
#ifndef AE_LIVE_DAMAGE_H
#define AE_LIVE_DAMAGE_H

#include "core/options.h"
#include "live/handle.h"

#define LIVE_DAMAGE_NODES     64
#define LIVE_DAMAGE_STRETCHES 3
#define LIVE_DAMAGE_DEGREE    8 /* of each node in the base */

typedef struct live_stretch {
    uint8_t *at;
    uint64_t size;
} live_stretch;

/* Return what the relation of a graph is; base_edges: LIVE_DAMAGE_NODES * LIVE_DAMAGE_DEGREE, or 0. */
static inline aether_live_relation live_damage_relation(uint64_t base_edges) {
    return (aether_live_relation){.num_src = LIVE_DAMAGE_NODES,
                                  .num_dst = LIVE_DAMAGE_NODES,
                                  .max_src = LIVE_DAMAGE_NODES,
                                  .max_dst = LIVE_DAMAGE_NODES,
                                  .layouts = AETHER_LIVE_CSC,
                                  .order = AETHER_ORDER_TIME,
                                  .columns = AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS,
                                  .edge_id_bytes = 8,
                                  .base_edges = base_edges,
                                  .base_edge_ids = base_edges};
}

/* Return a base for it, whose lists the caller destroys; without `lists` there is no memory. */
static inline aether_live_base live_damage_base(void) {
    enum { EDGES = LIVE_DAMAGE_NODES * LIVE_DAMAGE_DEGREE };
    static uint64_t indptr[LIVE_DAMAGE_NODES + 1];
    static uint32_t indices[EDGES];
    static int64_t times[EDGES];
    static float weights[EDGES];
    for (uint32_t i = 0; i < EDGES; i++)
        indices[i] = i * 5 % LIVE_DAMAGE_NODES;
    for (uint32_t v = 0; v <= LIVE_DAMAGE_NODES; v++)
        indptr[v] = v * LIVE_DAMAGE_DEGREE;
    const aether_lists lists = {.indptr = indptr,
                                .indices = indices,
                                .num_major = LIVE_DAMAGE_NODES,
                                .num_minor = LIVE_DAMAGE_NODES,
                                .num_edges = EDGES,
                                .id_bytes = 4};
    aether_topology *topology = NULL;
    aether_topology_create(&lists, &topology, NULL);
    return (aether_live_base){.lists = topology, .times = times, .weights = weights};
}

/* Return the memory of the first list of a graph of one relation, as its creator has it. */
static inline void live_stretches(aether_live *g, live_stretch out[LIVE_DAMAGE_STRETCHES]) {
    const ae_lists *lists = &g->graph.lists[0];
    out[0] = (live_stretch){g->graph.control.memory.data, 4096 + 32768 + 4224};
    out[1] = (live_stretch){lists->table.memory.data, lists->table.memory.size};
    out[2] = (live_stretch){lists->arena.memory.data, ae_arena_taken(&lists->arena)};
}

/* Open a graph of one relation with lists in one layout, as another process would. */
static inline int live_attach_again(const aether_live *g, aether_live **out, aether_error *err) {
    int32_t fds[8]; /* of one list: four */
    const uint32_t n = aether_live_num_descriptors(g);
    aether_live_descriptors(g, fds);
    return aether_live_attach(fds, n, out, err);
}

/* Read all that a graph has, in every way. */
static inline void live_read(const aether_live *reader) {
    static int64_t ids[4096], seeds[LIVE_DAMAGE_NODES];
    aether_snapshot *s = NULL;
    if (aether_snapshot_take(reader, &s, NULL))
        return;
    const int64_t fanouts[] = {5, 3};
    const aether_sample_options o = {.fanouts = fanouts, .num_hops = 2, .key = 1, .num_threads = 1};
    uint64_t hop_nodes[3], hop_edges[2], totals[2];
    aether_sampler *sampler = NULL;
    int64_t degrees[LIVE_DAMAGE_NODES];
    for (int64_t v = 0; v < LIVE_DAMAGE_NODES; v++)
        seeds[v] = v;
    aether_topology *t = aether_snapshot_topology(s, 0, AETHER_LIVE_CSC);
    if (aether_topology_degrees(t, seeds, LIVE_DAMAGE_NODES, degrees, NULL, NULL) == AETHER_OK)
        for (int64_t v = 0; v < LIVE_DAMAGE_NODES; v++)
            if (degrees[v] <= 4096) {
                aether_topology_neighbors(
                    t, AE_SIZED(aether_list_request, .nodes = &v, .n = 1, .capacity = 4096, .neighbors = ids),
                    NULL, NULL);
                aether_topology_neighbors(
                    t, AE_SIZED(aether_list_request, .nodes = &v, .n = 1, .capacity = 4096, .times = ids),
                    NULL, NULL);
            }
    if (aether_sampler_create(t, &sampler, NULL) == AETHER_OK)
        aether_sample(sampler, seeds, LIVE_DAMAGE_NODES, &o,
                      AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, totals, totals + 1), NULL);
    aether_sampler_destroy(sampler);
    uint64_t count;
    aether_snapshot_changed(s, 0, AETHER_LIVE_CSC, 1, ids, 4096, &count, NULL, NULL);
    uint8_t has[LIVE_DAMAGE_NODES];
    aether_snapshot_has_edges(s, 0, seeds, seeds, LIVE_DAMAGE_NODES, has, NULL, NULL);
    aether_snapshot_release(s);
}

#endif
