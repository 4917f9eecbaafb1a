/*
 * core/task.h - the library's side of aether_task.
 *
 *   caller's thread          this library, in any thread
 *   cancel = 1       ---->   ae_task_cancelled(task): leave with AETHER_E_CANCELLED
 *   reads done/total <----   ae_task_begin(task, total), ae_task_add(task, n)
 *   poll()           <----   ae_task_cancelled(task), every 50 ms, if the calling thread
 *                            is the process's main thread
 *
 * Caveats: `task` may be NULL everywhere; `done` only grows, in steps of the
 * work units between two checks (some ten thousand items). A look at a task costs
 * a few nanoseconds; between two looks lie microseconds to milliseconds. No lock
 * is held where a task is looked at: `poll` may run anything, this library included, and what the
 * interrupted call has taken for its thread (a queue, a workspace) is not taken again.
 */
#ifndef AE_CORE_TASK_H
#define AE_CORE_TASK_H

#include <stdbool.h>

#include "aether.h"
#include "core/error.h"

/* Items between two looks at a task: where an item takes some nanoseconds, and where it may be the
 * first to touch a huge page, which takes up to a millisecond. */
#define AE_TASK_ITEMS   65536
#define AE_TASK_TOUCHES 128

/* Call task->poll if it is time to; return whether the call is cancelled. */
bool ae_task_poll(aether_task *task);

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

static inline bool ae_task_cancelled(aether_task *task) {
    if (!task)
        return false;
    return __atomic_load_n(&task->cancel, __ATOMIC_RELAXED) != 0 || (task->poll && ae_task_poll(task));
}

/* Return AETHER_E_CANCELLED, with a message that names `what`, if the call is cancelled. */
static inline int ae_task_check(aether_task *task, const char *what, aether_error *err) {
    return ae_task_cancelled(task) ? ae_error_set(err, AETHER_E_CANCELLED, "%s was cancelled", what)
                                   : AETHER_OK;
}

#endif
