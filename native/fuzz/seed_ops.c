/* seed_ops DIR: payloads for fuzz_ops to start from, one with every operation. */
#include <stdio.h>
#include <stdlib.h>

#include "durable/ops.h"

static void save(const char *dir, const char *name, const void *bytes, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        fprintf(stderr, "%s\n", path);
        exit(1);
    }
}

int main(int argc, char **argv) {
    static _Alignas(8) uint8_t payload[512];
    static const int64_t src[] = {1, 2, 3}, dst[] = {4, 5, 6}, times[] = {7, -8, 9};
    static const float weights[] = {1, 0.5f, 2};
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    uint8_t *at = payload;
    ae_op_put_part(at, 1, true);
    at += AE_OP_HEADER_BYTES;
    ae_op_put_edges(at, 0, AE_OP_TIMES | AE_OP_WEIGHTS, 10, src, dst, times, weights, 3);
    at += ae_op_edges_bytes(3, AE_OP_TIMES | AE_OP_WEIGHTS);
    ae_op_put_delete(at, 1, AE_OP_EDGE_IDS, src, dst, times, 2);
    at += ae_op_delete_bytes(2, AE_OP_EDGE_IDS);
    ae_op_put_nodes(at, 0, 5, 6);
    at += ae_op_nodes_bytes();
    ae_op_put_note(at, 3, false, "a note", 6);
    at += ae_op_note_bytes(6);
    save(argv[1], "all", payload, (size_t)(at - payload));
    ae_op_put_edges(payload, 0, 0, 0, src, dst, NULL, NULL, 1);
    save(argv[1], "edge", payload, ae_op_edges_bytes(1, 0));
    return 0;
}
