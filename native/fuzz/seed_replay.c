/* seed_replay DIR: frames for fuzz_replay to start from, of every operation, and a transaction of two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "durable/ops.h"

enum { ROOM = 1024 };

static uint8_t out[4 * ROOM];
static size_t used;

/* Put a frame behind the others. */
static void put(const uint8_t *payload, const uint8_t *end) {
    const size_t size = (size_t)(end - payload);
    out[used] = (uint8_t)size;
    out[used + 1] = (uint8_t)(size >> 8);
    memcpy(out + used + 2, payload, size);
    used += 2 + size;
}

int main(int argc, char **argv) {
    static _Alignas(8) uint8_t payload[ROOM];
    static const int64_t src[] = {1, 2, 3}, dst[] = {4, 5, 6}, times[] = {7, -8, 9}, ids[] = {0, 1, 2};
    static const float weights[] = {1, 0.5f, 2};
    char path[4096];
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    ae_op_put_edges(payload, 0, AE_OP_TIMES | AE_OP_WEIGHTS, 0, src, dst, times, weights, 3);
    uint8_t *at = payload + ae_op_edges_bytes(3, AE_OP_TIMES | AE_OP_WEIGHTS);
    ae_op_put_delete(at, 0, AE_OP_EDGE_IDS, src, dst, ids, 2);
    put(payload, at + ae_op_delete_bytes(2, AE_OP_EDGE_IDS));
    ae_op_put_part(payload, 2, false);
    ae_op_put_edges(payload + AE_OP_HEADER_BYTES, 1, 0, 0, src, dst, NULL, NULL, 3);
    put(payload, payload + AE_OP_HEADER_BYTES + ae_op_edges_bytes(3, 0));
    ae_op_put_part(payload, 2, true);
    at = payload + AE_OP_HEADER_BYTES;
    ae_op_put_nodes(at, 1, 2, 3);
    at += ae_op_nodes_bytes();
    ae_op_put_note(at, 3, true, "half of ", 8);
    at += ae_op_note_bytes(8);
    ae_op_put_note(at, 3, false, "a note", 6);
    put(payload, at + ae_op_note_bytes(6));
    snprintf(path, sizeof path, "%s/all", argv[1]);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(out, 1, used, file) != used || fclose(file) != 0) {
        fprintf(stderr, "%s\n", path);
        return 1;
    }
    return 0;
}
