/*
 * sample/draw/weights.h - reading the weights of a list.
 *
 *   list      [ p   p+1  p+2 | ... ]     positions, a block at a time
 *   edge id   [ 7    2    9  | ... ]     or the positions themselves
 *   weight    [ .5   0    3  | ... ]     0 at excluded positions
 *
 * Weights are an array by edge id, a vector in a file, or asked of the topology by position; of a far one
 * those of all lists of a hop at once (ae_weights_know).
 *
 * Caveats: a weight that is negative, infinite or NaN is AETHER_E_INVALID, an edge
 * id out of range AETHER_E_CORRUPT. Both are checked at every read: files may change.
 */
#ifndef AE_SAMPLE_DRAW_WEIGHTS_H
#define AE_SAMPLE_DRAW_WEIGHTS_H

#include <stdbool.h>

#include "os/scratch.h"
#include "sample/draw/exclusions.h"
#include "sample/draw/value_cache.h"
#include "topology/topology.h"

/* Weights of whole lists of a far topology, which were asked for together. */
typedef struct ae_known_weights {
    const ae_list *lists; /* ascending, none twice */
    const uint64_t *at;   /* where the values of each begin */
    const double *values;
    uint64_t n;
} ae_known_weights;

typedef struct ae_weights {
    const void *values; /* by edge id; NULL: the topology's own, or unweighted */
    bool is_double;
    const aether_weight_sums *sums; /* of these weights; NULL: none */
    ae_value_cache *cache;          /* cache of values that stay in a file, else NULL */
    bool own;                       /* the topology has them */
    ae_known_weights known;         /* of the hop at work; n = 0: none */
} ae_weights;

/* Return whether edges have weights at all. */
static inline bool ae_weights_given(const ae_weights *w) {
    return w->values || w->own;
}

/* Return whether the weights of a list lie one after the other, from values[start] on. */
static inline bool ae_weights_in_order(const ae_weights *w, const aether_topology *t) {
    return w->values && !w->cache && t->edge_ids_are_positions;
}

#define AE_WEIGHTS_BLOCK 256

typedef struct ae_weight_reader {
    const ae_weights *weights;
    const aether_topology *t;
    ae_list list;
    ae_exclusions exclusions;
    ae_exclusions drawn; /* drawn before, so they count as 0 too */
    uint64_t next_exclusion, next_drawn;
    uint64_t at, n; /* entries [at, at + n) of the list are in `block` */
    double block[AE_WEIGHTS_BLOCK];
} ae_weight_reader;

/* Ask for the weights of n lists in one question, as many of them as `scratch` is to hold, for the time until
 * it is called again; the others are asked for when they are read. */
int ae_weights_know(ae_weights *w, const aether_topology *t, const ae_list *lists, uint64_t n,
                    ae_scratch *scratch, aether_error *err);

/* Begin to read the weights of a list; the positions of `exclusions` and `drawn` read as 0. */
void ae_weights_open(ae_weight_reader *r, const ae_weights *weights, const aether_topology *t, ae_list list,
                     ae_exclusions exclusions, ae_exclusions drawn);
/* Go back to the first block. */
void ae_weights_rewind(ae_weight_reader *r);

/* Read the next block; r->n is 0 at the end. AE_WANTED: the value pages of the rest of the list were
 * asked for and have to be read first. */
int ae_weights_next(ae_weight_reader *r, aether_error *err);

#endif
