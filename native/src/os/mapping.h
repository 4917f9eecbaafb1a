/*
 * os/mapping.h - a whole file mapped read-only, guarded against loss.
 *
 *   path --open--> fd --mmap--> [data ........ data + size)   + sigbus slot
 *
 * The descriptor stays open: the file is the same one after a rename or an
 * unlink, and can be asked whether it shrank.
 *
 * Caveats
 *   - Regular files only. Directories, pipes and devices are refused.
 *   - An empty file maps to data NULL, size 0.
 *   - A file written into in place (not replaced) changes under the mapping. The
 *     time of its last modification tells, if `constant` asks for that.
 */
#ifndef AE_OS_MAPPING_H
#define AE_OS_MAPPING_H

#include <time.h>

#include "aether.h"
#include "os/sigbus.h"

typedef struct ae_mapping {
    const uint8_t *data; /* NULL until mapped, and if size is 0 */
    uint64_t size;       /* of the file when it was opened */
    ae_sigbus_slot *slot;
    struct timespec modified; /* as it was when the file was opened */
    int fd;                   /* -1: closed */
    bool constant;            /* checks report any modification, not only a loss */
} ae_mapping;

/* Open a regular file, without blocking on a pipe. Only fd, size and modified
 * are set: the file can be read before it is mapped. */
int ae_mapping_open(const char *path, ae_mapping *m, aether_error *err);
/* Map an opened file and guard the mapping. */
int ae_mapping_map(ae_mapping *m, const char *path, aether_error *err);
void ae_mapping_close(ae_mapping *m); /* unmaps, also after a failure or twice */

/* Return AETHER_E_FILE_CHANGED if a page was lost, the file is shorter than mapped, or
 * it should be constant and was modified. */
int ae_mapping_check(const ae_mapping *m, const char *path, aether_error *err);

/* Read exactly `size` bytes at `offset`; AETHER_E_FILE_CHANGED if the file ends first. */
int ae_mapping_read(const ae_mapping *m, const char *path, void *out, uint64_t size, uint64_t offset,
                    aether_error *err);

#endif
