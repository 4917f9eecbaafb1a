#include "live/edit.h"

#include "core/error.h"
#include "live/sums.h"

static uint32_t small_max(const ae_writer *w) {
    return ae_blocks_sorted(w) ? AE_LEAF_ID : AE_LEAF_TIME;
}

#define LEAVES 128 /* that a sorted list has about, before its leaves get wider */

/* Return the most entries of a leaf. Sorted lists get wider leaves as they grow, so that neither
 * leaf nor directory, which a change copies, is much longer than the other. */
static uint32_t leaf_max(const ae_writer *w, uint32_t length) {
    if (!ae_blocks_sorted(w))
        return AE_LEAF_TIME;
    if (length >= LEAVES * AE_LEAF_ID_MOST)
        return AE_LEAF_ID_MOST;
    const uint32_t part = length / LEAVES;
    return part <= AE_LEAF_ID ? AE_LEAF_ID : UINT32_C(1) << (31 - __builtin_clz(part));
}

/* Allocate a leaf for n entries. */
static ae_ref new_leaf(ae_writer *w, uint32_t n, aether_error *err) {
    const uint32_t room = ae_room(n);
    const ae_ref ref = ae_writer_alloc(w, ae_leaf_bytes(ae_blocks_layout(w), room), err);
    if (ref)
        *ae_blocks_leaf(w, ref) = (ae_leaf){.epoch = w->epoch, .room = room};
    return ref;
}

static void drop_leaf(ae_writer *w, ae_ref ref) {
    const ae_leaf *leaf = ae_blocks_leaf(w, ref);
    ae_writer_drop(w, ref & ~AE_EXTENT, ae_leaf_bytes(ae_blocks_layout(w), leaf->room),
                   leaf->epoch == w->epoch);
}

static uint64_t directory_bytes(const ae_writer *w, uint32_t room) {
    return ae_directory_bytes(ae_blocks_layout(w), room);
}

static void drop_directory(ae_writer *w, const ae_directory *d, ae_ref ref) {
    ae_writer_drop(w, ref, directory_bytes(w, d->room), d->epoch == w->epoch);
}

static int64_t key_of(const ae_writer *w, const ae_entry *entry) {
    return ae_blocks_sorted(w) ? (int64_t)entry->id : ae_blocks_layout(w)->time ? entry->time : 0;
}

/* ---- opening ---- */

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
                       ae_blocks_bytes(e->w, ae_room(ae_head_length(head))),
                       ae_head_place(head) != ae_head_place(e->saved));
}

/* ---- pieces of the base ---- */

#define SHORT 32 /* pieces of fewer entries are copied */

static ae_ref new_extent(ae_writer *w, uint64_t start, aether_error *err) {
    const ae_ref ref = ae_writer_alloc(w, sizeof(ae_leaf), err);
    if (ref)
        *ae_blocks_leaf(w, ref) = (ae_leaf){.epoch = w->epoch, .start = start};
    return ref ? ref | AE_EXTENT : 0;
}

/* Make a leaf of copies of n entries of the base. */
static ae_ref new_copies(ae_writer *w, uint64_t start, uint32_t n, aether_error *err) {
    const ae_ref ref = new_leaf(w, n, err);
    if (!ref || ae_base_copy(w->base, ae_blocks_layout(w), start, n, ae_blocks_groups(ae_blocks_leaf(w, ref)),
                             0, err) == AETHER_OK)
        return ref;
    drop_leaf(w, ref);
    return 0;
}

static ae_ref new_piece(ae_writer *w, uint64_t start, uint32_t n, aether_error *err) {
    return n < SHORT ? new_copies(w, start, n, err) : new_extent(w, start, err);
}

/* Return the code of a failure that `err` has, where a function returned no ref. */
static int failed(const aether_error *err) {
    return err && err->code ? err->code : AETHER_E_NO_MEMORY;
}

/* Return whether a list of the base is better copied: it is short, and near. A sorted one was read just now,
 * to find the place; of others the whole of a base in memory is near. One block is quicker to read than a
 * directory, and takes about as much as one. */
static bool is_worth_a_copy(const ae_writer *w, uint32_t n) {
    if (ae_blocks_sorted(w))
        return n <= AE_LEAF_ID;
    return n <= AE_LEAF_ID / 2 && ae_base_is_near(w->base);
}

/* Make the list of a node that of the base, as blocks of this transaction. */
static int adopt(ae_edit *e, uint32_t node, aether_error *err) {
    ae_writer *w = e->w;
    ae_list list;
    int rc = ae_find_base_list(w, node, &list, err);
    if (rc)
        return rc;
    const uint32_t n = (uint32_t)list.degree, room = ae_room(2);
    if (n == 0) {
        set_head(e, 0, 0);
        return AETHER_OK;
    }
    if (is_worth_a_copy(w, n)) {
        const ae_ref ref = ae_writer_alloc(w, ae_blocks_bytes(w, ae_room(n)), err);
        if (!ref)
            return AETHER_E_NO_MEMORY;
        rc = ae_base_copy(w->base, ae_blocks_layout(w), list.start, n, ae_blocks_at(w, ref), 0, err);
        if (rc) {
            ae_writer_drop(w, ref, ae_blocks_bytes(w, ae_room(n)), true);
            return rc;
        }
        ae_sums_of_small(ae_blocks_layout(w), ae_blocks_at(w, ref), ae_room(n), 0, n);
        set_head(e, ref, n);
        return AETHER_OK;
    }
    const ae_ref ref = ae_writer_alloc(w, directory_bytes(w, room), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    const ae_ref extent = new_extent(w, list.start, err);
    if (!extent) {
        ae_writer_drop(w, ref, directory_bytes(w, room), true);
        return AETHER_E_NO_MEMORY;
    }
    ae_directory *d = ae_arena_at(w->arena, ref);
    *d = (ae_directory){.epoch = w->epoch, .count = 1, .room = room};
    ae_directory_before(d)[0] = 0;
    ae_directory_leaves(d)[0] = extent;
    ae_directory_keys(d)[0] = INT64_MIN; /* nobody needs that of the first leaf */
    set_head(e, AE_PLACE_LARGE | ref, n);
    if (ae_blocks_layout(w)->weight) {
        *ae_directory_summed(d) = (ae_summed){0};
        ae_sums_break(w, node, e->head, 0, n);
    }
    return AETHER_OK;
}

int ae_edit_open(ae_writer *w, uint32_t node, uint32_t drops, ae_edit *out, aether_error *err) {
    const int rc = ae_writer_touch(w, node, drops, err);
    if (rc)
        return rc;
    ae_root *root = ae_table_root(w->table, node);
    *out = (ae_edit){.w = w,
                     .root = root,
                     .node = node,
                     .head = atomic_load_explicit(&root->head, memory_order_relaxed),
                     .saved = ae_writer_saved(w, root)};
    return out->head == AE_HEAD_BASE ? adopt(out, node, err) : AETHER_OK;
}

/* ---- small lists ---- */

static int insert_small(ae_edit *e, uint32_t at, const ae_entry *entry, aether_error *err) {
    const ae_layout *l = ae_blocks_layout(e->w);
    const uint64_t old = e->head;
    const uint32_t n = ae_head_length(old);
    uint8_t *groups = ae_blocks_at(e->w, ae_place_ref(ae_head_place(old)));
    if (n < ae_room(n) && (at == n || owns_block(e))) {
        ae_blocks_move(l, groups, at + 1, groups, at, n - at);
        ae_put_entry(l, groups, at, entry);
        ae_sums_of_small(l, groups, ae_room(n), at, n + 1);
        set_head(e, ae_head_place(old), n + 1);
        return AETHER_OK;
    }
    const ae_ref ref = ae_writer_alloc(e->w, ae_blocks_bytes(e->w, ae_room(n + 1)), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    uint8_t *grown = ae_blocks_at(e->w, ref);
    ae_blocks_move(l, grown, 0, groups, 0, at);
    ae_put_entry(l, grown, at, entry);
    ae_blocks_move(l, grown, at + 1, groups, at, n - at);
    ae_sums_copy_small(l, grown, ae_room(n + 1), groups, ae_room(n), at, n + 1);
    set_head(e, ref, n + 1);
    drop_block(e, old);
    return AETHER_OK;
}

/* ---- large lists ---- */

/* Make the directory one of this transaction's, with room for `count` leaves. */
static int own_directory(ae_edit *e, uint32_t count, aether_error *err) {
    ae_writer *w = e->w;
    ae_directory *old = ae_blocks_directory(w, e->head);
    const ae_ref old_ref = ae_place_ref(ae_head_place(e->head));
    if (old->epoch == w->epoch && old->room >= count)
        return AETHER_OK;
    const uint32_t room = ae_room(count);
    const ae_ref ref = ae_writer_alloc(w, directory_bytes(w, room), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    ae_directory *d = ae_arena_at(w->arena, ref);
    *d = (ae_directory){.epoch = w->epoch, .count = old->count, .room = room};
    memcpy(ae_directory_before(d), ae_directory_before(old), old->count * sizeof(uint32_t));
    memcpy(ae_directory_leaves(d), ae_directory_leaves(old), old->count * sizeof(ae_ref));
    memcpy(ae_directory_keys(d), ae_directory_keys(old), old->count * sizeof(int64_t));
    if (ae_blocks_layout(w)->weight)
        *ae_directory_summed(d) = *ae_directory_summed(old);
    set_head(e, AE_PLACE_LARGE | ref, ae_head_length(e->head));
    drop_directory(w, old, old_ref);
    return AETHER_OK;
}

int ae_edit_own(ae_edit *e, aether_error *err) {
    return own_directory(e, ae_blocks_directory(e->w, e->head)->count, err);
}

/* Put a leaf whose first entry has `key` into the directory, which has room for it. */
static void add_leaf_of(ae_directory *d, uint32_t c, ae_ref ref, uint32_t before, int64_t key) {
    const uint32_t behind = d->count - c;
    uint32_t *befores = ae_directory_before(d) + c;
    ae_ref *leaves = ae_directory_leaves(d) + c;
    int64_t *keys = ae_directory_keys(d) + c;
    memmove(befores + 1, befores, behind * sizeof *befores);
    memmove(leaves + 1, leaves, behind * sizeof *leaves);
    memmove(keys + 1, keys, behind * sizeof *keys);
    *befores = before;
    *leaves = ref;
    *keys = key;
    d->count++;
}

static void add_leaf(const ae_writer *w, ae_directory *d, uint32_t c, ae_ref ref, uint32_t before) {
    add_leaf_of(d, c, ref, before, ae_blocks_key(w, ae_blocks_groups(ae_blocks_leaf(w, ref)), 0));
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
    ae_directory_keys(d)[c] = ae_blocks_key(w, ae_blocks_groups(ae_blocks_leaf(w, ref)), 0);
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
    const ae_ref ref = ae_writer_alloc(w, directory_bytes(w, room), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    const ae_ref leaf = new_leaf(w, n, err);
    if (!leaf) {
        ae_writer_drop(w, ref, directory_bytes(w, room), true);
        return AETHER_E_NO_MEMORY;
    }
    ae_directory *d = ae_arena_at(w->arena, ref);
    *d = (ae_directory){.epoch = w->epoch, .room = room};
    ae_blocks_move(ae_blocks_layout(w), ae_blocks_groups(ae_blocks_leaf(w, leaf)), 0,
                   ae_blocks_at(w, ae_place_ref(ae_head_place(old))), 0, n);
    add_leaf(w, d, 0, leaf, 0);
    ae_sums_begin(w, d, ae_blocks_at(w, ae_place_ref(ae_head_place(old))), n);
    set_head(e, AE_PLACE_LARGE | ref, n);
    drop_block(e, old);
    return AETHER_OK;
}

/* Cut leaf c of m entries in two; the directory has room for it. */
static int split_leaf(ae_writer *w, ae_directory *d, uint32_t c, uint32_t m, uint32_t cut,
                      aether_error *err) {
    const ae_layout *l = ae_blocks_layout(w);
    const uint8_t *from = ae_blocks_groups(ae_blocks_leaf(w, ae_directory_leaves(d)[c]));
    const ae_ref left = new_leaf(w, cut, err);
    if (!left)
        return AETHER_E_NO_MEMORY;
    const ae_ref right = new_leaf(w, m - cut, err);
    if (!right) {
        drop_leaf(w, left);
        return AETHER_E_NO_MEMORY;
    }
    ae_blocks_move(l, ae_blocks_groups(ae_blocks_leaf(w, left)), 0, from, 0, cut);
    ae_blocks_move(l, ae_blocks_groups(ae_blocks_leaf(w, right)), 0, from, cut, m - cut);
    replace_leaf(w, d, c, left);
    add_leaf(w, d, c + 1, right, ae_directory_before(d)[c] + cut);
    return AETHER_OK;
}

/* Put an entry into leaf c, which is not at its largest; directory and length follow. */
static int insert_in_leaf(ae_edit *e, ae_directory *d, ae_spot spot, const ae_entry *entry,
                          aether_error *err) {
    ae_writer *w = e->w;
    const ae_layout *l = ae_blocks_layout(w);
    ae_leaf *leaf = ae_blocks_leaf(w, ae_directory_leaves(d)[spot.leaf]);
    uint8_t *groups = ae_blocks_groups(leaf);
    if (leaf->epoch == w->epoch && spot.size < leaf->room) {
        ae_blocks_move(l, groups, spot.index + 1, groups, spot.index, spot.size - spot.index);
        ae_put_entry(l, groups, spot.index, entry);
        if (spot.index == 0)
            ae_directory_keys(d)[spot.leaf] = key_of(w, entry);
    } else {
        const ae_ref ref = new_leaf(w, spot.size + 1, err);
        if (!ref)
            return AETHER_E_NO_MEMORY;
        uint8_t *copy = ae_blocks_groups(ae_blocks_leaf(w, ref));
        ae_blocks_move(l, copy, 0, groups, 0, spot.index);
        ae_put_entry(l, copy, spot.index, entry);
        ae_blocks_move(l, copy, spot.index + 1, groups, spot.index, spot.size - spot.index);
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
    ae_put_entry(ae_blocks_layout(e->w), ae_blocks_groups(ae_blocks_leaf(e->w, ref)), 0, entry);
    add_leaf(e->w, d, d->count, ref, length);
    set_head(e, ae_head_place(e->head), length + 1);
    return AETHER_OK;
}

/* Replace extent c, of `size` entries, by what is left without [from, to): up to two pieces. With `kept`, the
 * entries [from, to) are copied into a leaf between them. The directory is the transaction's and has
 * room; *at is where the leaf is, or the second piece. */
static int cut_extent(ae_edit *e, uint32_t c, uint32_t size, uint32_t from, uint32_t to, bool kept,
                      uint32_t *at, aether_error *err) {
    ae_writer *w = e->w;
    ae_directory *d = ae_blocks_directory(w, e->head);
    const ae_ref old = ae_directory_leaves(d)[c];
    const uint64_t start = ae_blocks_leaf(w, old)->start;
    const uint32_t first = ae_directory_before(d)[c], gone = kept ? 0 : to - from;
    const struct piece {
        uint32_t from, to;
        bool copied;
    } wanted[3] = {{0, from, false}, {from, to, true}, {to, size, false}};
    ae_ref refs[3] = {0};
    int64_t keys[3] = {0};
    int rc = AETHER_OK;
    for (uint32_t i = 0; !rc && i < 3; i++) {
        const struct piece p = wanted[i];
        if (p.from == p.to || (p.copied && !kept))
            continue;
        if (ae_blocks_sorted(w) || ae_blocks_layout(w)->time)
            rc = ae_find_base_keys(w, start + p.from, 1, &keys[i], err);
        if (!rc)
            refs[i] = p.copied ? new_copies(w, start + p.from, p.to - p.from, err)
                               : new_piece(w, start + p.from, p.to - p.from, err);
        if (!rc && !refs[i])
            rc = failed(err);
    }
    for (uint32_t i = 0; rc && i < 3; i++)
        if (refs[i])
            drop_leaf(w, refs[i]);
    if (rc)
        return rc;
    take_leaf(d, c);
    *at = c;
    for (uint32_t i = 0; i < 3; i++) {
        if (i == 1)
            *at = c;
        if (refs[i])
            add_leaf_of(d, c++, refs[i], first + wanted[i].from - (i == 2 ? gone : 0), keys[i]);
    }
    shift_before(d, c, -(int64_t)gone);
    set_head(e, ae_head_place(e->head), ae_head_length(e->head) - gone);
    drop_leaf(w, old);
    return AETHER_OK;
}

#define AROUND (SHORT / 2) /* entries on both sides that are copied with one that comes between them */

/* Put an entry into an extent: into the leaf beside it, or among copies of the entries around. */
static int insert_in_extent(ae_edit *e, ae_spot spot, const ae_entry *entry, aether_error *err) {
    ae_writer *w = e->w;
    int rc = own_directory(e, ae_blocks_directory(w, e->head)->count + 2, err);
    if (rc)
        return rc;
    ae_directory *d = ae_blocks_directory(w, e->head);
    const uint32_t length = ae_head_length(e->head);
    if (spot.index == spot.size && spot.leaf + 1 == d->count)
        return append_leaf(e, d, entry, err);
    const uint32_t side = spot.index == 0 ? spot.leaf - 1 : spot.leaf + 1;
    if ((spot.index == 0 && spot.leaf > 0) || spot.index == spot.size) {
        const uint32_t size = ae_blocks_leaf_size(d, side, length);
        const ae_spot beside = {.leaf = side, .index = spot.index == 0 ? size : 0, .size = size};
        if (!ae_ref_is_extent(ae_directory_leaves(d)[side]) && size < leaf_max(w, length))
            return insert_in_leaf(e, d, beside, entry, err);
    }
    const uint32_t from = spot.index < AROUND ? 0 : spot.index - AROUND;
    const uint32_t to = spot.size - spot.index < AROUND ? spot.size : spot.index + AROUND;
    uint32_t leaf;
    rc = cut_extent(e, spot.leaf, spot.size, from, to, true, &leaf, err);
    if (rc)
        return rc;
    spot = (ae_spot){.leaf = leaf, .index = spot.index - from, .size = to - from};
    return insert_in_leaf(e, d, spot, entry, err);
}

static int insert_large(ae_edit *e, ae_spot spot, const ae_entry *entry, aether_error *err) {
    ae_writer *w = e->w;
    ae_directory *d = ae_blocks_directory(w, e->head);
    const uint32_t length = ae_head_length(e->head);
    const bool at_end = spot.leaf + 1 == d->count && spot.index == spot.size;
    if (ae_ref_is_extent(ae_directory_leaves(d)[spot.leaf]))
        return insert_in_extent(e, spot, entry, err);
    ae_leaf *leaf = ae_blocks_leaf(w, ae_directory_leaves(d)[spot.leaf]);
    if (at_end && spot.size < leaf->room) {
        ae_put_entry(ae_blocks_layout(w), ae_blocks_groups(leaf), spot.index, entry);
        set_head(e, ae_head_place(e->head), length + 1);
        return AETHER_OK;
    }
    const bool is_full = spot.size >= leaf_max(w, length);
    int rc = own_directory(e, d->count + is_full, err);
    if (rc)
        return rc;
    d = ae_blocks_directory(w, e->head);
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

/* Bring the sums up to date after an entry was inserted at `index`. */
static void sum_inserted(ae_edit *e, uint32_t index) {
    const uint32_t n = ae_head_length(e->head);
    ae_sums_break(e->w, e->node, e->head, index, n - 1);
    if (n % AE_WEIGHT_SUMS_BLOCK || (ae_sums_are_full(e->w, e->head) && ae_edit_own(e, NULL)))
        return;
    ae_sums_append(e->w, e->node, e->head);
}

int ae_edit_insert(ae_edit *e, const ae_spot *spot, const ae_entry *entry, aether_error *err) {
    const uint32_t n = ae_head_length(e->head);
    if (n >= AE_LIST_MAX - 1)
        return ae_error_at(err, AETHER_E_LIMIT, -1, (int64_t)n, "a list has at most 2^30 - 1 entries");
    if (!ae_place_is_large(ae_head_place(e->head))) {
        if (n < small_max(e->w))
            return insert_small(e, spot->index, entry, err);
        const int rc = make_large(e, err);
        if (rc)
            return rc;
    }
    const uint32_t index = ae_find_index(e->w, e->head, spot);
    const int rc = insert_large(e, *spot, entry, err);
    if (!rc && ae_blocks_layout(e->w)->weight)
        sum_inserted(e, index);
    return rc;
}

int ae_edit_put(ae_writer *w, uint32_t node, const ae_entry *entry, aether_error *err) {
    const ae_layout *l = ae_blocks_layout(w);
    const uint64_t head = ae_writer_head(w, node);
    const uint32_t place = ae_head_place(head), n = ae_head_length(head);
    uint8_t *groups = ae_blocks_at(w, ae_place_ref(place));
    /* Most entries go behind the last one of a block with room. */
    if (!ae_place_is_large(place) && n < ae_room(n) &&
        (!l->time || ae_blocks_time(l, groups, n - 1) <= entry->time)) {
        const int rc = ae_writer_touch(w, node, 0, err);
        if (rc)
            return rc;
        ae_put_entry(l, groups, n, entry);
        if ((n + 1) % AE_WEIGHT_SUMS_BLOCK == 0)
            ae_sums_of_small(l, groups, ae_room(n), n, n + 1);
        atomic_store_explicit(&ae_table_root(w->table, node)->head, ae_head(place, n + 1),
                              memory_order_release);
        return AETHER_OK;
    }
    ae_edit e;
    ae_spot spot;
    int rc = ae_edit_open(w, node, AE_EDIT_DROPS, &e, err);
    if (!rc)
        rc = ae_find_time(w, e.head, entry->time, &spot, err);
    return rc ? rc : ae_edit_insert(&e, &spot, entry, err);
}

/* ---- removing ---- */

/* Copy the m entries of a stretch, which begins at entry `first` of the list, without the n doomed
 * ones. */
static void copy_kept(const ae_layout *l, uint8_t *dst, uint32_t d, const uint8_t *src, uint32_t first,
                      uint32_t m, const uint32_t *doomed, uint32_t n) {
    uint32_t at = 0;
    for (uint32_t i = 0; i <= n; i++) {
        const uint32_t end = i < n ? doomed[i] - first : m;
        ae_blocks_move(l, dst, d, src, at, end - at);
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
    ae_directory *d = ae_blocks_directory(w, head);
    for (uint32_t c = 0; c < d->count; c++)
        drop_leaf(w, ae_directory_leaves(d)[c]);
    ae_sums_drop(w, d, true);
    drop_directory(w, d, ae_place_ref(ae_head_place(head)));
}

/* Write what is left as a small list. */
static int remove_to_small(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err) {
    const uint64_t old = e->head;
    const uint32_t left = ae_head_length(old) - n;
    const ae_ref ref = left ? ae_writer_alloc(e->w, ae_blocks_bytes(e->w, ae_room(left)), err) : 0;
    if (left && !ref)
        return AETHER_E_NO_MEMORY;
    gathering g = {.layout = ae_blocks_layout(e->w), .doomed = doomed, .n = n};
    if (left) {
        g.out = ae_blocks_at(e->w, ref);
        const int rc = ae_find_each(e->w, old, gather_kept, &g, err);
        if (rc) {
            ae_writer_drop(e->w, ref, ae_blocks_bytes(e->w, ae_room(left)), true);
            return rc;
        }
    }
    if (left)
        ae_sums_of_small(ae_blocks_layout(e->w), g.out, ae_room(left), 0, left);
    set_head(e, ref, left);
    drop_list(e, old);
    return AETHER_OK;
}

static int remove_in_leaf(ae_edit *e, ae_directory *d, uint32_t c, const uint32_t *doomed, uint32_t n,
                          aether_error *err);

/* Remove n entries of extent c, of m entries, from the last to the first. */
static int remove_in_extent(ae_edit *e, uint32_t c, uint32_t m, const uint32_t *doomed, uint32_t n,
                            aether_error *err) {
    const uint32_t first = ae_directory_before(ae_blocks_directory(e->w, e->head))[c];
    int rc = AETHER_OK;
    while (!rc && n > 0) {
        const uint32_t to = doomed[n - 1] - first + 1;
        uint32_t from = to - 1, at;
        for (n--; n > 0 && doomed[n - 1] - first + 1 == from; n--)
            from--;
        rc = own_directory(e, ae_blocks_directory(e->w, e->head)->count + 1, err);
        if (!rc)
            rc = cut_extent(e, c, m, from, to, false, &at, err);
        m = from;
        /* The piece before it may be a leaf of copies now. */
        if (!rc && n && !ae_ref_is_extent(ae_directory_leaves(ae_blocks_directory(e->w, e->head))[c]))
            return remove_in_leaf(e, ae_blocks_directory(e->w, e->head), c, doomed, n, err);
    }
    return rc;
}

/* Remove n entries of leaf c. */
static int remove_in_leaf(ae_edit *e, ae_directory *d, uint32_t c, const uint32_t *doomed, uint32_t n,
                          aether_error *err) {
    ae_writer *w = e->w;
    const uint32_t length = ae_head_length(e->head), m = ae_blocks_leaf_size(d, c, length);
    const ae_ref old = ae_directory_leaves(d)[c];
    if (n < m && ae_ref_is_extent(old))
        return remove_in_extent(e, c, m, doomed, n, err);
    if (n == m) {
        take_leaf(d, c);
        shift_before(d, c, -(int64_t)n);
        drop_leaf(w, old);
    } else {
        const ae_ref ref = new_leaf(w, m - n, err);
        if (!ref)
            return AETHER_E_NO_MEMORY;
        copy_kept(ae_blocks_layout(w), ae_blocks_groups(ae_blocks_leaf(w, ref)), 0,
                  ae_blocks_groups(ae_blocks_leaf(w, old)), ae_directory_before(d)[c], m, doomed, n);
        replace_leaf(w, d, c, ref);
        shift_before(d, c + 1, -(int64_t)n);
    }
    set_head(e, ae_head_place(e->head), length - n);
    return AETHER_OK;
}

/* Join leaf c and the next if they are small. */
static int join_leaves(ae_edit *e, ae_directory *d, uint32_t c, aether_error *err) {
    ae_writer *w = e->w;
    const ae_layout *l = ae_blocks_layout(w);
    const uint32_t length = ae_head_length(e->head);
    if (c + 1 >= d->count)
        return AETHER_OK;
    const uint32_t a = ae_blocks_leaf_size(d, c, length), b = ae_blocks_leaf_size(d, c + 1, length);
    const ae_ref next = ae_directory_leaves(d)[c + 1];
    if (a + b > leaf_max(w, length) / 2 || ae_ref_is_extent(next | ae_directory_leaves(d)[c]))
        return AETHER_OK;
    const ae_ref ref = new_leaf(w, a + b, err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    uint8_t *groups = ae_blocks_groups(ae_blocks_leaf(w, ref));
    ae_blocks_move(l, groups, 0, ae_blocks_groups(ae_blocks_leaf(w, ae_directory_leaves(d)[c])), 0, a);
    ae_blocks_move(l, groups, a, ae_blocks_groups(ae_blocks_leaf(w, next)), 0, b);
    take_leaf(d, c + 1);
    replace_leaf(w, d, c, ref);
    drop_leaf(w, next);
    return AETHER_OK;
}

/* From the last leaf to the first, so that the numbers of doomed entries stay right. */
static int remove_large(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err) {
    int rc = ae_edit_own(e, err);
    ae_directory *d = ae_blocks_directory(e->w, e->head);
    if (!rc)
        ae_sums_break(e->w, e->node, e->head, doomed[0], ae_head_length(e->head));
    for (uint32_t c = d->count; !rc && n && c-- > 0;) {
        const uint32_t first = count_below(doomed, n, ae_directory_before(d)[c]);
        if (first == n)
            continue;
        rc = remove_in_leaf(e, d, c, doomed + first, n - first, err);
        n = first;
        d = ae_blocks_directory(e->w, e->head);
        if (!rc && c < d->count)
            rc = join_leaves(e, d, c, err);
        if (!rc && c > 0)
            rc = join_leaves(e, d, c - 1, err);
    }
    return rc;
}

/* Return the most entries of a list that is made small again. Copying what the base has is not worth it. */
static uint32_t small_again(const ae_writer *w) {
    return w->base ? SHORT : small_max(w) / 2;
}

int ae_edit_remove(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err) {
    const uint32_t left = ae_head_length(e->head) - n;
    if (!n)
        return AETHER_OK;
    if (!ae_place_is_large(ae_head_place(e->head)) || left <= small_again(e->w))
        return remove_to_small(e, doomed, n, err);
    return remove_large(e, doomed, n, err);
}

void ae_edit_discard(ae_writer *w, uint64_t head, uint64_t saved) {
    if (!ae_head_length(head) || ae_head_place(head) == ae_head_place(saved))
        return;
    if (!ae_place_is_large(ae_head_place(head))) {
        ae_writer_drop(w, ae_place_ref(ae_head_place(head)),
                       ae_blocks_bytes(w, ae_room(ae_head_length(head))), true);
        return;
    }
    ae_directory *d = ae_blocks_directory(w, head);
    for (uint32_t c = 0; c < d->count; c++)
        if (ae_blocks_leaf(w, ae_directory_leaves(d)[c])->epoch == w->epoch)
            drop_leaf(w, ae_directory_leaves(d)[c]);
    ae_sums_drop(w, d, false);
    drop_directory(w, d, ae_place_ref(ae_head_place(head)));
}
