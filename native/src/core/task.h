/*
 * core/task.h - the library's side of aether_task.
 *
 *   caller's thread          this library, in any thread
 *   cancel = 1       ---->   ae_task_cancelled(task): leave with AETHER_E_CANCELLED
 *   reads done/total <----   ae_task_begin(task, total), ae_task_add(task, n)
 *
 * Caveats: `task` may be NULL everywhere; `done` only grows, in steps of the
 * work units between two checks (some ten thousand items).
 */
#ifndef AE_CORE_TASK_H
#define AE_CORE_TASK_H

#include "aether.h"

#include <stdbool.h>

static inline void ae_task_begin(aether_task *task, uint64_t total) {
    if (!task)
        return;
    __atomic_store_n(&task->done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&task->total, total, __ATOMIC_RELAXED);
}

static inline void ae_task_add(aether_task *task, uint64_t n) {
    if (task)
        __atomic_fetch_add(&task->done, n, __ATOMIC_RELAXED);
}

static inline bool ae_task_cancelled(const aether_task *task) {
    return task && __atomic_load_n(&task->cancel, __ATOMIC_RELAXED) != 0;
}

#endif
