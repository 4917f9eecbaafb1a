/*
 * durable/lock.h - one journal at a time in a directory.
 *
 *   wal.lock   "1234\n": the process that has it, under an exclusive flock
 *
 * The lock goes with the process, however it ends, although its children share what is locked: each closes
 * its copy when it is forked.
 *
 * Caveats: a child that was made without fork(), by a bare system call, keeps the lock until it ends.
 */
#ifndef AE_DURABLE_LOCK_H
#define AE_DURABLE_LOCK_H

#include <stdbool.h>

#include "aether.h"

typedef struct ae_lock {
    int fd; /* -1: not this process's */
    struct ae_lock *next;
} ae_lock;

/* Take the lock; *lock stays where it is until it is released. Unless its holder `writes`, the file need not
 * be writable, nor be there at all where it cannot be made: then nobody can write. AETHER_E_INVALID names the
 * process that has it. */
int ae_lock_take(const char *directory, bool writes, ae_lock *lock, aether_error *err);
/* Let go of it. Does nothing in a forked child. */
void ae_lock_release(ae_lock *lock);

#endif
