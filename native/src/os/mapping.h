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
 *   - A file overwritten in place (not replaced) changes under the mapping;
 *     that is not noticed here unless it becomes shorter.
 */
#ifndef AE_OS_MAPPING_H
#define AE_OS_MAPPING_H

#include "aether.h"
#include "os/sigbus.h"

typedef struct ae_mapping {
    const uint8_t *data;
    uint64_t size;
    ae_sigbus_slot *slot; /* NULL if size is 0 */
    int fd;
} ae_mapping;

/* Open a regular file: its descriptor and size. Does not block on pipes. */
int ae_mapping_open(const char *path, int *fd, uint64_t *size, aether_error *err);

/* Map all of `fd`, which belongs to `m` from then on, also on failure. */
int ae_mapping_create(const char *path, int fd, uint64_t size, ae_mapping *m, aether_error *err);
void ae_mapping_destroy(ae_mapping *m);

/* AETHER_E_FILE_CHANGED if a page was lost or the file is shorter than mapped. */
int ae_mapping_check(const ae_mapping *m, const char *path, aether_error *err);

/* Exactly `size` bytes at `offset`; AETHER_E_FILE_CHANGED if the file ends first. */
int ae_mapping_read(int fd, const char *path, void *out, uint64_t size, uint64_t offset, aether_error *err);

#endif
