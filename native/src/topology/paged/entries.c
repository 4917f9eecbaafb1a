#include "topology/paged/entries.h"

#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "io/file.h"
#include "topology/paged/values.h"

#define PAGE ((uint64_t)1 << AE_PAGE_BITS)

static int find_bad_id(const ae_paged *p, const ae_fetch *job, const ae_span *span, aether_error *err) {
    const aether_topology *t = &p->arrays.base;
    for (uint64_t i = span->at; i < span->at + span->count; i++) {
        uint64_t id = t->id_bytes == 4 ? ((uint32_t *)job->ids)[i] : ((uint64_t *)job->ids)[i];
        if (id >= t->num_minor)
            return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)job->positions[i], (int64_t)id,
                               "%s: neighbour %" PRIu64 " at position %" PRIu64 " is not below %" PRIu64
                               ": the graph file is damaged (run `aethergraph verify`)",
                               p->io->path, id, job->positions[i], t->num_minor);
    }
    return AETHER_OK;
}

/* `r` must not end before byte `byte`. */
static const uint8_t *find_byte(const ae_run *r, uint64_t byte) {
    while (r->page + r->count <= byte >> AE_PAGE_BITS)
        r++;
    return r->data + (byte - r->page * PAGE);
}

/* Inlined: with a constant size the copies become moves. */
static inline void take_sized(ae_place place, const ae_fetch *job, const ae_span *span, const ae_run *r,
                              size_t size) {
    for (uint64_t i = span->at; i < span->at + span->count; i++)
        memcpy((uint8_t *)job->ids + i * size, find_byte(r, ae_place_byte(place, job->positions[i])), size);
}

static void take_numbers(ae_place place, const ae_fetch *job, const ae_span *span, const ae_run *r) {
    switch (place.shift) {
    case 2:
        take_sized(place, job, span, r, 4);
        break;
    case 3:
        take_sized(place, job, span, r, 8);
        break;
    case AE_VALUE_PAGE_SHIFT:
        take_sized(place, job, span, r, AE_VALUE_PAGE_BYTES);
        break;
    default:
        take_sized(place, job, span, r, (size_t)1 << place.shift);
    }
}

int ae_entries_take(const ae_paged *p, const ae_fetch *job, const ae_span *span, const ae_run *r,
                    ae_open_blocks *open, aether_error *err) {
    const ae_place place = p->place;
    if (p->blocks)
        return ae_entries_take_blocks(p, job, span, r, open, err);
    if (p->are_numbers) {
        take_numbers(place, job, span, r);
        return AETHER_OK;
    }
    uint64_t largest = 0;
    for (uint64_t i = span->at; i < span->at + span->count; i++) {
        const uint8_t *from = find_byte(r, ae_place_byte(place, job->positions[i]));
        uint64_t id;
        if (place.shift == 2)
            ((uint32_t *)job->ids)[i] = (uint32_t)(id = *(const uint32_t *)(const void *)from);
        else
            ((uint64_t *)job->ids)[i] = id = *(const uint64_t *)(const void *)from;
        largest = id > largest ? id : largest;
    }
    return largest >= p->arrays.base.num_minor ? find_bad_id(p, job, span, err) : AETHER_OK;
}
