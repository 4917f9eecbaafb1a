/*
 * sample/hop.h - the steps of one hop over one relation, for one sample or a group of them.
 *
 *   ae_hop_begin      lists of the frontier, number of edges of each, room for the edges
 *   ae_hop_round      (values in a file) lists, numbers and positions, by retries around reads
 *   ae_hop_plan       positions of the edges                     any nodes, any order
 *   (fetch)           neighbour ids at the positions             ops->fetch or ops->fetch_many
 *   ae_nodes_relabel  global ids -> local ids, adding new nodes  from front to back
 *   ae_hop_end        the edges become part of the sample
 *
 * native/README.md follows one hop through these functions ("The life of a hop").
 *
 * Caveats: the frontier lies in scratch memory of the sampler, until the next
 * ae_hop_begin; relabelling needs only what stays.
 */
#ifndef AE_SAMPLE_HOP_H
#define AE_SAMPLE_HOP_H

#include "sample/state.h"

/* The lists of the nodes that a hop expands, and how much of each may be drawn. */
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

typedef struct ae_hop {
    aether_sampler *s;
    ae_relation *r;
    ae_nodes *from, *to;
    const ae_sample_plan *plan;
    uint64_t rng_base;
    int64_t fanout;
    uint64_t begin, count;                                     /* frontier */
    uint64_t slot;                                             /* of the frontier's first node in `first` */
    uint64_t first_edge, num_edges;                            /* this hop's edges */
    ae_frontier frontier;                                      /* no lists: nothing is drawn */
    enum { AE_HOP_LISTS, AE_HOP_DRAWS, AE_HOP_PLANNED } stage; /* what ae_hop_round does next */
} ae_hop;

/* Begin hop `hop` over a relation: prepare the frontier, count its edges and reserve room. With
 * values in a file the frontier has room for its lists only: ae_hop_round does the rest. */
int ae_hop_begin(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint32_t relation, ae_hop *out,
                 aether_error *err);
/* Add the hop's edges and expanded nodes to the sample. */
void ae_hop_end(const ae_hop *h);

/* Return the positions of this hop's edges. */
static inline uint64_t *ae_hop_positions(const ae_hop *h) {
    return (uint64_t *)h->r->positions.data + h->first_edge;
}
/* Return the rows (local ids of the far ends) of this hop's edges. */
static inline uint32_t *ae_hop_rows(const ae_hop *h) {
    return (uint32_t *)h->r->rows.data + h->first_edge;
}
/* Return where the edges of each frontier node begin: count + 1 numbers. */
static inline const uint64_t *ae_hop_first(const ae_hop *h) {
    return ae_relation_first(h->r) + h->slot;
}

/* Draw the positions of the frontier nodes [from, to). `set` is scratch of the calling thread. */
int ae_hop_plan(const ae_hop *h, uint64_t from, uint64_t to, ae_scratch *set, aether_error *err);

/* Where weights or times stay in a file: first prepare the lists and count their edges, then
 * draw positions. AE_WANTED: read the value pages that were asked for (ae_relation_read), then call
 * again. AETHER_OK: h->stage says what comes next. */
int ae_hop_round(ae_hop *h, uint64_t most, ae_scratch *set, aether_error *err);

/* Estimate the value pages that preparing the lists of a hop that has begun asks for. */
uint64_t ae_hop_value_pages(const ae_hop *h);

/* Describe the hop's positions as a job for fetch_many, whose ids go to memory of the relation. */
int ae_hop_ask(const ae_hop *h, ae_fetch *job, aether_error *err);

/* Relabel all ids of a job that fetch_many has filled. */
int ae_hop_relabel_all(const ae_hop *h, const ae_fetch *job, aether_error *err);

/* Turn the ids of n edges into keys of a disjoint sample, where a neighbour belongs to the tree of
 * its destination. `node` is a frontier node at or before that of the first edge, and is moved
 * along. */
void ae_hop_add_trees(const ae_hop *h, uint64_t edge, uint64_t n, uint64_t *ids, uint64_t *node);

/* Expand the frontier over relation `r`. Appends edges, and nodes at the far end. */
int ae_sample_expand(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint32_t r,
                     aether_error *err);

#endif
