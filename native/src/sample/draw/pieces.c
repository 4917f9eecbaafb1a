#include "sample/draw/pieces.h"

#include "core/error.h"

void ae_pieces_free(ae_pieces *p) {
    ae_idmap_free(&p->map);
    ae_scratch_free(&p->asked);
    ae_scratch_free(&p->data);
    p->map = (ae_idmap){0};
    p->count = p->read = p->room = 0;
}

uint64_t ae_pieces_memory(const ae_pieces *p) {
    return p->map.memory.bytes + p->asked.bytes + p->data.bytes;
}

void ae_pieces_clear(ae_pieces *p) {
    if (p->count)
        ae_idmap_restart(&p->map, p->count);
    p->count = p->read = 0;
}

static int reserve(ae_pieces *p, aether_error *err) {
    const uint64_t bound = p->count + 1;
    const uint64_t pieces = (p->values->count >> p->values->shift) + 1;
    if (bound <= p->room)
        return AETHER_OK;
    int rc = ae_scratch_reserve(&p->data, bound * AE_PIECE_BYTES, p->count * AE_PIECE_BYTES, err);
    const uint64_t room = p->data.bytes / AE_PIECE_BYTES;
    if (!rc)
        rc = ae_scratch_reserve(&p->asked, (room + 1) * sizeof(uint64_t), p->count * sizeof(uint64_t), err);
    if (!rc)
        rc = ae_idmap_reserve(&p->map, room + 1, pieces, p->asked.data, p->count, NULL, err);
    if (!rc)
        p->room = room; /* set last: where memory is refused, only one of the three may have grown */
    return rc;
}

static int place_of(ae_pieces *p, uint64_t piece, uint64_t *place, aether_error *err) {
    int rc = reserve(p, err);
    if (rc)
        return rc;
    *place = ae_idmap_add(&p->map, piece, (uint32_t)p->count);
    if (*place == p->count)
        ((uint64_t *)p->asked.data)[p->count++] = piece;
    return AETHER_OK;
}

int ae_pieces_find(ae_pieces *p, uint64_t at, const void **out, aether_error *err) {
    const uint32_t shift = p->values->shift;
    uint64_t place;
    int rc = place_of(p, at >> shift, &place, err);
    if (rc)
        return rc;
    const uint64_t inside = (at & ((UINT64_C(1) << shift) - 1)) << (AE_PIECE_SHIFT - shift);
    *out = (const char *)p->data.data + place * AE_PIECE_BYTES + inside;
    return place < p->read ? AETHER_OK : AE_WANTED;
}

int ae_pieces_ask(ae_pieces *p, uint64_t at, uint64_t n, aether_error *err) {
    const uint32_t shift = p->values->shift;
    int rc = AETHER_OK;
    for (uint64_t piece = at >> shift; !rc && n && piece <= (at + n - 1) >> shift; piece++) {
        uint64_t place;
        rc = place_of(p, piece, &place, err);
    }
    return rc;
}

int ae_pieces_read(ae_pieces *const *p, uint32_t n, ae_fetch *jobs, ae_staging *staging, aether_task *task,
                   aether_error *err) {
    uint32_t asking = 0;
    for (uint32_t i = 0; i < n; i++)
        if (ae_pieces_wanted(p[i]))
            jobs[asking++] = ae_pieces_job(p[i]);
    if (!asking)
        return AETHER_OK;
    int rc = ae_values_read(p[0]->values, jobs, asking, staging, task, err);
    for (uint32_t i = 0; !rc && i < n; i++)
        p[i]->read = p[i]->count;
    return rc;
}
