/*
 * Any bytes as a block of compressed ids, and as the blocks and index of a topology:
 * nothing outside is read, every way to an id gives the same one, and what a block
 * decodes to comes back from encoding.
 */
#include <stdlib.h>

#include "must.h"
#include "topology/blocks.h"
#include "topology/topology.h"

static void encode_again(const uint64_t *ids, uint32_t count) {
    uint8_t bytes[AE_BLOCK_MAX(8)];
    uint64_t again[AE_BLOCK], size = ae_block_encode(ids, 8, count, bytes);
    ae_block b;
    MUST(size <= sizeof bytes && ae_block_open(bytes, size, size, 8, count, &b));
    ae_block_decode(&b, again);
    MUST(memcmp(ids, again, count * sizeof *ids) == 0);
}

static void try_block(const uint8_t *bytes, size_t size, uint32_t id_bytes, uint32_t count) {
    uint64_t ids[AE_BLOCK];
    ae_block b;
    if (!ae_block_open(bytes, size, size, id_bytes, count, &b))
        return;
    ae_block_decode(&b, ids);
    for (uint32_t i = 0; i < count; i++)
        MUST(ae_block_at(&b, i * 37 % count) == ids[i * 37 % count]);
    encode_again(ids, count);
}

/* The first bytes are the index, all are blocks. */
static void try_topology(const uint8_t *bytes, size_t size, uint32_t id_bytes, uint64_t num_edges) {
    uint64_t indptr[2] = {0, num_edges}, groups = ae_block_groups(num_edges), ids[3 * AE_BLOCK * 16];
    ae_block_group *index = calloc(groups, sizeof *index);
    memcpy(index, bytes, size < groups * sizeof *index ? size : groups * sizeof *index);
    for (uint64_t g = 0; g + 1 < groups; g++)
        index[g].start %= size + 2;
    index[groups - 1].start = size;
    aether_lists lists = {1, 1 << 20, num_edges, indptr, NULL, NULL, id_bytes, 8};
    aether_blocks blocks = {bytes, size, index, groups * sizeof *index};
    aether_topology *t;
    MUST(aether_topology_create_compressed(&lists, &blocks, &t, NULL) == AETHER_OK);
    int rc = aether_topology_ids_from(t, 0, num_edges, ids, 8, NULL, NULL);
    MUST(rc == AETHER_OK || rc == AETHER_E_CORRUPT);
    for (uint64_t i = 0; i < num_edges && !rc; i++)
        MUST(ids[i] < lists.num_minor);
    for (uint64_t position = 0; position < num_edges; position += 97)
        t->ops->fetch(t, &position, 1, ids, NULL);
    aether_topology_destroy(t);
    free(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3)
        return 0;
    uint32_t id_bytes = data[0] & 1 ? 4 : 8, count = 1 + data[1] % AE_BLOCK;
    uint64_t num_edges = 1 + (data[1] + 256u * data[2]) % (3 * AE_BLOCK * 16);
    uint8_t *bytes = malloc(size - 2); /* its end is the end of what may be read */
    memcpy(bytes, data + 2, size - 2);
    try_block(bytes, size - 2, id_bytes, count);
    try_topology(bytes, size - 2, id_bytes, num_edges);
    free(bytes);
    return 0;
}
