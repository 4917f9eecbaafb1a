#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/replace.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "os/write.h"

#define FLUSH_INTERVAL ((uint64_t)64 << 20)
#define NAME_ROOM      (NAME_MAX + 1)
#define DIGITS         16

struct aether_replace {
    int dir, fd;
    pid_t owner;
    mode_t mode; /* name of the file that is replaced */
    bool replaces;
    bool synced;        /* since the last write */
    uint64_t unflushed; /* bytes written since writing back was last started */
    uint64_t flush_from;
    char *path; /* as given, for messages */
    char name[NAME_ROOM];
    char temporary[NAME_ROOM];
};

/* ---- begin ------------------------------------------------------------------- */

/* Return the path without symbolic links at its end; to be freed. */
static int resolve_path(const char *path, char **out, aether_error *err) {
    struct stat st;
    bool is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    *out = is_link ? realpath(path, NULL) : strdup(path);
    if (*out)
        return AETHER_OK;
    if (is_link && errno == ENOENT)
        return ae_error_os(err, ENOENT, "cannot write '%s': it is a link to a missing file", path);
    return ae_error_os(err, errno, "cannot write '%s'", path);
}

/* Cut `path` into its directory, opened, and its name. */
static int open_directory(aether_replace *r, char *path, aether_error *err) {
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return ae_error_os(err, EISDIR, "cannot write '%s'", r->path);
    if (ae_replace_is_temporary(name))
        return ae_error_set(err, AETHER_E_INVALID,
                            "cannot write '%s': names that end in " AE_REPLACE_SUFFIX
                            " are those of unfinished files",
                            r->path);
    size_t length = strlen(name);
    if (length >= sizeof r->name)
        return ae_error_os(err, ENAMETOOLONG, "cannot write '%s'", r->path);
    memcpy(r->name, name, length + 1);
    if (slash)
        slash[slash == path] = '\0'; /* keep the root's own slash */
    const char *dir = slash ? path : ".";
    r->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->dir < 0)
        return ae_error_os(err, errno, "cannot write '%s': directory '%s'", r->path, dir);
    return AETHER_OK;
}

/* Only regular files are replaced: renaming over a device or a pipe would
 * destroy it. */
static int examine_old(aether_replace *r, aether_error *err) {
    struct stat st;
    if (fstatat(r->dir, r->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? AETHER_OK : ae_error_os(err, errno, "cannot write '%s'", r->path);
    if (S_ISDIR(st.st_mode))
        return ae_error_os(err, EISDIR, "cannot write '%s'", r->path);
    if (!S_ISREG(st.st_mode))
        return ae_error_set(err, AETHER_E_IO, "cannot write '%s': it is not a regular file", r->path);
    if (faccessat(r->dir, r->name, W_OK, AT_EACCESS) != 0) /* read-only files are not for replacing */
        return ae_error_os(err, errno, "cannot write '%s'", r->path);
    r->replaces = true;
    r->mode = st.st_mode & 0777;
    return AETHER_OK;
}

static uint64_t random_bits(void) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == (ssize_t)sizeof bits)
        return bits;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u ^ (uint64_t)now.tv_sec << 20 ^ (uint64_t)getpid();
}

static int lock(int fd) {
    int failed;
    do
        failed = flock(fd, LOCK_EX | LOCK_NB);
    while (failed && errno == EINTR);
    return failed;
}

/* Lock the new temporary, which tells others that its writer lives. False if somebody who
 * cleans up came in between and has taken it for a dead one. */
static bool claim_temporary(const aether_replace *r) {
    struct stat st;
    if (lock(r->fd) != 0 && errno == EWOULDBLOCK)
        return false; /* without locks, nobody can clean up either */
    return fstat(r->fd, &st) != 0 || st.st_nlink > 0;
}

/* A long name is cut, so that the temporary's name fits too. */
static int create_temporary(aether_replace *r, aether_error *err) {
    const int decoration = 2 + DIGITS + (int)strlen(AE_REPLACE_SUFFIX); /* dots and digits */
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(r->temporary, sizeof r->temporary, ".%.*s.%016" PRIx64 AE_REPLACE_SUFFIX,
                 NAME_MAX - decoration, r->name, random_bits());
        r->fd = ae_os_calls.open(r->dir, r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (r->fd >= 0 && claim_temporary(r))
            return AETHER_OK;
        if (r->fd >= 0) {
            close(r->fd);
            r->fd = -1;
            unlinkat(r->dir, r->temporary, 0);
        } else if (errno != EEXIST && errno != EINTR)
            break;
    }
    return ae_error_os(err, errno, "cannot create a temporary file beside '%s'", r->path);
}

/* ---- what dead writers left ---------------------------------------------------- */

bool ae_replace_is_temporary(const char *path) {
    size_t length = strlen(path), suffix = strlen(AE_REPLACE_SUFFIX);
    return length >= suffix && strcmp(path + length - suffix, AE_REPLACE_SUFFIX) == 0;
}

/* Return whether this is a temporary of the same target, of another writer. */
static bool is_sibling(const aether_replace *r, const char *name) {
    const size_t length = strlen(r->temporary), prefix = length - strlen(AE_REPLACE_SUFFIX) - DIGITS;
    if (strlen(name) != length || strcmp(name, r->temporary) == 0 || strncmp(name, r->temporary, prefix) != 0)
        return false;
    for (size_t i = prefix; i < prefix + DIGITS; i++)
        if (!isxdigit((unsigned char)name[i]))
            return false;
    return ae_replace_is_temporary(name);
}

/* A writer holds its lock while it lives, and so do children that it has forked. */
static void remove_if_dead(int dir, const char *name) {
    struct stat opened, named;
    int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && lock(fd) == 0 &&
        fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == opened.st_ino &&
        named.st_dev == opened.st_dev)
        unlinkat(dir, name, 0);
    close(fd);
}

/* Failures are ignored: a leftover does no harm. */
static void remove_stale(const aether_replace *r) {
    int fd = openat(r->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (is_sibling(r, entry->d_name))
            remove_if_dead(r->dir, entry->d_name);
    closedir(entries);
}

static int begin_replacing(aether_replace *r, aether_error *err) {
    char *target = NULL;
    int rc = resolve_path(r->path, &target, err);
    rc = rc ? rc : open_directory(r, target, err);
    rc = rc ? rc : examine_old(r, err);
    rc = rc ? rc : create_temporary(r, err);
    free(target);
    if (rc)
        return rc;
    if (r->replaces)
        fchmod(r->fd, r->mode); /* may be refused on odd file systems: no reason to fail */
    remove_stale(r);
    return AETHER_OK;
}

int aether_replace_begin(const char *path, aether_replace **out, aether_error *err) {
    *out = NULL;
    aether_replace *r = calloc(1, sizeof *r);
    if (r)
        r->path = strdup(path);
    if (!r || !r->path) {
        free(r);
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory writing '%s'", path);
    }
    r->dir = r->fd = -1;
    r->owner = getpid();
    int rc = begin_replacing(r, err);
    if (rc)
        aether_replace_abort(r);
    else
        *out = r;
    return rc;
}

/* ---- write ------------------------------------------------------------------- */

/* Let the kernel write back while we go on, or a commit would wait for
 * everything at once. A hint: failures show in fsync. */
static void start_write_back(aether_replace *r, uint64_t offset, uint64_t size) {
    if (r->unflushed == 0)
        r->flush_from = offset;
    r->unflushed += size;
    if (r->unflushed < FLUSH_INTERVAL || offset + size < r->flush_from)
        return;
    sync_file_range(r->fd, (off_t)r->flush_from, (off_t)(offset + size - r->flush_from),
                    SYNC_FILE_RANGE_WRITE);
    r->unflushed = 0;
}

static int write_failed(const aether_replace *r, int os_errno, uint64_t offset, aether_error *err) {
    return ae_error_os(err, os_errno, "cannot write '%s' at byte %" PRIu64 " (the old file, if any, is kept)",
                       r->path, offset);
}

static int not_replace_owner(const aether_replace *r, aether_error *err) {
    return ae_error_set(err, AETHER_E_INVALID,
                        "'%s' is being written by the process this one was forked from", r->path);
}

int aether_replace_write(aether_replace *r, const void *data, uint64_t size, uint64_t offset,
                         aether_error *err) {
    if (r->owner != getpid())
        return not_replace_owner(r, err);
    uint64_t start = offset;
    r->synced = false;
    int os_errno = ae_os_write_all(r->fd, data, size, &offset);
    if (os_errno)
        return write_failed(r, os_errno, offset, err);
    start_write_back(r, start, size);
    return AETHER_OK;
}

/* ---- commit and abort -------------------------------------------------------- */

static int sync_directory(const aether_replace *r, aether_error *err) {
    const int os_errno = ae_os_sync_directory(r->dir);
    if (!os_errno)
        return AETHER_OK;
    return ae_error_os(err, os_errno, "'%s' is written and in place, but its directory could not be synced",
                       r->path);
}

static void release_replace(aether_replace *r) {
    if (r->fd >= 0)
        close(r->fd);
    if (r->dir >= 0)
        close(r->dir);
    free(r->path);
    free(r);
}

int aether_replace_sync(aether_replace *r, aether_error *err) {
    if (r->owner != getpid())
        return not_replace_owner(r, err);
    const int os_errno = r->synced ? 0 : ae_os_fsync(r->fd);
    if (os_errno)
        return ae_error_os(err, os_errno, "cannot write '%s' to disk (the old file, if any, is kept)",
                           r->path);
    r->synced = true;
    return AETHER_OK;
}

int aether_replace_commit(aether_replace *r, aether_error *err) {
    int rc = aether_replace_sync(r, err);
    if (!rc && ae_os_calls.rename(r->dir, r->temporary, r->name) != 0)
        rc = ae_error_os(err, errno, "cannot put the new file in place of '%s'", r->path);
    if (rc) {
        aether_replace_abort(r);
        return rc;
    }
    rc = sync_directory(r, err);
    release_replace(r);
    return rc;
}

void aether_replace_abort(aether_replace *r) {
    if (!r)
        return;
    int saved = errno;
    if (r->fd >= 0 && r->owner == getpid())
        unlinkat(r->dir, r->temporary, 0);
    release_replace(r);
    errno = saved;
}
