#include "live/blocks.h"

#define COLUMN(type, groups, offset, i)                                                                      \
    ((type *)(void *)((groups) + (uint64_t)((i) / AE_GROUP) * group + (offset)))[(i) % AE_GROUP]

/* Move n values of a column, the last first: single ones, until a group of the destination ends with the
 * next one, then four at a time, which lie in one group of the source or in two. */
#define MOVE(name, type)                                                                                     \
    static void name(uint32_t group, uint32_t offset, uint8_t *dst, uint32_t d, const uint8_t *src,          \
                     uint32_t s, uint32_t n) {                                                               \
        for (; n > 0 && (d + n) % AE_GROUP; n--)                                                             \
            COLUMN(type, dst, offset, d + n - 1) = COLUMN(const type, src, offset, s + n - 1);               \
        const uint32_t first = (s + n) % AE_GROUP, wraps = first ? group : 0;                                \
        const uint32_t lane1 = (first + 1) % AE_GROUP, lane2 = (first + 2) % AE_GROUP,                       \
                       lane3 = (first + 3) % AE_GROUP;                                                       \
        const uint32_t skip1 = lane1 < first ? wraps : 0, skip2 = lane2 < first ? wraps : 0,                 \
                       skip3 = lane3 < first ? wraps : 0;                                                    \
        for (; n >= AE_GROUP; n -= AE_GROUP) {                                                               \
            const uint8_t *from = src + (uint64_t)((s + n - AE_GROUP) / AE_GROUP) * group + offset;          \
            uint8_t *to = dst + (uint64_t)((d + n - AE_GROUP) / AE_GROUP) * group + offset;                  \
            const type a = ((const type *)(const void *)from)[first];                                        \
            const type b = ((const type *)(const void *)(from + skip1))[lane1];                              \
            const type c = ((const type *)(const void *)(from + skip2))[lane2];                              \
            const type e = ((const type *)(const void *)(from + skip3))[lane3];                              \
            const type moved[AE_GROUP] = {a, b, c, e};                                                       \
            memcpy(to, moved, sizeof moved);                                                                 \
        }                                                                                                    \
        while (n-- > 0)                                                                                      \
            COLUMN(type, dst, offset, d + n) = COLUMN(const type, src, offset, s + n);                       \
    }

MOVE(move32, uint32_t)
MOVE(move64, uint64_t)

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
