/*
 * core/thread.h - starting a thread of the library.
 *
 * The thread is detached unless it is to be joined, and blocks all signals except those of faults: a
 * signal meant for the process goes to the application's threads.
 */
#ifndef AE_CORE_THREAD_H
#define AE_CORE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Start a thread; return false if the system grants none. */
bool ae_thread_start(void *(*run)(void *), void *arg);
/* The same with a thread that is to be joined. */
bool ae_thread_start_joinable(void *(*run)(void *), void *arg, pthread_t *out);

#endif
