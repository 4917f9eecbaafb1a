/*
 * sample/hop.h - one hop over one relation, in parts.
 *
 *   ae_hop_begin     lists of the frontier, numbers of edges, room for them
 *   ae_hop_turn      (values in a file) both of these and the next, in turns with reading
 *   ae_hop_plan      positions                                  any nodes, any order
 *   (fetch)          what is at the positions
 *   ae_hop_relabel   global ids -> local ids, adding new nodes  from front to back
 *   ae_hop_end       the edges count
 *
 * Caveats: the frontier lies in scratch memory of the sampler, until the next
 * ae_hop_begin; relabelling needs only what stays.
 */
#ifndef AE_SAMPLE_HOP_H
#define AE_SAMPLE_HOP_H

#include "sample/frontier.h"

typedef struct ae_hop {
    aether_sampler *s;
    ae_relation *r;
    ae_nodes *from, *to;
    const ae_sample_plan *plan;
    uint64_t rng_base;
    int64_t fanout;
    uint64_t begin, count;                                    /* frontier */
    uint64_t slot;                                            /* of its first node in `first` */
    uint64_t first_edge, num_edges;                           /* this hop's edges */
    ae_frontier frontier;                                     /* no lists: nothing is drawn */
    enum { AE_HOP_LISTS, AE_HOP_DRAWS, AE_HOP_PLANNED } turn; /* what turns are about */
} ae_hop;

int ae_hop_begin(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint32_t relation, ae_hop *out,
                 aether_error *err);
void ae_hop_end(const ae_hop *h);

/* Positions of this hop's edges, and their rows. */
static inline uint64_t *ae_hop_positions(const ae_hop *h) {
    return (uint64_t *)h->r->positions.data + h->first_edge;
}
static inline uint32_t *ae_hop_rows(const ae_hop *h) {
    return (uint32_t *)h->r->rows.data + h->first_edge;
}
/* First edge of each node of the frontier, and of what comes after it. */
static inline const uint64_t *ae_hop_first(const ae_hop *h) {
    return ae_relation_first(h->r) + h->slot;
}

/* Positions of the frontier nodes [from, to). */
int ae_hop_plan(const ae_hop *h, uint64_t from, uint64_t to, ae_scratch *set, aether_error *err);

/* Where weights or times are read in pieces: the lists, their numbers of edges, and their
 * positions. AE_WANTED: once more, when what the relation's pieces ask for was read. */
int ae_hop_turn(ae_hop *h, uint64_t most, ae_scratch *set, aether_error *err);

/* Room for the nodes that the hop may find, before the first is relabelled. */
int ae_hop_reserve_nodes(const ae_hop *h, aether_error *err);

/* What fetch_many has to bring, into memory of the relation. */
int ae_hop_ask(const ae_hop *h, ae_fetch *job, aether_error *err);

/* Relabel all that was asked for and has come. */
int ae_hop_relabel_all(const ae_hop *h, const ae_fetch *job, aether_error *err);

/* In a disjoint sample a neighbour belongs to the tree of its destination: ids of n
 * edges become keys. `node` is the frontier node that this has come to, 0 at first. */
void ae_hop_add_trees(const ae_hop *h, uint64_t edge, uint64_t n, uint64_t *ids, uint64_t *node);

/* Ask for what relabelling will read. */
void ae_hop_prefetch(const ae_hop *h, const uint64_t *keys, uint64_t n);

/* Local ids of n keys; new ones are appended to the nodes. */
void ae_hop_relabel(const ae_hop *h, const uint64_t *keys, uint64_t n, uint32_t *rows);

#endif
