#include "topology/blocks.h"

void ae_block_decode(ae_block *b, uint64_t *ids) {
    for (uint32_t j = 0; j < b->count; j++)
        ids[j] = ae_block_at(b, j);
}
