#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/error.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define PAGE       4096u
#define FIXED_SIZE (F_SEAL_SHRINK | F_SEAL_GROW)

static ae_shared_hooks hooks;

void ae_shared_set_hooks(const ae_shared_hooks *h) {
    hooks = h ? *h : (ae_shared_hooks){0};
}

/* Reserve room for a mapping at an address that huge pages can have. */
static uint8_t *reserve_huge(uint64_t size) {
    if (size < AE_SHARED_HUGE)
        return NULL;
    size = (size + PAGE - 1) / PAGE * PAGE; /* or what is behind it could not be given back */
    uint8_t *room =
        mmap(NULL, size + AE_SHARED_HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    const uint64_t before = -(uintptr_t)room % AE_SHARED_HUGE;
    if (before)
        munmap(room, before);
    munmap(room + before + size, AE_SHARED_HUGE - before);
    return room + before;
}

static int map(ae_shared *s, uint64_t mapped, bool writable) {
    s->mapped = mapped < s->size ? mapped : s->size;
    uint8_t *at = reserve_huge(s->mapped);
    void *data = mmap(at, s->mapped, PROT_READ | (writable ? PROT_WRITE : 0),
                      MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0), s->fd, 0);
    const int failed = errno;
    s->data = data == MAP_FAILED ? NULL : data;
    if (at && !s->data)
        munmap(at, s->mapped);
    return s->data ? 0 : failed;
}

int ae_shared_create(const char *name, uint64_t size, uint64_t mapped, ae_shared *out, aether_error *err) {
    *out = (ae_shared){.size = size, .fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    int rc = out->fd < 0 || ftruncate(out->fd, (off_t)size) != 0 ? errno : map(out, mapped, true);
    if (!rc)
        return AETHER_OK;
    ae_shared_close(out);
    return ae_error_os(err, rc, "cannot reserve %" PRIu64 " bytes of shared memory for %s", size, name);
}

int ae_shared_reserve(const aether_live_memory *given, uint64_t size, ae_shared *out, aether_error *err) {
    *out = (ae_shared){.fd = -1};
    uint8_t *data = given->reserve(given->context, size);
    if (!data)
        return ae_error_at(err, AETHER_E_NO_MEMORY, -1, (int64_t)size,
                           "the memory's reserve() refused %" PRIu64 " bytes", size);
    *out = (ae_shared){.data = data, .size = size, .mapped = size, .fd = -1, .given = given};
    if ((uintptr_t)data % PAGE == 0)
        return AETHER_OK;
    ae_shared_close(out);
    return ae_error_set(err, AETHER_E_INVALID, "the memory's reserve() returned %p: make it a multiple of %u",
                        (void *)data, PAGE);
}

int ae_shared_seal(const ae_shared *s, bool all_write, aether_error *err) {
    if (s->given)
        return AETHER_OK;
    if (!all_write && fcntl(s->fd, F_ADD_SEALS, FIXED_SIZE | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0)
        return AETHER_OK;
    if (fcntl(s->fd, F_ADD_SEALS, FIXED_SIZE | F_SEAL_SEAL) == 0)
        return AETHER_OK;
    return ae_error_os(err, errno, "cannot seal shared memory");
}

int ae_shared_attach(int fd, uint64_t mapped, bool writable, const char *what, ae_shared *out,
                     aether_error *err) {
    struct stat status;
    *out = (ae_shared){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    /* Before the size, which is final then. */
    const int seals = out->fd < 0 ? -1 : fcntl(out->fd, F_GET_SEALS);
    if (out->fd < 0 || fstat(out->fd, &status) != 0) {
        const int failed = errno;
        ae_shared_close(out);
        return ae_error_os(err, failed, "cannot use descriptor %d as the %s of a live graph", fd, what);
    }
    if (seals < 0 || (seals & FIXED_SIZE) != FIXED_SIZE || status.st_size == 0) {
        ae_shared_close(out);
        return ae_error_set(err, AETHER_E_INVALID,
                            "descriptor %d is no sealed shared memory: pass the %s of a live graph", fd,
                            what);
    }
    out->size = (uint64_t)status.st_size;
    const int failed = map(out, mapped, writable);
    if (!failed)
        return AETHER_OK;
    ae_shared_close(out);
    return ae_error_os(err, failed, "cannot map the %s of a live graph", what);
}

int ae_shared_extend(const ae_shared *s, uint64_t mapped, uint8_t **out, aether_error *err) {
    uint8_t *at = reserve_huge(mapped);
    /* A remapping of no bytes leaves the mapping where it is, and makes it once more. The system call is made
     * directly, because UCX puts a function in place of mremap() that leaves the address out. */
    const long data = syscall(SYS_mremap, s->data, 0UL, mapped, MREMAP_MAYMOVE | (at ? MREMAP_FIXED : 0), at);
    const int failed = errno;
    *out = data == -1 ? NULL : (uint8_t *)data;
    if (*out)
        return AETHER_OK;
    if (at)
        munmap(at, mapped);
    return ae_error_os(err, failed, "cannot map %" PRIu64 " bytes of shared memory", mapped);
}

void ae_shared_unmap(uint8_t *data, uint64_t mapped) {
    munmap(data, mapped);
}

void ae_shared_close(ae_shared *s) {
    if (s->given && s->given->release)
        s->given->release(s->given->context, s->data, s->size);
    else if (!s->given && s->data)
        munmap(s->data, s->mapped);
    if (!s->given && (s->fd > 0 || s->size))
        close(s->fd);
    *s = (ae_shared){.fd = -1};
}

void ae_shared_want_huge(const ae_shared *s) {
    const int saved = errno;
    if (s->given)
        return;
    madvise(s->data, s->mapped, MADV_HUGEPAGE); /* a hint: kernels without it decline */
    errno = saved;
}

bool ae_shared_collapse(const ae_shared *s, uint64_t offset) {
    const int saved = errno;
    if (s->given)
        return false;
    /* The kernel declines where there is no page at all: take the first. */
    int failed = ae_shared_commit(s, offset, PAGE, NULL);
    if (!failed && hooks.collapse)
        failed = hooks.collapse(offset);
    else if (!failed && madvise(s->data + offset, AE_SHARED_HUGE, MADV_COLLAPSE) != 0)
        failed = errno;
    errno = saved;
    return !failed;
}

int ae_shared_lock(const ae_shared *s, uint64_t offset, uint64_t size, aether_error *err) {
    if (mlock2(s->data + offset, size, MLOCK_ONFAULT) == 0)
        return AETHER_OK;
    return ae_error_os(err, errno,
                       "cannot lock %" PRIu64 " bytes of shared memory in RAM: raise the limit (ulimit -l)",
                       size);
}

int ae_shared_commit(const ae_shared *s, uint64_t offset, uint64_t size, aether_error *err) {
    int failed = hooks.commit ? hooks.commit(offset, size) : 0;
    if (!failed && s->given)
        failed = s->given->commit ? s->given->commit(s->given->context, s->data, offset, size) : 0;
    else if (!failed && madvise(s->data + offset, size, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
        failed = errno; /* kernels before 5.14 know no such advice: the first write takes the page */
    if (!failed)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_NO_MEMORY,
                        "the system has no memory for bytes %" PRIu64 "..%" PRIu64 " of shared memory",
                        offset, offset + size);
}

uint64_t ae_shared_written(const ae_shared *s, uint64_t offset, uint64_t *end) {
    const off_t data = lseek(s->fd, (off_t)offset, SEEK_DATA);
    const off_t hole = data < 0 ? -1 : lseek(s->fd, data, SEEK_HOLE);
    *end = hole < 0 ? UINT64_MAX : (uint64_t)hole;
    return data < 0 ? UINT64_MAX : (uint64_t)data; /* ENXIO: there is none */
}
