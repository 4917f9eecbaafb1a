#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/task.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_NS UINT64_C(50000000) /* between two questions */

/* Coarse: a few nanoseconds a reading, right to some milliseconds. */
static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* The pool's workers come here as well, but a host takes signals in its main thread only. */
static bool is_main_thread(void) {
    return syscall(SYS_gettid) == getpid();
}

bool ae_task_poll(aether_task *task) {
    const uint64_t time = now();
    if (time < __atomic_load_n(&task->next_poll, __ATOMIC_RELAXED) || !is_main_thread())
        return false;
    __atomic_store_n(&task->next_poll, time + INTERVAL_NS, __ATOMIC_RELAXED);
    if (task->poll() == 0)
        return false;
    __atomic_store_n(&task->cancel, 1, __ATOMIC_RELAXED);
    return true;
}
