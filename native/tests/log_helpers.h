/*
 * log_helpers.h - commits whose content follows from their lsn, so that a replay can be checked
 * without keeping them.
 */
#ifndef AE_LOG_HELPERS_H
#define AE_LOG_HELPERS_H

#include <dirent.h>
#include <fcntl.h>

#include "log/log.h"
#include "log/segment.h"
#include "os/write.h"
#include "test.h"

#define LOG_MAX_PAYLOAD 3000

static const uint8_t log_graph[] = "the test's graph"; /* 16 bytes and the one that ends them */

static inline ae_log_options log_options(uint64_t segment_size, ae_log_durability durability) {
    ae_log_options options = {.segment_size = segment_size, .durability = durability};
    memcpy(options.graph, log_graph, 16);
    return options;
}

/* Fill `payload` with the commit of an lsn and return its size: often small, sometimes 0. */
static inline uint32_t log_payload(uint64_t lsn, uint8_t *payload) {
    uint64_t state = lsn;
    uint32_t limit = test_random(&state) % 4 ? 300 : LOG_MAX_PAYLOAD;
    uint32_t size = (uint32_t)(test_random(&state) % limit);
    for (uint32_t i = 0; i < size; i++)
        payload[i] = (uint8_t)test_random(&state);
    return size;
}

static inline uint32_t log_ops(uint64_t lsn) {
    return (uint32_t)(lsn * 7 % 1000);
}

/* Put the next commit, and check its number. Return the code. */
static inline int log_put_next(ae_log *log, aether_error *err) {
    uint8_t payload[LOG_MAX_PAYLOAD];
    uint64_t expected = ae_log_next(log), lsn;
    int rc = ae_log_put(log, payload, log_payload(expected, payload), log_ops(expected), &lsn, err);
    if (!rc)
        CHECK_EQ(lsn, expected);
    return rc;
}

typedef struct log_replay {
    uint64_t first, next; /* what was replayed: first to next - 1 */
} log_replay;

static inline int log_check_commit(void *user, const ae_log_commit *commit, aether_error *err) {
    (void)err;
    log_replay *r = user;
    uint8_t payload[LOG_MAX_PAYLOAD];
    CHECK_EQ(commit->lsn, r->next);
    CHECK_EQ((uintptr_t)commit->payload % 8, 0);
    uint32_t size = log_payload(commit->lsn, payload);
    CHECK_EQ(commit->size, size);
    CHECK(commit->size == size && memcmp(commit->payload, payload, size) == 0);
    CHECK_EQ(commit->ops, log_ops(commit->lsn));
    r->next++;
    return AETHER_OK;
}

/* Open and replay from `from`; *next becomes the lsn after the last that was replayed. */
static inline int log_open(const char *path, const ae_log_options *options, uint64_t from, uint64_t *next,
                           ae_log **log, aether_error *err) {
    log_replay r = {from, from};
    int rc = ae_log_open(path, options, from, log_check_commit, &r, log, err);
    *next = r.next;
    return rc;
}

/* A fresh directory. */
static inline const char *log_dir(char *buffer, size_t size, const char *name) {
    mkdir(test_path(buffer, size, name), 0700);
    return buffer;
}

/* ---- system calls ---- */

static inline int log_no_sync(int fd) {
    (void)fd;
    return 0;
}

/* For tests that open a log thousands of times: what is in the page cache is there for the next one, too. */
static const ae_os_write_hooks log_without_syncs = {.fsync = log_no_sync, .fdatasync = log_no_sync};

enum { LOG_MOST_UNSYNCED = 64 };

/* Files that were written to since their last sync, and whether a name was given since the directory's. */
static struct {
    ino_t files[LOG_MOST_UNSYNCED];
    unsigned num_files, renames;
    bool names;
} log_unsynced;

static inline bool log_is_unsynced(ino_t file) {
    for (unsigned i = 0; i < log_unsynced.num_files; i++)
        if (log_unsynced.files[i] == file)
            return true;
    return false;
}

static inline ssize_t log_note_write(int fd, const void *data, size_t size, off_t offset) {
    struct stat st;
    if (fstat(fd, &st) != 0 || log_unsynced.num_files == LOG_MOST_UNSYNCED)
        abort();
    if (!log_is_unsynced(st.st_ino))
        log_unsynced.files[log_unsynced.num_files++] = st.st_ino;
    return pwrite(fd, data, size, offset);
}

static inline int log_note_sync(int fd) {
    struct stat st;
    unsigned kept = 0;
    if (fstat(fd, &st) != 0)
        abort();
    for (unsigned i = 0; i < log_unsynced.num_files; i++)
        if (log_unsynced.files[i] != st.st_ino)
            log_unsynced.files[kept++] = log_unsynced.files[i];
    log_unsynced.num_files = kept;
    log_unsynced.names &= !S_ISDIR(st.st_mode);
    return 0;
}

/* A file gets another name when what was written to it is on disk. */
static inline int log_note_rename(int dir, const char *from, const char *to) {
    struct stat st;
    if (fstatat(dir, from, &st, 0) != 0)
        abort();
    if (!strstr(to, ".free")) /* what is in a free file counts for nothing */
        CHECK(!log_is_unsynced(st.st_ino));
    log_unsynced.names = true;
    log_unsynced.renames++;
    return renameat(dir, from, dir, to);
}

static const ae_os_write_hooks log_notes_syncs = {
    .pwrite = log_note_write, .fsync = log_note_sync, .rename = log_note_rename, .fdatasync = log_note_sync};

/* ---- files ---- */

static inline unsigned log_count_files(const char *dir, const char *suffix) {
    unsigned found = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t length = strlen(e->d_name), tail = strlen(suffix);
        found += length >= tail && strcmp(e->d_name + length - tail, suffix) == 0;
    }
    if (d)
        closedir(d);
    return found;
}

static inline void log_remove_files(const char *dir) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static inline uint8_t *log_read_file(const char *path, size_t size) {
    uint8_t *bytes = malloc(size);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!bytes || fd < 0 || pread(fd, bytes, size, 0) != (ssize_t)size)
        abort();
    close(fd);
    return bytes;
}

static inline void log_write_file(const char *path, const void *bytes, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size)
        abort();
    close(fd);
}

#endif
