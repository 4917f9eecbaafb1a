#include "store/values.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "io/file.h"
#include "store/windows.h"

int aether_values_open(aether_io *io, uint64_t offset, uint64_t count, uint32_t item_bytes,
                       aether_values **out, aether_error *err) {
    *out = NULL;
    if (item_bytes != 4 && item_bytes != 8)
        return ae_error_set(err, AETHER_E_INVALID, "values of %u bytes, not 4 or 8", item_bytes);
    if (offset % AE_PIECE_BYTES || offset > io->size || count > (io->size - offset) / item_bytes)
        return ae_error_set(err, AETHER_E_INVALID,
                            "%s: %" PRIu64 " values of %u bytes at %" PRIu64
                            " do not lie in a file of %" PRIu64 " bytes, or not at a multiple of %" PRIu64,
                            io->path, count, item_bytes, offset, io->size, AE_PIECE_BYTES);
    aether_values *v = calloc(1, sizeof *v);
    if (!v)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for values of a file");
    v->pieces.io = io;
    v->pieces.place = (ae_place){offset, AE_PIECE_SHIFT, AE_PAGE_BITS};
    v->pieces.base.lists.num_minor = UINT64_MAX;
    v->count = count;
    v->shift = item_bytes == 4 ? AE_PIECE_SHIFT - 2 : AE_PIECE_SHIFT - 3;
    *out = v;
    return AETHER_OK;
}

void aether_values_close(aether_values *v) {
    free(v);
}

int ae_values_read(const aether_values *v, const ae_fetch *jobs, uint32_t n, ae_staging *staging,
                   aether_task *task, aether_error *err) {
    uint64_t num_spans;
    int rc = ae_spans_make(jobs, n, v->pieces.place, &staging->spans, &num_spans, task, err);
    return rc ? rc : ae_windows_stream(&v->pieces, jobs, staging->spans.data, num_spans, staging, task, err);
}
