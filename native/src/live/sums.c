#include "live/sums.h"

#include <stdlib.h>

#define BLOCK AE_WEIGHT_SUMS_BLOCK

static uint32_t lesser(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void add_group_weights(const ae_layout *l, const uint8_t *groups, uint32_t i, uint32_t n,
                              ae_weight_sum *sum) {
    for (; n > 0; i++, n--) {
        const double weight =
            (double)ae_group_weight(l, groups + (uint64_t)(i / AE_GROUP) * l->group, i % AE_GROUP);
        sum->weight += weight;
        sum->drawable += weight > 0;
    }
}

/* Add up n entries of the base, of one block at most; false: it is far, or cannot be read. */
static bool add_of_base(const ae_writer *w, uint64_t start, uint32_t n, ae_weight_sum *sum) {
    uint64_t positions[BLOCK];
    double weights[BLOCK];
    for (uint32_t i = 0; i < n; i++)
        positions[i] = start + i;
    if (!ae_base_is_near(w->base) || ae_base_weights(w->base, positions, n, weights, NULL))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        sum->weight += weights[i];
        sum->drawable += weights[i] > 0;
    }
    return true;
}

/* ---- small lists ---- */

static ae_weight_sum *small_sums(const ae_layout *l, uint8_t *groups, uint32_t room) {
    return (ae_weight_sum *)(void *)(groups + ae_groups_bytes(l, room));
}

void ae_sums_of_small(const ae_layout *l, uint8_t *groups, uint32_t room, uint32_t from, uint32_t n) {
    if (!ae_small_sums(l, room))
        return;
    ae_weight_sum *sums = small_sums(l, groups, room);
    ae_weight_sum sum = from / BLOCK ? sums[from / BLOCK - 1] : (ae_weight_sum){0, 0};
    for (uint32_t b = from / BLOCK; b < n / BLOCK; b++) {
        add_group_weights(l, groups, b * BLOCK, BLOCK, &sum);
        sums[b] = sum;
    }
}

void ae_sums_copy_small(const ae_layout *l, uint8_t *groups, uint32_t room, const uint8_t *old,
                        uint32_t old_room, uint32_t from, uint32_t n) {
    if (!ae_small_sums(l, room))
        return;
    if (ae_small_sums(l, old_room))
        memcpy(small_sums(l, groups, room), old + ae_groups_bytes(l, old_room),
               from / BLOCK * sizeof(ae_weight_sum));
    ae_sums_of_small(l, groups, room, ae_small_sums(l, old_room) ? from : 0, n);
}

/* ---- large lists ---- */

static ae_sums *sums_at(const ae_writer *w, ae_ref ref) {
    return ae_arena_at(w->arena, ref);
}

/* Allocate a block for `room` sums, or return 0: whoever wants sums does without. */
static ae_ref new_sums(ae_writer *w, uint32_t room) {
    const ae_ref ref = ae_writer_alloc(w, ae_sums_bytes(room), NULL);
    if (ref)
        *sums_at(w, ref) = (ae_sums){.commit = w->commit, .room = room};
    return ref;
}

static void drop_sums(ae_writer *w, ae_ref ref) {
    const ae_sums *s = sums_at(w, ref);
    ae_writer_drop(w, ref, ae_sums_bytes(s->room), s->commit == w->commit);
}

void ae_sums_drop(ae_writer *w, ae_directory *d, bool all) {
    if (!ae_blocks_layout(w)->weight)
        return;
    const ae_ref ref = ae_directory_summed(d)->sums;
    if (ref && (all || sums_at(w, ref)->commit == w->commit))
        drop_sums(w, ref);
}

uint32_t ae_sums_make(const ae_writer *w, ae_directory *d, uint32_t from, uint32_t to) {
    ae_weight_sum *sums = sums_at(w, ae_directory_summed(d)->sums)->at;
    const uint32_t *before = ae_directory_before(d);
    ae_weight_sum sum = from ? sums[from - 1] : (ae_weight_sum){0, 0};
    uint32_t at = from * BLOCK, c = from < to ? ae_directory_find(before, d->count, at) : 0;
    while (at < to * BLOCK) {
        const uint32_t end = c + 1 < d->count ? before[c + 1] : UINT32_MAX;
        const uint32_t next = lesser(end, (at / BLOCK + 1) * BLOCK);
        const ae_ref ref = ae_directory_leaves(d)[c];
        ae_leaf *leaf = ae_blocks_leaf(w, ref);
        if (!ae_ref_is_extent(ref))
            add_group_weights(ae_blocks_layout(w), ae_blocks_groups(leaf), at - before[c], next - at, &sum);
        else if (!add_of_base(w, leaf->start + (at - before[c]), next - at, &sum))
            break;
        at = next;
        if (at % BLOCK == 0)
            sums[at / BLOCK - 1] = sum;
        c += at == end;
    }
    return at / BLOCK;
}

void ae_sums_begin(ae_writer *w, ae_directory *d, const uint8_t *groups, uint32_t n) {
    const ae_layout *l = ae_blocks_layout(w);
    const uint32_t blocks = n / BLOCK, room = ae_room(blocks + 1);
    if (!l->weight)
        return;
    const ae_ref ref = new_sums(w, room);
    *ae_directory_summed(d) = (ae_summed){.sums = ref, .blocks = AE_SUMMED_ALL};
    if (ref)
        memcpy(sums_at(w, ref)->at, groups + ae_groups_bytes(l, ae_room(n)), blocks * sizeof(ae_weight_sum));
    else
        ae_directory_summed(d)->blocks = 0;
}

/* Remember the list, of which some entries have changed, for ae_mend(). */
static void note_unsummed(ae_writer *w, uint32_t node, ae_summed *s, uint32_t changes) {
    w->num_unsummed += changes;
    if (s->noted == w->commit)
        return;
    if (w->num_noted == w->room_noted) {
        const uint64_t room = 2 * w->room_noted + 64;
        uint32_t *grown = realloc(w->noted, room * sizeof *grown);
        if (!grown)
            return;
        w->noted = grown;
        w->room_noted = room;
    }
    s->noted = w->commit;
    w->noted[w->num_noted++] = node;
}

bool ae_sums_own(ae_writer *w, ae_directory *d, uint32_t kept, uint32_t blocks) {
    ae_summed *s = ae_directory_summed(d);
    if (s->sums && sums_at(w, s->sums)->commit == w->commit && sums_at(w, s->sums)->room >= blocks)
        return true;
    const ae_ref ref = new_sums(w, ae_room(blocks + 1)), old = s->sums;
    if (!ref)
        return false;
    if (old) {
        memcpy(sums_at(w, ref)->at, sums_at(w, old)->at, kept * sizeof(ae_weight_sum));
        drop_sums(w, old);
    }
    s->sums = ref;
    return true;
}

uint32_t ae_sums_known(const ae_writer *w, ae_directory *d) {
    const ae_summed *s = ae_directory_summed(d);
    return s->sums ? lesser(s->blocks, sums_at(w, s->sums)->room) : 0;
}

bool ae_sums_are_full(const ae_writer *w, uint64_t head) {
    const ae_summed *s = ae_directory_summed(ae_blocks_directory(w, head));
    return s->blocks == AE_SUMMED_ALL && ae_head_length(head) / BLOCK > sums_at(w, s->sums)->room;
}

void ae_sums_append(ae_writer *w, uint32_t node, uint64_t head) {
    ae_directory *d = ae_blocks_directory(w, head);
    ae_summed *s = ae_directory_summed(d);
    const uint32_t blocks = ae_head_length(head) / BLOCK;
    if (s->blocks != AE_SUMMED_ALL) {
        note_unsummed(w, node, s, 1);
        return;
    }
    const uint32_t room = sums_at(w, s->sums)->room; /* that far there are sums: more had no memory */
    if (blocks <= room)
        ae_sums_make(w, d, blocks - 1, blocks);
    else if (ae_sums_own(w, d, room, blocks))
        ae_sums_make(w, d, room, blocks);
}

void ae_sums_break(ae_writer *w, uint32_t node, uint64_t head, uint32_t from, uint32_t length,
                   uint32_t changes) {
    if (!ae_blocks_layout(w)->weight || from / BLOCK == length / BLOCK)
        return;
    ae_summed *s = ae_directory_summed(ae_blocks_directory(w, head));
    if (s->blocks == AE_SUMMED_ALL)
        s->blocks = sums_at(w, s->sums)->room;
    s->blocks = lesser(s->blocks, from / BLOCK);
    note_unsummed(w, node, s, changes);
}
