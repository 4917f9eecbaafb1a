/*
 * fuzz_log: any bytes as the only segment of a log.
 *
 *   input  | mode | bytes |
 *
 *   mode bit 0   the bytes are frames, behind a header that checks; else they are the whole file
 *   mode bit 1   the magic and checksum of every frame are put right, so that what is behind them is reached
 *
 * A log that opens must go on: one more commit is written, and the next open shows the same commits
 * and that one.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log/crc32c.h"
#include "log/log.h"
#include "log/segment.h"
#include "must.h"
#include "os/write.h"

enum { MAX_SIZE = 32 << 10 };

static char dir[64];
static int dir_fd = -1;

static int no_sync(int fd) {
    (void)fd;
    return 0;
}

static void empty_directory(void) {
    DIR *d = opendir(dir);
    MUST(d);
    for (struct dirent *e; (e = readdir(d));)
        unlinkat(dir_fd, e->d_name, 0);
    closedir(d);
}

static void remove_directory(void) {
    empty_directory();
    rmdir(dir);
}

static void start(void) {
    static const ae_os_write_hooks hooks = {.fsync = no_sync, .fdatasync = no_sync};
    strcpy(dir, "/tmp/aether-fuzz-log-XXXXXX");
    MUST(mkdtemp(dir) && (dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
    MUST(atexit(remove_directory) == 0);
    ae_os_set_write_hooks(&hooks);
}

typedef struct seen {
    uint64_t count;
    uint32_t digest; /* of all that was replayed */
} seen;

static int see(void *user, const ae_log_commit *commit, aether_error *err) {
    (void)err;
    seen *s = user;
    MUST(commit->lsn == ++s->count);
    s->digest = ae_crc32c(s->digest, &commit->ops, sizeof commit->ops);
    s->digest = ae_crc32c(s->digest, commit->payload, commit->size);
    return AETHER_OK;
}

static void seal_frames(ae_log_header *segment, uint64_t size) {
    for (uint64_t offset = AE_LOG_HEADER_BYTES; offset + AE_LOG_UNIT <= size;) {
        ae_log_frame *frame = (ae_log_frame *)((uint8_t *)segment + offset);
        uint64_t bytes = ae_log_frame_bytes(frame->size);
        if (bytes > size - offset)
            return;
        ae_log_frame_seal(frame, segment->segment, offset);
        offset += bytes;
    }
}

/* Write the segment that the input means; return its size. */
static void make_segment(const uint8_t *input, size_t size) {
    static union {
        ae_log_header header;
        uint8_t bytes[MAX_SIZE];
    } s;
    const uint8_t mode = input[0];
    const size_t at = mode & 1 ? AE_LOG_HEADER_BYTES : 0, room = MAX_SIZE - at;
    size_t copied = size - 1 < room ? size - 1 : room;
    uint64_t total = at + copied;
    if (mode & 1) /* room for the frame that is cut, as in a file */
        total = total < AE_LOG_MIN_SEGMENT ? AE_LOG_MIN_SEGMENT : total;
    memset(&s, 0, sizeof s);
    memcpy(s.bytes + at, input + 1, copied);
    if (mode & 1) {
        s.header.first_lsn = 1;
        s.header.size = total;
        ae_log_header_seal(&s.header);
    }
    if (mode & 2)
        seal_frames(&s.header, total);
    int fd = openat(dir_fd, "wal-0000000000000001.log", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, s.bytes, total) == (ssize_t)total);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    const ae_log_options options = {.segment_size = AE_LOG_MIN_SEGMENT, .durability = AE_LOG_SYNC};
    if (size == 0)
        return 0;
    if (dir_fd < 0)
        start();
    empty_directory();
    make_segment(input, size);
    aether_error err = {0};
    ae_log *log;
    seen first = {0}, second = {0};
    int rc = ae_log_open(dir, &options, 1, see, &first, &log, &err);
    if (rc) {
        MUST(!log && err.code == rc && err.message[0]);
        return 0;
    }
    uint64_t lsn;
    MUST(ae_log_put(log, "more", 4, 9, &lsn, &err) == AETHER_OK && lsn == first.count + 1);
    ae_log_close(log);
    see(&first, &(ae_log_commit){.lsn = lsn, .payload = "more", .size = 4, .ops = 9}, NULL);
    MUST(ae_log_open(dir, &options, 1, see, &second, &log, &err) == AETHER_OK);
    MUST(second.count == first.count && second.digest == first.digest);
    ae_log_close(log);
    return 0;
}
