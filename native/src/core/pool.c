/*
 * The pool's whole shared state is one word, `state`, next to a plain job
 * description that is written only while no worker can read it:
 *
 *   bit 31          30 .. 16                 15 .. 0
 *   owner sleeps    seats left in the job    workers inside the job
 *
 * A run writes the job, opens its seats, and works itself. A worker takes a
 * seat by compare-and-swap, so it either gets in while the job is open or not
 * at all; the owner closes the seats and waits only for those that got in. A
 * worker that wakes too late is never waited for: a short run costs no more
 * than one wake-up call.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/cpu.h"
#include "core/error.h"
#include "core/thread.h"

#define SLEEPING     0x80000000u
#define SEAT         0x00010000u
#define SEATS(s)     (((s)&0x7FFF0000u) / SEAT)
#define INSIDE(s)    ((s)&0x0000FFFFu)
#define WORKER_SPINS 300  /* some 10 us: back-to-back runs find their workers awake */
#define OWNER_SPINS  1000 /* the rest of a chunk is mostly shorter than a sleep */

static struct {
    atomic_uint busy;       /* a run owns everything below */
    atomic_uint state;      /* see above; futex of the sleeping owner */
    atomic_uint generation; /* counts runs; futex of sleeping workers */
    atomic_uint sleepers;
    atomic_uint first_seen; /* the generation a new worker starts from */
    atomic_ullong next;     /* first chunk not handed out */
    ae_pool_fn fn;
    void *ctx;
    uint64_t num_chunks;
    uint32_t threads; /* of this job, the owner included */
    uint32_t workers; /* started so far in this process */
    bool spawn_failed;
} pool;

static atomic_uint default_threads; /* 0: not known yet */

static void futex_wait(atomic_uint *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, uint32_t count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* ---- the number of threads ---------------------------------------------- */

/* AETHERGRAPH_NUM_THREADS as a plain decimal number in 1..AE_POOL_MAX, or 0. */
static uint32_t threads_from_env(void) {
    const char *text = getenv("AETHERGRAPH_NUM_THREADS");
    uint32_t n = 0;
    if (!text || !*text)
        return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return 0;
        n = n * 10 + (uint32_t)(*text - '0');
        if (n > AE_POOL_MAX)
            return 0;
    }
    return n;
}

static uint32_t find_default(void) {
    uint32_t n = threads_from_env();
    if (n == 0)
        n = ae_core_cpu_count();
    return n < AE_POOL_MAX ? n : AE_POOL_MAX;
}

uint32_t ae_pool_threads(uint32_t requested) {
    if (requested)
        return requested < AE_POOL_MAX ? requested : AE_POOL_MAX;
    uint32_t n = atomic_load_explicit(&default_threads, memory_order_relaxed);
    if (n)
        return n;
    n = find_default();
    uint32_t unknown = 0; /* a number set meanwhile wins over the one just found */
    return atomic_compare_exchange_strong(&default_threads, &unknown, n) ? n : unknown;
}

int aether_get_num_threads(void) {
    return (int)ae_pool_threads(0);
}

int aether_set_num_threads(int n, aether_error *err) {
    if (n < 0 || n > AE_POOL_MAX)
        return ae_error_at(err, AETHER_E_INVALID, 0, n,
                           "number of threads is %d, must be 0 (default) or 1 to %d", n, AE_POOL_MAX);
    atomic_store(&default_threads, n ? (uint32_t)n : find_default());
    return AETHER_OK;
}

/* ---- workers ------------------------------------------------------------- */

static void work_on_chunks(uint32_t worker) {
    uint64_t chunk;
    while ((chunk = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed)) < pool.num_chunks)
        pool.fn(pool.ctx, chunk, worker);
}

/* Take a seat. The job may be read from here until leave(). */
static bool join_job(uint32_t *worker) {
    uint32_t s = atomic_load_explicit(&pool.state, memory_order_relaxed);
    do {
        if (SEATS(s) == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&pool.state, &s, s - SEAT + 1, memory_order_acquire,
                                                    memory_order_relaxed));
    *worker = pool.threads - SEATS(s); /* seats are taken from threads - 1 down to 1 */
    return true;
}

static void leave(void) {
    uint32_t s = atomic_fetch_sub_explicit(&pool.state, 1, memory_order_release);
    if ((s & SLEEPING) && INSIDE(s) == 1)
        futex_wake(&pool.state, 1);
}

/* Wait for a generation after `seen`: spin a little, then sleep. */
static uint32_t next_generation(uint32_t seen) {
    uint32_t g;
    for (int i = 0; i < WORKER_SPINS; i++) {
        if ((g = atomic_load_explicit(&pool.generation, memory_order_relaxed)) != seen)
            return g;
        ae_relax();
    }
    atomic_fetch_add(&pool.sleepers, 1); /* before the check inside futex_wait: see open_job */
    while ((g = atomic_load(&pool.generation)) == seen)
        futex_wait(&pool.generation, seen);
    atomic_fetch_sub(&pool.sleepers, 1);
    return g;
}

static void *worker_main(void *arg) {
    uint32_t seen = atomic_load(&pool.first_seen), worker;
    (void)arg;
    for (;;) {
        seen = next_generation(seen);
        if (join_job(&worker)) {
            work_on_chunks(worker);
            leave();
        }
    }
    return NULL;
}

/* Start workers until there are `wanted`, or as many as the system grants. */
static void start_workers(uint32_t wanted) {
    atomic_store(&pool.first_seen, atomic_load(&pool.generation)); /* they join the run about to open */
    while (pool.workers < wanted && !pool.spawn_failed) {
        if (ae_thread_start(worker_main, NULL))
            pool.workers++;
        else
            pool.spawn_failed = true; /* not tried again: it would cost every run a system call */
    }
}

/* Only the forking thread lives on in the child: forget the workers, and the
 * run another thread of the parent may have been in. */
static void forget_workers(void) {
    atomic_store(&pool.busy, 0);
    atomic_store(&pool.state, 0);
    atomic_store(&pool.generation, 0);
    atomic_store(&pool.sleepers, 0);
    pool.workers = 0;
    pool.spawn_failed = false;
}

__attribute__((constructor)) static void watch_pool_forks(void) {
    pthread_atfork(NULL, NULL, forget_workers);
}

/* ---- runs ---------------------------------------------------------------- */

static void open_job(uint32_t seats) {
    atomic_store_explicit(&pool.state, seats * SEAT, memory_order_release);
    atomic_fetch_add(&pool.generation, 1);
    uint32_t awake =
        pool.workers - atomic_load(&pool.sleepers); /* after the line above, as in next_generation */
    if (awake < seats)
        futex_wake(&pool.generation, seats - awake);
}

/* Close the seats and wait for the workers inside; return the seats that were not taken. */
static uint32_t close_job(void) {
    uint32_t s = atomic_fetch_and_explicit(&pool.state, INSIDE(~0u), memory_order_acquire);
    uint32_t left = SEATS(s);
    for (int i = 0; INSIDE(s) && i < OWNER_SPINS; i++) {
        ae_relax();
        s = atomic_load_explicit(&pool.state, memory_order_acquire);
    }
    if (INSIDE(s))
        s = atomic_fetch_or_explicit(&pool.state, SLEEPING, memory_order_acquire) | SLEEPING;
    while (INSIDE(s)) {
        futex_wait(&pool.state, s);
        s = atomic_load_explicit(&pool.state, memory_order_acquire);
    }
    return left;
}

static uint32_t run_inline(ae_pool_fn fn, void *ctx, uint64_t num_chunks) {
    for (uint64_t chunk = 0; chunk < num_chunks; chunk++)
        fn(ctx, chunk, 0);
    return 1;
}

uint32_t ae_pool_run(ae_pool_fn fn, void *ctx, uint64_t num_chunks, uint32_t num_threads) {
    uint32_t threads = ae_pool_threads(num_threads), idle = 0;
    if (threads > num_chunks)
        threads = (uint32_t)num_chunks;
    if (threads <= 1 || !atomic_compare_exchange_strong(&pool.busy, &idle, 1))
        return run_inline(fn, ctx, num_chunks);
    start_workers(threads - 1);
    pool.fn = fn;
    pool.ctx = ctx;
    pool.num_chunks = num_chunks;
    pool.threads = threads;
    atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
    open_job(threads - 1);
    work_on_chunks(0);
    uint32_t left = close_job();
    atomic_store_explicit(&pool.busy, 0, memory_order_release);
    return threads - left;
}
