/*
 * sample/weights.h - reading the weights of a list.
 *
 *   list      [ p   p+1  p+2 | ... ]     positions, a block at a time
 *   edge id   [ 7    2    9  | ... ]     or the positions themselves
 *   weight    [ .5   0    3  | ... ]     0 at the holes
 *
 * Caveats: a weight that is negative, infinite or NaN is AETHER_E_INVALID, an edge
 * id out of range AETHER_E_CORRUPT. Neither was checked before: files may change.
 */
#ifndef AE_SAMPLE_WEIGHTS_H
#define AE_SAMPLE_WEIGHTS_H

#include <stdbool.h>

#include "sample/holes.h"
#include "sample/pieces.h"
#include "store/topology.h"

typedef struct ae_weights {
    const void *values; /* by edge id; NULL: unweighted */
    bool is_double;
    const aether_weight_sums *sums; /* of these weights; NULL: none */
    ae_pieces *pieces;              /* where they are read in pieces, else NULL */
} ae_weights;

#define AE_WEIGHTS_BLOCK 256

typedef struct ae_weight_reader {
    const ae_weights *weights;
    const aether_topology *t;
    ae_list list;
    ae_holes holes;
    ae_holes drawn; /* weigh nothing either */
    uint64_t hole, seen;
    uint64_t at, n; /* entries [at, at + n) of the list are in `block` */
    double block[AE_WEIGHTS_BLOCK];
} ae_weight_reader;

void ae_weights_open(ae_weight_reader *r, const ae_weights *weights, const aether_topology *t, ae_list list,
                     ae_holes holes, ae_holes drawn);
void ae_weights_rewind(ae_weight_reader *r);

/* The next block; n is 0 at the end. AE_WANTED: all that is left of the list was asked for. */
int ae_weights_next(ae_weight_reader *r, aether_error *err);

#endif
