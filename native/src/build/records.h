/*
 * build/records.h - edges as packed records, on their way through files.
 *
 *   record    | major | minor | column 0 | column 1 | ...
 *               id_bytes each   their widths; no gaps, so nothing is aligned
 *
 *   pack        columns of a chunk  ->  records, in input order
 *   partition   records  ->  the same records part by part, part = (key - low) >> shift,
 *               input order within a part
 *   order       records of some lists  ->  where each list ends, and which record
 *               comes at each place of the lists
 *
 * A key is one field of the records as an unsigned number with the same order:
 * an id, or a time (signed or floating point; -0 counts as 0).
 *
 * The partition goes through slices of its input with all threads. Places are
 * reserved in input order, so it is stable whatever their number. Each slice
 * collects some records per part before it moves them: a part is written a few
 * cache lines at a time, not a record at a time.
 *
 * Caveats
 *   - Outputs are undefined after an error.
 *   - Times must not be NaN.
 *   - order runs in the calling thread: callers order several pieces at once.
 */
#ifndef AE_BUILD_RECORDS_H
#define AE_BUILD_RECORDS_H

#include <string.h>

#include "aether/build.h"

/* Return the id of id_bytes (4|8) at `record`, which need not be aligned. */
static inline uint64_t ae_record_id(const char *record, uint32_t id_bytes) {
    if (id_bytes == 4) {
        uint32_t id;
        memcpy(&id, record, 4);
        return id;
    }
    uint64_t id;
    memcpy(&id, record, 8);
    return id;
}

/* Return a field of a record as an unsigned number that sorts in the same order. */
static inline uint64_t ae_record_key(const char *record, aether_field field) {
    const uint64_t sign = UINT64_C(1) << 63;
    uint64_t bits = ae_record_id(record + field.offset, field.dtype == AETHER_U32 ? 4 : 8);
    if (field.dtype == AETHER_I64)
        return bits ^ sign;
    if (field.dtype != AETHER_F64)
        return bits;
    if (bits == sign) /* -0 */
        bits = 0;
    return bits & sign ? ~bits : bits | sign;
}

/* Check that `field` is an id or a time inside a record of `record_bytes`. */
int ae_record_check_field(aether_field field, uint32_t record_bytes, aether_error *err);

#endif
