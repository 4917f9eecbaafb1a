#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define MAX_WRITE ((uint64_t)1 << 30) /* the kernel writes a little less than 2 GiB at once */

/* A pipe in the place of a file is not waited for, and a link to somebody else's file is not written to. */
static int system_open(int dir, const char *name, int flags, mode_t mode) {
    const int follow = (flags & O_ACCMODE) == O_RDONLY ? 0 : O_NOFOLLOW;
    return openat(dir, name, flags | O_NONBLOCK | O_NOCTTY | follow, mode);
}

static int system_rename(int dir, const char *from, const char *to) {
    return renameat(dir, from, dir, to);
}

static const ae_os_write_hooks system_calls = {system_open, pwrite, fsync, system_rename, fdatasync};
ae_os_write_hooks ae_os_calls = {system_open, pwrite, fsync, system_rename, fdatasync};

void ae_os_set_write_hooks(const ae_os_write_hooks *hooks) {
    ae_os_calls = system_calls;
    if (!hooks)
        return;
    ae_os_calls.open = hooks->open ? hooks->open : system_calls.open;
    ae_os_calls.pwrite = hooks->pwrite ? hooks->pwrite : system_calls.pwrite;
    ae_os_calls.fsync = hooks->fsync ? hooks->fsync : system_calls.fsync;
    ae_os_calls.rename = hooks->rename ? hooks->rename : system_calls.rename;
    ae_os_calls.fdatasync = hooks->fdatasync ? hooks->fdatasync : system_calls.fdatasync;
}

static int sync_retrying(int (*sync)(int fd), int fd) {
    int failed;
    do
        failed = sync(fd);
    while (failed && errno == EINTR);
    return failed ? errno : 0;
}

int ae_os_fsync(int fd) {
    return sync_retrying(ae_os_calls.fsync, fd);
}

int ae_os_fdatasync(int fd) {
    return sync_retrying(ae_os_calls.fdatasync, fd);
}

int ae_os_sync_directory(int fd) {
    const int failed = ae_os_fsync(fd);
    return failed == EINVAL || failed == ENOTSUP || failed == EBADF ? 0 : failed;
}

int ae_os_write_all(int fd, const void *data, uint64_t size, uint64_t *offset) {
    const char *from = data;
    while (size > 0) {
        ssize_t put = ae_os_calls.pwrite(fd, from, size < MAX_WRITE ? size : MAX_WRITE, (off_t)*offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? errno : EIO;
        from += put;
        *offset += (uint64_t)put;
        size -= (uint64_t)put;
    }
    return 0;
}
