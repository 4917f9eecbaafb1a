/*
 * sample/draw/weight_sums.h - running sums of the weights of long lists, so that a draw reads
 * one block of a list instead of all of it.
 *
 *   list       [ 64 entries | 64 entries | 64 entries and the rest ]
 *                         |            |                         |
 *   sums    [ ... |      s0     |     s1      |     s2    | ... ]
 *
 *   s1 = total weight, and number of weights above 0, of the list from its start to the end
 *        of block 1
 *
 * The sums of a list begin at slot start / 64 of the table: a list of n entries has
 * n / 64 blocks, so no two lists meet, and no index is needed. A draw of x searches
 * the sums for the block in which the running sum passes x, and adds up from there:
 * the same additions in the same order as over the whole list.
 *
 * Where the topology has the weights itself there is no table. It may have the sums of a list, too; else they
 * are made for the draws of one node, in its scratch memory. That reads the list. Either way it draws what a
 * table would draw.
 *
 * Caveats: 16 bytes per 64 edges. Lists shorter than AE_WEIGHT_SUMS_LONG have no sums. A sum may be
 * infinite. Weights in a file may have changed since the sums were made: look-ups stay within the
 * list whatever the weights are.
 */
#ifndef AE_SAMPLE_DRAW_WEIGHT_SUMS_H
#define AE_SAMPLE_DRAW_WEIGHT_SUMS_H

#include "sample/draw/weights.h"

/* The sums of a list of at least AE_WEIGHT_SUMS_LONG entries, or of its first ones. */
typedef struct ae_summed_list {
    ae_list list;
    const ae_weight_sum *sums;
    bool closed; /* the last sum is that of the whole list, not that behind its last block */
} ae_summed_list;

/* Return a list with its sums in the table. */
static inline ae_summed_list ae_weight_sums_of(const aether_weight_sums *s, ae_list list) {
    return (ae_summed_list){list, s->table + list.start / AE_WEIGHT_SUMS_BLOCK, true};
}

/* Return the number of blocks, and so of sums, of such a list. */
static inline uint64_t ae_weight_sums_blocks(ae_list list) {
    return list.degree / AE_WEIGHT_SUMS_BLOCK;
}

/* Read a list and write its sums to `out`; of a short list there are none (`out` may be NULL). Returns by
 * `total` what the whole list adds up to. */
int ae_weight_sums_make(const ae_weights *weights, const aether_topology *t, ae_list list, ae_weight_sum *out,
                        ae_weight_sum *total, aether_error *err);

/* Compute the sum of the first n entries of a long list, by its sums. */
int ae_weight_sums_before(const ae_weights *weights, const aether_topology *t, const ae_summed_list *l,
                          uint64_t n, ae_weight_sum *out, aether_error *err);

/* Find the first entry of a long list at which the running sum of weights passes x, or list.degree
 * if none does. */
int ae_weight_sums_find(const ae_weights *weights, const aether_topology *t, const ae_summed_list *l,
                        double x, uint64_t *entry, aether_error *err);

#endif
