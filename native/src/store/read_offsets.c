/* Building ae_offsets from a file: a few long reads under way, taken in order. */
#include "core/error.h"
#include "core/least.h"
#include "core/task.h"
#include "io/file.h"
#include "io/queue.h"
#include "store/offsets.h"

#include <inttypes.h>
#include <stdlib.h>

#define PART  ((uint64_t)1 << 20)
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
    uint64_t offset, size; /* of the values in the file */
    uint64_t submitted;    /* bytes */
    part parts[PARTS];
} reader;

/* As aether_io_read does: no ring, no need to fail, unless a ring was asked for. */
static int open_queue(const aether_io *io, ae_io_queue **out, aether_error *err) {
    int code = ae_io_queue_create(io->tier, out, err);
    if (code && !io->forced && io->tier != AETHER_IO_PREAD)
        code = ae_io_queue_create(AETHER_IO_PREAD, out, err);
    return code;
}

static int submit(reader *r, part *p, aether_error *err) {
    uint64_t size = ae_min_u64(PART, r->size - r->submitted);
    if (size == 0)
        return AETHER_OK;
    p->request =
        (aether_io_request){r->offset + r->submitted, size, r->memory + (uint64_t)(p - r->parts) * PART};
    p->batch = (ae_io_batch){.io = r->io, .requests = &p->request, .num_requests = 1, .task = r->task};
    p->batch.user = p;
    p->finished = false;
    r->submitted += size;
    return ae_io_submit(r->queue, &p->batch, err);
}

static int wait_for(reader *r, part *p, aether_error *err) {
    while (!p->finished) {
        ae_io_batch *b = ae_io_reap(r->queue, true);
        if (!b)
            return ae_error_set(err, AETHER_E_IO, "reading '%s' stopped", r->io->path);
        ((part *)b->user)->finished = true;
    }
    if (p->batch.code && err)
        *err = p->batch.error;
    return p->batch.code;
}

static int append_all(reader *r, ae_offsets *o, aether_error *err) {
    int code = AETHER_OK;
    for (uint32_t i = 0; i < PARTS && !code; i++)
        code = submit(r, &r->parts[i], err);
    for (uint64_t done = 0; done < r->size && !code;) {
        part *p = &r->parts[done / PART % PARTS];
        code = wait_for(r, p, err);
        if (!code)
            code = ae_offsets_append(o, p->request.buffer, p->request.length / sizeof(uint64_t), err);
        done += p->request.length;
        if (!code)
            code = submit(r, p, err);
    }
    return code ? code : ae_offsets_finish(o, err);
}

static int read_end(aether_io *io, uint64_t at, uint64_t *value, aether_error *err) {
    aether_io_request request = {at, sizeof *value, value};
    return aether_io_read(io, &request, 1, NULL, err);
}

static int check_ends(const aether_io *io, uint64_t offset, uint64_t count, uint64_t first, uint64_t last,
                      aether_error *err) {
    if (first != 0)
        return ae_error_at(err, AETHER_E_CORRUPT, 0, (int64_t)first,
                           "the offsets at byte %" PRIu64 " of '%s' begin with %" PRIu64 ", not 0", offset,
                           io->path, first);
    if (last > INT64_MAX)
        return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)count - 1, (int64_t)last,
                           "the offsets at byte %" PRIu64 " of '%s' end with %" PRIu64 ", above 2^63", offset,
                           io->path, last);
    return AETHER_OK;
}

int ae_offsets_read(aether_io *io, uint64_t offset, uint64_t count, aether_task *task, ae_offsets **out,
                    aether_error *err) {
    uint64_t first, last, room = offset < io->size ? (io->size - offset) / sizeof first : 0;
    *out = NULL;
    if (count == 0 || count > room)
        return ae_error_at(err, AETHER_E_RANGE, (int64_t)offset, (int64_t)count,
                           "%" PRIu64 " offsets at byte %" PRIu64 " are not in '%s' (%" PRIu64 " bytes)",
                           count, offset, io->path, io->size);
    reader r = {.io = io, .task = task, .offset = offset, .size = count * sizeof first};
    int code = read_end(io, offset, &first, err);
    code = code ? code : read_end(io, offset + r.size - sizeof last, &last, err);
    code = code ? code : check_ends(io, offset, count, first, last, err);
    if (code)
        return code;
    ae_task_begin(task, r.size);
    r.memory = ae_io_alloc(PARTS * PART, err);
    code = r.memory ? open_queue(io, &r.queue, err) : AETHER_E_NO_MEMORY;
    code = code ? code : ae_offsets_create(count, last, out, err);
    code = code ? code : append_all(&r, *out, err);
    ae_io_queue_destroy(r.queue); /* waits for what is under way */
    free(r.memory);
    if (code) {
        ae_offsets_destroy(*out);
        *out = NULL;
    }
    return code;
}
