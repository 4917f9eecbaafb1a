/* Additive checksums, for files that grow or are read in pieces. */
#include <stdatomic.h>

#include "aether/build.h"
#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/pool.h"
#include "format/hash.h"

#define CHUNK 32768u /* items per piece of work */

typedef struct {
    const char *items;
    const uint64_t *counts, *begins;
    uint64_t n, first;
    uint32_t item_bytes;
    uint64_t *sums;
    atomic_ullong sum; /* of all items, if there are no parts */
} hashing;

/* `bytes` is a constant in three of the four calls. */
static inline __attribute__((always_inline)) uint64_t hash_items(const char *items, uint64_t n,
                                                                 uint32_t bytes, uint64_t number) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += XXH3_64bits_withSeed(items + i * bytes, bytes, number + i);
    return sum;
}

static uint64_t hash_some(const hashing *h, uint64_t begin, uint64_t n) {
    const char *items = h->items + begin * h->item_bytes;
    switch (h->item_bytes) {
    case 4:
        return hash_items(items, n, 4, h->first + begin);
    case 8:
        return hash_items(items, n, 8, h->first + begin);
    case 16:
        return hash_items(items, n, 16, h->first + begin);
    default:
        return hash_items(items, n, h->item_bytes, h->first + begin);
    }
}

static void hash_item_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    hashing *h = ctx;
    uint64_t begin = chunk * CHUNK;
    (void)worker;
    atomic_fetch_add_explicit(&h->sum, hash_some(h, begin, ae_min_u64(CHUNK, h->n - begin)),
                              memory_order_relaxed);
}

static void hash_part(void *ctx, uint64_t part, uint32_t worker) {
    hashing *h = ctx;
    (void)worker;
    h->sums[part] = hash_some(h, h->begins[part], h->counts[part]);
}

int aether_hash_items(const aether_items *items, const uint64_t *begins, const uint64_t *counts,
                      uint64_t num_parts, uint64_t *sums, aether_error *err) {
    int rc = ae_options_check(items, sizeof *items, "aether_items", err);
    if (rc)
        return rc;
    const uint64_t n = items->n;
    hashing h = {.items = items->data,
                 .counts = counts,
                 .begins = begins,
                 .n = n,
                 .first = items->first,
                 .item_bytes = items->item_bytes,
                 .sums = sums};
    if (!items->item_bytes || !sums || (n && !items->data) || (counts && !begins))
        return ae_error_set(err, AETHER_E_INVALID, "items, their size and sums are needed");
    for (uint64_t i = 0; counts && i < num_parts; i++)
        if (counts[i] > n || begins[i] > n - counts[i])
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)counts[i],
                               "part %llu is not within the items", (unsigned long long)i);
    uint32_t threads = n <= CHUNK ? 1 : 0;
    atomic_init(&h.sum, 0);
    if (counts) {
        ae_pool_run(hash_part, &h, num_parts, threads);
        return AETHER_OK;
    }
    ae_pool_run(hash_item_chunk, &h, n / CHUNK + (n % CHUNK != 0), threads);
    sums[0] = atomic_load(&h.sum);
    return AETHER_OK;
}
