/* Reads where the blocks of compressed ids begin, from the index in their file. */
#include <inttypes.h>

#include "core/error.h"
#include "core/minmax.h"
#include "io/file.h"
#include "io/ordered.h"
#include "topology/paged/entries.h"

_Static_assert(AE_IO_PART % sizeof(ae_block_group) == 0, "parts hold whole groups");

typedef struct index_reader {
    const aether_io *io;
    ae_offsets *offsets;
    uint64_t longest; /* most bytes of a block */
    uint64_t blocks;  /* number of blocks */
    uint64_t next;    /* block whose begin is appended next; `blocks`: the end of the last block */
    uint64_t last;    /* begin that was appended last */
} index_reader;

static int check_block_begin(const index_reader *r, uint64_t begin, aether_error *err) {
    if (r->next == 0 ? begin == 0 : begin > r->last && begin - r->last <= r->longest)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)r->next, (int64_t)begin,
                       "%s: the index of the compressed ids is damaged: byte %" PRIu64
                       " cannot be the beginning of block %" PRIu64 " (run `aethergraph verify`)",
                       r->io->path, begin, r->next);
}

/* The group behind the last block has only an end. */
static int append_group(index_reader *r, const ae_block_group *group, aether_error *err) {
    uint64_t begins[AE_BLOCK_GROUP] = {0};
    const uint64_t n = r->next < r->blocks ? ae_min_u64(AE_BLOCK_GROUP, r->blocks - r->next) : 1;
    for (uint64_t i = 0; i < n; i++) {
        begins[i] = group->start + group->after[i];
        int rc = check_block_begin(r, begins[i], err);
        if (rc)
            return rc;
        r->last = begins[i];
        r->next++;
    }
    return ae_offsets_append(r->offsets, begins, n, err);
}

static int append_groups(void *user, const uint8_t *bytes, uint64_t size, aether_error *err) {
    const ae_block_group *groups = (const ae_block_group *)(const void *)bytes;
    int rc = AETHER_OK;
    for (uint64_t i = 0; i < size / sizeof *groups && !rc; i++)
        rc = append_group(user, &groups[i], err);
    return rc;
}

int ae_entries_read_index(aether_io *io, uint64_t offset, uint64_t positions, uint64_t size,
                          uint32_t id_bytes, ae_offsets **out, aether_error *err) {
    index_reader r = {.io = io, .longest = AE_BLOCK_MAX(id_bytes), .blocks = ae_block_number(positions)};
    const uint64_t bytes = ae_block_groups(positions) * sizeof(ae_block_group);
    int rc = ae_offsets_create(r.blocks + 1, size, &r.offsets, err);
    rc = rc ? rc : ae_io_read_ordered(io, offset, bytes, append_groups, &r, NULL, err);
    if (!rc && r.last != size)
        rc = ae_error_at(err, AETHER_E_CORRUPT, (int64_t)r.blocks, (int64_t)r.last,
                         "%s: the index of the compressed ids ends at %" PRIu64 ", but they have %" PRIu64
                         " bytes",
                         io->path, r.last, size);
    rc = rc ? rc : ae_offsets_finish(r.offsets, err);
    if (rc)
        ae_offsets_destroy(r.offsets);
    *out = rc ? NULL : r.offsets;
    return rc;
}
