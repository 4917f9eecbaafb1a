/*
 * log/recover.h - reading a log from a given commit to its end.
 *
 *   wal-1.log   1 2 3 4 5 6 7 | zeros            ends where the next segment begins
 *   wal-8.log   8 9 10 [torn] 12                 the last one ends at the first frame that does not check
 *                 ^from    ^ next
 *
 * A frame that does not check is the torn end of the log, unless it was on disk once: another
 * segment follows, or a later frame of this one says so, or the mark behind the last frame. Then it is
 * damage: AETHER_E_CORRUPT.
 *
 * Frames that nothing says were on disk are written once more, and synced: after a sync that
 * failed, the page cache may show what the disk does not have.
 *
 * Caveats: reads one whole segment at a time into memory. Damage looks like a torn end where nothing says
 * that the frame was on disk: it was never synced; or the system crashed after the sync, before the mark
 * or another frame was on disk; or the mark is damaged, too.
 */
#ifndef AE_LOG_RECOVER_H
#define AE_LOG_RECOVER_H

#include "log/directory.h"
#include "log/log.h"

/* Return whether a code is of damage, which ae_log_cut() ends a log before. */
bool ae_log_is_damage(int rc);

/* Hand every commit from lsn `from` on to `apply`. *next becomes the lsn after the last commit, below
 * `from` if the log ends before it. */
int ae_log_recover(const ae_log_directory *dir, const uint8_t graph[16], const uint64_t *segments,
                   uint64_t num_segments, uint64_t from, ae_log_apply apply, void *user, uint64_t *next,
                   aether_error *err);

/* Read the segments as ae_log_recover() does, but write nothing. *next becomes the first commit that is not
 * there, or is damaged, also if this fails. */
int ae_log_examine(const ae_log_directory *dir, const uint8_t graph[16], const uint64_t *segments,
                   uint64_t num_segments, uint64_t from, ae_log_apply apply, void *user, uint64_t *next,
                   aether_error *err);

#endif
