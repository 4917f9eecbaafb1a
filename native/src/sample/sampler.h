/*
 * sample/sampler.h - the state of one sample: plan -> fetch -> relabel.
 *
 * ae_nodes, one per node type:
 *
 *   local id   0   1   2 | 3   4   5   6 | 7 ...         hop 0 | hop 1 | hop 2
 *   keys     [ s0  s1  s2  n3  n4  n5  n6  n7 ... ]      global node (and tree)
 *
 * ae_relation, one per edge type, from the nodes that are expanded to the nodes
 * that stand in their lists (message passing goes the other way):
 *
 *   first    [ 0   2   2   5  ... ]                      first edge of each expanded node
 *                |
 *   positions[ p0 p1 | p2 p3 p4 | ... ]                  where in the lists
 *   rows     [ 3  4  | 3  5  6  | ... ]                  local id of each edge's far end
 *
 * The near end of edge e is the node whose [first[v], first[v+1]) holds e, so it
 * is written only on export. A homogeneous graph has one of each.
 *
 * A layered sample expands all nodes so far in every hop: `first` then holds the
 * expanded nodes of one hop after the other, each beginning with local id 0, and
 * `layers` says where.
 *
 * In a disjoint sample a key is tree << node_bits | node; trees are numbered by
 * seed, through the node types in order.
 *
 * Caveats: one sample at a time per sampler. Nothing here allocates in the
 * steady state: arrays stay from batch to batch, as large as the largest batch
 * made them, until aether_sampler_destroy.
 */
#ifndef AE_SAMPLE_SAMPLER_H
#define AE_SAMPLE_SAMPLER_H

#include "core/pool.h"
#include "core/task.h"
#include "os/scratch.h"
#include "sample/holes.h"
#include "sample/idmap.h"
#include "sample/times.h"
#include "sample/turns.h"
#include "sample/weighted.h"
#include "store/reads.h"

typedef struct ae_nodes {
    uint64_t num_ids; /* nodes of this type in the graph */
    ae_idmap map;
    ae_scratch keys;     /* u64 per node */
    uint64_t num_nodes;  /* sampled so far */
    uint64_t num_seeds;  /* the first of them */
    uint64_t begin, end; /* the frontier: nodes to expand in this hop */
    uint64_t first_tree; /* of the seeds; disjoint only */
} ae_nodes;

#define AE_RELATION_PIECES 3u

typedef struct ae_relation {
    const aether_topology *topology;
    ae_weights weights;
    ae_times times;
    uint32_t from, to;        /* node types */
    const uint64_t *excluded; /* positions left out of this sample, ascending; the caller's */
    uint64_t num_excluded;
    ae_scratch first;     /* u64 per expanded node, and one more */
    ae_scratch positions; /* u64 per edge */
    ae_scratch rows;      /* u32 per edge */
    ae_scratch ids;       /* u64 per edge of the hop at work; fetch_many of wide ids only */
    uint64_t num_expanded, num_edges;
    ae_scratch layers; /* u64 per hop: where in `first` its nodes begin; layered only */
    uint32_t num_layers;
    ae_pieces pieces[AE_RELATION_PIECES]; /* caches of weights, times and ids that stay in their file */
    ae_turns turns;
    bool in_turns; /* some values stay in their file: nodes are tried again after reading */
} ae_relation;

struct aether_sampler {
    uint32_t num_types, num_relations;
    ae_nodes *nodes;
    ae_relation *relations;
    ae_scratch lists;             /* ae_list per node of the frontier at work */
    ae_scratch wholes;            /* ae_list per node, before the time cut; weighted and temporal only */
    ae_scratch holes;             /* ae_holes per node of the frontier at work; exclusion only */
    ae_scratch drawable;          /* u64 per node of the frontier at work; weighted only */
    ae_scratch bounds;            /* i64 since, until per tree; temporal only */
    ae_scratch neighbors;         /* u64 per edge of the hop at work (several threads only) */
    ae_scratch sets[AE_POOL_MAX]; /* for ae_plan_positions, per thread */
    ae_staging staging;           /* of topologies with fetch_many */
    ae_reads reads;               /* of topologies with fetch_many: HGT and induced subgraphs */
    struct ae_hgt *hgt;           /* NULL before the first HGT sample */
    aether_task *task;            /* of the last call; NULL: none */
    uint64_t num_trees;
    uint32_t node_bits; /* 0 unless disjoint */
    bool has_bounds;
};

/* One call's settings, checked. */
typedef struct ae_sample_plan {
    uint64_t key;
    const int64_t *fanouts; /* [relations][hops] */
    uint32_t num_hops;
    uint32_t num_threads;
    bool replace, disjoint, induced, latest, layered;
} ae_sample_plan;

/* Return AETHER_E_CANCELLED if the caller wants the sample to end. */
static inline int ae_sample_check(const aether_sampler *s, aether_error *err) {
    return ae_task_check(s->task, "sampling", err);
}

static inline uint64_t *ae_nodes_keys(const ae_nodes *n) {
    return n->keys.data;
}
static inline uint64_t *ae_relation_first(const ae_relation *r) {
    return r->first.data;
}

/* Return how many pieces may be held at a time with windows of this size: they are reads, too. */
static inline uint64_t ae_pieces_most(const ae_staging *staging) {
    return ae_staging_window(staging) / 12;
}

/* Collect the piece caches that the relation uses into out[]; return their number. */
static inline uint32_t ae_relation_pieces(ae_relation *r, ae_pieces *out[AE_RELATION_PIECES]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < AE_RELATION_PIECES; i++)
        if (r->pieces[i].values)
            out[n++] = &r->pieces[i];
    return n;
}

/* Return the node of a key. */
static inline uint64_t ae_key_node(const aether_sampler *s, uint64_t key) {
    return s->node_bits ? key & ((UINT64_C(1) << s->node_bits) - 1) : key;
}
/* Return the tree of a key: AE_RNG_NO_SEED unless the sample is disjoint. */
static inline uint64_t ae_key_tree(const aether_sampler *s, uint64_t key) {
    return s->node_bits ? key >> s->node_bits : AE_RNG_NO_SEED;
}

/* Check the options, and start a sample that holds the seeds and excludes options->exclude. */
int ae_sample_begin(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                    ae_sample_plan *plan, aether_error *err);

/* End a hop, after all relations: count its new nodes in hop_nodes and make them the frontier. */
void ae_sample_advance(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint64_t *hop_nodes);

/* End the sample, after the last hop: collect induced edges if asked for, and write the totals. */
int ae_sample_finish(aether_sampler *s, const ae_sample_plan *plan, uint64_t *num_nodes, uint64_t *num_edges,
                     aether_error *err);

/* Start a sample that holds the seeds and is not disjoint; for HGT, which has no ae_sample_plan. */
int ae_sample_start(aether_sampler *s, const aether_seeds *seeds, aether_error *err);

/* Drop the current sample. Arrays keep their capacity. */
void ae_sample_clear(aether_sampler *s);

/* Grow keys, map, or both, to room for `bound` nodes of a type. */
int ae_nodes_reserve_keys(const aether_sampler *s, ae_nodes *n, uint64_t bound, aether_error *err);
int ae_nodes_reserve_map(const aether_sampler *s, ae_nodes *n, uint64_t bound, aether_error *err);
int ae_nodes_reserve(const aether_sampler *s, ae_nodes *n, uint64_t bound, aether_error *err);

/* Read the pieces that were asked for by the relation's draws. */
int ae_relation_read(ae_relation *r, ae_staging *staging, aether_task *task, aether_error *err);

/* Drop the sample and free its arrays; the id maps stay. */
void ae_sampler_release(aether_sampler *s);

/* Expand the frontier over relation `r`. Appends edges, and nodes at the far end. */
int ae_sample_hop(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint32_t r, aether_error *err);

/* Replace the edges by all edges among the sampled nodes, on one thread. */
int ae_sample_induced(aether_sampler *s, aether_error *err);

#endif
