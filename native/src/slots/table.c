#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "slots/table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/error.h"
#include "log/crc32c.h"

#define IN_MEMORY "live rows in shared memory"

/* ---- what is written in the header --------------------------------------------- */

/* Complete a description: row_items, row_bytes, stride and the size of the whole. */
static int measure_table(aether_table_info *info, uint64_t *size, aether_error *err) {
    const uint32_t bytes = aether_dtype_size(info->dtype);
    const bool scaled = (info->flags & AETHER_TABLE_SCALED) != 0;
    if (!bytes)
        return ae_error_set(err, AETHER_E_INVALID, "unknown dtype %u", info->dtype);
    if (info->flags & ~(uint32_t)AETHER_TABLE_SCALED || (scaled && info->dtype != AETHER_I8))
        return ae_error_set(err, AETHER_E_INVALID, "flags %u with rows of %s", info->flags,
                            ae_dtype_name(info->dtype));
    if (info->num_dims > AETHER_TABLE_DIMS)
        return ae_error_at(err, AETHER_E_INVALID, 0, info->num_dims, "rows have %u dimensions, at most %d",
                           info->num_dims, AETHER_TABLE_DIMS);
    info->row_items = 1;
    bool over = false;
    for (uint32_t i = 0; i < info->num_dims; i++)
        over |= __builtin_mul_overflow(info->row_items, info->shape[i], &info->row_items);
    for (uint32_t i = info->num_dims; i < AETHER_TABLE_DIMS; i++)
        info->shape[i] = 0;
    over |= __builtin_mul_overflow(info->row_items, (uint64_t)bytes, &info->row_bytes);
    over |= __builtin_add_overflow(info->row_bytes, scaled ? sizeof(float) : 0, &info->row_bytes);
    over |= info->row_bytes > (uint64_t)INT64_MAX / 2;
    if (!over) {
        info->stride = ae_slot_stride(info->row_bytes);
        over = __builtin_mul_overflow(info->num_rows, info->stride, size) ||
               __builtin_add_overflow(*size, AE_TABLE_HEADER, size) || *size > (uint64_t)INT64_MAX;
    }
    if (over)
        return ae_error_set(err, AETHER_E_LIMIT, "%" PRIu64 " rows of %" PRIu64 " elements: sizes overflow",
                            info->num_rows, info->row_items);
    return AETHER_OK;
}

static uint32_t header_checksum(const ae_table_header *h) {
    return ae_crc32c(0, h, AE_TABLE_CHECKED);
}

static void describe_table(const aether_table_info *info, ae_table_header *h) {
    *h = (ae_table_header){
        .magic = AE_TABLE_MAGIC,
        .byte_order = AE_TABLE_BYTE_ORDER,
        .version = AE_TABLE_VERSION,
        .num_rows = info->num_rows,
        .row_bytes = info->row_bytes,
        .stride = info->stride,
        .tick = info->tick,
        .dtype = info->dtype,
        .flags = info->flags,
        .num_dims = info->num_dims,
    };
    memcpy(h->shape, info->shape, sizeof h->shape);
    memcpy(h->generation, info->generation, sizeof h->generation);
    h->checksum = header_checksum(h);
}

/* Check a header and the size of what it is in. */
static int examine_header(const ae_table_header *h, uint64_t file_size, const char *name,
                          aether_table_info *info, aether_error *err) {
    uint64_t size;
    aether_error why;
    if (memcmp(h->magic, AE_TABLE_MAGIC, sizeof h->magic) != 0)
        return ae_error_set(err, AETHER_E_FORMAT, "'%s' is no table of live rows", name);
    if (h->byte_order == __builtin_bswap32(AE_TABLE_BYTE_ORDER))
        return ae_error_set(err, AETHER_E_FORMAT, "'%s' has another byte order than this machine", name);
    if (h->byte_order != AE_TABLE_BYTE_ORDER || !h->version)
        return ae_error_set(
            err, AETHER_E_CORRUPT,
            "'%s': the header of the table is damaged, say of a file that was cut and grew again", name);
    if (h->version != AE_TABLE_VERSION)
        return ae_error_set(err, AETHER_E_VERSION,
                            "'%s' is a table of live rows of version %u, this library reads version %u", name,
                            h->version, AE_TABLE_VERSION);
    if (h->checksum != header_checksum(h))
        return ae_error_at(err, AETHER_E_CORRUPT, AE_TABLE_CHECKED, h->checksum,
                           "'%s': the header of the table does not fit its checksum", name);
    *info = (aether_table_info){
        .num_rows = h->num_rows,
        .tick = h->tick,
        .dtype = h->dtype,
        .flags = h->flags,
        .num_dims = h->num_dims,
    };
    memcpy(info->shape, h->shape, sizeof h->shape);
    memcpy(info->generation, h->generation, sizeof h->generation);
    if (measure_table(info, &size, &why) || info->row_bytes != h->row_bytes || info->stride != h->stride)
        return ae_error_set(err, AETHER_E_CORRUPT, "'%s': the header of the table contradicts itself", name);
    if (file_size < size)
        return ae_error_at(err, AETHER_E_TRUNCATED, (int64_t)file_size, (int64_t)size,
                           "'%s' has %" PRIu64 " bytes, its %" PRIu64 " rows need %" PRIu64, name, file_size,
                           h->num_rows, size);
    if (file_size > size)
        return ae_error_at(err, AETHER_E_FORMAT, (int64_t)size, (int64_t)file_size,
                           "'%s' has %" PRIu64 " bytes, %" PRIu64 " more than its %" PRIu64 " rows", name,
                           file_size, file_size - size, h->num_rows);
    return AETHER_OK;
}

/* ---- mapping --------------------------------------------------------------------- */

static aether_table *allocate_table(const char *name, aether_error *err) {
    aether_table *t = calloc(1, sizeof *t);
    char *copy = strdup(name);
    if (!t || !copy) {
        free(t);
        free(copy);
        ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening '%s'", name);
        return NULL;
    }
    t->name = copy;
    t->file.fd = -1;
    t->memory.fd = -1;
    return t;
}

void aether_table_close(aether_table *t) {
    if (!t)
        return;
    ae_sigbus_remove(t->guard);
    if (t->file.fd >= 0 && t->writable)
        munmap(t->writable, t->file.size);
    ae_mapping_close(&t->file);
    if (t->memory.data)
        ae_shared_close(&t->memory);
    free(t->is_huge);
    free(t->name);
    free(t);
}

static bool is_sealed(int fd) {
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW);
}

static int map_file(aether_table *t, int fd, uint64_t size, bool writable, aether_error *err) {
    t->file.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (t->file.fd < 0)
        return ae_error_os(err, errno, "cannot open '%s'", t->name);
    t->file.size = size;
    const int rc = ae_mapping_map(&t->file, t->name, err);
    if (rc)
        return rc;
    t->header = (ae_table_header *)(void *)(uintptr_t)t->file.data;
    if (!writable)
        return AETHER_OK;
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return ae_error_os(err, errno, "cannot map '%s' for writing", t->name);
    t->writable = data;
    t->guard = ae_sigbus_add(data, size, t->file.fd, true);
    return t->guard ? AETHER_OK
                    : ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening '%s'", t->name);
}

static int map_memory(aether_table *t, int fd, bool writable, aether_error *err) {
    const int rc = ae_shared_attach(fd, AE_SHARED_WHOLE, writable, "memory", &t->memory, err);
    if (rc)
        return rc;
    ae_shared_want_huge(&t->memory);
    t->header = (ae_table_header *)(void *)t->memory.data;
    t->writable = writable ? t->memory.data : NULL;
    return AETHER_OK;
}

/* Look at the file behind a descriptor, which stays the caller's, and map it. */
static int use(aether_table *t, int fd, bool writable, aether_error *err) {
    struct stat status;
    ae_table_header h;
    const bool sealed = is_sealed(fd); /* before the size, which is final then */
    if (fstat(fd, &status) != 0)
        return ae_error_os(err, errno, "cannot examine '%s'", t->name);
    if (!S_ISREG(status.st_mode))
        return ae_error_set(err, AETHER_E_IO, "cannot open '%s': it is not a regular file", t->name);
    const ssize_t got = pread(fd, &h, sizeof h, 0);
    if (got < 0)
        return ae_error_os(err, errno, "cannot read '%s'", t->name);
    if ((size_t)got < sizeof h)
        return ae_error_at(err, AETHER_E_FORMAT, got, (int64_t)sizeof h,
                           "'%s' is no table of live rows: it has %zd bytes, fewer than a header", t->name,
                           got);
    const int rc = examine_header(&h, (uint64_t)status.st_size, t->name, &t->info, err);
    if (rc)
        return rc;
    return sealed ? map_memory(t, fd, writable, err)
                  : map_file(t, fd, (uint64_t)status.st_size, writable, err);
}

static int make_live_table(int fd, const char *name, bool writable, aether_table **out, aether_error *err) {
    aether_table *t = allocate_table(name, err);
    if (!t)
        return AETHER_E_NO_MEMORY;
    const int rc = use(t, fd, writable, err);
    if (rc)
        aether_table_close(t);
    else
        *out = t;
    return rc;
}

/* ---- opening --------------------------------------------------------------------- */

static int open_path(const char *path, int flags, aether_error *err) {
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        ae_error_os(err, errno, flags & O_CREAT ? "cannot create '%s'" : "cannot open '%s'", path);
    return fd;
}

int aether_table_open(const char *path, uint32_t writable, aether_table **out, aether_error *err) {
    aether_error why;
    *out = NULL;
    if (!path)
        return ae_error_set(err, AETHER_E_INVALID, "a path is needed");
    const int fd = open_path(path, writable ? O_RDWR : O_RDONLY, &why);
    if (fd < 0) {
        if (err)
            *err = why;
        return why.code;
    }
    const int rc = make_live_table(fd, path, writable != 0, out, err);
    close(fd);
    return rc;
}

/* Return what messages call the table behind a descriptor; `path` is room for a file's. */
static const char *name_of_descriptor(int fd, char *path, size_t size) {
    char link[32];
    if (is_sealed(fd))
        return IN_MEMORY;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, size - 1);
    if (length <= 0)
        return "live rows in a file";
    path[length] = '\0';
    return path;
}

int aether_table_attach(int32_t fd, uint32_t writable, aether_table **out, aether_error *err) {
    char path[PATH_MAX];
    *out = NULL;
    const int access = fcntl(fd, F_GETFL);
    if (access < 0)
        return ae_error_os(err, errno, "cannot use descriptor %d as a table of live rows", fd);
    if (writable && (access & O_ACCMODE) != O_RDWR)
        return ae_error_at(err, AETHER_E_INVALID, 0, fd,
                           "descriptor %d is open for reading only: attach it so", fd);
    return make_live_table(fd, name_of_descriptor(fd, path, sizeof path), writable != 0, out, err);
}

/* ---- creating -------------------------------------------------------------------- */

/* Take the room on disk now: a write into a mapped hole could not say that the disk is full. */
static int fill_file(int fd, const ae_table_header *h, uint64_t size, const char *path, aether_error *err) {
    int failed = posix_fallocate(fd, 0, (off_t)size);
    if (!failed && pwrite(fd, h, sizeof *h, 0) != (ssize_t)sizeof *h)
        failed = errno ? errno : EIO;
    return failed ? ae_error_os(err, failed, "cannot create '%s' (%" PRIu64 " bytes)", path, size)
                  : AETHER_OK;
}

static int create_file(const char *path, const ae_table_header *h, uint64_t size, aether_table **out,
                       aether_error *err) {
    aether_error why;
    const int fd = open_path(path, O_RDWR | O_CREAT | O_EXCL, &why);
    if (fd < 0) {
        if (err)
            *err = why;
        return why.code;
    }
    int rc = fill_file(fd, h, size, path, err);
    if (!rc)
        rc = make_live_table(fd, path, true, out, err);
    if (rc)
        unlink(path);
    close(fd);
    return rc;
}

static int create_memory(const ae_table_header *h, uint64_t size, aether_table **out, aether_error *err) {
    ae_shared memory;
    int rc = ae_shared_create("aether-live-rows", (size + 4095) / 4096 * 4096, AE_SHARED_WHOLE, &memory, err);
    if (rc)
        return rc;
    memcpy(memory.data, h, sizeof *h);
    if (ftruncate(memory.fd, (off_t)size) != 0)
        rc = ae_error_os(err, errno, "cannot reserve %" PRIu64 " bytes of shared memory", size);
    rc = rc ? rc : ae_shared_seal(&memory, true, err);
    rc = rc ? rc : make_live_table(memory.fd, IN_MEMORY, true, out, err);
    ae_shared_close(&memory);
    return rc;
}

int aether_table_create(const char *path, const aether_table_info *info, aether_table **out,
                        aether_error *err) {
    *out = NULL;
    if (!info)
        return ae_error_set(err, AETHER_E_INVALID, "a description of the rows is needed");
    aether_table_info whole = *info;
    ae_table_header h;
    uint64_t size;
    const int rc = measure_table(&whole, &size, err);
    if (rc)
        return rc;
    if (getrandom(whole.generation, sizeof whole.generation, 0) != (ssize_t)sizeof whole.generation)
        return ae_error_os(err, errno, "the system gives no random numbers");
    describe_table(&whole, &h);
    return path ? create_file(path, &h, size, out, err) : create_memory(&h, size, out, err);
}

/* ---- huge pages ------------------------------------------------------------------- */

void aether_table_use_huge_pages(aether_table *t) {
    if (t->is_huge || !t->memory.data || !t->writable)
        return;
    t->num_huge = t->memory.size / AE_SHARED_HUGE;
    t->is_huge = calloc(t->num_huge + 1, sizeof *t->is_huge); /* without it: as if nobody had asked */
}

void ae_table_take_huge(aether_table *t, uint64_t row) {
    const uint64_t page = (AE_TABLE_HEADER + row * t->info.stride) / AE_SHARED_HUGE;
    if (!t->is_huge || page >= t->num_huge || atomic_load_explicit(&t->is_huge[page], memory_order_relaxed) ||
        atomic_exchange_explicit(&t->is_huge[page], true, memory_order_relaxed))
        return;
    /* Do not make the system search again if it has none. */
    if (!ae_shared_collapse(&t->memory, page * AE_SHARED_HUGE))
        for (uint64_t i = 0; i < t->num_huge; i++)
            atomic_store_explicit(&t->is_huge[i], true, memory_order_relaxed);
}

/* ---- facts ------------------------------------------------------------------------- */

void aether_table_describe(const aether_table *t, aether_table_info *out) {
    *out = t->info;
}

int32_t aether_table_descriptor(const aether_table *t) {
    return t->file.fd >= 0 ? t->file.fd : t->memory.fd;
}

const void *aether_table_slots(const aether_table *t) {
    return (const uint8_t *)t->header + AE_TABLE_HEADER;
}

int aether_table_check(const aether_table *t, aether_error *err) {
    return t->file.fd >= 0 ? ae_mapping_check(&t->file, t->name, err) : AETHER_OK;
}

/* Return whether a page cannot be written since the disk has no room for it. Asking for that tells it from
 * other causes; a file that was cut meanwhile stays as it is. */
static bool is_disk_full(const aether_table *t, int64_t at) {
    return fallocate(t->file.fd, FALLOC_FL_KEEP_SIZE, at, 1) != 0 && (errno == ENOSPC || errno == EDQUOT);
}

int ae_table_check_stores(const aether_table *t, const int64_t *ids, uint64_t i, aether_error *err) {
    aether_error why = {0};
    struct stat st;
    const int rc = aether_table_check(t, &why);
    const bool lost = ae_table_lost_stores(t);
    if (!rc && !lost)
        return AETHER_OK;
    char from[96];
    const int64_t at = lost ? ae_sigbus_damage(t->guard) : why.position;
    snprintf(from, sizeof from, "so row %" PRId64 " (ids[%" PRIu64 "]) and those after it may not be written",
             ids[i], i);
    if (rc && rc != AETHER_E_FILE_CHANGED)
        return ae_error_at(err, rc, (int64_t)i, ids[i], "%s, %s", why.message, from);
    if (rc && fstat(t->file.fd, &st) == 0 && (uint64_t)st.st_size < t->file.size)
        return ae_error_at(err, AETHER_E_FILE_CHANGED, (int64_t)i, ids[i],
                           "'%s' shrank from %" PRIu64 " to %" PRIu64
                           " bytes while it was open, %s: rows behind its end are gone: restore the file or "
                           "create the table anew, open it again and put them again",
                           t->name, t->file.size, (uint64_t)st.st_size, from);
    if (lost && is_disk_full(t, at))
        return ae_error_at(err, AETHER_E_DISK_FULL, (int64_t)i, ids[i],
                           "'%s' has no room on its disk at byte %" PRId64
                           ", %s: make room, open the table again and put them again",
                           t->name, at, from);
    return ae_error_at(err, AETHER_E_FILE_CHANGED, (int64_t)i, ids[i],
                       "'%s' could not be written at byte %" PRId64
                       " (it shrank for a while, or its disk was full or failed), %s: open the table again "
                       "and put them again",
                       t->name, at, from);
}

int ae_table_refuse_ids(const aether_table *t, const int64_t *ids, uint64_t n, aether_error *err) {
    for (uint64_t i = 0; i < n; i++)
        if ((uint64_t)ids[i] >= t->info.num_rows)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, ids[i],
                               "ids[%" PRIu64 "] = %" PRId64 " is not in [0, %" PRIu64 ")", i, ids[i],
                               t->info.num_rows);
    return AETHER_OK;
}
