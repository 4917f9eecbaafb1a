/*
 * Any bytes as a table of live rows: open, read every row, write some. No crash, no hang, and what opens
 * keeps its promises.
 *
 * Half of the inputs (by their last byte) get a checksum that fits their header, and shards that nobody has,
 * so that the checks behind are reached too.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aether/live.h"
#include "log/crc32c.h"
#include "must.h"
#include "slots/layout.h"

enum { MOST_ROWS = 64, MOST_BYTES = 1 << 16 };

static void seal(uint8_t *data, size_t size) {
    if (size < AE_TABLE_HEADER)
        return;
    const uint32_t sum = ae_crc32c(0, data, AE_TABLE_CHECKED);
    memcpy(data + AE_TABLE_CHECKED, &sum, sizeof sum);
    memset(data + AE_TABLE_CHECKED + sizeof sum, 0, AE_TABLE_HEADER - AE_TABLE_CHECKED - sizeof sum);
}

static void walk(aether_table *t, size_t size) {
    aether_table_info info;
    aether_table_describe(t, &info);
    MUST(info.stride % 64 == 0 && info.stride >= 16 + info.row_bytes);
    MUST(4096 + info.num_rows * info.stride == size);
    const uint64_t items = info.row_bytes / aether_dtype_size(info.dtype);
    uint8_t *out = malloc(8 * items + info.row_bytes + 1);
    for (int64_t row = 0; row < (int64_t)info.num_rows && row < MOST_ROWS; row++) {
        for (uint32_t check = 0; check < 2; check++) {
            const aether_table_gather_options options = {.missing = AETHER_MISSING_ZERO, .flags = check};
            const uint32_t scaled = info.flags & AETHER_TABLE_SCALED;
            const uint64_t bytes = info.row_items * (scaled ? 4 : aether_dtype_size(info.dtype));
            const int rc = aether_table_gather(t, &row, 1, out, bytes, &options, NULL, NULL);
            MUST(rc == AETHER_OK || rc == AETHER_E_TORN || rc == AETHER_E_CORRUPT);
        }
        uint64_t written = 0;
        memset(out, 1, info.row_bytes);
        MUST(aether_table_put(t, &row, 1, out, info.row_bytes, NULL, &written, NULL, NULL) == AETHER_OK);
        MUST(written <= 1);
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        MUST(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        aether_set_num_threads(1, NULL);
    }
    if (size > MOST_BYTES)
        return 0;
    uint8_t *data = malloc(size + 1);
    memcpy(data, input, size);
    if (size && input[size - 1] % 2 == 0)
        seal(data, size);
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    free(data);
    aether_table *t;
    aether_error err = {0};
    const int rc = aether_table_open(path, 1, &t, &err);
    if (rc) {
        MUST(!t && err.code == rc && err.message[0]);
        return 0;
    }
    walk(t, size);
    aether_table_close(t);
    return 0;
}
