/*
 * durable/keeper.h - the thread of a journal: it syncs batches, and fills the next segment.
 *
 *   commits   | |  |        |  |            a commit that finds nothing waiting sets the clock
 *   syncs         ^ ........   ^ ....       `interval` later all that was appended is synced
 *             |<->|
 *
 *   segment   [ | | | | |     ]             half full: a spare one is filled with zeros, so that no
 *   spare                 [0000000000]      commit has to wait for that
 *
 * The thread sleeps while there is nothing to do: an idle graph costs nothing, and a busy one is woken
 * for the first commit of each interval alone.
 *
 * Caveats: a failed sync makes the log read-only, which the next transaction is told; a spare that
 * cannot be filled is tried again by the commit that needs it. In a forked child there is no thread, and
 * the keeper is not to be touched.
 */
#ifndef AE_DURABLE_KEEPER_H
#define AE_DURABLE_KEEPER_H

#include "log/log.h"

typedef struct ae_keeper ae_keeper;

/* Start the thread. It syncs interval_ms after a commit; 0: never. */
int ae_keeper_start(ae_log *log, uint32_t interval_ms, ae_keeper **out, aether_error *err);
/* A commit was appended. */
void ae_keeper_tell(ae_keeper *k);
/* End the thread, after what is under way. NULL is fine. */
void ae_keeper_stop(ae_keeper *k);

#endif
