#include "io/ordered.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/minmax.h"
#include "io/file.h"
#include "io/queue.h"

#define PARTS 4u

typedef struct part {
    ae_io_batch batch;
    aether_io_request request;
    bool finished;
} part;

typedef struct reader {
    aether_io *io;
    ae_io_queue *queue;
    aether_task *task;
    uint8_t *memory;
    uint64_t offset, size; /* range to read */
    uint64_t submitted;    /* bytes submitted so far */
    part parts[PARTS];
} reader;

/* A thread that cannot get a ring reads by pread, unless io_uring was asked for, as in
 * aether_io_read. */
static int open_queue(const aether_io *io, ae_io_queue **out, aether_error *err) {
    int rc = ae_io_queue_create(io->tier, out, err);
    if (rc && !io->forced && io->tier != AE_IO_FALLBACK)
        rc = ae_io_queue_create(AE_IO_FALLBACK, out, err);
    return rc;
}

static int submit(reader *r, part *p, aether_error *err) {
    uint64_t size = ae_min_u64(AE_IO_PART, r->size - r->submitted);
    if (size == 0)
        return AETHER_OK;
    p->request = (aether_io_request){r->offset + r->submitted, size,
                                     r->memory + (uint64_t)(p - r->parts) * AE_IO_PART};
    p->batch = (ae_io_batch){.io = r->io, .requests = &p->request, .num_requests = 1, .task = r->task};
    p->batch.user = p;
    p->finished = false;
    r->submitted += size;
    return ae_io_submit(r->queue, &p->batch, err);
}

static int wait_for_part(reader *r, part *p, aether_error *err) {
    while (!p->finished) {
        ae_io_batch *b = ae_io_reap(r->queue, true);
        if (!b)
            return ae_error_set(err, AETHER_E_IO, "reading '%s' stopped", r->io->path);
        ((part *)b->user)->finished = true;
    }
    if (p->batch.rc && err)
        *err = p->batch.error;
    return p->batch.rc;
}

static int take_all(reader *r, ae_io_take take, void *user, aether_error *err) {
    int rc = AETHER_OK;
    for (uint32_t i = 0; i < PARTS && !rc; i++)
        rc = submit(r, &r->parts[i], err);
    for (uint64_t done = 0; done < r->size && !rc;) {
        part *p = &r->parts[done / AE_IO_PART % PARTS];
        rc = wait_for_part(r, p, err);
        if (!rc)
            rc = take(user, p->request.buffer, p->request.length, err);
        done += p->request.length;
        if (!rc)
            rc = submit(r, p, err);
    }
    return rc;
}

int ae_io_read_ordered(aether_io *io, uint64_t offset, uint64_t size, ae_io_take take, void *user,
                       aether_task *task, aether_error *err) {
    reader r = {.io = io, .task = task, .offset = offset, .size = size};
    r.memory = ae_io_alloc(PARTS * AE_IO_PART, err);
    int rc = r.memory ? open_queue(io, &r.queue, err) : AETHER_E_NO_MEMORY;
    rc = rc ? rc : take_all(&r, take, user, err);
    ae_io_queue_destroy(r.queue); /* waits for the reads under way */
    free(r.memory);
    return rc;
}
