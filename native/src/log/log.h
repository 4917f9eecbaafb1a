/*
 * log/log.h - the write-ahead log of a graph that changes: commits, in order, kept through crashes.
 *
 *   append    frame 8 -> page cache            lsn 8 is in the log
 *   sync(8)   one thread runs fdatasync for all that was appended until then; others wait for it
 *
 *   wal-1.log  | 1 | 2 | 3 |        wal-4.log  | 4 | 5 | 6 | 7 | 8 | zeros ...
 *                                                       ^ synced    ^ appended
 *
 *   open      replays the commits from a given lsn on, then goes on in a new segment
 *   release   commits below an lsn are in the graph's file: their segments are used again
 *
 * A commit is any bytes with a count of operations; what they mean is the caller's. It has an lsn (log
 * sequence number), 1 more than the one before, and is in the log wholly or not at all.
 *
 * Failures, all until the log is opened again:
 *   - A failed write, or a disk too full for another segment, makes it read-only: commits fail,
 *     what was appended before can still be synced.
 *   - A failed fdatasync is never tried again, since the kernel may have dropped what it could not
 *     write: commits and waits for what is not on disk fail.
 *   A commit whose append or sync failed may be there after the next open, or not.
 *
 * Caveats: one log at a time may be open in a directory, which its owner sees to. The log has no
 * thread: under AE_LOG_BATCH the last commits before a pause wait for the next commit, or a flush. A
 * forked child can only close it. A segment that is filled for the first time holds up the commit
 * that begins it, unless somebody fills a spare one in time.
 */
#ifndef AE_LOG_LOG_H
#define AE_LOG_LOG_H

#include <stdbool.h>

#include "aether.h"

typedef struct ae_log ae_log;

typedef enum ae_log_durability {
    AE_LOG_SYNC,  /* a commit returns when it is on disk */
    AE_LOG_BATCH, /* a commit syncs if the oldest that is not on disk is older than interval_ms */
    AE_LOG_NONE,  /* only flush, sync and full segments do */
} ae_log_durability;

typedef struct ae_log_options {
    uint8_t graph[16];     /* uuid of the graph; a log of another one is refused */
    uint64_t segment_size; /* a multiple of 4096, 8192 to 1 GiB; 0: 64 MiB */
    ae_log_durability durability;
    uint32_t interval_ms; /* of AE_LOG_BATCH; 0: 10 */
} ae_log_options;

typedef struct ae_log_commit {
    uint64_t lsn;
    uint64_t ns; /* when it was appended, since 1970-01-01T00:00 UTC */
    const void *payload;
    uint32_t size, ops;
} ae_log_commit;

/* Take the next commit of a replay; its payload is on 8 bytes and lasts for the call. A result other
 * than AETHER_OK ends the replay and is what ae_log_open returns. */
typedef int (*ae_log_apply)(void *user, const ae_log_commit *commit, aether_error *err);

/* Open the log in a directory, which exists, and replay the commits from lsn `from` (1 or more) on.
 * AETHER_E_CORRUPT: a commit that was on disk is damaged (position is the byte in the segment that
 * the message names), or a segment is missing. AETHER_E_TRUNCATED, _FORMAT, _VERSION: a segment is cut
 * short, none of ours, or a later version's. Of all but the last, value is the first commit that is lost.
 * AETHER_E_INVALID: another graph's. */
int ae_log_open(const char *path, const ae_log_options *options, uint64_t from, ae_log_apply apply,
                void *user, ae_log **out, aether_error *err);

/* Close without syncing. NULL is accepted. No other thread may be using the log. */
void ae_log_close(ae_log *log);

/* Append a commit; *lsn becomes its number. AETHER_E_LIMIT: it does not fit in a segment. */
int ae_log_append(ae_log *log, const void *payload, uint64_t size, uint32_t ops, uint64_t *lsn,
                  aether_error *err);

/* Wait until all commits up to `lsn` are on disk. AETHER_E_RANGE: there is no such commit. */
int ae_log_sync(ae_log *log, uint64_t lsn, aether_error *err);

/* Wait until all commits so far are on disk. */
int ae_log_flush(ae_log *log, aether_error *err);

/* Append a commit, and sync as the log's durability asks. *lsn is set whenever the append worked;
 * it is 0 if it did not. */
int ae_log_put(ae_log *log, const void *payload, uint64_t size, uint32_t ops, uint64_t *lsn,
               aether_error *err);

/* Give up the commits below `lsn`: later opens ask for `lsn` or more. Whole segments of them are
 * recycled, never the last one. */
int ae_log_release(ae_log *log, uint64_t lsn, aether_error *err);

/* Return whether the segment that is written is half full and no spare was filled since it began. */
bool ae_log_wants_spare(ae_log *log);
/* Fill a part of a file to be the next segment, unless there is one, so that the commit that begins it
 * need not; return whether to go on. From one thread at a time, beside those that commit. Failures are
 * left to that commit. */
bool ae_log_fill_spare(ae_log *log);

/* Fail with what made the log read-only, if anything did. */
int ae_log_check(ae_log *log, aether_error *err);

/* Return the lsn of the next commit. */
uint64_t ae_log_next(ae_log *log);

/* Where times and uuids come from, for tests. Members left NULL, or a NULL table, mean the system. */
typedef struct ae_log_hooks {
    uint64_t (*now)(void); /* in ns */
    void (*uuid)(uint8_t out[16]);
} ae_log_hooks;

void ae_log_set_hooks(const ae_log_hooks *hooks);

#endif
