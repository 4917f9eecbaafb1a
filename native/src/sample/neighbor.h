/*
 * sample/neighbor.h - neighbour sampling: hop after hop from the seeds.
 *
 *   ae_sample_begin     options are checked; the sample holds the seeds
 *     each hop: each relation is expanded (sample/hop.h), then
 *   ae_sample_advance   the new nodes become the frontier
 *   ae_sample_finish    totals; induced edges if asked for
 *
 * A group of samples (sample/group.h) goes through the same steps, hop by hop over all of them.
 *
 * Caveats: excluded positions are read where the caller has them, until ae_sample_finish. After an
 * error the sample is half made: ae_sample_clear.
 */
#ifndef AE_SAMPLE_NEIGHBOR_H
#define AE_SAMPLE_NEIGHBOR_H

#include "sample/state.h"

/* Check the options, and start a sample that holds the seeds and excludes options->exclude. */
int ae_sample_begin(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                    ae_sample_plan *plan, aether_error *err);

/* End a hop, after all relations: count its new nodes in hop_nodes and make them the frontier. */
void ae_sample_advance(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint64_t *hop_nodes);

/* End the sample, after the last hop: collect induced edges if asked for, and write the totals. */
int ae_sample_finish(aether_sampler *s, const ae_sample_plan *plan, uint64_t *num_nodes, uint64_t *num_edges,
                     aether_error *err);

#endif
