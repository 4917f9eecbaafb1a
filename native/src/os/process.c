#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fields of /proc/<pid>/stat, counted from 1. */
#define STATE_FIELD   3
#define THREADS_FIELD 20
#define START_FIELD   22

static atomic_ullong self; /* 0: not known yet */

static void forget_self(void) {
    atomic_store(&self, 0);
}

__attribute__((constructor)) static void watch_process_forks(void) {
    pthread_atfork(NULL, NULL, forget_self);
}

/* What the kernel tells of a process. */
typedef struct process_state {
    uint64_t start; /* 0: cannot be read */
    bool ended;
} process_state;

/* A process that has ended stays until its parent asks for it, and takes signals like a living one: a
 * zombie. So does a main thread that has ended before the others; those are counted. */
static process_state look_at(uint32_t pid) {
    char path[32], text[1024];
    process_state t = {0};
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (size <= 0)
        return t;
    text[size] = '\0';
    bool over = false;
    const char *at = strrchr(text, ')'); /* the second field is a name, with any characters */
    for (int field = STATE_FIELD; at && field <= START_FIELD; field++) {
        at = strchr(at + 1, ' ');
        if (at && field == STATE_FIELD)
            over = at[1] == 'Z' || at[1] == 'X' || at[1] == 'x';
        else if (at && field == THREADS_FIELD)
            t.ended = over && strtoull(at, NULL, 10) <= 1;
        else if (at && field == START_FIELD)
            t.start = strtoull(at, NULL, 10);
    }
    return t;
}

static uint64_t word_of(uint32_t pid) {
    return look_at(pid).start << AE_PROCESS_PID_BITS | pid;
}

uint64_t ae_process_self(void) {
    uint64_t word = atomic_load_explicit(&self, memory_order_relaxed);
    if (!word) {
        const int saved = errno;
        word = word_of((uint32_t)getpid());
        atomic_store_explicit(&self, word, memory_order_relaxed);
        errno = saved;
    }
    return word;
}

bool ae_process_alive(uint64_t process) {
    const int saved = errno;
    const uint32_t pid = ae_process_pid(process);
    bool alive = pid && (kill((pid_t)pid, 0) == 0 || errno != ESRCH);
    if (alive) {
        const process_state t = look_at(pid);
        const uint64_t start = process >> AE_PROCESS_PID_BITS; /* 0: it could not read its own */
        alive = !t.ended && (!t.start || !start || t.start == start);
    }
    errno = saved;
    return alive;
}
