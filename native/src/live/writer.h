/*
 * live/writer.h - memory of a transaction: what it has touched, what may be reused.
 *
 *   all       commit 13, pins                                one for a graph
 *   lists 0   touched   [ 7 | 9 | 7000 | ... ]              nodes whose list this commit has changed
 *             retired   [ {block, 12} {block, 12} | {block, 13} ]    superseded by that commit; oldest
 *                ^ reused once every pin is at 12 or later           first
 *                                       ^ mark: where this transaction began
 *   lists 1   touched, retired                              the other layout, other relations
 *
 * A transaction writes under the number of the next commit, which readers do not see. Blocks that
 * it makes and drops again go straight back to the arena; blocks that older versions have are
 * retired. Committing is one store. Reading the pins costs a membarrier, so that happens each time
 * some 64 KiB have been retired in all lists together, not at each commit; where readers hold on to
 * most of it, the amount doubles, and dead and overdue readers are looked for.
 *
 * Caveats: one thread of the process that made it.
 */
#ifndef AE_LIVE_WRITER_H
#define AE_LIVE_WRITER_H

#include "live/graph.h"
#include "live/histories.h"

/* A block that only older versions have. */
typedef struct ae_retired {
    ae_ref ref;
    uint32_t units;
    uint64_t commit; /* that did without it */
} ae_retired;

struct ae_writers;

/* What writes the lists of one relation in one layout. */
typedef struct ae_writer {
    ae_table *table;
    ae_arena *arena;
    const ae_base *base; /* NULL: lists begin empty */
    struct ae_writers *all;
    uint64_t commit;        /* that is being written */
    ae_stamp stamp;         /* its */
    uint64_t touched_nodes; /* that ever had a list */
    uint32_t *touched_in;   /* of them, in each huge page of the table */
    uint64_t num_touched_in;
    uint32_t *touched;
    uint64_t num_touched, room_touched;
    ae_retired *retired; /* [first_retired, end_retired) wait */
    uint64_t first_retired, end_retired, room_retired;
    uint64_t mark; /* end_retired when the transaction began */
    ae_histories histories;
    uint64_t retired_units; /* that wait: blocks, and full slabs of histories */
    uint32_t *noted;        /* nodes whose lists lack sums since a change of this transaction */
    uint64_t num_noted, room_noted;
    uint64_t num_unsummed; /* such changes */
} ae_writer;

/* The writers of all lists, which write the same commit. */
typedef struct ae_writers {
    ae_graph *graph;
    uint64_t max_age;       /* of a snapshot in nanoseconds; 0: any */
    uint64_t reclaim_at;    /* units retired that are worth a look at the pins */
    uint64_t retired_units; /* of all lists */
    bool apart;             /* two threads write: nothing of others may be reclaimed */
    ae_writer *lists;       /* as in graph->lists */
} ae_writers;

/* Make the writers; AETHER_E_NO_MEMORY. */
int ae_writers_init(ae_writers *all, ae_graph *graph, uint64_t max_age, aether_error *err);
void ae_writers_free(ae_writers *all);
/* Return the writer of lists, or NULL for NULL. */
static inline ae_writer *ae_writer_of(const ae_writers *all, const ae_lists *lists) {
    return lists ? &all->lists[lists - all->graph->lists] : NULL;
}

/* What a writer has for itself while a thread of its own uses it, and where that belongs. */
typedef struct ae_apart {
    ae_writers own, *all;
    uint64_t own_budget, *budget;
} ae_apart;

/* Let another thread use a writer beside those that use the others of its graph: with half of what memory
 * there is, and without reclaiming, neither here nor there. Full memory is an error then, sooner than else.
 */
void ae_writer_set_apart(ae_writer *w, ae_apart *apart);
void ae_writer_rejoin(ae_writer *w, ae_apart *apart);

/* Begin to write a commit. */
void ae_writer_begin(ae_writer *w, uint64_t commit);
/* Return the head of a node's list as it is now; AE_HEAD_BASE: the list is the base's. */
static inline uint64_t ae_writer_head(const ae_writer *w, uint32_t node) {
    const ae_root *root = ae_table_root(w->table, node);
    if (w->base && (!root || !atomic_load_explicit(&root->past, memory_order_relaxed)))
        return AE_HEAD_BASE;
    return atomic_load_explicit(&root->head, memory_order_relaxed);
}
/* Return the head that the last commit has of a list that was touched. */
uint64_t ae_writer_saved(const ae_writer *w, const ae_root *root);

/* Allocate a block. If the arena is full, what readers have let go is reclaimed first. Returns 0
 * with AETHER_E_NO_MEMORY in `err`, which names the oldest reader. */
ae_ref ae_writer_alloc(ae_writer *w, uint64_t bytes, aether_error *err);
/* Let go of a block: `own` if this transaction made it, else an older version has it. */
void ae_writer_drop(ae_writer *w, ae_ref ref, uint64_t bytes, bool own);
/* Count a node that has its first list. A part of the table that has filled gets a huge page. */
void ae_writer_count_node(ae_writer *w, const ae_root *root);
/* Take back what this transaction has retired. */
void ae_writer_unretire(ae_writer *w);
/* Reuse what no reader can see any more. `hard`: look for readers that are dead or overdue. */
void ae_writers_reclaim(ae_writers *all, bool hard);
/* Reclaim if it is worth a look; look harder where readers hold most of it back. */
void ae_writers_reclaim_some(ae_writers *all);

/* ---- inline, as every change of a list comes by ---- */

static inline void ae_writer_retire(ae_writer *w, ae_ref ref, uint32_t units) {
    w->retired[w->end_retired++] = (ae_retired){ref, units, w->commit};
    w->retired_units += units;
    w->all->retired_units += units;
}

/* Return the units of all blocks and histories. */
static inline uint64_t ae_writer_used(const ae_writer *w) {
    return w->arena->used - (w->histories.filling.units - w->histories.used);
}

/* Return those of them that wait for readers. */
static inline uint64_t ae_writer_waiting(const ae_writer *w) {
    return w->retired_units + w->histories.used;
}

/* Save the version of a node's list, at its first change in this transaction, and make sure that
 * the next `drops` calls of ae_writer_drop() find room. AETHER_E_NO_MEMORY: arena or memory are
 * full. */
int ae_writer_touch(ae_writer *w, uint32_t node, uint32_t drops, aether_error *err);

/* Keep the version of a list before its first change in this transaction, in a history, or, without one, as
 * empty or the base's. There is room. `arena`: its memory. */
static inline void ae_writer_keep(ae_writer *w, uint8_t *arena, uint32_t node, ae_root *root, uint64_t head,
                                  uint64_t past, ae_ref history) {
    if (history)
        *(ae_history *)(void *)(arena + (uint64_t)history * AE_UNIT) =
            (ae_history){.head = head, .stamp = ae_past_stamp(past), .next = ae_past_history(past)};
    w->touched[w->num_touched++] = node;
    atomic_store_explicit(&root->past, ae_past(w->stamp, history), memory_order_release);
}

#endif
