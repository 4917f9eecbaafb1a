/* Sums and maxima of rows by lists, against sums item by item. */
#include <math.h>

#include "core/options.h"
#include "test.h"

#define ROWS  37
#define LISTS 150

static uint64_t state = 7;

static double item_of(const void *data, uint32_t dtype, uint64_t i) {
    return dtype == AETHER_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void set_item(void *data, uint32_t dtype, uint64_t i, double value) {
    if (dtype == AETHER_F32)
        ((float *)data)[i] = (float)value;
    else
        ((double *)data)[i] = value;
}

static double random_item(void) {
    return (double)(test_random(&state) % 2000) / 16 - 60;
}

/* Combine random lists of rows of `from`, at odd addresses, as `to`; compare bit by bit. */
static void check_aggregate(uint32_t from, uint32_t to, uint32_t how, uint64_t items, bool weighted) {
    static uint64_t bounds[LISTS + 1];
    static int64_t ids[LISTS * 9], places[LISTS];
    static double weights[LISTS * 9];
    const uint64_t size = aether_dtype_size(from);
    char *data = malloc(ROWS * (items * size + 1) + 8);
    double *rows = malloc(ROWS * items * sizeof *rows);
    char *out = calloc(2 * LISTS * items + 1, 8), *wanted = calloc(2 * LISTS * items + 1, 8);
    for (uint64_t r = 0; r < ROWS; r++)
        for (uint64_t k = 0; k < items; k++) {
            char item[8];
            set_item(item, from, 0, rows[r * items + k] = random_item());
            memcpy(data + r * (items * size + 1) + k * size, item, size);
        }
    for (uint64_t i = 0; i < LISTS; i++) {
        bounds[i + 1] = bounds[i] + test_random(&state) % 9;
        places[i] = (int64_t)(2 * i + test_random(&state) % 2);
        for (uint64_t k = 0; k < items; k++) {
            const uint64_t at = (uint64_t)places[i] * items + k;
            double sum = how == AETHER_SUM ? random_item() : -INFINITY;
            set_item(out, to, at, sum);
            set_item(wanted, to, at, sum);
        }
    }
    for (uint64_t i = 0; i < LISTS; i++)
        for (uint64_t e = bounds[i]; e < bounds[i + 1]; e++) {
            ids[e] = (int64_t)(test_random(&state) % ROWS);
            const double by = random_item();
            set_item(weights, to, e, by);
            for (uint64_t k = 0; k < items; k++) {
                const uint64_t at = (uint64_t)places[i] * items + k;
                const double row = rows[(uint64_t)ids[e] * items + k];
                const double value =
                    weighted ? (to == AETHER_F32 ? (double)((float)by * (float)row) : by * row) : row;
                const double before = item_of(wanted, to, at);
                set_item(wanted, to, at,
                         how == AETHER_SUM ? before + value
                         : value > before  ? value
                                           : before);
            }
        }
    const aether_rows table = {data, ROWS, items, items * size + 1, from, 0};
    aether_task task = {0};
    aether_error err = {0};
    CHECK_OK(aether_aggregate(&table,
                              AE_SIZED(aether_row_lists, ids, bounds, places, weighted ? weights : NULL,
                                       bounds[LISTS], LISTS, out, 2 * LISTS,
                                       2 * LISTS * items * aether_dtype_size(to), to, how),
                              &task, &err),
             err);
    CHECK(task.done == task.total || !items);
    CHECK(memcmp(out, wanted, 2 * LISTS * items * aether_dtype_size(to)) == 0);
    free(data);
    free(rows);
    free(out);
    free(wanted);
}

TEST(sums_and_maxima_of_every_width) {
    static const uint32_t types[][2] = {
        {AETHER_F32, AETHER_F32}, {AETHER_F32, AETHER_F64}, {AETHER_F64, AETHER_F64}};
    for (int threads = 1; threads < 9; threads += 7) {
        CHECK(aether_set_num_threads(threads, NULL) == 0);
        for (uint64_t items = 0; items < 600; items += items < 20 ? 1 : 257)
            for (int t = 0; t < 3; t++)
                for (uint32_t how = AETHER_SUM; how <= AETHER_MAX; how++)
                    check_aggregate(types[t][0], types[t][1], how, items, items % 2);
    }
}

TEST(not_a_number_stays) {
    const double rows[] = {1, NAN, 3, INFINITY, -INFINITY};
    const uint64_t bounds[] = {0, 3, 4, 6};
    const int64_t ids[] = {0, 1, 2, 4, 3, 4};
    const aether_rows table = {rows, 5, 1, 8, AETHER_F64, 0};
    double sum[3] = {0}, max[3] = {-INFINITY, -INFINITY, -INFINITY};
    aether_error err = {0};
    CHECK_OK(aether_aggregate(&table,
                              AE_SIZED(aether_row_lists, ids, bounds, NULL, NULL, 6, 3, sum, 3, 24,
                                       AETHER_F64, AETHER_SUM),
                              NULL, &err),
             err);
    CHECK(isnan(sum[0]) && sum[1] == -INFINITY && isnan(sum[2]));
    CHECK_OK(aether_aggregate(&table,
                              AE_SIZED(aether_row_lists, ids, bounds, NULL, NULL, 6, 3, max, 3, 24,
                                       AETHER_F64, AETHER_MAX),
                              NULL, &err),
             err);
    CHECK(isnan(max[0]) && max[1] == -INFINITY && max[2] == INFINITY);
}

TEST(bad_lists_are_named) {
    const float rows[4] = {0};
    const aether_rows table = {rows, 4, 1, 4, AETHER_F32, 0}, ints = {rows, 4, 1, 4, AETHER_U32, 0};
    float out[2];
    const int64_t ids[] = {0, 4, 3, -1}, same[] = {1, 1}, beyond[] = {0, 2};
    const uint64_t one[] = {0, 1, 2}, back[] = {0, 2, 1}, late[] = {1, 2, 2}, more[] = {0, 2, 5};
    aether_error err = {0};
#define AGGREGATE(code, table, bounds, places, size, type, how)                                              \
    CHECK_CODE(aether_aggregate(                                                                             \
                   table,                                                                                    \
                   AE_SIZED(aether_row_lists, ids, bounds, places, NULL, 4, 2, out, 2, size, type, how),     \
                   NULL, &err),                                                                              \
               code)
    AGGREGATE(AETHER_E_RANGE, &table, one, NULL, 8, AETHER_F32, AETHER_SUM);
    CHECK(err.position == 1 && err.value == 4);
    AGGREGATE(AETHER_E_INVALID, &table, back, NULL, 8, AETHER_F32, AETHER_SUM);
    CHECK_EQ(err.position, 1);
    AGGREGATE(AETHER_E_INVALID, &table, late, NULL, 8, AETHER_F32, AETHER_SUM);
    AGGREGATE(AETHER_E_INVALID, &table, more, NULL, 8, AETHER_F32, AETHER_SUM);
    AGGREGATE(AETHER_E_RANGE, &table, one, same, 8, AETHER_F32, AETHER_SUM);
    AGGREGATE(AETHER_E_RANGE, &table, one, beyond, 8, AETHER_F32, AETHER_SUM);
    CHECK(err.position == 1 && err.value == 2);
    AGGREGATE(AETHER_E_INVALID, &table, one, NULL, 4, AETHER_F32, AETHER_SUM);
    AGGREGATE(AETHER_E_UNSUPPORTED, &table, one, NULL, 8, AETHER_U32, AETHER_SUM);
    AGGREGATE(AETHER_E_UNSUPPORTED, &table, one, NULL, 8, AETHER_F32, 2);
    AGGREGATE(AETHER_E_UNSUPPORTED, &ints, one, NULL, 8, AETHER_F32, AETHER_SUM);
    CHECK_CODE(aether_aggregate(&table, AE_SIZED(aether_row_lists, ids), NULL, &err), AETHER_E_INVALID);
    aether_row_lists small = {.size = 8};
    CHECK_CODE(aether_aggregate(&table, &small, NULL, &err), AETHER_E_INVALID);
}

TEST(a_cancelled_call_ends) {
    const float rows[1] = {1};
    const aether_rows table = {rows, 1, 1, 4, AETHER_F32, 0};
    static int64_t ids[100000];
    const uint64_t bounds[] = {0, 100000};
    float out[1] = {0};
    aether_task task = {.cancel = 1};
    aether_error err = {0};
    CHECK_CODE(aether_aggregate(&table,
                                AE_SIZED(aether_row_lists, ids, bounds, NULL, NULL, 100000, 1, out, 1, 4,
                                         AETHER_F32, AETHER_SUM),
                                &task, &err),
               AETHER_E_CANCELLED);
    CHECK(task.done < 100000 && out[0] < 100000);
}

TEST_MAIN()
