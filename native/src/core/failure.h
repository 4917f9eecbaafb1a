/*
 * core/failure.h - the first failure of a parallel run.
 *
 *   worker: if (ae_failure_seen(&f)) return;        leave the other chunks alone
 *           rc = ...(&own_error);
 *           if (rc) ae_failure_note(&f, rc, &own_error);
 *   owner : return ae_failure_take(&f, err);        after the run
 *
 * Caveats: of several failures at once, any one is reported.
 */
#ifndef AE_CORE_FAILURE_H
#define AE_CORE_FAILURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "aether.h"

typedef struct ae_failure {
    atomic_int claimed;
    int rc; /* written by the worker that claimed; read after the run */
    aether_error error;
} ae_failure;

static inline bool ae_failure_seen(ae_failure *f) {
    return atomic_load_explicit(&f->claimed, memory_order_relaxed) != 0;
}

static inline void ae_failure_note(ae_failure *f, int rc, const aether_error *error) {
    int free_yet = 0;
    if (!atomic_compare_exchange_strong(&f->claimed, &free_yet, 1))
        return;
    f->rc = rc;
    f->error = *error;
}

static inline int ae_failure_take(const ae_failure *f, aether_error *err) {
    if (f->rc && err)
        *err = f->error;
    return f->rc;
}

#endif
