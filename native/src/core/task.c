#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/task.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_NS UINT64_C(50000000) /* between two questions */

/* Coarse: a few nanoseconds a reading, right to some milliseconds. */
static uint64_t coarse_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* The pool's workers, and threads that prefetch, come here as often as the main thread, but a host takes
 * signals in its main thread only: a thread asks the system once which it is. */
static _Thread_local enum { UNKNOWN, MAIN, OTHER } this_thread;

static bool is_main_thread(void) {
    if (this_thread == UNKNOWN)
        this_thread = syscall(SYS_gettid) == getpid() ? MAIN : OTHER;
    return this_thread == MAIN;
}

/* The thread that forked, whichever it was, is the main thread of the child. */
static void become_main_thread(void) {
    this_thread = MAIN;
}

__attribute__((constructor)) static void watch_task_forks(void) {
    pthread_atfork(NULL, NULL, become_main_thread);
}

bool ae_task_poll(aether_task *task) {
    if (!is_main_thread())
        return false;
    const uint64_t time = coarse_now();
    if (time < __atomic_load_n(&task->next_poll, __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&task->next_poll, time + INTERVAL_NS, __ATOMIC_RELAXED);
    if (task->poll() == 0)
        return false;
    __atomic_store_n(&task->cancel, 1, __ATOMIC_RELAXED);
    return true;
}
