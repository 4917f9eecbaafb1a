/*
 * live/view.h - how the lists of a snapshot are read, for the two kinds of operations over them.
 *
 *   snapshot.c   lists that are in the arena, all of them
 *   over.c       lists over a base: some are the base's, some have extents of it
 *
 *   node --root, past--> head --place, length--> position --directory--> leaf --> group, lane
 *
 * Caveats: whatever is read may be gone if the pin has expired, so each step is checked against the size of
 * the arena, and every operation ends with ae_view_check(). Positions may come from anywhere, such as clients
 * of a server: what they lead to is below `end`, as a page behind it would become a real one by being read.
 */
#ifndef AE_LIVE_VIEW_H
#define AE_LIVE_VIEW_H

#include "live/snapshot.h"

static inline const ae_view *ae_view_of(const aether_topology *t) {
    return (const ae_view *)(const void *)t;
}

/* Fail with AETHER_E_EXPIRED, as the pin is not held any more. */
int ae_view_expired(const ae_view *s, aether_error *err);
/* Fail: a position that no version has was made by hand, or read after the pin had expired. */
int ae_view_bad_position(const ae_view *s, uint64_t position, aether_error *err);
/* The same, as what is there is no id. */
int ae_view_bad_id(const ae_view *s, uint64_t position, uint64_t id, aether_error *err);

static inline int ae_view_check(const ae_view *s, aether_error *err) {
    return __builtin_expect(ae_pin_held(s->now->pin, s->now->commit), 1) ? AETHER_OK
                                                                         : ae_view_expired(s, err);
}

/* Fail with AETHER_E_CORRUPT: a list has more entries than there is room for. */
int ae_view_bad_length(const ae_view *s, uint64_t length, aether_error *err);

/* End an operation that has read the lengths of lists. */
static inline int ae_view_check_length(const ae_view *s, uint64_t longest, aether_error *err) {
    return __builtin_expect(longest <= s->longest, 1) ? ae_view_check(s, err)
                                                      : ae_view_bad_length(s, longest, err);
}

/* ---- lists ---- */

/* Return `bytes` of the arena from unit `ref` on, or NULL if they have not been taken by now. */
static inline const void *ae_view_at(const ae_view *s, ae_ref ref, uint64_t bytes) {
    const uint64_t offset = (uint64_t)ref * AE_UNIT, end = ae_arena_taken(s->arena);
    return bytes <= end && offset <= end - bytes ? s->arena->memory.data + offset : NULL;
}

/* The same for what a position of the view's commit leads to. */
static inline const void *ae_view_entry(const ae_view *s, ae_ref ref, uint64_t bytes) {
    const uint64_t offset = (uint64_t)ref * AE_UNIT;
    return bytes <= s->end && offset <= s->end - bytes ? s->arena->memory.data + offset : NULL;
}

/* Return the root of a node; NULL: its list has not changed by the view's commit. */
static inline const ae_root *ae_view_root(const ae_view *s, uint64_t node) {
    if (!s->table->lines)
        return &s->roots[node];
    const uint64_t line = ae_table_line(s->table, node);
    const bool is_there = line && line < ae_table_end_lines(s->base.num_major);
    return is_there ? &s->roots[line * AE_ROOTS_OF_LINE + node % AE_ROOTS_OF_LINE] : NULL;
}

/* Return the head of a version that is older than the root's. */
uint64_t ae_view_older(const ae_view *s, uint64_t past);

/* `stamp`: the view's, by value: it would be loaded again for each list. */
static inline uint64_t ae_view_head(const ae_view *s, ae_stamp stamp, const ae_root *root) {
    /* In this order: a new head is never seen without the past that says so. */
    const uint64_t head = atomic_load_explicit(&root->head, memory_order_acquire);
    const uint64_t past = atomic_load_explicit(&root->past, memory_order_acquire);
    return __builtin_expect(ae_stamp_is_after(ae_past_stamp(past), stamp), 0) ? ae_view_older(s, past) : head;
}

/* Return the position of the first entry of a list in the arena. */
static inline uint64_t ae_view_start(uint64_t head) {
    return AE_LIVE_BIT | (uint64_t)ae_head_place(head) << AE_INDEX_BITS;
}

/* ---- entries ---- */

/* The leaf, or small block, that was used last: positions often follow each other. */
typedef struct ae_cursor {
    uint32_t place;
    uint32_t from, to;     /* entries of the list that the leaf has */
    const uint8_t *groups; /* NULL: the leaf is an extent */
    uint64_t first;        /* position of its first entry in the base */
} ae_cursor;

static inline ae_ref ae_position_ref(uint64_t position) {
    return ae_place_ref((uint32_t)(position >> AE_INDEX_BITS));
}

static inline uint32_t ae_position_index(uint64_t position) {
    return (uint32_t)position & (AE_LIST_MAX - 1);
}

static inline bool ae_position_is_large(uint64_t position) {
    return ae_place_is_large((uint32_t)(position >> AE_INDEX_BITS));
}

/* A leaf, or extent, as the directory of its list has it. */
typedef struct ae_place {
    ae_ref ref;
    uint32_t from, to; /* entries of the list that it has; to 0: none */
} ae_place;

/* Return where an entry of a large list is. What is checked is read once: an expired pin may see it change.
 */
ae_place ae_view_place(const ae_view *s, uint64_t position);
/* Point the cursor at the leaf of an entry; return false if there is none. */
bool ae_view_seek(const ae_view *s, uint64_t position, ae_cursor *c);

static inline bool ae_cursor_has(const ae_cursor *c, uint64_t position) {
    const uint32_t index = ae_position_index(position);
    return c->place == (uint32_t)(position >> AE_INDEX_BITS) && index >= c->from && index < c->to;
}

/* Where entries are, by value: in the view it would be loaded again after each result that is written. */
typedef struct ae_reach {
    const uint8_t *data;
    uint64_t end;
    uint32_t group, edge_id, edge_id_bytes; /* as in the layout */
} ae_reach;

static inline ae_reach ae_reach_of(const ae_view *s) {
    const ae_layout *l = &s->table->layout;
    return (ae_reach){s->arena->memory.data, s->end, l->group, l->edge_id, l->edge_id_bytes};
}

/* Return the block of a small list, which may be behind the end. */
static inline const uint8_t *ae_reach_block(const ae_reach *r, uint64_t position) {
    return r->data + (uint64_t)ae_position_ref(position) * AE_UNIT;
}

static inline uint64_t ae_reach_edge_id(const ae_reach *r, const uint8_t *group, uint32_t lane) {
    const void *column = group + r->edge_id;
    return r->edge_id_bytes == 4 ? ((const uint32_t *)column)[lane] : ((const uint64_t *)column)[lane];
}

/* Prefetch what there is of an entry in a block: its id, and its edge id, which may be in the next line. */
AE_PREFETCHES ae_reach_prefetch(const ae_reach *r, const uint8_t *groups, uint32_t index) {
    const uint8_t *group = groups + (uint64_t)(index / AE_GROUP) * r->group;
    __builtin_prefetch(group + index % AE_GROUP * sizeof(uint32_t));
    __builtin_prefetch(group + r->edge_id + (uint64_t)(index % AE_GROUP) * r->edge_id_bytes);
}

/* Return the group of an entry, or NULL if there is none: over a base the entry may be in an extent, which is
 * then where the cursor is. */
static inline const uint8_t *ae_view_group(const ae_view *s, const ae_reach *r, uint64_t position,
                                           ae_cursor *c, uint32_t *lane) {
    uint32_t index = ae_position_index(position);
    if (!ae_position_is_large(position)) {
        *lane = index % AE_GROUP;
        const uint64_t offset =
            (uint64_t)ae_position_ref(position) * AE_UNIT + (uint64_t)(index / AE_GROUP) * r->group;
        return offset + r->group <= r->end ? r->data + offset : NULL;
    }
    if ((!ae_cursor_has(c, position) && !ae_view_seek(s, position, c)) || !c->groups)
        return NULL;
    index -= c->from;
    *lane = index % AE_GROUP;
    const uint8_t *found = c->groups + (uint64_t)(index / AE_GROUP) * r->group;
    return found + r->group <= r->data + r->end ? found : NULL;
}

/* Prefetch a value of a small list; large lists are few, and soon in the caches. */
static inline __attribute__((always_inline)) void ae_view_prefetch_value(const ae_view *s, uint64_t position,
                                                                         uint32_t offset, uint32_t bytes) {
    const uint32_t index = ae_position_index(position);
    const uint8_t *groups = ae_arena_at(s->arena, ae_position_ref(position));
    __builtin_prefetch(groups + (uint64_t)(index / AE_GROUP) * s->table->layout.group + offset +
                       (uint64_t)(index % AE_GROUP) * bytes);
}

/* ---- columns ---- */

typedef enum ae_column { AE_EDGE_IDS, AE_WEIGHTS, AE_TIMES } ae_column;

/* Return where a column begins in a group, and the bytes of one value of it. */
static inline uint32_t ae_column_offset(const ae_layout *l, ae_column which, uint32_t *bytes) {
    *bytes = which == AE_EDGE_IDS ? l->edge_id_bytes : which == AE_WEIGHTS ? sizeof(float) : sizeof(int64_t);
    return which == AE_EDGE_IDS ? l->edge_id : which == AE_WEIGHTS ? l->weight : l->time;
}

/* Write the value of an entry to place i of `out`: uint64, double or int64. */
static inline void ae_column_take(const ae_layout *l, ae_column which, const uint8_t *group, uint32_t lane,
                                  void *out, uint64_t i) {
    if (which == AE_EDGE_IDS)
        ((uint64_t *)out)[i] = ae_group_edge_id(l, group, lane);
    else if (which == AE_WEIGHTS)
        ((double *)out)[i] = (double)ae_group_weight(l, group, lane);
    else
        ((int64_t *)out)[i] = ae_group_time(l, group, lane);
}

/* Fail with AETHER_E_UNSUPPORTED where edges have no ids. */
int ae_view_need_edge_ids(const ae_view *s, aether_error *err);

/* ---- operations that are the same for both ---- */

/* Return the sums of a list, or NULL. */
const ae_weight_sum *ae_view_weight_sums(const aether_topology *t, ae_list list, uint64_t *blocks);
uint64_t ae_view_memory(const aether_topology *t);
void ae_view_destroy(aether_topology *t);

#endif
