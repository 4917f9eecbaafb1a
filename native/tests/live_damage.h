/*
 * live_damage.h - what a reader does with a live graph whose memory somebody else writes to.
 *
 *   stretches   the words that readers go by: control block | roots, and what is behind them | arena
 *   read        a snapshot, and every kind of reading from it; whatever it returns
 */
#ifndef AE_LIVE_DAMAGE_H
#define AE_LIVE_DAMAGE_H

#include "live/handle.h"

#define LIVE_DAMAGE_NODES     64
#define LIVE_DAMAGE_STRETCHES 3

typedef struct live_stretch {
    uint8_t *at;
    uint64_t size;
} live_stretch;

/* Return the memory of the first list of a graph of one relation, as its creator has it. */
static inline void live_stretches(aether_live *g, live_stretch out[LIVE_DAMAGE_STRETCHES]) {
    const ae_lists *lists = &g->graph.lists[0];
    out[0] = (live_stretch){g->graph.control.memory.data, 4096 + 4224};
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
                aether_topology_neighbors(t, &v, 1, ids, NULL, 4096, NULL, NULL);
                aether_topology_own_values(t, AETHER_OWN_TIMES, &v, 1, ids, 4096, NULL, NULL);
            }
    if (aether_sampler_create(t, &sampler, NULL) == AETHER_OK)
        aether_sample(sampler, seeds, LIVE_DAMAGE_NODES, &o, hop_nodes, hop_edges, totals, NULL);
    aether_sampler_destroy(sampler);
    uint64_t count;
    aether_snapshot_changed(s, 0, AETHER_LIVE_CSC, 1, ids, 4096, &count, NULL, NULL);
    uint8_t has[LIVE_DAMAGE_NODES];
    aether_snapshot_has_edges(s, 0, seeds, seeds, LIVE_DAMAGE_NODES, has, NULL, NULL);
    aether_snapshot_release(s);
}

#endif
