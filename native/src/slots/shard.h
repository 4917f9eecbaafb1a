/*
 * slots/shard.h - the lock that writers of a shard of rows take.
 *
 *   owner   0 --compare and swap--> word of the process --store--> 0
 *
 * Whoever finds it taken spins, then yields, then asks whether the owner lives: a dead one's lock is taken
 * over, and the row that it had in work stays odd until somebody writes it. Threads of one process have the
 * same word, so one that is killed alone (no system does that) would keep the lock.
 *
 * Caveats: owners are known by their numbers in this pid namespace (os/process.h): let all writers of a table
 * be in one. A stopped owner (SIGSTOP) keeps others waiting, for some seconds; so does whatever other word of
 * a living process is there, as in a file that somebody else has made.
 */
#ifndef AE_SLOTS_SHARD_H
#define AE_SLOTS_SHARD_H

#include <stdbool.h>
#include <time.h>

#include "core/task.h"
#include "slots/layout.h"

#define AE_SHARD_PATIENCE 5 /* seconds for what one living process has all the time */

/* Take the lock. AETHER_E_CANCELLED: the task was cancelled first. AETHER_E_TORN: one living process had it
 * for AE_SHARD_PATIENCE seconds. */
int ae_shard_lock(ae_shard *shard, aether_task *task);

/* Return CLOCK_MONOTONIC in seconds. */
time_t ae_shard_now(void);

static inline void ae_shard_unlock(ae_shard *shard) {
    atomic_store_explicit(&shard->owner, 0, memory_order_release);
}

/* Return whether a living process has this row in work. A system call. */
bool ae_shard_is_writing(const ae_shard *shard, uint64_t row);

#define AE_SHARD_SPINS  64u /* tries before the processor is given to others */
#define AE_SHARD_YIELDS 32u /* of these between two questions whether the owner lives */

/* Wait a little before try number `tries`; true every so often: ask whether the owner lives. */
bool ae_shard_wait(uint32_t tries);

#endif
