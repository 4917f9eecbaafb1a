#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "durable/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/error.h"

#define NAME "wal.lock"

static int taken(int fd, const char *directory, aether_error *err) {
    char text[24] = {0};
    const long pid = pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
    return ae_error_at(err, AETHER_E_INVALID, 0, pid,
                       "the log in '%s' is open in process %ld, or in one that it forked: one graph at a "
                       "time writes to it",
                       directory, pid);
}

static int write_pid(int fd) {
    char text[24];
    const int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    return ftruncate(fd, 0) || pwrite(fd, text, (size_t)length, 0) != length ? -1 : 0;
}

int ae_lock_take(const char *directory, int *fd, aether_error *err) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/" NAME, directory) >= (int)sizeof path)
        return ae_error_set(err, AETHER_E_INVALID, "the path of a log's directory is too long: '%.100s...'",
                            directory);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0)
        return ae_error_os(err, errno, "cannot open '%s'", path);
    int rc = AETHER_OK;
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
        rc = errno == EWOULDBLOCK ? taken(*fd, directory, err)
                                  : ae_error_os(err, errno, "cannot lock '%s'", path);
    else if (write_pid(*fd) != 0) /* a full disk: the lock is what counts */
        (void)0;
    if (rc) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

void ae_lock_release(int fd) {
    flock(fd, LOCK_UN);
    close(fd);
}
