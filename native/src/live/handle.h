/*
 * live/handle.h - what an aether_live is: the memory, and, where it was created, its writer.
 *
 *   live.c      opening, transactions, statistics
 *   change.c    inserting, deleting, adding nodes
 *
 * Caveats: a handle belongs to the process that created it; a forked child can only read.
 */
#ifndef AE_LIVE_HANDLE_H
#define AE_LIVE_HANDLE_H

#include "live/graph.h"
#include "live/journal.h"
#include "live/transaction.h"

struct aether_live {
    ae_graph graph;
    ae_transaction transaction;
    uint64_t owner;      /* process that may change the graph; 0: this handle was attached */
    ae_journal *journal; /* told of every change; closed with the graph; NULL: there is none */
    bool log_is_closed;  /* it had a journal and has none: a change would be lost */
};

/* Check that this process can change the graph. */
int ae_live_check_writer(const aether_live *g, aether_error *err);
/* Begin a transaction for one call, unless one is open. */
int ae_live_begin_call(aether_live *g, bool *own, aether_error *err);
/* End the call: a failure undoes the transaction, the call's own or the caller's. */
int ae_live_end_call(aether_live *g, bool own, int rc, aether_error *err);
/* Check that n ids are nodes: below `count`. `name` is that of the array. */
int ae_live_check_ids(const char *name, const int64_t *ids, uint64_t n, uint64_t count, aether_error *err);

#endif
