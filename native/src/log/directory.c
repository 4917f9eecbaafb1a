#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "log/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aether/io.h"
#include "core/error.h"
#include "core/minmax.h"
#include "os/write.h"

#define NAME_ROOM   64
#define NEW_NAME    "wal.new"
#define NEWEST_NAME "NEWEST"
#define SPARE_NAME  "wal.spare" /* while it is filled; then it has the name of no segment */
#define BLOCK       ((uint64_t)4096)
#define FILL_CHUNK  ((uint64_t)1 << 20)

static void segment_name(uint64_t first_lsn, const char *suffix, char name[NAME_ROOM]) {
    snprintf(name, NAME_ROOM, "wal-%016" PRIx64 ".%s", first_lsn, suffix);
}

void ae_log_segment_path(const ae_log_directory *dir, uint64_t first_lsn, char *path, uint64_t room) {
    snprintf(path, room, "%s/wal-%016" PRIx64 ".log", dir->path, first_lsn);
}

/* ---- the directory ----------------------------------------------------------------- */

int ae_log_directory_open(const char *path, ae_log_directory *out, aether_error *err) {
    *out = (ae_log_directory){.fd = -1, .path = strdup(path)};
    if (!out->path)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening the log in '%s'", path);
    out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->fd >= 0)
        return AETHER_OK;
    int rc = ae_error_os(err, errno, "cannot open the log's directory '%s'", path);
    ae_log_directory_close(out);
    return rc;
}

void ae_log_directory_close(ae_log_directory *dir) {
    if (dir->fd >= 0)
        close(dir->fd);
    free(dir->path);
    *dir = (ae_log_directory){.fd = -1};
}

int ae_log_directory_sync(const ae_log_directory *dir, aether_error *err) {
    const int os_errno = ae_os_sync_directory(dir->fd);
    return os_errno ? ae_error_os(err, os_errno, "cannot sync the log's directory '%s'", dir->path)
                    : AETHER_OK;
}

/* Return whether `name` is wal-<16 hex digits>.<suffix>, and the number, which is 1 to 2^63 - 1. */
static bool parse_name(const char *name, const char *suffix, uint64_t *first_lsn) {
    char again[NAME_ROOM];
    if (strncmp(name, "wal-", 4) != 0)
        return false;
    *first_lsn = strtoull(name + 4, NULL, 16);
    if (*first_lsn == 0 || *first_lsn > INT64_MAX)
        return false;
    segment_name(*first_lsn, suffix, again);
    return strcmp(name, again) == 0;
}

static int by_lsn(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* List the numbers of all files with a suffix, ascending. */
static int list(const ae_log_directory *dir, const char *suffix, uint64_t **lsns, uint64_t *count,
                aether_error *err) {
    *lsns = NULL;
    *count = 0;
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries) {
        int rc = ae_error_os(err, errno, "cannot list the log's directory '%s'", dir->path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = AETHER_OK;
    while (!rc) {
        uint64_t lsn;
        errno = 0; /* what readdir() leaves at the end of the directory */
        const struct dirent *entry = readdir(entries);
        if (!entry && errno)
            rc = ae_error_os(err, errno, "cannot list the log's directory '%s'", dir->path);
        if (!entry)
            break;
        if (!parse_name(entry->d_name, suffix, &lsn))
            continue;
        uint64_t *more = realloc(*lsns, (*count + 1) * sizeof *more);
        if (more) {
            *lsns = more;
            more[(*count)++] = lsn;
        } else
            rc = ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory listing the log in '%s'", dir->path);
    }
    closedir(entries);
    if (rc) {
        free(*lsns);
        *lsns = NULL;
    } else if (*count)
        qsort(*lsns, *count, sizeof **lsns, by_lsn);
    return rc;
}

int ae_log_list_segments(const ae_log_directory *dir, uint64_t **lsns, uint64_t *count, aether_error *err) {
    return list(dir, "log", lsns, count, err);
}

int ae_log_open_segment(const ae_log_directory *dir, uint64_t first_lsn, bool writes, int *fd,
                        aether_error *err) {
    char name[NAME_ROOM];
    segment_name(first_lsn, "log", name);
    *fd = ae_os_calls.open(dir->fd, name, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC, 0);
    if (*fd < 0)
        return ae_error_os(err, errno, "cannot open log segment '%s/%s'", dir->path, name);
    struct stat st;
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode))
        return AETHER_OK;
    close(*fd);
    *fd = -1;
    return ae_error_set(err, AETHER_E_IO, "cannot open log segment '%s/%s': it is not a regular file",
                        dir->path, name);
}

/* ---- the newest segment ------------------------------------------------------------ */

/* *first_lsn is 0 where nothing is known: before the first segment, behind a merge, of older builds. */
static int read_newest(const ae_log_directory *dir, uint64_t *first_lsn, aether_error *err) {
    char text[17] = {0}, *end;
    struct stat st;
    *first_lsn = 0;
    const int fd = ae_os_calls.open(dir->fd, NEWEST_NAME, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0);
    if (fd < 0 && errno == ENOENT)
        return AETHER_OK;
    if (fd < 0)
        return ae_error_os(err, errno, "cannot open '%s/" NEWEST_NAME "'", dir->path);
    const bool whole =
        fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 16 && pread(fd, text, 16, 0) == 16;
    close(fd);
    *first_lsn = whole ? strtoull(text, &end, 16) : 0;
    if (*first_lsn == 0 || *first_lsn > INT64_MAX || end != text + 16) {
        *first_lsn = 0;
        return ae_error_set(err, AETHER_E_CORRUPT, "'%s/" NEWEST_NAME "' is damaged: it names no log segment",
                            dir->path);
    }
    return AETHER_OK;
}

static int note_newest(const ae_log_directory *dir, uint64_t first_lsn, aether_error *err) {
    char text[17];
    uint64_t offset = 0;
    snprintf(text, sizeof text, "%016" PRIx64, first_lsn);
    const int fd = ae_os_calls.open(dir->fd, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int os_errno = fd < 0 ? errno : ae_os_write_all(fd, text, 16, &offset);
    if (!os_errno)
        os_errno = ae_os_fdatasync(fd);
    if (!os_errno && ae_os_calls.rename(dir->fd, NEW_NAME, NEWEST_NAME) != 0)
        os_errno = errno;
    if (fd >= 0)
        close(fd);
    if (!os_errno)
        return ae_log_directory_sync(dir, err);
    unlinkat(dir->fd, NEW_NAME, 0);
    return ae_error_os(err, os_errno, "cannot write '%s/" NEWEST_NAME "'", dir->path);
}

int ae_log_forget_newest(const ae_log_directory *dir, aether_error *err) {
    if (unlinkat(dir->fd, NEWEST_NAME, 0) == 0)
        return ae_log_directory_sync(dir, err);
    return errno == ENOENT ? AETHER_OK
                           : ae_error_os(err, errno, "cannot remove '%s/" NEWEST_NAME "'", dir->path);
}

int ae_log_check_newest(const ae_log_directory *dir, aether_error *err) {
    char name[NAME_ROOM];
    uint64_t newest, again;
    int rc = read_newest(dir, &newest, err);
    if (rc || newest == 0)
        return rc;
    segment_name(newest, "log", name);
    if (faccessat(dir->fd, name, F_OK, 0) == 0)
        return AETHER_OK;
    rc = read_newest(dir, &again, err); /* a merge may have given it up meanwhile */
    if (rc || again != newest)
        return rc;
    return ae_error_at(err, AETHER_E_CORRUPT, -1, (int64_t)newest,
                       "the log in '%s' has had the segment '%s', which is missing", dir->path, name);
}

/* ---- whose a file is --------------------------------------------------------------- */

/* Return whether a file is of the graph's log, damaged or not. One that is filled with zeros for later has no
 * header yet. */
static bool is_of_log(const ae_log_directory *dir, const uint8_t graph[16], const char *name) {
    static const char zeros[sizeof((ae_log_header *)0)->magic];
    ae_log_header header = {.first_lsn = 0};
    struct stat st;
    const int fd = ae_os_calls.open(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0);
    if (fd < 0)
        return false;
    const bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    const ssize_t got = regular ? pread(fd, &header, sizeof header, 0) : -1;
    close(fd);
    if (got < 0)
        return false;
    if (memcmp(header.magic, zeros, sizeof zeros) == 0)
        return true;
    if ((uint64_t)got < sizeof header)
        return memcmp(header.magic, AE_LOG_MAGIC, ae_min_u64((uint64_t)got, sizeof header.magic)) == 0;
    const int rc = ae_log_header_check(&header, graph, header.first_lsn, header.size, name, NULL);
    return rc == AETHER_OK || rc == AETHER_E_CORRUPT;
}

/* ---- begin ------------------------------------------------------------------------- */

static bool has_size(int fd, uint64_t size) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size;
}

/* Open a free file of the right size and write down its name; -1 if there is none. Others of the graph are of
 * no use and are deleted. */
static int take_free(const ae_log_directory *dir, const uint8_t graph[16], uint64_t size,
                     char name[NAME_ROOM]) {
    uint64_t *lsns, count;
    int fd = -1;
    if (list(dir, "free", &lsns, &count, NULL))
        return -1;
    for (uint64_t i = 0; i < count && fd < 0; i++) {
        segment_name(lsns[i], "free", name);
        if (!is_of_log(dir, graph, name))
            continue;
        fd = ae_os_calls.open(dir->fd, name, O_RDWR | O_CLOEXEC, 0);
        if (fd >= 0 && !has_size(fd, size)) {
            close(fd);
            fd = -1;
            unlinkat(dir->fd, name, 0);
        }
    }
    free(lsns);
    return fd;
}

/* Return 0 or an errno. */
static int fill_with_zeros(int fd, uint64_t size) {
    uint8_t *zeros = calloc(1, FILL_CHUNK);
    int os_errno = zeros ? 0 : ENOMEM;
    for (uint64_t offset = 0; offset < size && !os_errno;)
        os_errno = ae_os_write_all(fd, zeros, ae_min_u64(FILL_CHUNK, size - offset), &offset);
    free(zeros);
    return os_errno ? os_errno : ae_os_fsync(fd);
}

/* Return a descriptor, or -1 and an errno; then the space is given back. */
static int create_filled(const ae_log_directory *dir, uint64_t size) {
    int fd = ae_os_calls.open(dir->fd, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    int os_errno = fill_with_zeros(fd, size);
    if (!os_errno)
        return fd;
    close(fd);
    unlinkat(dir->fd, NEW_NAME, 0);
    errno = os_errno;
    return -1;
}

/* Return 0 or an errno. */
static int put_segment_header(const ae_log_directory *dir, int fd, const ae_log_header *header,
                              const char *from, const char *to) {
    uint64_t offset = 0;
    int os_errno = ae_os_write_all(fd, header, sizeof *header, &offset);
    if (!os_errno)
        os_errno = ae_os_fdatasync(fd);
    if (os_errno)
        return os_errno;
    return ae_os_calls.rename(dir->fd, from, to) != 0 ? errno : 0;
}

int ae_log_begin_segment(const ae_log_directory *dir, const ae_log_header *header, int *out,
                         aether_error *err) {
    char from[NAME_ROOM], to[NAME_ROOM];
    segment_name(header->first_lsn, "log", to);
    int fd = take_free(dir, header->graph, header->size, from);
    if (fd < 0) {
        strcpy(from, NEW_NAME);
        fd = create_filled(dir, header->size);
    }
    int os_errno = fd < 0 ? errno : put_segment_header(dir, fd, header, from, to);
    int rc = os_errno
                 ? ae_error_os(err, os_errno,
                               "cannot begin log segment '%s/%s', which needs %" PRIu64 " bytes of free disk",
                               dir->path, to, header->size)
                 : ae_log_directory_sync(dir, err);
    rc = rc ? rc : note_newest(dir, header->first_lsn, err);
    if (!rc)
        *out = fd;
    else if (fd >= 0)
        close(fd);
    return rc;
}

static bool has_free(const ae_log_directory *dir) {
    uint64_t *lsns, count;
    if (list(dir, "free", &lsns, &count, NULL))
        return true; /* leave it alone */
    free(lsns);
    return count > 0;
}

void ae_log_drop_spare(const ae_log_directory *dir, ae_log_spare *spare) {
    if (spare->fd < 0)
        return;
    close(spare->fd);
    unlinkat(dir->fd, SPARE_NAME, 0);
    *spare = (ae_log_spare){.fd = -1};
}

/* The file has its name when all of it is on disk. */
static void keep_spare(const ae_log_directory *dir, ae_log_spare *spare) {
    char name[NAME_ROOM];
    segment_name(INT64_MAX, "free", name);
    if (ae_os_fsync(spare->fd) != 0 || ae_os_calls.rename(dir->fd, SPARE_NAME, name) != 0) {
        ae_log_drop_spare(dir, spare);
        return;
    }
    close(spare->fd);
    *spare = (ae_log_spare){.fd = -1};
}

/* Each piece is synced by itself: a commit that is synced meanwhile waits for one at most. */
bool ae_log_fill_some(const ae_log_directory *dir, uint64_t size, ae_log_spare *spare) {
    if (spare->fd < 0) {
        if (has_free(dir))
            return false;
        spare->fd = ae_os_calls.open(dir->fd, SPARE_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        spare->end = 0;
        return spare->fd >= 0;
    }
    const uint64_t n = ae_min_u64(FILL_CHUNK, size - spare->end);
    void *zeros = calloc(1, FILL_CHUNK);
    const bool good =
        zeros && ae_os_write_all(spare->fd, zeros, n, &spare->end) == 0 && ae_os_fdatasync(spare->fd) == 0;
    free(zeros);
    if (!good)
        ae_log_drop_spare(dir, spare);
    else if (spare->end == size)
        keep_spare(dir, spare);
    return spare->fd >= 0;
}

void ae_log_remove_unfinished(const ae_log_directory *dir) {
    unlinkat(dir->fd, NEW_NAME, 0);
    unlinkat(dir->fd, SPARE_NAME, 0);
}

/* ---- recycle ----------------------------------------------------------------------- */

void ae_log_cut_unused(int fd, uint64_t end, uint64_t size) {
    const uint64_t from = (end + BLOCK - 1) / BLOCK * BLOCK;
    if (from < size)
        aether_file_discard(fd, from, size - from);
}

/* Return whether the disk has room for all of a file: a segment must not find it full half-way. */
static bool is_whole(const ae_log_directory *dir, const char *name) {
    struct stat found;
    return fstatat(dir->fd, name, &found, 0) == 0 && found.st_blocks * 512 >= found.st_size;
}

int ae_log_recycle_segment(const ae_log_directory *dir, const uint8_t graph[16], uint64_t first_lsn,
                           aether_error *err) {
    char from[NAME_ROOM], to[NAME_ROOM];
    uint64_t *lsns, count, newest;
    int rc =
        read_newest(dir, &newest, NULL) || newest == first_lsn ? ae_log_forget_newest(dir, err) : AETHER_OK;
    rc = rc ? rc : list(dir, "free", &lsns, &count, err);
    if (rc)
        return rc;
    free(lsns);
    segment_name(first_lsn, "log", from);
    segment_name(first_lsn, "free", to);
    if (faccessat(dir->fd, from, F_OK, AT_SYMLINK_NOFOLLOW) == 0 && !is_of_log(dir, graph, from))
        return AETHER_OK;
    const bool kept = count < AE_LOG_MAX_FREE && is_whole(dir, from);
    int failed = kept ? ae_os_calls.rename(dir->fd, from, to) : unlinkat(dir->fd, from, 0);
    if (failed)
        return ae_error_os(err, errno, "cannot recycle log segment '%s/%s'", dir->path, from);
    return ae_log_directory_sync(dir, err);
}

void ae_log_trim_free(const ae_log_directory *dir, const uint8_t graph[16], uint64_t keep) {
    char name[NAME_ROOM];
    uint64_t *lsns, count;
    if (list(dir, "free", &lsns, &count, NULL))
        return;
    for (uint64_t i = keep; i < count; i++) {
        segment_name(lsns[i], "free", name);
        if (is_of_log(dir, graph, name))
            unlinkat(dir->fd, name, 0);
    }
    free(lsns);
}
