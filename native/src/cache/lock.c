#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cache/lock.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WRITER   0x80000000u
#define SLEEPERS 0x40000000u
#define READERS  0x3FFFFFFFu
#define SPINS    100

static atomic_uint generation; /* generation of this process: how many forks lie before it */

static void count_fork(void) {
    atomic_fetch_add(&generation, 1);
}

__attribute__((constructor)) static void watch_cache_forks(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

static unsigned long long own_bits(void) {
    return (unsigned long long)atomic_load_explicit(&generation, memory_order_relaxed) << 32;
}

static bool swap(ae_cache_lock *l, unsigned long long *from, unsigned long long to) {
    return atomic_compare_exchange_weak_explicit(&l->word, from, to, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* Sleep until the lower half of the word changes; it comes first, little-endian. */
static void wait_change(ae_cache_lock *l, unsigned long long seen) {
    syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, (uint32_t)seen, NULL, NULL, 0);
}

static void wake_all(ae_cache_lock *l) {
    syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Spin for a while, then sleep, while the word is `word`; return the word, read again. */
static unsigned long long wait_turn(ae_cache_lock *l, unsigned long long word, unsigned *spins) {
    if ((*spins)++ >= SPINS && ((word & SLEEPERS) || swap(l, &word, word | SLEEPERS)))
        wait_change(l, word | SLEEPERS);
    return atomic_load_explicit(&l->word, memory_order_relaxed);
}

void ae_cache_lock_init(ae_cache_lock *l) {
    atomic_init(&l->word, own_bits());
}

bool ae_cache_lock_claim(ae_cache_lock *l) {
    unsigned long long word = atomic_load_explicit(&l->word, memory_order_relaxed), own = own_bits();
    while ((word ^ own) >> 32)
        if (swap(l, &word, own | WRITER))
            return true;
    return false;
}

void ae_cache_lock_shared(ae_cache_lock *l) {
    unsigned long long word = atomic_load_explicit(&l->word, memory_order_relaxed);
    unsigned spins = 0;
    for (;;) {
        if (word & WRITER)
            word = wait_turn(l, word, &spins);
        else if (swap(l, &word, word + 1))
            return;
    }
}

void ae_cache_unlock_shared(ae_cache_lock *l) {
    unsigned long long before = atomic_fetch_sub_explicit(&l->word, 1, memory_order_release);
    if ((before & READERS) == 1 && (before & SLEEPERS))
        wake_all(l);
}

void ae_cache_lock_alone(ae_cache_lock *l) {
    unsigned long long word = atomic_load_explicit(&l->word, memory_order_relaxed);
    unsigned spins = 0;
    for (;;) {
        if (word & WRITER)
            word = wait_turn(l, word, &spins);
        else if (swap(l, &word, word | WRITER))
            break;
    }
    word = atomic_load_explicit(&l->word, memory_order_acquire);
    while (word & READERS) {
        wait_turn(l, word, &spins);
        word = atomic_load_explicit(&l->word, memory_order_acquire);
    }
}

void ae_cache_unlock_alone(ae_cache_lock *l) {
    unsigned long long flags = WRITER | SLEEPERS;
    unsigned long long before = atomic_fetch_and_explicit(&l->word, ~flags, memory_order_release);
    if (before & SLEEPERS)
        wake_all(l);
}
