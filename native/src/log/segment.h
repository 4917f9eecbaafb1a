/*
 * log/segment.h - the bytes of a log segment (native/FORMAT.md, "Logs").
 *
 *   0      header, 4096 bytes
 *   4096   frame | frame | frame | frame | ...     each one commit, a multiple of 512 bytes
 *   size   after the last frame: zeros, or frames of an earlier use of the file
 *
 *   frame  40 bytes of ae_log_frame | payload | zeros
 *   mark   40 bytes of ae_log_frame | zeros           behind the last frame, after a sync
 *
 * A mark says what is on disk when no later frame does yet; the next frame is written over it.
 *
 * A frame's checksum covers the segment's uuid and the frame's offset, so frames of an earlier
 * use, and frames at a wrong place, never check.
 *
 * Little-endian, as every host we build for: the structs are the bytes on disk.
 */
#ifndef AE_LOG_SEGMENT_H
#define AE_LOG_SEGMENT_H

#include <assert.h>
#include <stdbool.h>

#include "aether.h"

#define AE_LOG_MAGIC        "AETHERL" /* 8 bytes with its NUL */
#define AE_LOG_BYTE_ORDER   0x01020304u
#define AE_LOG_VERSION      1u
#define AE_LOG_HEADER_BYTES 4096u
#define AE_LOG_UNIT         512u
#define AE_LOG_FRAME_MAGIC  0x4D524641u /* "AFRM" */
#define AE_LOG_MARK_MAGIC   0x4B524D41u /* "AMRK" */
#define AE_LOG_MIN_SEGMENT  ((uint64_t)8192)
#define AE_LOG_MAX_SEGMENT  ((uint64_t)1 << 30)

typedef struct ae_log_header {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint8_t graph[16];   /* uuid of the graph that the log belongs to */
    uint8_t segment[16]; /* uuid of this use of the file */
    uint64_t first_lsn;  /* of the first frame; all commits before it were synced before this was written */
    uint64_t size;       /* of the file */
    uint8_t zeros[4028];
    uint32_t crc; /* CRC-32C of the 4092 bytes before */
} ae_log_header;

typedef struct ae_log_frame {
    uint32_t magic;
    uint32_t crc;    /* CRC-32C of the segment's uuid, the offset (8 bytes), and the frame from `lsn` on */
    uint64_t lsn;    /* log sequence number: 1 more than that of the frame before */
    uint32_t size;   /* of the payload */
    uint32_t ops;    /* how many operations the payload holds; the log does not look */
    uint64_t synced; /* the last lsn that was known to be on disk when this was written */
    uint64_t ns;     /* time of the commit, since 1970-01-01T00:00 UTC */
    uint8_t payload[];
} ae_log_frame;

static_assert(sizeof(ae_log_header) == AE_LOG_HEADER_BYTES, "the header fills its 4096 bytes");
static_assert(sizeof(ae_log_frame) == 40, "a frame's payload begins at byte 40");

/* Return the bytes of a whole frame. */
static inline uint64_t ae_log_frame_bytes(uint32_t payload) {
    return (sizeof(ae_log_frame) + (uint64_t)payload + AE_LOG_UNIT - 1) / AE_LOG_UNIT * AE_LOG_UNIT;
}

/* Fill in what every header has, and its checksum. */
void ae_log_header_seal(ae_log_header *header);

/* Check the header of the file `path`, which has `size` bytes and is named for `first_lsn`. */
int ae_log_header_check(const ae_log_header *header, const uint8_t graph[16], uint64_t first_lsn,
                        uint64_t size, const char *path, aether_error *err);

/* Fill in a frame's magic and checksum. What follows the payload must be zeros already. */
void ae_log_frame_seal(ae_log_frame *frame, const uint8_t segment[16], uint64_t offset);

/* Return the frame at an offset of a segment, or NULL if there is none that checks. */
const ae_log_frame *ae_log_frame_at(const ae_log_header *segment, uint64_t offset);

/* Fill in a mark of AE_LOG_UNIT bytes: commits up to `synced` are on disk, and `next` is to come here. */
void ae_log_mark_fill(ae_log_frame *mark, const uint8_t segment[16], uint64_t offset, uint64_t next,
                      uint64_t synced);

/* Return the mark at an offset of a segment, or NULL if there is none that checks. */
const ae_log_frame *ae_log_mark_at(const ae_log_header *segment, uint64_t offset);

/* Return the offset of a later frame or mark that says that `lsn`, whose frame at `offset` does not check,
 * was on disk; 0 if none says so. */
uint64_t ae_log_find_witness(const ae_log_header *segment, uint64_t offset, uint64_t lsn);

#endif
