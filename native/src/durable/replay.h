/*
 * durable/replay.h - commits of a log, done once more.
 *
 *   frame 7   whole                   one transaction
 *   frame 8   part of 8               begin, apply                  readers see nothing yet
 *   frame 9   part of 8, last         apply, hand out notes, commit
 *   frame 10  part of 10              begin, apply
 *   frame 11  whole                   10 was given up by its writer: undo it; then 11
 *
 * Operations go through the functions that did them the first time, so lists and edge ids become
 * what they were. Notes are handed out when their transaction is complete.
 */
#ifndef AE_DURABLE_REPLAY_H
#define AE_DURABLE_REPLAY_H

#include <stdbool.h>

#include "aether/live.h"
#include "log/log.h"
#include "os/scratch.h"

typedef struct ae_replay {
    aether_live *g;
    aether_note_fn note; /* may be NULL */
    void *user;
    aether_task *task;
    uint64_t from;
    uint64_t lsn; /* of the last transaction that was committed */
    bool open;
    uint64_t first;   /* lsn of the open transaction's first frame */
    ae_scratch notes; /* of the open transaction: ae_replay_note, bytes, zeros up to 8 */
    uint64_t notes_used;
    ae_scratch ids; /* 64-bit ids of some edges */
} ae_replay;

/* Replay commits of number `from` (1 or more) and above into a graph as of the commit before. */
void ae_replay_begin(ae_replay *r, aether_live *g, uint64_t from, aether_note_fn note, void *user,
                     aether_task *task);
/* Apply a frame: an ae_log_apply, `user` is the ae_replay. AETHER_E_CORRUPT: a commit does not fit
 * the graph; value is its lsn. */
int ae_replay_frame(void *replay, const ae_log_commit *frame, aether_error *err);
/* The log has ended: undo a transaction that did not, and release the memory. */
void ae_replay_end(ae_replay *r);

#endif
