/* Gives hints for a range of memory, and for one of a file. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/advise.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aether/io.h"
#include "os/sigbus.h"

#define ADVICE_DROP 4

/* Unmap the pages here, then let the page cache forget them. On anything but a
 * registered file mapping MADV_DONTNEED would throw data away. */
static void drop(uintptr_t from, uintptr_t to, uintptr_t page) {
    const void *start;
    uint64_t size;
    int fd = ae_sigbus_find((const void *)from, &start, &size);
    if (fd < 0)
        return;
    uintptr_t end = ((uintptr_t)start + size + page - 1) & ~(page - 1);
    size_t length = (to < end ? to : end) - from;
    madvise((void *)from, length, MADV_DONTNEED);
    posix_fadvise(fd, (off_t)(from - (uintptr_t)start), (off_t)length, POSIX_FADV_DONTNEED);
}

void aether_advise(const void *data, uint64_t size, int32_t advice) {
    static const int hints[] = {0, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED};
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)data & ~(page - 1);
    uintptr_t to = ((uintptr_t)data + size + page - 1) & ~(page - 1);
    if (!data || size == 0 || to <= from || advice < 1 || advice > ADVICE_DROP)
        return;
    int saved = errno;
    if (advice == ADVICE_DROP)
        drop(from, to, page);
    else
        madvise((void *)from, to - from, hints[advice]);
    errno = saved;
}

void ae_os_let_go(const void *data, uint64_t size) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)data + page - 1) & ~(page - 1);
    const uintptr_t to = ((uintptr_t)data + size) & ~(page - 1);
    const int saved = errno;
    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
    errno = saved;
}

void aether_file_discard(int32_t fd, uint64_t offset, uint64_t size) {
    if (size == 0 || offset > INT64_MAX || size > INT64_MAX - offset)
        return;
    int saved = errno;
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
    errno = saved;
}
