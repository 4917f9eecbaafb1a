#include "io/tier.h"

#include <string.h>

/* All tiers, in the order in which AETHER_IO_AUTO tries them; the last one works everywhere. A new
 * one is a line here, and its number in aether/io.h. */
static const ae_io_tier_ops *const tiers[] = {
    &ae_io_uring,
    &ae_io_pread,
};

const ae_io_tier_ops *ae_io_tier_at(uint32_t i) {
    return i < sizeof tiers / sizeof *tiers ? tiers[i] : NULL;
}

const ae_io_tier_ops *ae_io_tier(uint32_t number) {
    const ae_io_tier_ops *tier;
    for (uint32_t i = 0; (tier = ae_io_tier_at(i)); i++)
        if (tier->number == number)
            break;
    return tier;
}

const ae_io_tier_ops *ae_io_tier_named(const char *name) {
    const ae_io_tier_ops *tier;
    for (uint32_t i = 0; (tier = ae_io_tier_at(i)); i++)
        if (strcmp(tier->name, name) == 0)
            break;
    return tier;
}
