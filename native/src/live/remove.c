#include "live/remove.h"

#include "core/error.h"
#include "live/sums.h"

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
        ae_leaves_drop_block(e, head);
        return;
    }
    ae_directory *d = ae_blocks_directory(w, head);
    for (uint32_t c = 0; c < d->count; c++)
        ae_leaves_drop(w, ae_directory_leaves(d)[c]);
    ae_sums_drop(w, d, true);
    ae_leaves_drop_directory(w, d, ae_place_ref(ae_head_place(head)));
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
    ae_leaves_set_head(e, ref, left);
    drop_list(e, old);
    return AETHER_OK;
}

/* Remove n entries of leaf c. */
static int remove_in_leaf(ae_edit *e, ae_directory *d, uint32_t c, const uint32_t *doomed, uint32_t n,
                          aether_error *err) {
    ae_writer *w = e->w;
    const uint32_t length = ae_head_length(e->head), m = ae_blocks_leaf_size(d, c, length);
    const ae_ref old = ae_directory_leaves(d)[c];
    if (n < m && ae_ref_is_extent(old))
        return ae_leaves_thin_extent(e, c, m, doomed, n, err);
    if (n == m) {
        ae_leaves_take(d, c);
        ae_leaves_shift(d, c, -(int64_t)n);
        ae_leaves_drop(w, old);
    } else {
        const ae_ref ref = ae_leaves_new(w, m - n, err);
        if (!ref)
            return AETHER_E_NO_MEMORY;
        copy_kept(ae_blocks_layout(w), ae_blocks_groups(ae_blocks_leaf(w, ref)), 0,
                  ae_blocks_groups(ae_blocks_leaf(w, old)), ae_directory_before(d)[c], m, doomed, n);
        ae_leaves_replace(w, d, c, ref);
        ae_leaves_shift(d, c + 1, -(int64_t)n);
    }
    ae_leaves_set_head(e, ae_head_place(e->head), length - n);
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
    if (a + b > ae_leaves_max(w, length) / 2 || ae_ref_is_extent(next | ae_directory_leaves(d)[c]))
        return AETHER_OK;
    const ae_ref ref = ae_leaves_new(w, a + b, err);
    if (!ref)
        return AETHER_E_NO_MEMORY;
    uint8_t *groups = ae_blocks_groups(ae_blocks_leaf(w, ref));
    ae_blocks_move(l, groups, 0, ae_blocks_groups(ae_blocks_leaf(w, ae_directory_leaves(d)[c])), 0, a);
    ae_blocks_move(l, groups, a, ae_blocks_groups(ae_blocks_leaf(w, next)), 0, b);
    ae_leaves_take(d, c + 1);
    ae_leaves_replace(w, d, c, ref);
    ae_leaves_drop(w, next);
    return AETHER_OK;
}

/* From the last leaf to the first, so that the numbers of doomed entries stay right. */
static int remove_large(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err) {
    int rc = ae_edit_own(e, err);
    ae_directory *d = ae_blocks_directory(e->w, e->head);
    if (!rc)
        ae_sums_break(e->w, e->node, e->head, doomed[0], ae_head_length(e->head), n);
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
    return w->base ? AE_LEAVES_SHORT : ae_leaves_small_max(w) / 2;
}

int ae_remove(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err) {
    const uint32_t left = ae_head_length(e->head) - n;
    if (!n)
        return AETHER_OK;
    if (!ae_place_is_large(ae_head_place(e->head)) || left <= small_again(e->w))
        return remove_to_small(e, doomed, n, err);
    return remove_large(e, doomed, n, err);
}
