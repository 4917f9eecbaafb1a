/* Decodes entries of compressed lists from the runs that hold their blocks. */
#include <inttypes.h>

#include "core/error.h"
#include "core/simd.h"
#include "io/file.h"
#include "topology/paged/entries.h"

#define PAGE          ((uint64_t)1 << AE_PAGE_BITS)
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ae_bytes ae_entries_block_bytes(const ae_paged *p, uint64_t block) {
    ae_bytes bytes;
    ae_offsets_pair(p->blocks, block, &bytes.begin, &bytes.end);
    return (ae_bytes){p->blocks_at + bytes.begin, p->blocks_at + bytes.end};
}

/* Return the bytes of a block; `room` bytes from there on may be read. A block of two pages may
 * lie in two runs, one from the page cache and one read: it is put together in o->bytes. */
static const uint8_t *block_bytes(uint64_t begin, uint64_t size, const ae_run *r, ae_open_block *o,
                                  uint64_t *room) {
    while (r->page + r->count <= begin >> AE_PAGE_BITS)
        r++;
    const uint64_t skipped = begin - r->page * PAGE;
    *room = r->count * PAGE - skipped;
    if (*room >= size)
        return r->data + skipped;
    memcpy(o->bytes, r->data + skipped, *room);
    memcpy(o->bytes + *room, r[1].data, size - *room);
    *room = sizeof o->bytes;
    return o->bytes;
}

ALWAYS_INLINE bool open_paged_block(const ae_paged *p, uint64_t number, const ae_run *r, ae_open_block *o) {
    const aether_topology *t = &p->arrays.base;
    const uint64_t left = t->num_edges - number * AE_BLOCK;
    const ae_bytes range = ae_entries_block_bytes(p, number);
    uint64_t room;
    const uint8_t *bytes = block_bytes(range.begin, range.end - range.begin, r, o, &room);
    if (!ae_block_open(bytes, range.end - range.begin, room, t->id_bytes,
                       left < AE_BLOCK ? (uint32_t)left : AE_BLOCK, &o->block))
        return false;
    o->number = number + 1;
    return true;
}

static int bad_paged_block(const ae_paged *p, uint64_t position, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)position, (int64_t)(position / AE_BLOCK),
                       "%s: block %" PRIu64 " of the compressed ids, at position %" PRIu64
                       ", is damaged (run `aethergraph verify`)",
                       p->io->path, position / AE_BLOCK, position);
}

static int bad_block_id(const ae_paged *p, uint64_t position, uint64_t id, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)position, (int64_t)id,
                       "%s: neighbour %" PRIu64 " at position %" PRIu64 " is not below %" PRIu64
                       ": the graph file is damaged (run `aethergraph verify`)",
                       p->io->path, id, position, p->arrays.base.num_minor);
}

ALWAYS_INLINE int take_ids(const ae_paged *p, const ae_fetch *job, const ae_span *span, const ae_run *r,
                           ae_open_blocks *open, aether_error *err) {
    const aether_topology *t = &p->arrays.base;
    for (uint64_t i = span->at; i < span->at + span->count; i++) {
        const uint64_t position = job->positions[i], number = position / AE_BLOCK;
        ae_open_block *o = &open->of[number % AE_OPEN_BLOCKS];
        if (o->number != number + 1 && !open_paged_block(p, number, r, o))
            return bad_paged_block(p, position, err);
        const uint64_t id = ae_block_at(&o->block, position % AE_BLOCK);
        if (__builtin_expect(id >= t->num_minor, 0))
            return bad_block_id(p, position, id, err);
        if (t->id_bytes == 4)
            ((uint32_t *)job->ids)[i] = (uint32_t)id;
        else
            ((uint64_t *)job->ids)[i] = id;
    }
    return AETHER_OK;
}

#if defined(__x86_64__)
__attribute__((target("popcnt"))) static int take_popcnt(const ae_paged *p, const ae_fetch *job,
                                                         const ae_span *span, const ae_run *r,
                                                         ae_open_blocks *open, aether_error *err) {
    return take_ids(p, job, span, r, open, err);
}
#endif

int ae_entries_take_blocks(const ae_paged *p, const ae_fetch *job, const ae_span *span, const ae_run *r,
                           ae_open_blocks *open, aether_error *err) {
#if defined(__x86_64__)
    if (ae_core_has_popcnt())
        return take_popcnt(p, job, span, r, open, err);
#endif
    return take_ids(p, job, span, r, open, err);
}
