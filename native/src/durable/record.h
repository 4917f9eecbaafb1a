/*
 * durable/record.h - the operations of the open transaction, on their way into the log.
 *
 *   buffer   [ room for PART | op | op | op ...      ]
 *   commit   fits into a frame: one frame without PART
 *            longer: a frame each time the buffer is full, the last one at the commit
 *
 * Frames of a transaction that is aborted after some were written stay in the log and mean nothing
 * (durable/ops.h).
 *
 * Caveats: one thread. After a failure the transaction has to be given up: begin again.
 */
#ifndef AE_DURABLE_RECORD_H
#define AE_DURABLE_RECORD_H

#include "aether/live.h"
#include "log/log.h"
#include "os/scratch.h"

typedef struct ae_record {
    ae_log *log;
    ae_scratch buffer;
    uint64_t used;  /* bytes of the buffer, the room for PART included */
    uint64_t most;  /* bytes of a payload */
    uint64_t first; /* lsn of the first frame that was written; 0: none was */
    uint32_t ops;
} ae_record;

/* Payloads have `most` bytes at most, a multiple of 8. */
void ae_record_init(ae_record *r, ae_log *log, uint64_t most);
void ae_record_free(ae_record *r);

/* Begin a transaction; what was recorded before and not committed is gone. */
void ae_record_begin(ae_record *r);
int ae_record_edges(ae_record *r, uint32_t relation, uint64_t first_edge_id, const aether_live_edges *edges,
                    aether_error *err);
int ae_record_delete(ae_record *r, uint32_t relation, const int64_t *src, const int64_t *dst,
                     const int64_t *edge_ids, uint64_t n, aether_error *err);
int ae_record_nodes(ae_record *r, uint32_t relation, uint64_t num_src, uint64_t num_dst, aether_error *err);
int ae_record_note(ae_record *r, uint32_t kind, const void *bytes, uint64_t size, aether_error *err);
/* Write the last frame, as durable as the log is; *lsn becomes its number, 0 if nothing was recorded. */
int ae_record_commit(ae_record *r, uint64_t *lsn, aether_error *err);

#endif
