#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "slots/shard.h"

#include <sched.h>
#include <time.h>

#include "core/thread.h"
#include "os/process.h"

bool ae_shard_wait(uint32_t tries) {
    if (tries < AE_SHARD_SPINS) {
        ae_relax();
        return false;
    }
    if (tries < AE_SHARD_SPINS + 8 * AE_SHARD_YIELDS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return tries % AE_SHARD_YIELDS == 0;
}

static bool take_shard(ae_shard *shard, uint64_t from) {
    return atomic_compare_exchange_strong_explicit(&shard->owner, &from, ae_process_self(),
                                                   memory_order_acquire, memory_order_relaxed);
}

time_t ae_shard_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

int ae_shard_lock(ae_shard *shard, aether_task *task) {
    uint64_t last = 0;
    time_t until = 0;
    for (uint32_t tries = 0; !take_shard(shard, 0); tries++) {
        if (!ae_shard_wait(tries))
            continue;
        if (ae_task_cancelled(task))
            return AETHER_E_CANCELLED;
        const uint64_t owner = atomic_load_explicit(&shard->owner, memory_order_relaxed);
        if (owner && !ae_process_alive(owner) && take_shard(shard, owner))
            break;
        const time_t now = ae_shard_now();
        if (!owner || owner != last)
            until = now + AE_SHARD_PATIENCE + 1; /* of a second that has begun */
        else if (now >= until)
            return AETHER_E_TORN;
        last = owner;
    }
    return AETHER_OK;
}

bool ae_shard_is_writing(const ae_shard *shard, uint64_t row) {
    const uint64_t owner = atomic_load_explicit(&shard->owner, memory_order_acquire);
    return owner && atomic_load_explicit(&shard->row, memory_order_relaxed) == row && ae_process_alive(owner);
}
