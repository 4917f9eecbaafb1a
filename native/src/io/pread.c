/*
 * The tier that works everywhere: threads that call pread.
 *
 *   queue of thread A --\                      /--> I/O thread
 *                        >-- reads, in order --+--> I/O thread
 *   queue of thread B --/                      \--> A or B, while it waits
 *
 * The I/O threads are few of the processor's business: they sleep in the device.
 * There are as many as reads under way ask for, up to MAX_THREADS, and they stay.
 *
 * One lock protects the list, the counts, and every queue's list of reads that came
 * back; it is never held during a read, and no other lock is taken under it. A
 * forked child makes it anew, with everything that it protects.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/error.h"
#include "core/thread.h"
#include "io/tier.h"

#define MAX_THREADS 32

typedef struct list {
    ae_io_op *first, *last;
    uint32_t count;
} list;

typedef struct state {
    list pushed;           /* not handed over yet; only the owner uses it */
    list done;             /* taken from `returned`; only the owner uses it */
    list returned;         /* under the lock */
    uint32_t wanted;       /* under the lock: the owner sleeps until so many have returned */
    pthread_cond_t enough; /* signalled when `wanted` have returned */
} state;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    list reads;
    uint32_t threads, idle;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

static void append_read(list *l, ae_io_op *op) {
    op->next = NULL;
    if (l->last)
        l->last->next = op;
    else
        l->first = op;
    l->last = op;
    l->count++;
}

static ae_io_op *take_read(list *l) {
    ae_io_op *op = l->first;
    if (!op)
        return NULL;
    l->first = op->next;
    if (!l->first)
        l->last = NULL;
    l->count--;
    return op;
}

static void move_all(list *to, list *from) {
    if (!from->first)
        return;
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    to->count += from->count;
    *from = (list){0};
}

/* ---- threads ------------------------------------------------------------------ */

/* The lock is held, except during the read. */
static void read_one(ae_io_op *op) {
    pthread_mutex_unlock(&shared.lock);
    ssize_t got = pread(op->fd, op->data + op->start, op->length, (off_t)(op->offset + op->start));
    op->result = got < 0 ? -errno : (int32_t)got;
    pthread_mutex_lock(&shared.lock);
    state *s = op->owner;
    append_read(&s->returned, op);
    if (s->wanted && s->returned.count >= s->wanted)
        pthread_cond_signal(&s->enough);
}

static void *thread_main(void *arg) {
    (void)arg;
    pthread_mutex_lock(&shared.lock);
    for (;;) {
        ae_io_op *op = take_read(&shared.reads);
        if (op) {
            read_one(op);
            continue;
        }
        shared.idle++;
        pthread_cond_wait(&shared.work, &shared.lock);
        shared.idle--;
    }
    return NULL;
}

/* Wake or start threads for the reads in the list, except for one that the caller does itself.
 * Too few threads are no failure: the caller can do all reads. */
static void call_threads(bool caller_reads) {
    uint32_t count = shared.reads.count - (caller_reads && shared.reads.count ? 1 : 0);
    for (uint32_t i = 0; i < count && i < shared.idle; i++)
        pthread_cond_signal(&shared.work);
    for (uint32_t i = shared.idle; i < count && shared.threads < MAX_THREADS; i++) {
        if (!ae_thread_start(thread_main, NULL))
            return;
        shared.threads++;
    }
}

/* Runs in the child: threads and reads were the parent's, and so was the holder of the lock. */
static void forget_reads(void) {
    pthread_mutex_init(&shared.lock, NULL);
    pthread_cond_init(&shared.work, NULL);
    shared.reads = (list){0};
    shared.threads = shared.idle = 0;
}

__attribute__((constructor)) static void watch_read_forks(void) {
    pthread_atfork(NULL, NULL, forget_reads);
}

/* ---- the tier ------------------------------------------------------------------ */

static int pread_create(void **out, aether_error *err) {
    state *s = calloc(1, sizeof *s);
    if (!s)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory preparing reads");
    pthread_cond_init(&s->enough, NULL);
    *out = s;
    return AETHER_OK;
}

static void pread_destroy(void *p) {
    state *s = p;
    pthread_cond_destroy(&s->enough);
    free(s);
}

static void pread_push(void *p, ae_io_op *op) {
    op->owner = p;
    append_read(&((state *)p)->pushed, op);
}

static int pread_enter(void *p, uint32_t wanted) {
    state *s = p;
    pthread_mutex_lock(&shared.lock);
    move_all(&shared.reads, &s->pushed);
    call_threads(wanted > 0);
    while (s->returned.count < wanted) {
        ae_io_op *op = take_read(&shared.reads);
        if (op) {
            read_one(op);
            continue;
        }
        s->wanted = wanted;
        pthread_cond_wait(&s->enough, &shared.lock);
        s->wanted = 0;
    }
    move_all(&s->done, &s->returned);
    pthread_mutex_unlock(&shared.lock);
    return 0;
}

static ae_io_op *pread_pop(void *p) {
    return take_read(&((state *)p)->done);
}

const ae_io_tier_ops ae_io_pread = {.number = AETHER_IO_PREAD,
                                    .name = "pread",
                                    .create = pread_create,
                                    .destroy = pread_destroy,
                                    .push = pread_push,
                                    .enter = pread_enter,
                                    .pop = pread_pop,
                                    .abandon = free};
