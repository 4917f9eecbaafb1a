/*
 * io_file.h - files with known content, for the tests of src/io.
 *
 * Byte i of every file is io_byte(i). FOR_EACH_MODE runs a block with each tier that
 * works here, through the page cache and past it.
 */
#ifndef AE_IO_FILE_TEST_H
#define AE_IO_FILE_TEST_H

#include <errno.h>
#include <fcntl.h>

#include "io/file.h"
#include "io/queue.h"
#include "io/tier.h"
#include "test.h"

static const aether_io_options io_modes[] = {
    {.tier = AETHER_IO_URING, .direct = 0},
    {.tier = AETHER_IO_URING, .direct = 1},
    {.tier = AETHER_IO_PREAD, .direct = 0},
    {.tier = AETHER_IO_PREAD, .direct = 1},
};

#define FOR_EACH_MODE(mode)                                                                                  \
    for (const aether_io_options *mode = io_modes; mode < io_modes + 4; mode++)                              \
        if (aether_io_probe(mode->tier, NULL) == AETHER_OK)

static inline uint8_t io_byte(uint64_t i) {
    return (uint8_t)(i * 37 + (i >> 8) * 11 + (i >> 16));
}

/* What the largest file of this program holds, for memcmp: under a sanitizer, loops over single
 * bytes take far longer than the reads that they check. */
static uint8_t *io_content;
static uint64_t io_content_size;

/* Make the content of files of up to `size` bytes, before any thread looks at it. */
static inline void io_prepare(uint64_t size) {
    if (io_content && size <= io_content_size)
        return;
    free(io_content);
    io_content = malloc(size ? size : 1);
    for (uint64_t i = 0; i < size; i++)
        io_content[i] = io_byte(i);
    io_content_size = size;
}

static inline void io_make(const char *path, uint64_t size) {
    io_prepare(size);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, io_content, size) != (ssize_t)size || fsync(fd) != 0)
        abort();
    close(fd);
}

/* Return whether `data` holds the file's bytes from `offset` on. */
static inline bool io_right(const uint8_t *data, uint64_t offset, uint64_t length) {
    if (offset > io_content_size || length > io_content_size - offset)
        abort(); /* no file is that long */
    return length == 0 || memcmp(data, io_content + offset, length) == 0;
}

typedef struct {
    aether_io_request *requests;
    uint8_t *memory;
    uint64_t n, size;
} io_ranges;

/* n ranges of up to `longest` bytes anywhere in the file, a fifth of them empty or
 * ending with the file; 0xEE before, between and behind the buffers, at any address. */
static inline io_ranges io_random(uint64_t file_size, uint64_t n, uint64_t longest, uint64_t seed) {
    io_ranges r = {calloc(n + 1, sizeof *r.requests), NULL, n, 64};
    for (uint64_t i = 0; i < n; i++) {
        aether_io_request *q = &r.requests[i];
        q->length = test_random(&seed) % 10 == 0 ? 0 : test_random(&seed) % (longest + 1);
        q->length = q->length < file_size ? q->length : file_size;
        q->offset = test_random(&seed) % (file_size - q->length + 1);
        if (test_random(&seed) % 10 == 0)
            q->offset = file_size - q->length;
        if (test_random(&seed) % 3 == 0) { /* aligned, as far as the file reaches */
            q->offset &= ~(uint64_t)511;
            q->length &= ~(uint64_t)511;
            r.size = (r.size + 511) & ~(uint64_t)511;
        }
        q->buffer = (void *)(uintptr_t)r.size;
        r.size += q->length + 1 + test_random(&seed) % 9;
    }
    r.memory = aligned_alloc(4096, (r.size + 4095) & ~(uint64_t)4095);
    memset(r.memory, 0xEE, r.size);
    for (uint64_t i = 0; i < n; i++)
        r.requests[i].buffer = r.memory + (uintptr_t)r.requests[i].buffer;
    return r;
}

static inline void io_check(const io_ranges *r) {
    const uint8_t *at = r->memory;
    for (uint64_t i = 0; i < r->n; i++) {
        const aether_io_request *q = &r->requests[i];
        for (; at < (uint8_t *)q->buffer; at++)
            CHECK_EQ(*at, 0xEE);
        CHECK(io_right(q->buffer, q->offset, q->length));
        at += q->length;
    }
    for (; at < r->memory + r->size; at++)
        CHECK_EQ(*at, 0xEE);
}

static inline void io_free(io_ranges *r) {
    free(r->memory);
    free(r->requests);
}

#endif
