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
        *ae_blocks_leaf(w, ref) = (ae_leaf){.commit = w->commit, .room = room};
    return ref;
}

void ae_leaves_drop(ae_writer *w, ae_ref ref) {
    const ae_leaf *leaf = ae_blocks_leaf(w, ref);
    ae_writer_drop(w, ref & ~AE_EXTENT, ae_leaf_bytes(ae_blocks_layout(w), leaf->room),
                   leaf->commit == w->commit);
}

void ae_leaves_drop_directory(ae_writer *w, const ae_directory *d, ae_ref ref) {
    ae_writer_drop(w, ref, ae_leaves_directory_bytes(w, d->room), d->commit == w->commit);
}

/* ---- directories ---- */

int ae_leaves_own(ae_edit *e, uint32_t count, aether_error *err) {
    ae_writer *w = e->w;
    ae_directory *old = ae_blocks_directory(w, e->head);
    const ae_ref old_ref = ae_place_ref(ae_head_place(e->head));
    if (old->commit == w->commit && old->room >= count)
        return AETHER_OK;
    const uint32_t room = ae_room(count);
    const ae_ref ref = ae_writer_alloc(w, ae_leaves_directory_bytes(w, room), err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    ae_directory *d = ae_arena_at(w->arena, ref);
    *d = (ae_directory){.commit = w->commit, .count = old->count, .room = room};
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
        *ae_blocks_leaf(w, ref) = (ae_leaf){.commit = w->commit, .start = start};
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

/* Read the key of an entry of the base, of lists whose directories have keys. */
static int read_key(const ae_writer *w, uint64_t position, int64_t *key, aether_error *err) {
    *key = 0;
    if (!ae_blocks_sorted(w) && !ae_blocks_layout(w)->time)
        return AETHER_OK;
    return ae_find_base_keys(w, position, 1, key, err);
}

int ae_leaves_cut_extent(ae_edit *e, uint32_t c, uint32_t size, uint32_t from, uint32_t to, uint32_t *at,
                         aether_error *err) {
    ae_writer *w = e->w;
    ae_directory *d = ae_blocks_directory(w, e->head);
    const ae_ref old = ae_directory_leaves(d)[c];
    const uint64_t start = ae_blocks_leaf(w, old)->start;
    const uint32_t first = ae_directory_before(d)[c];
    const struct piece {
        uint32_t from, to;
        bool copied;
    } wanted[3] = {{0, from, false}, {from, to, true}, {to, size, false}};
    ae_ref refs[3] = {0};
    int64_t keys[3] = {0};
    int rc = AETHER_OK;
    for (uint32_t i = 0; !rc && i < 3; i++) {
        const struct piece p = wanted[i];
        if (p.from == p.to)
            continue;
        rc = read_key(w, start + p.from, &keys[i], err);
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
    for (uint32_t i = 0; i < 3; i++) {
        if (i == 1)
            *at = c;
        if (refs[i])
            add_leaf_of(d, c++, refs[i], first + wanted[i].from, keys[i]);
    }
    ae_leaves_drop(w, old);
    return AETHER_OK;
}

/* ---- extents without some entries ---- */

/* What is left of an extent, piece by piece: a stretch of many entries is an extent, short ones that follow
 * each other are copied into one leaf. */
typedef struct thinning {
    const uint32_t *doomed; /* the entries that go, as numbers in the list */
    uint32_t n;
    uint32_t first;      /* number of the extent's first entry */
    uint32_t size;       /* entries of the extent */
    uint32_t most;       /* entries of a leaf of copies */
    uint32_t at, passed; /* entries, and doomed ones, that it is past */
} thinning;

/* Find the next stretch [*from, *to) of the extent that is kept; return its entries. */
static uint32_t next_stretch(thinning *t, uint32_t *from, uint32_t *to) {
    for (; t->passed < t->n && t->doomed[t->passed] - t->first == t->at; t->passed++)
        t->at++;
    *from = t->at;
    *to = t->passed < t->n ? t->doomed[t->passed] - t->first : t->size;
    t->at = *to;
    return *to - *from;
}

/* Pass the next piece; return its entries, or 0 behind the last. */
static uint32_t next_piece(thinning *t, bool *is_extent) {
    uint32_t from, to, n = 0, more;
    *is_extent = false;
    for (thinning before = *t; (more = next_stretch(t, &from, &to)); before = *t) {
        if (more < AE_LEAVES_SHORT && n + more <= t->most) {
            n += more;
        } else if (n) {
            *t = before;
            break;
        } else {
            *is_extent = true;
            return more;
        }
    }
    return n;
}

/* Make the piece of n entries that comes next; `start` is where the extent is in the base. */
static int make_piece(ae_writer *w, thinning t, uint64_t start, uint32_t n, bool is_extent, ae_ref *ref,
                      int64_t *key, aether_error *err) {
    uint32_t from, to, done = next_stretch(&t, &from, &to);
    int rc = AETHER_OK;
    if (is_extent) {
        rc = read_key(w, start + from, key, err);
        *ref = rc ? 0 : ae_leaves_new_extent(w, start + from, err);
        return rc || *ref ? rc : failed(err);
    }
    *ref = ae_leaves_new(w, n, err);
    if (!*ref)
        return failed(err);
    uint8_t *groups = ae_blocks_groups(ae_blocks_leaf(w, *ref));
    for (uint32_t at = 0; !rc && at < n; at = done, done += next_stretch(&t, &from, &to))
        rc = ae_base_copy(w->base, ae_blocks_layout(w), start + from, to - from, groups, at, err);
    if (rc)
        ae_leaves_drop(w, *ref);
    else
        *key = ae_blocks_key(w, groups, 0);
    return rc;
}

/* Move the leaves from `from` on to places `to`, `to` + 1 ... of the directory. */
static void move_leaves(ae_directory *d, uint32_t to, uint32_t from) {
    const uint32_t n = d->count - from;
    memmove(ae_directory_before(d) + to, ae_directory_before(d) + from, n * sizeof(uint32_t));
    memmove(ae_directory_leaves(d) + to, ae_directory_leaves(d) + from, n * sizeof(ae_ref));
    memmove(ae_directory_keys(d) + to, ae_directory_keys(d) + from, n * sizeof(int64_t));
    d->count = to + n;
}

int ae_leaves_thin_extent(ae_edit *e, uint32_t c, uint32_t size, const uint32_t *doomed, uint32_t n,
                          aether_error *err) {
    ae_writer *w = e->w;
    ae_directory *d = ae_blocks_directory(w, e->head);
    const uint32_t length = ae_head_length(e->head), first = ae_directory_before(d)[c];
    thinning t = {
        .doomed = doomed, .n = n, .first = first, .size = size, .most = ae_leaves_max(w, length) / 2};
    thinning counted = t;
    uint32_t pieces = 0, made = 0, left = 0;
    bool is_extent;
    while (next_piece(&counted, &is_extent))
        pieces++;
    int rc = ae_leaves_own(e, d->count - 1 + pieces, err);
    if (rc)
        return rc;
    d = ae_blocks_directory(w, e->head);
    const ae_ref old = ae_directory_leaves(d)[c];
    const int64_t old_key = ae_directory_keys(d)[c];
    const uint64_t start = ae_blocks_leaf(w, old)->start;
    move_leaves(d, c + pieces, c + 1);
    for (; !rc && made < pieces; made += !rc) {
        const thinning before = t;
        const uint32_t some = next_piece(&t, &is_extent);
        rc = make_piece(w, before, start, some, is_extent, &ae_directory_leaves(d)[c + made],
                        &ae_directory_keys(d)[c + made], err);
        ae_directory_before(d)[c + made] = first + left;
        left += some;
    }
    if (rc) { /* as it was */
        for (uint32_t i = 0; i < made; i++)
            ae_leaves_drop(w, ae_directory_leaves(d)[c + i]);
        move_leaves(d, c + 1, c + pieces);
        ae_directory_before(d)[c] = first;
        ae_directory_leaves(d)[c] = old;
        ae_directory_keys(d)[c] = old_key;
        return rc;
    }
    ae_leaves_shift(d, c + pieces, -(int64_t)n);
    ae_leaves_set_head(e, ae_head_place(e->head), length - n);
    ae_leaves_drop(w, old);
    return AETHER_OK;
}
