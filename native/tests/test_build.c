/* Building lists, id bounds and list checks, against naive references. */
#include <limits.h>

#include "build/lists.h"
#include "core/pool.h"
#include "test.h"

/* ---- an edge list and its naive sort ------------------------------------------ */

typedef struct {
    uint64_t num_edges, num_major, num_minor;
    int64_t *major, *minor;
    uint64_t *indptr, *order; /* the expected output; indices are minor[order] */
} edges;

static edges edges_new(uint64_t num_edges, uint64_t num_major, uint64_t num_minor) {
    edges e = {num_edges, num_major, num_minor, NULL, NULL, NULL, NULL};
    e.major = calloc(num_edges + 1, 8);
    e.minor = calloc(num_edges + 1, 8);
    e.indptr = calloc(num_major + 2, 8);
    e.order = calloc(num_edges + 1, 8);
    return e;
}

static void edges_free(edges *e) {
    free(e->major);
    free(e->minor);
    free(e->indptr);
    free(e->order);
}

static void edges_sort(edges *e) {
    memset(e->indptr, 0, (e->num_major + 2) * 8);
    for (uint64_t i = 0; i < e->num_edges; i++)
        e->indptr[e->major[i] + 2]++;
    for (uint64_t v = 0; v < e->num_major; v++)
        e->indptr[v + 2] += e->indptr[v + 1];
    for (uint64_t i = 0; i < e->num_edges; i++)
        e->order[e->indptr[e->major[i] + 1]++] = i;
}

enum { UNIFORM, HUB, SKEWED, ASCENDING, DESCENDING, LAST, KINDS };

static edges edges_random(uint64_t num_edges, uint64_t num_major, uint64_t num_minor, int kind,
                          uint64_t seed) {
    edges e = edges_new(num_edges, num_major, num_minor);
    for (uint64_t i = 0; i < num_edges; i++) {
        uint64_t r = test_random(&seed), id = r % num_major;
        if (kind == HUB)
            id = num_major / 2;
        else if (kind == SKEWED)
            id = r % (1 + (r >> 32) % num_major);
        else if (kind == ASCENDING)
            id = i % num_major;
        else if (kind == DESCENDING)
            id = num_major - 1 - i * num_major / num_edges % num_major;
        else if (kind == LAST)
            id = num_major - 1;
        e.major[i] = (int64_t)id;
        e.minor[i] = (int64_t)(test_random(&seed) % num_minor);
    }
    edges_sort(&e);
    return e;
}

static uint64_t item(const void *array, uint64_t i, uint32_t bytes) {
    return bytes == 4 ? ((const uint32_t *)array)[i] : ((const uint64_t *)array)[i];
}

/* Build with the given widths and compare with the reference. */
static void check_build(const edges *e, uint32_t id_bytes, uint32_t order_bytes) {
    aether_error err = {0};
    aether_task task = {0};
    uint64_t *indptr = malloc((e->num_major + 1) * 8), wrong = 0;
    void *indices = malloc(e->num_edges * id_bytes + 1);
    void *order = order_bytes ? malloc(e->num_edges * order_bytes + 1) : NULL;
    CHECK_OK(aether_build_lists(
                 AE_SIZED(aether_edge_list, e->major, e->minor, e->num_edges, e->num_major, e->num_minor),
                 AE_SIZED(aether_built_lists, indptr, indices, order, id_bytes, order_bytes), &task, &err),
             err);
    CHECK_EQ(task.total, 3 * e->num_edges);
    CHECK_EQ(task.done, task.total);
    CHECK(memcmp(indptr, e->indptr, (e->num_major + 1) * 8) == 0);
    for (uint64_t i = 0; i < e->num_edges; i++) {
        wrong += item(indices, i, id_bytes) != (uint64_t)e->minor[e->order[i]];
        wrong += order && item(order, i, order_bytes) != e->order[i];
    }
    CHECK_EQ(wrong, 0);
    aether_task check_task = {0};
    CHECK_OK(aether_check_lists(&(aether_lists){.num_major = e->num_major,
                                                .num_minor = e->num_minor,
                                                .num_edges = e->num_edges,
                                                .indptr = indptr,
                                                .indices = indices,
                                                .id_bytes = id_bytes},
                                &check_task, &err),
             err);
    CHECK_EQ(check_task.done, check_task.total);
    free(indptr);
    free(indices);
    free(order);
}

static const int thread_counts[] = {1, 2, 8};
#define FOR_THREADS()                                                                                        \
    for (int t_ = TEST_ONLY_RACES ? 2 : 0; t_ < 3; t_++)                                                     \
        if (aether_set_num_threads(thread_counts[t_], NULL) == 0)

/* Long lists take the same code in every width: some combinations will do. */
static void check_all_widths(const edges *e) {
    FOR_THREADS() {
        for (uint32_t id_bytes = 4; id_bytes <= 8; id_bytes += 4)
            for (uint32_t order_bytes = 0; order_bytes <= 8; order_bytes += 4)
                if (e->num_edges < 50000 || id_bytes == order_bytes || order_bytes == 0)
                    check_build(e, id_bytes, order_bytes);
    }
    aether_set_num_threads(0, NULL);
}

/* ---- aether_build_lists ----------------------------------------------------------- */

TEST(random_lists_match_the_naive_sort) {
    static const uint64_t sizes[][2] = {{1, 1},          {10, 1},     {1, 10},     {100, 7},
                                        {1000, 1000},    {5000, 300}, {70000, 11}, {150000, 999},
                                        {80000, 100000}, {300, 50000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            edges e =
                edges_random(sizes[i][0], sizes[i][1], 1 + sizes[i][1] / 2, kind, i * 31 + (uint64_t)kind);
            check_all_widths(&e);
            edges_free(&e);
        }
}

TEST(no_edges) {
    edges e = edges_new(0, 5, 5), none = edges_new(0, 0, 0), many = edges_new(0, 100000, 1);
    check_all_widths(&e);
    check_all_widths(&none);
    check_all_widths(&many);
    uint64_t indptr[3] = {9, 9, 9};
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, NULL, NULL, 0, 2, 2),
                                  AE_SIZED(aether_built_lists, indptr, NULL, NULL, 4, 0), NULL, NULL),
               AETHER_OK);
    CHECK(indptr[0] == 0 && indptr[1] == 0 && indptr[2] == 0);
    edges_free(&e);
    edges_free(&none);
    edges_free(&many);
}

TEST(duplicates_and_self_loops_are_kept_in_order) {
    const int64_t major[] = {1, 0, 1, 1, 0}, minor[] = {1, 2, 1, 0, 2};
    uint64_t indptr[4];
    uint32_t indices[5], order[5];
    aether_error err = {0};
    CHECK_OK(aether_build_lists(AE_SIZED(aether_edge_list, major, minor, 5, 3, 3),
                                AE_SIZED(aether_built_lists, indptr, indices, order, 4, 4), NULL, &err),
             err);
    const uint32_t want_indices[] = {2, 2, 1, 1, 0}, want_order[] = {1, 4, 0, 2, 3};
    const uint64_t want_indptr[] = {0, 2, 5, 5};
    CHECK(!memcmp(indices, want_indices, sizeof indices) && !memcmp(order, want_order, sizeof order));
    CHECK(!memcmp(indptr, want_indptr, sizeof indptr));
}

TEST(ids_at_the_bounds_of_four_and_eight_bytes) {
    const int64_t major[] = {1, 0}, minor[] = {UINT32_MAX, 0}, wide[] = {INT64_MAX - 1, 7};
    uint64_t indptr[3], indices64[2];
    uint32_t indices[2];
    aether_error err = {0};
    CHECK_OK(aether_build_lists(AE_SIZED(aether_edge_list, major, minor, 2, 2, UINT64_C(1) << 32),
                                AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), NULL, &err),
             err);
    CHECK(indices[0] == 0 && indices[1] == UINT32_MAX);
    CHECK_OK(aether_build_lists(AE_SIZED(aether_edge_list, major, wide, 2, 2, INT64_MAX),
                                AE_SIZED(aether_built_lists, indptr, indices64, NULL, 8, 0), NULL, &err),
             err);
    CHECK(indices64[0] == 7 && indices64[1] == INT64_MAX - 1);
}

static int64_t bad_ids(edges *e, aether_error *err) {
    uint64_t *indptr = malloc((e->num_major + 1) * 8);
    uint32_t *indices = malloc((e->num_edges + 1) * 4);
    int rc = aether_build_lists(
        AE_SIZED(aether_edge_list, e->major, e->minor, e->num_edges, e->num_major, e->num_minor),
        AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), NULL, err);
    free(indptr);
    free(indices);
    CHECK_EQ(rc, AETHER_E_RANGE);
    return err->position;
}

TEST(a_bad_id_is_named_at_every_position) {
    static const int64_t bad[] = {-1, 100, INT64_MIN, INT64_MAX};
    edges e = edges_random(300, 100, 100, UNIFORM, 5);
    aether_error err = {0};
    for (uint64_t i = 0; i < e.num_edges; i++)
        for (int side = 0; side < 2; side++) {
            int64_t *ids = side ? e.minor : e.major, good = ids[i];
            ids[i] = bad[i % 4];
            CHECK_EQ(bad_ids(&e, &err), i);
            CHECK_EQ(err.value, bad[i % 4]);
            CHECK_HAS(err.message, side ? "minor id" : "major id");
            ids[i] = good;
        }
    edges_free(&e);
}

TEST(the_smallest_bad_row_is_named_for_any_number_of_threads) {
    edges e = edges_random(400000, 1000, 2000, UNIFORM, 6);
    aether_error err = {0};
    for (uint64_t i = 123456; i < e.num_edges; i += 4567)
        e.major[i] = -5;
    e.minor[123455] = 2000;
    FOR_THREADS() for (int repeat = 0; repeat < 10; repeat++) {
        CHECK_EQ(bad_ids(&e, &err), 123455);
        CHECK_EQ(err.value, 2000);
    }
    e.major[123455] = 1000; /* both are bad: major comes first */
    bad_ids(&e, &err);
    CHECK_EQ(err.value, 1000);
    CHECK_STR(err.message, "major id 1000 at row 123455 is not in [0, 1000)");
    aether_set_num_threads(0, NULL);
    edges_free(&e);
}

TEST(edges_without_nodes_are_out_of_range) {
    const int64_t id = 0;
    uint64_t indptr[2];
    uint32_t indices[1];
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, &id, &id, 1, 0, 1),
                                  AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), NULL, NULL),
               AETHER_E_RANGE);
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, &id, &id, 1, 1, 0),
                                  AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), NULL, NULL),
               AETHER_E_RANGE);
}

TEST(arguments_are_checked) {
    const int64_t id = 0;
    const uint64_t u32 = UINT64_C(1) << 32;
    uint64_t indptr[2], order[1];
    uint32_t indices[1];
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, &id, &id, 1, 1, 1),
                                  AE_SIZED(aether_built_lists, indptr, indices, NULL, 5, 0), NULL, NULL),
               AETHER_E_INVALID);
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, &id, &id, 1, 1, 1),
                                  AE_SIZED(aether_built_lists, indptr, indices, order, 4, 2), NULL, NULL),
               AETHER_E_INVALID);
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, NULL, &id, 1, 1, 1),
                                  AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), NULL, NULL),
               AETHER_E_INVALID);
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, &id, &id, 1, 1, 1),
                                  AE_SIZED(aether_built_lists, NULL, indices, NULL, 4, 0), NULL, NULL),
               AETHER_E_INVALID);
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, &id, &id, 1, 1, u32 + 1),
                                  AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), NULL, NULL),
               AETHER_E_LIMIT);
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, &id, &id, u32 + 1, 1, 1),
                                  AE_SIZED(aether_built_lists, indptr, indices, order, 4, 4), NULL, NULL),
               AETHER_E_LIMIT);
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, &id, &id, 1, UINT64_MAX, 1),
                                  AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), NULL, NULL),
               AETHER_E_LIMIT);
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, &id, &id, UINT64_MAX, 1, 1),
                                  AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), NULL, NULL),
               AETHER_E_LIMIT);
}

TEST(a_cancelled_build_says_so) {
    edges e = edges_random(100000, 100, 100, UNIFORM, 7);
    uint64_t indptr[101];
    uint32_t *indices = malloc(e.num_edges * 4);
    aether_task task = {.cancel = 1};
    aether_error err = {0};
    CHECK_CODE(aether_build_lists(AE_SIZED(aether_edge_list, e.major, e.minor, e.num_edges, 100, 100),
                                  AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), &task, &err),
               AETHER_E_CANCELLED);
    CHECK_EQ(err.code, AETHER_E_CANCELLED);
    CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = 100,
                                                  .num_minor = 100,
                                                  .num_edges = e.num_edges,
                                                  .indptr = e.indptr,
                                                  .indices = indices,
                                                  .id_bytes = 4},
                                  &task, &err),
               AETHER_E_CANCELLED);
    free(indices);
    edges_free(&e);
}

TEST(the_plan_covers_everything) {
    static const uint64_t sizes[] = {
        0, 1, 2, 65535, 65536, 100000, UINT64_C(1) << 27, UINT64_C(1) << 33, (UINT64_C(1) << 42) - 1};
    for (size_t i = 0; i < 9; i++)
        for (size_t j = 0; j < 9; j++)
            for (uint32_t threads = 1; threads <= 256; threads *= 4) {
                ae_build_shape s = ae_build_plan(sizes[i], sizes[j], 8, threads);
                CHECK(s.buckets >= 1 && s.buckets <= AE_BUILD_BUCKETS && s.shift <= 32);
                CHECK(sizes[j] == 0 || (sizes[j] - 1) >> s.shift == s.buckets - 1);
                CHECK(s.slices >= 1 && s.slices <= 4 * threads && s.slices * s.slice_len >= sizes[i]);
            }
}

/* More than 65536 lists per bucket: keys of four bytes. */
TEST(wide_buckets) {
#if defined(AE_SANITIZED)
    SKIP("needs 1.2 GB under a sanitizer");
#endif
    const uint64_t num_major = (UINT64_C(1) << 26) + 12345;
    CHECK(ae_build_plan(1000, num_major, 8, 1).shift > 16);
    edges e = edges_random(40000, num_major, 1000, UNIFORM, 8);
    check_build(&e, 4, 8);
    edges_free(&e);
}

/* ---- aether_id_bounds ---------------------------------------------------------------- */

TEST(id_bounds) {
    int64_t min = 0, max = 0, one = -3;
    CHECK_CODE(aether_id_bounds(NULL, 0, &min, &max, NULL), AETHER_OK);
    CHECK(min == -1 && max == -1);
    CHECK_CODE(aether_id_bounds(&one, 1, &min, &max, NULL), AETHER_OK);
    CHECK(min == -3 && max == -3);
    CHECK_CODE(aether_id_bounds(NULL, 1, &min, &max, NULL), AETHER_E_INVALID);
    const uint64_t n = 300000;
    int64_t *ids = malloc(n * 8);
    uint64_t seed = 1;
    FOR_THREADS() for (int repeat = 0; repeat < 5; repeat++) {
        for (uint64_t i = 0; i < n; i++)
            ids[i] = (int64_t)(test_random(&seed) % 1000000);
        ids[test_random(&seed) % (n / 2)] = INT64_MIN;
        ids[n / 2 + test_random(&seed) % (n / 2)] = INT64_MAX;
        CHECK_CODE(aether_id_bounds(ids, n, &min, &max, NULL), AETHER_OK);
        CHECK(min == INT64_MIN && max == INT64_MAX);
    }
    aether_set_num_threads(0, NULL);
    free(ids);
}

/* ---- aether_check_lists --------------------------------------------------------------- */

TEST(check_lists_names_the_fault) {
    uint64_t indptr[] = {0, 2, 2, 4}, wide[] = {0, 5, 9, 1};
    uint32_t ids[] = {0, 5, 9, 1};
    aether_error err = {0};
    CHECK_OK(aether_check_lists(&(aether_lists){.num_major = 3,
                                                .num_minor = 10,
                                                .num_edges = 4,
                                                .indptr = indptr,
                                                .indices = ids,
                                                .id_bytes = 4},
                                NULL, &err),
             err);
    CHECK_OK(aether_check_lists(&(aether_lists){.num_major = 3,
                                                .num_minor = 10,
                                                .num_edges = 4,
                                                .indptr = indptr,
                                                .indices = wide,
                                                .id_bytes = 8},
                                NULL, &err),
             err);
    CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = 3,
                                                  .num_minor = 9,
                                                  .num_edges = 4,
                                                  .indptr = indptr,
                                                  .indices = ids,
                                                  .id_bytes = 4},
                                  NULL, &err),
               AETHER_E_CORRUPT);
    CHECK(err.position == 2 && err.value == 9);
    CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = 3,
                                                  .num_minor = 5,
                                                  .num_edges = 4,
                                                  .indptr = indptr,
                                                  .indices = wide,
                                                  .id_bytes = 8},
                                  NULL, &err),
               AETHER_E_CORRUPT);
    CHECK(err.position == 1 && err.value == 5);
    CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = 3,
                                                  .num_minor = 10,
                                                  .num_edges = 5,
                                                  .indptr = indptr,
                                                  .indices = ids,
                                                  .id_bytes = 4},
                                  NULL, &err),
               AETHER_E_CORRUPT);
    CHECK(err.position == 3 && err.value == 4);
    CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = 3,
                                                  .num_minor = 10,
                                                  .num_edges = 4,
                                                  .indptr = indptr,
                                                  .indices = ids,
                                                  .id_bytes = 2},
                                  NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = 3,
                                                  .num_minor = 10,
                                                  .num_edges = 4,
                                                  .indptr = NULL,
                                                  .indices = ids,
                                                  .id_bytes = 4},
                                  NULL, &err),
               AETHER_E_INVALID);
    indptr[1] = UINT64_MAX;
    CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = 3,
                                                  .num_minor = 10,
                                                  .num_edges = 4,
                                                  .indptr = indptr,
                                                  .indices = ids,
                                                  .id_bytes = 4},
                                  NULL, &err),
               AETHER_E_CORRUPT);
    CHECK(err.position == 1);
    CHECK_HAS(err.message, "list 1 ends at 2");
    indptr[0] = 1;
    CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = 3,
                                                  .num_minor = 10,
                                                  .num_edges = 4,
                                                  .indptr = indptr,
                                                  .indices = ids,
                                                  .id_bytes = 4},
                                  NULL, &err),
               AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 0);
    const uint64_t last_goes_back[] = {0, 2, 5, 4};
    CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = 3,
                                                  .num_minor = 10,
                                                  .num_edges = 4,
                                                  .indptr = last_goes_back,
                                                  .indices = ids,
                                                  .id_bytes = 4},
                                  NULL, &err),
               AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 2);
    CHECK_HAS(err.message, "list 2 ends at 4");
    uint64_t empty = 0;
    CHECK_OK(aether_check_lists(&(aether_lists){.num_major = 0,
                                                .num_minor = 0,
                                                .num_edges = 0,
                                                .indptr = &empty,
                                                .indices = NULL,
                                                .id_bytes = 4},
                                NULL, &err),
             err);
}

TEST(check_lists_finds_the_first_fault_in_large_input) {
    const uint64_t n = 400000;
    uint64_t *indptr = malloc((n + 1) * 8), *wide = malloc(n * 8);
    uint32_t *ids = malloc(n * 4);
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        indptr[i] = i;
        wide[i] = ids[i] = i >= 250000 && i % 7 == 0 ? 77777 : (uint32_t)(i % 50000);
    }
    indptr[n] = n;
    uint64_t first = 250000 + (7 - 250000 % 7) % 7;
    FOR_THREADS() {
        CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = n,
                                                      .num_minor = 50000,
                                                      .num_edges = n,
                                                      .indptr = indptr,
                                                      .indices = ids,
                                                      .id_bytes = 4},
                                      NULL, &err),
                   AETHER_E_CORRUPT);
        CHECK_EQ(err.position, first);
        CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = n,
                                                      .num_minor = 50000,
                                                      .num_edges = n,
                                                      .indptr = indptr,
                                                      .indices = wide,
                                                      .id_bytes = 8},
                                      NULL, &err),
                   AETHER_E_CORRUPT);
        CHECK_EQ(err.position, first);
    }
    for (uint64_t i = 200000; i < n; i += 1000)
        indptr[i + 1] = 5;
    FOR_THREADS() {
        CHECK_CODE(aether_check_lists(&(aether_lists){.num_major = n,
                                                      .num_minor = 50000,
                                                      .num_edges = n,
                                                      .indptr = indptr,
                                                      .indices = ids,
                                                      .id_bytes = 4},
                                      NULL, &err),
                   AETHER_E_CORRUPT);
        CHECK(err.position == 200000 && err.value == 5);
    }
    aether_set_num_threads(0, NULL);
    free(indptr);
    free(wide);
    free(ids);
}

/* ---- aether_hash_edges ------------------------------------------------------------------ */

static uint64_t hash_lists(const uint64_t *indptr, uint64_t lists, const void *ids, uint32_t bytes,
                           const uint64_t *edge_ids, uint64_t n, uint32_t transposed, uint64_t piece) {
    uint64_t sum = 0;
    aether_error err = {0};
    for (uint64_t at = 0; at < n; at += piece) {
        uint64_t some = n - at < piece ? n - at : piece;
        CHECK_OK(aether_hash_edges(AE_SIZED(aether_edge_run, indptr, lists, (const char *)ids + at * bytes,
                                            edge_ids ? edge_ids + at : NULL, bytes, 8, at, some),
                                   transposed, 42, &sum, NULL, &err),
                 err);
    }
    return sum;
}

/* The same edges by destination and by source have the same hash; others do not. */
TEST(edges_have_one_hash_in_any_order) {
    enum { NODES = 3000, EDGES = 200000 };
    uint64_t seed = 8, *indptr[2], *wide = malloc(EDGES * 8), *order = malloc(EDGES * 8);
    int64_t *ends[2];
    uint32_t *ids[2];
    aether_error err = {0};
    for (int i = 0; i < 2; i++) {
        indptr[i] = malloc((NODES + 1) * 8);
        ends[i] = malloc(EDGES * 8);
        ids[i] = malloc(EDGES * 4);
        for (int e = 0; e < EDGES; e++) /* many lists are empty, many edges parallel */
            ends[i][e] = (int64_t)(test_random(&seed) % (i ? NODES : 200));
    }
    CHECK_OK(aether_build_lists(AE_SIZED(aether_edge_list, ends[1], ends[0], EDGES, NODES, NODES),
                                AE_SIZED(aether_built_lists, indptr[0], ids[0], NULL, 4, 8), NULL, &err),
             err);
    for (uint64_t v = 0; v < NODES; v++) /* the edges as their positions among the first lists say */
        for (uint64_t p = indptr[0][v]; p < indptr[0][v + 1]; p++) {
            ends[0][p] = ids[0][p];
            ends[1][p] = (int64_t)v;
            wide[p] = ids[0][p];
        }
    CHECK_OK(aether_build_lists(AE_SIZED(aether_edge_list, ends[0], ends[1], EDGES, NODES, NODES),
                                AE_SIZED(aether_built_lists, indptr[1], ids[1], order, 4, 8), NULL, &err),
             err);
    FOR_THREADS() {
        uint64_t hash = hash_lists(indptr[0], NODES, ids[0], 4, NULL, EDGES, 0, EDGES);
        CHECK_EQ(hash_lists(indptr[0], NODES, wide, 8, NULL, EDGES, 0, 7777), hash);
        CHECK_EQ(hash_lists(indptr[1], NODES, ids[1], 4, order, EDGES, 1, EDGES), hash);
        CHECK_EQ(hash_lists(indptr[1], NODES, ids[1], 4, order, EDGES, 1, 99999), hash);
        CHECK(hash_lists(indptr[1], NODES, ids[1], 4, order, EDGES, 0, EDGES) != hash);
        for (uint64_t e = 5; e < EDGES; e += 39999) {
            uint64_t next = order[e];
            order[e] = order[e - 1];
            CHECK(hash_lists(indptr[1], NODES, ids[1], 4, order, EDGES, 1, EDGES) != hash);
            order[e] = next;
            ids[1][e] ^= 1;
            CHECK(hash_lists(indptr[1], NODES, ids[1], 4, order, EDGES, 1, EDGES) != hash);
            ids[1][e] ^= 1;
        }
        uint64_t moved = indptr[1][100]++;
        CHECK(hash_lists(indptr[1], NODES, ids[1], 4, order, EDGES, 1, EDGES) != hash);
        for (uint64_t v = 0; v < NODES; v += 2) /* whatever offsets say, nothing outside is read */
            indptr[1][v] = test_random(&seed);
        hash_lists(indptr[1], NODES, ids[1], 4, order, EDGES, 1, 4097);
        for (uint64_t v = 0, p = 0; v < NODES; v++) { /* as they were */
            indptr[1][v] = p;
            while (p < EDGES && (uint64_t)ends[0][order[p]] == v)
                p++;
        }
        CHECK_EQ(indptr[1][100], moved);
    }
    aether_set_num_threads(0, NULL);
    uint64_t sum = 0;
    aether_task task = {.cancel = 1};
    CHECK_EQ(aether_hash_edges(AE_SIZED(aether_edge_run, NULL, 0, NULL, order, 8, 8, 0, EDGES), 0, 1, &sum,
                               &task, &err),
             AETHER_E_CANCELLED);
    CHECK_EQ(aether_hash_edges(AE_SIZED(aether_edge_run, NULL, 0, NULL, order, 3, 8, 0, EDGES), 0, 1, &sum,
                               NULL, &err),
             AETHER_E_INVALID);
    CHECK_EQ(aether_hash_edges(AE_SIZED(aether_edge_run, NULL, 0, NULL, order, 8, 8, 0, EDGES), 0, 1, NULL,
                               NULL, &err),
             AETHER_E_INVALID);
    CHECK_EQ(sum, 0);
    for (int i = 0; i < 2; i++) {
        free(indptr[i]);
        free(ends[i]);
        free(ids[i]);
    }
    free(wide);
    free(order);
}

TEST_MAIN()
