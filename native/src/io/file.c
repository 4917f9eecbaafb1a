#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "io/source.h"
#include "os/mapping.h"

/* ---- reading past the page cache -------------------------------------------------- */

void *ae_io_alloc(uint64_t size, aether_error *err) {
    void *data = NULL;
    uint64_t length = size ? size : 1;
    if (length > (uint64_t)PTRDIFF_MAX || posix_memalign(&data, AE_IO_PAGE, length) != 0) {
        ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory: %" PRIu64 " bytes to read into", size);
        return NULL;
    }
    return data;
}

/* One direct read tells whether the alignment works. */
static bool can_read(int fd, uint32_t alignment, uint32_t memory_alignment) {
    uint8_t *data = ae_io_alloc(2 * AE_IO_PAGE, NULL);
    ssize_t got = -1;
    if (data)
        do
            got = pread(fd, data + (memory_alignment & (AE_IO_PAGE - 1)), alignment, 0);
        while (got < 0 && errno == EINTR);
    free(data);
    return got >= 0;
}

static void reported_alignment(int fd, uint32_t *alignment, uint32_t *memory_alignment) {
    *alignment = *memory_alignment = 0;
#ifdef STATX_DIOALIGN
    struct statx st;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 && (st.stx_mask & STATX_DIOALIGN)) {
        *alignment = st.stx_dio_offset_align;
        *memory_alignment = st.stx_dio_mem_align;
    }
#else
    (void)fd;
#endif
}

static bool is_alignment(uint32_t n) {
    return n > 0 && n <= AE_IO_PAGE && (n & (n - 1)) == 0;
}

static bool find_alignment(aether_io *io) {
    reported_alignment(io->fd, &io->alignment, &io->memory_alignment);
    if (is_alignment(io->alignment) && is_alignment(io->memory_alignment))
        return can_read(io->fd, io->alignment, io->memory_alignment);
    for (uint32_t n = 512; n <= AE_IO_PAGE; n *= 8) {
        io->alignment = io->memory_alignment = n;
        if (can_read(io->fd, n, n))
            return true;
    }
    return false;
}

/* F_SETFL also clears O_NONBLOCK, which the file was opened with: with it, an older kernel's
 * ring would return EAGAIN for pages that are not in the page cache. */
static bool set_direct(const aether_io *io, bool direct) {
    return fcntl(io->fd, F_SETFL, direct ? O_DIRECT : 0) == 0;
}

static void make_direct(aether_io *io) {
    io->direct = set_direct(io, true) && find_alignment(io);
    if (io->direct)
        return;
    set_direct(io, false);
    io->alignment = io->memory_alignment = 1;
}

/* ---- a file as a source ----------------------------------------------------------- */

static int open_file(aether_io *io, bool direct, aether_error *err) {
    ae_mapping m;
    int rc = ae_mapping_open(io->path, &m, err);
    if (rc)
        return rc;
    io->fd = m.fd;
    io->size = m.size;
    io->modified = m.modified;
    set_direct(io, false);
    if (direct)
        make_direct(io);
    return AETHER_OK;
}

static int file_changed(const aether_io *io, aether_error *err) {
    struct stat st;
    if (fstat(io->fd, &st) != 0)
        return ae_error_os(err, errno, "cannot examine '%s'", io->path);
    if ((uint64_t)st.st_size < io->size)
        return ae_error_at(err, AETHER_E_FILE_CHANGED, st.st_size, (int64_t)io->size,
                           "'%s' shrank from %" PRIu64 " to %" PRIu64 " bytes while it was open", io->path,
                           io->size, (uint64_t)st.st_size);
    if (st.st_mtim.tv_sec != io->modified.tv_sec || st.st_mtim.tv_nsec != io->modified.tv_nsec)
        return ae_error_set(err, AETHER_E_FILE_CHANGED,
                            "'%s' was written to while it was open: open it again, and replace files "
                            "instead of overwriting them",
                            io->path);
    return AETHER_OK;
}

static void close_file(aether_io *io) {
    if (io->fd >= 0)
        close(io->fd);
}

const ae_io_source_ops ae_io_file_source = {.open = open_file, .changed = file_changed, .close = close_file};
