#include "live/edit.h"

#include "core/error.h"
#include "live/sums.h"

static int64_t entry_key(const ae_writer *w, const ae_entry *entry) {
    return ae_blocks_sorted(w) ? (int64_t)entry->id : ae_blocks_layout(w)->time ? entry->time : 0;
}

/* ---- opening ---- */

static bool owns_block(const ae_edit *e) {
    return ae_head_place(e->head) != ae_head_place(e->saved);
}

/* Return whether a list of the base is better copied: it is short, and near. A sorted one was read just now,
 * to find the place; of others the whole of a base in memory is near. One block is quicker to read than a
 * directory with an extent and a leaf, which takes as much as a copy of 64 entries; those of up to 256 take a
 * tenth more of the arena in all, as few lists are as long. */
static bool is_worth_a_copy(const ae_writer *w, uint32_t n) {
    if (ae_blocks_sorted(w))
        return n <= AE_LEAF_ID;
    return n <= 2 * AE_LEAF_ID && ae_base_is_near(w->base);
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
        ae_leaves_set_head(e, 0, 0);
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
        ae_leaves_set_head(e, ref, n);
        return AETHER_OK;
    }
    const ae_ref ref = ae_writer_alloc(w, ae_leaves_directory_bytes(w, room), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    const ae_ref extent = ae_leaves_new_extent(w, list.start, err);
    if (!extent) {
        ae_writer_drop(w, ref, ae_leaves_directory_bytes(w, room), true);
        return AETHER_E_NO_MEMORY;
    }
    ae_directory *d = ae_arena_at(w->arena, ref);
    *d = (ae_directory){.commit = w->commit, .count = 1, .room = room};
    ae_directory_before(d)[0] = 0;
    ae_directory_leaves(d)[0] = extent;
    ae_directory_keys(d)[0] = INT64_MIN; /* nobody needs that of the first leaf */
    ae_leaves_set_head(e, AE_PLACE_LARGE | ref, n);
    if (ae_blocks_layout(w)->weight) {
        *ae_directory_summed(d) = (ae_summed){0};
        ae_sums_break(w, node, e->head, 0, n, 1);
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

int ae_edit_own(ae_edit *e, aether_error *err) {
    return ae_leaves_own(e, ae_blocks_directory(e->w, e->head)->count, err);
}

/* ---- small lists ---- */

static int insert_small(ae_edit *e, uint32_t at, const ae_entry *entry, aether_error *err) {
    const ae_layout *l = ae_blocks_layout(e->w);
    const uint64_t old = e->head;
    const uint32_t n = ae_head_length(old);
    uint8_t *groups = ae_blocks_at(e->w, ae_place_ref(ae_head_place(old)));
    if (n < ae_room(n) && (at == n || owns_block(e))) {
        ae_blocks_insert(l, groups, groups, at, n, entry);
        ae_sums_of_small(l, groups, ae_room(n), at, n + 1);
        ae_leaves_set_head(e, ae_head_place(old), n + 1);
        return AETHER_OK;
    }
    const ae_ref ref = ae_writer_alloc(e->w, ae_blocks_bytes(e->w, ae_room(n + 1)), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    uint8_t *grown = ae_blocks_at(e->w, ref);
    ae_blocks_insert(l, grown, groups, at, n, entry);
    ae_sums_copy_small(l, grown, ae_room(n + 1), groups, ae_room(n), at, n + 1);
    ae_leaves_set_head(e, ref, n + 1);
    ae_leaves_drop_block(e, old);
    return AETHER_OK;
}

/* ---- large lists ---- */

/* Make a small list large, with one leaf. */
static int make_large(ae_edit *e, aether_error *err) {
    ae_writer *w = e->w;
    const uint64_t old = e->head;
    const uint32_t n = ae_head_length(old), room = ae_room(2);
    const ae_ref ref = ae_writer_alloc(w, ae_leaves_directory_bytes(w, room), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    const ae_ref leaf = ae_leaves_new(w, n, err);
    if (!leaf) {
        ae_writer_drop(w, ref, ae_leaves_directory_bytes(w, room), true);
        return AETHER_E_NO_MEMORY;
    }
    ae_directory *d = ae_arena_at(w->arena, ref);
    *d = (ae_directory){.commit = w->commit, .room = room};
    ae_blocks_move(ae_blocks_layout(w), ae_blocks_groups(ae_blocks_leaf(w, leaf)), 0,
                   ae_blocks_at(w, ae_place_ref(ae_head_place(old))), 0, n);
    ae_leaves_add(w, d, 0, leaf, 0);
    ae_sums_begin(w, d, ae_blocks_at(w, ae_place_ref(ae_head_place(old))), n);
    ae_leaves_set_head(e, AE_PLACE_LARGE | ref, n);
    ae_leaves_drop_block(e, old);
    return AETHER_OK;
}

/* Cut leaf c of m entries in two; the directory has room for it. */
static int split_leaf(ae_writer *w, ae_directory *d, uint32_t c, uint32_t m, uint32_t cut,
                      aether_error *err) {
    const ae_layout *l = ae_blocks_layout(w);
    const uint8_t *from = ae_blocks_groups(ae_blocks_leaf(w, ae_directory_leaves(d)[c]));
    const ae_ref left = ae_leaves_new(w, cut, err);
    if (!left)
        return AETHER_E_NO_MEMORY;
    const ae_ref right = ae_leaves_new(w, m - cut, err);
    if (!right) {
        ae_leaves_drop(w, left);
        return AETHER_E_NO_MEMORY;
    }
    ae_blocks_move(l, ae_blocks_groups(ae_blocks_leaf(w, left)), 0, from, 0, cut);
    ae_blocks_move(l, ae_blocks_groups(ae_blocks_leaf(w, right)), 0, from, cut, m - cut);
    ae_leaves_replace(w, d, c, left);
    ae_leaves_add(w, d, c + 1, right, ae_directory_before(d)[c] + cut);
    return AETHER_OK;
}

/* Put an entry into leaf c, which is not at its largest; directory and length follow. */
static int insert_in_leaf(ae_edit *e, ae_directory *d, ae_spot spot, const ae_entry *entry,
                          aether_error *err) {
    ae_writer *w = e->w;
    const ae_layout *l = ae_blocks_layout(w);
    ae_leaf *leaf = ae_blocks_leaf(w, ae_directory_leaves(d)[spot.leaf]);
    uint8_t *groups = ae_blocks_groups(leaf);
    if (leaf->commit == w->commit && spot.size < leaf->room) {
        ae_blocks_insert(l, groups, groups, spot.index, spot.size, entry);
        if (spot.index == 0)
            ae_directory_keys(d)[spot.leaf] = entry_key(w, entry);
    } else {
        const ae_ref ref = ae_leaves_new(w, spot.size + 1, err);
        if (!ref)
            return AETHER_E_NO_MEMORY;
        ae_blocks_insert(l, ae_blocks_groups(ae_blocks_leaf(w, ref)), groups, spot.index, spot.size, entry);
        ae_leaves_replace(w, d, spot.leaf, ref);
    }
    ae_leaves_shift(d, spot.leaf + 1, 1);
    ae_leaves_set_head(e, ae_head_place(e->head), ae_head_length(e->head) + 1);
    return AETHER_OK;
}

/* Begin a leaf behind the last. */
static int append_leaf(ae_edit *e, ae_directory *d, const ae_entry *entry, aether_error *err) {
    const uint32_t length = ae_head_length(e->head);
    const ae_ref ref = ae_leaves_new(e->w, 1, err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    ae_put_entry(ae_blocks_layout(e->w), ae_blocks_groups(ae_blocks_leaf(e->w, ref)), 0, entry);
    ae_leaves_add(e->w, d, d->count, ref, length);
    ae_leaves_set_head(e, ae_head_place(e->head), length + 1);
    return AETHER_OK;
}

#define AROUND                                                                                               \
    (AE_LEAVES_SHORT / 2) /* entries on both sides that are copied with one that comes between them */

/* Put an entry into an extent: into the leaf beside it, or among copies of the entries around. */
static int insert_in_extent(ae_edit *e, ae_spot spot, const ae_entry *entry, aether_error *err) {
    ae_writer *w = e->w;
    int rc = ae_leaves_own(e, ae_blocks_directory(w, e->head)->count + 2, err);
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
        if (!ae_ref_is_extent(ae_directory_leaves(d)[side]) && size < ae_leaves_max(w, length))
            return insert_in_leaf(e, d, beside, entry, err);
    }
    const uint32_t from = spot.index < AROUND ? 0 : spot.index - AROUND;
    const uint32_t to = spot.size - spot.index < AROUND ? spot.size : spot.index + AROUND;
    uint32_t leaf;
    rc = ae_leaves_cut_extent(e, spot.leaf, spot.size, from, to, &leaf, err);
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
        ae_leaves_set_head(e, ae_head_place(e->head), length + 1);
        return AETHER_OK;
    }
    const bool is_full = spot.size >= ae_leaves_max(w, length);
    int rc = ae_leaves_own(e, d->count + is_full, err);
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
    ae_sums_break(e->w, e->node, e->head, index, n - 1, 1);
    if (n % AE_WEIGHT_SUMS_BLOCK || (ae_sums_are_full(e->w, e->head) && ae_edit_own(e, NULL)))
        return;
    ae_sums_append(e->w, e->node, e->head);
}

int ae_edit_insert(ae_edit *e, const ae_spot *spot, const ae_entry *entry, aether_error *err) {
    const uint32_t n = ae_head_length(e->head);
    if (n >= AE_LIST_MAX - 1)
        return ae_error_at(err, AETHER_E_LIMIT, -1, (int64_t)n, "a list has at most 2^30 - 1 entries");
    if (!ae_place_is_large(ae_head_place(e->head))) {
        if (n < ae_leaves_small_max(e->w))
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
    ae_edit e;
    ae_spot spot;
    int rc = ae_edit_open(w, node, AE_EDIT_DROPS, &e, err);
    if (!rc)
        rc = ae_find_time(w, e.head, entry->time, &spot, err);
    return rc ? rc : ae_edit_insert(&e, &spot, entry, err);
}

/* ---- undoing ---- */

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
        if (ae_blocks_leaf(w, ae_directory_leaves(d)[c])->commit == w->commit)
            ae_leaves_drop(w, ae_directory_leaves(d)[c]);
    ae_sums_drop(w, d, false);
    ae_leaves_drop_directory(w, d, ae_place_ref(ae_head_place(head)));
}
