/* Compressed offsets against the plain array, in RAM and from a file. */
#include "io_file.h"
#include "topology/paged/offsets.h"

typedef struct {
    uint64_t *values;
    uint64_t n;
} plain;

static plain make(uint64_t n) {
    return (plain){calloc(n ? n : 1, sizeof(uint64_t)), n};
}

/* n values whose differences are mostly below `gap`; every `hub`-th is up to 2^hub_bits. */
static plain make_random(uint64_t n, uint64_t gap, uint64_t hub, uint32_t hub_bits, uint64_t seed) {
    plain p = make(n);
    for (uint64_t i = 1; i < n; i++) {
        uint64_t step = test_random(&seed) % gap;
        if (hub && test_random(&seed) % hub == 0)
            step = test_random(&seed) >> (64 - hub_bits);
        p.values[i] = p.values[i - 1] + step;
    }
    return p;
}

static ae_offsets *compress(plain p, uint64_t seed) {
    aether_error err;
    ae_offsets *o;
    int rc = ae_offsets_create(p.n, p.n ? p.values[p.n - 1] : 0, &o, &err);
    for (uint64_t at = 0, n; !rc && at < p.n; at += n) {
        n = test_random(&seed) % 5 == 0 ? p.n - at : test_random(&seed) % 300;
        n = n < p.n - at ? n : p.n - at;
        rc = ae_offsets_append(o, p.values + at, n, &err);
    }
    rc = rc ? rc : ae_offsets_finish(o, &err);
    if (rc)
        TEST_FAIL("%d %s", rc, err.message);
    return rc ? NULL : o;
}

/* Check every pair, one at a time. */
static void compare_each(const ae_offsets *o, plain p) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i + 1 < p.n; i++) {
        uint64_t from, to;
        ae_offsets_pair(o, i, &from, &to);
        wrong += from != p.values[i] || to != p.values[i + 1];
    }
    CHECK_EQ(wrong, 0);
}

/* Check every pair, one at a time, all in order, and at random. */
static void compare(const ae_offsets *o, plain p) {
    if (p.n < 2)
        return;
    uint64_t pairs = p.n - 1, seed = p.n, wrong = 0;
    uint64_t *indices = malloc(pairs * sizeof *indices), *begin = malloc(pairs * sizeof *begin);
    uint64_t *end = malloc(pairs * sizeof *end);
    for (int random = 0; random < 2; random++) {
        for (uint64_t i = 0; i < pairs; i++)
            indices[i] = random ? test_random(&seed) % pairs : i;
        ae_offsets_pairs(o, indices, pairs, begin, end);
        for (uint64_t i = 0; i < pairs; i++)
            wrong += begin[i] != p.values[indices[i]] || end[i] != p.values[indices[i] + 1];
    }
    CHECK_EQ(wrong, 0);
    compare_each(o, p);
    free(indices);
    free(begin);
    free(end);
}

static void round_trip(plain p) {
    ae_offsets *o = compress(p, p.n + 7);
    if (o) {
        CHECK_EQ(ae_offsets_count(o), p.n);
        compare(o, p);
        ae_offsets_use_portable(o);
        compare(o, p);
    }
    ae_offsets_destroy(o);
    free(p.values);
}

TEST_ONE_THREAD(random_values_of_every_length) {
    for (uint64_t n = 0; n < 700; n += n < 260 ? 1 : 37)
        round_trip(make_random(n, 1 + n % 40, 0, 0, n));
    round_trip(make_random(100003, 29, 0, 0, 1));
}

TEST_ONE_THREAD(gaps_of_every_size) {
    for (uint64_t gap = 1; gap < (uint64_t)1 << 50; gap = gap * 3 + 1)
        round_trip(make_random(1000, gap, 0, 0, gap));
}

TEST_ONE_THREAD(hubs_among_short_lists) {
    for (uint32_t bits = 4; bits < 50; bits += 3)
        round_trip(make_random(5000, 8, 60, bits, bits));
}

TEST_ONE_THREAD(all_values_are_zero) {
    round_trip(make(1));
    round_trip(make(128));
    round_trip(make(10000));
}

TEST_ONE_THREAD(all_values_are_the_same) {
    plain p = make(1000);
    for (uint64_t i = 0; i < p.n; i++)
        p.values[i] = UINT64_MAX;
    round_trip(p);
}

/* One list that holds all, at every place of a block. */
TEST_ONE_THREAD(one_huge_gap) {
    static const uint64_t sizes[] = {1, 255, (uint64_t)1 << 32, INT64_MAX, UINT64_MAX};
    for (uint64_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        for (uint64_t at = 1; at < 300; at++) {
            plain p = make(300);
            for (uint64_t i = at; i < p.n; i++)
                p.values[i] = sizes[k];
            round_trip(p);
        }
}

/* Spans around the powers of two at which a block's number of low bits changes, and
 * values as far from a straight line as they can be. */
TEST_ONE_THREAD(blocks_at_the_borders_of_their_codes) {
    for (uint32_t bits = 6; bits < 64; bits++)
        for (uint64_t less = 0; less < 2; less++)
            for (uint64_t jump = 1; jump < 128; jump += 42) {
                plain p = make(128 * 3);
                uint64_t span = ((uint64_t)1 << bits) - less;
                for (uint64_t i = 0; i < p.n; i++)
                    p.values[i] = i < 128 ? 0 : i < 256 ? (i - 128 < jump ? 0 : span) : span;
                p.values[255] = span;
                round_trip(p);
            }
}

/* 2 + log2(range / values) bits a value, and an eighth of that for the index. */
TEST_ONE_THREAD(memory_is_near_the_bound_of_elias_and_fano) {
    plain p = make_random(3000000, 29, 0, 0, 5);
    ae_offsets *o = compress(p, 1);
    REQUIRE(o != NULL);
    CHECK(ae_offsets_memory(o) * 8 < (uint64_t)(7.2 * (double)p.n) + ((uint64_t)8 << 21));
    ae_offsets_destroy(o);
    free(p.values);
}

TEST_ONE_THREAD(bad_values_are_named) {
    aether_error err;
    ae_offsets *o;
    uint64_t values[] = {0, 4, 4, 9, 7, 3};
    REQUIRE_OK(ae_offsets_create(300, 9, &o, &err), err);
    CHECK_CODE(ae_offsets_append(o, values, 6, &err), AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 4);
    CHECK_EQ(err.value, 7);
    CHECK_HAS(err.message, "below the one before it, 9");
    REQUIRE_OK(ae_offsets_append(o, values, 4, &err), err); /* nothing of it was taken */
    values[0] = 8;
    CHECK_CODE(ae_offsets_append(o, values, 1, &err), AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 4);
    values[0] = 10;
    CHECK_CODE(ae_offsets_append(o, values, 1, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "offset 4 is 10, above the last one, 9");
    CHECK_CODE(ae_offsets_finish(o, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "4 of 300");
    ae_offsets_destroy(o);
}

TEST_ONE_THREAD(too_many_values_are_refused) {
    aether_error err;
    ae_offsets *o;
    uint64_t values[3] = {0, 0, 0};
    REQUIRE_OK(ae_offsets_create(2, 9, &o, &err), err);
    CHECK_CODE(ae_offsets_append(o, values, 3, &err), AETHER_E_INVALID);
    ae_offsets_destroy(o);
    CHECK_CODE(ae_offsets_create(UINT64_MAX, 9, &o, &err), AETHER_E_LIMIT);
    CHECK(o == NULL);
    ae_offsets_destroy(NULL);
}

/* ---- from a file ------------------------------------------------------------------------- */

static char path[128];

static void write_values(plain p, uint64_t offset) {
    FILE *f = fopen(test_path(path, sizeof path, "values"), "wb");
    for (uint64_t i = 0; i < offset; i++)
        fputc(0xEE, f);
    if (fwrite(p.values, sizeof *p.values, p.n, f) != p.n || fclose(f) != 0)
        abort();
}

static ae_offsets *read_back(const aether_io_options *mode, uint64_t offset, uint64_t n, aether_task *task,
                             aether_error *err) {
    aether_io *io;
    ae_offsets *o;
    if (aether_io_open(path, mode, &io, err) != AETHER_OK)
        abort();
    memset(err, 0, sizeof *err);
    int rc = ae_offsets_read(io, offset, n, task, &o, err);
    CHECK_EQ(err->code, rc);
    CHECK_EQ(rc == AETHER_OK, o != NULL);
    aether_io_close(io);
    return o;
}

TEST(reading_gives_the_same) {
    static const uint64_t offsets[] = {0, 4096, 1234}, counts[] = {1, 2, 129, 131072, 131073, 700001};
    for (uint32_t k = 0; k < 6; k++) {
        plain p = make_random(counts[k], 29, 1000, 20, k);
        for (uint32_t i = 0; i < 3; i++) {
            write_values(p, offsets[i]);
            FOR_EACH_MODE(mode) {
                aether_task task = {0};
                aether_error err;
                ae_offsets *o = read_back(mode, offsets[i], p.n, &task, &err);
                REQUIRE(o != NULL);
                CHECK_EQ(task.done, p.n * 8);
                CHECK_EQ(task.total, p.n * 8);
                compare_each(o, p);
                ae_offsets_destroy(o);
            }
        }
        free(p.values);
    }
}

TEST(a_damaged_file_is_named) {
    plain p = make_random(600000, 29, 0, 0, 3);
    aether_error err;
    uint64_t right = p.values[500000];
    p.values[500000] = 1;
    write_values(p, 4096);
    CHECK(read_back(NULL, 4096, p.n, NULL, &err) == NULL);
    CHECK_EQ(err.code, AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 500000);
    p.values[500000] = right;
    p.values[0] = 1;
    write_values(p, 4096);
    CHECK(read_back(NULL, 4096, p.n, NULL, &err) == NULL);
    CHECK_EQ(err.code, AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "begin with 1, not 0");
    p.values[0] = 0;
    p.values[p.n - 1] = UINT64_MAX;
    write_values(p, 4096);
    CHECK(read_back(NULL, 4096, p.n, NULL, &err) == NULL);
    CHECK_EQ(err.code, AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "above 2^63");
    CHECK(read_back(NULL, 4096, p.n + 1, NULL, &err) == NULL);
    CHECK_EQ(err.code, AETHER_E_RANGE);
    CHECK(read_back(NULL, 4096, 0, NULL, &err) == NULL);
    CHECK_EQ(err.code, AETHER_E_RANGE);
    free(p.values);
}

static int32_t fail_late(uint64_t offset, int32_t result) {
    return offset > (uint64_t)3 << 20 ? -EIO : result;
}

TEST(a_failing_read_and_a_cancelled_one) {
    plain p = make_random(600000, 29, 0, 0, 3);
    aether_error err;
    aether_task task = {.cancel = 1};
    write_values(p, 4096);
    CHECK(read_back(NULL, 4096, p.n, &task, &err) == NULL);
    CHECK_EQ(err.code, AETHER_E_CANCELLED);
    ae_io_set_hooks(&(ae_io_hooks){.result = fail_late});
    CHECK(read_back(NULL, 4096, p.n - 100000, NULL, &err) == NULL);
    CHECK_EQ(err.code, AETHER_E_IO);
    ae_io_set_hooks(NULL);
    free(p.values);
}

TEST_MAIN()
