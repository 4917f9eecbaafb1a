/*
 * Walks, fan-outs and their tables over arbitrary lists: damaged indptr and
 * indices, any starts, weights and settings. Whatever the bytes say, a call fills
 * its rows with nodes (or -1) or returns an error.
 */
#include <stdlib.h>
#include <string.h>

#include "aether.h"
#include "core/options.h"

#define MAX_NODES 64
#define MAX_EDGES 512
#define WALKS     40
#define LENGTH    9

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static uint8_t byte(input *in) {
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

/* Mostly small steps, so that many inputs are nearly valid graphs; lists that fall
 * back overlap others. */
static void fill_lists(input *in, uint64_t *indptr, uint32_t *indices, float *weights, aether_lists *lists) {
    uint64_t at = 0;
    for (uint64_t v = 0; v < lists->num_major; v++) {
        indptr[v] = at;
        uint8_t step = byte(in);
        at = step == 255 ? (uint64_t)byte(in) << 56 : step == 254 ? at / 2 : at + step % 60;
    }
    indptr[0] = 0;
    indptr[lists->num_major] = lists->num_edges;
    for (uint64_t e = 0; e < lists->num_edges; e++) {
        indices[e] = byte(in) % (lists->num_minor + 1);
        weights[e] = (float)byte(in) - 1;
    }
}

static void check_rows(const int64_t *rows, uint64_t n, uint64_t num_nodes) {
    for (uint64_t i = 0; i < n; i++)
        if (rows[i] < -1 || rows[i] >= (int64_t)num_nodes)
            abort();
}

static double rate(uint8_t x) {
    static const double rates[] = {1, 0.25, 4, 1e-9, 1e300, 0, 1e-320, 0.5};
    return rates[x % 8];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    uint64_t indptr[MAX_NODES + 1], table[MAX_EDGES] = {0};
    uint32_t indices[MAX_EDGES], members[MAX_EDGES] = {0};
    float weights[MAX_EDGES];
    static int64_t rows[WALKS * (LENGTH + 1)];
    uint64_t n = 1 + byte(&in) % MAX_NODES;
    aether_lists lists = {n, n, byte(&in) * 2u, indptr, indices, NULL, 4, 8};
    aether_walk_options o = {.length = LENGTH, .num_threads = 1};
    o.key = byte(&in);
    o.p = rate(byte(&in));
    o.q = rate(byte(&in));
    o.restart = byte(&in) % 4 / 3.0;
    o.flags = byte(&in) % 2;
    uint8_t tables = byte(&in);
    int64_t starts[WALKS];
    for (int i = 0; i < WALKS; i++)
        starts[i] = (int64_t)(byte(&in) % (n + (tables >> 7)));
    fill_lists(&in, indptr, indices, weights, &lists);

    aether_topology *t = NULL;
    if (aether_topology_create(&lists, &t, NULL) == 0) {
        if (tables & 1 && aether_alias_build(t, weights, AETHER_F32, table, lists.num_edges, NULL, NULL) == 0)
            o.alias = table;
        if (tables & 2 && aether_members_build(t, members, lists.num_edges, NULL, NULL) == 0)
            o.members = members;
        if (aether_random_walk(t, starts, WALKS, &o, rows, NULL, NULL) == 0)
            check_rows(rows, WALKS * (LENGTH + 1), n);
        if (aether_fanout(t, starts, WALKS,
                          AE_SIZED(aether_fanout_options, .key = o.key, .k = tables % LENGTH,
                                   .flags = tables & 1, .num_threads = 1),
                          rows, NULL, NULL) == 0)
            check_rows(rows, WALKS * (uint64_t)(tables % LENGTH), n);
    }
    aether_topology_destroy(t);
    return 0;
}
