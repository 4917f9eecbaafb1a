/*
 * sample/sampler.h - the state of one sample: plan -> fetch -> relabel.
 *
 *   local id   0   1   2 | 3   4   5   6 | 7 ...         hop 0 | hop 1 | hop 2
 *   keys     [ s0  s1  s2  n3  n4  n5  n6  n7 ... ]      global node (and tree)
 *   first    [ 0   2   2   5  ... ]                      first edge of each expanded node
 *                |
 *   positions[ p0 p1 | p2 p3 p4 | ... ]                  where in the lists
 *   rows     [ 3  4  | 3  5  6  | ... ]                  local source of each edge
 *
 * The destination of edge e is the node whose [first[v], first[v+1]) holds e,
 * so it is written only on export.
 *
 * In a disjoint sample a key is tree << node_bits | node.
 *
 * Caveats: one sample at a time per sampler. Nothing here allocates in the
 * steady state: arrays stay from batch to batch, as large as the largest batch
 * made them, until aether_sampler_destroy.
 */
#ifndef AE_SAMPLE_SAMPLER_H
#define AE_SAMPLE_SAMPLER_H

#include "core/pool.h"
#include "sample/idmap.h"
#include "sample/scratch.h"
#include "store/topology.h"

struct aether_sampler {
    const aether_topology *topology;
    ae_idmap map;
    ae_scratch keys;              /* u64 per node */
    ae_scratch first;             /* u64 per expanded node, and one more */
    ae_scratch lists;             /* ae_list per node of the hop at work */
    ae_scratch positions;         /* u64 per edge */
    ae_scratch rows;              /* u32 per edge */
    ae_scratch neighbors;         /* u64 per edge of the hop at work (several threads only) */
    ae_scratch sets[AE_POOL_MAX]; /* for ae_plan_positions, per thread */
    uint64_t num_nodes, num_expanded, num_edges;
    uint64_t num_seeds;
    uint32_t node_bits; /* 0 unless disjoint */
};

/* One call's settings, checked. */
typedef struct ae_sample_plan {
    uint64_t key;
    const int64_t *fanouts;
    uint32_t num_hops;
    uint32_t num_threads;
    bool replace, disjoint, induced;
} ae_sample_plan;

static inline uint64_t *ae_sampler_keys(const aether_sampler *s) {
    return s->keys.data;
}
static inline uint64_t *ae_sampler_first(const aether_sampler *s) {
    return s->first.data;
}

/* Node and tree of a key; the tree is AE_RNG_NO_SEED unless disjoint. */
static inline uint64_t ae_key_node(const aether_sampler *s, uint64_t key) {
    return s->node_bits ? key & ((UINT64_C(1) << s->node_bits) - 1) : key;
}
static inline uint64_t ae_key_tree(const aether_sampler *s, uint64_t key) {
    return s->node_bits ? key >> s->node_bits : AE_RNG_NO_SEED;
}

/* Keys are below this. */
static inline uint64_t ae_sampler_num_keys(const aether_sampler *s) {
    return s->node_bits ? s->num_seeds << s->node_bits : s->topology->lists.num_minor;
}

/* Grow node and id arrays to `bound` nodes. */
int ae_sampler_reserve_nodes(aether_sampler *s, uint64_t bound, aether_error *err);

/* Expand nodes [begin, end): the last hop's. Appends nodes and edges. */
int ae_sample_hop(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint64_t begin, uint64_t end,
                  aether_error *err);

/* Replace the edges by all edges among the sampled nodes. */
int ae_sample_induced(aether_sampler *s, aether_error *err);

#endif
