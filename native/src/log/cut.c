#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "log/cut.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/minmax.h"
#include "os/write.h"

#define NEW_NAME  "wal.new"
#define NAME_ROOM 64

static int cut_failure(const ae_log_directory *dir, uint64_t first_lsn, int os_errno, aether_error *err) {
    return ae_error_os(err, os_errno, "cannot cut log segment '%s/wal-%016" PRIx64 ".log'", dir->path,
                       first_lsn);
}

/* ---- reading a segment that may be damaged ---- */

/* Return the segment in a buffer of the size that its header says, with zeros for what the file does not
 * have; *room is 0 if its header is of no use. */
static int load_cut_segment(const ae_log_directory *dir, uint64_t first_lsn, ae_log_header **out,
                            uint64_t *room, uint64_t *size, aether_error *err) {
    ae_log_header header;
    struct stat st;
    int fd, os_errno = 0;
    *room = 0;
    *out = NULL;
    const int rc = ae_log_open_segment(dir, first_lsn, false, &fd, err);
    if (rc)
        return rc;
    if (fstat(fd, &st) != 0)
        os_errno = errno;
    *size = os_errno ? 0 : (uint64_t)st.st_size;
    const bool good = !os_errno && pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
                      ae_log_header_check(&header, header.graph, first_lsn, header.size, "", NULL) == 0 &&
                      header.size >= AE_LOG_MIN_SEGMENT && header.size <= AE_LOG_MAX_SEGMENT;
    if (good && (*out = aether_buffer_alloc(header.size, err)) != NULL) { /* zeros */
        *room = header.size;
        for (uint64_t done = 0; done < header.size && !os_errno;) {
            const ssize_t got = pread(fd, (uint8_t *)*out + done, header.size - done, (off_t)done);
            if (got < 0 && errno != EINTR)
                os_errno = errno;
            if (got == 0)
                break;
            done += got > 0 ? (uint64_t)got : 0;
        }
    }
    close(fd);
    if (!os_errno)
        return good && !*out ? AETHER_E_NO_MEMORY : AETHER_OK;
    aether_buffer_free(*out, *room);
    *out = NULL;
    return cut_failure(dir, first_lsn, os_errno, err);
}

/* ---- putting aside ---- */

/* Give a segment a second name, or, if `moves`, another one, which no file has. Return 0 or an errno. */
static int put_aside(const ae_log_directory *dir, uint64_t first_lsn, bool moves) {
    char name[NAME_ROOM], aside[NAME_ROOM];
    snprintf(name, sizeof name, "wal-%016" PRIx64 ".log", first_lsn);
    for (unsigned number = 1;; number++) {
        snprintf(aside, sizeof aside, "wal-%016" PRIx64 ".log.cut-%u", first_lsn, number);
        if (linkat(dir->fd, name, dir->fd, aside, 0) == 0)
            return moves && unlinkat(dir->fd, name, 0) != 0 ? errno : 0;
        if (errno != EEXIST)
            return errno;
    }
}

/* Put a segment aside, and another content in its place. Return 0 or an errno. */
static int replace(const ae_log_directory *dir, uint64_t first_lsn, const ae_log_header *bytes) {
    char name[NAME_ROOM];
    uint64_t offset = 0;
    snprintf(name, sizeof name, "wal-%016" PRIx64 ".log", first_lsn);
    const int fd = ae_os_calls.open(dir->fd, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int os_errno = ae_os_write_all(fd, bytes, bytes->size, &offset);
    if (!os_errno)
        os_errno = ae_os_fsync(fd);
    close(fd);
    if (!os_errno)
        os_errno = put_aside(dir, first_lsn, false);
    if (!os_errno && ae_os_calls.rename(dir->fd, NEW_NAME, name) != 0)
        os_errno = errno;
    if (os_errno)
        unlinkat(dir->fd, NEW_NAME, 0);
    return os_errno;
}

/* ---- cutting ---- */

int ae_log_complete(const ae_log_directory *dir, const uint64_t *segments, uint64_t num_segments,
                    aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t i = 0; i < num_segments && !rc; i++) {
        ae_log_header *bytes;
        uint64_t room, size;
        rc = load_cut_segment(dir, segments[i], &bytes, &room, &size, err);
        const int os_errno = !rc && size < room ? replace(dir, segments[i], bytes) : 0;
        if (os_errno)
            rc = cut_failure(dir, segments[i], os_errno, err);
        aether_buffer_free(bytes, room);
    }
    return rc ? rc : ae_log_directory_sync(dir, err);
}

/* Shorten the segment that has the commits before `lsn`. */
static int shorten(const ae_log_directory *dir, uint64_t first_lsn, uint64_t lsn, aether_error *err) {
    ae_log_header *bytes;
    uint64_t room, size, offset = AE_LOG_HEADER_BYTES;
    const int rc = load_cut_segment(dir, first_lsn, &bytes, &room, &size, err);
    if (rc)
        return rc;
    int os_errno = 0;
    if (bytes) {
        for (uint64_t next = first_lsn; next < lsn; next++) {
            const ae_log_frame *frame = ae_log_frame_at(bytes, offset);
            if (!frame || frame->lsn != next)
                break;
            offset += ae_log_frame_bytes(frame->size);
        }
        memset((uint8_t *)bytes + offset, 0, room - offset);
        os_errno = replace(dir, first_lsn, bytes);
    } else
        os_errno = put_aside(dir, first_lsn, true);
    aether_buffer_free(bytes, room);
    return os_errno ? cut_failure(dir, first_lsn, os_errno, err) : AETHER_OK;
}

int ae_log_cut(const ae_log_directory *dir, const uint64_t *segments, uint64_t num_segments, uint64_t lsn,
               aether_error *err) {
    uint64_t left = num_segments;
    const int forgotten = ae_log_forget_newest(dir, err);
    if (forgotten)
        return forgotten;
    for (; left && segments[left - 1] >= lsn; left--) {
        const int os_errno = put_aside(dir, segments[left - 1], true);
        if (os_errno)
            return cut_failure(dir, segments[left - 1], os_errno, err);
    }
    const int rc = left ? shorten(dir, segments[left - 1], lsn, err) : AETHER_OK;
    return rc ? rc : ae_log_directory_sync(dir, err);
}
