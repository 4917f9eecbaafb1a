/* aether_check_times: which lists count as sorted, and what is said of the others. */
#include <math.h>

#include "test.h"

enum { NODES = 10000, DEGREE = 4 };

/* NODES lists of DEGREE entries; edge ids count down, and so do the neighbours. */
static uint64_t indptr[NODES + 1];
static uint32_t ids[NODES * DEGREE], edge_ids[NODES * DEGREE];
static int64_t times[NODES * DEGREE];
static double floats[NODES * DEGREE];

static uint64_t edge_of(uint64_t node, uint64_t i) {
    return edge_ids[node * DEGREE + i];
}

/* Sorted, with ties: 0 1 1 2 in every list; a list may go below the one before. */
static aether_relation make(bool of_nodes, uint32_t dtype) {
    static const int64_t sorted[DEGREE] = {0, 1, 1, 2};
    aether_error err = {0};
    aether_relation r = {.time_dtype = dtype};
    aether_topology *t = NULL;
    for (uint64_t p = 0; p < NODES * DEGREE; p++) {
        indptr[p / DEGREE] = p / DEGREE * DEGREE;
        edge_ids[p] = (uint32_t)(NODES * DEGREE - 1 - p);
        ids[p] = (uint32_t)(DEGREE - 1 - p % DEGREE);
        uint64_t at = of_nodes ? ids[p] : edge_ids[p];
        floats[at] = (double)(times[at] = sorted[p % DEGREE]);
    }
    indptr[NODES] = NODES * DEGREE;
    aether_lists lists = {NODES, NODES, NODES * DEGREE, indptr, ids, edge_ids, 4, 4};
    CHECK_OK(aether_topology_create(&lists, &t, &err), err);
    r.topology = t;
    r.times = dtype == AETHER_F64 ? (void *)floats : (void *)times;
    r.times_of = of_nodes ? AETHER_TIMES_OF_NODES : AETHER_TIMES_OF_EDGES;
    return r;
}

static void drop(aether_relation *r) {
    aether_topology_destroy((aether_topology *)r->topology);
}

static void check_first_bad(const aether_relation *r, uint64_t node) {
    aether_error err = {0};
    char message[80];
    CHECK_CODE(aether_check_times(r, NULL, &err), AETHER_E_INVALID);
    CHECK_EQ(err.position, node);
    snprintf(message, sizeof message, "the list of node %" PRIu64 " is not sorted by time", node);
    CHECK_STR(err.message, message);
    CHECK_CODE(aether_check_times(r, NULL, NULL), AETHER_E_INVALID);
}

TEST(sorted_lists_with_ties_pass) {
    for (int of_nodes = 0; of_nodes < 2; of_nodes++)
        for (int wide = 0; wide < 2; wide++) {
            aether_relation r = make(of_nodes, wide ? AETHER_F64 : AETHER_I64);
            aether_error err = {0};
            aether_task task = {0};
            CHECK_OK(aether_check_times(&r, &task, &err), err);
            CHECK_EQ(task.done, NODES);
            CHECK_EQ(task.total, NODES);
            r.times = NULL;
            CHECK_OK(aether_check_times(&r, NULL, &err), err);
            drop(&r);
        }
}

/* Blocks of nodes are checked by several threads: the first node is named all the same. */
TEST(the_first_unsorted_list_is_named) {
    const uint64_t bad[] = {9999, 9998, 8192, 8191, 4097, 4096, 4095, 1, 0};
    aether_error err = {0};
    CHECK_OK(aether_set_num_threads(4, &err), err);
    aether_relation r = make(false, AETHER_I64);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        times[edge_of(bad[i], i % 3 + 1)] = -1;
        check_first_bad(&r, bad[i]);
    }
    CHECK_OK(aether_set_num_threads(0, &err), err);
    drop(&r);
}

TEST(one_step_down_anywhere_in_a_list_is_found) {
    aether_relation r = make(false, AETHER_F64);
    for (uint64_t i = 0; i < DEGREE; i++) {
        uint64_t edge = edge_of(5000, i);
        double before = floats[edge];
        floats[edge] = i == 0 ? nextafter(1, 2) : nextafter(floats[edge_of(5000, i - 1)], -1);
        check_first_bad(&r, 5000);
        floats[edge] = before;
    }
    aether_error err = {0};
    CHECK_OK(aether_check_times(&r, NULL, &err), err);
    drop(&r);
}

TEST(limits_and_both_zeros_are_times) {
    aether_relation r = make(false, AETHER_I64);
    aether_error err = {0};
    const int64_t least[DEGREE] = {INT64_MIN, INT64_MIN, INT64_MAX, INT64_MAX};
    for (uint64_t i = 0; i < DEGREE; i++)
        times[edge_of(7, i)] = least[i];
    CHECK_OK(aether_check_times(&r, NULL, &err), err);
    times[edge_of(7, 3)] = INT64_MAX - 1;
    check_first_bad(&r, 7);
    drop(&r);
    r = make(false, AETHER_F64);
    const double real[DEGREE] = {-INFINITY, 0.0, -0.0, INFINITY};
    for (uint64_t i = 0; i < DEGREE; i++)
        floats[edge_of(7, i)] = real[i];
    CHECK_OK(aether_check_times(&r, NULL, &err), err);
    drop(&r);
}

/* The map of doubles would order both kinds of NaN: behind and before everything. */
TEST(nan_is_no_time) {
    for (int i = 0; i < DEGREE; i++)
        for (int negative = 0; negative < 2; negative++) {
            aether_relation r = make(false, AETHER_F64);
            floats[edge_of(4100, (uint64_t)i)] = negative ? -NAN : NAN;
            check_first_bad(&r, 4100);
            drop(&r);
        }
    aether_relation r = make(true, AETHER_F64);
    floats[NODES - 1] = NAN; /* stands in no list */
    aether_error err = {0};
    CHECK_OK(aether_check_times(&r, NULL, &err), err);
    floats[0] = NAN; /* the last of every list */
    check_first_bad(&r, 0);
    drop(&r);
}

TEST(times_of_nodes_follow_the_neighbours) {
    aether_relation r = make(true, AETHER_I64);
    ids[DEGREE * 4096 + 1] = DEGREE - 1; /* times 0 0 1 2 */
    aether_error err = {0};
    CHECK_OK(aether_check_times(&r, NULL, &err), err);
    ids[DEGREE * 4096 + 1] = 0; /* times 0 2 1 2 */
    check_first_bad(&r, 4096);
    drop(&r);
}

TEST(damage_is_reported_not_followed) {
    aether_relation r = make(false, AETHER_I64);
    aether_error err = {0};
    edge_ids[17] = NODES * DEGREE;
    CHECK_CODE(aether_check_times(&r, NULL, &err), AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 17);
    CHECK_EQ(err.value, NODES * DEGREE);
    CHECK_CODE(aether_check_times(&r, NULL, NULL), AETHER_E_CORRUPT);
    drop(&r);
    r = make(true, AETHER_I64);
    ids[18] = NODES;
    CHECK_CODE(aether_check_times(&r, NULL, &err), AETHER_E_CORRUPT);
    CHECK_EQ(err.value, NODES);
    drop(&r);
    r = make(false, AETHER_I64);
    indptr[3] = NODES * DEGREE + 1;
    CHECK_CODE(aether_check_times(&r, NULL, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "the list of node 2");
    drop(&r);
}

TEST(times_of_another_kind_are_refused) {
    aether_relation r = make(false, AETHER_I64);
    aether_error err = {0};
    r.time_dtype = AETHER_F32;
    CHECK_CODE(aether_check_times(&r, NULL, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "int64 or float64");
    r.time_dtype = AETHER_I64;
    r.times_of = 0;
    CHECK_CODE(aether_check_times(&r, NULL, &err), AETHER_E_INVALID);
    drop(&r);
}

TEST(checking_can_be_cancelled) {
    aether_relation r = make(false, AETHER_I64);
    aether_error err = {0};
    aether_task task = {.cancel = 1};
    CHECK_CODE(aether_check_times(&r, &task, &err), AETHER_E_CANCELLED);
    drop(&r);
}

TEST_MAIN()
