/*
 * io/read.h - reading a batch and waiting for it: aether_io_read().
 *
 * Every thread keeps a queue per tier for it, made at its first read and released
 * when the thread ends; a forked child makes new ones.
 */
#ifndef AE_IO_READ_H
#define AE_IO_READ_H

#include "io/queue.h"

/* The calling thread's queue for a file. What is submitted there has to be reaped
 * before the caller returns. */
int ae_io_own_queue(const aether_io *io, ae_io_queue **out, aether_error *err);

/* Read the file's first bytes through its tier, which may not work here. */
int ae_io_try(aether_io *io, aether_error *err);

#endif
