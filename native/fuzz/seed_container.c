/* seed_container DIR: a few valid files for fuzz_container to start from. */
#include <stdio.h>
#include <stdlib.h>

#include "aether.h"

typedef struct {
    uint32_t kind, owner, dtype;
    const void *data;
    uint64_t size;
} part;

static void save(const char *dir, const char *name, uint32_t content, const part *parts, unsigned n) {
    char path[4096];
    aether_error err;
    aether_writer *w;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int rc = aether_writer_create(path, content, &w, &err);
    for (unsigned i = 0; !rc && i < n; i++) {
        rc = aether_writer_begin(w, parts[i].kind, parts[i].owner, parts[i].dtype, &err);
        rc = rc ? rc : aether_writer_append(w, parts[i].data, parts[i].size, NULL, &err);
        rc = rc ? rc : aether_writer_end(w, &err);
    }
    rc = rc ? rc : aether_writer_commit(w, &err);
    if (rc) {
        fprintf(stderr, "%s: %s\n", path, err.message);
        exit(1);
    }
}

int main(int argc, char **argv) {
    static const uint64_t indptr[] = {0, 2, 3, 3};
    static const uint32_t indices[] = {1, 2, 0};
    static const float weights[] = {1, 2, 3};
    static const part graph[] = {
        {AETHER_SECTION_META, 0, AETHER_U8, "{}", 2},
        {AETHER_SECTION_CSC_INDPTR, 0, AETHER_U64, indptr, sizeof indptr},
        {AETHER_SECTION_CSC_INDICES, 0, AETHER_U32, indices, sizeof indices},
        {AETHER_SECTION_EDGE_WEIGHT, 0, AETHER_F32, weights, sizeof weights},
        {AETHER_SECTION_ARRAY, 0, AETHER_BF16, "", 0},
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    save(argv[1], "graph", AETHER_CONTENT_GRAPH, graph, 5);
    save(argv[1], "features", AETHER_CONTENT_FEATURES, graph, 1);
    save(argv[1], "empty", AETHER_CONTENT_GRAPH, graph, 0);
    return 0;
}
