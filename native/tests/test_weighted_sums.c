/* Sums of the weights of long lists: the table, what is drawn from it against
 * typed_reference.h, and tables that do not fit the weights (any more). */
#include "sample/draw/weight_sums.h"
#include "typed_reference.h"

enum { MOST = 1100, BEFORE = 37, AFTER = 3, EDGES = BEFORE + MOST + AFTER };

/* Node 1 has the list under test, nodes 0 and 2 those before and after it in the arrays.
 * Times are places in the list. */
typedef struct lists {
    uint64_t indptr[EDGES + 1], edge_ids[EDGES], num_nodes;
    uint32_t ids[EDGES];
    double doubles[EDGES];
    float floats[EDGES];
    int64_t times[EDGES];
    ae_list list;
    aether_relation relation;
    aether_topology *topology;
    aether_weight_sums *sums;
    aether_sampler *sampler;
} lists;

/* Everything but sums and sampler. `edge_ids`: they count down. */
static lists *make_lists(uint64_t degree, const double *weights, uint32_t dtype, bool edge_ids) {
    lists *l = calloc(1, sizeof *l);
    const uint64_t edges = BEFORE + degree + AFTER;
    aether_error err = {0};
    l->num_nodes = edges;
    l->list = (ae_list){BEFORE, degree};
    for (uint64_t p = 0; p < edges; p++) {
        uint64_t edge = edge_ids ? edges - 1 - p : p;
        l->edge_ids[p] = edge;
        l->ids[p] = (uint32_t)p;
        l->doubles[edge] = p < BEFORE || p >= BEFORE + degree ? 1 : weights[p - BEFORE];
        l->floats[edge] = (float)l->doubles[edge];
        l->times[edge] = p < BEFORE ? 0 : (int64_t)(p - BEFORE);
        l->indptr[p + 1] = p == 0 ? BEFORE : p == 1 ? BEFORE + degree : edges;
    }
    aether_lists arrays = {edges, edges, edges, l->indptr, l->ids, edge_ids ? l->edge_ids : NULL, 4, 8};
    CHECK_OK(aether_topology_create(&arrays, &l->topology, &err), err);
    l->relation = (aether_relation){.topology = l->topology,
                                    .weights = dtype == AETHER_F32 ? (void *)l->floats : (void *)l->doubles,
                                    .weight_dtype = dtype,
                                    .times = l->times,
                                    .time_dtype = AETHER_I64,
                                    .times_of = AETHER_TIMES_OF_EDGES};
    return l;
}

static int make_sums(lists *l, aether_error *err) {
    return aether_weight_sums_create(l->topology, l->relation.weights, l->relation.weight_dtype, &l->sums,
                                     NULL, err);
}

static lists *open_lists(uint64_t degree, const double *weights, uint32_t dtype, bool edge_ids) {
    lists *l = make_lists(degree, weights, dtype, edge_ids);
    aether_error err = {0};
    CHECK_OK(make_sums(l, &err), err);
    l->relation.sums = l->sums;
    CHECK_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &l->relation, &l->num_nodes, 1, 1),
                                         &l->sampler, &err),
             err);
    return l;
}

static void close_lists(lists *l) {
    aether_sampler_destroy(l->sampler);
    aether_weight_sums_destroy(l->sums);
    aether_topology_destroy(l->topology);
    free(l);
}

enum { KINDS = 6 };

static void fill_weights(int kind, uint64_t degree, uint64_t *state, double *weights) {
    for (uint64_t i = 0; i < degree; i++) {
        float u = (float)(test_random(state) >> 40) + 1;
        weights[i] = kind == 0   ? 1
                     : kind == 1 ? u / 7
                     : kind == 2 ? (test_random(state) % 3 ? u : 0)
                     : kind == 3 ? ldexp(u, -(int)(i / 8))
                     : kind == 4 ? ldexp(u, (int)(i / 16))
                                 : (i == degree / 3 ? 1e9 : 1);
    }
}

/* ---- the table ---- */

static void check_sums(const lists *l) {
    const ae_weights weights = {
        .values = l->relation.weights, .is_double = l->relation.weight_dtype == AETHER_F64, .sums = l->sums};
    const ae_summed_list sums = ae_weight_sums_of(l->sums, l->list);
    const uint64_t degree = l->list.degree;
    double sum = 0;
    uint64_t drawable = 0, entry = 0;
    for (uint64_t n = 0; n <= degree; n++) {
        aether_error err = {0};
        ae_weight_sum found;
        CHECK_OK(ae_weight_sums_before(&weights, l->topology, &sums, n, &found, &err), err);
        if (memcmp(&found.weight, &sum, sizeof sum) || found.drawable != drawable)
            TEST_FAIL("of %" PRIu64 " entries %" PRIu64 " add up to %g, %" PRIu64, degree, n, found.weight,
                      found.drawable);
        double next = n < degree ? tref_weight(&l->relation, BEFORE + n) : 1;
        CHECK_OK(ae_weight_sums_find(&weights, l->topology, &sums, sum, &entry, &err), err);
        if (next > 0 && sum + next > sum) /* the sum is passed by the entry after it */
            CHECK_EQ(entry, n);
        CHECK_OK(ae_weight_sums_find(&weights, l->topology, &sums, nextafter(sum, 0), &entry, &err), err);
        CHECK(sum <= 0 || entry < n);
        sum += next;
        drawable += next > 0;
    }
}

TEST(sums_are_those_of_the_entries) {
    const uint64_t degrees[] = {128, 129, 191, 192, 193, 255, 256, 257, 640, MOST};
    static double weights[MOST];
    uint64_t state = 1;
    for (int d = 0; d < 10; d++)
        for (int kind = 0; kind < KINDS; kind++) {
            fill_weights(kind, degrees[d], &state, weights);
            lists *l = open_lists(degrees[d], weights, d % 2 ? AETHER_F32 : AETHER_F64, kind % 2);
            check_sums(l);
            CHECK(aether_weight_sums_memory(l->sums) >= l->num_nodes / 64 * 16);
            close_lists(l);
        }
}

/* No list's sums lie on another's, wherever the lists begin and end. */
TEST(neighbouring_lists_keep_their_sums) {
    enum { LISTS = 400 };
    static uint64_t indptr[LISTS + 1];
    uint64_t state = 2;
    for (int v = 0; v < LISTS; v++)
        indptr[v + 1] = indptr[v] + (test_random(&state) % 3 ? 120 + test_random(&state) % 150
                                                             : test_random(&state) % 70);
    const uint64_t edges = indptr[LISTS];
    uint32_t *ids = calloc(edges, sizeof *ids);
    double *weights = calloc(edges, sizeof *weights);
    for (uint64_t e = 0; e < edges; e++)
        weights[e] = (double)(test_random(&state) % 1000) + 1;
    aether_lists arrays = {LISTS, 1, edges, indptr, ids, NULL, 4, 8};
    aether_topology *t;
    aether_weight_sums *sums;
    aether_task task = {0};
    aether_error err = {0};
    REQUIRE_OK(aether_topology_create(&arrays, &t, &err), err);
    REQUIRE_OK(aether_weight_sums_create(t, weights, AETHER_F64, &sums, &task, &err), err);
    CHECK_EQ(task.done, edges);
    const ae_weights all = {.values = weights, .is_double = true, .sums = sums};
    for (int v = 0; v < LISTS; v++) {
        const ae_list list = {indptr[v], indptr[v + 1] - indptr[v]};
        double sum = 0;
        for (uint64_t n = 0; list.degree >= AE_WEIGHT_SUMS_LONG && n <= list.degree; n++) {
            ae_weight_sum found;
            const ae_summed_list summed = ae_weight_sums_of(all.sums, list);
            CHECK_OK(ae_weight_sums_before(&all, t, &summed, n, &found, &err), err);
            CHECK(found.drawable == n && !(found.weight < sum) && !(found.weight > sum));
            sum += n < list.degree ? weights[list.start + n] : 0;
        }
    }
    aether_weight_sums_destroy(sums);
    aether_topology_destroy(t);
    free(weights);
    free(ids);
}

/* ---- drawing ---- */

static uint64_t check_draws(const lists *l, uint64_t *state) {
    const typed_source source = {&l->relation, &l->num_nodes, 1, 1};
    const int64_t fanouts[] = {-1, 1, 2, 7, 8, 9, 15, 16, 40, 68, 69}, degree = (int64_t)l->list.degree;
    const int64_t bounds[][2] = {{0, degree}, {1, degree - 2}, {64, degree - 1}, {63, 200}, {100, 110}};
    uint64_t drawn = 0;
    for (int f = 0; f < 11; f++)
        for (uint32_t flags = 0; flags <= AETHER_SAMPLE_REPLACE; flags++)
            for (int b = 0; b < 5; b++) {
                const int64_t seed[2] = {1, 2}, since[2] = {bounds[b][0], 0}, until[2] = {bounds[b][1], 9};
                const aether_seeds seeds = {seed, 2, since, until};
                aether_sample_options o = {.key = test_random(state),
                                           .fanouts = &fanouts[f],
                                           .num_hops = 1,
                                           .flags = flags | AETHER_SAMPLE_DISJOINT,
                                           .num_threads = 1};
                drawn += tref_check(&source, l->sampler, &seeds, &o);
            }
    return drawn;
}

TEST_ONE_THREAD(draws_match_the_reference) {
    const uint64_t degrees[] = {127, 128, 129, 256, 300, 640, MOST};
    static double weights[MOST];
    uint64_t state = 3, drawn = 0;
    for (int d = 0; d < 7; d++)
        for (int kind = 0; kind < KINDS; kind++) {
            fill_weights(kind, degrees[d], &state, weights);
            lists *l = open_lists(degrees[d], weights, d % 2 ? AETHER_F32 : AETHER_F64, kind % 2);
            drawn += check_draws(l, &state);
            close_lists(l);
        }
    CHECK(drawn > 100000);
}

/* The heaviest edges are excluded, among them the first and the last of the list. */
TEST_ONE_THREAD(excluded_edges_are_never_drawn) {
    static double weights[MOST];
    const uint64_t heavy[] = {BEFORE, BEFORE + 500, BEFORE + MOST - 1};
    const aether_excluded exclude = {heavy, 3};
    const int64_t seed = 1;
    const aether_seeds seeds = {.ids = &seed, .count = 1};
    aether_error err = {0};
    for (uint64_t i = 0; i < MOST; i++)
        weights[i] = i == 0 || i == 500 || i == MOST - 1 ? 100 : 1;
    lists *l = open_lists(MOST, weights, AETHER_F64, false);
    for (uint64_t key = 0; key < 200; key++) {
        const int64_t fanout = 1 + (int64_t)key % 8;
        const aether_sample_options o = {.key = key,
                                         .fanouts = &fanout,
                                         .num_hops = 1,
                                         .flags = key % 2 ? AETHER_SAMPLE_REPLACE : 0,
                                         .num_threads = 1,
                                         .exclude = &exclude};
        uint64_t nodes[2], hop_edges, num_nodes, num_edges;
        int64_t edges[8];
        REQUIRE_OK(aether_sample_typed(
                       l->sampler, &seeds, &o,
                       AE_SIZED(aether_sample_counts, nodes, &hop_edges, &num_nodes, &num_edges), &err),
                   err);
        REQUIRE(num_edges == (uint64_t)fanout);
        CHECK_OK(aether_sample_export_edges(
                     l->sampler, 0,
                     AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = num_edges, .edge = edges),
                     &err),
                 err);
        for (uint64_t i = 0; i < num_edges; i++)
            for (uint64_t k = 0; k < exclude.count; k++)
                CHECK(edges[i] != (int64_t)heavy[k]);
    }
    close_lists(l);
}

/* Draw by draw the same as without sums: all weights are read, and scaled. */
static void check_read_whole(double weight, double first, int64_t since) {
    static double weights[MOST];
    static int64_t with[MOST], without[MOST];
    const int64_t fanout = 8, until = MOST, seed = 1;
    const aether_seeds seeds = {&seed, 1, &since, &until};
    aether_sampler *plain = NULL;
    aether_error err = {0};
    for (int i = 0; i < MOST; i++)
        weights[i] = i ? weight * (1 + i % 3) : first;
    lists *l = open_lists(MOST, weights, AETHER_F64, false);
    aether_relation r = l->relation;
    r.sums = NULL;
    REQUIRE_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &r, &l->num_nodes, 1, 1), &plain, &err),
               err);
    for (uint64_t key = 0; key < 200; key++) {
        aether_sample_options o = {.key = key, .fanouts = &fanout, .num_hops = 1, .num_threads = 1};
        o.flags = AETHER_SAMPLE_DISJOINT | (key % 2 ? AETHER_SAMPLE_REPLACE : 0);
        uint64_t nodes[2], hop_edges, num_nodes, num_edges[2] = {0};
        for (int one = 0; one < 2; one++) {
            aether_sampler *s = one ? plain : l->sampler;
            REQUIRE_OK(aether_sample_typed(
                           s, &seeds, &o,
                           AE_SIZED(aether_sample_counts, nodes, &hop_edges, &num_nodes, &num_edges[one]),
                           &err),
                       err);
            REQUIRE_OK(aether_sample_export_edges(s, 0,
                                                  AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                                           .num_edges = num_edges[one],
                                                           .edge = one ? without : with),
                                                  &err),
                       err);
        }
        CHECK_EQ(num_edges[0], 8);
        CHECK_EQ(num_edges[1], 8);
        CHECK(memcmp(with, without, 8 * sizeof *with) == 0);
    }
    aether_sampler_destroy(plain);
    close_lists(l);
}

TEST(sums_that_tell_too_little_are_not_drawn_from) {
    check_read_whole(5e307, 1, 0);                   /* no sum of them is a double */
    check_read_whole(DBL_TRUE_MIN, 0, 0);            /* a sum below the normal ones */
    check_read_whole(1, 1e20, 1);                    /* what is left in time is rounding of the sums */
    check_read_whole(1, 65536. * 2 * (MOST - 1), 1); /* just too little to be told exactly */
}

/* ---- refused ---- */

TEST(bad_weights_are_named) {
    const double bad[] = {-1, -FLT_TRUE_MIN, INFINITY, NAN};
    const uint64_t degrees[] = {50, 500}, at[] = {0, 49};
    static double weights[MOST];
    for (int i = 0; i < 32; i++) {
        uint64_t place = at[i / 4 % 2], degree = degrees[i / 8 % 2];
        for (uint64_t e = 0; e < degree; e++)
            weights[e] = 1;
        weights[place] = bad[i % 4];
        lists *l = make_lists(degree, weights, i / 16 ? AETHER_F32 : AETHER_F64, i % 2);
        aether_error err = {0};
        CHECK_CODE(make_sums(l, &err), AETHER_E_INVALID);
        CHECK_EQ(err.position, l->edge_ids[BEFORE + place]);
        CHECK_HAS(err.message, "weights are finite and not negative");
        CHECK(l->sums == NULL);
        close_lists(l);
    }
}

TEST(wrong_arguments_are_named) {
    static double weights[EDGES];
    lists *l = open_lists(MOST, weights, AETHER_F64, true),
          *other = open_lists(MOST - 1, weights, AETHER_F64, true);
    aether_weight_sums *sums;
    aether_sampler *s = NULL;
    aether_task task = {.cancel = 1};
    aether_error err = {0};
    CHECK_CODE(aether_weight_sums_create(l->topology, weights, AETHER_I32, &sums, NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_weight_sums_create(l->topology, NULL, AETHER_F64, &sums, NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_weight_sums_create(NULL, weights, AETHER_F64, &sums, NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_weight_sums_create(l->topology, weights, AETHER_F64, &sums, &task, &err),
               AETHER_E_CANCELLED);
    aether_weight_sums_destroy(NULL);
    l->edge_ids[BEFORE + 200] = 1u << 30;
    CHECK_CODE(aether_weight_sums_create(l->topology, weights, AETHER_F64, &sums, NULL, &err),
               AETHER_E_CORRUPT);
    CHECK_EQ(err.position, BEFORE + 200);
    aether_relation r = l->relation;
    r.sums = other->sums;
    CHECK_CODE(aether_sampler_create_typed(AE_SIZED(aether_schema, &r, &l->num_nodes, 1, 1), &s, &err),
               AETHER_E_INVALID);
    CHECK_HAS(err.message, "the sums are not those of its weights");
    r = l->relation;
    r.weights = NULL;
    CHECK_CODE(aether_sampler_create_typed(AE_SIZED(aether_schema, &r, &l->num_nodes, 1, 1), &s, &err),
               AETHER_E_INVALID);
    close_lists(l);
    close_lists(other);
}

/* ---- sums of other weights: a file that changed ---- */

/* Any answer but a position outside the list. */
static void check_contained(const lists *l, uint64_t key) {
    static int64_t edge[2 * MOST];
    const int64_t fanouts[] = {-1, 5, 60, 1000}, seed = 1, since = (int64_t)(key % 90), until = MOST;
    const aether_seeds seeds = {&seed, 1, &since, &until};
    aether_sample_options o = {.key = key, .fanouts = &fanouts[key % 4], .num_hops = 1, .num_threads = 1};
    uint64_t hop_nodes[2], hop_edges, num_nodes, num_edges = 0;
    aether_error err = {0};
    o.flags = AETHER_SAMPLE_DISJOINT | (key / 4 % 2 ? AETHER_SAMPLE_REPLACE : 0);
    int rc = aether_sample_typed(
        l->sampler, &seeds, &o, AE_SIZED(aether_sample_counts, hop_nodes, &hop_edges, &num_nodes, &num_edges),
        &err);
    CHECK(rc == AETHER_OK || rc == AETHER_E_CORRUPT || rc == AETHER_E_INVALID);
    if (rc)
        return;
    CHECK(num_edges <= MOST);
    REQUIRE_OK(aether_sample_export_edges(
                   l->sampler, 0,
                   AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = num_edges, .edge = edge),
                   &err),
               err);
    for (uint64_t i = 0; i < num_edges; i++)
        CHECK(edge[i] >= BEFORE && edge[i] < BEFORE + MOST);
}

TEST_ONE_THREAD(weights_that_changed_are_survived) {
    static double weights[MOST];
    uint64_t state = 5;
    for (int round = 0; round < 40; round++) {
        fill_weights(round % KINDS, MOST, &state, weights);
        lists *l = open_lists(MOST, weights, AETHER_F64, false);
        for (uint64_t e = 0; e < EDGES; e++)
            l->doubles[e] = round % 4 == 0   ? 0
                            : round % 4 == 1 ? (e % 2 ? NAN : -1)
                            : round % 4 == 2 ? 1e-9
                                             : 1e9;
        for (uint64_t key = 0; key < 16; key++)
            check_contained(l, key);
        close_lists(l);
    }
}

TEST_ONE_THREAD(damaged_sums_are_survived) {
    static double weights[MOST];
    uint64_t state = 6;
    for (int round = 0; round < 60; round++) {
        fill_weights(round % KINDS, MOST, &state, weights);
        lists *l = open_lists(MOST, weights, AETHER_F64, false);
        for (uint64_t i = 0; i < EDGES / 64; i++)
            if (round % 3 == 0 || test_random(&state) % 5 == 0) {
                uint64_t bits = test_random(&state);
                memcpy(&l->sums->table[i].weight, &bits, sizeof bits);
                l->sums->table[i].drawable = test_random(&state) >> round;
            }
        l->sums->has_zeros = round % 2;
        for (uint64_t key = 0; key < 16; key++)
            check_contained(l, key);
        close_lists(l);
    }
}

TEST_MAIN()
