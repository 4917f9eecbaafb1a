/*
 * io/source.h - what an aether_io reads from: a file, or something that can be read like one.
 *
 *   ae_io_source {ops, name, state}
 *        |  open      size, alignment, a descriptor or not
 *        v
 *   aether_io  --reads-->  the tier that it brings; a descriptor: any tier
 *        |  changed   are the bytes still those of the opening?
 *        v
 *      close
 *
 * A file on a disk is ae_io_file_source (io/file.c). A source without a descriptor (rows on another
 * machine, say) brings a tier of its own (io/tier.h), whose `push` finds the source by
 * op->batch->io->state.
 *
 * Caveats: the size holds while the source is open, and so do the bytes, or `changed` says so.
 * After a fork the child goes on reading from it.
 */
#ifndef AE_IO_SOURCE_H
#define AE_IO_SOURCE_H

#include "io/file.h"

typedef struct ae_io_source_ops {
    const ae_io_tier_ops *tier; /* the only one that can read it; NULL: any, from io->fd */
    /* Set io->size, and io->fd if there is a descriptor. With `direct`, where reads can go past the
     * system's page cache: also io->direct and the alignments, which are 1 before. */
    int (*open)(aether_io *io, bool direct, aether_error *err);
    /* Fail with AETHER_E_FILE_CHANGED if bytes have changed since the opening, or are gone. */
    int (*changed)(const aether_io *io, aether_error *err);
    /* Close what `open` has opened, if it has. */
    void (*close)(aether_io *io);
} ae_io_source_ops;

typedef struct ae_io_source {
    const ae_io_source_ops *ops;
    const char *name; /* path or address, for messages; copied */
    void *state;      /* becomes io->state */
} ae_io_source;

/* A regular file; its name is the path. */
extern const ae_io_source_ops ae_io_file_source;

/* Open a source; options and errors are those of aether_io_open(). AETHER_E_UNSUPPORTED also where
 * another tier is asked for than the one that the source brings. */
int ae_io_open(const ae_io_source *source, const aether_io_options *options, aether_io **out,
               aether_error *err);

/* Return AETHER_E_FILE_CHANGED if bytes of the source have changed since it was opened. */
static inline int ae_io_changed(const aether_io *io, aether_error *err) {
    return io->source->changed(io, err);
}

/* End a call that has read from a source, or from memory that was read from it: return `rc`, or
 * AETHER_E_FILE_CHANGED if bytes of the source have changed since it was opened. */
static inline int ae_io_end(const aether_io *io, int rc, aether_error *err) {
    if (rc == AETHER_E_RANGE || rc == AETHER_E_CANCELLED)
        return rc;
    int changed = ae_io_changed(io, rc ? NULL : err);
    if (changed == AETHER_E_FILE_CHANGED && rc)
        changed = ae_io_changed(io, err); /* the change explains the failure */
    return changed ? changed : rc;
}

#endif
