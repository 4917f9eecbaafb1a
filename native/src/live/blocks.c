#include "live/blocks.h"

#define COLUMN(type, groups, offset, i)                                                                      \
    ((type *)(void *)((groups) + (uint64_t)((i) / AE_GROUP) * group + (offset)))[(i) % AE_GROUP]

static void move32(uint32_t group, uint32_t offset, uint8_t *dst, uint32_t d, const uint8_t *src, uint32_t s,
                   uint32_t n) {
    while (n-- > 0)
        COLUMN(uint32_t, dst, offset, d + n) = COLUMN(const uint32_t, src, offset, s + n);
}

static void move64(uint32_t group, uint32_t offset, uint8_t *dst, uint32_t d, const uint8_t *src, uint32_t s,
                   uint32_t n) {
    while (n-- > 0)
        COLUMN(uint64_t, dst, offset, d + n) = COLUMN(const uint64_t, src, offset, s + n);
}

void ae_blocks_move(const ae_layout *l, uint8_t *dst, uint32_t d, const uint8_t *src, uint32_t s,
                    uint32_t n) {
    const uint32_t id_bytes = sizeof(uint32_t);
    if (l->group == AE_GROUP * id_bytes) { /* ids alone are an array */
        memmove(dst + (uint64_t)d * id_bytes, src + (uint64_t)s * id_bytes, (uint64_t)n * id_bytes);
        return;
    }
    if (d % AE_GROUP == 0 && s % AE_GROUP == 0) {
        memmove(dst + (uint64_t)(d / AE_GROUP) * l->group, src + (uint64_t)(s / AE_GROUP) * l->group,
                (uint64_t)((n + AE_GROUP - 1) / AE_GROUP) * l->group);
        return;
    }
    move32(l->group, 0, dst, d, src, s, n);
    if (l->edge_id_bytes == 4)
        move32(l->group, l->edge_id, dst, d, src, s, n);
    if (l->edge_id_bytes == 8)
        move64(l->group, l->edge_id, dst, d, src, s, n);
    if (l->time)
        move64(l->group, l->time, dst, d, src, s, n);
    if (l->weight)
        move32(l->group, l->weight, dst, d, src, s, n);
}
