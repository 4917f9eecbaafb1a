/*
 * io/read.h - reading a batch and waiting for it: aether_io_read().
 *
 * Every thread keeps one queue per tier, made at the thread's first read and released
 * when the thread ends; a forked child makes new queues.
 */
#ifndef AE_IO_READ_H
#define AE_IO_READ_H

#include "io/queue.h"

/* Return the calling thread's queue for a file. Batches that the caller submits have to be reaped
 * before it returns. */
int ae_io_own_queue(const aether_io *io, ae_io_queue **out, aether_error *err);

/* Read the file's first bytes through its tier, to find out whether the tier works here. */
int ae_io_try(aether_io *io, aether_error *err);

#endif
