#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/read.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/error.h"
#include "core/task.h"
#include "io/file.h"
#include "io/queue.h"
#include "io/range.h"
#include "io/source.h"

/* ---- a thread's queues -------------------------------------------------------------- */

/* A thread reads by one tier or two, so a list is enough. There is more than one entry of a tier
 * only if a task's poll() read while a queue was in use. */
typedef struct own_queue {
    const ae_io_tier_ops *tier;
    ae_io_queue *queue;
    bool in_use;
    struct own_queue *next;
} own_queue;

static pthread_key_t key;
static bool has_key;

static void destroy_own_queues(void *p) {
    for (own_queue *q = p, *next; q; q = next) {
        next = q->next;
        ae_io_queue_destroy(q->queue);
        free(q);
    }
}

__attribute__((constructor)) static void make_key(void) {
    has_key = pthread_key_create(&key, destroy_own_queues) == 0;
}

/* Return an entry of the thread for a tier that is not in use, with a queue or without one yet; NULL: out
 * of memory. */
static own_queue *own_of(const ae_io_tier_ops *tier) {
    own_queue *first = has_key ? pthread_getspecific(key) : NULL, *q = first;
    while (q && (q->tier != tier || q->in_use))
        q = q->next;
    if (q || !has_key)
        return q;
    q = malloc(sizeof *q);
    if (q)
        *q = (own_queue){tier, NULL, false, first};
    if (q && pthread_setspecific(key, q) != 0) {
        free(q);
        q = NULL;
    }
    return q;
}

static int take_queue(const ae_io_tier_ops *tier, ae_io_queue **out, aether_error *err) {
    own_queue *own = own_of(tier);
    if (!own)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory preparing reads");
    if (own->queue && (ae_io_queue_inherited(own->queue) || ae_io_queue_broken(own->queue))) {
        ae_io_queue_destroy(own->queue);
        own->queue = NULL;
    }
    int rc = own->queue ? AETHER_OK : ae_io_queue_create(tier, &own->queue, err);
    own->in_use = rc == AETHER_OK;
    *out = own->queue;
    return rc;
}

/* A thread that cannot get a ring reads by pread, unless io_uring was asked for. */
int ae_io_take_queue(const aether_io *io, ae_io_queue **out, aether_error *err) {
    int rc = take_queue(io->tier, out, err);
    if (rc && !io->forced && io->tier != AE_IO_FALLBACK)
        rc = take_queue(AE_IO_FALLBACK, out, err);
    return rc;
}

void ae_io_give_back_queue(const ae_io_queue *queue) {
    own_queue *q = pthread_getspecific(key);
    while (q && q->queue != queue)
        q = q->next;
    if (q)
        q->in_use = false;
}

/* ---- reading ------------------------------------------------------------------------- */

static int read_batch(ae_io_queue *q, ae_io_batch *batch, aether_error *err) {
    int rc = ae_io_submit(q, batch, err);
    if (rc)
        return rc;
    ae_io_reap(q, true);
    if (batch->rc && err)
        *err = batch->error;
    return batch->rc;
}

int ae_io_try(aether_io *io, aether_error *err) {
    ae_io_queue *q;
    uint8_t *data = ae_io_alloc(AE_IO_PAGE, err);
    if (!data)
        return AETHER_E_NO_MEMORY;
    int rc = take_queue(io->tier, &q, err);
    if (rc) {
        free(data);
        return rc;
    }
    aether_io_request request = {0, io->size < AE_IO_PAGE ? io->size : AE_IO_PAGE, data};
    ae_io_batch batch = {.io = io, .requests = &request, .num_requests = 1};
    rc = read_batch(q, &batch, NULL);
    ae_io_give_back_queue(q);
    if (rc)
        rc = ae_error_set(err, AETHER_E_UNSUPPORTED, "reading by %s does not work here: %s", io->tier->name,
                          batch.error.message);
    free(data);
    return rc;
}

int aether_io_read(aether_io *io, const aether_io_request *requests, uint64_t n, aether_task *task,
                   aether_error *err) {
    ae_io_queue *q;
    uint64_t total = 0;
    int rc = ae_io_take_queue(io, &q, err);
    if (rc)
        return rc;
    for (uint64_t i = 0; task && i < n; i++)
        total += requests[i].length;
    ae_task_begin(task, total);
    ae_io_batch batch = {.io = io, .requests = requests, .num_requests = n, .task = task};
    rc = read_batch(q, &batch, err);
    ae_io_give_back_queue(q);
    return ae_io_end(io, rc, err);
}
