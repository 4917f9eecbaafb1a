/*
 * io/read.h - reading a batch and waiting for it: aether_io_read().
 *
 * Every thread keeps one queue per tier, made at the thread's first read and released
 * when the thread ends; a forked child makes new queues. A queue is one reader's at a time:
 * what a task's poll() reads while one is in use gets another one.
 */
#ifndef AE_IO_READ_H
#define AE_IO_READ_H

#include "io/queue.h"

/* Take a queue of the calling thread for a file. Reap all batches before giving it back. */
int ae_io_take_queue(const aether_io *io, ae_io_queue **out, aether_error *err);
/* Give back the queue that the calling thread has taken. */
void ae_io_give_back_queue(const ae_io_queue *queue);

/* Read the file's first bytes through its tier, to find out whether the tier works here. */
int ae_io_try(aether_io *io, aether_error *err);

#endif
