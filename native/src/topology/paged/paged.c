#include "topology/paged/paged.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/options.h"
#include "io/file.h"
#include "topology/paged/entries.h"
#include "topology/paged/windows.h"

#define LOCATE_BLOCK 256
#define NEAR         1024 /* entries */

static const ae_paged *paged_of(const aether_topology *t) {
    return (const ae_paged *)(const void *)t;
}

static int paged_locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                        aether_error *err) {
    uint64_t begin[LOCATE_BLOCK], end[LOCATE_BLOCK];
    (void)err; /* the offsets were checked when they were read */
    for (uint64_t at = 0; at < n; at += LOCATE_BLOCK) {
        uint64_t some = n - at < LOCATE_BLOCK ? n - at : LOCATE_BLOCK;
        ae_offsets_pairs(paged_of(t)->offsets, nodes + at, some, begin, end);
        for (uint64_t i = 0; i < some; i++)
            out[at + i] = (ae_list){begin[i], end[i] - begin[i]};
    }
    return AETHER_OK;
}

static void paged_prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    (void)t, (void)positions, (void)n; /* a page per position: many positions go through fetch_many */
}

static int paged_fetch_many(const aether_topology *t, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                            aether_task *task, aether_error *err) {
    const ae_paged *p = paged_of(t);
    uint64_t num_spans;
    int rc = ae_spans_make(jobs, n, p->place, &staging->spans, &num_spans, task, err);
    return rc ? rc : ae_windows_stream(p, jobs, staging->spans.data, num_spans, staging, task, err);
}

/* Positions close together are cheaper through a mapping of the file than through reads of their
 * own. */
static bool are_near(const uint64_t *positions, uint64_t n) {
    uint64_t low = positions[0], high = low;
    for (uint64_t i = 1; i < n; i++) {
        low = positions[i] < low ? positions[i] : low;
        high = positions[i] > high ? positions[i] : high;
    }
    return high - low < NEAR;
}

static bool is_mapped(const aether_topology *t) {
    return ae_arrays_of(t)->indices || ae_arrays_of(t)->blocks.blocks;
}

static int fetch_mapped(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                        aether_error *err) {
    return ae_arrays_of(t)->indices ? ae_arrays_fetch(t, positions, n, ids, err)
                                    : ae_arrays_fetch_blocks(t, positions, n, ids, err);
}

/* Narrow ids are read into the upper half of the wide ones and widened from the front. */
static int paged_fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                       aether_error *err) {
    if (n && is_mapped(t) && are_near(positions, n))
        return fetch_mapped(t, positions, n, ids, err);
    const bool narrow = t->id_bytes == 4;
    uint32_t *upper = (uint32_t *)(void *)ids + n;
    ae_fetch job = {positions, n, narrow ? (void *)upper : (void *)ids};
    ae_staging staging = {.window_bytes = AE_WINDOW_LEAST};
    int rc = n ? paged_fetch_many(t, &job, 1, &staging, NULL, err) : AETHER_OK;
    for (uint64_t i = 0; !rc && narrow && i < n; i++) {
        uint32_t id;
        memcpy(&id, upper + i, sizeof id);
        ids[i] = id;
    }
    ae_staging_free(&staging);
    return rc;
}

static void paged_destroy(aether_topology *t) {
    ae_paged *p = (ae_paged *)(void *)t;
    ae_offsets_destroy(p->offsets);
    ae_offsets_destroy(p->blocks);
    ae_hot_pages_destroy(p->hot);
    free(p);
}

static int paged_keep_pages(aether_topology *t, uint64_t bytes, aether_error *err) {
    ae_paged *p = (ae_paged *)(void *)t;
    const uint64_t edges = t->num_edges;
    if (p->hot || edges == 0)
        return AETHER_OK;
    const uint64_t first = ae_entries_pages(p, ae_place_unit(p->place, 0)).first;
    const uint64_t last = ae_entries_pages(p, ae_place_unit(p->place, edges - 1)).last;
    return ae_hot_pages_create(first, last + 1 - first, bytes, &p->hot, err);
}

static uint64_t paged_kept(const aether_topology *t) {
    return ae_hot_pages_memory(paged_of(t)->hot);
}

static uint64_t paged_memory(const aether_topology *t) {
    const ae_paged *p = paged_of(t);
    return sizeof *p + ae_offsets_memory(p->offsets) + (p->blocks ? ae_offsets_memory(p->blocks) : 0);
}

static const ae_topology_ops paged_ops = {
    .locate = paged_locate,
    .prefetch = paged_prefetch,
    .fetch = paged_fetch,
    .edge_ids = ae_arrays_edge_ids,
    .fetch_many = paged_fetch_many,
    .keep_pages = paged_keep_pages,
    .kept = paged_kept,
    .memory = paged_memory,
    .destroy = paged_destroy,
};

const ae_paged *ae_paged_of(const aether_topology *t) {
    return t->ops == &paged_ops ? paged_of(t) : NULL;
}

/* ---- making one ---- */

static int check_range(const aether_io *io, const char *what, uint64_t at, uint64_t count, uint32_t bytes,
                       aether_error *err) {
    if (at % bytes == 0 && at <= io->size && count <= (io->size - at) / bytes)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_INVALID,
                        "%s: %" PRIu64 " %s of %u bytes at %" PRIu64 " do not lie in a file of %" PRIu64
                        " bytes",
                        io->path, count, what, bytes, at, io->size);
}

static int check_paged_lists(const aether_lists *l, const aether_io *io, uint64_t indptr_at,
                             aether_error *err) {
    if (l->id_bytes != 4 && l->id_bytes != 8)
        return ae_error_set(err, AETHER_E_INVALID, "id_bytes is %u, not 4 or 8", l->id_bytes);
    if (l->edge_ids && l->edge_id_bytes != 4 && l->edge_id_bytes != 8)
        return ae_error_set(err, AETHER_E_INVALID, "edge_id_bytes is %u, not 4 or 8", l->edge_id_bytes);
    if (l->num_major >= INT64_MAX || l->num_minor >= INT64_MAX || l->num_edges >= INT64_MAX)
        return ae_error_set(err, AETHER_E_LIMIT, "a topology holds fewer than 2^63 nodes and edges");
    return check_range(io, "offsets", indptr_at, l->num_major + 1, sizeof(uint64_t), err);
}

static int check_paged_blocks(const aether_lists *l, const aether_blocks *b, const aether_io *io,
                              uint64_t blocks_at, uint64_t index_at, aether_error *err) {
    const uint64_t expected = ae_block_groups(l->num_edges) * sizeof(ae_block_group);
    if (l->indices || (b->blocks && !b->index))
        return ae_error_set(err, AETHER_E_INVALID, "compressed lists have blocks and an index, no indices");
    if (b->index_size != expected)
        return ae_error_set(err, AETHER_E_CORRUPT,
                            "%s: the index of the compressed ids has %" PRIu64 " bytes, not %" PRIu64
                            " for %" PRIu64 " edges",
                            io->path, b->index_size, expected, l->num_edges);
    int rc = check_range(io, "bytes of blocks", blocks_at, b->blocks_size, 1, err);
    return rc ? rc : check_range(io, "words of an index", index_at, expected / 8, 8, err);
}

static int check_offset_ends(const ae_paged *p, aether_error *err) {
    const aether_topology *t = &p->arrays.base;
    uint64_t first = 0, last = 0, other;
    if (t->num_major) {
        ae_offsets_pair(p->offsets, 0, &first, &other);
        ae_offsets_pair(p->offsets, t->num_major - 1, &other, &last);
    }
    if (first == 0 && last == t->num_edges)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_CORRUPT,
                        "%s: indptr runs from %" PRIu64 " to %" PRIu64 ", not from 0 to %" PRIu64,
                        p->io->path, first, last, t->num_edges);
}

static ae_paged *new_paged(const aether_lists *lists, aether_io *io, ae_place place, aether_error *err) {
    ae_paged *p = calloc(1, sizeof *p);
    if (!p) {
        ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a topology handle");
        return NULL;
    }
    p->arrays = ae_arrays_make(lists, &paged_ops);
    p->arrays.indptr = NULL;
    p->io = io;
    p->place = place;
    return p;
}

static int read_offsets(ae_paged *p, uint64_t indptr_at, aether_task *task, aether_error *err) {
    int rc = ae_offsets_read(p->io, indptr_at, p->arrays.base.num_major + 1, task, &p->offsets, err);
    return rc ? rc : check_offset_ends(p, err);
}

static int hand_out_paged(ae_paged *p, int rc, aether_topology **out) {
    if (rc)
        paged_destroy(&p->arrays.base);
    else
        *out = &p->arrays.base;
    return rc;
}

static int create_paged(const aether_lists *lists, const aether_lists_in_file *f, aether_task *task,
                        aether_topology **out, aether_error *err) {
    const ae_place place = {f->ids_at, lists->id_bytes == 4 ? 2 : 3, AE_PAGE_BITS, false};
    int rc = check_range(f->io, "ids", f->ids_at, lists->num_edges, lists->id_bytes, err);
    if (rc)
        return rc;
    ae_paged *p = new_paged(lists, f->io, place, err);
    return p ? hand_out_paged(p, read_offsets(p, f->indptr_at, task, err), out) : AETHER_E_NO_MEMORY;
}

static int create_blocks(const aether_lists *lists, const aether_lists_in_file *f, aether_task *task,
                         aether_topology **out, aether_error *err) {
    const ae_place place = {0, 0, AE_BLOCK_BITS, false};
    int rc = check_paged_blocks(lists, f->blocks, f->io, f->ids_at, f->index_at, err);
    if (rc)
        return rc;
    ae_paged *p = new_paged(lists, f->io, place, err);
    if (!p)
        return AETHER_E_NO_MEMORY;
    p->arrays.blocks = *f->blocks;
    p->blocks_at = f->ids_at;
    rc = ae_entries_read_index(f->io, f->index_at, lists->num_edges, f->blocks->blocks_size, lists->id_bytes,
                               &p->blocks, err);
    return hand_out_paged(p, rc ? rc : read_offsets(p, f->indptr_at, task, err), out);
}

int aether_topology_create_paged(const aether_lists *lists, const aether_lists_in_file *place,
                                 aether_task *task, aether_topology **out, aether_error *err) {
    *out = NULL;
    int rc = ae_options_check(place, sizeof *place, "aether_lists_in_file", err);
    if (!rc)
        rc = check_paged_lists(lists, place->io, place->indptr_at, err);
    if (rc)
        return rc;
    return place->blocks ? create_blocks(lists, place, task, out, err)
                         : create_paged(lists, place, task, out, err);
}
