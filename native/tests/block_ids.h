/*
 * block_ids.h - ids as they come in lists, for the tests of compressed blocks.
 *
 * id_pattern(k, ...) fills in one of ID_PATTERNS kinds: alike, random, near each other,
 * near each other with far ones, small ones mostly, ascending by lists, extremes.
 */
#ifndef AE_BLOCK_IDS_TEST_H
#define AE_BLOCK_IDS_TEST_H

#include "test.h"
#include "topology/blocks.h"

#define ID_PATTERNS 10u

/* n ids below `limit` (at least 1). */
static inline void id_pattern(uint32_t kind, uint64_t limit, uint64_t n, uint64_t seed, uint64_t *ids) {
    uint64_t before = 0, near = limit / 1000 + 1;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = test_random(&seed), center = limit / 3 + (i / 1000) % near;
        switch (kind) {
        case 0:
            ids[i] = limit - 1;
            break;
        case 1:
            ids[i] = r % limit;
            break;
        case 2:
            ids[i] = (center + r % near) % limit;
            break;
        case 3:
            ids[i] = test_random(&seed) % 10 ? (center + r % near) % limit : r % limit;
            break;
        case 4:
            ids[i] = (r % limit) >> test_random(&seed) % 40;
            break;
        case 5: /* ascending within lists of some 30 */
            before = test_random(&seed) % 30 ? before + r % near : r % limit;
            ids[i] = before % limit;
            break;
        case 6: /* one long ascending list */
            ids[i] = i * (limit / n ? limit / n : 1) % limit;
            break;
        case 7:
            ids[i] = r % 2 ? 0 : limit - 1;
            break;
        case 8: /* descending */
            ids[i] = (n - i) * 3 % limit;
            break;
        default: /* a lone far one in each block */
            ids[i] = i % AE_BLOCK == 77 ? limit - 1 : r % 4 % limit;
            break;
        }
    }
}

static inline void *id_array(const uint64_t *ids, uint64_t n, uint32_t id_bytes) {
    void *out = malloc(n * id_bytes + 1);
    for (uint64_t i = 0; i < n; i++)
        if (id_bytes == 4)
            ((uint32_t *)out)[i] = (uint32_t)ids[i];
        else
            ((uint64_t *)out)[i] = ids[i];
    return out;
}

typedef struct {
    uint8_t *bytes;
    ae_block_group *index;
    uint64_t size, index_size;
} id_blocks;

/* All ids encoded, with their index. */
static inline id_blocks id_encode(const uint64_t *ids, uint64_t n, uint32_t id_bytes) {
    id_blocks b = {malloc(aether_encode_bound(n, id_bytes) + 1), NULL, 0,
                   ae_block_groups(n) * sizeof(ae_block_group)};
    uint64_t blocks = ae_block_number(n), at = 0;
    uint16_t *sizes = calloc(blocks + 1, sizeof *sizes);
    void *array = id_array(ids, n, id_bytes);
    aether_error err;
    if (aether_encode_blocks(
            AE_SIZED(aether_encoding, array, n, b.bytes, aether_encode_bound(n, id_bytes), sizes, id_bytes),
            &b.size, NULL, &err) != AETHER_OK)
        abort();
    b.bytes = realloc(b.bytes, b.size + (b.size == 0)); /* not a byte more: sanitizers watch its end */
    b.index = calloc(1, b.index_size);
    for (uint64_t g = 0; g < ae_block_groups(n); g++) {
        b.index[g].start = at;
        for (uint64_t k = 0; k < AE_BLOCK_GROUP; k++) {
            b.index[g].after[k] = (uint16_t)(at - b.index[g].start);
            at += g * AE_BLOCK_GROUP + k < blocks ? sizes[g * AE_BLOCK_GROUP + k] : 0;
        }
    }
    if (at != b.size)
        abort();
    free(sizes);
    free(array);
    return b;
}

static inline void id_release(id_blocks *b) {
    free(b->bytes);
    free(b->index);
}

#endif
