#include "keys/keys.h"

#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/failure.h"
#include "core/minmax.h"
#include "core/pool.h"
#include "format/hash.h"

#define CHUNK       16384u
#define MAX_COLLIDE 1024u /* different keys of one hash: more are made to collide */

int ae_keys_check(const aether_keys *keys, aether_error *err) {
    if (!keys || (keys->n && !keys->bytes && keys->size) || (!keys->offsets && !keys->width))
        return ae_error_set(err, AETHER_E_INVALID, "keys need bytes, and offsets or a width");
    if (!keys->offsets && keys->n > keys->size / keys->width)
        return ae_error_set(err, AETHER_E_INVALID,
                            "%" PRIu64 " keys of %" PRIu32 " bytes are not in %" PRIu64, keys->n, keys->width,
                            keys->size);
    return AETHER_OK;
}

static int bad_offsets(uint64_t i, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)i, 0,
                       "the offsets of key %" PRIu64 " are not within the keys", i);
}

/* ---- hash -------------------------------------------------------------------------- */

typedef struct {
    const aether_keys *keys;
    uint64_t *hashes;
    ae_failure failure;
} hashing;

static void hash_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    hashing *h = ctx;
    (void)worker;
    uint64_t end = ae_min_u64((chunk + 1) * CHUNK, h->keys->n);
    ae_key key;
    for (uint64_t i = chunk * CHUNK; i < end; i++) {
        if (!ae_key_at(h->keys, i, &key)) {
            aether_error error;
            ae_failure_note(&h->failure, bad_offsets(i, &error), &error);
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
    ae_pool_run(hash_chunk, &h, (keys->n + CHUNK - 1) / CHUNK, keys->n <= CHUNK ? 1 : 0);
    return ae_failure_take(&h.failure, err);
}

/* ---- first of equal keys -------------------------------------------------------------- */

int aether_keys_first(const aether_keys *keys, const uint64_t *hashes, uint64_t *first, aether_error *err) {
    int rc = ae_keys_check(keys, err);
    if (rc)
        return rc;
    uint64_t run = 0;           /* where the keys of this hash begin */
    uint64_t last[MAX_COLLIDE]; /* the first of each key of this hash */
    uint32_t different = 0;
    for (uint64_t i = 0; i < keys->n; i++) {
        ae_key key, other;
        if (!ae_key_at(keys, i, &key))
            return bad_offsets(i, err);
        if (i && hashes[i] < hashes[i - 1])
            return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, 0, "the hashes do not ascend at %" PRIu64,
                               i);
        if (!i || hashes[i] != hashes[run]) {
            run = i;
            different = 0;
        }
        first[i] = i;
        for (uint32_t k = 0; k < different && first[i] == i; k++)
            if (ae_key_at(keys, last[k], &other) && ae_key_equal(key, other))
                first[i] = last[k];
        if (first[i] != i)
            continue;
        if (different == MAX_COLLIDE)
            return ae_error_at(err, AETHER_E_LIMIT, (int64_t)i, 0,
                               "more than %u different keys have the same hash: they were made to",
                               MAX_COLLIDE);
        last[different++] = i;
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
            return bad_offsets(place, err);
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

static void gather_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
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
    ae_pool_run(gather_chunk, &g, (n + CHUNK - 1) / CHUNK, n <= CHUNK ? 1 : 0);
    return ae_failure_take(&g.failure, err);
}
