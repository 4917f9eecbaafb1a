/*
 * Anonymous memory for large arrays.
 *
 *   |..unused..|======== data, size bytes ========|..unused..|
 *              ^ multiple of 2 MiB when size is at least that
 *
 * The unused ends are given back at once, so freeing needs only (data, size).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>

#include "core/error.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((uint64_t)2 << 20)

static char empty_buffer[1]; /* what a buffer of 0 bytes points to */

static uint64_t page_round(uint64_t size) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) & ~(page - 1);
}

static void *map_anonymous(uint64_t length) {
    return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* `length` bytes that start on a huge page: map more, unmap both ends. */
static void *map_aligned(uint64_t length) {
    char *start = map_anonymous(length + HUGE_PAGE);
    if (start == MAP_FAILED)
        return MAP_FAILED;
    uint64_t head = -(uint64_t)(uintptr_t)start & (HUGE_PAGE - 1);
    if (head)
        munmap(start, head);
    munmap(start + head + length, HUGE_PAGE - head);
    madvise(start + head, length, MADV_HUGEPAGE); /* a hint: kernels without it decline */
    return start + head;
}

void *aether_buffer_alloc(uint64_t size, aether_error *err) {
    if (size == 0)
        return empty_buffer;
    if (size > (uint64_t)PTRDIFF_MAX - 2 * HUGE_PAGE) {
        ae_error_set(err, AETHER_E_NO_MEMORY, "cannot allocate %" PRIu64 " bytes", size);
        return NULL;
    }
    uint64_t length = page_round(size);
    void *data = length < HUGE_PAGE ? map_anonymous(length) : map_aligned(length);
    if (data != MAP_FAILED)
        return data;
    ae_error_os(err, errno, "cannot allocate %" PRIu64 " bytes", size);
    return NULL;
}

void *aether_buffer_map(int32_t fd, uint64_t offset, uint64_t size, aether_error *err) {
    if (size == 0)
        return empty_buffer;
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)offset);
    if (data != MAP_FAILED)
        return data;
    ae_error_os(err, errno, "cannot map %" PRIu64 " bytes of shared memory", size);
    return NULL;
}

void aether_buffer_free(void *data, uint64_t size) {
    if (data && data != empty_buffer)
        munmap(data, page_round(size));
}

void aether_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
