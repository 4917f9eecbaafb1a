#include "topology/paged/values.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "io/source.h"
#include "rows/gather.h"
#include "topology/paged/windows.h"

static ae_paged numbers_at(aether_io *io, uint64_t offset, uint32_t shift) {
    return (ae_paged){
        .io = io,
        .place = {offset, shift, AE_PAGE_BITS, true},
        .arrays.base.id_bytes = 1u << shift,
        .are_numbers = true,
    };
}

int aether_values_open(aether_io *io, uint64_t offset, uint64_t count, uint32_t item_bytes,
                       aether_values **out, aether_error *err) {
    *out = NULL;
    if (item_bytes == 0 || item_bytes > AE_VALUE_PAGE_BYTES || (item_bytes & (item_bytes - 1)))
        return ae_error_set(err, AETHER_E_INVALID,
                            "values of %u bytes, not a power of two of at most %" PRIu64, item_bytes,
                            AE_VALUE_PAGE_BYTES);
    if (offset % AE_VALUE_PAGE_BYTES || offset > io->size || count > (io->size - offset) / item_bytes)
        return ae_error_set(err, AETHER_E_INVALID,
                            "%s: %" PRIu64 " values of %u bytes at %" PRIu64
                            " do not lie in a file of %" PRIu64 " bytes, or not at a multiple of %" PRIu64,
                            io->path, count, item_bytes, offset, io->size, AE_VALUE_PAGE_BYTES);
    aether_values *v = calloc(1, sizeof *v);
    if (!v)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for values of a file");
    const uint32_t bits = (uint32_t)__builtin_ctz(item_bytes);
    v->pages = numbers_at(io, offset, AE_VALUE_PAGE_SHIFT);
    v->items = numbers_at(io, offset, bits);
    v->count = count;
    v->shift = AE_VALUE_PAGE_SHIFT - bits;
    *out = v;
    return AETHER_OK;
}

void aether_values_close(aether_values *v) {
    if (v)
        ae_hot_pages_destroy(v->own);
    free(v);
}

/* ---- pages that are kept ---- */

int aether_values_keep_pages(aether_values *v, uint64_t bytes, aether_error *err) {
    if (v->pages.hot || v->count == 0)
        return AETHER_OK;
    const uint64_t first = ae_place_unit(v->items.place, 0);
    const uint64_t last = ae_place_unit(v->items.place, v->count - 1);
    int rc = ae_hot_pages_create(first, last + 1 - first, bytes, &v->own, err);
    __atomic_store_n(&v->pages.hot, v->own, __ATOMIC_RELEASE);
    __atomic_store_n(&v->items.hot, v->own, __ATOMIC_RELEASE);
    return rc;
}

int aether_values_share_pages(aether_values *v, const aether_topology *t, aether_error *err) {
    const ae_paged *p = ae_paged_of(t);
    if (!p || p->blocks || p->place.base != v->items.place.base || p->arrays.base.num_edges != v->count ||
        p->place.shift != v->items.place.shift)
        return ae_error_set(err, AETHER_E_INVALID, "these values are not the ids of those lists");
    if (!v->own)
        v->pages.hot = v->items.hot = p->hot;
    return AETHER_OK;
}

uint64_t aether_values_kept(const aether_values *v) {
    return ae_hot_pages_memory(v->own);
}

/* ---- reading ---- */

static int read_value_entries(const ae_paged *p, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                              aether_task *task, aether_error *err) {
    uint64_t num_spans;
    int rc = ae_spans_make(jobs, n, p->place, &staging->spans, &num_spans, task, err);
    return rc ? rc : ae_windows_stream(p, jobs, staging->spans.data, num_spans, staging, task, err);
}

int ae_values_read(const aether_values *v, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                   aether_task *task, aether_error *err) {
    return read_value_entries(&v->pages, jobs, n, staging, task, err);
}

int ae_values_take(const aether_values *v, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                   aether_task *task, aether_error *err) {
    return read_value_entries(&v->items, jobs, n, staging, task, err);
}

static int check_positions(const aether_values *v, const uint64_t *positions, uint64_t n, aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        if (positions[i] >= v->count)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)positions[i],
                               "id %" PRId64 " at position %" PRIu64 " is not in [0, %" PRIu64 ")",
                               (int64_t)positions[i], i, v->count);
    return AETHER_OK;
}

int aether_values_gather(const aether_values *v, const aether_value_request *request, aether_staging *staging,
                         aether_task *task, aether_error *err) {
    const uint64_t most = ae_max_u64(staging->span_bytes / sizeof(ae_span), 1);
    int rc = ae_options_check(request, sizeof *request, "aether_value_request", err);
    if (rc)
        return rc;
    const uint64_t *positions = request->positions, n = request->n;
    rc = ae_gather_room(n, UINT64_C(1) << v->items.place.shift, request->out_size, err);
    rc = rc ? rc : check_positions(v, positions, n, err);
    if (rc)
        return rc;
    for (uint64_t at = 0, count; !rc && at < n; at += count) {
        const ae_fetch rest = {positions + at, n - at, (char *)request->out + (at << v->items.place.shift)};
        count = ae_spans_within(&rest, v->items.place, most);
        const ae_fetch job = {rest.positions, count, rest.ids};
        rc = ae_values_take(v, &job, 1, staging, task, err);
    }
    return ae_io_end(v->items.io, rc, err);
}
