/* A topology whose ids lie in blocks (topology/blocks.h), in memory or mapped. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/simd.h"
#include "topology/arrays.h"
#include "topology/blocks.h"

#define NONE          UINT64_MAX
#define BLOCK         128u
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef struct place {
    const uint8_t *bytes;
    uint64_t size, room;
} place;

/* The size is 0, which no block has, where the index is damaged. */
ALWAYS_INLINE place block_place(const aether_topology *t, uint64_t block) {
    uint64_t begin, end, room = ae_arrays_of(t)->blocks.blocks_size;
    ae_block_range(ae_arrays_of(t)->blocks.index, block, &begin, &end);
    if (begin >= end || end > room)
        return (place){NULL, 0, 0};
    return (place){(const uint8_t *)ae_arrays_of(t)->blocks.blocks + begin, end - begin, room - begin};
}

/* Two rounds: index entries first, then the heads of the blocks that they name. */
static void compressed_prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    const ae_block_group *index = ae_arrays_of(t)->blocks.index;
    uint64_t block = NONE;
    for (uint64_t i = 0; i < n; i++)
        __builtin_prefetch(&index[positions[i] / (AE_BLOCK * AE_BLOCK_GROUP)]);
    for (uint64_t i = 0; i < n; i++) {
        if (positions[i] / AE_BLOCK == block)
            continue;
        block = positions[i] / AE_BLOCK;
        place p = block_place(t, block);
        if (p.size) {
            __builtin_prefetch(p.bytes);
            __builtin_prefetch(p.bytes + AE_BLOCK_HEAD - 1);
        }
    }
}

static int bad_compressed_block(uint64_t position, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)position, (int64_t)(position / AE_BLOCK),
                       "block %" PRIu64 " of the compressed ids, at position %" PRIu64
                       ", is damaged (run `aethergraph verify`)",
                       position / AE_BLOCK, position);
}

ALWAYS_INLINE bool open_compressed_block(const aether_topology *t, uint64_t number, ae_block *out) {
    uint64_t left = t->num_edges - number * AE_BLOCK;
    place p = block_place(t, number);
    return p.size && ae_block_open(p.bytes, p.size, p.room, t->id_bytes,
                                   left < AE_BLOCK ? (uint32_t)left : AE_BLOCK, out);
}

/* Place of one value, and how its bits become an id. */
typedef struct spot {
    const uint8_t *at;
    uint64_t base;
    uint8_t shift, width, zigzag;
} spot;

static const uint8_t nothing[sizeof(uint64_t)];

ALWAYS_INLINE spot find_spot(ae_block *b, uint32_t j) {
    if (b->kind == AE_BLOCK_DIFFERENCE || !b->simple)
        return (spot){nothing, ae_block_at(b, j), 0, 0, 0};
    uint64_t position = ae_block_before(b, j);
    return (spot){b->values + position / 8, b->base, position % 8, (uint8_t)ae_block_width(b, j),
                  b->kind == AE_BLOCK_AROUND};
}

ALWAYS_INLINE uint64_t read_spot(const spot *s) {
    uint64_t word;
    memcpy(&word, s->at, sizeof word);
    word = word >> s->shift & (((uint64_t)1 << s->width) - 1);
    return s->base + (s->zigzag ? ae_block_unzigzag(word) : word);
}

/* Two rounds: the cache lines of all values are prefetched before one is read. */
ALWAYS_INLINE int fetch_block(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                              aether_error *err) {
    uint64_t number = NONE, largest = 0;
    ae_block block = {0};
    spot spots[BLOCK];
    for (uint64_t i = 0; i < n; i++) {
        if (positions[i] / AE_BLOCK != number) {
            number = positions[i] / AE_BLOCK;
            if (!open_compressed_block(t, number, &block))
                return bad_compressed_block(positions[i], err);
        }
        spots[i] = find_spot(&block, positions[i] % AE_BLOCK);
        __builtin_prefetch(spots[i].at);
        __builtin_prefetch(spots[i].at + sizeof(uint64_t) - 1);
    }
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = read_spot(&spots[i]);
        largest = ids[i] > largest ? ids[i] : largest;
    }
    return n && largest >= t->num_minor ? ae_topology_bad_id(t, positions, ids, n, err) : AETHER_OK;
}

ALWAYS_INLINE int fetch_blocks(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                               aether_error *err) {
    for (uint64_t at = 0; at < n; at += BLOCK) {
        int rc = fetch_block(t, positions + at, n - at < BLOCK ? n - at : BLOCK, ids + at, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static int fetch_portable(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                          aether_error *err) {
    return fetch_blocks(t, positions, n, ids, err);
}

#define BLOCK_OPS(how)                                                                                       \
    {                                                                                                        \
        .locate = ae_arrays_locate, .prefetch = compressed_prefetch, .fetch = fetch_##how,                   \
        .edge_ids = ae_arrays_edge_ids, .memory = ae_arrays_memory, .destroy = ae_arrays_free,               \
    }

static const ae_topology_ops ops_portable = BLOCK_OPS(portable);

#if defined(__x86_64__)
__attribute__((target("popcnt"))) static int fetch_popcnt(const aether_topology *t, const uint64_t *positions,
                                                          uint64_t n, uint64_t *ids, aether_error *err) {
    return fetch_blocks(t, positions, n, ids, err);
}

static const ae_topology_ops ops_popcnt = BLOCK_OPS(popcnt);
#endif

static const ae_topology_ops *choose_ops(void) {
#if defined(__x86_64__)
    if (ae_core_has_popcnt())
        return &ops_popcnt;
#endif
    return &ops_portable;
}

int ae_arrays_fetch_blocks(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                           aether_error *err) {
    return choose_ops()->fetch(t, positions, n, ids, err);
}

static int check_compressed_blocks(const aether_lists *lists, const aether_blocks *b, aether_error *err) {
    uint64_t expected = ae_block_groups(lists->num_edges) * sizeof(ae_block_group);
    if (lists->indices || !b || !b->index || (!b->blocks && lists->num_edges))
        return ae_error_set(err, AETHER_E_INVALID, "compressed lists have blocks and an index, no indices");
    if (b->index_size != expected)
        return ae_error_set(err, AETHER_E_CORRUPT,
                            "the index of the compressed ids has %" PRIu64 " bytes, not %" PRIu64
                            " for %" PRIu64 " edges",
                            b->index_size, expected, lists->num_edges);
    const ae_block_group *end = (const ae_block_group *)b->index + ae_block_groups(lists->num_edges) - 1;
    if (end->start != b->blocks_size)
        return ae_error_set(err, AETHER_E_CORRUPT,
                            "the index of the compressed ids ends at %" PRIu64 ", but they have %" PRIu64
                            " bytes",
                            end->start, b->blocks_size);
    return AETHER_OK;
}

int aether_topology_create_compressed(const aether_lists *lists, const aether_blocks *blocks,
                                      aether_topology **out, aether_error *err) {
    int rc = ae_arrays_check(lists, err);
    rc = rc ? rc : check_compressed_blocks(lists, blocks, err);
    if (rc)
        return rc;
    ae_arrays *a = malloc(sizeof *a);
    if (!a)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a topology handle");
    *a = ae_arrays_make(lists, choose_ops());
    a->blocks = *blocks;
    *out = &a->base;
    return AETHER_OK;
}
