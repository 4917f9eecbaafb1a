/*
 * durable/lock.h - one journal at a time in a directory.
 *
 *   wal.lock   "1234\n": the process that has it, under an exclusive flock
 *
 * Caveats: the lock goes with the process, however it ends; but a child that it forked keeps it until
 * the child ends, too.
 */
#ifndef AE_DURABLE_LOCK_H
#define AE_DURABLE_LOCK_H

#include "aether.h"

/* Take the lock; *fd holds it. AETHER_E_INVALID names the process that has it. */
int ae_lock_take(const char *directory, int *fd, aether_error *err);
/* Let go of it, for children as well. */
void ae_lock_release(int fd);

#endif
