#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/thread.h"

#include <signal.h>

#define STACK_SIZE (2u << 20)

/* A fault (SIGBUS on a mapping) must reach its handler in the faulting thread. */
static void blocked_signals(sigset_t *set) {
    static const int kept[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    sigfillset(set);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        sigdelset(set, kept[i]);
}

static bool start_thread(void *(*run)(void *), void *arg, int detach_state, pthread_t *out) {
    pthread_attr_t attr;
    sigset_t blocked, old;
    if (pthread_attr_init(&attr) != 0)
        return false;
    blocked_signals(&blocked);
    pthread_attr_setdetachstate(&attr, detach_state);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    pthread_sigmask(SIG_SETMASK, &blocked, &old); /* the new thread inherits the mask */
    int rc = pthread_create(out, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc == 0;
}

bool ae_thread_start(void *(*run)(void *), void *arg) {
    pthread_t thread;
    return start_thread(run, arg, PTHREAD_CREATE_DETACHED, &thread);
}

bool ae_thread_start_joinable(void *(*run)(void *), void *arg, pthread_t *out) {
    return start_thread(run, arg, PTHREAD_CREATE_JOINABLE, out);
}
