/*
 * fuzz_ops: any bytes as the payload of a commit.
 *
 * What is decoded is encoded again, and must be the same bytes: no two payloads mean the same, and
 * whatever the decoder lets through is read to its last byte.
 */
#include <stdlib.h>
#include <string.h>

#include "durable/ops.h"
#include "must.h"

enum { MAX_SIZE = 1 << 16 };

static void widen(const uint32_t *ids, uint64_t n, int64_t *out) {
    for (uint64_t i = 0; i < n; i++)
        out[i] = ids[i];
}

static uint64_t encode(const ae_op *op, uint8_t *at) {
    static int64_t src[MAX_SIZE], dst[MAX_SIZE];
    switch (op->kind) {
    case AE_OP_PART:
        ae_op_put_part(at, op->count, op->flags & AE_OP_LAST);
        return AE_OP_HEADER_BYTES;
    case AE_OP_EDGES:
        widen(op->src, op->count, src);
        widen(op->dst, op->count, dst);
        ae_op_put_edges(at, op->of, op->flags, op->first_edge_id, src, dst, op->times, op->weights,
                        op->count);
        return ae_op_edges_bytes(op->count, op->flags);
    case AE_OP_DELETE:
        widen(op->src, op->count, src);
        widen(op->dst, op->count, dst);
        ae_op_put_delete(at, op->of, op->flags, src, dst, (const int64_t *)op->edge_ids, op->count);
        return ae_op_delete_bytes(op->count, op->flags);
    case AE_OP_NODES:
        ae_op_put_nodes(at, op->of, op->num_src, op->num_dst);
        return ae_op_nodes_bytes();
    default:
        ae_op_put_note(at, op->of, op->flags & AE_OP_GOES_ON, op->bytes, op->count);
        return ae_op_note_bytes(op->count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static _Alignas(8) uint8_t again[MAX_SIZE];
    if (size == 0 || size > MAX_SIZE)
        return 0;
    uint8_t *payload = malloc(size); /* exactly so long, and on 8 bytes */
    MUST(payload);
    memcpy(payload, input, size);
    for (uint64_t at = 0; at < size;) {
        const uint64_t begin = at;
        ae_op op;
        aether_error err = {0};
        const int rc = ae_op_decode(payload, size, &at, &op, &err);
        if (rc) {
            MUST(at == begin && err.code == rc && err.message[0] && err.position == (int64_t)begin);
            break;
        }
        MUST(at > begin && at <= size && at % 8 == 0);
        MUST(encode(&op, again) == at - begin);
        MUST(memcmp(again, payload + begin, at - begin) == 0);
    }
    free(payload);
    return 0;
}
