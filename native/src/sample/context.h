/*
 * sample/context.h - contexts: a fixed number of rows around each seed, in breadth-first order.
 *
 *   place     0     1     2     3     4     5            the rows of one context
 *   row     [ o7 | c3  | p1  | o9  | o2  | c5  | -1 .. ]
 *   from    [ -1    0     0     1     1     2    -1 .. ]
 *
 *   round:  rows next .. of every context of a block
 *             -> lists (locate, by relation) -> cut by time -> positions drawn
 *             -> ids (fetch, by relation)    -> new rows, in the order of rows and relations
 *
 * A context is what expanding one row after the other gives, until `budget` rows are there. That a
 * round expands several rows of several contexts at once only overlaps their cache misses, and lets
 * lists in a file be read in the order of the file. A round takes so few rows that the entries they
 * may add are about as many as the context lacks: hardly anything is read in vain. Of a list that is
 * wanted whole no more than `budget` entries are read in a round; the others only if those did not fill
 * the context, which is so where a row refers to another several times.
 *
 * Source: the context of Ranjan and others, "Relational Transformer: Toward Zero-Shot Foundation Models
 * for Relational Data" (arXiv 2510.06377): foreign keys are followed whole, references to a row up to a
 * width, nothing is later than the seed. There cells are counted; here, rows.
 *
 * The draws of row v along relation r come from the stream (key, AE_CONTEXT_HOP, r, v, seed), where
 * the seed is id * types + type: where a seed stands among the seeds does not matter.
 *
 * Caveats: Floyd's draws are not in random order (sample/draw/uniform.h), and a context may end amid
 * them: they are shuffled, by the draws of the stream behind those of the choice. A block serves one
 * thread, and keeps its memory for the next seeds.
 */
#ifndef AE_SAMPLE_CONTEXT_H
#define AE_SAMPLE_CONTEXT_H

#include "sample/draw/times.h"
#include "topology/list_reader.h"

#define AE_CONTEXT_HOP  (UINT32_MAX - 1) /* no hop of a sampler, nor of a walk */
#define AE_CONTEXT_MOST (UINT32_C(1) << 24)

/* One call: its arguments, checked, and what follows from them. */
typedef struct ae_contexts {
    const aether_relation *relations;
    uint32_t num_relations, num_types;
    const aether_context_seeds *seeds;
    const aether_context_options *options;
    const aether_context_rows *out;
    uint32_t *followed;       /* relations by the type that they lead from ... */
    uint32_t *first_followed; /* ... [types + 1]: where those of each begin */
    uint64_t *widths;         /* [types]: entries that a row of the type adds at most, or about */
    uint64_t slots;           /* of the table that finds the rows of a context */
    uint64_t block;           /* seeds at a time */
} ae_contexts;

/* One list to follow. */
typedef struct ae_context_step {
    uint32_t seed, place, relation; /* seed of the block, place of the row that is expanded */
    uint32_t count;                 /* entries drawn */
    uint64_t first;                 /* where they are among those of the round */
    uint64_t rest;                  /* entries behind them, of a list that is wanted whole */
} ae_context_step;

/* Memory of the contexts that one thread makes together. */
typedef struct ae_context_block {
    ae_scratch places;    /* u32 [block][slots]: place + 1 of the row in that slot; 0: none */
    ae_scratch next;      /* u32 [block]: first place that is not expanded yet */
    ae_scratch steps;     /* ae_context_step, in the order in which entries become rows */
    ae_scratch order;     /* u32: the steps, by relation */
    ae_scratch nodes;     /* u64: the nodes of the steps, by relation */
    ae_scratch lists;     /* ae_list: their lists */
    ae_scratch positions; /* u64: entries, by relation */
    ae_scratch ids;       /* u64: what stands there */
    ae_scratch begins;    /* u64 [relations + 1], twice: of steps, of positions */
    ae_scratch set;       /* of ae_uniform_draw */
    ae_list_reader reader;
    uint64_t num_steps, num_positions;
} ae_context_block;

/* Write the contexts of the `count` seeds from `seed` on, at most w->block of them. */
int ae_context_block_run(const ae_contexts *w, ae_context_block *b, uint64_t seed, uint64_t count,
                         aether_error *err);
void ae_context_block_free(ae_context_block *b);

#endif
