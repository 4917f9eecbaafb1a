/* Sampling by weight: what is never drawn, what is refused, and long lists against
 * typed_reference.h. test_weighted_chances.c looks at the distributions. */
#include <float.h>
#include <math.h>

#include "typed_reference.h"

/* Node 1 has the list under test, of `degree` nodes; node 0 a list of one. */
enum { MOST = 1200 };

typedef struct list {
    uint64_t indptr[MOST + 2], edge_ids[MOST + 1];
    uint32_t ids[MOST + 1];
    double doubles[MOST + 1];
    float floats[MOST + 1];
    uint64_t num_nodes;
    aether_relation relation;
    aether_topology *topology;
    aether_sampler *sampler;
} list;

/* `edge_ids`: they count down; else an edge's id is its position. */
static list *open_list(uint64_t degree, const double *weights, uint32_t dtype, bool edge_ids) {
    list *l = calloc(1, sizeof *l);
    aether_error err = {0};
    l->num_nodes = degree + 1;
    for (uint64_t p = 0; p <= degree; p++) {
        l->ids[p] = (uint32_t)p;
        l->edge_ids[p] = degree - p;
        uint64_t edge = edge_ids ? l->edge_ids[p] : p;
        l->doubles[edge] = p == 0 ? 1 : weights[p - 1];
        l->floats[edge] = (float)l->doubles[edge];
        l->indptr[p + 1] = p == 0 ? 1 : degree + 1;
    }
    aether_lists lists = {
        degree + 1, degree + 1, degree + 1, l->indptr, l->ids, edge_ids ? l->edge_ids : NULL, 4, 8};
    CHECK_OK(aether_topology_create(&lists, &l->topology, &err), err);
    l->relation = (aether_relation){.topology = l->topology,
                                    .weights = dtype == AETHER_F32 ? (void *)l->floats : (void *)l->doubles,
                                    .weight_dtype = dtype};
    CHECK_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &l->relation, &l->num_nodes, 1, 1),
                                         &l->sampler, &err),
             err);
    return l;
}

static void close_list(list *l) {
    aether_sampler_destroy(l->sampler);
    aether_topology_destroy(l->topology);
    free(l);
}

typedef struct drawn {
    int rc;
    uint64_t n, at[2 * MOST]; /* indices into the list */
    aether_error err;
} drawn;

static int sample(aether_sampler *s, int64_t seed, int64_t fanout, uint32_t flags, uint64_t key, drawn *d) {
    static int64_t row[2 * MOST], node[2 * MOST];
    const aether_seeds seeds = {&seed, 1, NULL, NULL};
    aether_sample_options o = {
        .key = key, .fanouts = &fanout, .num_hops = 1, .flags = flags, .num_threads = 1};
    uint64_t hop_nodes[2], hop_edges[1], num_nodes[1];
    d->n = 0;
    d->rc = aether_sample_typed(
        s, &seeds, &o, AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, num_nodes, &d->n), &d->err);
    if (d->rc)
        return d->rc;
    CHECK_OK(aether_sample_export_nodes(
                 s, 0,
                 AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = num_nodes[0], .node = node),
                 &d->err),
             d->err);
    CHECK_OK(
        aether_sample_export_edges(
            s, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = d->n, .row = row), &d->err),
        d->err);
    for (uint64_t i = 0; i < d->n; i++)
        d->at[i] = (uint64_t)node[row[i]] - 1;
    return AETHER_OK;
}

static const drawn *draw(const list *l, int64_t fanout, uint32_t flags, uint64_t key) {
    static drawn d;
    CHECK_OK(sample(l->sampler, 1, fanout, flags, key, &d), d.err);
    return &d;
}

/* ---- zeros ---- */

TEST(a_weight_of_zero_is_never_drawn) {
    enum { DEGREE = 600 };
    double weights[DEGREE];
    for (int i = 0; i < DEGREE; i++)
        weights[i] = i % 3 == 1 ? 0.5 + i : i % 3 == 2 ? 0.0 : -0.0;
    const int64_t fanouts[] = {-1, 1, 5, 199, 200, 201, 600, 1000};
    for (int wide = 0; wide < 2; wide++) {
        list *l = open_list(DEGREE, weights, wide ? AETHER_F64 : AETHER_F32, wide);
        for (int f = 0; f < 8; f++)
            for (uint32_t flags = 0; flags <= AETHER_SAMPLE_REPLACE; flags++) {
                const drawn *d = draw(l, fanouts[f], flags, 7);
                CHECK_EQ(d->n, fanouts[f] < 0 || (!flags && fanouts[f] > 200) ? 200 : fanouts[f]);
                for (uint64_t i = 0; i < d->n; i++)
                    CHECK_EQ(d->at[i] % 3, 1);
                for (uint64_t i = 1; i < d->n && !flags; i++)
                    CHECK(d->at[i] > d->at[i - 1]);
            }
        close_list(l);
    }
}

TEST(nothing_is_drawn_of_zeros_only) {
    const double weights[5] = {0, 0, -0.0, 0, 0};
    const int64_t fanouts[] = {-1, 0, 1, 5, 9};
    list *l = open_list(5, weights, AETHER_F32, false);
    for (int f = 0; f < 5; f++)
        for (uint32_t flags = 0; flags <= AETHER_SAMPLE_REPLACE; flags++)
            CHECK_EQ(draw(l, fanouts[f], flags, 1)->n, 0);
    close_list(l);
    const double one[5] = {0, 0, 0, 4, 0};
    l = open_list(5, one, AETHER_F32, false);
    for (uint64_t key = 0; key < 50; key++) {
        const drawn *d = draw(l, 1, key % 2 ? AETHER_SAMPLE_REPLACE : 0, key);
        CHECK(d->n == 1 && d->at[0] == 3);
    }
    close_list(l);
}

/* ---- refused ---- */

static void check_refused(double bad, uint64_t at, uint32_t dtype, bool edge_ids) {
    enum { DEGREE = 700 };
    static double weights[DEGREE];
    const int64_t fanouts[] = {-1, 3, 1000};
    for (int i = 0; i < DEGREE; i++)
        weights[i] = 1;
    weights[at] = bad;
    list *l = open_list(DEGREE, weights, dtype, edge_ids);
    drawn d;
    char name[80];
    uint64_t edge = edge_ids ? DEGREE - (at + 1) : at + 1;
    snprintf(name, sizeof name, "the weight of edge %" PRIu64 " is ", edge);
    for (int f = 0; f < 3; f++)
        for (uint32_t flags = 0; flags <= AETHER_SAMPLE_REPLACE; flags++) {
            CHECK_CODE(sample(l->sampler, 1, fanouts[f], flags, 1, &d), AETHER_E_INVALID);
            CHECK_EQ(d.err.position, edge);
            CHECK_HAS(d.err.message, name);
            CHECK_HAS(d.err.message, "weights are finite and not negative");
        }
    CHECK_OK(sample(l->sampler, 1, 0, 0, 1, &d), d.err);  /* nothing is read */
    CHECK_OK(sample(l->sampler, 0, -1, 0, 1, &d), d.err); /* another list */
    CHECK_EQ(d.n, 1);
    close_list(l);
}

TEST(bad_weights_are_named) {
    const double bad[] = {-1, -FLT_TRUE_MIN, INFINITY, -INFINITY, NAN, -NAN};
    const uint64_t at[] = {0, 255, 256, 699};
    for (int b = 0; b < 6; b++)
        for (int i = 0; i < 4; i++) {
            check_refused(bad[b], at[i], AETHER_F32, i % 2);
            check_refused(bad[b], at[i], AETHER_F64, b % 2);
        }
    check_refused(-DBL_TRUE_MIN, 3, AETHER_F64, false);
}

TEST(damaged_edge_ids_are_not_followed_to_a_weight) {
    static const double weights[300] = {1, 1};
    list *l = open_list(300, weights, AETHER_F32, true);
    drawn d;
    l->edge_ids[290] = 301;
    CHECK_CODE(sample(l->sampler, 1, 2, 0, 1, &d), AETHER_E_CORRUPT);
    CHECK_EQ(d.err.position, 290);
    CHECK_EQ(d.err.value, 301);
    CHECK_HAS(d.err.message, "edge id 301 at position 290 is not below 301");
    l->edge_ids[290] = UINT64_MAX;
    CHECK_CODE(sample(l->sampler, 1, 2, 0, 1, &d), AETHER_E_CORRUPT);
    l->edge_ids[290] = 300;
    CHECK_OK(sample(l->sampler, 1, 2, 0, 1, &d), d.err);
    close_list(l);
}

/* ---- weights that change between counting and drawing ---- */

/* The first reading finds edge ids of one array, later ones those of another. */
static const uint64_t *readings[2];
static int reading;

static int changing_edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                             aether_error *err) {
    (void)t, (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = readings[reading > 0][positions[i]];
    reading++;
    return AETHER_OK;
}

static int changing_draw(list *l, const uint64_t *first, const uint64_t *second, int64_t fanout,
                         uint32_t flags, drawn *d) {
    ae_arrays a = *ae_arrays_of(l->topology);
    ae_topology_ops ops = *a.base.ops;
    aether_relation r = l->relation;
    aether_sampler *s = NULL;
    readings[0] = first;
    readings[1] = second;
    reading = 0;
    ops.edge_ids = changing_edge_ids;
    a.base.ops = &ops;
    r.topology = &a.base;
    CHECK_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &r, &l->num_nodes, 1, 1), &s, &d->err),
             d->err);
    int rc = sample(s, 1, fanout, flags, 1, d);
    aether_sampler_destroy(s);
    return rc;
}

TEST(weights_that_change_are_reported) {
    const double weights[5] = {0, 0, 1, 1, 1}; /* edges 4 to 0 of the list, 5 of node 0 */
    const uint64_t three[6] = {5, 4, 3, 2, 1, 0}, none[6] = {5, 4, 3, 4, 3, 4}, four[6] = {5, 0, 1, 2, 2, 4};
    const int64_t fanouts[] = {-1, 2, 4};
    list *l = open_list(5, weights, AETHER_F64, true);
    drawn d = {.n = 0};
    for (int f = 0; f < 3; f++)
        for (uint32_t flags = 0; flags <= AETHER_SAMPLE_REPLACE; flags++) {
            CHECK_CODE(changing_draw(l, three, none, fanouts[f], flags, &d), AETHER_E_CORRUPT);
            CHECK_HAS(d.err.message, "changed while it was sampled");
            CHECK_OK(changing_draw(l, three, four, fanouts[f], flags, &d), d.err); /* no more than counted */
            CHECK_EQ(d.n, fanouts[f] < 0 || (!flags && fanouts[f] > 3) ? 3 : fanouts[f]);
        }
    close_list(l);
}

/* ---- long lists ---- */

/* Several blocks of weights, heaps of every size, lists all but taken whole. */
TEST_ONE_THREAD(long_lists_match_the_reference) {
    const uint64_t degrees[] = {1, 2, 255, 256, 257, 512, 700, MOST};
    const int64_t fanouts[] = {-1, 1, 2, 3, 50, 254, 255, 256, 257, 511, 690, 699, 1100};
    static double weights[MOST];
    uint64_t state = 3;
    for (int d = 0; d < 8; d++)
        for (int kind = 0; kind < 3; kind++) {
            for (uint64_t i = 0; i < degrees[d]; i++) {
                float u = (float)(test_random(&state) >> 40) + 1;
                weights[i] = kind == 0 ? u : kind == 1 ? u * u * u : test_random(&state) % 9 ? u : 0;
            }
            list *l = open_list(degrees[d], weights, kind == 2 ? AETHER_F32 : AETHER_F64, d % 2);
            const typed_source source = {&l->relation, &l->num_nodes, 1, 1};
            const int64_t seed = 1;
            const aether_seeds seeds = {&seed, 1, NULL, NULL};
            for (int f = 0; f < 13; f++)
                for (uint32_t flags = 0; flags <= AETHER_SAMPLE_REPLACE; flags++) {
                    aether_sample_options o = {.key = test_random(&state),
                                               .fanouts = &fanouts[f],
                                               .num_hops = 1,
                                               .flags = flags,
                                               .num_threads = 1};
                    tref_check(&source, l->sampler, &seeds, &o);
                }
            close_list(l);
        }
}

TEST(floats_and_doubles_of_one_value_draw_the_same) {
    double weights[400];
    uint64_t state = 4;
    for (int i = 0; i < 400; i++)
        weights[i] = (float)(test_random(&state) % 1000) / 7;
    for (int i = 0; i < 400; i++)
        weights[i] = (float)weights[i];
    list *narrow = open_list(400, weights, AETHER_F32, true),
         *wide = open_list(400, weights, AETHER_F64, false);
    for (uint64_t key = 0; key < 40; key++) {
        drawn a = *draw(narrow, 30, key % 2, key);
        const drawn *b = draw(wide, 30, key % 2, key);
        CHECK_EQ(a.n, b->n);
        CHECK(memcmp(a.at, b->at, a.n * sizeof *a.at) == 0);
    }
    close_list(narrow);
    close_list(wide);
}

TEST_MAIN()
