#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "durable/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "core/error.h"
#include "core/thread.h"

struct ae_keeper {
    ae_log *log;
    uint32_t interval_ms; /* 0: commits are not synced here */
    pthread_t thread;
    pthread_mutex_t lock; /* protects what follows; not held during a sync or a fill */
    pthread_cond_t changed;
    bool waiting;        /* there are commits to be synced, ... */
    struct timespec due; /* ... by then */
    bool wants_spare;
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

static bool is_past(struct timespec due) {
    const struct timespec now = in_ms(0);
    return now.tv_sec > due.tv_sec || (now.tv_sec == due.tv_sec && now.tv_nsec >= due.tv_nsec);
}

/* Do something of what there is to do, without the lock; return false if there was nothing. */
static bool do_upkeep(ae_keeper *k) {
    const bool sync = k->waiting && is_past(k->due), fill = !sync && k->wants_spare;
    if (!sync && !fill)
        return false;
    if (sync)
        k->waiting = false; /* what is appended from here on may miss this sync */
    else
        k->wants_spare = false;
    pthread_mutex_unlock(&k->lock);
    bool more = false;
    if (sync)
        ae_log_flush(k->log, NULL);
    else
        more = ae_log_fill_spare(k->log);
    pthread_mutex_lock(&k->lock);
    k->wants_spare |= more;
    return true;
}

static void *run_keeper(void *arg) {
    ae_keeper *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->stop) {
        if (do_upkeep(k))
            continue;
        if (k->waiting)
            pthread_cond_timedwait(&k->changed, &k->lock, &k->due);
        else
            pthread_cond_wait(&k->changed, &k->lock);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

void ae_keeper_tell(ae_keeper *k) {
    const bool wants_spare = ae_log_wants_spare(k->log);
    if (!k->interval_ms && !wants_spare)
        return;
    pthread_mutex_lock(&k->lock);
    const bool wake = (k->interval_ms && !k->waiting) || wants_spare;
    if (k->interval_ms && !k->waiting) {
        k->waiting = true;
        k->due = in_ms(k->interval_ms);
    }
    k->wants_spare |= wants_spare;
    if (wake)
        pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

int ae_keeper_start(ae_log *log, uint32_t interval_ms, ae_keeper **out, aether_error *err) {
    ae_keeper *k = calloc(1, sizeof *k);
    pthread_condattr_t monotonic;
    *out = NULL;
    if (!k)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for the thread of a journal");
    k->log = log;
    k->interval_ms = interval_ms;
    pthread_mutex_init(&k->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&k->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (ae_thread_start_joinable(run_keeper, k, &k->thread)) {
        *out = k;
        return AETHER_OK;
    }
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
    return ae_error_set(err, AETHER_E_NO_MEMORY, "the system grants no thread for a journal");
}

void ae_keeper_stop(ae_keeper *k) {
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
}
