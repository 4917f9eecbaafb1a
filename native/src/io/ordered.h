/*
 * io/ordered.h - reading a range of a file from front to back, in a few long reads.
 *
 *   | part | part | part | part | part | ...
 *     taken  [ under way ------- ]
 *
 * Caveats: takes 4 MiB for the call.
 */
#ifndef AE_IO_ORDERED_H
#define AE_IO_ORDERED_H

#include "aether/io.h"

/* Bytes of every part but the last: whole words, pages, and groups of 40 bytes
 * (topology/blocks.h). */
#define AE_IO_PART ((uint64_t)240 << 12)

/* Take the next bytes of the range. A result other than AETHER_OK ends the reading. */
typedef int (*ae_io_take)(void *user, const uint8_t *bytes, uint64_t size, aether_error *err);

/* Read [offset, offset + size) and hand it to `take` part by part. `task` counts bytes. */
int ae_io_read_ordered(aether_io *io, uint64_t offset, uint64_t size, ae_io_take take, void *user,
                       aether_task *task, aether_error *err);

#endif
