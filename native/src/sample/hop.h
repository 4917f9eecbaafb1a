/*
 * sample/hop.h - one hop over one relation, for one sample or a group of them.
 *
 *   frontier [ 3 4 5 6 ]  --ae_hop_run-->  edges of 3, 4, 5, 6, and their far ends 7, 8, ...
 *
 *   lists       [ {start, degree} ... ]   per node of the frontier: cut to what its tree may see in time
 *   wholes      [ {start, degree} ... ]   the lists before the cut, for sums of weights; or NULL
 *   exclusions  [ {positions, n}  ... ]   excluded positions within the list, or NULL
 *   drawable    [ n               ... ]   entries of a weight above 0, or NULL
 *
 * hop.c goes from top to bottom through a hop. A group (sample/group.h) takes its steps one by one:
 *
 *   ae_hop_begin        lists of the frontier, number of edges of each, room for the edges
 *   ae_rounds_next      (values in a file, sample/rounds.h) lists, numbers and positions, around reads
 *   ae_hop_plan         positions of the edges                     any nodes, any order
 *   ae_hop_ask          what to fetch, for ops->fetch_many
 *   ae_hop_relabel_all  global ids -> local ids, adding new nodes  from front to back
 *   ae_hop_end          the edges become part of the sample
 *
 * Caveats: the four arrays lie in scratch memory of the sampler, until the next ae_hop_begin; relabelling
 * needs only what stays. After an error some edges and nodes may be there already; callers clear the sample.
 */
#ifndef AE_SAMPLE_HOP_H
#define AE_SAMPLE_HOP_H

#include "sample/state.h"

typedef struct ae_hop {
    aether_sampler *s;
    ae_relation *r;
    ae_nodes *from, *to;
    const ae_sample_plan *plan;
    uint64_t rng_base;
    int64_t fanout;
    uint64_t begin, count;          /* frontier */
    uint64_t slot;                  /* of the frontier's first node in `first` */
    uint64_t first_edge, num_edges; /* this hop's edges */
    ae_list *lists;                 /* NULL: nothing is drawn */
    ae_list *wholes;
    ae_exclusions *exclusions;
    uint64_t *drawable;
    bool in_time;       /* lists are cut to what a tree may see */
    bool located;       /* all lists are there before they are cut */
    bool with_edge_ids; /* fetching puts edge ids in the place of positions, as in all hops before this */
    enum { AE_HOP_LISTS, AE_HOP_DRAWS, AE_HOP_PLANNED } stage; /* what rounds do next */
} ae_hop;

/* Begin hop `hop` over a relation: find the lists of the frontier, count its edges and reserve room. Where
 * values stay in a file there are whole lists only: rounds (sample/rounds.h) do the rest. */
int ae_hop_begin(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint32_t relation, ae_hop *out,
                 aether_error *err);
/* Add the hop's edges and expanded nodes to the sample. */
void ae_hop_end(const ae_hop *h);

/* Return the positions of this hop's edges. */
static inline uint64_t *ae_hop_positions(const ae_hop *h) {
    return (uint64_t *)h->r->positions.data + h->first_edge;
}
/* Return where the edges of each frontier node begin: count + 1 numbers. */
static inline const uint64_t *ae_hop_first(const ae_hop *h) {
    return ae_relation_first(h->r) + h->slot;
}

/* Find the lists of frontier nodes [at, at + n), at most AE_TIMES_MANY, and what may be drawn of them. May be
 * AE_WANTED where n is 1. */
int ae_hop_find_lists(const ae_hop *h, uint64_t at, uint64_t n, aether_error *err);
/* Count the edges of all lists, and reserve room for them. */
int ae_hop_count_edges(ae_hop *h, aether_error *err);
/* Draw `count` positions of frontier node i into `out`, where all `room` entries may be overwritten. May be
 * AE_WANTED. */
int ae_hop_plan_node(const ae_hop *h, uint64_t i, uint64_t count, uint64_t *out, uint64_t room,
                     ae_scratch *set, aether_error *err);
/* Draw the positions of the frontier nodes [from, to). `set` is scratch of the calling thread. */
int ae_hop_plan(const ae_hop *h, uint64_t from, uint64_t to, ae_scratch *set, aether_error *err);

/* Draw the positions, fetch the ids there and relabel them. */
int ae_hop_run(const ae_hop *h, aether_error *err);

/* Describe the hop's positions as a job for fetch_many, whose ids go to memory of the relation. */
int ae_hop_ask(const ae_hop *h, ae_fetch *job, aether_error *err);

/* Relabel all ids of a job that fetch_many has filled. */
int ae_hop_relabel_all(const ae_hop *h, const ae_fetch *job, aether_error *err);

#endif
