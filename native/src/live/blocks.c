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

/* What follows writes one value after the other: gathered in an array, they would be written to memory twice,
 * and be waited for. All are read before, as the groups may be the same. */
#define WRITE_LANES(type, to, offset, a, b, c, d)                                                            \
    do {                                                                                                     \
        const type lane0 = (a), lane1 = (b), lane2 = (c), lane3 = (d);                                       \
        ((type *)(void *)((to) + (offset)))[0] = lane0;                                                      \
        ((type *)(void *)((to) + (offset)))[1] = lane1;                                                      \
        ((type *)(void *)((to) + (offset)))[2] = lane2;                                                      \
        ((type *)(void *)((to) + (offset)))[3] = lane3;                                                      \
    } while (0)

/* Write what a group has in a column one lane further, behind the last of the group before it. */
#define SHIFT(type, to, group, before, offset)                                                               \
    do {                                                                                                     \
        const type *of = (const type *)(const void *)((group) + (offset));                                   \
        const type *back = (const type *)(const void *)((before) + (offset));                                \
        WRITE_LANES(type, to, offset, back[3], of[0], of[1], of[2]);                                         \
    } while (0)

_Static_assert(AE_GROUP == 4, "WRITE_LANES");

static inline void shift_group(const ae_layout *l, uint8_t *to, const uint8_t *group, const uint8_t *before) {
    SHIFT(uint32_t, to, group, before, 0);
    if (l->edge_id_bytes == 4)
        SHIFT(uint32_t, to, group, before, l->edge_id);
    if (l->edge_id_bytes == 8)
        SHIFT(uint64_t, to, group, before, l->edge_id);
    if (l->time)
        SHIFT(int64_t, to, group, before, l->time);
    if (l->weight)
        SHIFT(float, to, group, before, l->weight);
}

/* Put a value into a lane of what a group has in a column; those from there on go one lane further. */
#define PUT_LANE(type, to, group, offset, lane, value)                                                       \
    do {                                                                                                     \
        const type *of = (const type *)(const void *)((group) + (offset)), put = (value);                    \
        WRITE_LANES(type, to, offset, (lane) == 0 ? put : of[0], (lane) == 1 ? put : of[(lane) > 1],         \
                    (lane) == 2 ? put : of[1 + ((lane) > 2)], (lane) == 3 ? put : of[2]);                    \
    } while (0)

static inline void put_in_group(const ae_layout *l, uint8_t *to, const uint8_t *group, uint32_t lane,
                                const ae_entry *entry) {
    PUT_LANE(uint32_t, to, group, 0, lane, entry->id);
    if (l->edge_id_bytes == 4)
        PUT_LANE(uint32_t, to, group, l->edge_id, lane, (uint32_t)entry->edge_id);
    if (l->edge_id_bytes == 8)
        PUT_LANE(uint64_t, to, group, l->edge_id, lane, entry->edge_id);
    if (l->time)
        PUT_LANE(int64_t, to, group, l->time, lane, entry->time);
    if (l->weight)
        PUT_LANE(float, to, group, l->weight, lane, entry->weight);
}

/* Write the last entry of a full group as the first of another one. */
static inline void begin_group(const ae_layout *l, uint8_t *to, const uint8_t *full) {
    const uint32_t lane = AE_GROUP - 1;
    const ae_entry last = {.id = ae_group_id(full, lane),
                           .edge_id = l->edge_id_bytes ? ae_group_edge_id(l, full, lane) : 0,
                           .time = l->time ? ae_group_time(l, full, lane) : 0,
                           .weight = l->weight ? ae_group_weight(l, full, lane) : 0};
    ae_put_entry(l, to, 0, &last);
}

void ae_blocks_insert(const ae_layout *layout, uint8_t *dst, const uint8_t *src, uint32_t at, uint32_t n,
                      const ae_entry *entry) {
    const ae_layout own = *layout, *l = &own; /* by value: it would be loaded again after each store */
    const uint64_t bytes = l->group;
    if (bytes == AE_GROUP * sizeof(uint32_t)) {
        ae_blocks_move(l, dst, at + 1, src, at, n - at);
        if (dst != src)
            ae_blocks_move(l, dst, 0, src, 0, at);
        ae_put_entry(l, dst, at, entry);
        return;
    }
    if (at == n) { /* readers may have those before: in place they are not even written as they are */
        if (dst != src)
            memcpy(dst, src, (n + AE_GROUP - 1) / AE_GROUP * bytes);
        ae_put_entry(l, dst, n, entry);
        return;
    }
    const uint32_t cut = at / AE_GROUP;
    uint32_t last = n / AE_GROUP; /* the group that gets the last entry */
    if (n % AE_GROUP == 0) {
        begin_group(l, dst + last * bytes, src + (last - 1) * bytes);
        last--;
    }
    for (uint32_t g = last; g > cut; g--)
        shift_group(l, dst + g * bytes, src + g * bytes, src + (g - 1) * bytes);
    if (dst != src)
        memcpy(dst, src, cut * bytes);
    put_in_group(l, dst + cut * bytes, src + cut * bytes, at % AE_GROUP, entry);
}
