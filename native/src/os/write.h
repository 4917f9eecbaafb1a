/*
 * os/write.h - the system calls that change files, behind one table.
 *
 *   caller --> ae_os_calls.pwrite --> pwrite(2), or what a test has put there
 *
 * Tests make any of them fail, write short, or kill the process.
 *
 * Caveats: the table is not for concurrent change; callers only read it.
 */
#ifndef AE_OS_WRITE_H
#define AE_OS_WRITE_H

#include <stdint.h>
#include <sys/types.h>

typedef struct ae_os_write_hooks {
    int (*open)(int dir, const char *name, int flags, mode_t mode);
    ssize_t (*pwrite)(int fd, const void *data, size_t size, off_t offset);
    int (*fsync)(int fd);
    int (*rename)(int dir, const char *from, const char *to);
    int (*fdatasync)(int fd);
} ae_os_write_hooks;

/* What is called. */
extern ae_os_write_hooks ae_os_calls;

/* Replace the calls, for tests. Members left NULL, or a NULL table, mean the system's own. */
void ae_os_set_write_hooks(const ae_os_write_hooks *hooks);

/* Sync a file, again where a signal interrupts that. Return 0 or an errno. */
int ae_os_fsync(int fd);
int ae_os_fdatasync(int fd);
/* Sync a directory. Some file systems cannot and say so: nothing to be done. */
int ae_os_sync_directory(int fd);

/* Write all bytes at *offset, which moves on by what was written. Return 0 or an errno. */
int ae_os_write_all(int fd, const void *data, uint64_t size, uint64_t *offset);

#endif
