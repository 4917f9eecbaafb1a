/* One sampler, or one group, that goes on from graph to graph makes the samples that each graph's
 * own one makes. */
#include <string.h>

#include "typed_graph.h"
#include "typed_reference.h"

enum { HOPS = 3, SEEDS = 6, MEMBERS = 3 };

typedef struct request {
    int64_t ids[TYPED_TYPES][SEEDS], until[SEEDS], fanouts[TYPED_RELATIONS * HOPS];
    aether_seeds seeds[TYPED_TYPES];
    aether_sample_options options;
} request;

/* `seeds` decides about the seeds and the key, `kind` about the rest. */
static void make_request(const uint64_t *num_nodes, uint64_t kind, uint64_t seeds, request *r) {
    static const uint32_t flags[] = {0, AETHER_SAMPLE_REPLACE, AETHER_SAMPLE_DISJOINT, AETHER_SAMPLE_INDUCED};
    uint64_t state = kind;
    for (int i = 0; i < TYPED_RELATIONS * HOPS; i++)
        r->fanouts[i] = (int64_t)(test_random(&state) % 5) - 1;
    r->options = (aether_sample_options){
        .key = seeds, .fanouts = r->fanouts, .num_hops = HOPS, .flags = flags[kind % 4], .num_threads = 1};
    state = seeds;
    for (int i = 0; i < SEEDS; i++)
        r->until[i] = typed_times_i64[test_random(&state) % TYPED_NUM_TIMES];
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        r->seeds[t] = (aether_seeds){.ids = r->ids[t], .count = num_nodes[t] ? SEEDS : 0};
        for (int i = 0; num_nodes[t] && i < SEEDS; i++)
            r->ids[t][i] = (int64_t)(test_random(&state) % num_nodes[t]);
        if (r->options.flags & AETHER_SAMPLE_DISJOINT)
            r->seeds[t].until = r->until;
    }
}

static aether_sampler *make_sampler(const typed_graph *g) {
    aether_sampler *s = NULL;
    CHECK_CODE(
        aether_sampler_create_typed(
            AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES), &s, NULL),
        AETHER_OK);
    return s;
}

/* Graph i has weights, times, both or neither. */
static void make_graphs(uint64_t first, typed_graph *out[2]) {
    for (uint64_t i = 0; i < 2; i++)
        out[i] = typed_make(first + i, (unsigned)((first + i) % 4));
}

static void free_graphs(typed_graph *g[2]) {
    typed_free(g[0]);
    typed_free(g[1]);
}

TEST(a_sampler_in_turns_on_two_graphs) {
    uint64_t edges = 0;
    for (uint64_t first = 0; first < 24; first++) {
        typed_graph *g[2];
        make_graphs(first, g);
        aether_sampler *s = make_sampler(g[0]);
        for (uint64_t turn = 0; turn < 8; turn++) {
            const typed_graph *now = g[turn % 2];
            const typed_source source = {now->relations, now->num_nodes, TYPED_RELATIONS, TYPED_TYPES};
            aether_error err = {0};
            request r;
            make_request(now->num_nodes, turn / 2, first * 8 + turn, &r);
            CHECK_OK(aether_sampler_retarget(s,
                                             AE_SIZED(aether_schema, now->relations, now->num_nodes,
                                                      TYPED_RELATIONS, TYPED_TYPES),
                                             &err),
                     err);
            edges += tref_check(&source, s, r.seeds, &r.options);
        }
        aether_sampler_destroy(s);
        free_graphs(g);
    }
    CHECK(edges > 5000);
}

/* ---- groups and HGT ---- */

typedef struct counts {
    uint64_t hop_nodes[TYPED_TYPES * (HOPS + 1)], hop_edges[TYPED_RELATIONS * HOPS];
    uint64_t nodes[TYPED_TYPES], edges[TYPED_RELATIONS];
} counts;

/* Hash everything that can be exported: part by part, which must be the parts of the whole. */
static uint64_t digest(const aether_sampler *s, const counts *c) {
    uint64_t hashes[TYPED_TYPES + 3 * TYPED_RELATIONS], n = 0, nodes = 0, edges = 0, at = 0;
    aether_error err = {0};
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        nodes += c->nodes[t];
    for (uint32_t r = 0; r < TYPED_RELATIONS; r++)
        edges += c->edges[r];
    int64_t *all = calloc(nodes + 3 * edges + 1, sizeof *all);
    CHECK_OK(aether_sample_export_typed(s, nodes, edges, all, NULL, all + nodes, &err), err);
    CHECK_EQ(aether_sample_export_typed(s, nodes + 1, edges, all, NULL, all, &err), AETHER_E_INVALID);
    CHECK_EQ(aether_sample_export_typed(s, nodes, edges + 1, all, NULL, all, &err), AETHER_E_INVALID);
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        int64_t *node = calloc(c->nodes[t] + 1, sizeof *node);
        CHECK_OK(aether_sample_export_nodes(
                     s, t,
                     AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = c->nodes[t], .node = node),
                     &err),
                 err);
        CHECK(memcmp(node, all + at, c->nodes[t] * sizeof *node) == 0);
        at += c->nodes[t];
        hashes[n++] = aether_hash_ids(node, c->nodes[t]);
        free(node);
    }
    for (uint32_t r = 0; r < TYPED_RELATIONS; r++) {
        const uint64_t count = c->edges[r];
        int64_t *out = calloc(3 * count + 1, sizeof *out);
        CHECK_OK(
            aether_sample_export_edges(s, r,
                                       AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = count,
                                                .row = out, .col = out + count, .edge = out + 2 * count),
                                       &err),
            err);
        CHECK(memcmp(out, all + at, 3 * count * sizeof *out) == 0);
        at += 3 * count;
        hashes[n++] = aether_hash_ids(out, 3 * count);
        free(out);
    }
    free(all);
    return aether_hash_ids((const int64_t *)hashes, n);
}

static uint64_t sample_alone(const typed_graph *g, const request *r) {
    aether_sampler *s = make_sampler(g);
    counts c = {0};
    aether_error err = {0};
    CHECK_OK(aether_sample_typed(s, r->seeds, &r->options,
                                 AE_SIZED(aether_sample_counts, c.hop_nodes, c.hop_edges, c.nodes, c.edges),
                                 &err),
             err);
    uint64_t hash = digest(s, &c);
    aether_sampler_destroy(s);
    return hash;
}

static void check_group(aether_group *group, const typed_graph *g, uint64_t kind, uint64_t seeds) {
    static request r[MEMBERS];
    aether_seeds all[MEMBERS * TYPED_TYPES];
    aether_sample_options options[MEMBERS];
    aether_error err = {0};
    uint32_t failed;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        make_request(g->num_nodes, kind, seeds + m, &r[m]);
        r[m].options.fanouts = r[0].fanouts;
        options[m] = r[m].options;
        memcpy(all + m * TYPED_TYPES, r[m].seeds, sizeof r[m].seeds);
    }
    REQUIRE_OK(aether_group_sample(group, all, options, MEMBERS, &failed, NULL, &err), err);
    for (uint32_t m = 0; m + 1 < MEMBERS; m++) { /* the last one is never taken */
        counts c = {0};
        aether_sampler *s;
        REQUIRE_OK(aether_group_take(
                       group, m, AE_SIZED(aether_sample_counts, c.hop_nodes, c.hop_edges, c.nodes, c.edges),
                       &s, NULL, &err),
                   err);
        CHECK(digest(s, &c) == sample_alone(g, &r[m]));
    }
}

TEST(a_group_in_turns_on_two_graphs) {
    for (uint64_t first = 0; first < 8; first++) {
        typed_graph *g[2];
        make_graphs(first, g);
        const aether_group_options room = {.capacity = MEMBERS, .num_threads = 1 + first % 2};
        aether_group *group = NULL;
        aether_error err = {0};
        REQUIRE_OK(aether_group_create(AE_SIZED(aether_schema, g[0]->relations, g[0]->num_nodes,
                                                TYPED_RELATIONS, TYPED_TYPES),
                                       &room, &group, &err),
                   err);
        for (uint64_t turn = 0; turn < 8; turn++) {
            const typed_graph *now = g[turn % 2];
            CHECK_OK(aether_group_retarget(group,
                                           AE_SIZED(aether_schema, now->relations, now->num_nodes,
                                                    TYPED_RELATIONS, TYPED_TYPES),
                                           &err),
                     err);
            check_group(group, now, turn / 2, first * 100 + turn);
        }
        aether_group_destroy(group);
        free_graphs(g);
    }
}

TEST_ONE_THREAD(hgt_in_turns_on_two_graphs) {
    static const int64_t num_samples[TYPED_TYPES * 2] = {3, 5, 0, 4, 6, 2, 7, 1};
    for (uint64_t first = 0; first < 8; first++) {
        typed_graph *g[2];
        make_graphs(first, g);
        aether_sampler *shared = make_sampler(g[1]);
        for (uint64_t turn = 0; turn < 6; turn++) {
            const typed_graph *now = g[turn % 2];
            const aether_hgt_options o = {.key = turn, .num_samples = num_samples, .num_hops = 2};
            aether_sampler *s[2] = {shared, make_sampler(now)};
            uint64_t hashes[2];
            aether_error err = {0};
            request r;
            make_request(now->num_nodes, 0, first + turn, &r);
            CHECK_OK(aether_sampler_retarget(shared,
                                             AE_SIZED(aether_schema, now->relations, now->num_nodes,
                                                      TYPED_RELATIONS, TYPED_TYPES),
                                             &err),
                     err);
            for (int i = 0; i < 2; i++) {
                counts c = {0};
                CHECK_OK(aether_sample_hgt(
                             s[i], r.seeds, &o,
                             AE_SIZED(aether_sample_counts, c.hop_nodes, NULL, c.nodes, c.edges), &err),
                         err);
                hashes[i] = digest(s[i], &c);
            }
            CHECK(hashes[0] == hashes[1]);
            aether_sampler_destroy(s[1]);
        }
        aether_sampler_destroy(shared);
        free_graphs(g);
    }
}

/* ---- a graph that grows ---- */

/* Nodes in a ring, each with the one before and the one behind. */
typedef struct ring {
    uint64_t num_nodes, *indptr;
    uint32_t *indices;
    aether_topology *topology;
} ring;

static ring make_ring(uint64_t n) {
    ring r = {n, calloc(n + 1, sizeof *r.indptr), calloc(2 * n, sizeof *r.indices), NULL};
    for (uint64_t v = 0; v < n; v++) {
        r.indptr[v + 1] = 2 * (v + 1);
        r.indices[2 * v] = (uint32_t)((v + n - 1) % n);
        r.indices[2 * v + 1] = (uint32_t)((v + 1) % n);
    }
    const aether_lists lists = {n, n, 2 * n, r.indptr, r.indices, NULL, 4, 8};
    CHECK_CODE(aether_topology_create(&lists, &r.topology, NULL), AETHER_OK);
    return r;
}

static void free_ring(ring *r) {
    aether_topology_destroy(r->topology);
    free(r->indptr);
    free(r->indices);
}

/* From the last node, whose neighbours' ids the id map of a smaller graph has no room for. */
static void check_ring(aether_sampler *s, const ring *r) {
    enum { NODES = 9 };
    const int64_t seed = (int64_t)r->num_nodes - 1, fanouts[] = {-1, -1, -1, -1}, n = seed + 1;
    const int64_t wanted[NODES] = {seed, n - 2, 0, n - 3, 1, n - 4, 2, n - 5, 3};
    const aether_sample_options o = {.key = 1, .fanouts = fanouts, .num_hops = 4, .num_threads = 1};
    uint64_t hop_nodes[5], hop_edges[4], totals[2];
    int64_t node[NODES];
    aether_error err = {0};
    REQUIRE_OK(aether_sample(s, &seed, 1, &o,
                             AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, totals, totals + 1), &err),
               err);
    CHECK_EQ(totals[0], NODES);
    REQUIRE_OK(aether_sample_export_nodes(
                   s, 0,
                   AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = totals[0], .node = node),
                   &err),
               err);
    CHECK(memcmp(node, wanted, sizeof node) == 0);
}

TEST_ONE_THREAD(the_number_of_nodes_grows_and_shrinks) {
    static const uint64_t sizes[] = {10, 60, 5000, 1000000, 12, 1000001, 5000};
    aether_sampler *s = NULL;
    for (uint32_t i = 0; i < 7; i++) {
        ring r = make_ring(sizes[i]);
        const aether_relation relation = {.topology = r.topology};
        aether_error err = {0};
        if (s)
            CHECK_OK(aether_sampler_retarget(s, AE_SIZED(aether_schema, &relation, &sizes[i], 1, 1), &err),
                     err);
        else
            CHECK_OK(aether_sampler_create(r.topology, &s, &err), err);
        check_ring(s, &r);
        if (i < 6) { /* the sample does not outlive its graph */
            const aether_relation same = relation;
            CHECK_OK(aether_sampler_retarget(s, AE_SIZED(aether_schema, &same, &sizes[i], 1, 1), &err), err);
            CHECK_OK(aether_sample_export_nodes(
                         s, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 0), &err),
                     err);
            CHECK_CODE(aether_sample_export_nodes(
                           s, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 9), &err),
                       AETHER_E_INVALID);
        }
        free_ring(&r);
    }
    CHECK(aether_sampler_memory(s) < 1 << 20); /* follows the batch, not the graph */
    aether_sampler_destroy(s);
}

TEST(after_an_error_the_sampler_is_as_it_was) {
    ring r = make_ring(50), other = make_ring(51);
    const aether_relation relation = {.topology = r.topology}, wrong = {.topology = other.topology};
    const uint64_t num_nodes[] = {50, 50};
    const int64_t seed = 7, fanout = -1;
    const aether_sample_options o = {.key = 1, .fanouts = &fanout, .num_hops = 1, .num_threads = 1};
    uint64_t hop_nodes[2], hop_edges[1], totals[2];
    int64_t node[3];
    aether_error err = {0};
    aether_sampler *s = NULL;
    REQUIRE_OK(aether_sampler_create(r.topology, &s, &err), err);
    REQUIRE_OK(aether_sample(s, &seed, 1, &o,
                             AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, totals, totals + 1), &err),
               err);
    CHECK_CODE(aether_sampler_retarget(s, AE_SIZED(aether_schema, &wrong, num_nodes, 1, 1), &err),
               AETHER_E_INVALID);
    CHECK_HAS(err.message, "51");
    CHECK_CODE(aether_sampler_retarget(s, AE_SIZED(aether_schema, &relation, num_nodes, 1, 2), &err),
               AETHER_E_INVALID);
    CHECK_HAS(err.message, "make another");
    CHECK_CODE(aether_sampler_retarget(s, AE_SIZED(aether_schema, &relation, num_nodes, 0, 1), &err),
               AETHER_E_INVALID);
    CHECK_OK(aether_sample_export_nodes(
                 s, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = 3, .node = node), &err),
             err);
    CHECK_EQ(node[1], 6);
    aether_sampler_destroy(s);
    free_ring(&r);
    free_ring(&other);
}

TEST_MAIN()
