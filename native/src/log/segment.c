#include "log/segment.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "log/crc32c.h"

/* ---- headers --------------------------------------------------------------------- */

static uint32_t header_crc(const ae_log_header *header) {
    return ae_crc32c(0, header, offsetof(ae_log_header, crc));
}

void ae_log_header_seal(ae_log_header *header) {
    memcpy(header->magic, AE_LOG_MAGIC, sizeof header->magic);
    header->byte_order = AE_LOG_BYTE_ORDER;
    header->version = AE_LOG_VERSION;
    memset(header->zeros, 0, sizeof header->zeros);
    header->crc = header_crc(header);
}

/* A file gets its name when all of it is on disk: whatever is wrong with it is damage, never a
 * crash in between. */
int ae_log_header_check(const ae_log_header *header, const uint8_t graph[16], uint64_t first_lsn,
                        uint64_t size, const char *path, aether_error *err) {
    if (memcmp(header->magic, AE_LOG_MAGIC, sizeof header->magic) != 0 ||
        header->byte_order != AE_LOG_BYTE_ORDER)
        return ae_error_set(err, AETHER_E_FORMAT,
                            "'%s' is damaged at byte 0, or no segment of an AetherGraph log", path);
    if (header->version > AE_LOG_VERSION)
        return ae_error_set(err, AETHER_E_VERSION,
                            "log segment '%s' has version %" PRIu32 ", this library reads up to %u", path,
                            header->version, AE_LOG_VERSION);
    if (header->crc != header_crc(header))
        return ae_error_at(err, AETHER_E_CORRUPT, 0, header->crc,
                           "the header of log segment '%s', at byte 0, is damaged (checksum mismatch)", path);
    if (memcmp(header->graph, graph, sizeof header->graph) != 0)
        return ae_error_set(err, AETHER_E_INVALID, "log segment '%s' belongs to another graph: move it away",
                            path);
    if (header->first_lsn != first_lsn)
        return ae_error_at(err, AETHER_E_CORRUPT, 0, (int64_t)header->first_lsn,
                           "log segment '%s' begins at lsn %" PRIu64 ", not at the one of its name", path,
                           header->first_lsn);
    if (header->size != size)
        return ae_error_at(err, size < header->size ? AETHER_E_TRUNCATED : AETHER_E_FORMAT, (int64_t)size,
                           (int64_t)header->size,
                           "log segment '%s' has %" PRIu64 " bytes, its header says %" PRIu64, path, size,
                           header->size);
    return AETHER_OK;
}

/* ---- frames ---------------------------------------------------------------------- */

static uint32_t frame_crc(const ae_log_frame *frame, const uint8_t segment[16], uint64_t offset) {
    const size_t skipped = offsetof(ae_log_frame, lsn);
    uint32_t crc = ae_crc32c(0, segment, 16);
    crc = ae_crc32c(crc, &offset, sizeof offset);
    return ae_crc32c(crc, (const uint8_t *)frame + skipped, ae_log_frame_bytes(frame->size) - skipped);
}

void ae_log_frame_seal(ae_log_frame *frame, const uint8_t segment[16], uint64_t offset) {
    frame->magic = AE_LOG_FRAME_MAGIC;
    frame->crc = frame_crc(frame, segment, offset);
}

static const ae_log_frame *unchecked(const ae_log_header *segment, uint64_t offset) {
    return (const ae_log_frame *)((const uint8_t *)segment + offset);
}

static const ae_log_frame *valid(const ae_log_header *segment, uint64_t offset, uint32_t magic) {
    if (offset + AE_LOG_UNIT > segment->size)
        return NULL;
    const ae_log_frame *frame = unchecked(segment, offset);
    if (frame->magic != magic || ae_log_frame_bytes(frame->size) > segment->size - offset)
        return NULL;
    return frame->crc == frame_crc(frame, segment->segment, offset) ? frame : NULL;
}

const ae_log_frame *ae_log_frame_at(const ae_log_header *segment, uint64_t offset) {
    return valid(segment, offset, AE_LOG_FRAME_MAGIC);
}

void ae_log_mark_fill(ae_log_frame *mark, const uint8_t segment[16], uint64_t offset, uint64_t next,
                      uint64_t synced) {
    memset(mark, 0, AE_LOG_UNIT);
    mark->magic = AE_LOG_MARK_MAGIC;
    mark->lsn = next;
    mark->synced = synced;
    mark->crc = frame_crc(mark, segment, offset);
}

const ae_log_frame *ae_log_mark_at(const ae_log_header *segment, uint64_t offset) {
    return valid(segment, offset, AE_LOG_MARK_MAGIC);
}

/* The lsns are compared first: frames of an earlier use have lower ones and cost nothing. */
uint64_t ae_log_find_witness(const ae_log_header *segment, uint64_t offset, uint64_t lsn) {
    for (offset += AE_LOG_UNIT; offset + AE_LOG_UNIT <= segment->size; offset += AE_LOG_UNIT) {
        const ae_log_frame *frame = unchecked(segment, offset);
        if (frame->lsn > lsn && frame->synced >= lsn && frame->synced < frame->lsn &&
            (ae_log_frame_at(segment, offset) || ae_log_mark_at(segment, offset)))
            return offset;
    }
    return 0;
}
