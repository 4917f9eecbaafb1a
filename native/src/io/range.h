/*
 * io/range.h - the aligned range around a range of bytes.
 *
 *   offset 700, length 500, alignment 512:
 *
 *   512              700 ............. 1200        1536
 *    |<---- skip ---->|<---- length ---->|          |
 *    |<----------------- size --------------------->|
 *
 * Caveats: `alignment` is a power of two; offset + length is at most 2^63, so that
 * nothing overflows.
 */
#ifndef AE_IO_RANGE_H
#define AE_IO_RANGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ae_io_range {
    uint64_t offset; /* a multiple of the alignment */
    uint64_t size;   /* a multiple of the alignment; may reach past the end of the file */
    uint64_t skip;   /* bytes before the range that was asked for */
} ae_io_range;

/* Return the smallest aligned range around [offset, offset + length). */
static inline ae_io_range ae_io_align(uint64_t offset, uint64_t length, uint64_t alignment) {
    uint64_t start = offset & ~(alignment - 1);
    uint64_t end = length ? (offset + length + alignment - 1) & ~(alignment - 1) : start;
    return (ae_io_range){start, end - start, offset - start};
}

static inline bool ae_io_is_aligned(uint64_t value, uint64_t alignment) {
    return (value & (alignment - 1)) == 0;
}

#endif
