/* Building ae_offsets from a file. */
#include <inttypes.h>

#include "core/error.h"
#include "core/task.h"
#include "io/file.h"
#include "io/ordered.h"
#include "topology/paged/offsets.h"

static int append_offsets(void *user, const uint8_t *bytes, uint64_t size, aether_error *err) {
    return ae_offsets_append(user, (const uint64_t *)(const void *)bytes, size / sizeof(uint64_t), err);
}

static int read_end(aether_io *io, uint64_t at, uint64_t *value, aether_error *err) {
    aether_io_request request = {at, sizeof *value, value};
    return aether_io_read(io, &request, 1, NULL, err);
}

static int check_read_ends(const aether_io *io, uint64_t offset, uint64_t count, uint64_t first,
                           uint64_t last, aether_error *err) {
    if (first != 0)
        return ae_error_at(err, AETHER_E_CORRUPT, 0, (int64_t)first,
                           "the offsets at byte %" PRIu64 " of '%s' begin with %" PRIu64 ", not 0", offset,
                           io->path, first);
    if (last > INT64_MAX)
        return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)count - 1, (int64_t)last,
                           "the offsets at byte %" PRIu64 " of '%s' end with %" PRIu64 ", above 2^63", offset,
                           io->path, last);
    return AETHER_OK;
}

int ae_offsets_read(aether_io *io, uint64_t offset, uint64_t count, aether_task *task, ae_offsets **out,
                    aether_error *err) {
    uint64_t first, last, room = offset < io->size ? (io->size - offset) / sizeof first : 0;
    *out = NULL;
    if (count == 0 || count > room)
        return ae_error_at(err, AETHER_E_RANGE, (int64_t)offset, (int64_t)count,
                           "%" PRIu64 " offsets at byte %" PRIu64 " are not in '%s' (%" PRIu64 " bytes)",
                           count, offset, io->path, io->size);
    const uint64_t size = count * sizeof first;
    int rc = read_end(io, offset, &first, err);
    rc = rc ? rc : read_end(io, offset + size - sizeof last, &last, err);
    rc = rc ? rc : check_read_ends(io, offset, count, first, last, err);
    if (rc)
        return rc;
    ae_task_begin(task, size);
    rc = ae_offsets_create(count, last, out, err);
    rc = rc ? rc : ae_io_read_ordered(io, offset, size, append_offsets, *out, task, err);
    rc = rc ? rc : ae_offsets_finish(*out, err);
    if (rc) {
        ae_offsets_destroy(*out);
        *out = NULL;
    }
    return rc;
}
