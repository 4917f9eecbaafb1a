/*
 * durable/ops.h - the changes of a transaction as bytes (native/FORMAT.md, "Commits of graphs").
 *
 *   payload   [ PART ] op | op | op ...                each a multiple of 8 bytes
 *
 *   op        0   u8 kind, u8 flags, u16 zeros, u32 of     `of`: a relation, or the kind of a note
 *             8   u64 count
 *             16  EDGES   u64 first edge id | src u32[n] | dst u32[n] | times i64[n] | weights f32[n]
 *                 DELETE  src u32[n] | dst u32[n] | edge ids u64[n]
 *                 NODES   u64 at the source's end, u64 at the destination's
 *                 NOTE    bytes; the same note may go on in the next op
 *
 *   frame 8   PART of 8        | EDGES |         a transaction that is longer than a frame:
 *   frame 9   PART of 8        | EDGES |         what frame 10 completes is done at once, or,
 *   frame 10  PART of 8, last  | NODES |         if frame 10 is missing, not at all
 *
 * An edge takes 8 bytes beside its time (8) and weight (4), and a commit of one edge 48 at most. The
 * first edge id says which graph the edges were inserted into: a replay into another one is noticed.
 *
 * Caveats: columns of a decoded op point into the payload, which has to be on 8 bytes. The decoder
 * checks sizes and padding, not ids: what it lets through may still not fit the graph.
 */
#ifndef AE_DURABLE_OPS_H
#define AE_DURABLE_OPS_H

#include <stdbool.h>

#include "aether.h"

#define AE_OP_HEADER_BYTES 16u

enum { AE_OP_PART = 1, AE_OP_EDGES = 2, AE_OP_DELETE = 3, AE_OP_NODES = 4, AE_OP_NOTE = 5 };

#define AE_OP_NO_EDGE_ID UINT64_MAX /* EDGES: what it is was not known */

#define AE_OP_LAST     1u /* PART: the transaction ends with this frame */
#define AE_OP_TIMES    1u /* EDGES */
#define AE_OP_WEIGHTS  2u
#define AE_OP_EDGE_IDS 1u /* DELETE: only these edges, not every one of the pair */
#define AE_OP_GOES_ON  1u /* NOTE: the next op has more of it */

typedef struct ae_op {
    uint32_t kind, flags;
    uint32_t of;
    uint64_t count; /* edges, pairs, bytes; PART: lsn of the transaction's first frame */
    uint64_t first_edge_id;
    const uint32_t *src, *dst;
    const int64_t *times;
    const float *weights;
    const uint64_t *edge_ids;
    uint64_t num_src, num_dst;
    const uint8_t *bytes;
} ae_op;

/* Decode the op at byte *at of a payload, and move *at behind it. AETHER_E_CORRUPT: it is no op;
 * AETHER_E_VERSION: its kind or a flag is unknown. Position is the byte. */
int ae_op_decode(const void *payload, uint64_t size, uint64_t *at, ae_op *out, aether_error *err);

/* Return the bytes of a whole op. */
uint64_t ae_op_edges_bytes(uint64_t n, uint32_t flags);
uint64_t ae_op_delete_bytes(uint64_t n, uint32_t flags);
uint64_t ae_op_nodes_bytes(void);
uint64_t ae_op_note_bytes(uint64_t size);

/* Return the most edges, pairs, or bytes of a note, whose op has `room` bytes at most. */
uint64_t ae_op_edges_fit(uint64_t room, uint32_t flags);
uint64_t ae_op_delete_fit(uint64_t room, uint32_t flags);
uint64_t ae_op_note_fit(uint64_t room);

/* Encode an op at `at`, which is on 8 bytes; ids are below 2^32. Without the flag its column is not read. */
void ae_op_put_part(void *at, uint64_t first_lsn, bool last);
void ae_op_put_edges(void *at, uint32_t relation, uint32_t flags, uint64_t first_edge_id, const int64_t *src,
                     const int64_t *dst, const int64_t *times, const float *weights, uint64_t n);
void ae_op_put_delete(void *at, uint32_t relation, uint32_t flags, const int64_t *src, const int64_t *dst,
                      const int64_t *edge_ids, uint64_t n);
void ae_op_put_nodes(void *at, uint32_t relation, uint64_t num_src, uint64_t num_dst);
void ae_op_put_note(void *at, uint32_t kind, bool goes_on, const void *bytes, uint64_t size);

#endif
