/*
 * sample/walk/members.h - is x in the list of u? One cache line for most lists.
 *
 *   list of u   [ 7  3  9  3 ]                  as stored, in input order
 *   members     [ h(3) h(3) h(9) h(7) ]         same span, hashed and sorted
 *                       ^ h(x) * degree / 2^32: where x is, give or take sqrt(degree)
 *
 * The hash is a bijection, so equal hashes are equal ids and the answer is exact;
 * being spread evenly, a hash says by itself where to look, and a search that
 * doubles its steps from there ends soon also in the lists of hubs.
 *
 * Caveats: as large as the indices of the graph. The table is trusted (it is our
 * memory). Lists must have the bounds of the lists that the table was built from.
 */
#ifndef AE_SAMPLE_WALK_MEMBERS_H
#define AE_SAMPLE_WALK_MEMBERS_H

#include <stdbool.h>

#include "core/rng.h"
#include "topology/topology.h"

/* MurmurHash3's 32-bit finaliser (Appleby). */
static inline uint32_t ae_members_hash32(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
}

static inline uint64_t ae_members_hash(uint64_t id, uint32_t id_bytes) {
    return id_bytes == 4 ? ae_members_hash32((uint32_t)id) : ae_rng_mix(id);
}

/* Return where in a list of `degree` >= 1 entries `hash` should be. */
static inline uint64_t ae_members_guess(uint64_t hash, uint64_t degree, uint32_t id_bytes) {
    return ae_rng_bounded(id_bytes == 4 ? hash << 32 : hash, degree);
}

/* Prefetch the line that ae_members_has reads first. */
void ae_members_prefetch(const void *members, uint32_t id_bytes, ae_list list, uint64_t id);
/* Return whether the list holds `id`. */
bool ae_members_has(const void *members, uint32_t id_bytes, ae_list list, uint64_t id);

#endif
