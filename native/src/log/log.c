#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/minmax.h"
#include "log/directory.h"
#include "log/recover.h"
#include "os/scratch.h"
#include "os/write.h"

#define DEFAULT_SEGMENT     ((uint64_t)64 << 20)
#define DEFAULT_INTERVAL_MS 10u

struct ae_log {
    ae_log_directory dir;
    uint64_t segment_size, interval_ns;
    ae_log_durability durability;
    pid_t owner;
    pthread_mutex_t lock; /* protects everything below; not held during a sync, except between segments */
    pthread_cond_t sync_ended;
    uint64_t *segments, num_segments; /* first lsns, ascending */
    ae_log_header header;             /* of the segment that is written; graph is always set */
    int fd;                           /* of that segment; -1: the next commit begins one */
    uint64_t end;                     /* where the next frame goes in it */
    uint64_t next;                    /* lsn of the next commit */
    uint64_t synced;                  /* the last lsn on disk */
    uint64_t waiting_since;           /* ns when the first commit after `synced` was appended */
    bool spared;                      /* a spare was asked for since this segment began */
    bool syncing;                     /* a thread is in fdatasync, without the lock */
    bool sync_failed;                 /* what is after `synced` may be lost */
    int failed;                       /* code of the failure that made the log read-only */
    aether_error failure;             /* the same in full */
    ae_scratch frame;                 /* the frame that is written */
    ae_log_spare spare;               /* of the thread that fills it; the lock does not protect it */
};

/* ---- times and uuids --------------------------------------------------------------- */

static uint64_t system_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void system_uuid(uint8_t out[16]) {
    for (size_t got = 0; got < 16;) {
        ssize_t more = getrandom(out + got, 16 - got, 0);
        got += more > 0 ? (size_t)more : 0;
    }
}

static ae_log_hooks source = {system_now, system_uuid};

void ae_log_set_hooks(const ae_log_hooks *hooks) {
    source.now = hooks && hooks->now ? hooks->now : system_now;
    source.uuid = hooks && hooks->uuid ? hooks->uuid : system_uuid;
}

/* ---- failures ---------------------------------------------------------------------- */

/* Make the log read-only and return the code. The lock is held. */
static int stop(ae_log *log, const aether_error *error, aether_error *err) {
    log->failed = error->code;
    log->failure = *error;
    if (err)
        *err = *error;
    return error->code;
}

/* Fail with what made the log read-only. The lock is held. */
static int stopped(const ae_log *log, aether_error *err) {
    if (err) {
        *err = log->failure;
        snprintf(err->message, sizeof err->message,
                 "the log in '%s' is read-only until merge(), or until it is opened again: %.300s",
                 log->dir.path, log->failure.message);
    }
    return log->failed;
}

static int not_log_owner(const ae_log *log, aether_error *err) {
    return ae_error_set(err, AETHER_E_INVALID,
                        "the log in '%s' belongs to the process that this one was forked from",
                        log->dir.path);
}

/* ---- sync -------------------------------------------------------------------------- */

/* Say in the file what is on disk, for a reader who finds damage. No sync waits for the mark: it is there
 * if the system does not crash in the next seconds. A failure is left to the next commit, whose frame goes
 * to the same place. The lock is held. */
static void write_mark(const ae_log *log) {
    _Alignas(ae_log_frame) uint8_t bytes[AE_LOG_UNIT];
    ae_log_frame *mark = (ae_log_frame *)(void *)bytes;
    uint64_t offset = log->end;
    if (log->segment_size - offset < AE_LOG_UNIT)
        return;
    ae_log_mark_fill(mark, log->header.segment, offset, log->next, log->synced);
    (void)ae_os_write_all(log->fd, mark, sizeof bytes, &offset);
}

/* Sync everything that was appended until now; the lock is held, but if `unlock`, not during the
 * sync. No other sync is under way. */
static int sync_now(ae_log *log, bool unlock, aether_error *err) {
    const uint64_t target = log->next - 1;
    log->syncing = true;
    if (unlock)
        pthread_mutex_unlock(&log->lock);
    int os_errno = ae_os_fdatasync(log->fd);
    if (unlock)
        pthread_mutex_lock(&log->lock);
    log->syncing = false;
    pthread_cond_broadcast(&log->sync_ended);
    if (!os_errno) {
        log->synced = target;
        log->waiting_since = source.now(); /* of those that came meanwhile, or a little later */
        if (unlock)                        /* else another segment begins, which says it */
            write_mark(log);
        return AETHER_OK;
    }
    aether_error error;
    ae_error_os(&error, os_errno, "cannot sync the log in '%s': commits after %" PRIu64 " may be lost",
                log->dir.path, log->synced);
    log->sync_failed = true;
    return stop(log, &error, err);
}

/* The lock is held. */
static int sync_to(ae_log *log, uint64_t lsn, aether_error *err) {
    while (log->synced < lsn) {
        if (log->sync_failed)
            return stopped(log, err);
        if (log->syncing) {
            pthread_cond_wait(&log->sync_ended, &log->lock);
            continue;
        }
        int rc = sync_now(log, true, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

int ae_log_sync(ae_log *log, uint64_t lsn, aether_error *err) {
    if (log->owner != getpid())
        return not_log_owner(log, err);
    pthread_mutex_lock(&log->lock);
    int rc = lsn < log->next
                 ? sync_to(log, lsn, err)
                 : ae_error_at(err, AETHER_E_RANGE, -1, (int64_t)lsn,
                               "commit %" PRIu64 " cannot be synced: the last one in the log is %" PRIu64,
                               lsn, log->next - 1);
    pthread_mutex_unlock(&log->lock);
    return rc;
}

int ae_log_flush(ae_log *log, aether_error *err) {
    if (log->owner != getpid())
        return not_log_owner(log, err);
    pthread_mutex_lock(&log->lock);
    int rc = sync_to(log, log->next - 1, err);
    pthread_mutex_unlock(&log->lock);
    return rc;
}

/* ---- append ------------------------------------------------------------------------ */

static int note_segment(ae_log *log, uint64_t first_lsn, aether_error *err) {
    uint64_t *more = realloc(log->segments, (log->num_segments + 1) * sizeof *more);
    if (!more)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory beginning a log segment in '%s'",
                            log->dir.path);
    log->segments = more;
    more[log->num_segments++] = first_lsn;
    return AETHER_OK;
}

/* Go on in a new segment. All commits are on disk, which its header says. */
static int begin_segment(ae_log *log, aether_error *err) {
    if (log->num_segments && log->segments[log->num_segments - 1] == log->next) {
        /* The log was opened and left without a commit: the name is taken by an empty segment. */
        int rc = ae_log_recycle_segment(&log->dir, log->header.graph, log->next, err);
        if (rc)
            return rc;
        log->num_segments--;
    }
    log->header.first_lsn = log->next;
    log->header.size = log->segment_size;
    source.uuid(log->header.segment);
    ae_log_header_seal(&log->header);
    int rc = note_segment(log, log->next, err);
    if (rc)
        return rc;
    int fd;
    rc = ae_log_begin_segment(&log->dir, &log->header, &fd, err);
    if (rc) {
        log->num_segments--;
        return rc;
    }
    if (log->fd >= 0)
        close(log->fd);
    log->fd = fd;
    log->end = AE_LOG_HEADER_BYTES;
    log->spared = false;
    return AETHER_OK;
}

bool ae_log_wants_spare(ae_log *log) {
    pthread_mutex_lock(&log->lock);
    const bool wants = log->fd >= 0 && !log->spared && !log->failed && log->end > log->segment_size / 2;
    pthread_mutex_unlock(&log->lock);
    return wants;
}

bool ae_log_fill_spare(ae_log *log) {
    pthread_mutex_lock(&log->lock);
    log->spared = true;
    pthread_mutex_unlock(&log->lock);
    return ae_log_fill_some(&log->dir, log->segment_size, &log->spare);
}

/* See to it that `bytes` more fit into the segment that is written. The lock is held, and is free
 * for a moment while another thread syncs. */
static int make_room(ae_log *log, uint64_t bytes, aether_error *err) {
    for (;;) {
        if (log->failed)
            return stopped(log, err);
        if (log->fd >= 0 && log->segment_size - log->end >= bytes)
            return AETHER_OK;
        if (log->syncing) { /* the descriptor that is about to be closed */
            pthread_cond_wait(&log->sync_ended, &log->lock);
            continue;
        }
        aether_error error;
        int rc = log->synced < log->next - 1 ? sync_now(log, false, &error) : AETHER_OK;
        rc = rc ? rc : begin_segment(log, &error);
        if (rc == AETHER_E_NO_MEMORY && !log->sync_failed) { /* the next commit tries again */
            if (err)
                *err = error;
            return rc;
        }
        if (rc)
            return stop(log, &error, err);
    }
}

static int write_frame(ae_log *log, const void *payload, uint32_t size, uint32_t ops, aether_error *err) {
    const uint64_t bytes = ae_log_frame_bytes(size);
    ae_log_frame *frame = log->frame.data;
    *frame =
        (ae_log_frame){.lsn = log->next, .size = size, .ops = ops, .synced = log->synced, .ns = source.now()};
    if (size)
        memcpy(frame->payload, payload, size);
    memset(frame->payload + size, 0, bytes - sizeof *frame - size);
    ae_log_frame_seal(frame, log->header.segment, log->end);
    uint64_t offset = log->end;
    int os_errno = ae_os_write_all(log->fd, frame, bytes, &offset);
    if (os_errno) {
        aether_error error;
        ae_error_os(&error, os_errno, "cannot write commit %" PRIu64 " to the log in '%s'", log->next,
                    log->dir.path);
        return stop(log, &error, err);
    }
    if (log->synced == log->next - 1)
        log->waiting_since = frame->ns;
    log->end += bytes;
    log->next++;
    return AETHER_OK;
}

/* The lock is held. */
static int append_commit(ae_log *log, const void *payload, uint64_t size, uint32_t ops, uint64_t *lsn,
                         aether_error *err) {
    const uint64_t room = log->segment_size - AE_LOG_HEADER_BYTES - sizeof(ae_log_frame);
    *lsn = 0;
    if (size > room)
        return ae_error_at(err, AETHER_E_LIMIT, -1, (int64_t)size,
                           "a commit of %" PRIu64 " bytes does not fit in a log segment, which takes %" PRIu64
                           ": commit fewer operations at a time",
                           size, room);
    const uint64_t bytes = ae_log_frame_bytes((uint32_t)size);
    int rc = make_room(log, bytes, err);
    rc = rc ? rc : ae_scratch_reserve(&log->frame, bytes, 0, err);
    rc = rc ? rc : write_frame(log, payload, (uint32_t)size, ops, err);
    if (rc)
        return rc;
    *lsn = log->next - 1;
    return AETHER_OK;
}

int ae_log_append(ae_log *log, const void *payload, uint64_t size, uint32_t ops, uint64_t *lsn,
                  aether_error *err) {
    if (log->owner != getpid())
        return not_log_owner(log, err);
    pthread_mutex_lock(&log->lock);
    int rc = append_commit(log, payload, size, ops, lsn, err);
    pthread_mutex_unlock(&log->lock);
    return rc;
}

static bool wants_sync(const ae_log *log) {
    if (log->durability == AE_LOG_BATCH)
        return source.now() - log->waiting_since >= log->interval_ns;
    return log->durability == AE_LOG_SYNC;
}

int ae_log_put(ae_log *log, const void *payload, uint64_t size, uint32_t ops, uint64_t *lsn,
               aether_error *err) {
    if (log->owner != getpid())
        return not_log_owner(log, err);
    pthread_mutex_lock(&log->lock);
    int rc = append_commit(log, payload, size, ops, lsn, err);
    if (!rc && wants_sync(log))
        rc = sync_to(log, *lsn, err);
    pthread_mutex_unlock(&log->lock);
    return rc;
}

/* ---- release ----------------------------------------------------------------------- */

/* Return whether the first segment has no commit from `lsn` on, and no commit to come goes into it. */
static bool is_given_up(const ae_log *log, uint64_t lsn) {
    if (log->num_segments > 1)
        return log->segments[1] <= lsn;
    return log->num_segments == 1 && log->fd < 0 && log->next <= lsn;
}

int ae_log_release(ae_log *log, uint64_t lsn, aether_error *err) {
    if (log->owner != getpid())
        return not_log_owner(log, err);
    pthread_mutex_lock(&log->lock);
    int rc = AETHER_OK;
    while (!rc && is_given_up(log, lsn)) {
        rc = ae_log_recycle_segment(&log->dir, log->header.graph, log->segments[0], err);
        if (!rc)
            memmove(log->segments, log->segments + 1, --log->num_segments * sizeof *log->segments);
    }
    pthread_mutex_unlock(&log->lock);
    return rc;
}

int ae_log_check(ae_log *log, aether_error *err) {
    pthread_mutex_lock(&log->lock);
    int rc = log->failed ? stopped(log, err) : AETHER_OK;
    pthread_mutex_unlock(&log->lock);
    return rc;
}

uint64_t ae_log_next(ae_log *log) {
    pthread_mutex_lock(&log->lock);
    uint64_t next = log->next;
    pthread_mutex_unlock(&log->lock);
    return next;
}

/* ---- open and close ---------------------------------------------------------------- */

static int check_log_options(const ae_log_options *options, uint64_t from, aether_error *err) {
    uint64_t size = options->segment_size ? options->segment_size : DEFAULT_SEGMENT;
    if (size < AE_LOG_MIN_SEGMENT || size > AE_LOG_MAX_SEGMENT || size % AE_LOG_HEADER_BYTES)
        return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)size,
                           "segment_size is %" PRIu64 "; it must be a multiple of 4096, 8192 to %" PRIu64,
                           size, AE_LOG_MAX_SEGMENT);
    if (from == 0 || from > INT64_MAX)
        return ae_error_at(err, AETHER_E_RANGE, -1, (int64_t)from,
                           "a log cannot be replayed from commit %" PRIu64 ": the first one is 1", from);
    return AETHER_OK;
}

static int recover(ae_log *log, uint64_t from, ae_log_apply apply, void *user, aether_error *err) {
    int rc = ae_log_list_segments(&log->dir, &log->segments, &log->num_segments, err);
    rc = rc ? rc
            : ae_log_recover(&log->dir, log->header.graph, log->segments, log->num_segments, from, apply,
                             user, &log->next, err);
    if (rc)
        return rc;
    if (log->next < from) {
        /* The graph's file is ahead of its log, whose last commits were not synced. Nothing of it
         * is needed, and it must not look like a log with commits missing. */
        for (; log->num_segments && !rc; log->num_segments--)
            rc = ae_log_recycle_segment(&log->dir, log->header.graph, log->segments[log->num_segments - 1],
                                        err);
        log->next = from;
    }
    log->synced = log->next - 1;
    return rc;
}

int ae_log_open(const char *path, const ae_log_options *options, uint64_t from, ae_log_apply apply,
                void *user, ae_log **out, aether_error *err) {
    *out = NULL;
    int rc = check_log_options(options, from, err);
    if (rc)
        return rc;
    ae_log *log = calloc(1, sizeof *log);
    if (!log)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening the log in '%s'", path);
    log->fd = log->dir.fd = log->spare.fd = -1;
    log->owner = getpid();
    log->segment_size = options->segment_size ? options->segment_size : DEFAULT_SEGMENT;
    log->interval_ns =
        (options->interval_ms ? options->interval_ms : DEFAULT_INTERVAL_MS) * UINT64_C(1000000);
    log->durability = options->durability;
    memcpy(log->header.graph, options->graph, sizeof log->header.graph);
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->sync_ended, NULL);
    rc = ae_log_directory_open(path, &log->dir, err);
    if (!rc)
        ae_log_remove_unfinished(&log->dir);
    rc = rc ? rc : recover(log, from, apply, user, err);
    if (rc)
        ae_log_close(log);
    else
        *out = log;
    return rc;
}

void ae_log_close(ae_log *log) {
    if (!log)
        return;
    if (log->fd >= 0) {
        if (log->owner == getpid()) /* there may be a mark */
            ae_log_cut_unused(log->fd, log->end + AE_LOG_UNIT, log->header.size);
        close(log->fd);
    }
    if (log->owner == getpid()) {
        ae_log_drop_spare(&log->dir, &log->spare);
        if (log->dir.fd >= 0)
            ae_log_trim_free(&log->dir, log->header.graph, AE_LOG_MAX_IDLE);
    } else if (log->spare.fd >= 0)
        close(log->spare.fd);
    ae_log_directory_close(&log->dir);
    if (log->owner == getpid()) { /* in a forked child, another thread of the parent may have had them */
        pthread_cond_destroy(&log->sync_ended);
        pthread_mutex_destroy(&log->lock);
    }
    ae_scratch_free(&log->frame);
    free(log->segments);
    free(log);
}
