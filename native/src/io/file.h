/*
 * io/file.h - a source, mostly a file, that is open for reading ranges.
 *
 *   aether_io: source, size, alignment  |  tier, depth  |  counters (atomic)
 *
 * What is opened, and how, is the source's (io/source.h). With `direct` the descriptor of a file is opened
 * O_DIRECT. The alignment is what statx reports (STATX_DIOALIGN, Linux 6.1), else 512, else 4096; one read at
 * the start of the file tells whether the alignment works. Where no direct read works, or the alignment is
 * above AE_IO_PAGE, the file is read through the system's page cache.
 *
 * Caveats: of files regular ones only.
 */
#ifndef AE_IO_FILE_H
#define AE_IO_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "aether/io.h"
#include "io/tier.h"

#define AE_IO_PAGE          4096u /* alignment of ae_io_alloc(), enough for every direct read */
#define AE_IO_DEPTH         128u  /* reads of 512 bytes and 4 KiB gain nothing above it */
#define AE_IO_DEPTH_MAX     256u
#define AE_IO_MAX_IN_FLIGHT ((uint64_t)4 << 20) /* bytes: 64 reads of 64 KiB; more only queue up */

struct aether_io {
    char *path; /* or another name, as given; for messages */
    const struct ae_io_source_ops *source;
    void *state;              /* of the source */
    int fd;                   /* -1: none */
    struct timespec modified; /* of a file, when it was opened */
    bool direct;
    bool forced; /* the tier was asked for: no other takes its place */
    const ae_io_tier_ops *tier;
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
