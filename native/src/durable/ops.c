#include "durable/ops.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/error.h"

typedef struct op_header {
    uint8_t kind, flags;
    uint16_t zeros;
    uint32_t of;
    uint64_t count;
} op_header;

static_assert(sizeof(op_header) == AE_OP_HEADER_BYTES, "the struct is the bytes on disk");

static uint64_t padded_column(uint64_t bytes) {
    return (bytes + 7) & ~UINT64_C(7);
}

/* ---- sizes ---- */

static uint64_t edge_bytes(uint32_t flags) {
    return 2 * sizeof(uint32_t) + (flags & AE_OP_TIMES ? sizeof(int64_t) : 0) +
           (flags & AE_OP_WEIGHTS ? sizeof(float) : 0);
}

static uint64_t pair_bytes(uint32_t flags) {
    return 2 * sizeof(uint32_t) + (flags & AE_OP_EDGE_IDS ? sizeof(uint64_t) : 0);
}

uint64_t ae_op_edges_bytes(uint64_t n, uint32_t flags) {
    return padded_column(AE_OP_HEADER_BYTES + sizeof(uint64_t) + n * edge_bytes(flags));
}

uint64_t ae_op_delete_bytes(uint64_t n, uint32_t flags) {
    return AE_OP_HEADER_BYTES + n * pair_bytes(flags);
}

uint64_t ae_op_nodes_bytes(void) {
    return AE_OP_HEADER_BYTES + 2 * sizeof(uint64_t);
}

uint64_t ae_op_note_bytes(uint64_t size) {
    return padded_column(AE_OP_HEADER_BYTES + size);
}

/* How many items of `each` bytes fit behind `before` bytes; the op itself is then padded to 8. */
static uint64_t fit(uint64_t room, uint64_t before, uint64_t each) {
    room &= ~UINT64_C(7);
    return room > before ? (room - before) / each : 0;
}

uint64_t ae_op_edges_fit(uint64_t room, uint32_t flags) {
    return fit(room, AE_OP_HEADER_BYTES + sizeof(uint64_t), edge_bytes(flags));
}

uint64_t ae_op_delete_fit(uint64_t room, uint32_t flags) {
    return fit(room, AE_OP_HEADER_BYTES, pair_bytes(flags));
}

uint64_t ae_op_note_fit(uint64_t room) {
    return fit(room, AE_OP_HEADER_BYTES, 1);
}

/* ---- encoding ---- */

static void put_op_header(void *at, uint32_t kind, uint32_t flags, uint32_t of, uint64_t count) {
    *(op_header *)at = (op_header){.kind = (uint8_t)kind, .flags = (uint8_t)flags, .of = of, .count = count};
}

static uint8_t *put_bytes(uint8_t *at, const void *bytes, uint64_t size) {
    if (size)
        memcpy(at, bytes, size);
    return at + size;
}

static uint8_t *put_ids(uint8_t *at, const int64_t *ids, uint64_t n) {
    uint32_t *out = (uint32_t *)(void *)at;
    for (uint64_t i = 0; i < n; i++)
        out[i] = (uint32_t)ids[i];
    return (uint8_t *)(out + n);
}

static void pad(uint8_t *at) {
    while ((uintptr_t)at % 8)
        *at++ = 0;
}

void ae_op_put_part(void *at, uint64_t first_lsn, bool last) {
    put_op_header(at, AE_OP_PART, last ? AE_OP_LAST : 0, 0, first_lsn);
}

void ae_op_put_edges(void *at, uint32_t relation, uint32_t flags, uint64_t first_edge_id, const int64_t *src,
                     const int64_t *dst, const int64_t *times, const float *weights, uint64_t n) {
    put_op_header(at, AE_OP_EDGES, flags, relation, n);
    uint8_t *next = put_bytes((uint8_t *)at + AE_OP_HEADER_BYTES, &first_edge_id, sizeof first_edge_id);
    next = put_ids(next, src, n);
    next = put_ids(next, dst, n);
    if (flags & AE_OP_TIMES)
        next = put_bytes(next, times, n * sizeof *times);
    if (flags & AE_OP_WEIGHTS)
        next = put_bytes(next, weights, n * sizeof *weights);
    pad(next);
}

void ae_op_put_delete(void *at, uint32_t relation, uint32_t flags, const int64_t *src, const int64_t *dst,
                      const int64_t *edge_ids, uint64_t n) {
    put_op_header(at, AE_OP_DELETE, flags, relation, n);
    uint8_t *next = put_ids((uint8_t *)at + AE_OP_HEADER_BYTES, src, n);
    next = put_ids(next, dst, n);
    if (flags & AE_OP_EDGE_IDS)
        put_bytes(next, edge_ids, n * sizeof *edge_ids);
}

void ae_op_put_nodes(void *at, uint32_t relation, uint64_t num_src, uint64_t num_dst) {
    put_op_header(at, AE_OP_NODES, 0, relation, 0);
    uint8_t *next = put_bytes((uint8_t *)at + AE_OP_HEADER_BYTES, &num_src, sizeof num_src);
    put_bytes(next, &num_dst, sizeof num_dst);
}

void ae_op_put_note(void *at, uint32_t kind, bool goes_on, const void *bytes, uint64_t size) {
    put_op_header(at, AE_OP_NOTE, goes_on ? AE_OP_GOES_ON : 0, kind, size);
    pad(put_bytes((uint8_t *)at + AE_OP_HEADER_BYTES, bytes, size));
}

/* ---- decoding ---- */

static int wrong_op(aether_error *err, uint64_t at, int64_t value, const char *what) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)at, value, "the operation at byte %" PRIu64 " %s", at,
                       what);
}

/* Return the bytes of the op, without padding, or 0 if they overflow. */
static uint64_t claimed(const op_header *h) {
    const uint64_t most = UINT64_C(1) << 32; /* more than any frame has */
    switch (h->kind) {
    case AE_OP_EDGES:
        return h->count < most ? AE_OP_HEADER_BYTES + sizeof(uint64_t) + h->count * edge_bytes(h->flags) : 0;
    case AE_OP_DELETE:
        return h->count < most ? AE_OP_HEADER_BYTES + h->count * pair_bytes(h->flags) : 0;
    case AE_OP_NODES:
        return ae_op_nodes_bytes();
    case AE_OP_NOTE:
        return h->count < most ? AE_OP_HEADER_BYTES + h->count : 0;
    default:
        return AE_OP_HEADER_BYTES;
    }
}

static uint32_t known_flags(uint32_t kind) {
    return kind == AE_OP_EDGES ? AE_OP_TIMES | AE_OP_WEIGHTS : kind == AE_OP_NODES ? 0 : 1;
}

static void take_columns(const op_header *h, ae_op *op) {
    const uint8_t *at = (const uint8_t *)(h + 1);
    switch (h->kind) {
    case AE_OP_EDGES:
        memcpy(&op->first_edge_id, at, sizeof op->first_edge_id);
        op->src = (const uint32_t *)(const void *)(at + sizeof op->first_edge_id);
        op->dst = op->src + op->count;
        at = (const uint8_t *)(op->dst + op->count);
        if (op->flags & AE_OP_TIMES) {
            op->times = (const int64_t *)(const void *)at;
            at += op->count * sizeof(int64_t);
        }
        if (op->flags & AE_OP_WEIGHTS)
            op->weights = (const float *)(const void *)at;
        break;
    case AE_OP_DELETE:
        op->src = (const uint32_t *)(const void *)at;
        op->dst = op->src + op->count;
        if (op->flags & AE_OP_EDGE_IDS)
            op->edge_ids = (const uint64_t *)(const void *)(op->dst + op->count);
        break;
    case AE_OP_NODES:
        memcpy(&op->num_src, at, sizeof op->num_src);
        memcpy(&op->num_dst, at + sizeof op->num_src, sizeof op->num_dst);
        break;
    case AE_OP_NOTE:
        op->bytes = at;
        break;
    default:
        break;
    }
}

int ae_op_decode(const void *payload, uint64_t size, uint64_t *at, ae_op *out, aether_error *err) {
    const uint64_t begin = *at;
    if (begin > size || size - begin < AE_OP_HEADER_BYTES)
        return wrong_op(err, begin, (int64_t)size, "is cut off");
    const op_header *h = (const op_header *)(const void *)((const uint8_t *)payload + begin);
    if (h->kind < AE_OP_PART || h->kind > AE_OP_NOTE || h->flags & ~known_flags(h->kind))
        return ae_error_at(err, AETHER_E_VERSION, (int64_t)begin, h->kind,
                           "the operation at byte %" PRIu64 " has kind %u and flags %u, which this version "
                           "does not know",
                           begin, h->kind, h->flags);
    if (h->zeros || (h->kind == AE_OP_PART && h->of) || (h->kind == AE_OP_NODES && h->count))
        return wrong_op(err, begin, h->kind, "has bytes that should be zeros");
    const uint64_t bytes = claimed(h);
    if (!bytes || padded_column(bytes) > size - begin)
        return wrong_op(err, begin, (int64_t)h->count, "is longer than its payload");
    for (uint64_t i = bytes; i < padded_column(bytes); i++)
        if (((const uint8_t *)h)[i])
            return wrong_op(err, begin, h->kind, "has bytes that should be zeros");
    *out = (ae_op){.kind = h->kind, .flags = h->flags, .of = h->of, .count = h->count};
    take_columns(h, out);
    *at = begin + padded_column(bytes);
    return AETHER_OK;
}
