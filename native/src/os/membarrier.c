#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/membarrier.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/membarrier.h, which old systems lack. */
#define QUERY                     0
#define GLOBAL_EXPEDITED          (1 << 1)
#define REGISTER_GLOBAL_EXPEDITED (1 << 2)

static atomic_int registered; /* 0: not asked yet, 1: yes, 2: the system refuses; forks inherit it */
static atomic_bool disabled;

static long call_membarrier(int command) {
    const int saved = errno;
    const long rc = syscall(SYS_membarrier, command, 0, 0);
    errno = saved;
    return rc;
}

bool ae_membarrier_register(void) {
    int state = atomic_load_explicit(&registered, memory_order_relaxed);
    if (!state) {
        state = call_membarrier(REGISTER_GLOBAL_EXPEDITED) == 0 ? 1 : 2;
        atomic_store_explicit(&registered, state, memory_order_relaxed);
    }
    return state == 1 && !atomic_load_explicit(&disabled, memory_order_relaxed);
}

bool ae_membarrier_works(void) {
    const long commands = call_membarrier(QUERY);
    return commands > 0 && (commands & GLOBAL_EXPEDITED) && !atomic_load(&disabled);
}

void ae_membarrier(void) {
    call_membarrier(GLOBAL_EXPEDITED);
}

void ae_membarrier_disable(bool value) {
    atomic_store(&disabled, value);
}
