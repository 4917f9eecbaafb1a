#include "keys/keys.h"

#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/failure.h"
#include "core/minmax.h"
#include "core/pool.h"
#include "format/hash.h"

#define CHUNK 16384u

int ae_keys_check(const aether_keys *keys, aether_error *err) {
    if (!keys || (keys->n && !keys->bytes && keys->size) || (!keys->offsets && !keys->width))
        return ae_error_set(err, AETHER_E_INVALID, "keys need bytes, and offsets or a width");
    if (!keys->offsets && keys->n > keys->size / keys->width)
        return ae_error_set(err, AETHER_E_INVALID,
                            "%" PRIu64 " keys of %" PRIu32 " bytes are not in %" PRIu64, keys->n, keys->width,
                            keys->size);
    return AETHER_OK;
}

int ae_keys_bad_offsets(uint64_t i, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)i, 0,
                       "the offsets of key %" PRIu64 " are not within the keys", i);
}

/* ---- hash -------------------------------------------------------------------------- */

typedef struct {
    const aether_keys *keys;
    uint64_t *hashes;
    ae_failure failure;
} hashing;

static void hash_key_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    hashing *h = ctx;
    (void)worker;
    uint64_t end = ae_min_u64((chunk + 1) * CHUNK, h->keys->n);
    ae_key key;
    for (uint64_t i = chunk * CHUNK; i < end; i++) {
        if (!ae_key_at(h->keys, i, &key)) {
            aether_error error;
            ae_failure_note(&h->failure, ae_keys_bad_offsets(i, &error), &error);
            return;
        }
        h->hashes[i] = ae_hash(key.data, key.size);
    }
}

int aether_keys_hash(const aether_keys *keys, uint64_t *hashes, aether_error *err) {
    int rc = ae_keys_check(keys, err);
    if (rc)
        return rc;
    hashing h = {.keys = keys, .hashes = hashes};
    ae_pool_run(hash_key_chunk, &h, (keys->n + CHUNK - 1) / CHUNK, keys->n <= CHUNK ? 1 : 0);
    return ae_failure_take(&h.failure, err);
}

/* ---- order, and the first of equal keys ------------------------------------------------ */

/* Compare the keys at two places, which were checked; equal ones by place. */
static bool is_before(const aether_keys *keys, uint64_t a, uint64_t b) {
    ae_key x = {NULL, 0}, y = {NULL, 0};
    ae_key_at(keys, a, &x);
    ae_key_at(keys, b, &y);
    int order = ae_key_compare(x, y);
    return order < 0 || (order == 0 && a < b);
}

static void sift(const aether_keys *keys, uint64_t *heap, uint64_t n, uint64_t at) {
    const uint64_t place = heap[at];
    for (uint64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_before(keys, heap[child], heap[child + 1]))
            child++;
        if (!is_before(keys, place, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = place;
}

/* Heapsort: needs no memory, and no input makes it slow. */
static void sort_keys(const aether_keys *keys, uint64_t *order, uint64_t n) {
    for (uint64_t at = n / 2; at-- > 0;)
        sift(keys, order, n, at);
    for (uint64_t end = n; end-- > 1;) {
        uint64_t last = order[end];
        order[end] = order[0];
        order[0] = last;
        sift(keys, order, end, 0);
    }
}

static int not_ascending(uint64_t i, aether_error *err) {
    return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, 0, "the hashes do not ascend at %" PRIu64, i);
}

int aether_keys_order(const aether_keys *keys, const uint64_t *hashes, uint64_t *order, aether_error *err) {
    int rc = ae_keys_check(keys, err);
    if (rc)
        return rc;
    for (uint64_t begin = 0, end; begin < keys->n; begin = end) {
        bool sorted = true;
        for (end = begin + 1; end < keys->n && hashes[end] <= hashes[begin]; end++)
            if (hashes[end] != hashes[begin])
                return not_ascending(end, err);
        for (uint64_t i = begin; i < end && end - begin > 1; i++) {
            ae_key key;
            if (order[i] >= keys->n)
                return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)order[i],
                                   "there is no key %" PRIu64, order[i]);
            if (!ae_key_at(keys, order[i], &key))
                return ae_keys_bad_offsets(order[i], err);
            sorted = sorted && (i == begin || is_before(keys, order[i - 1], order[i]));
        }
        if (!sorted)
            sort_keys(keys, order + begin, end - begin);
    }
    return AETHER_OK;
}

int aether_keys_first(const aether_keys *keys, const uint64_t *hashes, uint64_t *first, aether_error *err) {
    int rc = ae_keys_check(keys, err);
    if (rc)
        return rc;
    ae_key key, before = {NULL, 0};
    for (uint64_t i = 0; i < keys->n; i++, before = key) {
        if (!ae_key_at(keys, i, &key))
            return ae_keys_bad_offsets(i, err);
        if (i && hashes[i] < hashes[i - 1])
            return not_ascending(i, err);
        bool again = i && hashes[i] == hashes[i - 1] && ae_key_equal(key, before);
        first[i] = again ? first[i - 1] : i;
    }
    return AETHER_OK;
}

/* ---- gather -------------------------------------------------------------------------- */

typedef struct {
    const aether_keys *keys;
    const uint64_t *places;
    const uint64_t *out_offsets;
    char *out;
    uint64_t n, size;
    ae_failure failure;
} gathering;

static int gather_some(gathering *g, uint64_t begin, uint64_t end, aether_error *err) {
    for (uint64_t i = begin; i < end; i++) {
        ae_key key;
        uint64_t place = g->places[i];
        if (place >= g->keys->n)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)place, "there is no key %" PRIu64,
                               place);
        if (!ae_key_at(g->keys, place, &key))
            return ae_keys_bad_offsets(place, err);
        uint64_t at = g->out_offsets ? g->out_offsets[i] : i * g->keys->width;
        if (at > g->size || key.size > g->size - at ||
            (g->out_offsets && g->out_offsets[i + 1] - at != key.size))
            return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)i, 0,
                               "key %" PRIu64 " has another size than before", place);
        if (key.size) /* where all keys are empty there may be no bytes to point at */
            memcpy(g->out + at, key.data, key.size);
    }
    return AETHER_OK;
}

static void gather_key_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    gathering *g = ctx;
    (void)worker;
    aether_error error;
    int rc = gather_some(g, chunk * CHUNK, ae_min_u64((chunk + 1) * CHUNK, g->n), &error);
    if (rc)
        ae_failure_note(&g->failure, rc, &error);
}

int aether_keys_gather(const aether_keys *keys, const uint64_t *places, uint64_t n,
                       const uint64_t *out_offsets, void *out, uint64_t size, aether_error *err) {
    int rc = ae_keys_check(keys, err);
    if (rc)
        return rc;
    if (!out_offsets != !keys->offsets)
        return ae_error_set(err, AETHER_E_INVALID, "offsets go with keys of any length only");
    gathering g = {
        .keys = keys, .places = places, .out_offsets = out_offsets, .out = out, .n = n, .size = size};
    ae_pool_run(gather_key_chunk, &g, (n + CHUNK - 1) / CHUNK, n <= CHUNK ? 1 : 0);
    return ae_failure_take(&g.failure, err);
}
