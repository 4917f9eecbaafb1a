#include "live/view.h"

#include <inttypes.h>

#include "core/error.h"

int ae_view_expired(const ae_view *s, aether_error *err) {
    return ae_error_at(err, AETHER_E_EXPIRED, -1, (int64_t)s->now->commit,
                       "the snapshot of commit %" PRIu64
                       " was held too long, or a worker process reads on behind the block of reading() "
                       "that it began in, and its memory is in use again: take a new one, or raise the "
                       "greatest age of snapshots",
                       s->now->commit);
}

int ae_view_bad_position(const ae_view *s, uint64_t position, aether_error *err) {
    const int rc = ae_view_check(s, err);
    return rc ? rc
              : ae_error_at(err, AETHER_E_RANGE, (int64_t)position, (int64_t)position,
                            "position %" PRIu64 " is not one of this snapshot's", position);
}

int ae_view_bad_id(const ae_view *s, uint64_t position, uint64_t id, aether_error *err) {
    const int rc = ae_view_check(s, err);
    return rc ? rc
              : ae_error_at(err, AETHER_E_RANGE, (int64_t)position, (int64_t)position,
                            "position %" PRIu64 " is not one of this snapshot's: neighbour %" PRIu64
                            " there is not below %" PRIu64,
                            position, id, s->base.num_minor);
}

int ae_view_bad_length(const ae_view *s, uint64_t length, aether_error *err) {
    const int rc = ae_view_check(s, err);
    return rc ? rc
              : ae_error_at(err, AETHER_E_CORRUPT, -1, (int64_t)length,
                            "the memory of this live graph is damaged: a list of %" PRIu64
                            " entries, where there is room for %" PRIu64,
                            length, s->longest);
}

/* Stamps descend from history to history, each read once, so the walk ends, whatever an expired pin reads. */
uint64_t ae_view_older(const ae_view *s, uint64_t past) {
    while (ae_past_history(past)) {
        const ae_history *h = ae_view_at(s, ae_past_history(past), sizeof *h);
        const ae_stamp stamp = h ? __atomic_load_n(&h->stamp, __ATOMIC_RELAXED) : 0;
        const int32_t later = ae_stamp_distance(s->now->stamp, stamp);
        if (!h || later >= ae_stamp_distance(s->now->stamp, ae_past_stamp(past)))
            break;
        if (later <= 0)
            return h->head;
        past = ae_past(stamp, h->next);
    }
    return s->below ? AE_HEAD_BASE : 0;
}

ae_place ae_view_place(const ae_view *s, uint64_t position) {
    const uint32_t index = ae_position_index(position);
    const ae_directory *d = ae_view_entry(s, ae_position_ref(position), sizeof *d);
    const uint32_t count = d ? __atomic_load_n(&d->count, __ATOMIC_RELAXED) : 0;
    const uint32_t room = d ? __atomic_load_n(&d->room, __ATOMIC_RELAXED) : 0;
    if (!count || count > room ||
        !ae_view_entry(s, ae_position_ref(position), ae_directory_bytes(&s->table->layout, room)))
        return (ae_place){0};
    const uint32_t *before = (const uint32_t *)(const void *)(d + 1);
    const ae_ref *leaves = before + room;
    const uint32_t found = ae_directory_find(before, count, index);
    return (ae_place){.ref = leaves[found],
                      .from = before[found],
                      .to = found + 1 < count ? before[found + 1] : AE_LIST_MAX};
}

bool ae_view_seek(const ae_view *s, uint64_t position, ae_cursor *c) {
    const ae_place p = ae_view_place(s, position);
    const ae_leaf *leaf = p.to ? ae_view_entry(s, p.ref & ~AE_EXTENT, sizeof *leaf) : NULL;
    if (!leaf)
        return false;
    *c = (ae_cursor){.place = (uint32_t)(position >> AE_INDEX_BITS),
                     .from = p.from,
                     .to = p.to,
                     .groups = ae_ref_is_extent(p.ref) ? NULL : (const uint8_t *)(leaf + 1),
                     .first = ae_ref_is_extent(p.ref) ? leaf->start : 0};
    return ae_position_index(position) >= c->from;
}

static const ae_weight_sum *sums_of_small(const ae_view *s, ae_list list, uint64_t *blocks) {
    const ae_layout *l = &s->table->layout;
    const uint32_t room = ae_room((uint32_t)list.degree);
    const uint8_t *groups = ae_view_at(s, ae_position_ref(list.start), ae_small_bytes(l, room));
    if (!groups || !ae_small_sums(l, room))
        return NULL;
    *blocks = list.degree / AE_WEIGHT_SUMS_BLOCK;
    return (const ae_weight_sum *)(const void *)(groups + ae_groups_bytes(l, room));
}

static const ae_weight_sum *sums_of_large(const ae_view *s, ae_list list, uint64_t *blocks) {
    const ae_layout *l = &s->table->layout;
    ae_directory *d = (ae_directory *)ae_view_at(s, ae_position_ref(list.start), sizeof *d);
    const uint32_t room = d ? __atomic_load_n(&d->room, __ATOMIC_RELAXED) : 0;
    const uint64_t bytes = ae_directory_bytes(l, room);
    if (!room || !ae_view_at(s, ae_position_ref(list.start), bytes))
        return NULL;
    const ae_summed *summed = (const ae_summed *)(const void *)((const uint8_t *)d + bytes) - 1;
    const ae_ref ref = __atomic_load_n(&summed->sums, __ATOMIC_RELAXED);
    const uint32_t good = __atomic_load_n(&summed->blocks, __ATOMIC_RELAXED);
    const ae_sums *sums = ref ? ae_view_at(s, ref, sizeof *sums) : NULL;
    const uint32_t made = sums ? __atomic_load_n(&sums->room, __ATOMIC_RELAXED) : 0;
    if (!sums || !ae_view_at(s, ref, ae_sums_bytes(made)))
        return NULL;
    *blocks = list.degree / AE_WEIGHT_SUMS_BLOCK;
    *blocks = *blocks < good ? *blocks : good;
    *blocks = *blocks < made ? *blocks : made;
    return sums->at;
}

const ae_weight_sum *ae_view_weight_sums(const aether_topology *t, ae_list list, uint64_t *blocks) {
    const ae_view *s = ae_view_of(t);
    *blocks = 0;
    if (!(list.start & AE_LIVE_BIT) || ae_position_index(list.start))
        return NULL;
    return ae_position_is_large(list.start) ? sums_of_large(s, list, blocks) : sums_of_small(s, list, blocks);
}

int ae_view_need_edge_ids(const ae_view *s, aether_error *err) {
    if (s->table->layout.edge_id_bytes)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_UNSUPPORTED,
                        "the edges of this live graph have no ids: create it with edge_id_bytes 4 or 8");
}

uint64_t ae_view_memory(const aether_topology *t) {
    (void)t;
    return sizeof(ae_view);
}

void ae_view_destroy(aether_topology *t) {
    (void)t; /* the snapshot's */
}
