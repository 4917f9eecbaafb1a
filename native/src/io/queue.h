/*
 * io/queue.h - batches of reads, several in flight, for one thread.
 *
 *   ae_io_submit(queue, batch) ----> waiting: batch -> batch -> ...
 *                                        | cut into reads of at most 1 MiB
 *                                    slots: read read read ...  (<= depth, <= 4 MiB)
 *                                        | tier
 *   ae_io_reap(queue) <------------- finished: batch -> ...
 *
 * A batch belongs to its submitter and stays where it is until it has been reaped,
 * with its requests and their buffers; `user` is the submitter's. Batches of
 * several files share a queue. After a failure or a cancellation no more reads of the
 * batch begin, and the batch is finished when the system has given back those under way.
 *
 * In a direct file, a read that is not aligned (offset, length or buffer) is widened and
 * goes to a buffer of its slot, 64 KiB at a time, then is copied.
 *
 * Caveats
 *   - The thread that creates a queue is the one that uses and destroys it.
 *   - Submitting only begins what fits; reads go on in submit and reap.
 *   - In a forked child a queue can only be destroyed.
 */
#ifndef AE_IO_QUEUE_H
#define AE_IO_QUEUE_H

#include <stdbool.h>

#include "aether/io.h"
#include "io/tier.h"

typedef struct ae_io_queue ae_io_queue;

typedef struct ae_io_batch {
    aether_io *io;
    const aether_io_request *requests;
    uint64_t num_requests;
    aether_task *task; /* may be NULL; bytes are added to `done` */
    void *user;
    /* the outcome, once reaped */
    int rc;
    aether_error error;
    /* the queue's */
    uint64_t next_request, next_byte; /* where cutting goes on */
    uint64_t in_flight;
    uint64_t failed; /* index of the request that `error` is about */
    struct ae_io_batch *next;
} ae_io_batch;

/* Create a queue for files of one tier. */
int ae_io_queue_create(const ae_io_tier_ops *tier, ae_io_queue **out, aether_error *err);
/* Wait for the reads under way, then free the queue. NULL is fine. */
void ae_io_queue_destroy(ae_io_queue *q);
/* Return whether the queue belongs to the process that this one was forked from. */
bool ae_io_queue_inherited(const ae_io_queue *q);
/* Return whether the queue's ring has failed; make another queue then. */
bool ae_io_queue_broken(const ae_io_queue *q);

/* Submit a batch and begin the reads that fit. AETHER_E_RANGE: a request past the end of the file;
 * AETHER_E_INVALID: a buffer is NULL, or the queue is inherited. The batch is not taken then. */
int ae_io_submit(ae_io_queue *q, ae_io_batch *batch, aether_error *err);

/* Return a finished batch. If there is none, return NULL, or with `wait` wait for the next that
 * finishes; NULL also when nothing is under way. */
ae_io_batch *ae_io_reap(ae_io_queue *q, bool wait);

#endif
