/* Groups of samples against the same samples made one by one: lists in memory and in a
 * file, two node types, exclusion, errors. */
#include "io_file.h"
#include "sample/group.h"

#define USERS   3000
#define ITEMS   700
#define EDGES   40000
#define HOPS    3
#define MEMBERS 6

static const uint64_t num_nodes[] = {USERS, ITEMS};
static const uint32_t ends[3][2] = {{0, 1}, {1, 0}, {0, 0}};

static char path_memory[128];

static const char *lists_path(void) {
    return test_path(path_memory, sizeof path_memory, "lists");
}

typedef struct graph {
    uint64_t *indptr[3];
    uint32_t *indices[3];
    uint64_t indptr_at[3], indices_at[3];
    aether_topology *ram[3], *paged[3];
    aether_io *io;
} graph;

static uint64_t put(FILE *f, const void *data, uint64_t size) {
    uint64_t at = ((uint64_t)ftell(f) + 63) & ~(uint64_t)63;
    if (fseek(f, (long)at, SEEK_SET) || fwrite(data, 1, size, f) != size)
        abort();
    return at;
}

static aether_lists lists_of(const graph *g, uint32_t r) {
    return (aether_lists){
        num_nodes[ends[r][0]], num_nodes[ends[r][1]], EDGES, g->indptr[r], g->indices[r], NULL, 4, 8};
}

/* Lists of random lengths; the last node of each type has a very long one. */
static void make_lists(graph *g, uint32_t r, uint64_t *seed, FILE *f) {
    const aether_lists l = lists_of(g, r);
    const uint64_t n = l.num_major;
    g->indptr[r] = calloc(n + 1, 8);
    g->indices[r] = calloc(EDGES, 4);
    for (uint64_t v = 0; v < n; v++)
        g->indptr[r][v + 1] = g->indptr[r][v] + test_random(seed) % (EDGES / n);
    g->indptr[r][n] = EDGES;
    for (uint64_t e = 0; e < EDGES; e++)
        g->indices[r][e] = (uint32_t)(test_random(seed) % (e % 9 ? l.num_minor : 20));
    g->indptr_at[r] = put(f, g->indptr[r], 8 * (n + 1));
    g->indices_at[r] = put(f, g->indices[r], 4 * EDGES);
}

static graph make_graph(void) {
    graph g = {0};
    uint64_t seed = 3;
    FILE *f = fopen(lists_path(), "wb");
    for (uint32_t r = 0; r < 3; r++)
        make_lists(&g, r, &seed, f);
    fclose(f);
    if (aether_io_open(lists_path(), NULL, &g.io, NULL))
        abort();
    for (uint32_t r = 0; r < 3; r++) {
        const aether_lists l = lists_of(&g, r);
        if (aether_topology_create(&l, &g.ram[r], NULL) ||
            aether_topology_create_paged(
                &l, AE_SIZED(aether_lists_in_file, g.io, g.indptr_at[r], g.indices_at[r]), NULL, &g.paged[r],
                NULL))
            abort();
    }
    return g;
}

static void free_graph(graph *g) {
    for (uint32_t r = 0; r < 3; r++) {
        aether_topology_destroy(g->ram[r]);
        aether_topology_destroy(g->paged[r]);
        free(g->indptr[r]);
        free(g->indices[r]);
    }
    aether_io_close(g->io);
}

static void relations_of(aether_topology *const *t, aether_relation *out) {
    for (uint32_t r = 0; r < 3; r++)
        out[r] = (aether_relation){.topology = t[r], .from = ends[r][0], .to = ends[r][1]};
}

typedef struct counts {
    uint64_t hop_nodes[2 * (HOPS + 1)], hop_edges[3 * HOPS], nodes[2], edges[3];
} counts;

static void compare(const aether_sampler *a, const aether_sampler *b, const counts *x, const counts *y,
                    bool disjoint) {
    aether_error err = {0};
    CHECK(!memcmp(x, y, sizeof *x));
    for (uint32_t t = 0; t < 2; t++) {
        const uint64_t n = x->nodes[t];
        int64_t *one = calloc(4 * n + 1, 8), *batch = disjoint ? one + 2 * n : NULL;
        CHECK_OK(aether_sample_export_nodes(a, t,
                                            AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = n,
                                                     .node = one, .batch = batch),
                                            &err),
                 err);
        CHECK_OK(aether_sample_export_nodes(b, t,
                                            AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = n,
                                                     .node = one + n, .batch = batch ? batch + n : NULL),
                                            &err),
                 err);
        CHECK(!memcmp(one, one + n, 8 * n));
        CHECK(!batch || !memcmp(batch, batch + n, 8 * n));
        free(one);
    }
    for (uint32_t r = 0; r < 3; r++) {
        const uint64_t n = x->edges[r];
        int64_t *one = calloc(6 * n + 1, 8), *two = one + 3 * n;
        CHECK_OK(aether_sample_export_edges(a, r,
                                            AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = n,
                                                     .row = one, .col = one + n, .edge = one + 2 * n),
                                            &err),
                 err);
        CHECK_OK(aether_sample_export_edges(b, r,
                                            AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = n,
                                                     .row = two, .col = two + n, .edge = two + 2 * n),
                                            &err),
                 err);
        CHECK(!memcmp(one, two, 24 * n));
        free(one);
    }
}

typedef struct batches {
    int64_t ids[MEMBERS][2][64];
    aether_seeds seeds[MEMBERS][2];
    aether_sample_options options[MEMBERS];
    uint64_t holes[40];
    aether_excluded exclude[3];
    int64_t fanouts[3 * HOPS];
} batches;

/* Member 2 has no seeds at all; 3 leaves edges out. */
static void fill(batches *b, uint32_t flags, uint64_t seed) {
    for (uint32_t i = 0; i < 3 * HOPS; i++)
        b->fanouts[i] = i == 4 ? -1 : (int64_t)(test_random(&seed) % 6);
    for (uint64_t i = 0; i < 40; i++)
        b->holes[i] = EDGES - 400 + i * 7;
    b->exclude[2] = (aether_excluded){b->holes, 40};
    for (uint32_t m = 0; m < MEMBERS; m++) {
        for (uint32_t t = 0; t < 2; t++) {
            const uint64_t n = m == 2 ? 0 : 1 + test_random(&seed) % 64;
            for (uint64_t i = 0; i < n; i++)
                b->ids[m][t][i] = (int64_t)(i == 0 ? num_nodes[t] - 1 : test_random(&seed) % num_nodes[t]);
            b->seeds[m][t] = (aether_seeds){.ids = b->ids[m][t], .count = n};
        }
        b->options[m] = (aether_sample_options){.key = seed + m,
                                                .fanouts = b->fanouts,
                                                .num_hops = HOPS,
                                                .flags = flags,
                                                .num_threads = 1,
                                                .exclude = m == 3 ? b->exclude : NULL};
    }
}

static aether_group *make_group(aether_topology *const *t, uint32_t threads) {
    aether_relation relations[3];
    aether_error err = {0};
    aether_group *g = NULL;
    relations_of(t, relations);
    const aether_group_options o = {.capacity = MEMBERS, .num_threads = threads};
    CHECK_OK(aether_group_create(AE_SIZED(aether_schema, relations, num_nodes, 3, 2), &o, &g, &err), err);
    return g;
}

static aether_sampler *make_sampler(aether_topology *const *t) {
    aether_relation relations[3];
    aether_sampler *s = NULL;
    relations_of(t, relations);
    CHECK_CODE(aether_sampler_create_typed(AE_SIZED(aether_schema, relations, num_nodes, 3, 2), &s, NULL),
               AETHER_OK);
    return s;
}

static void check_group(aether_group *g, aether_sampler *alone, batches *b) {
    aether_error err = {0};
    uint32_t failed;
    const bool disjoint = b->options[0].flags & AETHER_SAMPLE_DISJOINT;
    REQUIRE_OK(aether_group_sample(g, &b->seeds[0][0], b->options, MEMBERS, &failed, NULL, &err), err);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const uint32_t m = MEMBERS - 1 - i; /* in any order */
        counts x = {0}, y = {0};
        aether_sampler *s;
        REQUIRE_OK(aether_group_take(
                       g, m, AE_SIZED(aether_sample_counts, x.hop_nodes, x.hop_edges, x.nodes, x.edges), &s,
                       NULL, &err),
                   err);
        REQUIRE_OK(aether_sample_typed(
                       alone, b->seeds[m], &b->options[m],
                       AE_SIZED(aether_sample_counts, y.hop_nodes, y.hop_edges, y.nodes, y.edges), &err),
                   err);
        compare(s, alone, &x, &y, disjoint);
    }
}

TEST(a_group_makes_the_samples_that_each_makes_alone) {
    static const uint32_t flags[] = {0,
                                     AETHER_SAMPLE_REPLACE,
                                     AETHER_SAMPLE_DISJOINT,
                                     AETHER_SAMPLE_INDUCED,
                                     AETHER_SAMPLE_INDUCED | AETHER_SAMPLE_DISJOINT,
                                     AETHER_SAMPLE_LAYERED | AETHER_SAMPLE_DISJOINT};
    graph g = make_graph();
    static batches b;
    for (uint32_t threads = TEST_ONLY_RACES ? 3 : 1; threads <= 3; threads += 2)
        for (int where = 0; where < 2; where++) {
            aether_group *group = make_group(where ? g.paged : g.ram, threads);
            aether_sampler *alone = make_sampler(g.ram), *paged = make_sampler(g.paged);
            for (uint32_t i = 0; i < 6; i++) {
                fill(&b, flags[i], i * 17);
                check_group(group, alone, &b);
                if (!TEST_ONLY_RACES)
                    check_group(group, paged, &b);
            }
            aether_group_destroy(group);
            aether_sampler_destroy(alone);
            aether_sampler_destroy(paged);
        }
    free_graph(&g);
}

/* Values of the edges of each sample, before it is taken, are those by the ids that it then has. */
TEST(values_come_with_the_edges_of_a_group) {
    graph g = make_graph();
    static batches b;
    aether_error err = {0};
    aether_group *group = make_group(g.paged, 2);
    aether_values *values; /* the ids of relation 0 */
    CHECK_OK(aether_values_open(g.io, g.indices_at[0], EDGES, 4, &values, &err), err);
    for (uint32_t flags = 0; flags <= AETHER_SAMPLE_DISJOINT; flags += AETHER_SAMPLE_DISJOINT) {
        uint64_t numbers[MEMBERS], hashes[MEMBERS], total = 0, at = 0, wrong = 0;
        uint32_t failed;
        fill(&b, flags, 5);
        REQUIRE_OK(aether_group_sample(group, &b.seeds[0][0], b.options, MEMBERS, &failed, NULL, &err), err);
        REQUIRE_OK(aether_group_edges(group, 0, numbers, hashes, &err), err);
        for (uint32_t m = 0; m < MEMBERS; m++)
            total += numbers[m];
        uint32_t *out = calloc(total + 1, 4);
        void *outs[MEMBERS];
        uint64_t room[MEMBERS], none[MEMBERS] = {0};
        for (uint32_t m = 0, first = 0; m < MEMBERS; first += (uint32_t)numbers[m++]) {
            outs[m] = out + first;
            room[m] = numbers[m];
        }
        room[MEMBERS - 1]--;
        CHECK_CODE(aether_group_gather(group, 0, values, outs, room, NULL, &err), AETHER_E_INVALID);
        room[MEMBERS - 1]++;
        CHECK_CODE(aether_group_gather(group, 1, values, outs, none, NULL, &err), AETHER_E_INVALID);
        CHECK_CODE(aether_group_gather(group, 3, values, outs, room, NULL, &err), AETHER_E_INVALID);
        CHECK_OK(aether_group_gather(group, 0, values, outs, room, NULL, &err), err);
        for (uint32_t m = 0; m < MEMBERS; m++) {
            counts x = {0};
            aether_sampler *s;
            REQUIRE_OK(
                aether_group_take(group, m,
                                  AE_SIZED(aether_sample_counts, x.hop_nodes, x.hop_edges, x.nodes, x.edges),
                                  &s, NULL, &err),
                err);
            int64_t *ids = calloc(x.edges[0] + 1, 8);
            CHECK_EQ(x.edges[0], numbers[m]);
            CHECK_OK(aether_sample_export_edges(s, 0,
                                                AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                                         .num_edges = numbers[m], .edge = ids),
                                                &err),
                     err);
            CHECK_EQ(aether_hash_ids(ids, numbers[m]), hashes[m]);
            for (uint64_t i = 0; i < numbers[m]; i++)
                wrong += out[at++] != g.indices[0][ids[i]];
            free(ids);
        }
        CHECK(total > 100);
        CHECK_EQ(wrong, 0);
        free(out);
    }
    fill(&b, AETHER_SAMPLE_INDUCED, 5);
    uint64_t numbers[MEMBERS], hashes[MEMBERS];
    uint32_t failed;
    REQUIRE_OK(aether_group_sample(group, &b.seeds[0][0], b.options, MEMBERS, &failed, NULL, &err), err);
    CHECK_CODE(aether_group_edges(group, 0, numbers, hashes, &err), AETHER_E_UNSUPPORTED);
    aether_values_close(values);
    aether_group_destroy(group);
    free_graph(&g);
}

TEST(what_is_wrong_with_one_sample_is_told) {
    graph g = make_graph();
    static batches b;
    aether_error err = {0};
    uint32_t failed;
    counts x;
    aether_sampler *s;
    aether_group *group = make_group(g.paged, 1);
    fill(&b, 0, 9);
    b.ids[4][1][0] = ITEMS;
    CHECK_CODE(aether_group_sample(group, &b.seeds[0][0], b.options, MEMBERS, &failed, NULL, &err),
               AETHER_E_RANGE);
    CHECK_EQ(failed, 4);
    CHECK_CODE(aether_group_take(group, 0,
                                 AE_SIZED(aether_sample_counts, x.hop_nodes, x.hop_edges, x.nodes, x.edges),
                                 &s, NULL, &err),
               AETHER_E_INVALID);
    b.ids[4][1][0] = 0;
    CHECK_OK(aether_group_sample(group, &b.seeds[0][0], b.options, MEMBERS, &failed, NULL, &err), err);
    CHECK_OK(aether_group_take(group, 1,
                               AE_SIZED(aether_sample_counts, x.hop_nodes, x.hop_edges, x.nodes, x.edges), &s,
                               NULL, &err),
             err);
    CHECK_CODE(aether_group_take(group, 1,
                                 AE_SIZED(aether_sample_counts, x.hop_nodes, x.hop_edges, x.nodes, x.edges),
                                 &s, NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_group_take(group, MEMBERS,
                                 AE_SIZED(aether_sample_counts, x.hop_nodes, x.hop_edges, x.nodes, x.edges),
                                 &s, NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_group_sample(group, &b.seeds[0][0], b.options, MEMBERS + 1, &failed, NULL, &err),
               AETHER_E_INVALID);
    b.options[3].flags = AETHER_SAMPLE_REPLACE;
    CHECK_CODE(aether_group_sample(group, &b.seeds[0][0], b.options, MEMBERS, &failed, NULL, &err),
               AETHER_E_INVALID);
    aether_group_destroy(group);
    free_graph(&g);
}

static int32_t fail_all(uint64_t offset, int32_t result) {
    (void)offset, (void)result;
    return -EIO;
}

TEST(a_failing_disk_ends_a_group_and_the_next_one_works) {
    graph g = make_graph();
    static batches b;
    aether_error err = {0};
    uint32_t failed;
    aether_group *group = make_group(g.paged, 1);
    aether_sampler *alone = make_sampler(g.ram);
    fill(&b, 0, 4);
    ae_io_set_hooks(&(ae_io_hooks){.result = fail_all});
    CHECK_CODE(aether_group_sample(group, &b.seeds[0][0], b.options, MEMBERS, &failed, NULL, &err),
               AETHER_E_IO);
    ae_io_set_hooks(NULL);
    check_group(group, alone, &b);
    aether_group_destroy(group);
    aether_sampler_destroy(alone);
    free_graph(&g);
}

TEST(taking_the_next_sample_releases_the_last) {
    graph g = make_graph();
    static batches b;
    aether_error err = {0};
    uint32_t failed;
    counts x;
    aether_sampler *s;
    aether_group *group = make_group(g.paged, 1);
    fill(&b, 0, 5);
    CHECK_OK(aether_group_sample(group, &b.seeds[0][0], b.options, MEMBERS, &failed, NULL, &err), err);
    const uint64_t full = aether_group_memory(group);
    for (uint32_t i = 0; i < MEMBERS; i++)
        CHECK_OK(aether_group_take(group, i,
                                   AE_SIZED(aether_sample_counts, x.hop_nodes, x.hop_edges, x.nodes, x.edges),
                                   &s, NULL, &err),
                 err);
    CHECK(aether_sampler_memory(s) > 100000);
    aether_group_release(group);
    aether_group_release(group);
    CHECK(aether_sampler_memory(s) < 100000);
    CHECK(aether_group_memory(group) < full);
    aether_group_destroy(group);
    free_graph(&g);
}

TEST_MAIN()
