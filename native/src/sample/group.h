/*
 * sample/group.h - several samples at once, layer by layer.
 *
 *   hop 0   plan 0 1 2 3 | fetch_many of all | relabel 0 1 2 3
 *   hop 1   plan 0 1 2 3 | fetch_many of all | relabel 0 1 2 3
 *   hop 2   plan 0 1 2 3 | fetch_many of all |         take 0, take 1, ...
 *
 * Several samples need the same pages, and more samples make longer reads. Each sample is the one
 * that aether_sample_typed would make.
 *
 * The map from nodes to local ids is the largest part of a sample, and is needed only while the
 * sample is relabelled. So each worker thread has one set of maps, lends it to the sample that it
 * relabels, and enters the nodes that this sample has already. The last hop, which is most of a
 * sample, is relabelled when the sample is taken.
 *
 * Caveats: a group is used by one thread at a time. One sample is taken at a time, and
 * taking the next releases its memory.
 */
#ifndef AE_SAMPLE_GROUP_H
#define AE_SAMPLE_GROUP_H

#include "sample/hop.h"

/* Memory of one thread. */
typedef struct ae_worker {
    ae_idmap *maps; /* per node type */
    uint64_t *held; /* entries that the last sample left in each map */
    ae_scratch set; /* for ae_hop_plan */
} ae_worker;

typedef struct ae_member {
    aether_sampler *sampler;
    ae_sample_plan plan;
    ae_hop *hops;     /* [relations] of the hop at work */
    ae_fetch *jobs;   /* [relations] */
    uint64_t *counts; /* hop_nodes[types][hops + 1], hop_edges[relations][hops] */
    bool waits;       /* sampled, except for relabelling the last hop */
} ae_member;

struct aether_group {
    uint32_t num_types, num_relations, capacity, size, num_workers;
    ae_member *members;
    ae_worker *workers;
    ae_fetch *jobs;          /* [capacity], of one relation */
    ae_value_cache **caches; /* [capacity], of one vector of values */
    ae_staging staging;
    uint64_t most_pages; /* of values in a file that all members may hold at a time, about */
    uint32_t taken;      /* the member whose memory the caller reads; capacity: none */
};

#endif
