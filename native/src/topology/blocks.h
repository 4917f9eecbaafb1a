/*
 * topology/blocks.h - neighbour ids compressed in blocks, with access to any of them.
 *
 *   ids      | 128 positions | 128 positions | ...       whatever lists they belong to
 *
 *   index    [start | 16 offsets] [start | 16 offsets] ...    40 bytes for 16 blocks
 *               \________ byte range of a block _______/
 *   blocks   [head | base | widths | classes | anchors | values] ...
 *
 * A block has 1, 2 or 4 widths of values, and `classes` says which of them each value
 * has; values follow each other bit by bit. Counting the classes before a value tells
 * where the value begins, so any value is read without decoding the values before it (as in
 * Brisaboa, Ladra and Navarro, "DACs: bringing direct access to variable-length codes",
 * 2013, which stores the parts of long values by level instead). A value is the id minus
 * the block's smallest id, or its distance from a middle id, or from the id before it.
 * Distances from the id before are for lists in order of id: every 32nd id is an anchor,
 * from which the values are added up. A block uses them only where they save an eighth.
 * FORMAT.md has it byte by byte; ids come back exactly, in their order.
 *
 * Caveats: bytes may be damaged in any way. ae_block_open refuses a block whose values would lie
 * outside it, so nothing outside is read. Ids of an accepted block may still be any number; callers
 * check them.
 */
#ifndef AE_TOPOLOGY_BLOCKS_H
#define AE_TOPOLOGY_BLOCKS_H

#include <stdbool.h>
#include <string.h>

#include "aether.h"

#define AE_BLOCK_BITS         7u
#define AE_BLOCK              (1u << AE_BLOCK_BITS) /* positions */
#define AE_BLOCK_GROUP        16u                   /* blocks that share a start */
#define AE_BLOCK_CLASSES      4u
#define AE_BLOCK_STEP         32u /* positions from anchor to anchor */
#define AE_BLOCK_ANCHORS      3u  /* the base is the first one */
#define AE_BLOCK_HEAD_KIND    3u  /* bits of a block's first byte */
#define AE_BLOCK_HEAD_CLASSES 12u /* from bit 2 on: bits of a class */
#define AE_BLOCK_ABOVE        0u  /* kinds of values: id - base */
#define AE_BLOCK_AROUND       1u  /* zigzag of id - base */
#define AE_BLOCK_DIFFERENCE   2u  /* zigzag of id - the id before; 0 at anchors */

/* Always inline: compiled with the instructions of the function that uses it. */
#define AE_BLOCK_INLINE static inline __attribute__((always_inline))

#define AE_BLOCK_HEAD 48u /* bytes that are read before a value, mostly */

/* Most bytes that a block takes. */
#define AE_BLOCK_MAX(id_bytes) (2u + (id_bytes) + AE_BLOCK * (id_bytes))

typedef struct ae_block_group {
    uint64_t start;                 /* byte of the group's first block in the section */
    uint16_t after[AE_BLOCK_GROUP]; /* where each block begins after that; missing blocks are empty */
} ae_block_group;

typedef struct ae_block {
    const uint8_t *values;
    uint64_t room; /* bytes from `values` on that may be read; the values take no more */
    uint64_t base;
    uint64_t classes[2][2]; /* bit 0, bit 1 of each position's class */
    const uint8_t *anchors; /* of anchor_bytes each, zigzag of id - base */
    uint32_t kind, class_bits, count, anchor_bytes;
    bool simple; /* every value is within 8 bytes that may be read */
    uint8_t width[AE_BLOCK_CLASSES];
    /* the last id read, of differences */
    uint32_t at;
    uint64_t id, position; /* position: of the value behind it */
} ae_block;

AE_BLOCK_INLINE uint64_t ae_block_number(uint64_t positions) { /* blocks for so many */
    return positions / AE_BLOCK + (positions % AE_BLOCK != 0);
}

/* Return the groups of the index: one for each 16 blocks, and one behind them that has only a
 * start. */
AE_BLOCK_INLINE uint64_t ae_block_groups(uint64_t positions) {
    return (ae_block_number(positions) + AE_BLOCK_GROUP - 1) / AE_BLOCK_GROUP + 1;
}

/* Return where block `block` lies: bytes [*begin, *end) of the section; not checked. */
AE_BLOCK_INLINE void ae_block_range(const ae_block_group *index, uint64_t block, uint64_t *begin,
                                    uint64_t *end) {
    const ae_block_group *g = &index[block / AE_BLOCK_GROUP];
    uint64_t k = block % AE_BLOCK_GROUP;
    *begin = g->start + g->after[k];
    *end = k + 1 < AE_BLOCK_GROUP ? g->start + g->after[k + 1] : g[1].start;
}

/* Return the bytes of the blocks that hold n (at least 1) positions from `first` on. */
AE_BLOCK_INLINE void ae_block_span(const ae_block_group *index, uint64_t first, uint64_t n, uint64_t *begin,
                                   uint64_t *end) {
    uint64_t other;
    ae_block_range(index, first / AE_BLOCK, begin, &other);
    ae_block_range(index, (first + n - 1) / AE_BLOCK, &other, end);
}

/* Decode all ids of an opened block. */
void ae_block_decode(ae_block *b, uint64_t *ids);

/* Encode `count` ids to `out`, which has AE_BLOCK_MAX bytes; return how many bytes they took. */
uint64_t ae_block_encode(const void *ids, uint32_t id_bytes, uint32_t count, uint8_t *out);

AE_BLOCK_INLINE uint64_t ae_block_unzigzag(uint64_t value) {
    return value >> 1 ^ -(value & 1);
}

/* Load up to 8 bytes, of `room` that may be read. */
static inline uint64_t ae_block_load(const uint8_t *at, uint64_t room) {
    uint64_t word = 0;
    memcpy(&word, at, room < sizeof word ? room : sizeof word);
    return word;
}

/* Return `width` bits from bit `position` of the values on. */
AE_BLOCK_INLINE uint64_t ae_block_bits(const ae_block *b, uint64_t position, uint32_t width) {
    uint64_t byte = position / 8, shift = position % 8, word;
    if (__builtin_expect(b->simple, 1)) {
        memcpy(&word, b->values + byte, sizeof word);
        return word >> shift & (((uint64_t)1 << width) - 1);
    }
    word = ae_block_load(b->values + byte, b->room - byte) >> shift;
    if (shift + width > 64)
        word |= ae_block_load(b->values + byte + 8, b->room - byte - 8) << (64 - shift);
    return width < 64 ? word & (((uint64_t)1 << width) - 1) : word;
}

/* Count the ones among the first `n` bits of two words. */
AE_BLOCK_INLINE uint32_t ae_block_ones(uint64_t low, uint64_t high, uint32_t n) {
    uint64_t mask = ((uint64_t)1 << n % 64) - 1;
    uint64_t first = n < 64 ? low & mask : low, second = n < 64 ? 0 : n < 128 ? high & mask : high;
    return (uint32_t)__builtin_popcountll(first) + (uint32_t)__builtin_popcountll(second);
}

/* Return the bits that the values before position `j` take. */
AE_BLOCK_INLINE uint64_t ae_block_before(const ae_block *b, uint32_t j) {
    const uint64_t(*c)[2] = b->classes;
    if (b->class_bits == 0)
        return (uint64_t)j * b->width[0];
    uint32_t odd = ae_block_ones(c[0][0], c[0][1], j);
    if (b->class_bits == 1)
        return (uint64_t)(j - odd) * b->width[0] + (uint64_t)odd * b->width[1];
    uint32_t upper = ae_block_ones(c[1][0], c[1][1], j);
    uint32_t last = ae_block_ones(c[0][0] & c[1][0], c[0][1] & c[1][1], j);
    return (uint64_t)(j + last - odd - upper) * b->width[0] + (uint64_t)(odd - last) * b->width[1] +
           (uint64_t)(upper - last) * b->width[2] + (uint64_t)last * b->width[3];
}

/* Return the width of value `j` in bits. */
AE_BLOCK_INLINE uint32_t ae_block_width(const ae_block *b, uint32_t j) {
    if (b->class_bits == 0)
        return b->width[0];
    return b->width[(b->classes[0][j / 64] >> j % 64 & 1) | (b->classes[1][j / 64] >> j % 64 & 1) << 1];
}

/* Go to the anchor of position `j`. */
AE_BLOCK_INLINE void ae_block_begin(ae_block *b, uint32_t j) {
    uint32_t step = j / AE_BLOCK_STEP;
    uint64_t anchor = 0;
    if (step)
        for (uint32_t i = 0; i < b->anchor_bytes; i++)
            anchor |= (uint64_t)b->anchors[(step - 1) * b->anchor_bytes + i] << 8 * i;
    b->at = step * AE_BLOCK_STEP;
    b->id = b->base + ae_block_unzigzag(anchor);
    b->position = ae_block_before(b, b->at) + ae_block_width(b, b->at);
}

/* Return id j of a block of differences: fast if j is little behind the id read before. */
AE_BLOCK_INLINE uint64_t ae_block_add_up(ae_block *b, uint32_t j) {
    if (j < b->at || j / AE_BLOCK_STEP != b->at / AE_BLOCK_STEP)
        ae_block_begin(b, j);
    while (b->at < j) {
        uint32_t width = ae_block_width(b, ++b->at);
        b->id += ae_block_unzigzag(ae_block_bits(b, b->position, width));
        b->position += width;
    }
    return b->id;
}

/* Return id j of a block of any kind. */
AE_BLOCK_INLINE uint64_t ae_block_at(ae_block *b, uint32_t j) {
    if (b->kind == AE_BLOCK_DIFFERENCE)
        return ae_block_add_up(b, j);
    uint64_t value = ae_block_bits(b, ae_block_before(b, j), ae_block_width(b, j));
    return b->base + (b->kind == AE_BLOCK_ABOVE ? value : ae_block_unzigzag(value));
}

/* Open a block of `count` positions (128, or fewer at the end) and `size` bytes; `room` bytes from
 * its begin on may be read. Return false if the block is damaged. */
AE_BLOCK_INLINE bool ae_block_open(const uint8_t *bytes, uint64_t size, uint64_t room, uint32_t id_bytes,
                                   uint32_t count, ae_block *b) {
    uint32_t head = size ? bytes[0] : 0xFF, class_bits = (head & AE_BLOCK_HEAD_CLASSES) >> 2;
    uint32_t kind = head & AE_BLOCK_HEAD_KIND, anchor_bytes = 0, widest = 0;
    uint64_t skip = 1 + id_bytes + ((uint64_t)1 << class_bits) + class_bits * (uint64_t)(AE_BLOCK / 8);
    if (kind > AE_BLOCK_DIFFERENCE || head >= 12 || room < size ||
        size < skip + (kind == AE_BLOCK_DIFFERENCE))
        return false;
    b->kind = kind;
    b->class_bits = class_bits;
    b->count = count;
    b->base = 0;
    memcpy(&b->base, bytes + 1, id_bytes == 8 ? 8 : 4);
    const uint8_t *width = bytes + 1 + id_bytes, *classes = width + ((uint64_t)1 << class_bits);
    memset(b->width, 0, sizeof b->width);
    for (uint32_t i = 0; i < 1u << class_bits; i++) {
        b->width[i] = width[i];
        widest = width[i] > widest ? width[i] : widest;
    }
    memset(b->classes, 0, sizeof b->classes);
    if (class_bits > 0)
        memcpy(b->classes[0], classes, sizeof b->classes[0]);
    if (class_bits > 1)
        memcpy(b->classes[1], classes + sizeof b->classes[0], sizeof b->classes[1]);
    if (kind == AE_BLOCK_DIFFERENCE) {
        anchor_bytes = bytes[skip++];
        b->anchors = bytes + skip;
        skip += (uint64_t)AE_BLOCK_ANCHORS * anchor_bytes;
    }
    if (widest > 64 || anchor_bytes > 8 || size < skip)
        return false;
    b->anchor_bytes = anchor_bytes;
    b->values = bytes + skip;
    b->room = room - skip;
    b->simple = widest <= 57 && room - size >= sizeof(uint64_t);
    b->at = AE_BLOCK; /* nothing was read yet */
    return (ae_block_before(b, count) + 7) / 8 == size - skip;
}

#endif
