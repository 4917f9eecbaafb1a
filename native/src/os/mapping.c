#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

/* ---- opening --------------------------------------------------------------- */

static int refuse_special(const struct stat *st, const char *path, aether_error *err) {
    if (S_ISDIR(st->st_mode))
        return ae_error_os(err, EISDIR, "cannot open '%s'", path);
    const char *what = S_ISFIFO(st->st_mode) ? "a pipe" : S_ISSOCK(st->st_mode) ? "a socket" : "a device";
    return ae_error_set(err, AETHER_E_IO, "cannot open '%s': it is %s, not a regular file", path, what);
}

static int examine_file(const char *path, ae_mapping *m, aether_error *err) {
    struct stat st;
    if (fstat(m->fd, &st) != 0)
        return ae_error_os(err, errno, "cannot open '%s'", path);
    if (!S_ISREG(st.st_mode))
        return refuse_special(&st, path, err);
    m->size = (uint64_t)st.st_size;
    m->modified = st.st_mtim;
    return AETHER_OK;
}

int ae_mapping_open(const char *path, ae_mapping *m, aether_error *err) {
    *m = (ae_mapping){.fd = -1};
    do
        m->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (m->fd < 0 && errno == EINTR);
    if (m->fd < 0)
        return ae_error_os(err, errno, "cannot open '%s'", path);
    int rc = examine_file(path, m, err);
    if (rc)
        ae_mapping_close(m);
    return rc;
}

/* ---- mapping --------------------------------------------------------------- */

int ae_mapping_map(ae_mapping *m, const char *path, aether_error *err) {
    if (m->size == 0)
        return AETHER_OK;
    if (m->size > (uint64_t)PTRDIFF_MAX)
        return ae_error_set(err, AETHER_E_LIMIT, "'%s' is too large to map (%" PRIu64 " bytes)", path,
                            m->size);
    void *data = mmap(NULL, m->size, PROT_READ, MAP_SHARED, m->fd, 0);
    if (data == MAP_FAILED)
        return ae_error_os(err, errno, "cannot map '%s' (%" PRIu64 " bytes)", path, m->size);
    m->data = data;
    m->slot = ae_sigbus_add(data, m->size, m->fd, false);
    if (!m->slot)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening '%s'", path);
    ae_sigbus_install();
    return AETHER_OK;
}

void ae_mapping_close(ae_mapping *m) {
    ae_sigbus_remove(m->slot);
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->size);
    if (m->fd >= 0)
        close(m->fd);
    *m = (ae_mapping){.fd = -1};
}

void aether_guard(void) {
    ae_sigbus_install();
}

/* ---- checking -------------------------------------------------------------- */

static bool is_modified(const ae_mapping *m, const struct stat *st) {
    return st->st_mtim.tv_sec != m->modified.tv_sec || st->st_mtim.tv_nsec != m->modified.tv_nsec;
}

int ae_mapping_check(const ae_mapping *m, const char *path, aether_error *err) {
    struct stat st;
    if (!m->data)
        return AETHER_OK;
    ae_sigbus_install(); /* another library may have put its handler on top */
    if (fstat(m->fd, &st) != 0)
        return ae_error_os(err, errno, "cannot examine '%s'", path);
    if ((uint64_t)st.st_size < m->size)
        return ae_error_at(err, AETHER_E_FILE_CHANGED, st.st_size, (int64_t)m->size,
                           "'%s' shrank from %" PRIu64 " to %" PRIu64
                           " bytes while it was open; what was read since may be zeros",
                           path, m->size, (uint64_t)st.st_size);
    int64_t damage = ae_sigbus_damage(m->slot);
    if (damage >= 0)
        return ae_error_at(err, AETHER_E_FILE_CHANGED, damage, (int64_t)m->size,
                           "'%s' could not be read at byte %" PRId64
                           " (it shrank for a while, its disk failed, or the disk is full and the file "
                           "has a hole there); what was read since may be zeros: open it again",
                           path, damage);
    if (m->constant && is_modified(m, &st))
        return ae_error_set(err, AETHER_E_FILE_CHANGED,
                            "'%s' was written to while it was open: open it again, and replace files "
                            "instead of overwriting them",
                            path);
    return AETHER_OK;
}

int ae_mapping_read(const ae_mapping *m, const char *path, void *out, uint64_t size, uint64_t offset,
                    aether_error *err) {
    char *to = out;
    while (size > 0) {
        ssize_t got = pread(m->fd, to, size < (1u << 30) ? size : 1u << 30, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ae_error_os(err, errno, "cannot read '%s' at byte %" PRIu64, path, offset);
        if (got == 0)
            return ae_error_at(err, AETHER_E_FILE_CHANGED, (int64_t)offset, 0,
                               "'%s' shrank while it was read: no byte at %" PRIu64, path, offset);
        to += got;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
    return AETHER_OK;
}
