/*
 * format/format.h - what a container file looks like on disk (native/FORMAT.md).
 *
 *   0        header, one page
 *   4096     section 0, padded with zeros to a multiple of 4096
 *   ...      section 1, ...
 *   table    one 64-byte entry per section; the file ends with it
 *
 * Everything is little-endian, and so is every host we build for: the structs
 * below are the bytes on disk.
 */
#ifndef AE_FORMAT_FORMAT_H
#define AE_FORMAT_FORMAT_H

#include <assert.h>
#include <stdbool.h>

#include "aether.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "AetherGraph files are mapped as they are: little-endian hosts only"
#endif

#define AE_FORMAT_MAGIC        "AETHERG" /* 8 bytes with its NUL */
#define AE_FORMAT_BYTE_ORDER   0x01020304u
#define AE_FORMAT_VERSION      1u
#define AE_FORMAT_PAGE         4096u
#define AE_FORMAT_MAX_SECTIONS (1u << 16)
#define AE_FORMAT_COMPRESSED   1u /* bit of a feature: lists in blocks */

typedef struct ae_format_header {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint32_t content; /* AETHER_CONTENT_* */
    uint32_t page;    /* AE_FORMAT_PAGE */
    uint64_t file_size;
    uint64_t table_offset;
    uint64_t table_size; /* num_sections * entry_size */
    uint32_t num_sections;
    uint32_t entry_size; /* sizeof(ae_format_entry) */
    uint64_t table_checksum;
    uint64_t required; /* features a reader must know: AE_FORMAT_COMPRESSED */
    uint64_t optional; /* features a reader may ignore */
    uint8_t zeros[4008];
    uint64_t checksum; /* XXH3-64 of the 4088 bytes before */
} ae_format_header;

typedef struct ae_format_entry {
    uint32_t kind;
    uint32_t owner;
    uint32_t dtype;
    uint32_t reserved;
    uint64_t offset;
    uint64_t size;
    uint64_t checksum;
    uint64_t zeros[3];
} ae_format_entry;

static_assert(sizeof(ae_format_header) == AE_FORMAT_PAGE, "the header fills its page");
static_assert(sizeof(ae_format_entry) == 64, "an entry has 64 bytes");

#define AE_FORMAT_HEADER_HASHED (sizeof(ae_format_header) - sizeof(uint64_t))

/* Return the name of a kind, "csc_indices" say; "unknown" for kinds of a later writer. */
const char *ae_format_kind_name(uint32_t kind);
/* Return whether this version knows the kind. */
bool ae_format_kind_known(uint32_t kind);
/* Return the features that a reader of a file with a section of this kind must know. */
uint64_t ae_format_required(uint32_t kind);
/* Return whether a section of this kind may hold this dtype; unknown kinds may hold any. */
bool ae_format_dtype_fits(uint32_t kind, uint32_t dtype);

static inline uint64_t ae_format_page_up(uint64_t size) {
    return (size + AE_FORMAT_PAGE - 1) / AE_FORMAT_PAGE * AE_FORMAT_PAGE;
}

#endif
