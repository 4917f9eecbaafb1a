/*
 * Encoding of blocks: for each kind of values, the widths that make it smallest.
 *
 *   ids -> values (of a kind) -> how many are of each width -> 1, 2 or 4 widths
 *
 * Every width that is offered is that of some value; choosing them is choosing where to
 * cut the sorted widths.
 */
#include <inttypes.h>
#include <stdatomic.h>

#include "aether/build.h"
#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/pool.h"
#include "core/task.h"
#include "topology/blocks.h"

#define MAX_WIDTHS 65u /* 0 to 64 bits */
#define MIDDLES    32u /* ids sampled to find a middle one */
#define NONE       UINT64_MAX

/* Values of one kind, and the cheapest way to write them. */
typedef struct plan {
    uint32_t kind, count, class_bits;
    uint64_t base, bits; /* bits: of the whole block without head and base */
    uint64_t anchors[AE_BLOCK_ANCHORS];
    uint8_t anchor_bytes;
    uint64_t values[AE_BLOCK];
    uint8_t own[AE_BLOCK]; /* width of each value */
    uint8_t width[AE_BLOCK_CLASSES];
} plan;

static uint64_t zigzag(uint64_t value) {
    return value << 1 ^ -(value >> 63);
}

static uint32_t width_of(uint64_t value) {
    return value ? 64 - (uint32_t)__builtin_clzll(value) : 0;
}

/* ---- choosing widths --------------------------------------------------------------------- */

typedef struct widths {
    uint32_t n; /* widths that occur */
    uint8_t width[MAX_WIDTHS];
    uint32_t upto[MAX_WIDTHS]; /* number of values of this width or less */
    uint64_t sum;
} widths;

static widths count_widths(const plan *p) {
    uint8_t counts[MAX_WIDTHS] = {0};
    widths w = {0};
    for (uint32_t i = 0; i < p->count; i++) {
        counts[p->own[i]]++;
        w.sum += p->own[i];
    }
    for (uint32_t i = 0, upto = 0; i < MAX_WIDTHS; i++)
        if (counts[i]) {
            upto += counts[i];
            w.width[w.n] = (uint8_t)i;
            w.upto[w.n++] = upto;
        }
    return w;
}

/* Return the bits of the values of widths i + 1 to j if all are written with width j. */
static uint64_t cost(const widths *w, int32_t i, uint32_t j) {
    return (uint64_t)w->width[j] * (w->upto[j] - (i < 0 ? 0 : w->upto[i]));
}

/* Find the cheapest way to write the values with `classes` widths, by dynamic programming;
 * return its bits. */
static uint64_t cut_into_widths(const widths *w, uint32_t classes, uint8_t *chosen) {
    uint64_t best[AE_BLOCK_CLASSES][MAX_WIDTHS];
    uint8_t from[AE_BLOCK_CLASSES][MAX_WIDTHS];
    for (uint32_t j = 0; j < w->n; j++)
        best[0][j] = cost(w, -1, j);
    for (uint32_t k = 1; k < classes; k++)
        for (uint32_t j = k; j < w->n; j++) {
            best[k][j] = NONE;
            for (uint32_t i = k - 1; i < j; i++) {
                uint64_t bits = best[k - 1][i] + cost(w, (int32_t)i, j);
                if (bits < best[k][j]) {
                    best[k][j] = bits;
                    from[k][j] = (uint8_t)i;
                }
            }
        }
    uint32_t j = w->n - 1;
    uint64_t bits = best[classes - 1][j];
    for (uint32_t k = classes; k-- > 0; j = k ? from[k][j] : 0)
        chosen[k] = w->width[j];
    return bits;
}

/* Choose the widths for p's values; false if they and `before` more bits take `limit` bits or
 * more. */
static bool choose_widths(plan *p, uint64_t before, uint64_t limit) {
    widths w = count_widths(p);
    p->bits = limit;
    for (uint32_t class_bits = 0; class_bits <= 2; class_bits++) {
        uint32_t classes = 1u << class_bits;
        uint64_t head = before + 8 * classes + AE_BLOCK * class_bits;
        uint8_t chosen[AE_BLOCK_CLASSES];
        if (classes > w.n || head + w.sum >= p->bits)
            break;
        uint64_t bits = head + cut_into_widths(&w, classes, chosen);
        if (bits < p->bits) {
            p->bits = bits;
            p->class_bits = class_bits;
            memcpy(p->width, chosen, sizeof chosen);
        }
    }
    return p->bits < limit;
}

/* ---- kinds of values ----------------------------------------------------------------------- */

static uint64_t block_id_at(const void *ids, uint32_t id_bytes, uint32_t i) {
    return id_bytes == 4 ? ((const uint32_t *)ids)[i] : ((const uint64_t *)ids)[i];
}

static uint64_t smallest(const uint64_t *ids, uint32_t n) {
    uint64_t least = ids[0];
    for (uint32_t i = 1; i < n; i++)
        least = ae_min_u64(least, ids[i]);
    return least;
}

/* The median of a few ids: outliers do not move it. */
static uint64_t middle(const uint64_t *ids, uint32_t n) {
    uint64_t sorted[MIDDLES] = {0};
    uint32_t some = n < MIDDLES ? n : MIDDLES;
    for (uint32_t i = 0; i < some; i++) {
        uint64_t id = ids[(uint64_t)i * n / some];
        uint32_t at = i;
        for (; at && sorted[at - 1] > id; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = id;
    }
    return sorted[some / 2];
}

/* Anchors hold their distance from the base; their values are 0. */
static void make_differences(plan *p, const uint64_t *ids) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        p->values[i] = i % AE_BLOCK_STEP ? zigzag(ids[i] - ids[i - 1]) : 0;
        if (i && i % AE_BLOCK_STEP == 0)
            all |= p->anchors[i / AE_BLOCK_STEP - 1] = zigzag(ids[i] - p->base);
    }
    p->anchor_bytes = (uint8_t)((width_of(all) + 7) / 8);
}

/* Return false if values of this kind take `limit` bits or more. */
static bool make_values(plan *p, uint32_t kind, const uint64_t *ids, uint32_t n, uint64_t limit) {
    *p = (plan){.kind = kind, .count = n};
    p->base = kind == AE_BLOCK_ABOVE ? smallest(ids, n) : kind == AE_BLOCK_AROUND ? middle(ids, n) : ids[0];
    if (kind == AE_BLOCK_DIFFERENCE)
        make_differences(p, ids);
    for (uint32_t i = 0; i < n; i++) {
        if (kind != AE_BLOCK_DIFFERENCE)
            p->values[i] = kind == AE_BLOCK_ABOVE ? ids[i] - p->base : zigzag(ids[i] - p->base);
        p->own[i] = (uint8_t)width_of(p->values[i]);
    }
    uint64_t head = kind == AE_BLOCK_DIFFERENCE ? 8 * (1 + AE_BLOCK_ANCHORS * (uint64_t)p->anchor_bytes) : 0;
    return head < limit && choose_widths(p, head, limit);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Values follow each other in words, whose bytes follow each other in the block. */
typedef struct bits {
    uint64_t words[AE_BLOCK + 1];
    uint64_t position;
} bits;

static void put_bits(bits *b, uint64_t value, uint32_t width) {
    uint64_t shift = b->position % 64, *word = &b->words[b->position / 64];
    word[0] |= value << shift;
    if (shift + width > 64)
        word[1] = value >> (64 - shift);
    b->position += width;
}

static uint8_t *put_anchors(const plan *p, uint8_t *at) {
    *at++ = p->anchor_bytes;
    for (uint32_t i = 0; i < AE_BLOCK_ANCHORS; i++, at += p->anchor_bytes)
        memcpy(at, &p->anchors[i], p->anchor_bytes);
    return at;
}

static uint64_t write_block(const plan *p, uint32_t id_bytes, uint8_t *out) {
    uint8_t *at = out;
    uint64_t classes[2][2] = {{0}};
    bits values = {{0}, 0};
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t class = 0;
        while (p->width[class] < p->own[i])
            class ++;
        classes[0][i / 64] |= (class & 1) << i % 64;
        classes[1][i / 64] |= (class >> 1) << i % 64;
        put_bits(&values, p->values[i], p->width[class]);
    }
    *at++ = (uint8_t)(p->kind | p->class_bits << 2);
    memcpy(at, &p->base, id_bytes);
    at += id_bytes;
    memcpy(at, p->width, (size_t)1 << p->class_bits);
    at += (size_t)1 << p->class_bits;
    memcpy(at, classes, p->class_bits * (uint64_t)(AE_BLOCK / 8));
    at += p->class_bits * (uint64_t)(AE_BLOCK / 8);
    if (p->kind == AE_BLOCK_DIFFERENCE)
        at = put_anchors(p, at);
    memcpy(at, values.words, (values.position + 7) / 8);
    return (uint64_t)(at - out) + (values.position + 7) / 8;
}

uint64_t ae_block_encode(const void *ids, uint32_t id_bytes, uint32_t count, uint8_t *out) {
    uint64_t wide[AE_BLOCK] = {0};
    plan plans[2], *best = &plans[0], *other = &plans[1];
    for (uint32_t i = 0; i < count; i++)
        wide[i] = block_id_at(ids, id_bytes, i);
    make_values(best, AE_BLOCK_ABOVE, wide, count, NONE);
    for (uint32_t kind = AE_BLOCK_AROUND; kind <= AE_BLOCK_DIFFERENCE; kind++) {
        uint64_t handicap = kind == AE_BLOCK_DIFFERENCE ? best->bits / 8 : 0;
        if (make_values(other, kind, wide, count, best->bits - handicap)) {
            plan *worse = best;
            best = other;
            other = worse;
        }
    }
    return write_block(best, id_bytes, out);
}

/* ---- many blocks -------------------------------------------------------------------------------- */

#define CHUNK_BLOCKS 256u

typedef struct {
    const uint8_t *ids;
    uint32_t id_bytes;
    uint64_t n;
    uint8_t *out;
    uint16_t *sizes;
    aether_task *task;
    atomic_int cancelled;
} encoder;

/* Encode a chunk to where it would begin if all blocks before it had the maximal size. */
static void encode_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    encoder *e = ctx;
    uint64_t max = AE_BLOCK_MAX(e->id_bytes), end = ae_block_number(e->n);
    uint64_t first = chunk * CHUNK_BLOCKS, last = ae_min_u64(first + CHUNK_BLOCKS, end);
    uint8_t *at = e->out + first * max;
    (void)worker;
    if (ae_task_cancelled(e->task))
        atomic_store_explicit(&e->cancelled, 1, memory_order_relaxed);
    if (atomic_load_explicit(&e->cancelled, memory_order_relaxed))
        return;
    for (uint64_t b = first; b < last; b++) {
        uint32_t count = (uint32_t)ae_min_u64(AE_BLOCK, e->n - b * AE_BLOCK);
        uint64_t size = ae_block_encode(e->ids + b * AE_BLOCK * e->id_bytes, e->id_bytes, count, at);
        e->sizes[b] = (uint16_t)size;
        at += size;
    }
    ae_task_add(e->task, ae_min_u64(last * AE_BLOCK, e->n) - first * AE_BLOCK);
}

uint64_t aether_encode_bound(uint64_t n, uint32_t id_bytes) {
    return ae_block_number(n) * AE_BLOCK_MAX(id_bytes);
}

int aether_encode_blocks(const aether_encoding *encoding, uint64_t *used, aether_task *task,
                         aether_error *err) {
    int rc = ae_options_check(encoding, sizeof *encoding, "aether_encoding", err);
    if (rc)
        return rc;
    const void *ids = encoding->ids;
    const uint32_t id_bytes = encoding->id_bytes;
    const uint64_t n = encoding->n, room = encoding->room;
    uint16_t *sizes = encoding->sizes;
    void *out = encoding->out;
    encoder e = {.ids = ids, .id_bytes = id_bytes, .n = n, .out = out, .sizes = sizes, .task = task};
    uint64_t blocks = ae_block_number(n);
    if (id_bytes != 4 && id_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, 0, id_bytes, "id_bytes is %" PRIu32 ", must be 4 or 8",
                           id_bytes);
    if (!used || (n && (!ids || !out || !sizes)))
        return ae_error_set(err, AETHER_E_INVALID, "ids, out, sizes and used are needed");
    if (room < aether_encode_bound(n, id_bytes))
        return ae_error_set(err, AETHER_E_INVALID,
                            "%" PRIu64 " ids take up to %" PRIu64 " bytes, out has %" PRIu64, n,
                            aether_encode_bound(n, id_bytes), room);
    *used = 0;
    aether_guard(); /* the ids may be mapped */
    atomic_init(&e.cancelled, 0);
    ae_task_begin(task, n);
    ae_pool_run(encode_chunk, &e, blocks / CHUNK_BLOCKS + (blocks % CHUNK_BLOCKS != 0), 0);
    if (atomic_load(&e.cancelled))
        return ae_error_set(err, AETHER_E_CANCELLED, "encoding was cancelled");
    for (uint64_t first = 0; first < blocks; first += CHUNK_BLOCKS) {
        uint64_t size = 0;
        for (uint64_t b = first; b < ae_min_u64(first + CHUNK_BLOCKS, blocks); b++)
            size += sizes[b];
        memmove((uint8_t *)out + *used, (uint8_t *)out + first * AE_BLOCK_MAX(id_bytes), size);
        *used += size;
    }
    return AETHER_OK;
}
