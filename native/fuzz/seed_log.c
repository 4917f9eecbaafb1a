/* seed_log DIR: inputs for fuzz_log to start from, made of a log of a few commits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/log.h"
#include "log/segment.h"

enum { SIZE = 8192, FRAMES = SIZE - AE_LOG_HEADER_BYTES };

static int ignore(void *user, const ae_log_commit *commit, aether_error *err) {
    (void)user;
    (void)commit;
    (void)err;
    return AETHER_OK;
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* Remove the log: where it stays, seeds cannot be made there again. */
static void remove_log(const char *dir, const char *segment) {
    char path[4096];
    snprintf(path, sizeof path, "%s/NEWEST", dir);
    remove(path);
    remove(segment);
}

/* Commit a few times to a log in `dir` and take the bytes of its segment away. */
static void make_segment(const char *dir, uint8_t *bytes) {
    static const uint8_t payload[700];
    const ae_log_options options = {.segment_size = SIZE, .durability = AE_LOG_SYNC};
    char path[4096];
    aether_error err;
    ae_log *log;
    uint64_t lsn;
    snprintf(path, sizeof path, "%s/wal-0000000000000001.log", dir);
    remove_log(dir, path); /* of an earlier version of this program */
    int rc = ae_log_open(dir, &options, 1, ignore, NULL, &log, &err);
    if (rc)
        fail(err.message);
    for (uint32_t i = 0; i < 4 && !rc; i++)
        rc = ae_log_put(log, payload, 230 * i, i, &lsn, &err);
    if (rc)
        fail(err.message);
    ae_log_close(log);
    FILE *file = fopen(path, "rb");
    if (!file || fread(bytes, 1, SIZE, file) != SIZE)
        fail(path);
    fclose(file);
    remove_log(dir, path);
}

static void save(const char *dir, const char *name, uint8_t mode, const uint8_t *bytes, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(&mode, 1, 1, file) != 1 || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        fail(path);
}

int main(int argc, char **argv) {
    static uint8_t bytes[SIZE];
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    make_segment(argv[1], bytes);
    save(argv[1], "file", 0, bytes, SIZE);
    save(argv[1], "frames", 3, bytes + AE_LOG_HEADER_BYTES, FRAMES);
    bytes[AE_LOG_HEADER_BYTES + 600] ^= 1; /* in the second frame, which the fourth knows of */
    save(argv[1], "damaged", 0, bytes, SIZE);
    return 0;
}
