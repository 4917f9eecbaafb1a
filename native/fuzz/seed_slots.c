/* seed_slots DIR: a few valid tables of live rows for fuzz_slots to start from. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aether/live.h"

static void save(const char *dir, const char *name, aether_table_info info) {
    char path[4096], rows[64] = {1, 2, 3};
    const int64_t ids[2] = {0, 2};
    uint64_t written;
    aether_error err;
    aether_table *t;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
    int rc = aether_table_create(path, &info, &t, &err);
    if (!rc)
        aether_table_describe(t, &info);
    rc = rc ? rc : aether_table_put(t, ids, 2, rows, 2 * info.row_bytes, NULL, &written, NULL, &err);
    aether_table_close(t);
    if (rc) {
        fprintf(stderr, "%s: %s\n", path, err.message);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    save(argv[1], "floats",
         (aether_table_info){.num_rows = 3, .num_dims = 1, .shape = {3}, .dtype = AETHER_F32});
    save(argv[1], "times",
         (aether_table_info){.num_rows = 4, .num_dims = 2, .shape = {2, 2}, .dtype = AETHER_F16, .tick = 1});
    save(argv[1], "scaled",
         (aether_table_info){
             .num_rows = 3, .num_dims = 1, .shape = {5}, .dtype = AETHER_I8, .flags = AETHER_TABLE_SCALED});
    return 0;
}
