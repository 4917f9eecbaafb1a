#include "live/find.h"

#include <inttypes.h>

#include "core/error.h"

/* Return how many of n ids are below `id`. Without branches, which would be wrong half of the time. */
static uint32_t count_ids(const ae_layout *l, const uint8_t *groups, uint32_t n, uint32_t id) {
    uint32_t low = 0;
    for (uint32_t left = n; left > 0;) {
        const uint32_t half = (left + 1) / 2;
        low += half & -(uint32_t)(ae_blocks_id(l, groups, low + half - 1) < id);
        left -= half;
    }
    return low;
}

/* Return how many of n keys are below `key`, or, with `equal`, below or equal to it. */
static uint32_t count_keys(const ae_writer *w, const uint8_t *groups, uint32_t n, int64_t key, bool equal) {
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int64_t other = ae_blocks_key(w, groups, middle);
        if (other < key || (equal && other == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- finding in the base ---- */

#define AT_ONCE AE_FIND_AT_ONCE

/* Read the keys of n entries of the base. */
int ae_find_base_keys(const ae_writer *w, uint64_t start, uint32_t n, int64_t *keys, aether_error *err) {
    uint64_t positions[AT_ONCE];
    for (uint32_t i = 0; i < n; i++)
        positions[i] = start + i;
    if (!ae_blocks_sorted(w))
        return ae_base_times(w->base, positions, n, keys, err);
    return ae_base_ids(w->base, positions, n, (uint64_t *)keys, err);
}

static bool goes_before(int64_t key, int64_t other, bool equal) {
    return key < other || (equal && key == other);
}

/* Find the place before (`equal`: behind) the entries of an extent whose key is `key`. */
static int find_in_extent(const ae_writer *w, uint64_t start, int64_t key, bool equal, ae_spot *spot,
                          aether_error *err) {
    uint32_t low = 0, high = spot->size;
    int64_t keys[AT_ONCE];
    spot->found = false;
    if (!ae_blocks_sorted(w) && key >= w->base->given.last_time)
        low = high;
    else if (high) {
        const int rc = ae_find_base_keys(w, start + high - 1, 1, keys, err);
        if (rc)
            return rc;
        low = goes_before(keys[0], key, equal) ? high : low;
    }
    while (high - low > AT_ONCE) {
        const uint32_t middle = low + (high - low) / 2;
        const int rc = ae_find_base_keys(w, start + middle, 1, keys, err);
        if (rc)
            return rc;
        if (goes_before(keys[0], key, equal))
            low = middle + 1;
        else
            high = middle;
    }
    const uint32_t rest = high - low;
    const int rc = rest ? ae_find_base_keys(w, start + low, rest, keys, err) : AETHER_OK;
    uint32_t i = 0;
    while (!rc && i < rest && goes_before(keys[i], key, equal))
        i++;
    spot->index = low + i;
    spot->found = !rc && i < rest && keys[i] == key;
    /* The search may have ended before the entry that it found. */
    if (!rc && !spot->found && i == rest && spot->index < spot->size && !equal) {
        const int rc_next = ae_find_base_keys(w, start + spot->index, 1, keys, err);
        spot->found = !rc_next && keys[0] == key;
        return rc_next;
    }
    return rc;
}

int ae_find_base_list(const ae_writer *w, uint32_t node, ae_list *out, aether_error *err) {
    const uint64_t wide = node;
    const int rc = ae_base_locate(w->base, &wide, 1, out, err);
    if (rc || out->degree < AE_LIST_MAX)
        return rc;
    return ae_error_at(err, AETHER_E_LIMIT, -1, (int64_t)out->degree,
                       "node %" PRIu32 " has %" PRIu64 " edges in the base: a list that changes has at most "
                       "2^30 - 1",
                       node, out->degree);
}

int ae_find_in_base(const ae_writer *w, uint32_t node, uint32_t id, uint64_t *position, aether_error *err) {
    ae_list list;
    int rc = ae_find_base_list(w, node, &list, err);
    *position = UINT64_MAX;
    if (rc)
        return rc;
    ae_spot spot = {.size = (uint32_t)list.degree};
    rc = find_in_extent(w, list.start, id, false, &spot, err);
    if (!rc && spot.found)
        *position = list.start + spot.index;
    return rc;
}

int ae_find_any_in_base(const ae_writer *w, uint32_t node, ae_find_is_wanted is_wanted, void *ctx,
                        bool *found, aether_error *err) {
    uint64_t positions[AT_ONCE], ids[AT_ONCE];
    ae_list list;
    int rc = ae_find_base_list(w, node, &list, err);
    *found = false;
    for (uint64_t at = 0; !rc && !*found && at < list.degree; at += AT_ONCE) {
        const uint64_t n = list.degree - at < AT_ONCE ? list.degree - at : AT_ONCE;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + at + i;
        rc = ae_base_ids(w->base, positions, n, ids, err);
        for (uint64_t i = 0; !rc && !*found && i < n; i++)
            *found = is_wanted(ctx, (uint32_t)ids[i]);
    }
    return rc;
}

int ae_find_length(const ae_writer *w, uint32_t node, uint64_t *out, aether_error *err) {
    const uint64_t head = ae_writer_head(w, node);
    ae_list list = {.degree = ae_head_length(head)};
    const int rc = head == AE_HEAD_BASE ? ae_find_base_list(w, node, &list, err) : AETHER_OK;
    *out = list.degree;
    return rc;
}

/* ---- finding ---- */

/* Find the place before (`equal`: behind) the entries whose key is `key`. *out is written field by field, as
 * it is read: a wider load would wait until all stores before have left the core. */
static int find_key(const ae_writer *w, uint64_t head, int64_t key, bool equal, ae_spot *out,
                    aether_error *err) {
    uint32_t size = ae_head_length(head);
    const uint8_t *groups = ae_blocks_at(w, ae_place_ref(ae_head_place(head)));
    out->leaf = 0;
    if (ae_place_is_large(ae_head_place(head))) {
        ae_directory *d = ae_blocks_directory(w, head);
        const uint32_t leaf = ae_find_leaf(d, key);
        const ae_ref ref = ae_directory_leaves(d)[leaf];
        size = ae_blocks_leaf_size(d, leaf, size);
        out->leaf = leaf;
        if (ae_ref_is_extent(ref)) {
            out->size = size;
            return find_in_extent(w, ae_blocks_leaf(w, ref)->start, key, equal, out, err);
        }
        groups = ae_blocks_groups(ae_blocks_leaf(w, ref));
    }
    /* Most entries come last: look there first. */
    uint32_t index = size;
    if (size && !goes_before(ae_blocks_key(w, groups, size - 1), key, equal))
        index = ae_blocks_sorted(w) ? count_ids(ae_blocks_layout(w), groups, size, (uint32_t)key)
                                    : count_keys(w, groups, size, key, equal);
    out->index = index;
    out->size = size;
    out->found = index < size && ae_blocks_key(w, groups, index) == key;
    return AETHER_OK;
}

static ae_spot find_end(const ae_writer *w, uint64_t head) {
    const uint32_t length = ae_head_length(head);
    if (!ae_place_is_large(ae_head_place(head)))
        return (ae_spot){.index = length, .size = length};
    ae_directory *d = ae_blocks_directory(w, head);
    const uint32_t size = ae_blocks_leaf_size(d, d->count - 1, length);
    return (ae_spot){.leaf = d->count - 1, .index = size, .size = size};
}

int ae_find_time(const ae_writer *w, uint64_t head, int64_t time, ae_spot *out, aether_error *err) {
    if (ae_blocks_layout(w)->time)
        return find_key(w, head, time, true, out, err);
    *out = find_end(w, head);
    return AETHER_OK;
}

int ae_find_id(const ae_writer *w, uint64_t head, uint32_t id, ae_spot *out, aether_error *err) {
    return find_key(w, head, id, false, out, err);
}

int ae_find_edge_id(const ae_writer *w, uint64_t head, ae_spot spot, uint64_t *out, aether_error *err) {
    uint8_t *groups = ae_blocks_at(w, ae_place_ref(ae_head_place(head)));
    if (ae_place_is_large(ae_head_place(head))) {
        const ae_ref ref = ae_directory_leaves(ae_blocks_directory(w, head))[spot.leaf];
        const uint64_t position = ae_blocks_leaf(w, ref)->start + spot.index;
        if (ae_ref_is_extent(ref))
            return ae_base_edge_ids(w->base, &position, 1, out, err);
        groups = ae_blocks_groups(ae_blocks_leaf(w, ref));
    }
    *out = ae_group_edge_id(ae_blocks_layout(w), ae_group_of(ae_blocks_layout(w), groups, spot.index),
                            spot.index % AE_GROUP);
    return AETHER_OK;
}

/* Show an extent as if it were a leaf, some entries at a time. */
static int each_of_extent(const ae_writer *w, uint64_t start, uint32_t first, uint32_t n, ae_find_visit visit,
                          void *ctx, aether_error *err) {
    uint8_t groups[AT_ONCE / AE_GROUP * AE_GROUP_MOST] __attribute__((aligned(8)));
    int rc = AETHER_OK;
    for (uint32_t done = 0; !rc && done < n; done += AT_ONCE) {
        const uint32_t some = n - done < AT_ONCE ? n - done : AT_ONCE;
        rc = ae_base_copy(w->base, ae_blocks_layout(w), start + done, some, groups, 0, err);
        if (!rc)
            rc = visit(ctx, groups, first + done, some);
    }
    return rc;
}

int ae_find_each(const ae_writer *w, uint64_t head, ae_find_visit visit, void *ctx, aether_error *err) {
    const uint32_t length = ae_head_length(head);
    if (!ae_place_is_large(ae_head_place(head)))
        return length ? visit(ctx, ae_blocks_at(w, ae_place_ref(ae_head_place(head))), 0, length) : 0;
    ae_directory *d = ae_blocks_directory(w, head);
    int rc = 0;
    for (uint32_t c = 0; !rc && c < d->count; c++) {
        const ae_ref ref = ae_directory_leaves(d)[c];
        const uint32_t first = ae_directory_before(d)[c], n = ae_blocks_leaf_size(d, c, length);
        if (ae_ref_is_extent(ref))
            rc = each_of_extent(w, ae_blocks_leaf(w, ref)->start, first, n, visit, ctx, err);
        else
            rc = visit(ctx, ae_blocks_groups(ae_blocks_leaf(w, ref)), first, n);
    }
    return rc;
}

uint32_t ae_find_blocks(const ae_writer *w, uint64_t head) {
    return ae_place_is_large(ae_head_place(head)) ? ae_blocks_directory(w, head)->count + 2 : 1;
}
