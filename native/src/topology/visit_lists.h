/*
 * topology/visit_lists.h - visiting every list of a topology, in parallel.
 *
 *   ae_visit_lists(t, visit, ctx)
 *        thread 0: visit(node 0), visit(1), ...   visit(8192), ...
 *        thread 1: visit(4096), ...
 *
 * Alias tables, member tables and sums of weights are built this way, once from a whole graph.
 * Each thread has one scratch array for its visits.
 *
 * Caveats: lists of no entries are not visited. The order of visits is open; the
 * first failure ends the run.
 */
#ifndef AE_TOPOLOGY_VISIT_LISTS_H
#define AE_TOPOLOGY_VISIT_LISTS_H

#include "os/scratch.h"
#include "topology/topology.h"

typedef int (*ae_visit)(const void *ctx, const aether_topology *t, uint64_t node, ae_list list,
                        ae_scratch *scratch, aether_error *err);

/* Visit every list that has entries. Fails as a visit does, or with AETHER_E_CANCELLED. `task`
 * counts edges. */
int ae_visit_lists(const aether_topology *t, ae_visit visit, const void *ctx, aether_task *task,
                   aether_error *err);

#define AE_VISIT_POSITIONS 256

/* Write the next positions of a list of which `done` were handled; return how many. */
static inline uint64_t ae_visit_positions(ae_list list, uint64_t done,
                                          uint64_t positions[AE_VISIT_POSITIONS]) {
    uint64_t n = list.degree - done < AE_VISIT_POSITIONS ? list.degree - done : AE_VISIT_POSITIONS;
    for (uint64_t i = 0; i < n; i++)
        positions[i] = list.start + done + i;
    return n;
}

#endif
