#include "core/rng.h"

#include "aether.h"

void aether_rng_draws(uint64_t key, uint32_t hop, uint32_t relation, uint64_t node, uint64_t seed, uint64_t n,
                      uint64_t *out) {
    uint64_t stream = ae_rng_stream(ae_rng_base(key, hop, relation), node, seed);
    for (uint64_t i = 0; i < n; i++)
        out[i] = ae_rng_draw(stream, i);
}

/* Each id is salted by its place, so that order counts. */
uint64_t aether_hash_ids(const int64_t *ids, uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += ae_rng_mix((uint64_t)ids[i] + (i + 1) * AE_RNG_GAMMA);
    uint64_t key = ae_rng_mix(AE_RNG_GAMMA ^ ae_rng_mix(sum + AE_RNG_GAMMA));
    return ae_rng_mix((key + AE_RNG_GAMMA) ^ ae_rng_mix(n + AE_RNG_GAMMA));
}

uint64_t aether_hash_id_set(const int64_t *ids, uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += ae_rng_mix((uint64_t)ids[i] + AE_RNG_GAMMA);
    return ae_rng_mix(ae_rng_mix(sum + AE_RNG_GAMMA) + n);
}
