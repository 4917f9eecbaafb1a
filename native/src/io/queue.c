#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/task.h"
#include "io/file.h"
#include "io/range.h"
#include "io/tier.h"

#define MAX_READ     (1u << 20)  /* bytes; longer requests become several reads */
#define MAX_COPIED   (64u << 10) /* bytes; longer unaligned reads become several */
#define MAX_ATTEMPTS 500         /* most attempts of a read that the system puts off: half a second */
#define QUICK        10          /* of these, those that follow each other at once */

struct ae_io_queue {
    const ae_io_tier_ops *tier;
    void *state;
    pid_t process;
    bool broken;
    uint32_t in_flight;
    uint64_t bytes_in_flight;
    ae_io_op *free;
    struct {
        ae_io_batch *first, *last;
    } active, finished; /* in order of submission; in order of finishing */
    ae_io_op slots[AE_IO_DEPTH_MAX];
};

ae_io_hooks ae_io_hook;

void ae_io_set_hooks(const ae_io_hooks *hooks) {
    ae_io_hook = hooks ? *hooks : (ae_io_hooks){0};
}

/* ---- making one ----------------------------------------------------------------------- */

int ae_io_queue_create(const ae_io_tier_ops *tier, ae_io_queue **out, aether_error *err) {
    *out = NULL;
    ae_io_queue *q = calloc(1, sizeof *q);
    if (!q)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory preparing reads");
    q->tier = tier;
    q->process = getpid();
    int rc = q->tier->create(&q->state, err);
    if (rc) {
        free(q);
        return rc;
    }
    for (uint32_t i = AE_IO_DEPTH_MAX; i-- > 0;) {
        q->slots[i].next = q->free;
        q->free = &q->slots[i];
    }
    *out = q;
    return AETHER_OK;
}

bool ae_io_queue_inherited(const ae_io_queue *q) {
    return q->process != getpid();
}

bool ae_io_queue_broken(const ae_io_queue *q) {
    return q->broken;
}

void ae_io_queue_destroy(ae_io_queue *q) {
    if (!q)
        return;
    if (ae_io_queue_inherited(q)) {
        q->tier->abandon(q->state);
    } else {
        for (ae_io_batch *b = q->active.first; b; b = b->next)
            b->rc = b->rc ? b->rc : AETHER_E_CANCELLED; /* no more reads of the batch begin */
        while (q->active.first)
            ae_io_reap(q, true);
        q->tier->destroy(q->state);
    }
    for (uint32_t i = 0; i < AE_IO_DEPTH_MAX; i++)
        free(q->slots[i].bounce);
    free(q);
}

/* ---- batches -------------------------------------------------------------------------- */

/* A batch reports the error of its first failed request, and begins no more reads. */
static aether_error *failing(ae_io_batch *b, uint64_t request) {
    if (b->rc && b->failed <= request)
        return NULL;
    b->failed = request;
    return &b->error;
}

static void cancel_if_asked(ae_io_batch *b) {
    if (!b->rc && ae_task_cancelled(b->task))
        b->rc = ae_error_set(failing(b, 0), AETHER_E_CANCELLED, "reading '%s' was cancelled", b->io->path);
}

static void skip_empty_requests(ae_io_batch *b) {
    while (b->next_request < b->num_requests && b->next_byte == b->requests[b->next_request].length) {
        b->next_request++;
        b->next_byte = 0;
    }
}

static bool has_more(const ae_io_batch *b) {
    return !b->rc && b->next_request < b->num_requests;
}

static void finish_batch(ae_io_queue *q, ae_io_batch *b) {
    ae_io_batch **at = &q->active.first, *before = NULL;
    for (; *at != b; at = &(*at)->next)
        before = *at;
    *at = b->next;
    if (q->active.last == b)
        q->active.last = before;
    b->next = NULL;
    if (q->finished.last)
        q->finished.last->next = b;
    else
        q->finished.first = b;
    q->finished.last = b;
}

static void finish_if_done(ae_io_queue *q, ae_io_batch *b) {
    if (b->in_flight == 0 && !has_more(b))
        finish_batch(q, b);
}

/* ---- one read ---------------------------------------------------------------------------- */

static void count(atomic_ullong *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void begin_read(ae_io_queue *q, ae_io_op *op) {
    const aether_io *io = op->batch->io;
    op->start = op->got & ~(io->alignment - 1); /* a direct read goes on at an aligned byte */
    op->length = op->size - op->start;
    if (ae_io_hook.length)
        op->length = ae_io_hook.length(op->offset + op->start, op->length);
    q->tier->push(q->state, op);
}

static void begin_again(ae_io_queue *q, ae_io_op *op) {
    count(&op->batch->io->stats.repeated, 1);
    begin_read(q, op);
}

static bool has_bounce(ae_io_op *op, uint32_t size) {
    if (op->bounce_size >= size)
        return true;
    free(op->bounce);
    op->bounce = ae_io_alloc(size, NULL);
    op->bounce_size = op->bounce ? size : 0;
    return op->bounce != NULL;
}

/* Cut the next read off the batch; return false if there is no memory for it. */
static bool cut_read(ae_io_batch *b, ae_io_op *op) {
    const aether_io *io = b->io;
    const aether_io_request *r = &b->requests[b->next_request];
    uint64_t offset = r->offset + b->next_byte, left = r->length - b->next_byte, length;
    uint8_t *target = (uint8_t *)r->buffer + b->next_byte;
    bool aligned = ae_io_is_aligned(offset, io->alignment) &&
                   ae_io_is_aligned((uint64_t)(uintptr_t)target, io->memory_alignment);
    if (aligned && (ae_io_is_aligned(left, io->alignment) || left > MAX_COPIED)) {
        length = left < MAX_READ ? left & ~(uint64_t)(io->alignment - 1) : MAX_READ;
        op->offset = offset;
        op->data = target;
        op->target = NULL;
        op->size = op->needed = (uint32_t)length;
        op->skip = 0;
    } else {
        uint64_t skip = offset & (io->alignment - 1), room = MAX_COPIED - skip;
        length = left < room ? left : room;
        ae_io_range range = ae_io_align(offset, length, io->alignment);
        if (!has_bounce(op, (uint32_t)range.size))
            return false;
        op->offset = range.offset;
        op->data = op->bounce;
        op->target = target;
        op->size = (uint32_t)range.size;
        op->needed = (uint32_t)(range.skip + length);
        op->skip = (uint32_t)range.skip;
    }
    op->batch = b;
    op->fd = io->fd;
    op->request = b->next_request;
    op->got = op->attempts = 0;
    b->next_byte += length;
    skip_empty_requests(b);
    return true;
}

static void release_read(ae_io_queue *q, ae_io_op *op) {
    op->next = q->free;
    q->free = op;
    q->in_flight--;
    q->bytes_in_flight -= op->size;
    op->batch->in_flight--;
    finish_if_done(q, op->batch);
}

static void succeed(ae_io_op *op) {
    if (op->target)
        memcpy(op->target, op->data + op->skip, op->needed - op->skip);
    ae_task_add(op->batch->task, op->needed - op->skip);
}

static void fail_os(ae_io_op *op, int os_errno) {
    ae_io_batch *b = op->batch;
    aether_error *err = failing(b, op->request);
    uint64_t at = op->offset + op->start;
    if (!err)
        return;
    b->rc = ae_error_os(err, os_errno, "cannot read '%s' at byte %" PRIu64 " (%" PRIu32 " bytes)",
                        b->io->path, at, op->length);
    err->position = (int64_t)at;
    err->value = op->length;
}

static void fail_short(ae_io_op *op) {
    ae_io_batch *b = op->batch;
    aether_error *err = failing(b, op->request);
    uint64_t at = op->offset + op->got;
    if (err)
        b->rc = ae_error_at(err, AETHER_E_FILE_CHANGED, (int64_t)at, (int64_t)b->io->size,
                            "'%s' shrank from %" PRIu64 " to %" PRIu64 " bytes while it was open",
                            b->io->path, b->io->size, at);
}

/* EAGAIN: the system is short of something for a moment. Waiting is sleeping: on a busy machine a thread
 * that only yields has its turn after all others, and so many turns take a quarter of an hour. */
static bool put_off(ae_io_op *op, int os_errno) {
    if (os_errno == EINTR)
        return true;
    if (os_errno != EAGAIN || ++op->attempts >= MAX_ATTEMPTS)
        return false;
    if (op->attempts > QUICK)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return true;
}

static void come_back(ae_io_queue *q, ae_io_op *op) {
    ae_io_batch *b = op->batch;
    int32_t result = op->result;
    if (ae_io_hook.result)
        result = ae_io_hook.result(op->offset + op->start, result);
    if (result > 0)
        count(&b->io->stats.bytes, (uint64_t)result);
    if (result < 0 && !b->rc && put_off(op, -result)) {
        begin_again(q, op);
        return;
    }
    if (result < 0) {
        fail_os(op, -result);
    } else if (op->start + (uint32_t)result <= op->got) {
        fail_short(op); /* no new bytes: the file ends here */
    } else {
        op->got = op->start + (uint32_t)result;
        op->attempts = 0;
        if (op->got < op->needed && !b->rc) {
            begin_again(q, op);
            return;
        }
        if (op->got >= op->needed)
            succeed(op);
    }
    release_read(q, op);
}

/* ---- the queue in motion ------------------------------------------------------------------ */

static void note_in_flight(const ae_io_queue *q, aether_io *io) {
    unsigned long long most = atomic_load_explicit(&io->stats.max_in_flight, memory_order_relaxed);
    while (q->in_flight > most &&
           !atomic_compare_exchange_weak_explicit(&io->stats.max_in_flight, &most, q->in_flight,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Reads that were begun in one go, so that counters shared by threads are touched once for all. */
typedef struct read_counts {
    uint64_t reads, copied;
    uint64_t size_reads[AETHER_IO_SIZES], size_bytes[AETHER_IO_SIZES];
} read_counts;

static void add_op(read_counts *all, const ae_io_op *op) {
    uint32_t size = 0;
    while (size + 1 < AETHER_IO_SIZES && op->size > 4096u << size)
        size++;
    all->reads++;
    all->copied += op->target != NULL;
    all->size_reads[size]++;
    all->size_bytes[size] += op->size;
}

static void count_begun(const ae_io_queue *q, aether_io *io, const read_counts *all) {
    if (!all->reads)
        return;
    count(&io->stats.reads, all->reads);
    count(&io->stats.copied, all->copied);
    for (uint32_t i = 0; i < AETHER_IO_SIZES; i++)
        if (all->size_reads[i]) {
            count(&io->stats.size_reads[i], all->size_reads[i]);
            count(&io->stats.size_bytes[i], all->size_bytes[i]);
        }
    note_in_flight(q, io);
}

/* Begin as many reads of a batch as fit; return false if more do not. */
static bool fill_from(ae_io_queue *q, ae_io_batch *b) {
    read_counts all = {0};
    while (has_more(b) && q->in_flight < b->io->depth && q->bytes_in_flight < AE_IO_MAX_IN_FLIGHT) {
        ae_io_op *op = q->free;
        if (!cut_read(b, op)) {
            b->rc = ae_error_set(failing(b, b->next_request), AETHER_E_NO_MEMORY,
                                 "out of memory reading '%s'", b->io->path);
            break;
        }
        q->free = op->next;
        q->in_flight++;
        q->bytes_in_flight += op->size;
        b->in_flight++;
        add_op(&all, op);
        begin_read(q, op);
    }
    count_begun(q, b->io, &all);
    return !has_more(b);
}

static bool fill_queue(ae_io_queue *q) {
    bool all = true;
    for (ae_io_batch *b = q->active.first, *next; b && all; b = next) {
        next = b->next;
        cancel_if_asked(b);
        all = fill_from(q, b);
        finish_if_done(q, b);
    }
    return all;
}

static void enter_tier(ae_io_queue *q, uint32_t wanted) {
    struct timespec from, to;
    aether_io *io = q->active.first->io;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (q->tier->enter(q->state, wanted) != 0)
        q->broken = true;
    clock_gettime(CLOCK_MONOTONIC, &to);
    count(&io->stats.wait_ns,
          (uint64_t)((to.tv_sec - from.tv_sec) * 1000000000 + (to.tv_nsec - from.tv_nsec)));
}

/* One round: begin, hand over, wait, take back. While more reads can begin, wait for a quarter
 * of those under way: the device stays busy, and one system call serves many reads. Later, wait
 * for the oldest batch. */
static void turn(ae_io_queue *q, bool wait) {
    bool all = fill_queue(q);
    if (q->in_flight == 0 || !q->active.first)
        return;
    uint64_t wanted = all ? q->active.first->in_flight : q->in_flight / 4;
    enter_tier(q, !wait ? 0 : wanted ? (uint32_t)wanted : 1);
    for (ae_io_op *op; (op = q->tier->pop(q->state));)
        come_back(q, op);
}

static int check_batch(const ae_io_queue *q, const ae_io_batch *b, aether_error *err) {
    uint64_t size = b->io->size;
    if (ae_io_queue_inherited(q))
        return ae_error_set(err, AETHER_E_INVALID, "a queue for reads does not survive a fork: make another");
    for (uint64_t i = 0; i < b->num_requests; i++) {
        const aether_io_request *r = &b->requests[i];
        if (r->offset > size || r->length > size - r->offset)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)r->offset,
                               "request %" PRIu64 ": %" PRIu64 " bytes at %" PRIu64
                               " are past the end of '%s' (%" PRIu64 " bytes)",
                               i, r->length, r->offset, b->io->path, size);
        if (r->length && !r->buffer)
            return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, 0, "request %" PRIu64 " has no buffer", i);
    }
    return AETHER_OK;
}

int ae_io_submit(ae_io_queue *q, ae_io_batch *b, aether_error *err) {
    int rc = check_batch(q, b, err);
    if (rc)
        return rc;
    b->rc = AETHER_OK;
    ae_error_clear(&b->error);
    b->next_request = b->next_byte = b->in_flight = b->failed = 0;
    b->next = NULL;
    skip_empty_requests(b);
    count(&b->io->stats.requests, b->num_requests);
    if (q->active.last)
        q->active.last->next = b;
    else
        q->active.first = b;
    q->active.last = b;
    turn(q, false);
    return AETHER_OK;
}

ae_io_batch *ae_io_reap(ae_io_queue *q, bool wait) {
    if (ae_io_queue_inherited(q))
        return NULL;
    do {
        ae_io_batch *b = q->finished.first;
        if (b) {
            q->finished.first = b->next;
            if (!b->next)
                q->finished.last = NULL;
            return b;
        }
        if (q->active.first)
            turn(q, wait);
    } while ((wait && q->active.first) || q->finished.first);
    return NULL;
}
