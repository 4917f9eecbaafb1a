/*
 * cache/lock.h - a lock for many readers or one writer, which a forked child takes over safely.
 *
 *   bits 63 .. 32              31       30        29 .. 0
 *   generation of the process  writer   sleepers  readers inside
 *
 * fork() copies memory while other threads go on: in the child a writer's change may be
 * half done, and no thread will unlock. So the word holds the generation of the process that
 * used the lock last. The first of the child's threads that claims the lock has it
 * alone, makes the protected data anew, and unlocks.
 *
 * Caveats: a writer keeps new readers out while it waits for those inside. Not
 * recursive: a reader that locks again may wait for ever. Do not fork while holding it.
 */
#ifndef AE_CACHE_LOCK_H
#define AE_CACHE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct ae_cache_lock {
    atomic_ullong word;
} ae_cache_lock;

void ae_cache_lock_init(ae_cache_lock *l);

/* Return true if the lock was inherited, in which case this thread has it alone now. Call before
 * locking. */
bool ae_cache_lock_claim(ae_cache_lock *l);

/* Lock for one of many readers. */
void ae_cache_lock_shared(ae_cache_lock *l);
void ae_cache_unlock_shared(ae_cache_lock *l);
/* Lock for one writer. */
void ae_cache_lock_alone(ae_cache_lock *l);
void ae_cache_unlock_alone(ae_cache_lock *l);

#endif
