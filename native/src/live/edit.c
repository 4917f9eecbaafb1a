#include "live/edit.h"

#include "core/error.h"

/* ---- entries ---- */

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

/* Copy n entries from place s to place d. Within one block, entries only move to the right. Lanes
 * behind the last entry of a group may get anything. */
static void move_entries(const ae_layout *l, uint8_t *dst, uint32_t d, const uint8_t *src, uint32_t s,
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

static void put_entry(const ae_layout *l, uint8_t *groups, uint32_t i, const ae_entry *entry) {
    uint8_t *at = ae_group_of(l, groups, i);
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

static uint32_t id_at(const ae_layout *l, const uint8_t *groups, uint32_t i) {
    return ae_group_id(groups + (uint64_t)(i / AE_GROUP) * l->group, i % AE_GROUP);
}

static int64_t time_at(const ae_layout *l, const uint8_t *groups, uint32_t i) {
    return ae_group_time(l, groups + (uint64_t)(i / AE_GROUP) * l->group, i % AE_GROUP);
}

/* ---- blocks ---- */

static const ae_layout *layout_of(const ae_writer *w) {
    return &w->table->layout;
}

static bool is_sorted(const ae_writer *w) {
    return w->table->order == AETHER_ORDER_ID;
}

static uint32_t small_max(const ae_writer *w) {
    return is_sorted(w) ? AE_LEAF_ID : AE_LEAF_TIME;
}

#define LEAVES 128 /* that a sorted list has about, before its leaves get wider */

/* Return the most entries of a leaf. Sorted lists get wider leaves as they grow, so that neither
 * leaf nor directory, which a change copies, is much longer than the other. */
static uint32_t leaf_max(const ae_writer *w, uint32_t length) {
    if (!is_sorted(w))
        return AE_LEAF_TIME;
    if (length >= LEAVES * AE_LEAF_ID_MOST)
        return AE_LEAF_ID_MOST;
    const uint32_t part = length / LEAVES;
    return part <= AE_LEAF_ID ? AE_LEAF_ID : UINT32_C(1) << (31 - __builtin_clz(part));
}

static uint64_t block_bytes(const ae_writer *w, uint32_t room) {
    return (uint64_t)room / AE_GROUP * layout_of(w)->group;
}

static uint8_t *block_at(const ae_writer *w, ae_ref ref) {
    return ae_arena_at(w->arena, ref);
}

static ae_directory *directory_at(const ae_writer *w, uint64_t head) {
    return ae_arena_at(w->arena, ae_place_ref(ae_head_place(head)));
}

static ae_leaf *leaf_at(const ae_writer *w, ae_ref ref) {
    return ae_arena_at(w->arena, ref);
}

static uint8_t *groups_of(ae_leaf *leaf) {
    return (uint8_t *)(leaf + 1);
}

/* Allocate a leaf for n entries. */
static ae_ref new_leaf(ae_writer *w, uint32_t n, aether_error *err) {
    const uint32_t room = ae_room(n);
    const ae_ref ref = ae_writer_alloc(w, ae_leaf_bytes(layout_of(w), room), err);
    if (ref)
        *leaf_at(w, ref) = (ae_leaf){.epoch = w->epoch, .room = room};
    return ref;
}

static void drop_leaf(ae_writer *w, ae_ref ref) {
    const ae_leaf *leaf = leaf_at(w, ref);
    ae_writer_drop(w, ref, ae_leaf_bytes(layout_of(w), leaf->room), leaf->epoch == w->epoch);
}

static void drop_directory(ae_writer *w, const ae_directory *d, ae_ref ref) {
    ae_writer_drop(w, ref, ae_directory_bytes(d->room), d->epoch == w->epoch);
}

/* Return the entries of leaf c in a list of `length`. */
static uint32_t leaf_size(ae_directory *d, uint32_t c, uint32_t length) {
    const uint32_t *before = ae_directory_before(d);
    return (c + 1 < d->count ? before[c + 1] : length) - before[c];
}

static int64_t key_at(const ae_writer *w, const uint8_t *groups, uint32_t i) {
    if (is_sorted(w))
        return id_at(layout_of(w), groups, i);
    return layout_of(w)->time ? time_at(layout_of(w), groups, i) : 0;
}

static int64_t key_of(const ae_writer *w, const ae_entry *entry) {
    return is_sorted(w) ? (int64_t)entry->id : layout_of(w)->time ? entry->time : 0;
}

/* ---- finding ---- */

/* Return how many of n keys are below `key`, or, with `equal`, below or equal to it. */
static uint32_t count_keys(const ae_writer *w, const uint8_t *groups, uint32_t n, int64_t key, bool equal) {
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int64_t other = key_at(w, groups, middle);
        if (other < key || (equal && other == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Find the place before (`equal`: behind) the entries whose key is `key`. */
static ae_spot find_key(const ae_writer *w, uint64_t head, int64_t key, bool equal) {
    const uint32_t length = ae_head_length(head);
    ae_spot spot = {.size = length};
    const uint8_t *groups = block_at(w, ae_place_ref(ae_head_place(head)));
    if (ae_place_is_large(ae_head_place(head))) {
        ae_directory *d = directory_at(w, head);
        const int64_t *keys = ae_directory_keys(d);
        uint32_t low = 0, high = d->count; /* the last leaf that begins at or below the key */
        while (high - low > 1) {
            const uint32_t middle = low + (high - low) / 2;
            if (keys[middle] <= key)
                low = middle;
            else
                high = middle;
        }
        spot = (ae_spot){.leaf = low, .size = leaf_size(d, low, length)};
        groups = groups_of(leaf_at(w, ae_directory_leaves(d)[low]));
    }
    /* Most entries come last: look there first. */
    const int64_t last = spot.size ? key_at(w, groups, spot.size - 1) : 0;
    if (!spot.size || last < key || (equal && last == key)) {
        spot.index = spot.size;
        return spot;
    }
    spot.index = count_keys(w, groups, spot.size, key, equal);
    spot.found = spot.index < spot.size && key_at(w, groups, spot.index) == key;
    return spot;
}

static ae_spot find_end(const ae_writer *w, uint64_t head) {
    const uint32_t length = ae_head_length(head);
    if (!ae_place_is_large(ae_head_place(head)))
        return (ae_spot){.index = length, .size = length};
    ae_directory *d = directory_at(w, head);
    const uint32_t size = leaf_size(d, d->count - 1, length);
    return (ae_spot){.leaf = d->count - 1, .index = size, .size = size};
}

ae_spot ae_edit_find_time(const ae_writer *w, uint64_t head, int64_t time) {
    return layout_of(w)->time ? find_key(w, head, time, true) : find_end(w, head);
}

ae_spot ae_edit_find_id(const ae_writer *w, uint64_t head, uint32_t id) {
    return find_key(w, head, id, false);
}

int ae_edit_each(const ae_writer *w, uint64_t head, ae_edit_visit visit, void *ctx) {
    const uint32_t length = ae_head_length(head);
    if (!ae_place_is_large(ae_head_place(head)))
        return length ? visit(ctx, block_at(w, ae_place_ref(ae_head_place(head))), 0, length) : 0;
    ae_directory *d = directory_at(w, head);
    int rc = 0;
    for (uint32_t c = 0; !rc && c < d->count; c++)
        rc = visit(ctx, groups_of(leaf_at(w, ae_directory_leaves(d)[c])), ae_directory_before(d)[c],
                   leaf_size(d, c, length));
    return rc;
}

uint32_t ae_edit_blocks(const ae_writer *w, uint64_t head) {
    return ae_place_is_large(ae_head_place(head)) ? directory_at(w, head)->count + 1 : 1;
}

/* ---- opening ---- */

int ae_edit_open(ae_writer *w, uint32_t node, uint32_t drops, ae_edit *out, aether_error *err) {
    const int rc = ae_writer_touch(w, node, drops, err);
    if (rc)
        return rc;
    ae_root *root = &w->table->roots[node];
    *out = (ae_edit){.w = w,
                     .root = root,
                     .head = atomic_load_explicit(&root->head, memory_order_relaxed),
                     .saved = ae_writer_saved(w, root)};
    return AETHER_OK;
}

static void set_head(ae_edit *e, uint32_t place, uint32_t length) {
    e->head = ae_head(place, length);
    atomic_store_explicit(&e->root->head, e->head, memory_order_release);
}

static bool owns_block(const ae_edit *e) {
    return ae_head_place(e->head) != ae_head_place(e->saved);
}

static void drop_block(ae_edit *e, uint64_t head) {
    if (ae_head_length(head))
        ae_writer_drop(e->w, ae_place_ref(ae_head_place(head)),
                       block_bytes(e->w, ae_room(ae_head_length(head))),
                       ae_head_place(head) != ae_head_place(e->saved));
}

/* ---- small lists ---- */

static int insert_small(ae_edit *e, uint32_t at, const ae_entry *entry, aether_error *err) {
    const ae_layout *l = layout_of(e->w);
    const uint64_t old = e->head;
    const uint32_t n = ae_head_length(old);
    uint8_t *groups = block_at(e->w, ae_place_ref(ae_head_place(old)));
    if (n < ae_room(n) && (at == n || owns_block(e))) {
        move_entries(l, groups, at + 1, groups, at, n - at);
        put_entry(l, groups, at, entry);
        set_head(e, ae_head_place(old), n + 1);
        return AETHER_OK;
    }
    const ae_ref ref = ae_writer_alloc(e->w, block_bytes(e->w, ae_room(n + 1)), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    uint8_t *grown = block_at(e->w, ref);
    move_entries(l, grown, 0, groups, 0, at);
    put_entry(l, grown, at, entry);
    move_entries(l, grown, at + 1, groups, at, n - at);
    set_head(e, ref, n + 1);
    drop_block(e, old);
    return AETHER_OK;
}

/* ---- large lists ---- */

/* Make the directory one of this transaction's, with room for `count` leaves. */
static int own_directory(ae_edit *e, uint32_t count, aether_error *err) {
    ae_writer *w = e->w;
    ae_directory *old = directory_at(w, e->head);
    const ae_ref old_ref = ae_place_ref(ae_head_place(e->head));
    if (old->epoch == w->epoch && old->room >= count)
        return AETHER_OK;
    const uint32_t room = ae_room(count);
    const ae_ref ref = ae_writer_alloc(w, ae_directory_bytes(room), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    ae_directory *d = ae_arena_at(w->arena, ref);
    *d = (ae_directory){.epoch = w->epoch, .count = old->count, .room = room};
    memcpy(ae_directory_before(d), ae_directory_before(old), old->count * sizeof(uint32_t));
    memcpy(ae_directory_leaves(d), ae_directory_leaves(old), old->count * sizeof(ae_ref));
    memcpy(ae_directory_keys(d), ae_directory_keys(old), old->count * sizeof(int64_t));
    set_head(e, AE_PLACE_LARGE | ref, ae_head_length(e->head));
    drop_directory(w, old, old_ref);
    return AETHER_OK;
}

/* Put a leaf into the directory, which has room for it. */
static void add_leaf(const ae_writer *w, ae_directory *d, uint32_t c, ae_ref ref, uint32_t before) {
    const uint32_t behind = d->count - c;
    uint32_t *befores = ae_directory_before(d) + c;
    ae_ref *leaves = ae_directory_leaves(d) + c;
    int64_t *keys = ae_directory_keys(d) + c;
    memmove(befores + 1, befores, behind * sizeof *befores);
    memmove(leaves + 1, leaves, behind * sizeof *leaves);
    memmove(keys + 1, keys, behind * sizeof *keys);
    *befores = before;
    *leaves = ref;
    *keys = key_at(w, groups_of(leaf_at(w, ref)), 0);
    d->count++;
}

static void take_leaf(ae_directory *d, uint32_t c) {
    const uint32_t behind = d->count - c - 1;
    uint32_t *befores = ae_directory_before(d) + c;
    ae_ref *leaves = ae_directory_leaves(d) + c;
    int64_t *keys = ae_directory_keys(d) + c;
    memmove(befores, befores + 1, behind * sizeof *befores);
    memmove(leaves, leaves + 1, behind * sizeof *leaves);
    memmove(keys, keys + 1, behind * sizeof *keys);
    d->count--;
}

/* Put another leaf, with the same entries or others, in the place of leaf c. */
static void replace_leaf(ae_writer *w, ae_directory *d, uint32_t c, ae_ref ref) {
    const ae_ref old = ae_directory_leaves(d)[c];
    ae_directory_leaves(d)[c] = ref;
    ae_directory_keys(d)[c] = key_at(w, groups_of(leaf_at(w, ref)), 0);
    drop_leaf(w, old);
}

static void shift_before(ae_directory *d, uint32_t from, int64_t by) {
    uint32_t *before = ae_directory_before(d);
    for (uint32_t c = from; c < d->count; c++)
        before[c] = (uint32_t)(before[c] + by);
}

/* Make a small list large, with one leaf. */
static int make_large(ae_edit *e, aether_error *err) {
    ae_writer *w = e->w;
    const uint64_t old = e->head;
    const uint32_t n = ae_head_length(old), room = ae_room(2);
    const ae_ref ref = ae_writer_alloc(w, ae_directory_bytes(room), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    const ae_ref leaf = new_leaf(w, n, err);
    if (!leaf) {
        ae_writer_drop(w, ref, ae_directory_bytes(room), true);
        return AETHER_E_NO_MEMORY;
    }
    ae_directory *d = ae_arena_at(w->arena, ref);
    *d = (ae_directory){.epoch = w->epoch, .room = room};
    move_entries(layout_of(w), groups_of(leaf_at(w, leaf)), 0, block_at(w, ae_place_ref(ae_head_place(old))),
                 0, n);
    add_leaf(w, d, 0, leaf, 0);
    set_head(e, AE_PLACE_LARGE | ref, n);
    drop_block(e, old);
    return AETHER_OK;
}

/* Cut leaf c of m entries in two; the directory has room for it. */
static int split_leaf(ae_writer *w, ae_directory *d, uint32_t c, uint32_t m, uint32_t cut,
                      aether_error *err) {
    const ae_layout *l = layout_of(w);
    const uint8_t *from = groups_of(leaf_at(w, ae_directory_leaves(d)[c]));
    const ae_ref left = new_leaf(w, cut, err);
    if (!left)
        return AETHER_E_NO_MEMORY;
    const ae_ref right = new_leaf(w, m - cut, err);
    if (!right) {
        drop_leaf(w, left);
        return AETHER_E_NO_MEMORY;
    }
    move_entries(l, groups_of(leaf_at(w, left)), 0, from, 0, cut);
    move_entries(l, groups_of(leaf_at(w, right)), 0, from, cut, m - cut);
    replace_leaf(w, d, c, left);
    add_leaf(w, d, c + 1, right, ae_directory_before(d)[c] + cut);
    return AETHER_OK;
}

/* Put an entry into leaf c, which is not at its largest; directory and length follow. */
static int insert_in_leaf(ae_edit *e, ae_directory *d, ae_spot spot, const ae_entry *entry,
                          aether_error *err) {
    ae_writer *w = e->w;
    const ae_layout *l = layout_of(w);
    ae_leaf *leaf = leaf_at(w, ae_directory_leaves(d)[spot.leaf]);
    uint8_t *groups = groups_of(leaf);
    if (leaf->epoch == w->epoch && spot.size < leaf->room) {
        move_entries(l, groups, spot.index + 1, groups, spot.index, spot.size - spot.index);
        put_entry(l, groups, spot.index, entry);
        if (spot.index == 0)
            ae_directory_keys(d)[spot.leaf] = key_of(w, entry);
    } else {
        const ae_ref ref = new_leaf(w, spot.size + 1, err);
        if (!ref)
            return AETHER_E_NO_MEMORY;
        uint8_t *copy = groups_of(leaf_at(w, ref));
        move_entries(l, copy, 0, groups, 0, spot.index);
        put_entry(l, copy, spot.index, entry);
        move_entries(l, copy, spot.index + 1, groups, spot.index, spot.size - spot.index);
        replace_leaf(w, d, spot.leaf, ref);
    }
    shift_before(d, spot.leaf + 1, 1);
    set_head(e, ae_head_place(e->head), ae_head_length(e->head) + 1);
    return AETHER_OK;
}

/* Begin a leaf behind the last. */
static int append_leaf(ae_edit *e, ae_directory *d, const ae_entry *entry, aether_error *err) {
    const uint32_t length = ae_head_length(e->head);
    const ae_ref ref = new_leaf(e->w, 1, err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    put_entry(layout_of(e->w), groups_of(leaf_at(e->w, ref)), 0, entry);
    add_leaf(e->w, d, d->count, ref, length);
    set_head(e, ae_head_place(e->head), length + 1);
    return AETHER_OK;
}

static int insert_large(ae_edit *e, ae_spot spot, const ae_entry *entry, aether_error *err) {
    ae_writer *w = e->w;
    ae_directory *d = directory_at(w, e->head);
    const uint32_t length = ae_head_length(e->head);
    const bool at_end = spot.leaf + 1 == d->count && spot.index == spot.size;
    ae_leaf *leaf = leaf_at(w, ae_directory_leaves(d)[spot.leaf]);
    if (at_end && spot.size < leaf->room) {
        put_entry(layout_of(w), groups_of(leaf), spot.index, entry);
        set_head(e, ae_head_place(e->head), length + 1);
        return AETHER_OK;
    }
    const bool is_full = spot.size >= leaf_max(w, length);
    int rc = own_directory(e, d->count + is_full, err);
    if (rc)
        return rc;
    d = directory_at(w, e->head);
    if (is_full && at_end)
        return append_leaf(e, d, entry, err);
    if (is_full) {
        const uint32_t cut = spot.size / 2;
        rc = split_leaf(w, d, spot.leaf, spot.size, cut, err);
        if (rc)
            return rc;
        spot = spot.index <= cut
                   ? (ae_spot){.leaf = spot.leaf, .index = spot.index, .size = cut}
                   : (ae_spot){.leaf = spot.leaf + 1, .index = spot.index - cut, .size = spot.size - cut};
    }
    return insert_in_leaf(e, d, spot, entry, err);
}

int ae_edit_insert(ae_edit *e, ae_spot spot, const ae_entry *entry, aether_error *err) {
    const uint32_t n = ae_head_length(e->head);
    if (n >= AE_LIST_MAX - 1)
        return ae_error_at(err, AETHER_E_LIMIT, -1, (int64_t)n, "a list has at most 2^30 - 1 entries");
    if (!ae_place_is_large(ae_head_place(e->head))) {
        if (n < small_max(e->w))
            return insert_small(e, spot.index, entry, err);
        const int rc = make_large(e, err);
        if (rc)
            return rc;
    }
    return insert_large(e, spot, entry, err);
}

/* ---- removing ---- */

/* Copy the m entries of a stretch, which begins at entry `first` of the list, without the n doomed
 * ones. */
static void copy_kept(const ae_layout *l, uint8_t *dst, uint32_t d, const uint8_t *src, uint32_t first,
                      uint32_t m, const uint32_t *doomed, uint32_t n) {
    uint32_t at = 0;
    for (uint32_t i = 0; i <= n; i++) {
        const uint32_t end = i < n ? doomed[i] - first : m;
        move_entries(l, dst, d, src, at, end - at);
        d += end - at;
        at = end + 1;
    }
}

/* Return how many of n ascending numbers are below `end`. */
static uint32_t count_below(const uint32_t *numbers, uint32_t n, uint32_t end) {
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (numbers[middle] < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef struct gathering {
    const ae_layout *layout;
    uint8_t *out;
    uint32_t used;
    const uint32_t *doomed;
    uint32_t n;
} gathering;

static int gather_kept(void *ctx, const uint8_t *groups, uint32_t first, uint32_t m) {
    gathering *g = ctx;
    const uint32_t n = count_below(g->doomed, g->n, first + m);
    copy_kept(g->layout, g->out, g->used, groups, first, m, g->doomed, n);
    g->used += m - n;
    g->doomed += n;
    g->n -= n;
    return 0;
}

/* Drop all blocks of a list that is not `head` any more. */
static void drop_list(ae_edit *e, uint64_t head) {
    ae_writer *w = e->w;
    if (!ae_place_is_large(ae_head_place(head))) {
        drop_block(e, head);
        return;
    }
    ae_directory *d = directory_at(w, head);
    for (uint32_t c = 0; c < d->count; c++)
        drop_leaf(w, ae_directory_leaves(d)[c]);
    drop_directory(w, d, ae_place_ref(ae_head_place(head)));
}

/* Write what is left as a small list. */
static int remove_to_small(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err) {
    const uint64_t old = e->head;
    const uint32_t left = ae_head_length(old) - n;
    const ae_ref ref = left ? ae_writer_alloc(e->w, block_bytes(e->w, ae_room(left)), err) : 0;
    if (left && !ref)
        return AETHER_E_NO_MEMORY;
    gathering g = {.layout = layout_of(e->w), .doomed = doomed, .n = n};
    if (left) {
        g.out = block_at(e->w, ref);
        ae_edit_each(e->w, old, gather_kept, &g);
    }
    set_head(e, ref, left);
    drop_list(e, old);
    return AETHER_OK;
}

/* Remove n entries of leaf c. */
static int remove_in_leaf(ae_edit *e, ae_directory *d, uint32_t c, const uint32_t *doomed, uint32_t n,
                          aether_error *err) {
    ae_writer *w = e->w;
    const uint32_t length = ae_head_length(e->head), m = leaf_size(d, c, length);
    const ae_ref old = ae_directory_leaves(d)[c];
    if (n == m) {
        take_leaf(d, c);
        shift_before(d, c, -(int64_t)n);
        drop_leaf(w, old);
    } else {
        const ae_ref ref = new_leaf(w, m - n, err);
        if (!ref)
            return AETHER_E_NO_MEMORY;
        copy_kept(layout_of(w), groups_of(leaf_at(w, ref)), 0, groups_of(leaf_at(w, old)),
                  ae_directory_before(d)[c], m, doomed, n);
        replace_leaf(w, d, c, ref);
        shift_before(d, c + 1, -(int64_t)n);
    }
    set_head(e, ae_head_place(e->head), length - n);
    return AETHER_OK;
}

/* Join leaf c and the next if they are small. */
static int join_leaves(ae_edit *e, ae_directory *d, uint32_t c, aether_error *err) {
    ae_writer *w = e->w;
    const ae_layout *l = layout_of(w);
    const uint32_t length = ae_head_length(e->head);
    if (c + 1 >= d->count)
        return AETHER_OK;
    const uint32_t a = leaf_size(d, c, length), b = leaf_size(d, c + 1, length);
    if (a + b > leaf_max(w, length) / 2)
        return AETHER_OK;
    const ae_ref ref = new_leaf(w, a + b, err), next = ae_directory_leaves(d)[c + 1];
    if (!ref)
        return AETHER_E_NO_MEMORY;
    uint8_t *groups = groups_of(leaf_at(w, ref));
    move_entries(l, groups, 0, groups_of(leaf_at(w, ae_directory_leaves(d)[c])), 0, a);
    move_entries(l, groups, a, groups_of(leaf_at(w, next)), 0, b);
    take_leaf(d, c + 1);
    replace_leaf(w, d, c, ref);
    drop_leaf(w, next);
    return AETHER_OK;
}

/* From the last leaf to the first, so that the numbers of doomed entries stay right. */
static int remove_large(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err) {
    int rc = own_directory(e, directory_at(e->w, e->head)->count, err);
    ae_directory *d = directory_at(e->w, e->head);
    for (uint32_t c = d->count; !rc && n && c-- > 0;) {
        const uint32_t first = count_below(doomed, n, ae_directory_before(d)[c]);
        if (first == n)
            continue;
        rc = remove_in_leaf(e, d, c, doomed + first, n - first, err);
        n = first;
        if (!rc && c < d->count)
            rc = join_leaves(e, d, c, err);
        if (!rc && c > 0)
            rc = join_leaves(e, d, c - 1, err);
    }
    return rc;
}

int ae_edit_remove(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err) {
    const uint32_t left = ae_head_length(e->head) - n;
    if (!n)
        return AETHER_OK;
    if (!ae_place_is_large(ae_head_place(e->head)) || left <= small_max(e->w) / 2)
        return remove_to_small(e, doomed, n, err);
    return remove_large(e, doomed, n, err);
}

void ae_edit_discard(ae_writer *w, uint64_t head, uint64_t saved) {
    if (!ae_head_length(head) || ae_head_place(head) == ae_head_place(saved))
        return;
    if (!ae_place_is_large(ae_head_place(head))) {
        ae_writer_drop(w, ae_place_ref(ae_head_place(head)), block_bytes(w, ae_room(ae_head_length(head))),
                       true);
        return;
    }
    ae_directory *d = directory_at(w, head);
    for (uint32_t c = 0; c < d->count; c++)
        if (leaf_at(w, ae_directory_leaves(d)[c])->epoch == w->epoch)
            drop_leaf(w, ae_directory_leaves(d)[c]);
    drop_directory(w, d, ae_place_ref(ae_head_place(head)));
}
