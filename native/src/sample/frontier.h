/*
 * sample/frontier.h - the lists of the nodes that a hop expands, and how much of
 * each may be drawn.
 *
 *   lists       [ {start, degree} ... ]   per node: cut to what its tree may see in time
 *   wholes      [ {start, degree} ... ]   the lists before the cut, for sums of weights; or NULL
 *   exclusions  [ {positions, n}  ... ]   excluded positions within the list, or NULL
 *   drawable    [ n               ... ]   entries of a weight above 0, or NULL
 *
 * Caveats: lives in the sampler's scratch memory, until the next hop.
 */
#ifndef AE_SAMPLE_FRONTIER_H
#define AE_SAMPLE_FRONTIER_H

#include "sample/state.h"

typedef struct ae_frontier {
    ae_list *lists; /* NULL: nothing is drawn (fanout 0) */
    ae_list *wholes;
    ae_exclusions *exclusions;
    uint64_t *drawable;
} ae_frontier;

/* Prepare the lists of `count` nodes from local id `begin` on, of the type that `r` expands. */
int ae_frontier_prepare(aether_sampler *s, ae_relation *r, const ae_sample_plan *plan, int64_t fanout,
                        uint64_t begin, uint64_t count, ae_frontier *out, aether_error *err);

/* Find the whole lists of these nodes, where values stay in a file: ae_frontier_node prepares
 * one after the other. */
int ae_frontier_begin(aether_sampler *s, const ae_relation *r, int64_t fanout, uint64_t begin, uint64_t count,
                      ae_frontier *out, aether_error *err);
/* Prepare list i of a frontier of ae_frontier_begin. AE_WANTED: its value pages have to be read first. */
int ae_frontier_node(const aether_sampler *s, const ae_relation *r, const ae_sample_plan *plan,
                     int64_t fanout, uint64_t begin, uint64_t i, const ae_frontier *f, aether_error *err);

/* Cut a list to the part that the tree of `key` may see in time; may be AE_WANTED. */
int ae_frontier_restrict(const aether_sampler *s, const ae_relation *r, uint64_t key, ae_list *list,
                         aether_error *err);

/* Return list i as ae_weighted_draw takes it. */
static inline ae_weighted_list ae_frontier_weighted(const ae_frontier *f, const ae_relation *r, uint64_t i) {
    return (ae_weighted_list){&r->weights, r->topology, f->wholes ? f->wholes[i] : f->lists[i], f->lists[i],
                              f->exclusions ? f->exclusions[i] : (ae_exclusions){0}};
}

/* Return how many entries of list i can be drawn. */
static inline uint64_t ae_frontier_size(const ae_frontier *f, uint64_t i) {
    if (f->drawable)
        return f->drawable[i];
    return f->lists[i].degree - (f->exclusions ? f->exclusions[i].count : 0);
}

#endif
