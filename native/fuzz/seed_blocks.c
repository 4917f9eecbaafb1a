/* seed_blocks DIR: blocks of every kind for fuzz_blocks to start from. */
#include <stdio.h>
#include <stdlib.h>

#include "topology/blocks.h"

static void save(const char *dir, uint32_t pattern, uint32_t id_bytes) {
    uint64_t ids[AE_BLOCK];
    uint32_t narrow[AE_BLOCK];
    uint8_t bytes[2 + AE_BLOCK_MAX(8)];
    char path[4096];
    for (uint32_t i = 0; i < AE_BLOCK; i++) {
        uint64_t mixed = i * UINT64_C(2654435761) % 100000;
        ids[i] = pattern == 0 ? mixed : pattern == 1 ? i * 5 : i % 9 ? 50000 + mixed % 50 : mixed;
        narrow[i] = (uint32_t)ids[i];
    }
    bytes[0] = id_bytes == 4;
    bytes[1] = AE_BLOCK - 1;
    uint64_t size = 2 + ae_block_encode(id_bytes == 4 ? (void *)narrow : ids, id_bytes, AE_BLOCK, bytes + 2);
    snprintf(path, sizeof path, "%s/block-%u-%u", dir, pattern, id_bytes);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        exit(1);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    for (uint32_t pattern = 0; pattern < 3; pattern++)
        for (uint32_t id_bytes = 4; id_bytes <= 8; id_bytes += 4)
            save(argv[1], pattern, id_bytes);
    return 0;
}
