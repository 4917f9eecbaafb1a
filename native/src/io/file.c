#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/file.h"

#include "core/error.h"
#include "io/read.h"
#include "os/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- options -------------------------------------------------------------------- */

static int check_options(const aether_io_options *o, aether_error *err) {
    if (o->tier > AETHER_IO_PREAD)
        return ae_error_at(err, AETHER_E_INVALID, 0, o->tier, "there is no input tier %" PRIu32, o->tier);
    if (o->direct > 1)
        return ae_error_at(err, AETHER_E_INVALID, 0, o->direct, "direct is %" PRIu32 ", must be 0 or 1",
                           o->direct);
    if (o->depth > AE_IO_DEPTH_MAX)
        return ae_error_at(err, AETHER_E_INVALID, 0, o->depth,
                           "depth is %" PRIu32 ", must be 1 to %u, or 0 for the default", o->depth,
                           AE_IO_DEPTH_MAX);
    return AETHER_OK;
}

/* AETHERGRAPH_IO decides where the program leaves the tier open. */
static int tier_from_env(uint32_t *tier, aether_error *err) {
    const char *text = getenv("AETHERGRAPH_IO");
    if (!text || !*text || strcmp(text, "auto") == 0)
        return AETHER_OK;
    if (strcmp(text, "uring") == 0)
        *tier = AETHER_IO_URING;
    else if (strcmp(text, "pread") == 0)
        *tier = AETHER_IO_PREAD;
    else
        return ae_error_set(err, AETHER_E_INVALID, "AETHERGRAPH_IO is '%s', must be auto, uring or pread",
                            text);
    return AETHER_OK;
}

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

/* ---- opening ---------------------------------------------------------------------- */

static int open_file(aether_io *io, bool direct, aether_error *err) {
    ae_mapping m;
    int code = ae_mapping_open(io->path, &m, err);
    if (code)
        return code;
    io->fd = m.fd;
    io->size = m.size;
    io->alignment = io->memory_alignment = 1;
    set_direct(io, false);
    if (direct)
        make_direct(io);
    return AETHER_OK;
}

/* Unless a tier was asked for, take the first that can read this file. */
static int choose_tier(aether_io *io, aether_error *err) {
    io->forced = io->tier != AETHER_IO_AUTO;
    if (!io->forced)
        io->tier = AETHER_IO_URING;
    if (io->tier == AETHER_IO_PREAD)
        return AETHER_OK;
    int code = ae_io_try(io, err);
    if (!code || io->forced)
        return code;
    io->tier = AETHER_IO_PREAD;
    ae_error_clear(err);
    return AETHER_OK;
}

int aether_io_open(const char *path, const aether_io_options *options, aether_io **out, aether_error *err) {
    aether_io_options o = options ? *options : (aether_io_options){0};
    *out = NULL;
    int code = check_options(&o, err);
    if (!code && o.tier == AETHER_IO_AUTO)
        code = tier_from_env(&o.tier, err);
    if (code)
        return code;
    aether_io *io = calloc(1, sizeof *io);
    if (io)
        io->path = strdup(path);
    if (!io || !io->path) {
        free(io);
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening '%s'", path);
    }
    io->fd = -1;
    io->tier = o.tier;
    io->depth = o.depth ? o.depth : AE_IO_DEPTH;
    code = open_file(io, o.direct, err);
    code = code ? code : choose_tier(io, err);
    memset(&io->stats, 0, sizeof io->stats); /* without the read of the trial */
    if (code)
        aether_io_close(io);
    else
        *out = io;
    return code;
}

void aether_io_close(aether_io *io) {
    if (!io)
        return;
    if (io->fd >= 0)
        close(io->fd);
    free(io->path);
    free(io);
}

/* ---- what it is and what it did ------------------------------------------------------ */

void aether_io_describe(const aether_io *io, aether_io_info *out) {
    *out = (aether_io_info){
        .tier = io->tier,
        .direct = io->direct,
        .depth = io->depth,
        .alignment = io->alignment,
        .memory_alignment = io->memory_alignment,
        .size = io->size,
    };
}

void aether_io_count(const aether_io *io, aether_io_stats *out) {
    *out = (aether_io_stats){
        .requests = atomic_load(&io->stats.requests),
        .reads = atomic_load(&io->stats.reads),
        .bytes = atomic_load(&io->stats.bytes),
        .copied = atomic_load(&io->stats.copied),
        .repeated = atomic_load(&io->stats.repeated),
        .max_in_flight = atomic_load(&io->stats.max_in_flight),
        .wait_ns = atomic_load(&io->stats.wait_ns),
    };
    for (uint32_t i = 0; i < AETHER_IO_SIZES; i++) {
        out->size_reads[i] = atomic_load(&io->stats.size_reads[i]);
        out->size_bytes[i] = atomic_load(&io->stats.size_bytes[i]);
    }
}
