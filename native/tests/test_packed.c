/* A sample in bytes holds what the export functions give, and the rows of its nodes and edges. */
#include <string.h>

#include "typed_graph.h"

enum { HOPS = 2, SEEDS = 5, WIDTH = 3, ROWS = 400, BASE = 20, VERSIONS = 6, ROOM = 1 << 16 };

static float base[BASE * WIDTH], added[ROWS * WIDTH], versions[VERSIONS * WIDTH];
static uint32_t slots[ROWS], before[VERSIONS];
static uint64_t commits[VERSIONS];

static aether_rows rows_of(const float *data, uint64_t count) {
    return (aether_rows){data, count, WIDTH, WIDTH * sizeof *data, AETHER_F32, 0};
}

/* Row 3 had version 1 in commit 5 and version 2 in commit 9; row 25 version 4 in commit 7. */
static aether_versioned_rows make_rows(uint64_t commit) {
    for (int i = 0; i < BASE * WIDTH; i++)
        base[i] = (float)i;
    for (int i = 0; i < ROWS * WIDTH; i++)
        added[i] = (float)(BASE * WIDTH + i);
    for (int i = 0; i < VERSIONS * WIDTH; i++)
        versions[i] = -(float)i;
    slots[3] = 2, before[2] = 1, commits[2] = 9, commits[1] = 5, slots[25] = 4, commits[4] = 7;
    return (aether_versioned_rows){.base = rows_of(base, BASE),
                                   .added = rows_of(added, ROWS - BASE),
                                   .slots = slots,
                                   .before = before,
                                   .commits = commits,
                                   .versions = versions,
                                   .num_versions = VERSIONS,
                                   .commit = commit};
}

static float expected(uint64_t row, uint64_t column, uint64_t commit) {
    uint64_t version = 0;
    if (row == 3)
        version = commit >= 9 ? 2 : commit >= 5;
    else if (row == 25)
        version = commit >= 7 ? 4 : 0;
    return version ? -(float)(version * WIDTH + column) : (float)(row * WIDTH + column);
}

typedef struct sampled {
    uint64_t hop_nodes[TYPED_TYPES * (HOPS + 1)], hop_edges[TYPED_RELATIONS * HOPS];
    uint64_t nodes[TYPED_TYPES], edges[TYPED_RELATIONS];
} sampled;

/* Compare the bytes with the exports, part by part. */
static uint64_t check_bytes(const aether_sampler *s, const sampled *c, const aether_packing *p, uint64_t key,
                            const char *bytes, uint64_t size) {
    static int64_t node[ROOM], batch[ROOM], row[ROOM], col[ROOM], edge[ROOM];
    const uint64_t *head = (const uint64_t *)bytes, *lengths = head + 3;
    uint64_t at = 24 + 8 * (uint64_t)p->num_parts, found = 0, n;
    const int64_t *ids = NULL;
    aether_error err = {0};
    CHECK_EQ(head[0], key);
    CHECK_EQ(head[1], p->commit);
    CHECK_EQ(head[2], p->num_parts);
    for (uint32_t i = 0; i < p->num_parts; i++) {
        const aether_part *part = &p->parts[i];
        const char *own = bytes + at;
        if (part->what == AETHER_PART_NODES || part->what == AETHER_PART_TREES) {
            n = c->nodes[part->of];
            CHECK_OK(aether_sample_export_nodes(
                         s, part->of,
                         AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = n, .node = node), &err),
                     err);
            if (part->what == AETHER_PART_TREES)
                CHECK_OK(aether_sample_export_nodes(
                             s, part->of,
                             AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = n, .batch = batch),
                             &err),
                         err);
            ids = part->what == AETHER_PART_NODES ? (const int64_t *)own : ids;
            CHECK(memcmp(own, part->what == AETHER_PART_NODES ? node : batch, 8 * n) == 0);
        } else if (part->what == AETHER_PART_HOP_NODES) {
            n = HOPS + 1;
            CHECK(memcmp(own, c->hop_nodes + part->of * (HOPS + 1), 8 * n) == 0);
        } else if (part->what == AETHER_PART_HOP_EDGES) {
            n = HOPS;
            CHECK(memcmp(own, c->hop_edges + part->of * HOPS, 8 * n) == 0);
        } else if (part->what == AETHER_PART_VALUES) {
            n = lengths[i];
            for (uint64_t j = 0; j < n * WIDTH; j++)
                CHECK(((const float *)own)[j] ==
                      expected((uint64_t)ids[j / WIDTH], j % WIDTH, part->values->commit));
            CHECK(n % 2 == 0 || ((const float *)own)[n * WIDTH] == 0);
            found += n;
            at += (n * WIDTH * sizeof(float) + 7) / 8 * 8 - 8 * n;
        } else {
            n = c->edges[part->of];
            CHECK_OK(
                aether_sample_export_edges(s, part->of,
                                           AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = n,
                                                    .row = row, .col = col, .edge = edge),
                                           &err),
                err);
            const int64_t *of = part->what == AETHER_PART_ROWS   ? row
                                : part->what == AETHER_PART_COLS ? col
                                                                 : edge;
            ids = part->what == AETHER_PART_EDGES ? (const int64_t *)own : ids;
            CHECK(memcmp(own, of, 8 * n) == 0);
        }
        CHECK_EQ(lengths[i], n);
        at += 8 * n;
    }
    CHECK_EQ(at, size);
    return found;
}

static uint32_t all_parts(bool disjoint, const aether_versioned_rows *rows, aether_part *out) {
    uint32_t n = 0;
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        out[n++] = (aether_part){AETHER_PART_NODES, t, NULL};
        if (disjoint)
            out[n++] = (aether_part){AETHER_PART_TREES, t, NULL};
        out[n++] = (aether_part){AETHER_PART_HOP_NODES, t, NULL};
        out[n++] = (aether_part){AETHER_PART_VALUES, 0, rows};
    }
    for (uint32_t r = 0; r < TYPED_RELATIONS; r++) {
        for (uint32_t what = AETHER_PART_ROWS; what <= AETHER_PART_HOP_EDGES; what++)
            out[n++] = (aether_part){what, r, NULL};
        out[n++] = (aether_part){AETHER_PART_VALUES, 0, rows};
    }
    return n;
}

TEST(bytes_hold_what_is_exported) {
    static char bytes[ROOM], again[ROOM];
    uint64_t rows = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        typed_graph *g = typed_make(seed, (unsigned)(seed % 2));
        const bool disjoint = seed % 3 == 0;
        aether_versioned_rows values = make_rows(seed % 12);
        aether_part parts[4 * TYPED_TYPES + 5 * TYPED_RELATIONS];
        int64_t ids[TYPED_TYPES][SEEDS], fanouts[TYPED_RELATIONS * HOPS];
        aether_seeds seeds[TYPED_TYPES];
        aether_error err = {0};
        sampled c;
        uint64_t state = seed, size = 0;
        for (int i = 0; i < TYPED_RELATIONS * HOPS; i++)
            fanouts[i] = 3;
        for (uint32_t t = 0; t < TYPED_TYPES; t++) {
            seeds[t] = (aether_seeds){.ids = ids[t], .count = g->num_nodes[t] ? SEEDS : 0};
            for (int i = 0; g->num_nodes[t] && i < SEEDS; i++)
                ids[t][i] = (int64_t)(test_random(&state) % g->num_nodes[t]);
        }
        const aether_sample_options options = {.key = seed,
                                               .fanouts = fanouts,
                                               .num_hops = HOPS,
                                               .flags = disjoint ? AETHER_SAMPLE_DISJOINT : 0,
                                               .num_threads = 1};
        const aether_packing p = {parts, all_parts(disjoint, &values, parts), HOPS, seed + 7,
                                  AE_SIZED(aether_sample_counts, c.hop_nodes, c.hop_edges, c.nodes, c.edges)};
        aether_sampler *s = NULL;
        REQUIRE_OK(
            aether_sampler_create_typed(
                AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES), &s, &err),
            err);
        memset(bytes, 0x55, sizeof bytes);
        REQUIRE_OK(aether_sample_packed(s, seeds, &options, &p, bytes, 8, &size, &err), err);
        CHECK(size > 8 && size <= ROOM);
        CHECK_EQ(bytes[0], 0x55);
        CHECK_CODE(aether_sample_pack(s, seed, &p, bytes, size - 8, &err), AETHER_E_INVALID);
        CHECK_OK(aether_sample_pack(s, seed, &p, bytes, size, &err), err);
        CHECK_EQ(bytes[size], 0x55);
        rows += check_bytes(s, &c, &p, seed, bytes, size);
        REQUIRE_OK(aether_sample_packed(s, seeds, &options, &p, again, ROOM, &size, &err), err);
        CHECK(memcmp(bytes, again, size) == 0);
        aether_sampler_destroy(s);
        typed_free(g);
    }
    CHECK(rows > 2000);
}

TEST(parts_and_rows_that_do_not_exist_are_refused) {
    static char bytes[ROOM];
    typed_graph *g = typed_make(1, 0);
    aether_error err = {0};
    aether_sampler *s = NULL;
    sampled c;
    uint64_t size = 0;
    int64_t all[TYPED_NODES], fanouts[TYPED_RELATIONS * HOPS] = {0};
    uint32_t largest = 0;
    aether_seeds seeds[TYPED_TYPES] = {{0}};
    for (uint32_t t = 1; t < TYPED_TYPES; t++)
        largest = g->num_nodes[t] > g->num_nodes[largest] ? t : largest;
    for (int i = 0; i < TYPED_NODES; i++)
        all[i] = i;
    seeds[largest] = (aether_seeds){.ids = all, .count = g->num_nodes[largest]};
    const aether_sample_options options = {.fanouts = fanouts, .num_hops = HOPS, .num_threads = 1};
    aether_versioned_rows values = make_rows(9), other = values;
    aether_part parts[2] = {{AETHER_PART_NODES, largest, NULL}, {AETHER_PART_VALUES, 0, &values}};
    aether_packing p = {parts, 2, HOPS, 1,
                        AE_SIZED(aether_sample_counts, c.hop_nodes, c.hop_edges, c.nodes, c.edges)};
    REQUIRE_OK(
        aether_sampler_create_typed(
            AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES), &s, &err),
        err);
#define DRAW() aether_sample_packed(s, seeds, &options, &p, bytes, ROOM, &size, &err)
    CHECK_OK(DRAW(), err);
    values.added.num_rows = 1; /* of base and added together, more than one row is missing */
    values.base.num_rows = 0, values.slots = NULL;
    CHECK_CODE(DRAW(), AETHER_E_RANGE);
    values.base.num_rows = 1;
    CHECK_CODE(DRAW(), AETHER_E_RANGE);
    values = other, slots[3] = VERSIONS;
    CHECK_CODE(DRAW(), AETHER_E_CORRUPT);
    slots[3] = 5, before[5] = 5, commits[5] = 100; /* a version before itself */
    CHECK_CODE(DRAW(), AETHER_E_EXPIRED);
    before[5] = 0, slots[3] = 4, commits[4] = 99, before[4] = 5; /* and one before that is later */
    CHECK_CODE(DRAW(), AETHER_E_EXPIRED);
    slots[3] = 0, commits[4] = 7, before[4] = 0, values.added.row_items++;
    CHECK_CODE(DRAW(), AETHER_E_INVALID);
    values = other, values.base.dtype = 0;
    CHECK_CODE(DRAW(), AETHER_E_INVALID);
    values = other, parts[1].values = NULL;
    CHECK_CODE(DRAW(), AETHER_E_INVALID);
    static const uint32_t wrong[][2] = {{0, 0},
                                        {9, 0},
                                        {AETHER_PART_NODES, TYPED_TYPES},
                                        {AETHER_PART_EDGES, TYPED_RELATIONS},
                                        {AETHER_PART_TREES, 0}};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        parts[0] = (aether_part){wrong[i][0], wrong[i][1], NULL};
        if (wrong[i][0] == AETHER_PART_TREES)
            parts[0].of = largest;
        CHECK_CODE(DRAW(), AETHER_E_INVALID);
    }
    aether_sampler_destroy(s);
    typed_free(g);
}

TEST_MAIN()
