/* The chances with which weighted sampling draws, by chi-square against chances that
 * are computed exactly. Keys are fixed: a test passes always or never. */
#include <float.h>
#include <math.h>

#include "test.h"

enum { MOST = 8, DRAWS = 40000 };

/* One list of n nodes with these weights; a disjoint sample of DRAWS times its node
 * draws from it as often. */
typedef struct list {
    uint64_t n, indptr[MOST + 2], edge_ids[MOST];
    uint32_t ids[MOST];
    double weights[MOST];
    int64_t times[MOST];
    aether_relation relation;
    aether_topology *topology;
    aether_sampler *sampler;
} list;

static void open_list(list *l, uint64_t n, const double *weights) {
    const uint64_t num_nodes = n;
    aether_error err = {0};
    memset(l, 0, sizeof *l);
    l->n = n;
    for (uint64_t i = 0; i < n; i++) {
        l->ids[i] = (uint32_t)i;
        l->edge_ids[i] = (i + 1) % n;
        l->weights[l->edge_ids[i]] = weights[i];
        l->times[l->edge_ids[i]] = (int64_t)i;
        l->indptr[i + 1] = n;
    }
    aether_lists lists = {n, n, n, l->indptr, l->ids, l->edge_ids, 4, 8};
    CHECK_OK(aether_topology_create(&lists, &l->topology, &err), err);
    l->relation = (aether_relation){.topology = l->topology,
                                    .weights = l->weights,
                                    .weight_dtype = AETHER_F64,
                                    .times = l->times,
                                    .time_dtype = AETHER_I64,
                                    .times_of = AETHER_TIMES_OF_EDGES};
    CHECK_OK(aether_sampler_create_typed(AE_SIZED(aether_schema, &l->relation, &num_nodes, 1, 1), &l->sampler,
                                         &err),
             err);
}

static void close_list(list *l) {
    aether_sampler_destroy(l->sampler);
    aether_topology_destroy(l->topology);
}

/* DRAWS times k entries of the list, row by row; `since` and `until` bound all draws. */
static const int64_t *draw(const list *l, int64_t k, uint32_t flags, int64_t since, int64_t until) {
    static int64_t seeds[DRAWS], sinces[DRAWS], untils[DRAWS], edges[DRAWS * MOST];
    uint64_t hop_nodes[2], hop_edges[1], num_nodes[1], num_edges[1];
    aether_error err = {0};
    for (int i = 0; i < DRAWS; i++) {
        sinces[i] = since;
        untils[i] = until;
    }
    const aether_seeds all = {seeds, DRAWS, sinces, untils};
    aether_sample_options o = {
        .key = 1, .fanouts = &k, .num_hops = 1, .flags = flags | AETHER_SAMPLE_DISJOINT, .num_threads = 1};
    CHECK_OK(aether_sample_typed(l->sampler, &all, &o,
                                 AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, num_nodes, num_edges),
                                 &err),
             err);
    CHECK_EQ(num_edges[0], DRAWS * k);
    if (num_edges[0] == (uint64_t)(DRAWS * k))
        CHECK_OK(aether_sample_export_edges(l->sampler, 0,
                                            AE_SIZED(aether_sample_arrays, .item_bytes = 8,
                                                     .num_edges = num_edges[0], .edge = edges),
                                            &err),
                 err);
    for (int64_t i = 0; i < DRAWS * k; i++) /* edge ids to places in the list */
        edges[i] = (edges[i] + (int64_t)l->n - 1) % (int64_t)l->n;
    return edges;
}

/* Counts in cells against their chances; a cell without a chance stays empty. Six
 * standard deviations of chi-square. */
static void check_cells(const char *what, const uint64_t *counts, const double *chances, uint64_t cells,
                        uint64_t draws) {
    double statistic = 0, freedom = -1;
    for (uint64_t c = 0; c < cells; c++) {
        double wanted = chances[c] * (double)draws, off = (double)counts[c] - wanted;
        if (chances[c] <= 0 && counts[c])
            TEST_FAIL("%s: cell %" PRIu64 " cannot be drawn", what, c);
        if (chances[c] <= 0)
            continue;
        statistic += off * off / wanted;
        freedom++;
    }
    if (!(statistic <= freedom + 6 * sqrt(2 * freedom) + 1e-9))
        TEST_FAIL("%s: chi-square is %g with %g degrees of freedom", what, statistic, freedom);
}

static double sum_outside(const double *weights, uint64_t n, uint64_t taken) {
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += taken >> i & 1 ? 0 : weights[i];
    return sum;
}

/* The chance of every set of k entries, drawn one after the other: chances[set]. */
static void add_sets(const double *weights, uint64_t n, uint64_t k, uint64_t taken, double chance,
                     double *chances) {
    if (k == 0) {
        chances[taken] += chance;
        return;
    }
    double left = sum_outside(weights, n, taken);
    for (uint64_t i = 0; i < n; i++)
        if (!(taken >> i & 1) && weights[i] > 0)
            add_sets(weights, n, k - 1, taken | UINT64_C(1) << i, chance * weights[i] / left, chances);
}

/* `exact` are weights of the same proportions that can be added up. */
static void check_distinct(const double *weights, const double *exact, uint64_t n, uint64_t k, int64_t since,
                           int64_t until) {
    double chances[1 << MOST] = {0};
    uint64_t counts[1 << MOST] = {0}, hidden = 0;
    list l;
    open_list(&l, n, weights);
    double visible[MOST];
    for (uint64_t i = 0; i < n; i++)
        visible[i] = (int64_t)i < since || (int64_t)i > until ? 0 : exact[i];
    add_sets(visible, n, k, hidden, 1, chances);
    const int64_t *drawn = draw(&l, (int64_t)k, 0, since, until);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t set = 0;
        for (uint64_t j = 0; j < k; j++)
            set |= UINT64_C(1) << drawn[(uint64_t)i * k + j];
        CHECK_EQ(__builtin_popcountll(set), k);
        counts[set]++;
    }
    check_cells("sets without replacement", counts, chances, UINT64_C(1) << n, DRAWS);
    close_list(&l);
}

/* Single draws, and pairs of neighbouring ones, which are independent. */
static void check_replaced(const double *weights, const double *exact, uint64_t n, int64_t since,
                           int64_t until) {
    double chances[MOST] = {0}, pairs[MOST * MOST] = {0}, total = 0;
    uint64_t counts[MOST] = {0}, pair_counts[MOST * MOST] = {0};
    list l;
    open_list(&l, n, weights);
    for (uint64_t i = 0; i < n; i++)
        total += (int64_t)i < since || (int64_t)i > until ? 0 : exact[i];
    for (uint64_t i = 0; i < n; i++)
        chances[i] = (int64_t)i < since || (int64_t)i > until ? 0 : exact[i] / total;
    for (uint64_t i = 0; i < n * n; i++)
        pairs[i] = chances[i / n] * chances[i % n];
    const int64_t *drawn = draw(&l, 2, AETHER_SAMPLE_REPLACE, since, until);
    for (int i = 0; i < 2 * DRAWS; i += 2) {
        counts[drawn[i]]++;
        counts[drawn[i + 1]]++;
        pair_counts[(uint64_t)drawn[i] * n + (uint64_t)drawn[i + 1]]++;
    }
    check_cells("draws with replacement", counts, chances, n, 2 * DRAWS);
    check_cells("pairs with replacement", pair_counts, pairs, n * n, DRAWS);
    close_list(&l);
}

static void check_all(const double *weights, const double *exact, uint64_t n) {
    uint64_t positive = 0;
    for (uint64_t i = 0; i < n; i++)
        positive += exact[i] > 0;
    check_replaced(weights, exact, n, INT64_MIN, INT64_MAX);
    for (uint64_t k = 1; k < positive; k++)
        check_distinct(weights, exact, n, k, INT64_MIN, INT64_MAX);
}

TEST_ONE_THREAD(chances_follow_the_weights) {
    const double weights[][6] = {{1, 1, 1, 1, 1, 1},
                                 {1, 2, 3, 4, 5, 6},
                                 {9, 0, 1, 1, 0, 4},
                                 {0.1, 0.1, 100, 3, 1, 7},
                                 {1, 0, 0, 0, 0, 2}};
    for (int i = 0; i < 5; i++)
        check_all(weights[i], weights[i], 6);
}

/* Of the entries that can be seen, and as if there were no others. */
TEST_ONE_THREAD(chances_follow_the_weights_that_are_in_time) {
    const double weights[] = {50, 1, 2, 0, 4, 3, 90};
    check_replaced(weights, weights, 7, 1, 5);
    check_distinct(weights, weights, 7, 2, 1, 5);
    check_distinct(weights, weights, 7, 3, 1, 5);
    check_distinct(weights, weights, 7, 1, 4, INT64_MAX);
}

/* The sum of large weights is no double, nor the key of a tiny one. */
TEST_ONE_THREAD(chances_of_huge_weights) {
    const double huge[] = {1e308, 1e308, 1e308, 1.5e308}, exact[] = {2, 2, 2, 3};
    check_all(huge, exact, 4);
    const double limit[] = {DBL_MAX, DBL_MAX, DBL_MAX, 0, DBL_MAX, DBL_MAX}, even[] = {1, 1, 1, 0, 1, 1};
    check_all(limit, even, 6);
    const double both[] = {1e308, 1, 1e308, 5e-324, 1e308}, large[] = {1, 0, 1, 0, 1};
    check_all(both, large, 5);
}

TEST_ONE_THREAD(chances_of_tiny_weights) {
    const double t = DBL_TRUE_MIN;
    const double tiny[] = {t, t, t, t}, even[] = {1, 1, 1, 1};
    check_all(tiny, even, 4);
    const double steps[] = {t, 2 * t, 0, 3 * t, 4 * t}, exact[] = {1, 2, 0, 3, 4};
    check_all(steps, exact, 5);
    const double least[] = {DBL_MIN, DBL_MIN, 3 * DBL_MIN}, least_exact[] = {1, 1, 3};
    check_all(least, least_exact, 3);
}

/* Whatever is left after the large ones is drawn by its weight as well. */
TEST_ONE_THREAD(chances_of_tiny_weights_beside_a_large_one) {
    const double t = DBL_TRUE_MIN, weights[] = {t, t, DBL_MAX, 2 * t};
    list l;
    open_list(&l, 4, weights);
    uint64_t counts[4] = {0};
    const int64_t *drawn = draw(&l, 2, 0, INT64_MIN, INT64_MAX);
    for (int i = 0; i < 2 * DRAWS; i++)
        counts[drawn[i]]++;
    CHECK_EQ(counts[2], DRAWS);
    counts[2] = 0;
    const double chances[] = {0.25, 0.25, 0, 0.5};
    check_cells("the second", counts, chances, 4, DRAWS);
    close_list(&l);
}

TEST_MAIN()
