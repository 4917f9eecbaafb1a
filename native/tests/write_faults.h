/*
 * write_faults.h - one of the system calls that write fails: the n-th, counted over all of them.
 *
 *   call      0 1 2 3 4 5 6 ...
 *   fail_at 3       X            an error, half of a write, or the end of the process
 *
 *   ae_os_set_write_hooks(&write_faults);
 */
#ifndef AE_WRITE_FAULTS_H
#define AE_WRITE_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/write.h"

enum fault { FAIL_EIO, FAIL_ENOSPC, FAIL_SHORT, FAIL_KILL, FAULTS };

static enum fault fault;
static _Atomic unsigned calls; /* the thread of a journal makes some, too */
static unsigned fail_at;
static _Atomic unsigned syncs_after_failure; /* of the descriptor whose sync failed */
static _Atomic int failed_fd = -1;

static inline void fail(void) {
    if (fault == FAIL_KILL)
        kill(getpid(), SIGKILL);
    errno = fault == FAIL_EIO ? EIO : ENOSPC;
}

/* Return whether this call is the one; then errno is set, or the process is dead. */
static inline bool strike(void) {
    if (atomic_fetch_add(&calls, 1) != fail_at)
        return false;
    fail();
    return true;
}

static inline int hook_open(int dir, const char *name, int flags, mode_t mode) {
    return strike() ? -1 : openat(dir, name, flags, mode);
}

/* A short write is no failure by itself: the rest is written by the next call. A process that is
 * killed, or a disk that fills up, leaves a half. */
static inline ssize_t hook_pwrite(int fd, const void *data, size_t size, off_t offset) {
    if (atomic_fetch_add(&calls, 1) != fail_at)
        return pwrite(fd, data, size, offset);
    const ssize_t half = pwrite(fd, data, size / 2, offset);
    fail();
    return fault == FAIL_SHORT ? half : -1;
}

/* What is in the page cache survives the process: nothing has to reach the disk. */
static inline int hook_fdatasync(int fd) {
    syncs_after_failure += fd == failed_fd;
    if (!strike())
        return 0;
    failed_fd = fd;
    return -1;
}

static inline int hook_fsync(int fd) {
    (void)fd;
    return strike() ? -1 : 0;
}

static inline int hook_rename(int dir, const char *from, const char *to) {
    return strike() ? -1 : renameat(dir, from, dir, to);
}

static const ae_os_write_hooks write_faults = {hook_open, hook_pwrite, hook_fsync, hook_rename,
                                               hook_fdatasync};

/* Begin a run in which call `at` fails. */
static inline void faults_begin(unsigned at) {
    fail_at = at;
    atomic_store(&calls, 0);
    syncs_after_failure = 0;
    failed_fd = -1;
    ae_os_set_write_hooks(&write_faults);
}

#endif
