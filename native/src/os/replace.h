/*
 * os/replace.h - write a new file and put it in place of an old one, atomically.
 *
 *   begin    create   dir/.name.<16 hex digits>.aether-tmp   (exclusively), lock it,
 *            remove temporaries that dead writers of dir/name left
 *   write    pwrite there, in any order
 *   sync     fsync file
 *   commit   sync -> rename over dir/name -> fsync dir
 *   abort    remove the temporary
 *
 * A crash at any moment leaves the old file or the complete new one, and possibly a
 * temporary: the next writer of the same name removes it, once its lock (flock) is free.
 * A temporary may hold a whole file already; readers refuse it by its name
 * (ae_replace_is_temporary), so that the rename alone makes it one.
 *
 *   - A symbolic link is followed: its target is replaced.
 *   - An old file that may not be written to is refused, although a rename could
 *     replace it; so is anything but a regular file.
 *   - The new file takes the permissions of the old one, else 0666 & ~umask.
 *   - The directory is held open, so chdir() in between does no harm.
 *
 * Caveats: where a network file system keeps locks to one machine, a writer there may
 * remove the temporary of a living writer on another, whose commit then fails. In a
 * forked child the handle can only be dropped; the temporary
 * belongs to the process that made it. Hard links to the old file keep the old
 * content. The functions are declared in aether/io.h.
 */
#ifndef AE_OS_REPLACE_H
#define AE_OS_REPLACE_H

#include <stdbool.h>

#include "aether/io.h"

#define AE_REPLACE_SUFFIX ".aether-tmp"

/* Return whether a path has the name of a temporary. */
bool ae_replace_is_temporary(const char *path);

#endif
