/* The public functions of journals: one that is told of every change (live/journal.h) and keeps a log. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/task.h"
#include "durable/keeper.h"
#include "durable/lock.h"
#include "durable/ops.h"
#include "durable/record.h"
#include "durable/replay.h"
#include "live/handle.h"
#include "log/cut.h"
#include "log/recover.h"
#include "log/segment.h"

#define DEFAULT_INTERVAL_MS 10u
#define DEFAULT_SEGMENT     ((uint64_t)64 << 20)
#define MOST_PAYLOAD        ((uint64_t)1 << 20) /* of a frame: the buffer stays in the cache */

typedef struct journal {
    ae_journal base;
    ae_log *log;
    ae_record record;
    ae_keeper *keeper;
    bool batches; /* AETHER_BATCH */
    _Atomic uint64_t lsn;
    uint64_t undone; /* commit that was written, but not synced, and so undone; 0: there is none */
    ae_lock lock;
    pid_t owner;
    uint32_t flushing; /* threads in aether_live_flush() */
} journal;

/* Protects `flushing`, and the pointer to a journal that is given up meanwhile. Held for moments, and while
 * the process forks, too. */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flushed = PTHREAD_COND_INITIALIZER;

static void lock_journals(void) {
    pthread_mutex_lock(&guard);
}

static void unlock_journals(void) {
    pthread_mutex_unlock(&guard);
}

static void begin_child(void) {
    flushed = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* who waited there is in the parent */
    pthread_mutex_unlock(&guard);
}

__attribute__((constructor)) static void watch_journal_forks(void) {
    pthread_atfork(lock_journals, unlock_journals, begin_child);
}

static journal *of(ae_journal *j) {
    return (journal *)j;
}

/* ---- what the graph tells ---- */

static int begin_record(ae_journal *base, aether_error *err) {
    ae_record_begin(&of(base)->record);
    return ae_log_check(of(base)->log, err);
}

static int insert_edges(ae_journal *base, uint32_t relation, uint64_t first_edge_id,
                        const aether_live_edges *edges, aether_error *err) {
    return ae_record_edges(&of(base)->record, relation, first_edge_id, edges, err);
}

static int remove_edges(ae_journal *base, uint32_t relation, const int64_t *src, const int64_t *dst,
                        const int64_t *edge_ids, uint64_t n, aether_error *err) {
    return ae_record_delete(&of(base)->record, relation, src, dst, edge_ids, n, err);
}

static int add_nodes(ae_journal *base, uint32_t relation, uint64_t num_src, uint64_t num_dst,
                     aether_error *err) {
    return ae_record_nodes(&of(base)->record, relation, num_src, num_dst, err);
}

static int commit_record(ae_journal *base, uint64_t *out, aether_error *err) {
    journal *j = of(base);
    aether_error own;
    uint64_t lsn;
    err = err ? err : &own;
    const int rc = ae_record_commit(&j->record, &lsn, err);
    if (rc && lsn) { /* it was written, and could not be synced */
        const aether_error cause = *err;
        j->undone = lsn;
        snprintf(err->message, sizeof err->message,
                 "the commit was undone, but may be found when the log is opened again: %.380s",
                 cause.message);
    }
    if (rc || !lsn)
        return rc;
    atomic_store_explicit(&j->lsn, lsn, memory_order_release);
    *out = lsn;
    ae_keeper_tell(j->keeper);
    return AETHER_OK;
}

/* A forked child has neither the thread nor the lock of the log. */
static void close_journal(ae_journal *base) {
    journal *j = of(base);
    const bool mine = j->owner == getpid();
    if (mine && j->keeper) {
        ae_keeper_stop(j->keeper);
        if (j->batches)
            ae_log_flush(j->log, NULL); /* whoever wants to know has called aether_live_flush() */
    }
    ae_log_close(j->log);
    ae_record_free(&j->record);
    ae_lock_release(&j->lock);
    free(j);
}

static const ae_journal_ops journal_ops = {
    .begin = begin_record,
    .insert = insert_edges,
    .remove = remove_edges,
    .add_nodes = add_nodes,
    .commit = commit_record,
    .close = close_journal,
};

/* ---- opening ---- */

static int check_idle(const aether_live *g, aether_error *err) {
    int rc = ae_live_check_writer(g, err);
    if (!rc && g->journal)
        rc = ae_error_set(err, AETHER_E_INVALID, "this live graph has a journal already");
    if (!rc && g->transaction.open)
        rc = ae_error_set(err, AETHER_E_INVALID, "a transaction has begun: commit or abort it first");
    return rc;
}

static int check_journal_options(const aether_live *g, const aether_journal_options *options,
                                 aether_error *err) {
    int rc = check_idle(g, err);
    if (!rc && (options->durability < AETHER_SYNC || options->durability > AETHER_UNSYNCED))
        rc = ae_error_at(err, AETHER_E_INVALID, 0, (int64_t)options->durability,
                         "durability = %" PRIu32 ": it is AETHER_SYNC, AETHER_BATCH or AETHER_UNSYNCED",
                         options->durability);
    return rc;
}

/* Replay the log; what is committed from then on goes into it. */
static int open_log(journal *j, const char *directory, const aether_journal_options *options, uint64_t from,
                    ae_replay *replay, aether_error *err) {
    ae_log_options o = {.segment_size = options->segment_size,
                        .durability = options->durability == AETHER_SYNC ? AE_LOG_SYNC : AE_LOG_NONE};
    memcpy(o.graph, options->graph, sizeof o.graph);
    int rc = ae_log_open(directory, &o, from, ae_replay_frame, replay, &j->log, err);
    ae_replay_end(replay);
    if (rc)
        return rc;
    const uint64_t segment = options->segment_size ? options->segment_size : DEFAULT_SEGMENT;
    const uint64_t room = segment - AE_LOG_HEADER_BYTES - sizeof(ae_log_frame);
    ae_record_init(&j->record, j->log, ae_min_u64(room, MOST_PAYLOAD));
    atomic_store_explicit(&j->lsn, replay->lsn, memory_order_relaxed);
    j->batches = options->durability == AETHER_BATCH;
    const uint32_t interval_ms = options->interval_ms ? options->interval_ms : DEFAULT_INTERVAL_MS;
    return ae_keeper_start(j->log, j->batches ? interval_ms : 0, &j->keeper, err);
}

int aether_live_open_journal(aether_live *g, const char *directory, const aether_journal_options *options,
                             uint64_t from, aether_note_fn note, void *user, aether_task *task,
                             aether_error *err) {
    int rc = check_journal_options(g, options, err);
    if (rc)
        return rc;
    journal *j = calloc(1, sizeof *j);
    if (!j)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for the journal of a live graph");
    j->base.ops = &journal_ops;
    j->owner = getpid();
    rc = ae_lock_take(directory, true, &j->lock, err);
    if (rc) {
        free(j);
        return rc;
    }
    ae_replay replay;
    ae_replay_begin(&replay, g, from, note, user, task);
    const bool was_closed = g->log_is_closed;
    g->log_is_closed = false; /* a replay changes the graph */
    rc = open_log(j, directory, options, from, &replay, err);
    if (rc) {
        g->log_is_closed = was_closed;
        close_journal(&j->base);
        return rc;
    }
    pthread_mutex_lock(&guard);
    g->journal = &j->base;
    pthread_mutex_unlock(&guard);
    return AETHER_OK;
}

/* ---- as it was ---- */

typedef struct bounded_replay {
    ae_replay replay;
    uint64_t until;
    bool over;
} bounded_replay;

static int replay_bounded(void *user, const ae_log_commit *frame, aether_error *err) {
    bounded_replay *b = user;
    b->over = frame->lsn > b->until;
    return b->over ? AETHER_E_CANCELLED : ae_replay_frame(&b->replay, frame, err);
}

static int check_from(uint64_t from, aether_error *err) {
    return from && from <= INT64_MAX
               ? AETHER_OK
               : ae_error_at(err, AETHER_E_RANGE, -1, (int64_t)from,
                             "a log cannot be read from commit %" PRIu64 ": the first one is 1", from);
}

int aether_live_replay(aether_live *g, const char *directory, const uint8_t *graph, uint64_t from,
                       uint64_t until, aether_note_fn note, void *user, uint64_t *last, aether_task *task,
                       aether_error *err) {
    ae_log_directory dir = {.fd = -1};
    uint64_t *segments = NULL, count = 0, next;
    bounded_replay b = {.until = until};
    *last = 0;
    int rc = check_from(from, err);
    rc = rc ? rc : check_idle(g, err);
    if (rc)
        return rc;
    rc = ae_log_directory_open(directory, &dir, err);
    rc = rc ? rc : ae_log_list_segments(&dir, &segments, &count, err);
    ae_replay_begin(&b.replay, g, from, note, user, task);
    if (!rc && until >= from)
        rc = ae_log_examine(&dir, graph, segments, count, from, replay_bounded, &b, &next, err);
    ae_replay_end(&b.replay);
    *last = b.replay.lsn;
    free(segments);
    ae_log_directory_close(&dir);
    return b.over ? AETHER_OK : rc;
}

/* ---- looking for damage ---- */

/* Check that the operations of a commit can be read. */
static int examine_frame(void *user, const ae_log_commit *frame, aether_error *err) {
    aether_error own;
    ae_op op;
    int rc = ae_task_check(user, "reading a log", err);
    for (uint64_t at = 0; !rc && at < frame->size;) {
        rc = ae_op_decode(frame->payload, frame->size, &at, &op, &own);
        if (rc)
            ae_error_at(err, rc, -1, (int64_t)frame->lsn, "commit %" PRIu64 " of the log: %s", frame->lsn,
                        own.message);
    }
    ae_task_add(user, 1);
    return rc;
}

/* A log that no graph has open. */
typedef struct closed_log {
    ae_lock lock;
    ae_log_directory dir;
    uint64_t *segments, num_segments;
} closed_log;

static int open_closed(closed_log *log, const char *directory, bool writes, aether_error *err) {
    *log = (closed_log){.dir.fd = -1};
    int rc = ae_lock_take(directory, writes, &log->lock, err);
    rc = rc ? rc : ae_log_directory_open(directory, &log->dir, err);
    return rc ? rc : ae_log_list_segments(&log->dir, &log->segments, &log->num_segments, err);
}

static void close_closed(closed_log *log) {
    free(log->segments);
    ae_log_directory_close(&log->dir);
    ae_lock_release(&log->lock);
}

static int examine_log(const closed_log *log, const uint8_t *graph, uint64_t from, uint64_t *last,
                       aether_task *task, aether_error *err) {
    uint64_t next = from;
    const int rc = ae_log_examine(&log->dir, graph, log->segments, log->num_segments, from, examine_frame,
                                  task, &next, err);
    *last = next - 1;
    return rc;
}

int aether_journal_verify(const char *directory, const uint8_t *graph, uint64_t from, uint64_t *last,
                          aether_task *task, aether_error *err) {
    closed_log log;
    *last = 0;
    int rc = check_from(from, err);
    if (rc)
        return rc;
    rc = open_closed(&log, directory, false, err);
    rc = rc ? rc : examine_log(&log, graph, from, last, task, err);
    close_closed(&log);
    return rc;
}

int aether_journal_truncate(const char *directory, const uint8_t *graph, uint64_t from, uint64_t *last,
                            aether_error *err) {
    closed_log log;
    *last = 0;
    int rc = check_from(from, err);
    if (rc)
        return rc;
    rc = open_closed(&log, directory, true, err);
    rc = rc ? rc : examine_log(&log, graph, from, last, NULL, err);
    if (rc == AETHER_E_TRUNCATED) { /* what is left of the file may be whole */
        rc = ae_log_complete(&log.dir, log.segments, log.num_segments, err);
        rc = rc ? rc : examine_log(&log, graph, from, last, NULL, err);
    }
    if (ae_log_is_damage(rc))
        rc = ae_log_cut(&log.dir, log.segments, log.num_segments, *last + 1, err);
    close_closed(&log);
    return rc;
}

/* ---- using ---- */

static int journal_of(const aether_live *g, journal **out, aether_error *err) {
    const int rc = ae_live_check_writer(g, err);
    *out = of(g->journal);
    if (!rc && !*out)
        return ae_error_set(err, AETHER_E_INVALID,
                            "this live graph has no journal: call aether_live_open_journal()");
    return rc;
}

int aether_live_note(aether_live *g, uint32_t kind, const void *bytes, uint64_t size, aether_error *err) {
    journal *j;
    bool own = false;
    int rc = journal_of(g, &j, err);
    if (!rc)
        rc = ae_live_begin_call(g, &own, err);
    if (rc)
        return rc;
    rc = ae_record_note(&j->record, kind, bytes, size, err);
    return ae_live_end_call(g, own, rc, err);
}

int aether_live_flush(aether_live *g, aether_error *err) {
    journal *j;
    int rc = ae_live_check_writer(g, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&guard);
    rc = journal_of(g, &j, err);
    if (!rc)
        j->flushing++;
    pthread_mutex_unlock(&guard);
    if (rc)
        return rc;
    rc = ae_log_flush(j->log, err);
    pthread_mutex_lock(&guard);
    if (--j->flushing == 0)
        pthread_cond_broadcast(&flushed);
    pthread_mutex_unlock(&guard);
    return rc;
}

int aether_live_release_journal(aether_live *g, uint64_t lsn, aether_error *err) {
    journal *j;
    const int rc = journal_of(g, &j, err);
    if (rc)
        return rc;
    const uint64_t last = aether_live_written_lsn(g);
    if (lsn == 0 || lsn > last + 1)
        return ae_error_at(err, AETHER_E_RANGE, 0, (int64_t)lsn,
                           "commits below %" PRIu64 " cannot be given up: the last one is %" PRIu64, lsn,
                           last);
    return ae_log_release(j->log, lsn, err);
}

int aether_live_close_journal(aether_live *g, aether_error *err) {
    journal *j;
    int rc = journal_of(g, &j, err);
    if (!rc && g->transaction.open)
        rc = ae_error_set(err, AETHER_E_INVALID, "a transaction has begun: commit or abort it first");
    if (rc)
        return rc;
    rc = ae_log_flush(j->log, err);
    pthread_mutex_lock(&guard);
    g->log_is_closed = true;
    g->journal = NULL;
    while (j->flushing)
        pthread_cond_wait(&flushed, &guard);
    pthread_mutex_unlock(&guard);
    close_journal(&j->base);
    return rc;
}

uint64_t aether_live_written_lsn(const aether_live *g) {
    const uint64_t last = aether_live_lsn(g);
    return g->journal ? ae_max_u64(last, of(g->journal)->undone) : last;
}
