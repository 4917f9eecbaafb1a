/* Edges as records: packing, partitioning, ordering, against naive references. */
#include <limits.h>

#include "build/records.h"
#include "test.h"

static const int thread_counts[] = {1, 2, 8};
#define FOR_THREADS()                                                                                        \
    for (int t_ = TEST_ONLY_RACES ? 2 : 0; t_ < 3; t_++)                                                     \
        if (aether_set_num_threads(thread_counts[t_], NULL) == 0)

/* ---- pack ----------------------------------------------------------------------- */

static void check_pack(uint64_t n, uint32_t id_bytes, uint32_t width) {
    uint64_t seed = n + width, limit = id_bytes == 4 ? UINT64_C(1) << 32 : UINT64_C(1) << 62;
    uint32_t bytes = 2 * id_bytes + width;
    int64_t *major = calloc(n + 1, 8), *minor = calloc(n + 1, 8);
    uint8_t *column = malloc(n * width + 1), *records = malloc(n * bytes + 1);
    for (uint64_t i = 0; i < n; i++) {
        major[i] = (int64_t)(test_random(&seed) % limit);
        minor[i] = (int64_t)(test_random(&seed) % limit);
        for (uint32_t b = 0; b < width; b++)
            column[i * width + b] = (uint8_t)test_random(&seed);
    }
    aether_column columns[] = {{column, width, 0}};
    aether_error err = {0};
    CHECK_OK(
        aether_records_pack(AE_SIZED(aether_record_columns, major, minor, n, columns, width != 0, id_bytes),
                            records, n * bytes, &err),
        err);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < n; i++) {
        const char *record = (const char *)records + i * bytes;
        wrong += ae_record_id(record, id_bytes) != (uint64_t)major[i];
        wrong += ae_record_id(record + id_bytes, id_bytes) != (uint64_t)minor[i];
        wrong += memcmp(record + 2 * id_bytes, column + i * width, width) != 0;
    }
    CHECK_EQ(wrong, 0);
    free(major);
    free(minor);
    free(column);
    free(records);
}

TEST(pack_keeps_every_byte) {
    static const uint32_t widths[] = {0, 4, 8, 3, 20};
    FOR_THREADS() {
        for (int w = 0; w < 5; w++)
            for (uint32_t id_bytes = 4; id_bytes <= 8; id_bytes += 4) {
                check_pack(0, id_bytes, widths[w]);
                check_pack(1000, id_bytes, widths[w]);
                check_pack(300001, id_bytes, widths[w]);
            }
    }
}

TEST(pack_names_an_id_that_does_not_fit) {
    enum { N = 200000 };
    int64_t *major = calloc(N, 8), *minor = calloc(N, 8);
    char *records = malloc(N * 16);
    aether_error err = {0};
    FOR_THREADS() {
        minor[150000] = INT64_C(1) << 32;
        major[150001] = -1;
        CHECK_EQ(aether_records_pack(AE_SIZED(aether_record_columns, major, minor, N, NULL, 0, 4), records,
                                     N * 8, &err),
                 AETHER_E_RANGE);
        CHECK_EQ(err.position, 150000);
        CHECK_EQ(err.value, INT64_C(1) << 32);
        CHECK_EQ(aether_records_pack(AE_SIZED(aether_record_columns, major, minor, N, NULL, 0, 8), records,
                                     N * 16, &err),
                 AETHER_E_RANGE);
        CHECK_EQ(err.position, 150001);
        CHECK_EQ(err.value, -1);
        CHECK_HAS(err.message, "major");
    }
    CHECK_EQ(aether_records_pack(AE_SIZED(aether_record_columns, major, minor, N, NULL, 0, 5), records,
                                 N * 10, &err),
             AETHER_E_INVALID);
    CHECK_EQ(
        aether_records_pack(AE_SIZED(aether_record_columns, major, minor, 2, NULL, 0, 4), records, 15, &err),
        AETHER_E_INVALID);
    CHECK_HAS(err.message, "2 records of 8 bytes do not fill 15");
    free(major);
    free(minor);
    free(records);
}

/* ---- keys ----------------------------------------------------------------------- */

TEST(keys_have_the_order_of_values) {
    const double floats[] = {-1.0 / 0.0, -1e300, -1.5, -1e-310, 0.0, 1e-310, 2.5, 1e300, 1.0 / 0.0};
    const int64_t ints[] = {INT64_MIN, -5, -1, 0, 1, 7, INT64_MAX};
    const double minus_zero = -0.0;
    const aether_field f64 = {0, AETHER_F64}, i64 = {0, AETHER_I64};
    for (int i = 1; i < 9; i++)
        CHECK(ae_record_key((const char *)&floats[i - 1], f64) <
              ae_record_key((const char *)&floats[i], f64));
    for (int i = 1; i < 7; i++)
        CHECK(ae_record_key((const char *)&ints[i - 1], i64) < ae_record_key((const char *)&ints[i], i64));
    CHECK(ae_record_key((const char *)&minus_zero, f64) == ae_record_key((const char *)&floats[4], f64));
}

/* ---- partition -------------------------------------------------------------------- */

/* Records of a 64-bit key at `offset`, the rest their number: the order is checked by it. */
static void check_partition(uint64_t n, uint32_t bytes, uint64_t low, uint32_t shift, uint64_t parts) {
    uint64_t seed = n + bytes + shift;
    char *records = calloc(n + 1, bytes), *out = calloc(n + 1, bytes);
    uint64_t *counts = calloc(parts, 8);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t key = low + (((test_random(&seed) % parts) << shift) |
                              (test_random(&seed) & ((UINT64_C(1) << shift) - 1)));
        memcpy(records + i * bytes, &key, 8);
        memcpy(records + i * bytes + 8, &i, bytes < 16 ? 4 : 8);
    }
    aether_error err = {0};
    aether_task task = {0};
    aether_field field = {0, AETHER_U64};
    CHECK_OK(aether_records_partition(AE_SIZED(aether_records, records, n, bytes),
                                      AE_SIZED(aether_partition, low, parts, field, shift), counts, out,
                                      &task, &err),
             err);
    CHECK_EQ(task.done, 2 * n);
    uint64_t place = 0, wrong = 0;
    for (uint64_t part = 0; part < parts; part++) {
        uint64_t last = 0;
        for (uint64_t i = 0; i < counts[part]; i++, place++) {
            uint64_t key, number = 0;
            memcpy(&key, out + place * bytes, 8);
            memcpy(&number, out + place * bytes + 8, bytes < 16 ? 4 : 8);
            wrong += (key - low) >> shift != part || (i && number <= last);
            wrong += number >= n || memcmp(out + place * bytes, records + number * bytes, bytes) != 0;
            last = number;
        }
    }
    CHECK_EQ(place, n);
    CHECK_EQ(wrong, 0);
    free(records);
    free(out);
    free(counts);
}

TEST(partition_is_stable_and_complete) {
    static const uint32_t sizes[] = {12, 16, 24, 20, 300};
    FOR_THREADS() {
        for (int s = 0; s < 5; s++) {
            check_partition(0, sizes[s], 0, 3, 7);
            check_partition(1000, sizes[s], 5, 0, 1024);
            check_partition(sizes[s] == 300 ? 70000 : 400000, sizes[s], UINT64_C(1) << 40, 31, 1000);
        }
        check_partition(5000, 16, 0, 2, AETHER_MAX_PARTS);
    }
}

/* More than 2^32 lists: where ids are sparse, positions and keys need 64 bits. */
TEST(partition_by_ids_beyond_32_bits) {
    uint64_t records[][2] = {{(UINT64_C(5) << 40) + 1, 0}, {UINT64_C(3) << 40, 1}, {UINT64_C(5) << 40, 2}};
    uint64_t counts[8] = {0}, out[3][2];
    aether_error err = {0};
    aether_field field = {0, AETHER_U64};
    CHECK_OK(aether_records_partition(AE_SIZED(aether_records, records, 3, 16),
                                      AE_SIZED(aether_partition, 0, 8, field, 40), counts, out, NULL, &err),
             err);
    CHECK_EQ(counts[3], 1);
    CHECK_EQ(counts[5], 2);
    CHECK_EQ(out[0][1], 1);
    CHECK_EQ(out[1][1], 0);
    CHECK_EQ(out[2][1], 2);
}

TEST(partition_refuses_keys_outside) {
    uint32_t records[] = {3, 0, 8, 0, 2, 0};
    uint64_t counts[8], out[3];
    aether_error err = {0};
    aether_field field = {0, AETHER_U32};
    CHECK_EQ(aether_records_partition(AE_SIZED(aether_records, records, 3, 8),
                                      AE_SIZED(aether_partition, 0, 8, field, 0), counts, out, NULL, &err),
             AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    CHECK_EQ(err.value, 8); /* just behind the last part */
    CHECK_EQ(aether_records_partition(AE_SIZED(aether_records, records, 3, 8),
                                      AE_SIZED(aether_partition, 3, 8, field, 0), counts, out, NULL, &err),
             AETHER_E_RANGE);
    CHECK_EQ(err.position, 2);
    CHECK_EQ(aether_records_partition(AE_SIZED(aether_records, records, 3, 8),
                                      AE_SIZED(aether_partition, 0, 8, field, 64), counts, out, NULL, &err),
             AETHER_E_INVALID);
    CHECK_EQ(aether_records_partition(AE_SIZED(aether_records, records, 3, 8),
                                      AE_SIZED(aether_partition, 0, 0, field, 0), counts, out, NULL, &err),
             AETHER_E_INVALID);
    field.offset = 5;
    CHECK_EQ(aether_records_partition(AE_SIZED(aether_records, records, 3, 8),
                                      AE_SIZED(aether_partition, 0, 8, field, 0), counts, out, NULL, &err),
             AETHER_E_INVALID);
    field = (aether_field){0, AETHER_F32};
    CHECK_EQ(aether_records_partition(AE_SIZED(aether_records, records, 3, 8),
                                      AE_SIZED(aether_partition, 0, 8, field, 0), counts, out, NULL, &err),
             AETHER_E_INVALID);
}

TEST(partition_can_be_cancelled) {
    uint64_t records[64] = {0}, counts[8], out[64];
    aether_error err = {0};
    aether_task task = {.cancel = 1};
    aether_field field = {0, AETHER_U64};
    CHECK_EQ(aether_records_partition(AE_SIZED(aether_records, records, 64, 8),
                                      AE_SIZED(aether_partition, 0, 8, field, 0), counts, out, &task, &err),
             AETHER_E_CANCELLED);
}

/* ---- order ------------------------------------------------------------------------ */

typedef struct {
    uint32_t major, minor;
    uint64_t row;
    int64_t time;
} edge;

static const edge *sorting; /* of qsort */
static int by_time, by_row;

static int compare(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const edge *x = &sorting[i], *y = &sorting[k];
    if (x->major != y->major)
        return x->major < y->major ? -1 : 1;
    if (by_time && x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (by_row && x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return i < k ? -1 : i > k;
}

/* Is there an edge of the same pair that comes before edge i? */
static int repeated(const edge *edges, uint32_t n, uint32_t i) {
    for (uint32_t k = 0; k < n; k++) {
        int before = by_row && edges[k].row != edges[i].row ? edges[k].row < edges[i].row : k < i;
        if (before && edges[k].major == edges[i].major && edges[k].minor == edges[i].minor)
            return 1;
    }
    return 0;
}

static void check_order(uint32_t n, uint32_t lists, uint32_t minors, int row, int time, int unique) {
    uint64_t seed = n + 8 * lists + (uint64_t)row + 2 * (uint64_t)time, low = 77;
    edge *edges = calloc(n + 1, sizeof *edges);
    uint32_t *expected = malloc((n + 1) * 4), *order = malloc((n + 1) * 4), kept = 0;
    uint64_t *ends = malloc(lists * 8), wrong = 0;
    for (uint32_t i = 0; i < n; i++)
        edges[i] =
            (edge){(uint32_t)(low + test_random(&seed) % lists), (uint32_t)(test_random(&seed) % minors),
                   test_random(&seed) % 50, (int64_t)(test_random(&seed) % 20) - 10};
    by_row = row, by_time = time, sorting = edges;
    for (uint32_t i = 0; i < n; i++)
        if (!unique || !repeated(edges, n, i))
            expected[kept++] = i;
    qsort(expected, kept, 4, compare);
    aether_field row_field = {8, AETHER_U64}, time_field = {16, AETHER_I64};
    aether_error err = {0};
    CHECK_OK(aether_records_order(AE_SIZED(aether_records, edges, n, sizeof *edges, 4),
                                  AE_SIZED(aether_record_order, low, lists, row ? &row_field : NULL,
                                           time ? &time_field : NULL, (uint32_t)unique),
                                  ends, order, &err),
             err);
    CHECK_EQ(ends[lists - 1], kept);
    CHECK(memcmp(order, expected, kept * 4) == 0);
    for (uint32_t k = 0, place = 0; k < lists; k++) {
        while (place < kept && edges[order[place]].major == low + k)
            place++;
        wrong += ends[k] != place;
    }
    CHECK_EQ(wrong, 0);
    free(edges);
    free(expected);
    free(order);
    free(ends);
}

TEST_ONE_THREAD(order_is_that_of_a_naive_sort) {
    for (int flags = 0; flags < 8; flags++) {
        int row = flags & 1, time = flags >> 1 & 1, unique = flags >> 2;
        check_order(0, 5, 3, row, time, unique);
        check_order(1, 1, 1, row, time, unique);
        check_order(500, 40, 6, row, time, unique);
        check_order(3000, 1, 700, row, time, unique); /* one hub */
        check_order(1000, 4000, 5, row, time, unique);
    }
}

TEST(order_of_pairs_and_of_wide_ids) {
    uint32_t pairs[] = {2, 9, 0, 8, 2, 7};
    uint64_t wide[] = {(UINT64_C(1) << 40) + 2, 9, UINT64_C(1) << 40, 8, (UINT64_C(1) << 40) + 2, 7}, ends[3];
    uint32_t order[3];
    aether_error err = {0};
    CHECK_OK(aether_records_order(AE_SIZED(aether_records, pairs, 3, 8, 4),
                                  AE_SIZED(aether_record_order, 0, 3, NULL, NULL, 0), ends, order, &err),
             err);
    CHECK(order[0] == 1 && order[1] == 0 && order[2] == 2 && ends[0] == 1 && ends[1] == 1 && ends[2] == 3);
    CHECK_OK(aether_records_order(AE_SIZED(aether_records, wide, 3, 16, 8),
                                  AE_SIZED(aether_record_order, UINT64_C(1) << 40, 3, NULL, NULL, 0), ends,
                                  order, &err),
             err);
    CHECK(order[0] == 1 && order[1] == 0 && order[2] == 2 && ends[0] == 1 && ends[1] == 1 && ends[2] == 3);
}

TEST(order_refuses_what_it_cannot_do) {
    uint32_t pairs[] = {2, 9, 5, 8}, order[2];
    uint64_t ends[3];
    aether_error err = {0};
    aether_field outside = {4, AETHER_U64};
    CHECK_EQ(aether_records_order(AE_SIZED(aether_records, pairs, 2, 8, 4),
                                  AE_SIZED(aether_record_order, 0, 3, NULL, NULL, 0), ends, order, &err),
             AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    CHECK_EQ(err.value, 5);
    CHECK_EQ(aether_records_order(AE_SIZED(aether_records, pairs, 2, 8, 4),
                                  AE_SIZED(aether_record_order, 0, 3, &outside, NULL, 0), ends, order, &err),
             AETHER_E_INVALID);
    CHECK_EQ(aether_records_order(AE_SIZED(aether_records, pairs, 2, 8, 2),
                                  AE_SIZED(aether_record_order, 0, 3, NULL, NULL, 0), ends, order, &err),
             AETHER_E_INVALID);
    CHECK_EQ(aether_records_order(AE_SIZED(aether_records, pairs, UINT32_MAX, 8, 4),
                                  AE_SIZED(aether_record_order, 0, 3, NULL, NULL, 0), ends, order, &err),
             AETHER_E_LIMIT);
}

/* ---- checksums ----------------------------------------------------------------------- */

static uint64_t hash_of(const uint8_t *items, uint64_t n, uint32_t bytes, uint64_t first) {
    uint64_t sum = 0;
    aether_error err = {0};
    CHECK_OK(aether_hash_items(AE_SIZED(aether_items, items, n, first, bytes), NULL, NULL, 0, &sum, &err),
             err);
    return sum;
}

TEST(checksums_of_pieces_add_up) {
    enum { N = 100000, MOST = 41, PARTS = 100 };
    static const uint32_t sizes[] = {1, 4, 8, 12, 16, 24, MOST};
    uint64_t seed = 5, begins[PARTS], counts[PARTS], sums[PARTS];
    uint8_t *items = malloc((uint64_t)N * MOST);
    aether_error err = {0};
    for (uint64_t i = 0; i < (uint64_t)N * MOST; i++)
        items[i] = (uint8_t)test_random(&seed);
    for (uint64_t i = 0, at = 0; i < PARTS; at += counts[i++]) { /* some are empty */
        begins[i] = at;
        counts[i] = i == PARTS - 1 ? N - at : i % 3 ? test_random(&seed) % 1200 : 0;
    }
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        FOR_THREADS() {
            const uint32_t bytes = sizes[k];
            const uint64_t whole = hash_of(items, N, bytes, 0), cut = test_random(&seed) % N;
            uint64_t sum = 0;
            CHECK_EQ(hash_of(items, cut, bytes, 0) + hash_of(items + cut * bytes, N - cut, bytes, cut),
                     whole);
            CHECK_OK(aether_hash_items(AE_SIZED(aether_items, items, N, 0, bytes), begins, counts, PARTS,
                                       sums, &err),
                     err);
            for (uint64_t i = 0; i < PARTS; i++)
                sum += sums[i];
            CHECK_EQ(sum, whole);
            CHECK(hash_of(items, N, bytes, 1) != whole); /* numbers count */
            items[cut * bytes] ^= 8;
            CHECK(hash_of(items, N, bytes, 0) != whole);
            items[cut * bytes] ^= 8;
        }
    aether_set_num_threads(0, NULL);
    CHECK_EQ(hash_of(NULL, 0, 8, 0), 0);
    counts[PARTS - 1]++;
    CHECK_EQ(aether_hash_items(AE_SIZED(aether_items, items, N, 0, 4), begins, counts, PARTS, sums, &err),
             AETHER_E_RANGE);
    CHECK_EQ(err.position, PARTS - 1);
    CHECK_EQ(aether_hash_items(AE_SIZED(aether_items, items, N, 0, 0), NULL, NULL, 0, sums, &err),
             AETHER_E_INVALID);
    CHECK_EQ(aether_hash_items(AE_SIZED(aether_items, items, N, 0, 4), NULL, counts, PARTS, sums, &err),
             AETHER_E_INVALID);
    free(items);
}

TEST_MAIN()
