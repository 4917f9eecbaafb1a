/*
 * core/thread.h - starting a thread of the library; waiting for another one's store.
 *
 * The thread is detached unless it is to be joined, and blocks all signals except those of faults: a
 * signal meant for the process goes to the application's threads.
 */
#ifndef AE_CORE_THREAD_H
#define AE_CORE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Tell the processor that this thread waits for a store of another one. */
static inline void ae_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Start a thread; return false if the system grants none. */
bool ae_thread_start(void *(*run)(void *), void *arg);
/* The same with a thread that is to be joined. */
bool ae_thread_start_joinable(void *(*run)(void *), void *arg, pthread_t *out);

#endif
