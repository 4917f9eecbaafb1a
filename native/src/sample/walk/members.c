#include "sample/walk/members.h"

#include <string.h>

#include "core/error.h"
#include "topology/visit_lists.h"

#define SHORT  32 /* up to here insertion sort wins */
#define INLINE static inline __attribute__((always_inline))

/* ---- search; inlined once per width ---- */

INLINE uint64_t member_at(const void *members, uint32_t id_bytes, uint64_t i) {
    return id_bytes == 4 ? ((const uint32_t *)members)[i] : ((const uint64_t *)members)[i];
}

/* Binary search for `hash` in [low, high). */
INLINE bool search_members(const void *members, uint32_t id_bytes, uint64_t low, uint64_t high,
                           uint64_t hash) {
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t value = member_at(members, id_bytes, middle);
        if (value == hash)
            return true;
        if (value < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

INLINE bool has(const void *members, uint32_t id_bytes, ae_list list, uint64_t hash) {
    uint64_t at = list.start + ae_members_guess(hash, list.degree, id_bytes);
    uint64_t low = list.start, high = list.start + list.degree;
    uint64_t value = member_at(members, id_bytes, at);
    if (value == hash)
        return true;
    if (value < hash) {
        low = at + 1;
        for (uint64_t step = 4; step < high - low; step *= 2) {
            if (member_at(members, id_bytes, low + step) > hash) {
                high = low + step;
                break;
            }
            low += step;
        }
    } else {
        high = at;
        for (uint64_t step = 4; step < high - low; step *= 2) {
            if (member_at(members, id_bytes, high - step) < hash) {
                low = high - step;
                break;
            }
            high -= step - 1; /* keeps that entry, which may be `hash` */
        }
    }
    return search_members(members, id_bytes, low, high, hash);
}

bool ae_members_has(const void *members, uint32_t id_bytes, ae_list list, uint64_t id) {
    if (list.degree == 0)
        return false;
    uint64_t hash = ae_members_hash(id, id_bytes);
    return id_bytes == 4 ? has(members, 4, list, hash) : has(members, 8, list, hash);
}

void ae_members_prefetch(const void *members, uint32_t id_bytes, ae_list list, uint64_t id) {
    uint64_t guess = list.degree ? ae_members_guess(ae_members_hash(id, id_bytes), list.degree, id_bytes) : 0;
    __builtin_prefetch((const char *)members + (list.start + guess) * id_bytes);
}

/* ---- building ---- */

INLINE void put_member(void *values, uint32_t id_bytes, uint64_t i, uint64_t value) {
    if (id_bytes == 4)
        ((uint32_t *)values)[i] = (uint32_t)value;
    else
        ((uint64_t *)values)[i] = value;
}

INLINE void insert_members(void *values, uint32_t id_bytes, uint64_t n) {
    for (uint64_t i = 1; i < n; i++) {
        uint64_t value = member_at(values, id_bytes, i), j = i;
        for (; j > 0 && member_at(values, id_bytes, j - 1) > value; j--)
            put_member(values, id_bytes, j, member_at(values, id_bytes, j - 1));
        put_member(values, id_bytes, j, value);
    }
}

/* Byte by byte from the lowest, to `other` and back; the number of bytes is even. */
INLINE void radix_sort(void *values, void *other, uint32_t id_bytes, uint64_t n) {
    for (uint32_t shift = 0; shift < 8 * id_bytes; shift += 8) {
        uint64_t place[257] = {0};
        for (uint64_t i = 0; i < n; i++)
            place[(member_at(values, id_bytes, i) >> shift & 255) + 1]++;
        for (uint32_t b = 0; b < 256; b++)
            place[b + 1] += place[b];
        for (uint64_t i = 0; i < n; i++) {
            uint64_t value = member_at(values, id_bytes, i);
            put_member(other, id_bytes, place[value >> shift & 255]++, value);
        }
        void *swap = values;
        values = other;
        other = swap;
    }
}

INLINE void sort_members(void *values, void *other, uint32_t id_bytes, uint64_t n) {
    if (n <= SHORT)
        insert_members(values, id_bytes, n);
    else
        radix_sort(values, other, id_bytes, n);
}

/* Sorted in scratch: lists of a damaged graph may overlap, and the part of the
 * table that is theirs would then change under a sort. */
static int build_member_list(const void *ctx, const aether_topology *t, uint64_t node, ae_list list,
                             ae_scratch *s, aether_error *err) {
    const uint32_t id_bytes = t->id_bytes;
    const uint64_t bytes = list.degree * id_bytes;
    uint64_t positions[AE_VISIT_POSITIONS], ids[AE_VISIT_POSITIONS];
    (void)node;
    int rc = ae_scratch_reserve(s, 2 * bytes, 0, err);
    for (uint64_t done = 0; done < list.degree && !rc;) {
        uint64_t n = ae_visit_positions(list, done, positions);
        rc = t->ops->fetch(t, positions, n, ids, err);
        for (uint64_t i = 0; i < n && !rc; i++)
            put_member(s->data, id_bytes, done + i, ae_members_hash(ids[i], id_bytes));
        done += n;
    }
    if (rc)
        return rc;
    void *other = (char *)s->data + bytes;
    if (id_bytes == 4)
        sort_members(s->data, other, 4, list.degree);
    else
        sort_members(s->data, other, 8, list.degree);
    memcpy((char *)*(void *const *)ctx + list.start * id_bytes, s->data, bytes);
    return AETHER_OK;
}

int aether_members_build(const aether_topology *t, void *members, uint64_t num_edges, aether_task *task,
                         aether_error *err) {
    if (!t || (!members && t->num_edges))
        return ae_error_set(err, AETHER_E_INVALID, "a member table needs a topology and room");
    int rc = ae_topology_need_dense(t, "member tables", err);
    if (!rc)
        rc = ae_topology_need_length(t, num_edges, err);
    return rc ? rc : ae_visit_lists(t, build_member_list, &members, task, err);
}
