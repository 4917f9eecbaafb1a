/* Sampling in time: bounds, the last neighbours, floating times, and the check that
 * lists are sorted. test_typed_match.c compares whole samples. */
#include <float.h>
#include <math.h>

#include "test.h"

/* ---- the order of floating times ---- */

static int64_t map(double x) {
    int64_t out;
    aether_time_of_double(&x, 1, &out);
    return out;
}

static double of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void check_order(double a, double b) {
    if ((a < b) != (map(a) < map(b)) || (a == b) != (map(a) == map(b)))
        TEST_FAIL("%a and %a are mapped to %" PRId64 " and %" PRId64, a, b, map(a), map(b));
}

/* Every power of two and its neighbours, the limits, and random bits: all pairs. */
TEST_ONE_THREAD(floating_times_keep_their_order) {
    static double values[8192];
    size_t n = 0;
    uint64_t state = 1;
    const double limits[] = {0, DBL_TRUE_MIN, DBL_MIN, DBL_MAX, INFINITY, DBL_EPSILON, 0.1, 1e15 + 0.3};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        values[n++] = limits[i];
    for (int e = -1074; e <= 1023; e += e < -1000 || e > 1000 ? 1 : 23) {
        values[n++] = ldexp(1, e);
        values[n++] = nextafter(ldexp(1, e), 0);
        values[n++] = nextafter(ldexp(1, e), INFINITY);
    }
    for (int i = 0; i < 300; i++) {
        double x = of_bits(test_random(&state));
        values[n] = fabs(x);
        n += !isnan(x);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            check_order(values[i], values[j]);
            check_order(-values[i], values[j]);
            check_order(values[i], -values[j]);
            check_order(-values[i], -values[j]);
        }
    CHECK_EQ(map(-0.0), map(0.0));
    CHECK_EQ(map(0.0), 0);
    CHECK_EQ(map(DBL_TRUE_MIN), 1);
}

TEST_ONE_THREAD(nan_lies_beyond_the_infinities) {
    const uint64_t payloads[] = {0x7FF0000000000001, 0x7FF8000000000000, 0x7FFFFFFFFFFFFFFF};
    for (size_t i = 0; i < 3; i++) {
        CHECK(map(of_bits(payloads[i])) > map(INFINITY));
        CHECK(map(of_bits(payloads[i] | UINT64_C(1) << 63)) < map(-INFINITY));
    }
}

TEST_ONE_THREAD(floating_times_are_mapped_in_bulk) {
    const double times[] = {3, -1, -0.0, INFINITY};
    int64_t out[5] = {0, 0, 0, 0, -7};
    aether_time_of_double(times, 4, out);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(out[i], map(times[i]));
    CHECK_EQ(out[4], -7);
    aether_time_of_double(times, 0, out + 4);
    CHECK_EQ(out[4], -7);
}

/* ---- one list ---- */

enum { DEGREE = 8, MANY = 24 };

/* A node with a list of DEGREE other nodes, behind one with a list of three. */
typedef struct list {
    uint64_t indptr[DEGREE + 3], edge_ids[DEGREE + 3];
    uint32_t ids[DEGREE + 3];
    int64_t times[DEGREE + 3];
    double floats[DEGREE + 3];
    aether_relation relation;
    aether_topology *topology;
    aether_sampler *sampler;
} list;

static void open_list(list *l, const int64_t *times, const double *floats, bool of_nodes) {
    const uint64_t num_nodes[] = {DEGREE + 2};
    aether_error err = {0};
    memset(l, 0, sizeof *l);
    for (uint64_t p = 0; p < DEGREE + 3; p++) {
        uint64_t i = p < 3 ? 0 : p - 3;
        l->edge_ids[p] = DEGREE + 2 - p;
        l->ids[p] = (uint32_t)(p < 3 ? p : DEGREE + 1 - i);
        uint64_t at = of_nodes ? l->ids[p] : l->edge_ids[p];
        if (p >= 3 && times)
            l->times[at] = times[i];
        if (p >= 3 && floats)
            l->floats[at] = floats[i];
    }
    for (uint64_t v = 1; v < DEGREE + 3; v++)
        l->indptr[v] = v == 1 ? 3 : DEGREE + 3;
    aether_lists lists = {DEGREE + 2, DEGREE + 2, DEGREE + 3, l->indptr, l->ids, l->edge_ids, 4, 8};
    CHECK_OK(aether_topology_create(&lists, &l->topology, &err), err);
    l->relation = (aether_relation){.topology = l->topology,
                                    .times = floats ? (void *)l->floats : (void *)l->times,
                                    .time_dtype = floats ? AETHER_F64 : AETHER_I64,
                                    .times_of = of_nodes ? AETHER_TIMES_OF_NODES : AETHER_TIMES_OF_EDGES};
    CHECK_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &l->relation, num_nodes, 1, 1), &l->sampler,
                                         &err),
             err);
}

static void close_list(list *l) {
    aether_sampler_destroy(l->sampler);
    aether_topology_destroy(l->topology);
}

typedef struct drawn {
    int rc;
    uint64_t n, at[MANY]; /* indices into the list */
    aether_error err;
} drawn;

static aether_excluded excluded; /* positions that no sample may have */

/* Node 1's sample under these bounds. */
static drawn draw(const list *l, const int64_t *since, const int64_t *until, int64_t fanout, uint32_t flags,
                  uint64_t key) {
    const int64_t seed = 1;
    const aether_seeds seeds = {&seed, 1, since, until};
    aether_sample_options o = {.key = key,
                               .fanouts = &fanout,
                               .num_hops = 1,
                               .flags = flags | AETHER_SAMPLE_DISJOINT,
                               .num_threads = 1,
                               .exclude = &excluded};
    uint64_t hop_nodes[2], hop_edges[1], num_nodes[1];
    int64_t edge[MANY];
    drawn d = {.n = 0};
    d.rc = aether_sample_typed(l->sampler, &seeds, &o,
                               AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, num_nodes, &d.n), &d.err);
    if (d.rc || d.n > MANY)
        return d;
    CHECK_OK(aether_sample_export_edges(
                 l->sampler, 0,
                 AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = d.n, .edge = edge), &d.err),
             d.err);
    for (uint64_t i = 0; i < d.n; i++)
        d.at[i] = (uint64_t)(DEGREE - 1 - edge[i]);
    return d;
}

/* Entries [first, first + n) and no others, in order. */
static void check_range(drawn d, uint64_t first, uint64_t n) {
    CHECK_OK(d.rc, d.err);
    CHECK_EQ(d.n, n);
    for (uint64_t i = 0; i < d.n && i < MANY; i++)
        CHECK_EQ(d.at[i], first + i);
}

static void check_bounds(const list *l, const int64_t *times, int64_t since, int64_t until) {
    uint64_t first = 0, n = 0;
    while (first < DEGREE && times[first] < since)
        first++;
    while (first + n < DEGREE && times[first + n] <= until)
        n++;
    check_range(draw(l, &since, &until, -1, 0, 1), first, n);
    check_range(draw(l, &since, &until, DEGREE, 0, 1), first, n);
    check_range(draw(l, &since, &until, -1, AETHER_SAMPLE_INDUCED, 1), first, n);
    if (since == INT64_MIN)
        check_range(draw(l, NULL, &until, -1, 0, 1), first, n);
    if (until == INT64_MAX)
        check_range(draw(l, &since, NULL, -1, 0, 1), first, n);
}

TEST_ONE_THREAD(bounds_are_inclusive) {
    const int64_t times[][DEGREE] = {
        {1, 3, 3, 5, 7, 7, 7, 9}, {4, 4, 4, 4, 4, 4, 4, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};
    for (int i = 0; i < 3; i++)
        for (int of_nodes = 0; of_nodes < 2; of_nodes++) {
            list l;
            open_list(&l, times[i], NULL, of_nodes);
            for (int64_t since = 0; since <= 10; since++)
                for (int64_t until = 0; until <= 10; until++) /* also before `since` */
                    check_bounds(&l, times[i], since, until);
            close_list(&l);
        }
}

TEST_ONE_THREAD(bounds_reach_the_ends_of_int64) {
    const int64_t times[DEGREE] = {INT64_MIN, INT64_MIN,     INT64_MIN + 1, -1,
                                   0,         INT64_MAX - 1, INT64_MAX,     INT64_MAX};
    const int64_t bounds[] = {INT64_MIN, INT64_MIN + 1, INT64_MIN + 2, -1,       0,
                              1,         INT64_MAX - 2, INT64_MAX - 1, INT64_MAX};
    list l;
    open_list(&l, times, NULL, false);
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++)
            check_bounds(&l, times, bounds[i], bounds[j]);
    close_list(&l);
}

TEST_ONE_THREAD(floating_bounds_are_mapped_bounds) {
    const double floats[DEGREE] = {-INFINITY, -2.5, -DBL_TRUE_MIN, -0.0, 0.0, DBL_TRUE_MIN, 2.5, INFINITY};
    int64_t times[DEGREE];
    aether_time_of_double(floats, DEGREE, times);
    list l;
    open_list(&l, NULL, floats, false);
    for (int i = 0; i < DEGREE; i++)
        for (int j = 0; j < DEGREE; j++)
            check_bounds(&l, times, times[i], times[j]);
    const double between[] = {-DBL_MAX, -1, -0.0, 1, DBL_MAX};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            check_bounds(&l, times, map(between[i]), map(between[j]));
    check_range(draw(&l, NULL, &times[3], -1, 0, 1), 0, 5); /* both zeros */
    close_list(&l);
}

/* ---- the last ones ---- */

TEST_ONE_THREAD(latest_takes_the_last_in_time) {
    const int64_t times[DEGREE] = {1, 3, 3, 5, 7, 7, 7, 9}, since = 3;
    list l;
    open_list(&l, times, NULL, false);
    for (int64_t until = 2; until <= 10; until++)
        for (int64_t fanout = 0; fanout <= DEGREE + 1; fanout++) {
            uint64_t end = 0, k = (uint64_t)fanout;
            while (end < DEGREE && times[end] <= until)
                end++;
            uint64_t n = k < end ? k : end;
            check_range(draw(&l, NULL, &until, fanout, AETHER_SAMPLE_LATEST, 1), end - n, n);
            n = end == 0 ? 0 : k < end - 1 ? k : end - 1; /* the first is before `since` */
            check_range(draw(&l, &since, &until, fanout, AETHER_SAMPLE_LATEST, 1), end - n, n);
        }
    const int64_t until = 7;
    check_range(draw(&l, NULL, &until, -1, AETHER_SAMPLE_LATEST, 1), 0, 7);
    check_range(draw(&l, &since, NULL, 2, AETHER_SAMPLE_LATEST, 1), 6, 2);
    check_range(draw(&l, NULL, NULL, DEGREE, AETHER_SAMPLE_LATEST, 1), 0, DEGREE);
    close_list(&l);
}

/* Every set of excluded entries: as if the list did not have them. */
TEST_ONE_THREAD(latest_takes_the_last_that_are_not_excluded) {
    const int64_t times[DEGREE] = {1, 3, 3, 5, 7, 7, 7, 9};
    list l;
    open_list(&l, times, NULL, false);
    for (uint32_t set = 0; set < 1 << DEGREE; set++)
        for (int64_t until = 3; until <= 9; until += 2) {
            uint64_t positions[DEGREE], left[DEGREE], n = 0;
            excluded = (aether_excluded){positions, 0};
            for (uint64_t i = 0; i < DEGREE; i++)
                if (set >> i & 1)
                    positions[excluded.count++] = 3 + i;
                else if (times[i] <= until)
                    left[n++] = i;
            for (int64_t fanout = 0; fanout <= DEGREE; fanout++) {
                const drawn d = draw(&l, NULL, &until, fanout, AETHER_SAMPLE_LATEST, 1);
                const uint64_t k = (uint64_t)fanout < n ? (uint64_t)fanout : n;
                CHECK_OK(d.rc, d.err);
                CHECK_EQ(d.n, k);
                for (uint64_t i = 0; i < k && i < d.n; i++)
                    CHECK_EQ(d.at[i], left[n - k + i]);
            }
        }
    excluded = (aether_excluded){0};
    close_list(&l);
}

/* With replacement, the draws are of the last ones. */
TEST_ONE_THREAD(latest_with_replacement_draws_among_the_last) {
    const int64_t times[DEGREE] = {1, 3, 3, 5, 7, 7, 7, 9}, until = 7;
    uint64_t seen[DEGREE] = {0};
    list l;
    open_list(&l, times, NULL, false);
    for (uint64_t key = 0; key < 100; key++) {
        drawn d = draw(&l, NULL, &until, 3, AETHER_SAMPLE_LATEST | AETHER_SAMPLE_REPLACE, key);
        CHECK_EQ(d.n, 3);
        for (uint64_t i = 0; i < d.n; i++)
            seen[d.at[i]]++;
    }
    CHECK_EQ(seen[4] + seen[5] + seen[6], 300);
    CHECK(seen[4] > 60 && seen[5] > 60 && seen[6] > 60);
    close_list(&l);
}

/* ---- which trees and relations are bounded ---- */

/* 0 -> 1 -> 2 at times 5 and 3; the second relation 0 -> 2 has no times. */
TEST_ONE_THREAD(bounds_hold_for_the_tree_in_every_hop) {
    const uint64_t indptr[2][4] = {{0, 1, 2, 2}, {0, 1, 1, 1}}, num_nodes[] = {3};
    const uint32_t ids[2][2] = {{1, 2}, {2, 0}};
    const int64_t times[] = {5, 3}, fanouts[] = {-1, -1, -1, -1};
    aether_topology *t[2] = {NULL};
    aether_relation relations[2] = {
        {.times = times, .time_dtype = AETHER_I64, .times_of = AETHER_TIMES_OF_EDGES}};
    aether_sampler *s = NULL;
    aether_error err = {0};
    for (int i = 0; i < 2; i++) {
        aether_lists lists = {3, 3, i ? 1 : 2, indptr[i], ids[i], NULL, 4, 8};
        REQUIRE_OK(aether_topology_create(&lists, &t[i], &err), err);
        relations[i].topology = t[i];
    }
    REQUIRE_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, relations, num_nodes, 2, 1), &s, &err),
               err);
    const int64_t seeds[] = {0, 0, 0, 1}, since[] = {3, 4, 0, 0}, until[] = {9, 9, 4, 3};
    const aether_seeds all = {seeds, 4, since, until};
    aether_sample_options o = {
        .fanouts = fanouts, .num_hops = 2, .flags = AETHER_SAMPLE_DISJOINT, .num_threads = 1};
    uint64_t hop_nodes[3], hop_edges[4], nodes[1], edges[2];
    int64_t node[16], batch[16], col[4];
    REQUIRE_OK(aether_sample_typed(s, &all, &o,
                                   AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, nodes, edges), &err),
               err);
    /* Tree 0 sees both edges, tree 1 only the first, tree 2 none, tree 3 its only one. */
    CHECK_EQ(hop_edges[0], 3);
    CHECK_EQ(hop_edges[1], 1);
    CHECK_EQ(edges[1], 3);
    REQUIRE(nodes[0] == 10);
    CHECK_OK(aether_sample_export_nodes(s, 0,
                                        AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = nodes[0],
                                                 .node = node, .batch = batch),
                                        &err),
             err);
    const int64_t wanted_node[] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 2},
                  wanted_batch[] = {0, 1, 2, 3, 0, 1, 3, 0, 1, 2};
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(node[i], wanted_node[i]);
        CHECK_EQ(batch[i], wanted_batch[i]);
    }
    CHECK_OK(
        aether_sample_export_edges(
            s, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = edges[0], .col = col), &err),
        err);
    CHECK(col[0] == 0 && col[1] == 1 && col[2] == 3 && col[3] == 4);
    aether_sampler_destroy(s);
    aether_topology_destroy(t[0]);
    aether_topology_destroy(t[1]);
}

/* A sample that is not disjoint has each node once, at the one time of all seeds. */
TEST_ONE_THREAD(seeds_of_one_time_share_their_nodes) {
    const int64_t times[DEGREE] = {1, 2, 3, 4, 5, 6, 7, 8}, ids[] = {0, 1}, fanouts[] = {-1, -1};
    int64_t until[] = {4, 4};
    const aether_seeds seeds = {ids, 2, NULL, until};
    const aether_sample_options o = {.fanouts = fanouts, .num_hops = 2, .num_threads = 1};
    uint64_t hop_nodes[3], hop_edges[2], nodes[1], edges[1];
    aether_error err = {0};
    list l;
    open_list(&l, times, NULL, false);
    CHECK_OK(aether_sample_typed(l.sampler, &seeds, &o,
                                 AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, nodes, edges), &err),
             err);
    CHECK_EQ(edges[0], 3 + 4); /* of time 0, and 1 to 4 */
    CHECK_EQ(nodes[0], 3 + 4);
    until[1]++;
    CHECK_CODE(aether_sample_typed(l.sampler, &seeds, &o,
                                   AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, nodes, edges), &err),
               AETHER_E_INVALID);
    CHECK_HAS(err.message, "seeds of different times need a disjoint sample");
    close_list(&l);
}

TEST_ONE_THREAD(damaged_ids_are_not_followed_to_a_time) {
    const int64_t times[DEGREE] = {1, 2, 3, 4, 5, 6, 7, 8}, until = 8;
    list l;
    open_list(&l, times, NULL, false);
    l.edge_ids[DEGREE + 2] = DEGREE + 3;
    drawn d = draw(&l, NULL, &until, -1, 0, 1);
    CHECK_CODE(d.rc, AETHER_E_CORRUPT);
    CHECK_EQ(d.err.position, DEGREE + 2);
    CHECK_EQ(d.err.value, DEGREE + 3);
    CHECK_HAS(d.err.message, "edge id 11 at position 10 is not below 11");
    close_list(&l);
    open_list(&l, times, NULL, true);
    l.ids[DEGREE + 2] = DEGREE + 2;
    CHECK_CODE(draw(&l, NULL, &until, -1, 0, 1).rc, AETHER_E_CORRUPT);
    const int64_t since = 9;
    CHECK_CODE(draw(&l, &since, NULL, -1, 0, 1).rc, AETHER_E_CORRUPT);
    close_list(&l);
}

TEST_MAIN()
