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

#define START_FIELD 22 /* of /proc/<pid>/stat, counted from 1 */

static atomic_ullong self; /* 0: not known yet */

static void after_fork(void) {
    atomic_store(&self, 0);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

/* Return when the process started, or 0 if that cannot be read. */
static uint64_t start_of(uint32_t pid) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    const char *at = strrchr(text, ')'); /* the second field is a name, with any characters */
    for (int field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static uint64_t word_of(uint32_t pid) {
    return start_of(pid) << AE_PROCESS_PID_BITS | pid;
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
        const uint64_t start = start_of(pid);
        alive = !start || start == process >> AE_PROCESS_PID_BITS;
    }
    errno = saved;
    return alive;
}
