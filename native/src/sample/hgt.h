/*
 * sample/hgt.h - HGT sampling: nodes of every type drawn from a budget.
 *
 * Hu, Dong, Wang and Sun, "Heterogeneous Graph Transformer", WWW 2020, algorithms
 * 1 and 2. In every hop
 *
 *   spread   each node that the hop before has sampled adds 1 / degree to the score
 *            of every entry of its lists, over all edge types
 *   draw     of each type num_samples nodes leave the budget, without replacement
 *            and in proportion to score^2 (sample/draw/reservoir.h)
 *
 * and after the last one the edges are all those among the sampled nodes
 * (induced.c). ae_budget, one per node type:
 *
 *   slot     0     1    2    3    4   ...     by first appearance
 *   nodes  [ s0    s1   n2   n3   n4  ... ]   global node; the map finds its slot
 *   scores [ -inf -inf  0.5  -inf 1.2 ... ]   -inf: seed or sampled
 *
 * A score of -inf stays -inf whatever is added, so an entry costs one look-up and no test
 * whether its node was sampled already.
 *
 * From a list longer than max_neighbors that many entries are drawn (draw/uniform.h), each
 * for 1 / max_neighbors: the expected score stays the same, and hubs stay cheap.
 *
 * Draws are pure functions of (key, hop, node type, node), and of (key, hop, edge
 * type, node) for the long lists, with AE_HGT_LISTS set in the hop. Scores are added
 * up in one order: edge types, then nodes by local id, then their lists.
 *
 * Caveats: one thread. Equal seeds add to the scores once each. Weights and times
 * of edges play no part. Nothing allocates in the steady state (see sample/state.h).
 */
#ifndef AE_SAMPLE_HGT_H
#define AE_SAMPLE_HGT_H

#include "sample/state.h"

#define AE_HGT_LISTS (UINT32_C(1) << 31)

typedef struct ae_budget {
    ae_idmap map;
    ae_scratch nodes;  /* u64 per slot, and one more */
    ae_scratch scores; /* double per slot */
    uint64_t size;     /* slots */
} ae_budget;

typedef struct ae_hgt {
    ae_budget *budgets;   /* by node type */
    ae_scratch positions; /* u64 per list entry of the edge type at work */
} ae_hgt;

/* Free the budgets; NULL is fine. */
void ae_hgt_free(ae_hgt *h, uint32_t num_types);
/* Return the bytes held; 0 for NULL. */
uint64_t ae_hgt_memory(const ae_hgt *h, uint32_t num_types);

#endif
