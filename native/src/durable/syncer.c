#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "durable/syncer.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "core/error.h"
#include "core/thread.h"

struct ae_syncer {
    ae_log *log;
    uint32_t interval_ms;
    pthread_t thread;
    pthread_mutex_t lock; /* protects what follows; not held during a sync */
    pthread_cond_t changed;
    bool waiting;        /* there are commits to be synced, ... */
    struct timespec due; /* ... by then */
    bool stop;
};

static struct timespec in_ms(uint32_t ms) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

static void *run(void *arg) {
    ae_syncer *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (!s->waiting) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        if (pthread_cond_timedwait(&s->changed, &s->lock, &s->due) != ETIMEDOUT)
            continue;
        s->waiting = false; /* what is appended from here on may miss this sync */
        pthread_mutex_unlock(&s->lock);
        ae_log_flush(s->log, NULL);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void ae_syncer_wake(ae_syncer *s) {
    pthread_mutex_lock(&s->lock);
    if (!s->waiting) {
        s->waiting = true;
        s->due = in_ms(s->interval_ms);
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

int ae_syncer_start(ae_log *log, uint32_t interval_ms, ae_syncer **out, aether_error *err) {
    ae_syncer *s = calloc(1, sizeof *s);
    pthread_condattr_t monotonic;
    *out = NULL;
    if (!s)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for the thread that syncs a log");
    s->log = log;
    s->interval_ms = interval_ms;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (ae_thread_start_joinable(run, s, &s->thread)) {
        *out = s;
        return AETHER_OK;
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return ae_error_set(err, AETHER_E_NO_MEMORY, "the system grants no thread for syncing a log");
}

void ae_syncer_stop(ae_syncer *s) {
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
