/*
 * os/replace.h - write a new file and put it in place of an old one, atomically.
 *
 *   begin    create   dir/.name.<16 hex digits>.aether-tmp   (exclusively)
 *   write    pwrite there, in any order
 *   commit   fsync file -> rename over dir/name -> fsync dir
 *   abort    remove the temporary
 *
 * A crash at any moment leaves the old file or the complete new one, and
 * possibly a temporary, which may be deleted once no writer is at work.
 *
 *   - A symbolic link is followed: what it points to is replaced.
 *   - An old file that may not be written to is refused, although a rename could
 *     replace it; so is anything but a regular file.
 *   - The new file takes the permissions of the old one, else 0666 & ~umask.
 *   - The directory is held open, so chdir() in between does no harm.
 *
 * Caveats: in a forked child the handle can only be dropped; the temporary
 * belongs to the process that made it. Hard links to the old file keep the old
 * content. The functions are declared in aether.h.
 */
#ifndef AE_OS_REPLACE_H
#define AE_OS_REPLACE_H

#include "aether.h"

#include <sys/types.h>

#define AE_REPLACE_SUFFIX ".aether-tmp"

/* For tests: what begin, write and commit call instead of the system. Members
 * left NULL, or a NULL table, mean the system's own. Not for concurrent use. */
typedef struct ae_os_write_hooks {
    int (*open)(int dir, const char *name, int flags, mode_t mode);
    ssize_t (*pwrite)(int fd, const void *data, size_t size, off_t offset);
    int (*fsync)(int fd);
    int (*rename)(int dir, const char *from, const char *to);
} ae_os_write_hooks;

void ae_os_set_write_hooks(const ae_os_write_hooks *hooks);

#endif
