#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "log/recover.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/minmax.h"
#include "os/write.h"

bool ae_log_is_damage(int rc) {
    return rc == AETHER_E_CORRUPT || rc == AETHER_E_TRUNCATED || rc == AETHER_E_FORMAT;
}

#define PUT_BACK  "put it back, or "
#define MOVE_AWAY "move it away if it is none of this graph's, or "

/* Let an error that is damage name the first commit that is lost, and the way out; @first is what
 * else may be done. */
static int with_remedy(int rc, const ae_log_directory *dir, uint64_t lsn, const char *first,
                       aether_error *err) {
    if (err && ae_log_is_damage(rc)) {
        const size_t used = strlen(err->message);
        err->value = (int64_t)lsn;
        snprintf(err->message + used, sizeof err->message - used,
                 "; %slet the log end before commit %" PRIu64 ": aethergraph verify --truncate '%s'", first,
                 lsn, dir->path);
    }
    return rc;
}

typedef struct loaded_segment {
    int fd;
    ae_log_header *bytes; /* the whole file, with zeros for what was cut off */
    uint64_t size;        /* of the buffer, as the header says */
    uint64_t held;        /* of the file: less if it was cut short */
    char path[PATH_MAX];
} loaded_segment;

static void unload(loaded_segment *s) {
    aether_buffer_free(s->bytes, s->size);
    if (s->fd >= 0)
        close(s->fd);
}

/* Read bytes [from, size) of the file to where they belong in `bytes`. */
static int read_file(const loaded_segment *s, void *bytes, uint64_t from, uint64_t size, aether_error *err) {
    for (uint64_t done = from; done < size;) {
        ssize_t got = pread(s->fd, (uint8_t *)bytes + done, size - done, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return ae_error_os(err, got < 0 ? errno : EIO, "cannot read log segment '%s' at byte %" PRIu64,
                               s->path, done);
        done += (uint64_t)got;
    }
    return AETHER_OK;
}

static int load_segment(loaded_segment *s, const ae_log_directory *dir, const uint8_t graph[16],
                        uint64_t first_lsn, bool writes, aether_error *err) {
    ae_log_header header = {.first_lsn = 0};
    struct stat st;
    *s = (loaded_segment){.fd = -1};
    ae_log_segment_path(dir, first_lsn, s->path, sizeof s->path);
    int rc = ae_log_open_segment(dir, first_lsn, writes, &s->fd, err);
    if (rc)
        return rc;
    if (fstat(s->fd, &st) != 0)
        return ae_error_os(err, errno, "cannot read log segment '%s'", s->path);
    s->held = (uint64_t)st.st_size;
    rc = read_file(s, &header, 0, ae_min_u64(s->held, sizeof header), err);
    if (rc)
        return rc;
    if (s->held < sizeof header &&
        memcmp(header.magic, AE_LOG_MAGIC, ae_min_u64(s->held, sizeof header.magic)) == 0)
        return ae_error_at(err, AETHER_E_TRUNCATED, (int64_t)s->held, (int64_t)first_lsn,
                           "log segment '%s' is cut short at byte %" PRIu64 ", before its first commit",
                           s->path, s->held);
    rc = ae_log_header_check(&header, graph, first_lsn, s->held, s->path, err);
    if (rc && rc != AETHER_E_TRUNCATED)
        return rc;
    if (header.size < AE_LOG_MIN_SEGMENT || header.size > AE_LOG_MAX_SEGMENT)
        return ae_error_at(err, AETHER_E_FORMAT, 0, (int64_t)header.size,
                           "'%s' says that it has %" PRIu64 " bytes, as no segment of a log has", s->path,
                           header.size);
    s->bytes = aether_buffer_alloc(header.size, err);
    if (!s->bytes)
        return AETHER_E_NO_MEMORY;
    s->size = header.size;
    rc = read_file(s, s->bytes, 0, s->held, err);
    memcpy(s->bytes, &header, sizeof header); /* the one that was checked: a writer may use the file again */
    return rc;
}

/* Write the frames of lsn `from` up to byte `end`, where `next` would go, once more, and sync them. */
static int settle_frames(const loaded_segment *s, uint64_t from, uint64_t end, uint64_t next,
                         aether_error *err) {
    _Alignas(ae_log_frame) uint8_t mark[AE_LOG_UNIT];
    uint64_t offset = AE_LOG_HEADER_BYTES;
    while (offset < end) {
        const ae_log_frame *frame = ae_log_frame_at(s->bytes, offset);
        if (!frame || frame->lsn >= from)
            break;
        offset += ae_log_frame_bytes(frame->size);
    }
    if (offset == end)
        return AETHER_OK;
    int os_errno = ae_os_write_all(s->fd, (const uint8_t *)s->bytes + offset, end - offset, &offset);
    if (!os_errno)
        os_errno = ae_os_fdatasync(s->fd);
    if (os_errno)
        return ae_error_os(err, os_errno, "cannot write the end of log segment '%s'", s->path);
    if (s->size - end >= AE_LOG_UNIT) { /* a mark that cannot be written is none */
        ae_log_mark_fill((ae_log_frame *)(void *)mark, s->bytes->segment, end, next, next - 1);
        (void)ae_os_write_all(s->fd, mark, sizeof mark, &offset);
    }
    return AETHER_OK;
}

/* How the segments are read. */
typedef struct reading {
    const ae_log_directory *dir;
    uint64_t from;
    ae_log_apply apply;
    void *user;
    bool settles;
    uint64_t *next;
} reading;

/* How far a segment has been replayed. */
typedef struct place {
    uint64_t offset, lsn; /* of the frame that would be next */
    uint64_t synced;      /* the frames say that commits up to it are on disk */
} place;

/* Replay the frames that check, up to `end`. */
static int replay_frames(const loaded_segment *s, uint64_t end, const reading *r, place *at,
                         aether_error *err) {
    while (at->lsn != end) {
        const ae_log_frame *frame = ae_log_frame_at(s->bytes, at->offset);
        if (!frame || frame->lsn != at->lsn)
            break;
        ae_log_commit commit = {at->lsn, frame->ns, frame->payload, frame->size, frame->ops};
        *r->next = at->lsn;
        int rc = at->lsn >= r->from ? r->apply(r->user, &commit, err) : AETHER_OK;
        if (rc)
            return rc;
        at->synced = ae_max_u64(at->synced, frame->synced);
        at->offset += ae_log_frame_bytes(frame->size);
        at->lsn++;
    }
    *r->next = at->lsn;
    return AETHER_OK;
}

/* Return whether the frame that does not check was on disk, as the rest of the last segment says. A
 * writer may have gone on while the segment was read, so that the rest is newer than the frame: it is read
 * again, and if the frame checks now, *at moves on. */
static int find_damage(const loaded_segment *s, const reading *r, place *at, bool *damaged,
                       aether_error *err) {
    for (;;) {
        const uint64_t lsn = at->lsn;
        *damaged = ae_log_find_witness(s->bytes, at->offset, lsn) != 0;
        if (!*damaged || r->settles)
            return AETHER_OK;
        int rc = read_file(s, s->bytes, at->offset, s->held, err);
        rc = rc ? rc : replay_frames(s, 0, r, at, err);
        if (rc || at->lsn == lsn)
            return rc;
    }
}

/* Replay one segment up to `end`, the first lsn of the next one (0 if this is the last). */
static int replay(const loaded_segment *s, uint64_t end, const reading *r, aether_error *err) {
    place at = {AE_LOG_HEADER_BYTES, s->bytes->first_lsn, s->bytes->first_lsn - 1};
    bool damaged = end != 0;
    int rc = replay_frames(s, end, r, &at, err);
    if (!rc && !end && s->held == s->size)
        rc = find_damage(s, r, &at, &damaged, err);
    if (rc)
        return rc;
    const uint64_t lsn = at.lsn, offset = at.offset;
    if (s->held < s->size)
        return with_remedy(ae_error_at(err, AETHER_E_TRUNCATED, (int64_t)s->held, (int64_t)lsn,
                                       "log segment '%s' is cut short at byte %" PRIu64 " of %" PRIu64
                                       ": the commits before %" PRIu64 " are whole",
                                       s->path, s->held, s->size, lsn),
                           r->dir, lsn, "", err);
    if (lsn == end)
        return AETHER_OK;
    if (damaged)
        return with_remedy(ae_error_at(err, AETHER_E_CORRUPT, (int64_t)offset, (int64_t)lsn,
                                       "log segment '%s' is damaged at byte %" PRIu64 ": commit %" PRIu64
                                       " was on disk, as %s after it says, but does not check",
                                       s->path, offset, lsn, end ? "the segment" : "what comes"),
                           r->dir, lsn, "", err);
    if (!r->settles)
        return AETHER_OK;
    const ae_log_frame *mark = ae_log_mark_at(s->bytes, offset);
    if (mark && mark->lsn == lsn)
        at.synced = ae_max_u64(at.synced, mark->synced);
    return settle_frames(s, at.synced + 1, offset, lsn, err);
}

/* Load a segment; an error names the way out. */
static int load_needed(loaded_segment *s, const reading *r, const uint8_t graph[16], uint64_t first_lsn,
                       aether_error *err) {
    const int rc = load_segment(s, r->dir, graph, first_lsn, r->settles, err);
    return with_remedy(rc, r->dir, *r->next, rc == AETHER_E_FORMAT ? MOVE_AWAY : "", err);
}

/* Return an error if the file that follows the commits that check is none of the log: then it says nothing
 * about them. */
static int check_following(const reading *r, const uint8_t graph[16], uint64_t first_lsn, aether_error *err) {
    loaded_segment s;
    const int rc = load_needed(&s, r, graph, first_lsn, err);
    unload(&s);
    return rc == AETHER_E_FORMAT || rc == AETHER_E_INVALID ? rc : AETHER_OK;
}

static int read_segments(const uint8_t graph[16], const uint64_t *segments, uint64_t num_segments,
                         const reading *r, aether_error *err) {
    *r->next = r->from;
    if (num_segments && segments[0] > r->from)
        return with_remedy(ae_error_at(err, AETHER_E_CORRUPT, -1, (int64_t)r->from,
                                       "the log in '%s' begins at commit %" PRIu64 ", but %" PRIu64
                                       " is needed: a segment is missing",
                                       r->dir->path, segments[0], r->from),
                           r->dir, r->from, PUT_BACK, err);
    int rc = AETHER_OK;
    for (uint64_t i = 0; i < num_segments && !rc; i++) {
        uint64_t end = i + 1 < num_segments ? segments[i + 1] : 0;
        if (end && end <= r->from) /* nothing of it is needed: it may be as it likes */
            continue;
        loaded_segment s;
        rc = load_needed(&s, r, graph, segments[i], err);
        rc = rc ? rc : replay(&s, end, r, err);
        unload(&s);
        if (rc == AETHER_E_CORRUPT && end) {
            aether_error following;
            const int other = check_following(r, graph, end, &following);
            if (other) {
                rc = other;
                if (err)
                    *err = following;
            }
        }
    }
    return rc ? rc : with_remedy(ae_log_check_newest(r->dir, err), r->dir, *r->next, PUT_BACK, err);
}

int ae_log_recover(const ae_log_directory *dir, const uint8_t graph[16], const uint64_t *segments,
                   uint64_t num_segments, uint64_t from, ae_log_apply apply, void *user, uint64_t *next,
                   aether_error *err) {
    const reading r = {dir, from, apply, user, true, next};
    return read_segments(graph, segments, num_segments, &r, err);
}

int ae_log_examine(const ae_log_directory *dir, const uint8_t graph[16], const uint64_t *segments,
                   uint64_t num_segments, uint64_t from, ae_log_apply apply, void *user, uint64_t *next,
                   aether_error *err) {
    const reading r = {dir, from, apply, user, false, next};
    return read_segments(graph, segments, num_segments, &r, err);
}
