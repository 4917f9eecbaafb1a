/*
 * log/cut.h - ending a damaged log before its damage, which is for the user to decide.
 *
 *   before   wal-1.log | 1 | 2 | 3 | [damaged] | 5 |     wal-6.log | 6 | 7 |
 *   after    wal-1.log | 1 | 2 | 3 | zeros               and, as they were: wal-1.log.cut-1, wal-6.log.cut-1
 *
 * Nothing is overwritten: a segment that is shortened is written anew and renamed over the old one, which
 * has a second name by then.
 *
 * Caveats: for one process at a time, as log/directory.h. After a crash in between, the later segments may
 * be aside while the damage is still there.
 */
#ifndef AE_LOG_CUT_H
#define AE_LOG_CUT_H

#include "log/directory.h"

/* Write anew, with zeros at its end, every segment that is shorter than its header says. */
int ae_log_complete(const ae_log_directory *dir, const uint64_t *segments, uint64_t num_segments,
                    aether_error *err);

/* Let the log end before commit `lsn`. */
int ae_log_cut(const ae_log_directory *dir, const uint64_t *segments, uint64_t num_segments, uint64_t lsn,
               aether_error *err);

#endif
