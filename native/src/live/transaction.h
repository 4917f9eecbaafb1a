/*
 * live/transaction.h - changes of lists that readers see at once, or never.
 *
 *   begin    nothing is touched
 *   open a relation; touch, edit (live/edit.h)    heads change; readers go by the commit that they
 *                                                 have pinned
 *   commit   one store: the number of the last commit
 *   abort    heads as the last commit has them
 *
 * Undoing puts the saved heads back and commits: restoring `past` as well would let a reader that
 * has loaded a new head take it for an old one. So an undone transaction uses up a commit number,
 * and its numbers are those of the commit before.
 *
 * Begin and commit take no longer where a graph has many relations: they deal with those that the
 * transaction has opened.
 *
 * Caveats: one thread of the process that made it. Journals (live/journal.h) are its callers' affair.
 */
#ifndef AE_LIVE_TRANSACTION_H
#define AE_LIVE_TRANSACTION_H

#include "live/sweep.h"
#include "live/writer.h"

/* What a transaction does to a relation. */
typedef struct ae_changing {
    ae_counts counts;     /* as the transaction leaves them */
    uint64_t commit;      /* of the transaction that has opened it last */
    ae_writer *csc, *csr; /* NULL: not stored */
} ae_changing;

typedef struct ae_transaction {
    ae_writers writers;
    ae_control *control;
    uint64_t commit; /* that is being written */
    uint64_t lsn;    /* number of the last commit in a log; 0: there is none */
    ae_sweep sweep;
    bool open;
    ae_changing *relations;
    uint32_t *opened; /* relations [num_opened] */
    uint32_t num_opened;
} ae_transaction;

int ae_transaction_init(ae_transaction *t, ae_graph *graph, uint64_t max_age, aether_error *err);
void ae_transaction_free(ae_transaction *t);

/* Begin a transaction. AETHER_E_LIMIT: there have been 2^48 commits. */
int ae_transaction_begin(ae_transaction *t, aether_error *err);
/* Return a relation to change in the open transaction. */
ae_changing *ae_transaction_open(ae_transaction *t, uint32_t relation);
void ae_transaction_commit(ae_transaction *t);
void ae_transaction_abort(ae_transaction *t);

/* Bring the statistics of all relations up to date. */
void ae_transaction_put_usage(ae_transaction *t);

#endif
