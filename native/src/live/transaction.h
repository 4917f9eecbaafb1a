/*
 * live/transaction.h - changes of lists that readers see at once, or never.
 *
 *   begin    nothing is touched
 *   touch, edit (live/edit.h)    heads change; readers go by the commit that they have pinned
 *   commit   one store: the number of the last commit
 *   abort    heads as the last commit has them
 *
 * Undoing puts the saved heads back and commits: restoring `past` as well would let a reader that
 * has loaded a new head take it for an old one. So an undone transaction uses up a commit number,
 * and its numbers are those of the commit before.
 *
 * Caveats: one thread of the process that made the writer. There is no log yet: a log will record
 * what aether_live_insert() and its kin are given and write it out before ae_transaction_commit().
 */
#ifndef AE_LIVE_TRANSACTION_H
#define AE_LIVE_TRANSACTION_H

#include "live/writer.h"

/* Begin a transaction. AETHER_E_LIMIT: there are no commit numbers left. */
int ae_transaction_begin(ae_writer *w, aether_error *err);
void ae_transaction_commit(ae_writer *w);
void ae_transaction_abort(ae_writer *w);

#endif
