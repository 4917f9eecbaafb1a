/*
 * io/read.h - reading a batch and waiting for it: aether_io_read().
 *
 * Every thread keeps a queue per tier for it, made at its first read and released
 * when the thread ends; a forked child makes new ones.
 */
#ifndef AE_IO_READ_H
#define AE_IO_READ_H

#include "aether.h"

/* Read the file's first bytes through its tier, which may not work here. */
int ae_io_try(aether_io *io, aether_error *err);

#endif
