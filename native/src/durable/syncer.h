/*
 * durable/syncer.h - a thread that syncs a log some milliseconds after a commit.
 *
 *   commits   | |  |        |  |            a commit that finds nothing waiting sets the clock
 *   syncs         ^ ........   ^ ....       `interval` later all that was appended is synced
 *             |<->|
 *
 * The thread sleeps while nothing waits: an idle graph costs nothing, and a busy one is woken for
 * the first commit of each interval alone.
 *
 * Caveats: a failed sync makes the log read-only, which the next transaction is told. In a forked
 * child there is no thread, and the syncer is not to be touched.
 */
#ifndef AE_DURABLE_SYNCER_H
#define AE_DURABLE_SYNCER_H

#include "log/log.h"

typedef struct ae_syncer ae_syncer;

/* Start the thread. */
int ae_syncer_start(ae_log *log, uint32_t interval_ms, ae_syncer **out, aether_error *err);
/* There is a commit to be synced. */
void ae_syncer_wake(ae_syncer *s);
/* End the thread, after a sync that is under way. NULL is fine. */
void ae_syncer_stop(ae_syncer *s);

#endif
