/*
 * io/file.h - a file that is open for reading ranges.
 *
 *   aether_io: descriptor, size, alignment  |  tier, depth  |  counters (atomic)
 *
 * With `direct` the descriptor is opened O_DIRECT. The alignment is what statx
 * reports (STATX_DIOALIGN, Linux 6.1), else 512, else 4096; one read at the start of
 * the file tells whether the alignment works. Where no direct read works, or the alignment
 * is above AE_IO_PAGE, the file is read through the system's page cache.
 *
 * Caveats: regular files only.
 */
#ifndef AE_IO_FILE_H
#define AE_IO_FILE_H

#include "aether.h"

#include <stdatomic.h>
#include <stdbool.h>

#define AE_IO_PAGE          4096u /* alignment of ae_io_alloc(), enough for every direct read */
#define AE_IO_DEPTH         128u  /* reads of 512 bytes and 4 KiB gain nothing above it */
#define AE_IO_DEPTH_MAX     256u
#define AE_IO_MAX_IN_FLIGHT ((uint64_t)4 << 20) /* bytes: 64 reads of 64 KiB; more only queue up */

struct aether_io {
    char *path; /* as given, for messages */
    int fd;
    bool direct;
    bool forced; /* the tier was asked for: no other takes its place */
    uint32_t tier;
    uint32_t depth;
    uint32_t alignment;
    uint32_t memory_alignment;
    uint64_t size;
    struct {
        atomic_ullong requests, reads, bytes, copied, repeated, max_in_flight, wait_ns;
        atomic_ullong size_reads[AETHER_IO_SIZES], size_bytes[AETHER_IO_SIZES];
    } stats;
};

/* Allocate memory that is read into without a copy; free() it. NULL with err. */
void *ae_io_alloc(uint64_t size, aether_error *err);

#endif
