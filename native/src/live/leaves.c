#include "live/leaves.h"

#include "core/error.h"
#include "live/find.h"

#define LEAVES 128 /* that a sorted list has about, before its leaves get wider */

uint32_t ae_leaves_max(const ae_writer *w, uint32_t length) {
    if (!ae_blocks_sorted(w))
        return AE_LEAF_TIME;
    if (length >= LEAVES * AE_LEAF_ID_MOST)
        return AE_LEAF_ID_MOST;
    const uint32_t part = length / LEAVES;
    return part <= AE_LEAF_ID ? AE_LEAF_ID : UINT32_C(1) << (31 - __builtin_clz(part));
}

ae_ref ae_leaves_new(ae_writer *w, uint32_t n, aether_error *err) {
    const uint32_t room = ae_room(n);
    const ae_ref ref = ae_writer_alloc(w, ae_leaf_bytes(ae_blocks_layout(w), room), err);
    if (ref)
        *ae_blocks_leaf(w, ref) = (ae_leaf){.epoch = w->epoch, .room = room};
    return ref;
}

void ae_leaves_drop(ae_writer *w, ae_ref ref) {
    const ae_leaf *leaf = ae_blocks_leaf(w, ref);
    ae_writer_drop(w, ref & ~AE_EXTENT, ae_leaf_bytes(ae_blocks_layout(w), leaf->room),
                   leaf->epoch == w->epoch);
}

void ae_leaves_drop_directory(ae_writer *w, const ae_directory *d, ae_ref ref) {
    ae_writer_drop(w, ref, ae_leaves_directory_bytes(w, d->room), d->epoch == w->epoch);
}

/* ---- directories ---- */

int ae_leaves_own(ae_edit *e, uint32_t count, aether_error *err) {
    ae_writer *w = e->w;
    ae_directory *old = ae_blocks_directory(w, e->head);
    const ae_ref old_ref = ae_place_ref(ae_head_place(e->head));
    if (old->epoch == w->epoch && old->room >= count)
        return AETHER_OK;
    const uint32_t room = ae_room(count);
    const ae_ref ref = ae_writer_alloc(w, ae_leaves_directory_bytes(w, room), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    ae_directory *d = ae_arena_at(w->arena, ref);
    *d = (ae_directory){.epoch = w->epoch, .count = old->count, .room = room};
    memcpy(ae_directory_before(d), ae_directory_before(old), old->count * sizeof(uint32_t));
    memcpy(ae_directory_leaves(d), ae_directory_leaves(old), old->count * sizeof(ae_ref));
    memcpy(ae_directory_keys(d), ae_directory_keys(old), old->count * sizeof(int64_t));
    if (ae_blocks_layout(w)->weight)
        *ae_directory_summed(d) = *ae_directory_summed(old);
    ae_leaves_set_head(e, AE_PLACE_LARGE | ref, ae_head_length(e->head));
    ae_leaves_drop_directory(w, old, old_ref);
    return AETHER_OK;
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

void ae_leaves_add(const ae_writer *w, ae_directory *d, uint32_t c, ae_ref ref, uint32_t before) {
    add_leaf_of(d, c, ref, before, ae_blocks_key(w, ae_blocks_groups(ae_blocks_leaf(w, ref)), 0));
}

void ae_leaves_take(ae_directory *d, uint32_t c) {
    const uint32_t behind = d->count - c - 1;
    uint32_t *befores = ae_directory_before(d) + c;
    ae_ref *leaves = ae_directory_leaves(d) + c;
    int64_t *keys = ae_directory_keys(d) + c;
    memmove(befores, befores + 1, behind * sizeof *befores);
    memmove(leaves, leaves + 1, behind * sizeof *leaves);
    memmove(keys, keys + 1, behind * sizeof *keys);
    d->count--;
}

void ae_leaves_replace(ae_writer *w, ae_directory *d, uint32_t c, ae_ref ref) {
    const ae_ref old = ae_directory_leaves(d)[c];
    ae_directory_leaves(d)[c] = ref;
    ae_directory_keys(d)[c] = ae_blocks_key(w, ae_blocks_groups(ae_blocks_leaf(w, ref)), 0);
    ae_leaves_drop(w, old);
}

void ae_leaves_shift(ae_directory *d, uint32_t from, int64_t by) {
    uint32_t *before = ae_directory_before(d);
    for (uint32_t c = from; c < d->count; c++)
        before[c] = (uint32_t)(before[c] + by);
}

/* ---- pieces of the base ---- */

ae_ref ae_leaves_new_extent(ae_writer *w, uint64_t start, aether_error *err) {
    const ae_ref ref = ae_writer_alloc(w, sizeof(ae_leaf), err);
    if (ref)
        *ae_blocks_leaf(w, ref) = (ae_leaf){.epoch = w->epoch, .start = start};
    return ref ? ref | AE_EXTENT : 0;
}

/* Make a leaf of copies of n entries of the base. */
static ae_ref new_copies(ae_writer *w, uint64_t start, uint32_t n, aether_error *err) {
    const ae_ref ref = ae_leaves_new(w, n, err);
    if (!ref || ae_base_copy(w->base, ae_blocks_layout(w), start, n, ae_blocks_groups(ae_blocks_leaf(w, ref)),
                             0, err) == AETHER_OK)
        return ref;
    ae_leaves_drop(w, ref);
    return 0;
}

static ae_ref new_piece(ae_writer *w, uint64_t start, uint32_t n, aether_error *err) {
    return n < AE_LEAVES_SHORT ? new_copies(w, start, n, err) : ae_leaves_new_extent(w, start, err);
}

/* Return the code of a failure that `err` has, where a function returned no ref. */
static int failed(const aether_error *err) {
    return err && err->code ? err->code : AETHER_E_NO_MEMORY;
}

int ae_leaves_cut_extent(ae_edit *e, uint32_t c, uint32_t size, uint32_t from, uint32_t to, bool kept,
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
            ae_leaves_drop(w, refs[i]);
    if (rc)
        return rc;
    ae_leaves_take(d, c);
    *at = c;
    for (uint32_t i = 0; i < 3; i++) {
        if (i == 1)
            *at = c;
        if (refs[i])
            add_leaf_of(d, c++, refs[i], first + wanted[i].from - (i == 2 ? gone : 0), keys[i]);
    }
    ae_leaves_shift(d, c, -(int64_t)gone);
    ae_leaves_set_head(e, ae_head_place(e->head), ae_head_length(e->head) - gone);
    ae_leaves_drop(w, old);
    return AETHER_OK;
}
