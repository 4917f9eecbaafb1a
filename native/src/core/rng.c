#include "core/rng.h"

#include "aether.h"

void aether_rng_draws(uint64_t key, uint32_t hop, uint32_t relation, uint64_t node, uint64_t seed, uint64_t n,
                      uint64_t *out) {
    uint64_t stream = ae_rng_stream(ae_rng_base(key, hop, relation), node, seed);
    for (uint64_t i = 0; i < n; i++)
        out[i] = ae_rng_draw(stream, i);
}
