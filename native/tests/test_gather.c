/* Gather, its conversions and the parallel copy, against naive references. */
#include <math.h>

#include "rows/convert.h"
#include "rows/gather.h"
#include "test.h"

static const int thread_counts[] = {1, 2, 8};
#define FOR_THREADS()                                                                                        \
    for (int t_ = TEST_ONLY_RACES ? 2 : 0; t_ < 3; t_++)                                                     \
        if (aether_set_num_threads(thread_counts[t_], NULL) == 0)

static char *random_bytes(uint64_t size, uint64_t seed) {
    char *data = malloc(size + 8);
    for (uint64_t i = 0; i < size; i += 8) {
        uint64_t r = test_random(&seed);
        memcpy(data + i, &r, 8);
    }
    return data;
}

/* ---- rows as they are ------------------------------------------------------------ */

/* Gather n random rows at `offset` bytes into a buffer, `stride` apart, and compare. */
static void check_gather(uint64_t num_rows, uint64_t row_bytes, uint64_t stride, uint64_t offset, uint64_t n,
                         uint32_t id_bytes) {
    uint64_t seed = num_rows * 31 + row_bytes + n, wrong = 0;
    char *data = random_bytes(offset + num_rows * stride + row_bytes, seed), *out = malloc(n * row_bytes + 1);
    void *ids = malloc(n * id_bytes + 1);
    aether_rows rows = {data + offset, num_rows, row_bytes, stride, AETHER_U8, 0};
    aether_task task = {0};
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = test_random(&seed) % num_rows;
        if (id_bytes == 4)
            ((uint32_t *)ids)[i] = (uint32_t)id;
        else
            ((int64_t *)ids)[i] = (int64_t)id;
    }
    CHECK_OK(aether_gather(&rows,
                           AE_SIZED(aether_row_request, ids, n, out, n * row_bytes, id_bytes, AETHER_U8),
                           &task, &err),
             err);
    CHECK(task.done == n && task.total == n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = id_bytes == 4 ? ((uint32_t *)ids)[i] : ((uint64_t *)ids)[i];
        wrong += memcmp(out + i * row_bytes, data + offset + id * stride, row_bytes) != 0;
    }
    CHECK_EQ(wrong, 0);
    free(data);
    free(out);
    free(ids);
}

TEST(rows_of_every_size) {
    for (uint64_t row_bytes = 0; row_bytes <= 130; row_bytes++)
        check_gather(50, row_bytes, row_bytes, row_bytes % 5, 300, 4 + row_bytes % 2 * 4);
    static const uint64_t sizes[] = {255, 256, 400, 512, 1000, 1024, 1030, 2048, 5000, 65536, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_gather(20, sizes[i], sizes[i], i, 40, 8);
}

TEST(large_gathers_on_1_2_and_8_threads) {
    FOR_THREADS() {
        check_gather(100000, 4, 4, 0, 200001, 8);
        check_gather(100000, 1, 1, 0, 100000, 4);
        check_gather(3000, 512, 512, 128, 5003, 8);
        check_gather(3000, 100, 100, 0, 9999, 4);
        check_gather(10, 300000, 300000, 0, 17, 8);
    }
    aether_set_num_threads(0, NULL);
}

TEST(strided_and_unaligned_rows) {
    check_gather(100, 24, 40, 3, 500, 8);
    check_gather(100, 64, 67, 1, 500, 4);
    check_gather(1, 16, 0, 0, 100, 8);
    const double row[2] = {1.5, -2.5};
    const int64_t ids[3] = {0, 999, 5};
    double out[6];
    aether_rows repeated = {row, 1000, 2, 0, AETHER_F64, 0}; /* numpy.broadcast_to */
    CHECK_CODE(aether_gather(&repeated, AE_SIZED(aether_row_request, ids, 3, out, sizeof out, 8, AETHER_F64),
                             NULL, NULL),
               AETHER_OK);
    for (int i = 0; i < 6; i++)
        CHECK(out[i] == row[i % 2]);
}

TEST(rows_fill_out_exactly) {
    static const uint32_t types[] = {AETHER_F32, AETHER_F64};
    const float data[12] = {0};
    const int64_t ids[3] = {3, 0, 3};
    double out[10]; /* 3 rows of 3 doubles, and one behind them */
    aether_rows rows = {data, 4, 3, 12, AETHER_F32, 0};
    aether_error err = {0};
    for (int i = 0; i < 2; i++) {
        uint64_t size = 9 * aether_dtype_size(types[i]);
        memset(out, 0xEE, sizeof out);
        CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, ids, 3, out, size - 1, 8, types[i]),
                                 NULL, &err),
                   AETHER_E_INVALID);
        CHECK_HAS(err.message, "do not fill");
        CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, ids, 3, out, size + 1, 8, types[i]),
                                 NULL, &err),
                   AETHER_E_INVALID);
        CHECK_CODE(
            aether_gather(&rows, AE_SIZED(aether_row_request, ids, 0, out, 1, 8, types[i]), NULL, &err),
            AETHER_E_INVALID);
        for (size_t b = 0; b < sizeof out; b++)
            CHECK_EQ(((uint8_t *)out)[b], 0xEE);
        CHECK_OK(
            aether_gather(&rows, AE_SIZED(aether_row_request, ids, 3, out, size, 8, types[i]), NULL, &err),
            err);
        CHECK_EQ(((uint8_t *)out)[size], 0xEE);
    }
}

TEST(nothing_to_gather) {
    const int64_t ids[2] = {0, 1}, bad[2] = {0, 2};
    aether_rows rows = {NULL, 2, 0, 0, AETHER_F32, 0}, none = {NULL, 0, 128, 512, AETHER_F32, 0};
    char out;
    aether_error err = {0};
    CHECK_OK(aether_gather(&rows, AE_SIZED(aether_row_request, ids, 2, NULL, 0, 8, AETHER_F32), NULL, &err),
             err);
    CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, bad, 2, NULL, 0, 8, AETHER_F32), NULL, &err),
               AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    CHECK_OK(aether_gather(&none, AE_SIZED(aether_row_request, NULL, 0, NULL, 0, 8, AETHER_F32), NULL, &err),
             err);
    CHECK_CODE(
        aether_gather(&none, AE_SIZED(aether_row_request, ids, 1, &out, 512, 8, AETHER_F32), NULL, &err),
        AETHER_E_RANGE);
}

/* ---- bad ids ----------------------------------------------------------------------- */

TEST(a_bad_id_is_named_at_every_position) {
    enum { N = 700, ROWS = 10, SIZE = 4 * N };
    static const int64_t bad[] = {-1, ROWS, INT64_MIN, INT64_MAX};
    float data[ROWS] = {0}, out[N];
    int64_t ids[N];
    uint32_t narrow[N];
    aether_rows rows = {data, ROWS, 1, 4, AETHER_F32, 0};
    aether_error err = {0};
    for (int i = 0; i < N; i++)
        ids[i] = narrow[i] = (uint32_t)i % ROWS;
    for (int i = 0; i < N; i++) {
        ids[i] = bad[i % 4];
        CHECK_CODE(
            aether_gather(&rows, AE_SIZED(aether_row_request, ids, N, out, SIZE, 8, AETHER_F32), NULL, &err),
            AETHER_E_RANGE);
        CHECK(err.position == i && err.value == bad[i % 4]);
        ids[i] = 0;
        narrow[i] = i % 2 ? ROWS : UINT32_MAX;
        CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, narrow, N, out, SIZE, 4, AETHER_F32),
                                 NULL, &err),
                   AETHER_E_RANGE);
        CHECK(err.position == i && err.value == (i % 2 ? ROWS : UINT32_MAX));
        narrow[i] = 0;
    }
}

TEST(the_smallest_bad_position_is_named_for_any_number_of_threads) {
    enum { N = 300000, SIZE = 4 * N };
    int64_t *ids = calloc(N, 8);
    float *out = malloc(N * sizeof *out), data[1] = {0};
    aether_rows rows = {data, 1, 1, 4, AETHER_F32, 0};
    aether_error err = {0};
    for (int i = 54321; i < N; i += 1000)
        ids[i] = i;
    FOR_THREADS() for (int repeat = 0; repeat < 20; repeat++) {
        CHECK_CODE(
            aether_gather(&rows, AE_SIZED(aether_row_request, ids, N, out, SIZE, 8, AETHER_F32), NULL, &err),
            AETHER_E_RANGE);
        CHECK(err.position == 54321 && err.value == 54321);
    }
    CHECK_STR(err.message, "id 54321 at position 54321 is not in [0, 1)");
    aether_set_num_threads(0, NULL);
    free(ids);
    free(out);
}

TEST(arguments_are_checked) {
    const int64_t ids[1] = {0};
    float data[4] = {0}, out[4];
    aether_error err = {0};
    aether_rows rows = {data, 4, 1, 4, AETHER_F32, 0}, huge = rows;
    CHECK_CODE(aether_gather(NULL, AE_SIZED(aether_row_request, ids, 1, out, 4, 8, AETHER_F32), NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, NULL, 1, out, 4, 8, AETHER_F32), NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, ids, 1, NULL, 4, 8, AETHER_F32), NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, ids, 1, out, 4, 2, AETHER_F32), NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, ids, 1, out, 4, 8, 99), NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, ids, 1, out, 2, 8, AETHER_F16), NULL, &err),
               AETHER_E_UNSUPPORTED);
    CHECK_HAS(err.message, "float32 cannot be gathered as float16");
    CHECK_CODE(aether_gather(
                   &rows,
                   AE_SIZED(aether_row_request, ids, UINT64_MAX / 2, out, UINT64_MAX / 2 * 4, 8, AETHER_F32),
                   NULL, &err),
               AETHER_E_LIMIT);
    huge.row_items = UINT64_MAX / 2;
    CHECK_CODE(aether_gather(&huge, AE_SIZED(aether_row_request, ids, 1, out, 4, 8, AETHER_F32), NULL, &err),
               AETHER_E_LIMIT);
    huge = (aether_rows){data, UINT64_MAX / 2, 1, 4, AETHER_F32, 0};
    CHECK_CODE(aether_gather(&huge, AE_SIZED(aether_row_request, ids, 1, out, 4, 8, AETHER_F32), NULL, &err),
               AETHER_E_LIMIT);
    aether_task task = {.cancel = 1};
    CHECK_CODE(aether_gather(&rows, AE_SIZED(aether_row_request, ids, 1, out, 4, 8, AETHER_F32), &task, &err),
               AETHER_E_CANCELLED);
}

/* ---- conversions --------------------------------------------------------------------- */

static double number_at(const void *array, uint64_t i, uint32_t dtype) {
    switch (dtype) {
    case AETHER_U8:
        return ((const uint8_t *)array)[i];
    case AETHER_I8:
        return ((const int8_t *)array)[i];
    case AETHER_I16:
        return ((const int16_t *)array)[i];
    case AETHER_I32:
        return ((const int32_t *)array)[i];
    case AETHER_I64:
        return (double)((const int64_t *)array)[i];
    case AETHER_U32:
        return ((const uint32_t *)array)[i];
    case AETHER_U64:
        return (double)((const uint64_t *)array)[i];
    case AETHER_F32:
        return (double)((const float *)array)[i];
    case AETHER_F64:
        return ((const double *)array)[i];
    default:
        return NAN;
    }
}

static void check_numbers(uint32_t from, uint32_t to) {
    enum { ROWS = 40, ITEMS = 37, N = 200 };
    uint64_t seed = from * 100 + to, wrong = 0;
    char *data = random_bytes(ROWS * ITEMS * 8, seed);
    double *out = malloc(N * ITEMS * 8);
    uint32_t ids[N];
    aether_rows rows = {data, ROWS, ITEMS, ITEMS * aether_dtype_size(from), from, 0};
    for (int i = 0; i < N; i++)
        ids[i] = (uint32_t)(test_random(&seed) % ROWS);
    if (from == AETHER_F32)
        for (int i = 0; i < ROWS * ITEMS; i++)
            ((float *)data)[i] = (float)(int64_t)test_random(&seed) / 1024;
    CHECK_CODE(aether_gather(
                   &rows, AE_SIZED(aether_row_request, ids, N, out, N * ITEMS * aether_dtype_size(to), 4, to),
                   NULL, NULL),
               AETHER_OK);
    for (int i = 0; i < N * ITEMS; i++) {
        double want = number_at(data, (uint64_t)ids[i / ITEMS] * ITEMS + (uint64_t)(i % ITEMS), from);
        if (to == AETHER_F32)
            want = (double)(float)want;
        wrong += number_at(out, (uint64_t)i, to) != want;
    }
    CHECK_EQ(wrong, 0);
    free(data);
    free(out);
}

/* The table of convert.h, and that nothing else converts. */
static const char *const widening[13] = {
    [AETHER_U8] = "\4\5\6\7\10\13\14",
    [AETHER_I8] = "\4\5\6\13\14",
    [AETHER_I16] = "\5\6\13\14",
    [AETHER_I32] = "\6\13\14",
    [AETHER_F16] = "\13\14",
    [AETHER_BF16] = "\13\14",
    [AETHER_F32] = "\14",
};

TEST(the_conversion_table_is_exact) {
    for (uint32_t from = 0; from < 13; from++)
        for (uint32_t to = 1; to < 13; to++)
            CHECK_EQ(ae_rows_convert(from, to) != NULL, widening[from] && strchr(widening[from], (int)to));
    for (uint32_t from = 1; from < 13; from++)
        for (const char *to = widening[from]; to && *to; to++)
            if (from != AETHER_F16 && from != AETHER_BF16)
                check_numbers(from, (uint32_t)*to);
}

/* A half, decoded by its definition. */
static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 0x3FF;
    double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                       : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                      : ldexp(mantissa, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}

static bool same_number(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

TEST(every_half_converts_the_same_with_and_without_f16c) {
    enum { N = 65536 };
    uint16_t *halves = malloc(N * 2);
    uint32_t *fast = malloc(N * 4), *portable = malloc(N * 4); /* the bits: NaNs must agree too */
    double *wide = malloc(N * 8);
    for (int i = 0; i < N; i++)
        halves[i] = (uint16_t)i;
    ae_rows_convert(AETHER_F16, AETHER_F32)(fast, halves, N);
    ae_rows_f16_to_f32_portable(portable, halves, N);
    ae_rows_convert(AETHER_F16, AETHER_F64)(wide, halves, N);
    CHECK(memcmp(fast, portable, N * 4) == 0);
    uint64_t wrong = 0;
    for (int i = 0; i < N; i++) {
        float value;
        memcpy(&value, &portable[i], 4);
        wrong += !same_number((double)value, half_value((uint16_t)i)) ||
                 !same_number(wide[i], half_value((uint16_t)i));
    }
    CHECK_EQ(wrong, 0);
    free(halves);
    free(fast);
    free(portable);
    free(wide);
}

TEST(every_bfloat16_is_the_upper_half_of_a_float) {
    enum { N = 65536 };
    uint16_t *in = malloc(N * 2);
    uint32_t *out = malloc(N * 4);
    double *wide = malloc(N * 8);
    uint64_t wrong = 0;
    for (int i = 0; i < N; i++)
        in[i] = (uint16_t)i;
    ae_rows_convert(AETHER_BF16, AETHER_F32)(out, in, N);
    ae_rows_convert(AETHER_BF16, AETHER_F64)(wide, in, N);
    for (uint32_t i = 0; i < N; i++) {
        float value;
        memcpy(&value, &out[i], 4);
        wrong += out[i] != i << 16 || !same_number(wide[i], (double)value);
    }
    CHECK_EQ(wrong, 0);
    free(in);
    free(out);
    free(wide);
}

TEST(converted_rows_may_be_unaligned_and_parallel) {
    enum { ROWS = 1000, ITEMS = 129, STRIDE = 261, N = 4000 };
    char *data = random_bytes(ROWS * STRIDE + 1, 3);
    float *out = malloc((size_t)N * ITEMS * 4);
    int64_t *ids = malloc(N * 8);
    uint64_t seed = 4;
    for (int i = 0; i < N; i++)
        ids[i] = (int64_t)(test_random(&seed) % ROWS);
    aether_rows rows = {data + 1, ROWS, ITEMS, STRIDE, AETHER_F16, 0};
    FOR_THREADS() {
        uint64_t wrong = 0;
        CHECK_CODE(aether_gather(&rows,
                                 AE_SIZED(aether_row_request, ids, N, out, N * ITEMS * 4, 8, AETHER_F32),
                                 NULL, NULL),
                   AETHER_OK);
        for (int i = 0; i < N * ITEMS; i++) {
            uint16_t half;
            memcpy(&half, data + 1 + ids[i / ITEMS] * STRIDE + i % ITEMS * 2, 2);
            wrong += !same_number((double)out[i], half_value(half));
        }
        CHECK_EQ(wrong, 0);
    }
    aether_set_num_threads(0, NULL);
    free(data);
    free(out);
    free(ids);
}

/* ---- copy ------------------------------------------------------------------------------ */

TEST(copies_of_many_sizes) {
    static const uint64_t sizes[] = {0, 1, 4095, 2097151, 2097152, 2097153, 9000001};
    char *src = random_bytes(9000001, 5), *dst = malloc(9000002);
    FOR_THREADS() for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        aether_task task = {0};
        aether_error err = {0};
        memset(dst, 0, 9000002);
        CHECK_OK(aether_copy(dst, src, sizes[i], &task, &err), err);
        CHECK(task.done == sizes[i] && task.total == sizes[i]);
        CHECK(memcmp(dst, src, sizes[i]) == 0 && dst[sizes[i]] == 0);
    }
    aether_task task = {.cancel = 1};
    CHECK_CODE(aether_copy(dst, src, 100, &task, NULL), AETHER_E_CANCELLED);
    CHECK_CODE(aether_copy(NULL, src, 1, NULL, NULL), AETHER_E_INVALID);
    CHECK_CODE(aether_copy(NULL, NULL, 0, NULL, NULL), AETHER_OK);
    aether_set_num_threads(0, NULL);
    free(src);
    free(dst);
}

TEST_MAIN()
