/*
 * The io_uring tier: a ring per queue, hence per thread.
 *
 *   pushed -> [submission ring] -> kernel -> [completion ring] -> pop
 *             `unsubmitted`, in      `in_kernel`
 *             the ring's order
 *
 * Kernels from 6.1 on leave completion work to the thread that waits for it
 * (DEFER_TASKRUN), which needs a single submitter. Registered files and buffers,
 * measured beside plain ones, changed reads per second by less than their noise;
 * so there are none, and no memory is locked.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/error.h"
#include "io/tier.h"

#ifdef AE_HAVE_URING

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/file.h"

#if defined(IORING_SETUP_SINGLE_ISSUER) && defined(IORING_SETUP_DEFER_TASKRUN)
#define LEAVE_TO_WAITER (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)
#else /* liburing before 2.3 */
#define LEAVE_TO_WAITER                0
#define io_uring_get_events            io_uring_submit
#define io_uring_submit_and_get_events io_uring_submit
#endif

#define MAX_REFUSALS 2000 /* milliseconds; longer means that the system stays short of memory */

typedef struct state {
    struct io_uring ring;
    ae_io_op *unsubmitted, *last;
    ae_io_op *failed; /* refused by a broken ring */
    uint32_t in_kernel;
    uint32_t refusals; /* refused attempts in a row */
    int broken;        /* -errno */
} state;

static int create_ring(struct io_uring *ring) {
    int failed = ae_io_hook.setup ? ae_io_hook.setup() : 0;
    if (failed)
        return failed;
    if (LEAVE_TO_WAITER && io_uring_queue_init(AE_IO_DEPTH_MAX, ring, LEAVE_TO_WAITER) == 0)
        return 0;
    return -io_uring_queue_init(AE_IO_DEPTH_MAX, ring, 0);
}

static int refused(int os_errno, aether_error *err) {
    char text[96];
    const char *why = os_errno == ENOSYS   ? "this kernel has none"
                      : os_errno == EPERM  ? "not permitted (by a container, or kernel.io_uring_disabled)"
                      : os_errno == ENOMEM ? "out of memory, or above the limit of locked memory"
                                           : ae_error_reason(os_errno, text, sizeof text);
    return ae_error_set(err, AETHER_E_UNSUPPORTED, "io_uring does not work here: %s", why);
}

static int uring_create(void **out, aether_error *err) {
    state *s = calloc(1, sizeof *s);
    if (!s)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory preparing reads");
    int failed = create_ring(&s->ring);
    if (failed) {
        free(s);
        return refused(failed, err);
    }
    *out = s;
    return AETHER_OK;
}

/* Works in a forked child too: it unmaps and closes the child's part of the ring, without
 * entering the ring. */
static void uring_destroy(void *p) {
    state *s = p;
    io_uring_queue_exit(&s->ring);
    free(s);
}

/* ---- reading ------------------------------------------------------------------- */

static void fail_read(state *s, ae_io_op *op) {
    op->result = s->broken ? s->broken : -EAGAIN;
    op->next = s->failed;
    s->failed = op;
}

static void uring_push(void *p, ae_io_op *op) {
    state *s = p;
    struct io_uring_sqe *sqe = s->broken ? NULL : io_uring_get_sqe(&s->ring);
    if (!sqe) { /* only if the ring is broken: it has room for all reads that a queue has under way */
        fail_read(s, op);
        return;
    }
    io_uring_prep_read(sqe, op->fd, op->data + op->start, op->length, op->offset + op->start);
    io_uring_sqe_set_data(sqe, op);
    op->next = NULL;
    if (s->last)
        s->last->next = op;
    else
        s->unsubmitted = op;
    s->last = op;
}

/* Move the first `count` reads, which the kernel has taken, out of `unsubmitted`. */
static void take_submitted(state *s, uint32_t count) {
    for (uint32_t i = 0; i < count && s->unsubmitted; i++) {
        s->unsubmitted = s->unsubmitted->next;
        s->in_kernel++;
    }
    if (!s->unsubmitted)
        s->last = NULL;
}

static void wait_a_millisecond(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Hand nothing over any more. The kernel will still write to the reads that it has, so they are
 * waited for, however long that takes. */
static int break_ring(state *s, int error) {
    s->broken = error;
    while (s->unsubmitted) {
        ae_io_op *op = s->unsubmitted;
        s->unsubmitted = op->next;
        fail_read(s, op);
    }
    s->last = NULL;
    while (io_uring_cq_ready(&s->ring) < s->in_kernel) {
        io_uring_get_events(&s->ring);
        wait_a_millisecond();
    }
    return error;
}

static int uring_enter(void *p, uint32_t wanted) {
    state *s = p;
    if (s->broken || s->failed)
        return s->broken;
    int failed = ae_io_hook.enter ? ae_io_hook.enter() : 0;
    int rc = failed   ? -failed
             : wanted ? io_uring_submit_and_wait(&s->ring, wanted)
                      : io_uring_submit_and_get_events(&s->ring);
    if (rc >= 0) {
        take_submitted(s, (uint32_t)rc);
        s->refusals = 0;
        return 0;
    }
    if (rc == -EINTR)
        return 0;
    if ((rc == -EAGAIN || rc == -EBUSY) && ++s->refusals < MAX_REFUSALS) {
        io_uring_get_events(&s->ring); /* completed reads make room */
        wait_a_millisecond();
        return 0;
    }
    return break_ring(s, rc);
}

static ae_io_op *uring_pop(void *p) {
    state *s = p;
    struct io_uring_cqe *cqe;
    ae_io_op *op = s->failed;
    if (op) {
        s->failed = op->next;
        return op;
    }
    if (io_uring_peek_cqe(&s->ring, &cqe) != 0)
        return NULL;
    op = io_uring_cqe_get_data(cqe);
    op->result = cqe->res;
    io_uring_cqe_seen(&s->ring, cqe);
    s->in_kernel--;
    return op;
}

const ae_io_tier_ops ae_io_uring = {.number = AETHER_IO_URING,
                                    .name = "uring",
                                    .create = uring_create,
                                    .destroy = uring_destroy,
                                    .push = uring_push,
                                    .enter = uring_enter,
                                    .pop = uring_pop,
                                    .abandon = uring_destroy};

#else

static int refuse_uring(void **out, aether_error *err) {
    (void)out;
    return ae_error_set(err, AETHER_E_UNSUPPORTED, "io_uring: this build was made without liburing");
}

const ae_io_tier_ops ae_io_uring = {.number = AETHER_IO_URING, .name = "uring", .create = refuse_uring};

#endif
