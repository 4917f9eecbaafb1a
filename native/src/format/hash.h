/*
 * format/hash.h - XXH3-64, and the checksum of a section made from it.
 *
 *   section   |  4 MiB  |  4 MiB  | ... | rest |
 *                 h0        h1            hn       XXH3-64 of each block
 *   checksum  XXH3-64 of the bytes h0 h1 .. hn (little-endian, 8 each)
 *
 * Blocks can be hashed by many threads. A section of 0 bytes has no blocks:
 * its checksum is that of 0 bytes.
 */
#ifndef AE_FORMAT_HASH_H
#define AE_FORMAT_HASH_H

#define XXH_INLINE_ALL
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#if XXH_VERSION_NUMBER < 800
#error "xxHash 0.8 or later is needed: before, XXH3 was another function"
#endif

#define AE_HASH_BLOCK ((uint64_t)4 << 20)

static inline uint64_t ae_hash(const void *data, size_t size) {
    return XXH3_64bits(data, size);
}

static inline uint64_t ae_hash_num_blocks(uint64_t size) {
    return size / AE_HASH_BLOCK + (size % AE_HASH_BLOCK != 0);
}

#endif
