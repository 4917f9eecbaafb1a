#include "topology/paged/offsets.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/simd.h"

#define BLOCK         128u
#define HIGH_WORDS    6u                  /* high parts of a block: at most 128 + 255 bits */
#define SLACK         64u                 /* the last block's codes are read and written by whole words */
#define AHEAD         24u                 /* lists between two stages of `pairs`; see topology.c */
#define TRIM          ((uint64_t)2 << 20) /* memory is given back by huge pages */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef struct entry {
    uint64_t base;  /* value 0 of the block */
    uint64_t place; /* byte offset of its codes * 64 + l */
} entry;

struct ae_offsets {
    uint64_t count, last;
    entry *index;
    uint8_t *codes;
    uint64_t index_size, codes_size; /* bytes allocated */
    uint64_t used;                   /* of codes */
    uint64_t appended, previous;
    void (*pairs)(const ae_offsets *, const uint64_t *, uint64_t, uint64_t *, uint64_t *);
    uint64_t pending[BLOCK]; /* values of a block that is not complete */
};

ALWAYS_INLINE uint64_t load_word(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* ---- building ------------------------------------------------------------------------ */

/* Append the codes of 128 values; bytes behind the used ones are overwritten. */
static void encode(ae_offsets *o, uint64_t block, const uint64_t *values) {
    uint64_t base = values[0], span = values[BLOCK - 1] - base, high[HIGH_WORDS] = {0}, word = 0;
    uint32_t l = span / BLOCK ? 63 - (uint32_t)__builtin_clzll(span / BLOCK) : 0, filled = 0;
    uint8_t *at = o->codes + o->used;
    o->index[block] = (entry){base, o->used << 6 | l};
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint64_t value = values[i] - base, position = (value >> l) + i;
        high[position / 64] |= (uint64_t)1 << position % 64;
        value -= value >> l << l;
        word |= value << filled;
        filled += l;
        if (filled >= 64) {
            memcpy(at, &word, sizeof word);
            at += sizeof word;
            filled -= 64;
            word = filled ? value >> (l - filled) : 0;
        }
    }
    memcpy(at, high, sizeof high); /* 128 l bits are whole words: nothing is left in `word` */
    o->used = (uint64_t)(at - o->codes) + ((span >> l) + BLOCK - 1) / 8 + 1;
}

static void choose_pairs(ae_offsets *o);

/* A block takes at most 128 (2 + log2(1 + span / 128)) bits, rounded up to bytes; the
 * logarithm is concave, so blocks of equal spans take the most. */
static uint64_t codes_bound(uint64_t blocks, uint64_t last) {
    double values = (double)blocks * BLOCK, bits = 2 + log2(1 + (double)last / values);
    return (uint64_t)(values * bits / 8 * (1 + 1e-9)) + blocks + SLACK;
}

int ae_offsets_create(uint64_t count, uint64_t last, ae_offsets **out, aether_error *err) {
    *out = NULL;
    uint64_t blocks = count / BLOCK + (count % BLOCK != 0);
    if (count > (uint64_t)1 << 48)
        return ae_error_set(err, AETHER_E_LIMIT, "%" PRIu64 " offsets are more than 2^48", count);
    ae_offsets *o = calloc(1, sizeof *o);
    if (!o)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory for offsets");
    o->count = count;
    o->last = last;
    o->index_size = blocks * sizeof *o->index;
    o->codes_size = count ? codes_bound(blocks, last) : SLACK;
    o->index = aether_buffer_alloc(o->index_size, err);
    o->codes = o->index ? aether_buffer_alloc(o->codes_size, err) : NULL;
    choose_pairs(o);
    if (!o->codes) {
        ae_offsets_destroy(o);
        return AETHER_E_NO_MEMORY;
    }
    *out = o;
    return AETHER_OK;
}

void ae_offsets_destroy(ae_offsets *o) {
    if (!o)
        return;
    aether_buffer_free(o->index, o->index_size);
    aether_buffer_free(o->codes, o->codes_size);
    free(o);
}

uint64_t ae_offsets_memory(const ae_offsets *o) {
    return sizeof *o + o->index_size + o->codes_size;
}

uint64_t ae_offsets_count(const ae_offsets *o) {
    return o->count;
}

static int check_offsets(const ae_offsets *o, const uint64_t *values, uint64_t n, aether_error *err) {
    uint64_t previous = o->previous;
    if (n > o->count - o->appended)
        return ae_error_set(err, AETHER_E_INVALID, "more than %" PRIu64 " offsets were appended", o->count);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = o->appended + i;
        if (values[i] < previous)
            return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)at, (int64_t)values[i],
                               "offset %" PRIu64 " is %" PRIu64 ", below the one before it, %" PRIu64, at,
                               values[i], previous);
        if (values[i] > o->last)
            return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)at, (int64_t)values[i],
                               "offset %" PRIu64 " is %" PRIu64 ", above the last one, %" PRIu64, at,
                               values[i], o->last);
        previous = values[i];
    }
    return AETHER_OK;
}

int ae_offsets_append(ae_offsets *o, const uint64_t *values, uint64_t n, aether_error *err) {
    int rc = check_offsets(o, values, n, err);
    if (rc || n == 0)
        return rc;
    o->previous = values[n - 1];
    while (n) {
        uint64_t held = o->appended % BLOCK, take = ae_min_u64(BLOCK - held, n);
        if (take == BLOCK) {
            encode(o, o->appended / BLOCK, values);
        } else {
            memcpy(o->pending + held, values, take * sizeof *values);
            if (held + take == BLOCK)
                encode(o, o->appended / BLOCK, o->pending);
        }
        o->appended += take;
        values += take;
        n -= take;
    }
    return AETHER_OK;
}

/* The bound was too large: return the unused memory to the system. */
static void trim_codes(ae_offsets *o) {
    uint64_t kept = (o->used + SLACK + TRIM - 1) & ~(TRIM - 1);
    if (kept >= o->codes_size)
        return;
    aether_buffer_free(o->codes + kept, o->codes_size - kept);
    o->codes_size = kept;
}

int ae_offsets_finish(ae_offsets *o, aether_error *err) {
    if (o->appended < o->count)
        return ae_error_set(err, AETHER_E_INVALID, "%" PRIu64 " of %" PRIu64 " offsets were appended",
                            o->appended, o->count);
    uint64_t held = o->count % BLOCK;
    if (held) { /* the last block repeats its last value */
        for (uint64_t i = held; i < BLOCK; i++)
            o->pending[i] = o->previous;
        encode(o, o->count / BLOCK, o->pending);
    }
    trim_codes(o);
    return AETHER_OK;
}

/* ---- access ---------------------------------------------------------------------------- */

/* Find set bit `rank` of a word without an instruction for it: prefix sums of the counts of
 * bytes, then of the bits of the byte. */
ALWAYS_INLINE uint32_t select_portable(uint64_t word, uint32_t rank) {
    const uint64_t ones = 0x0101010101010101u, tops = ones << 7;
    uint64_t sums = word - (word >> 1 & 0x5555555555555555u);
    sums = (sums & 0x3333333333333333u) + (sums >> 2 & 0x3333333333333333u);
    sums = ((sums + (sums >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * ones;
    uint64_t at_most = ((rank * ones | tops) - sums) & tops; /* bytes with sums <= rank */
    uint32_t shift = (uint32_t)((at_most >> 7) * ones >> 56) * 8;
    rank -= (uint32_t)(sums << 8 >> shift) & 255;
    uint64_t bits = ((word >> shift & 255) * ones & 0x8040201008040201u) + 0x7F7F7F7F7F7F7F7Fu;
    sums = (bits >> 7 & ones) * ones;
    at_most = ((rank * ones | tops) - sums) & tops;
    return shift + (uint32_t)((at_most >> 7) * ones >> 56);
}

typedef uint32_t (*select_fn)(uint64_t word, uint32_t rank);

/* Find set bit `rank` of the high parts, and the next one if rank + 1 < BLOCK. All words are
 * counted, because guessing when to stop costs more. */
ALWAYS_INLINE uint32_t find_bit(const uint8_t *high, uint32_t rank, uint32_t *next, select_fn select) {
    uint32_t before[HIGH_WORDS], sum = 0, k = 0;
#pragma GCC unroll 6
    for (uint32_t i = 0; i < HIGH_WORDS; i++) {
        before[i] = sum;
        k += i && sum <= rank;
        sum += (uint32_t)__builtin_popcountll(load_word(high + 8 * (uint64_t)i));
    }
    uint64_t word = load_word(high + 8 * (uint64_t)k);
    uint32_t bit = select(word, rank - before[k]), at = 64 * k + bit;
    word &= ~(uint64_t)1 << bit;
    while (!word && k + 1 < HIGH_WORDS)
        word = load_word(high + 8 * (uint64_t)++k);
    *next = 64 * k + (word ? (uint32_t)__builtin_ctzll(word) : 0);
    return at;
}

ALWAYS_INLINE uint64_t low_bits(const uint8_t *low, uint32_t i, uint32_t l) {
    uint64_t position = (uint64_t)i * l;
    return load_word(low + position / 8) >> position % 8 & (((uint64_t)1 << l) - 1);
}

ALWAYS_INLINE void find_pair(const ae_offsets *o, uint64_t i, uint64_t *begin, uint64_t *end,
                             select_fn select) {
    const entry *e = &o->index[i / BLOCK];
    uint32_t l = e->place & 63, j = i % BLOCK, next;
    const uint8_t *low = o->codes + (e->place >> 6);
    uint32_t at = find_bit(low + (uint64_t)l * BLOCK / 8, j, &next, select);
    *begin = e->base + ((uint64_t)(at - j) << l | low_bits(low, j, l));
    *end = j + 1 < BLOCK ? e->base + ((uint64_t)(next - j - 1) << l | low_bits(low, j + 1, l)) : e[1].base;
}

/* Prefetch the low bits of a pair, and the lines where its high bits may be. */
ALWAYS_INLINE void prefetch_codes(const ae_offsets *o, uint64_t i) {
    uint64_t place = o->index[i / BLOCK].place, l = place & 63;
    const uint8_t *low = o->codes + (place >> 6), *high = low + l * BLOCK / 8;
    __builtin_prefetch(low + i % BLOCK * l / 8);
    __builtin_prefetch(high);
    __builtin_prefetch(high + 8 * HIGH_WORDS - 1);
}

/* Three stages, AHEAD lists apart: prefetch an index entry; prefetch the codes that it names;
 * decode. */
ALWAYS_INLINE void find_pairs(const ae_offsets *o, const uint64_t *indices, uint64_t n, uint64_t *begin,
                              uint64_t *end, select_fn select) {
    uint64_t near = ae_min_u64(AHEAD, n), far = ae_min_u64(2 * AHEAD, n);
    for (uint64_t i = 0; i < far; i++)
        __builtin_prefetch(&o->index[indices[i] / BLOCK]);
    for (uint64_t i = 0; i < near; i++)
        prefetch_codes(o, indices[i]);
    for (uint64_t i = 0; i < n; i++) {
        if (i + 2 * AHEAD < n)
            __builtin_prefetch(&o->index[indices[i + 2 * AHEAD] / BLOCK]);
        if (i + AHEAD < n)
            prefetch_codes(o, indices[i + AHEAD]);
        find_pair(o, indices[i], &begin[i], &end[i], select);
    }
}

static void pairs_portable(const ae_offsets *o, const uint64_t *indices, uint64_t n, uint64_t *begin,
                           uint64_t *end) {
    find_pairs(o, indices, n, begin, end, select_portable);
}

#if defined(__x86_64__)
#define BITS __attribute__((target("popcnt,bmi,bmi2")))

BITS ALWAYS_INLINE uint32_t select_deposit(uint64_t word, uint32_t rank) {
    return (uint32_t)__builtin_ctzll(__builtin_ia32_pdep_di((uint64_t)1 << rank, word));
}

BITS static void pairs_deposit(const ae_offsets *o, const uint64_t *indices, uint64_t n, uint64_t *begin,
                               uint64_t *end) {
    find_pairs(o, indices, n, begin, end, select_deposit);
}
#endif

static void choose_pairs(ae_offsets *o) {
    o->pairs = pairs_portable;
#if defined(__x86_64__)
    if (ae_core_has_deposit())
        o->pairs = pairs_deposit;
#endif
}

void ae_offsets_use_portable(ae_offsets *o) {
    o->pairs = pairs_portable;
}

void ae_offsets_pair(const ae_offsets *o, uint64_t i, uint64_t *begin, uint64_t *end) {
    o->pairs(o, &i, 1, begin, end);
}

void ae_offsets_pairs(const ae_offsets *o, const uint64_t *indices, uint64_t n, uint64_t *begin,
                      uint64_t *end) {
    o->pairs(o, indices, n, begin, end);
}
