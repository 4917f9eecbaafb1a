/*
 * cache/lock.h - many readers or one writer, and a child that can tell that it inherited it.
 *
 *   bits 63 .. 32              31       30        29 .. 0
 *   generation of the process  writer   sleepers  readers inside
 *
 * fork() copies memory while other threads go on: what a writer was doing then is
 * half there in the child, and nobody will unlock. So the word says in which
 * generation it was last used. The first of the child's threads that claims the lock has it
 * alone, makes anew what it protects, and unlocks.
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

/* true: inherited, and now this thread has it alone. Call before either of the two below. */
bool ae_cache_lock_claim(ae_cache_lock *l);

void ae_cache_lock_shared(ae_cache_lock *l);
void ae_cache_unlock_shared(ae_cache_lock *l);
void ae_cache_lock_alone(ae_cache_lock *l);
void ae_cache_unlock_alone(ae_cache_lock *l);

#endif
