/*
 * live/layout.h - where the entries of a list are, for those who read and those who write.
 *
 *   head       length:32 | place:32        place = L:1, ref:31      L: the list is large
 *   position   0 1 L ref:31 index:30       bit 62 is set
 *
 *   small      block: groups of 4 entries   | id x4 | edge id x4 | time x4 | weight x4 | id x4 ...
 *   large      directory                    16 B: commit, count, room
 *                before[room]                 entries left of the leaf
 *                leaf[room]                   refs
 *                key[room]                    time or id of the leaf's first entry
 *                summed                       16 B, of relations with weights: ref and number of sums
 *              leaf                         16 B: commit, room; then groups of 4 entries
 *              extent                       16 B: commit, position of its first entry in the base
 *
 * A position names a version of a list and an index, so it needs no root, and `start + i` is the
 * position of entry i. Groups keep what belongs to an edge within a cache line or two, and need no
 * capacity to be found: a small block of n entries has room for exactly ae_room(n).
 *
 * Relations with weights have running sums of them for lists of 128 entries or more (live/sums.h): a small
 * block for 128 or more has them behind its groups, a directory refers to them.
 *
 * What is below the length of a version never changes while somebody may read it: entries are
 * appended behind it, everything else is done in copies. Leaf and directory carry the commit that
 * made them; the writer may change those of its own, unpublished commit in place.
 *
 * A list has one level of leaves, not a tree: with leaves of up to 16,384 entries (order time) or
 * 128 to 4,096, growing with the list (order id), a list of a million entries has some hundred of
 * them. Finding an entry is a guess and a short walk in `before`, and a change copies a few KiB;
 * a list of 100 million entries copies some 400 KiB for a change in the middle, and nothing for
 * most appends.
 *
 * Over a base (live/base.h) a leaf may be an extent, a stretch of the base's list: the top bit of its
 * ref in the directory says so.
 *
 * Caveats: a reader whose pin has expired may read anything here, so each step is checked against
 * the size of the arena, and the caller looks at the pin after reading.
 */
#ifndef AE_LIVE_LAYOUT_H
#define AE_LIVE_LAYOUT_H

#include <stdbool.h>
#include <string.h>

#include "live/arena.h"
#include "live/stamp.h"
#include "topology/topology.h"

#define AE_GROUP        4u               /* entries */
#define AE_GROUP_MOST   (AE_GROUP * 24u) /* bytes: id, edge id, time, weight */
#define AE_LIST_MAX     (UINT32_C(1) << 30)
#define AE_LIVE_BIT     (UINT64_C(1) << 62)
#define AE_LIVE_END     (UINT64_MAX >> 1) /* positions are below */
#define AE_PLACE_LARGE  (UINT32_C(1) << 31)
#define AE_INDEX_BITS   30
#define AE_LEAF_TIME    16384u /* entries of a leaf, and of a small list */
#define AE_LEAF_ID      128u
#define AE_LEAF_ID_MOST 4096u
#define AE_EXTENT       (UINT32_C(1) << 31) /* in a directory: the ref is an extent's */
#define AE_HEAD_BASE    UINT64_MAX          /* the list is the base's; no list is as long */

/* How a function is declared that does nothing but prefetch: inlined, as gcc takes a call of it for one
 * without an effect, and leaves it out. */
#define AE_PREFETCHES static inline __attribute__((always_inline)) void

/* ---- entries ---- */

typedef struct ae_layout {
    uint32_t group;                 /* bytes of AE_GROUP entries */
    uint32_t edge_id, time, weight; /* where these begin in a group; 0: no such column */
    uint32_t edge_id_bytes;         /* 0, 4 or 8 */
} ae_layout;

typedef struct ae_entry {
    uint32_t id;
    float weight;
    uint64_t edge_id;
    int64_t time;
} ae_entry;

static inline ae_layout ae_layout_of(uint32_t columns, uint32_t edge_id_bytes) {
    ae_layout l = {.group = AE_GROUP * sizeof(uint32_t), .edge_id_bytes = edge_id_bytes};
    if (edge_id_bytes) {
        l.edge_id = l.group;
        l.group += AE_GROUP * edge_id_bytes;
    }
    if (columns & AETHER_LIVE_TIMES) {
        l.time = l.group;
        l.group += AE_GROUP * sizeof(int64_t);
    }
    if (columns & AETHER_LIVE_WEIGHTS) {
        l.weight = l.group;
        l.group += AE_GROUP * sizeof(float);
    }
    return l;
}

/* Return the column value of the entry in a lane of a group. */
static inline uint32_t ae_group_id(const uint8_t *group, uint32_t lane) {
    return ((const uint32_t *)(const void *)group)[lane];
}

static inline uint64_t ae_group_edge_id(const ae_layout *l, const uint8_t *group, uint32_t lane) {
    const void *column = group + l->edge_id;
    return l->edge_id_bytes == 4 ? ((const uint32_t *)column)[lane] : ((const uint64_t *)column)[lane];
}

static inline int64_t ae_group_time(const ae_layout *l, const uint8_t *group, uint32_t lane) {
    return ((const int64_t *)(const void *)(group + l->time))[lane];
}

static inline float ae_group_weight(const ae_layout *l, const uint8_t *group, uint32_t lane) {
    return ((const float *)(const void *)(group + l->weight))[lane];
}

/* Write entry i of a block. */
static inline void ae_put_entry(const ae_layout *l, uint8_t *groups, uint32_t i, const ae_entry *entry) {
    uint8_t *at = groups + (uint64_t)(i / AE_GROUP) * l->group;
    const uint32_t lane = i % AE_GROUP;
    ((uint32_t *)(void *)at)[lane] = entry->id;
    if (l->edge_id_bytes == 4)
        ((uint32_t *)(void *)(at + l->edge_id))[lane] = (uint32_t)entry->edge_id;
    if (l->edge_id_bytes == 8)
        ((uint64_t *)(void *)(at + l->edge_id))[lane] = entry->edge_id;
    if (l->time)
        ((int64_t *)(void *)(at + l->time))[lane] = entry->time;
    if (l->weight)
        ((float *)(void *)(at + l->weight))[lane] = entry->weight;
}

/* Return the group of entry i. */
static inline uint8_t *ae_group_of(const ae_layout *l, uint8_t *groups, uint32_t i) {
    return groups + (uint64_t)(i / AE_GROUP) * l->group;
}

/* Return the number of entries that a block for n has room for: 4, 8, 12, 16, 24, 32, 48, ... */
static inline uint32_t ae_room(uint32_t n) {
    const uint32_t groups = (n + AE_GROUP - 1) / AE_GROUP;
    if (groups <= 4)
        return groups * AE_GROUP;
    const uint32_t power = UINT32_C(1) << (31 - __builtin_clz(groups - 1)); /* power < groups <= 2 power */
    return (groups <= power + power / 2 ? power + power / 2 : 2 * power) * AE_GROUP;
}

/* ---- small lists ---- */

/* Return the number of running sums behind the groups of a small list's block. */
static inline uint32_t ae_small_sums(const ae_layout *l, uint32_t room) {
    return l->weight && room >= AE_WEIGHT_SUMS_LONG ? room / AE_WEIGHT_SUMS_BLOCK : 0;
}

/* Return the bytes of its groups, and so where the sums begin. */
static inline uint64_t ae_groups_bytes(const ae_layout *l, uint32_t room) {
    return (uint64_t)room / AE_GROUP * l->group;
}

static inline uint64_t ae_small_bytes(const ae_layout *l, uint32_t room) {
    return ae_groups_bytes(l, room) + ae_small_sums(l, room) * sizeof(ae_weight_sum);
}

/* ---- heads and positions ---- */

static inline uint64_t ae_head(uint32_t place, uint32_t length) {
    return (uint64_t)place << 32 | length;
}
static inline uint32_t ae_head_length(uint64_t head) {
    return (uint32_t)head;
}
static inline uint32_t ae_head_place(uint64_t head) {
    return (uint32_t)(head >> 32);
}
static inline bool ae_place_is_large(uint32_t place) {
    return place & AE_PLACE_LARGE;
}
static inline ae_ref ae_place_ref(uint32_t place) {
    return place & ~AE_PLACE_LARGE;
}

/* ---- large lists ---- */

typedef struct ae_directory {
    uint64_t commit; /* that made it */
    uint32_t count;  /* leaves */
    uint32_t room;   /* for leaves, a multiple of 4 */
} ae_directory;

typedef struct ae_leaf {
    uint64_t commit : AE_COMMIT_BITS; /* that made it */
    uint64_t room : 16;               /* for entries; 0: it is an extent */
    uint64_t start;                   /* of an extent: position of its first entry in the base */
} ae_leaf;

/* Running sums of a large list, behind the keys of its directory. */
typedef struct ae_summed {
    ae_ref sums;     /* block of them; 0: none */
    uint32_t blocks; /* of 64 entries, whose sums are good; AE_SUMMED_ALL: as many as the list has */
    uint64_t noted;  /* commit that last wanted more: for the writer */
} ae_summed;

#define AE_SUMMED_ALL UINT32_MAX

typedef struct ae_sums {
    uint64_t commit; /* that made the block */
    uint32_t room;   /* for sums */
    uint32_t pad;
    ae_weight_sum at[];
} ae_sums;

static inline uint64_t ae_sums_bytes(uint32_t room) {
    return sizeof(ae_sums) + room * sizeof(ae_weight_sum);
}

static inline uint32_t *ae_directory_before(ae_directory *d) {
    return (uint32_t *)(void *)(d + 1);
}
static inline ae_ref *ae_directory_leaves(ae_directory *d) {
    return ae_directory_before(d) + d->room;
}
static inline int64_t *ae_directory_keys(ae_directory *d) {
    return (int64_t *)(void *)(ae_directory_leaves(d) + d->room);
}
/* Return where the sums of a directory are noted, of a relation with weights. */
static inline ae_summed *ae_directory_summed(ae_directory *d) {
    return (ae_summed *)(void *)(ae_directory_keys(d) + d->room);
}
static inline uint64_t ae_directory_bytes(const ae_layout *l, uint64_t room) {
    return sizeof(ae_directory) + room * (sizeof(uint32_t) + sizeof(ae_ref) + sizeof(int64_t)) +
           (l->weight ? sizeof(ae_summed) : 0);
}
static inline bool ae_ref_is_extent(ae_ref leaf) {
    return leaf & AE_EXTENT;
}
static inline uint64_t ae_leaf_bytes(const ae_layout *l, uint32_t room) {
    return sizeof(ae_leaf) + (uint64_t)room / AE_GROUP * l->group;
}

/* Return the leaf that has entry `index`, which exists. Leaves are of much the same size, so the
 * guess is close. */
static inline uint32_t ae_directory_find(const uint32_t *before, uint32_t count, uint32_t index) {
    if (count < 2)
        return 0;
    const uint64_t last = before[count - 1];
    if (index >= last)
        return count - 1;
    uint32_t low = 0, high = count - 1;
    const uint32_t guess = (uint32_t)((uint64_t)index * high / last);
    if (before[guess] <= index) {
        low = guess;
        for (uint32_t step = 1; low + step < high; step *= 2) {
            if (before[low + step] > index) {
                high = low + step;
                break;
            }
            low += step;
        }
    } else {
        high = guess;
        for (uint32_t step = 1; step < high; step *= 2) {
            if (before[high - step] <= index) {
                low = high - step;
                break;
            }
            high -= step;
        }
    }
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (before[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#endif
