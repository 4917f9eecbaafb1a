/*
 * Any bytes as a file: open, walk the sections, verify. No crash, no hang, and
 * what opens keeps its promises.
 *
 * Half of the inputs (by their last byte) get checksums that fit what they say,
 * so that the checks behind the checksums are reached too.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/format.h"
#include "format/hash.h"
#include "must.h"

/* Checksums of the header and, if it lies within the file, of the table. */
static void seal(uint8_t *data, size_t size) {
    ae_format_header header;
    if (size < sizeof header)
        return;
    memcpy(&header, data, sizeof header);
    if (header.table_offset <= size && header.table_size <= size - header.table_offset)
        header.table_checksum = ae_hash(data + header.table_offset, header.table_size);
    header.checksum = ae_hash(&header, AE_FORMAT_HEADER_HASHED);
    memcpy(data, &header, sizeof header);
}

static void walk(const aether_file *file, size_t size) {
    aether_error err;
    const uint8_t *base = aether_file_base(file);
    MUST(aether_file_size(file) == size);
    volatile uint8_t byte = 0;
    for (uint32_t i = 0; i < aether_file_num_sections(file); i++) {
        aether_section s;
        MUST(aether_file_section(file, i, &s, &err) == AETHER_OK);
        MUST(s.offset % 4096 == 0 && s.offset <= size && s.size <= size - s.offset);
        const uint8_t *data = aether_file_data(file, i);
        MUST(data == base + s.offset);
        for (uint64_t k = 0; k < s.size; k++)
            byte ^= data[k];
    }
    (void)byte;
    int rc = aether_file_verify(file, NULL, &err);
    MUST(rc == AETHER_OK || (rc == err.code && err.message[0]));
    MUST(aether_file_check(file, &err) == AETHER_OK);
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
    uint8_t *data = malloc(size + 1);
    memcpy(data, input, size);
    if (size && input[size - 1] % 2 == 0)
        seal(data, size);
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    free(data);
    aether_file *file;
    aether_error err = {0};
    int rc = aether_file_open(path, &file, &err);
    if (rc) {
        MUST(!file && err.code == rc && err.message[0]);
        return 0;
    }
    walk(file, size);
    aether_file_close(file);
    return 0;
}
