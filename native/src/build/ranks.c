/*
 * aether_ranks_*: places of numbers among those of a set, from 1 1/3 bits for each number that there
 * could be.
 *
 *   block   before | bits of 192 numbers           32 bytes: a rank is one cache line
 *
 *   mark, mark ...  ->  count: fills in `before`  ->  of, of ...
 *
 * aether_put_places: the inverse of an order, some of it at a time.
 */
#include <inttypes.h>

#include "aether/build.h"
#include "core/error.h"

#define NUMBERS 192 /* of a block */
#define WORDS   4
#define AHEAD   16

/* Without an instruction that every machine has. */
static inline uint64_t ones(uint64_t x) {
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return x * UINT64_C(0x0101010101010101) >> 56;
}

static int bad_number(const int64_t *ids, uint64_t i, uint64_t end, const char *why, aether_error *err) {
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, ids[i],
                       "number %" PRId64 " at position %" PRIu64 " is %s %" PRIu64, ids[i], i, why, end);
}

uint64_t aether_ranks_words(uint64_t end) {
    return (end / NUMBERS + 1) * WORDS;
}

int aether_ranks_mark(uint64_t *blocks, uint64_t end, const int64_t *ids, uint64_t n, aether_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        if (i + AHEAD < n && (uint64_t)ids[i + AHEAD] < end)
            __builtin_prefetch(blocks + (uint64_t)ids[i + AHEAD] / NUMBERS * WORDS, 1);
        const uint64_t id = (uint64_t)ids[i];
        if (id >= end)
            return bad_number(ids, i, end, "not below", err);
        uint64_t *word = blocks + id / NUMBERS * WORDS + 1 + id % NUMBERS / 64;
        if (*word >> id % NUMBERS % 64 & 1)
            return bad_number(ids, i, end, "there twice, of those below", err);
        *word |= UINT64_C(1) << id % NUMBERS % 64;
    }
    return AETHER_OK;
}

uint64_t aether_ranks_count(uint64_t *blocks, uint64_t end) {
    uint64_t before = 0;
    for (uint64_t *b = blocks, *last = blocks + aether_ranks_words(end); b < last; b += WORDS) {
        b[0] = before;
        before += ones(b[1]) + ones(b[2]) + ones(b[3]);
    }
    return before;
}

static inline uint64_t rank_of(const uint64_t *blocks, uint64_t id) {
    const uint64_t *b = blocks + id / NUMBERS * WORDS, bit = id % NUMBERS;
    uint64_t rank = b[0] + ones(b[1 + bit / 64] & ((UINT64_C(1) << bit % 64) - 1));
    if (bit >= 64)
        rank += ones(b[1]);
    return bit >= 128 ? rank + ones(b[2]) : rank;
}

int aether_ranks_of(const uint64_t *blocks, uint64_t end, const int64_t *ids, uint64_t n, int64_t *out,
                    aether_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        if (i + AHEAD < n && (uint64_t)ids[i + AHEAD] < end)
            __builtin_prefetch(blocks + (uint64_t)ids[i + AHEAD] / NUMBERS * WORDS);
        if ((uint64_t)ids[i] >= end)
            return bad_number(ids, i, end, "not below", err);
        out[i] = (int64_t)rank_of(blocks, (uint64_t)ids[i]);
    }
    return AETHER_OK;
}

int aether_put_places(const int64_t *ids, uint64_t n, uint64_t first, void *out, uint32_t item_bytes,
                      uint64_t end, aether_error *err) {
    if (item_bytes != 4 && item_bytes != 8)
        return ae_error_set(err, AETHER_E_INVALID, "items of %" PRIu32 " bytes", item_bytes);
    for (uint64_t i = 0; i < n; i++) {
        if (i + AHEAD < n && (uint64_t)ids[i + AHEAD] < end)
            __builtin_prefetch((uint8_t *)out + (uint64_t)ids[i + AHEAD] * item_bytes, 1);
        if ((uint64_t)ids[i] >= end)
            return bad_number(ids, i, end, "not below", err);
        if (item_bytes == 4)
            ((uint32_t *)out)[ids[i]] = (uint32_t)(first + i);
        else
            ((uint64_t *)out)[ids[i]] = first + i;
    }
    return AETHER_OK;
}
