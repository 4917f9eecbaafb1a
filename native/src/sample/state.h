/*
 * sample/state.h - the state of one sample: nodes, relations, and the memory of its hops.
 *
 * ae_nodes (sample/relabel/nodes.h), one per node type, holds the nodes. ae_relation, one per edge type,
 * leads from the nodes that are expanded to the nodes that stand in their lists (message passing
 * goes the other way):
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
#ifndef AE_SAMPLE_STATE_H
#define AE_SAMPLE_STATE_H

#include "core/pool.h"
#include "core/task.h"
#include "os/scratch.h"
#include "sample/draw/exclusions.h"
#include "sample/draw/retries.h"
#include "sample/draw/times.h"
#include "sample/draw/weighted.h"
#include "sample/relabel/nodes.h"
#include "topology/list_reader.h"

#define AE_RELATION_CACHES 3u

typedef struct ae_relation {
    const aether_topology *topology;
    ae_weights weights;
    ae_times times;
    uint32_t from, to;        /* node types */
    const uint64_t *excluded; /* positions left out of this sample, ascending; the caller's */
    uint64_t num_excluded;
    ae_scratch first;     /* u64 per expanded node, and one more */
    ae_scratch positions; /* u64 per edge; of the first num_known the edge ids */
    ae_scratch rows;      /* u32 per edge */
    ae_scratch known;     /* weights.known of a far topology */
    ae_scratch ids;       /* u64 per edge of the hop at work; fetch_many of wide ids only */
    uint64_t num_expanded, num_edges;
    uint64_t num_known; /* first edges in whose place `positions` has edge ids (fetch_edges) */
    ae_scratch layers;  /* u64 per hop: where in `first` its nodes begin; layered only */
    uint32_t num_layers;
    ae_value_cache caches[AE_RELATION_CACHES]; /* caches of weights, times and ids that stay in their file */
    ae_retries retries;
    bool in_rounds; /* some values stay in their file: nodes are tried again after reading */
} ae_relation;

struct aether_sampler {
    uint32_t num_types, num_relations;
    ae_nodes *nodes;
    ae_relation *relations;
    ae_scratch lists;             /* ae_list per node of the frontier at work */
    ae_scratch wholes;            /* ae_list per node, before the time cut; weighted and temporal only */
    ae_scratch exclusions;        /* ae_exclusions per node of the frontier at work; exclusion only */
    ae_scratch drawable;          /* u64 per node of the frontier at work; weighted only */
    ae_scratch bounds;            /* i64 since, until per tree, once if they share nodes; temporal only */
    ae_scratch neighbors;         /* u64 per edge of the hop at work (several threads only) */
    ae_scratch sets[AE_POOL_MAX]; /* for ae_uniform_draw, per thread */
    ae_staging staging;           /* of topologies with fetch_many */
    ae_list_reader reader;        /* of topologies with fetch_many: HGT and induced subgraphs */
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

static inline uint64_t *ae_relation_first(const ae_relation *r) {
    return r->first.data;
}

/* Return how many value pages may be held at a time with windows of this size: they are reads, too. */
static inline uint64_t ae_value_pages_most(const ae_staging *staging) {
    return ae_staging_window(staging) / 12;
}

/* Collect the value caches that the relation uses into out[]; return their number. */
static inline uint32_t ae_relation_caches(ae_relation *r, ae_value_cache *out[AE_RELATION_CACHES]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < AE_RELATION_CACHES; i++)
        if (r->caches[i].values)
            out[n++] = &r->caches[i];
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

/* Check that relations fit node types of num_nodes[num_types] nodes, and are whole in themselves. */
int ae_schema_check(const aether_schema *schema, aether_error *err);

/* Start a sample that holds the seeds. */
int ae_sample_start(aether_sampler *s, const aether_seeds *seeds, bool disjoint, aether_error *err);

/* Forget the excluded positions: the caller may free them after the call. */
void ae_sample_forget_excluded(aether_sampler *s);

/* Drop the current sample. Arrays keep their capacity. */
void ae_sample_clear(aether_sampler *s);

/* Drop the sample and free its arrays; the id maps stay: a group lends them to other samples, and a
 * released sample may be made again. */
void ae_sample_release(aether_sampler *s);

/* Free the arrays alone; the id maps stay. */
void ae_sample_free_arrays(aether_sampler *s);
/* Return the bytes of the arrays and the id maps. */
uint64_t ae_sample_memory(const aether_sampler *s);

/* Cut n lists, at most AE_TIMES_MANY, to what the trees of their keys may see in time. May be AE_WANTED where
 * n is 1. */
int ae_sample_cut(const aether_sampler *s, const ae_relation *r, const uint64_t *keys, ae_list *lists,
                  uint64_t n, aether_error *err);

/* Read the value pages that were asked for by the relation's draws. */
int ae_relation_read(ae_relation *r, ae_staging *staging, aether_task *task, aether_error *err);

#endif
