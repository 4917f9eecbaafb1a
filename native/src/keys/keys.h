/*
 * keys/keys.h - keys of any length: where they lie, what they hash to, and finding them.
 *
 *   key map (native/FORMAT.md), by position:
 *
 *     directory   bucket of the upper bits of a hash -> the first position in it
 *     hashes      ascending                             | h0 | h1 | h1 | h2 | ...
 *     keys        in the same order, ties by bytes      | k0 | k1 | k1'| k2 | ...
 *     ids         of these keys                         | 17 |  4 |  9 |  0 | ...
 *
 *   find        hash -> bucket -> positions of this hash -> the key that is equal -> its id
 *
 * Keys can be made that all have one hash, so that nothing may take a step for every pair of these:
 * they are in the order of their bytes, and found by bisection. A secret in the hash would not do: the
 * same keys are to give the same file, and keys are known that collide under every seed.
 *
 * Queries are looked up some at a time, stage by stage, so that their cache misses are
 * under way together.
 *
 * Caveats
 *   - A map comes from a file and may hold anything: every place that is read from it is
 *     checked before it is used. Its arrays must have the sizes that the map says.
 *   - Outputs are undefined after an error.
 */
#ifndef AE_KEYS_KEYS_H
#define AE_KEYS_KEYS_H

#include <stdbool.h>
#include <string.h>

#include "aether/build.h"

typedef struct ae_key {
    const char *data;
    uint64_t size;
} ae_key;

/* Set `out` to key i; return false if its offsets are not within the keys. */
static inline bool ae_key_at(const aether_keys *keys, uint64_t i, ae_key *out) {
    if (!keys->offsets) {
        *out = (ae_key){(const char *)keys->bytes + i * keys->width, keys->width};
        return true;
    }
    uint64_t begin = keys->offsets[i], end = keys->offsets[i + 1];
    if (begin > end || end > keys->size)
        return false;
    *out = (ae_key){(const char *)keys->bytes + begin, end - begin};
    return true;
}

/* Keys without bytes may point nowhere, which memcmp is not to see. */
static inline bool ae_key_equal(ae_key a, ae_key b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Compare keys of one hash: shorter ones come first, then it is by bytes. */
static inline int ae_key_compare(ae_key a, ae_key b) {
    if (a.size != b.size)
        return a.size < b.size ? -1 : 1;
    return a.size ? memcmp(a.data, b.data, a.size) : 0;
}

/* Check that keys have their arrays, and, if they are of one width, enough bytes. */
int ae_keys_check(const aether_keys *keys, aether_error *err);

/* Return the error of key i, whose offsets are not within the keys. */
int ae_keys_bad_offsets(uint64_t i, aether_error *err);

#endif
