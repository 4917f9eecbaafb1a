/* Tables of live rows: puts, gathers, versions, what is refused, and rows that a killed writer leaves. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "log/crc32c.h"
#include "os/process.h"
#include "slots/table.h"
#include "test.h"

enum { ROWS = 300, ITEMS = 13 };

static aether_table_info floats(uint64_t items) {
    return (aether_table_info){.num_rows = ROWS, .num_dims = 1, .shape = {items}, .dtype = AETHER_F32};
}

static aether_table *make(aether_table_info info) {
    aether_table *t = NULL;
    aether_error err;
    CHECK_OK(aether_table_create(NULL, &info, &t, &err), err);
    return t;
}

/* Row `row` as writer `k` leaves it: every element tells both. */
static void fill(float *out, int64_t row, unsigned k, unsigned items) {
    for (unsigned i = 0; i < items; i++)
        out[i] = (float)(row * 1000 + k);
}

static int put(aether_table *t, int64_t row, unsigned k, int64_t version, uint64_t *written) {
    aether_table_info info;
    float data[2048];
    uint64_t count;
    aether_table_describe(t, &info);
    fill(data, row, k, (unsigned)info.row_items);
    const int rc = aether_table_put(t, &row, 1, data, info.row_bytes, version < 0 ? NULL : &version,
                                    written ? written : &count, NULL, NULL);
    return rc;
}

static int get(const aether_table *t, int64_t row, float *out, uint32_t flags, aether_error *err) {
    const aether_table_gather_options options = {.flags = flags};
    aether_table_info info;
    aether_table_describe(t, &info);
    return aether_table_gather(t, &row, 1, out, info.row_bytes, &options, NULL, err);
}

static bool is_row(const float *data, int64_t row, unsigned k) {
    for (unsigned i = 0; i < ITEMS; i++)
        if (data[i] != (float)(row * 1000 + k))
            return false;
    return true;
}

TEST(rows_come_back) {
    aether_table *t = make(floats(ITEMS));
    aether_error err;
    float data[ITEMS];
    for (int64_t row = 0; row < ROWS; row += 7)
        CHECK_OK(put(t, row, (unsigned)row % 5, -1, NULL), err);
    for (int64_t row = 0; row < ROWS; row++) {
        if (row % 7) {
            CHECK_CODE(get(t, row, data, 0, &err), AETHER_E_MISSING_ROW);
            CHECK_EQ(err.value, row);
        } else {
            CHECK_OK(get(t, row, data, AETHER_TABLE_CHECK, &err), err);
            CHECK(is_row(data, row, (unsigned)row % 5));
        }
    }
    aether_table_close(t);
}

TEST(rows_of_every_size_and_group) {
    for (unsigned items = 1; items < 40; items++) {
        aether_table_info info = floats(items);
        info.dtype = AETHER_U8;
        aether_table *t = make(info);
        aether_error err;
        for (uint64_t n = 1; n < 12; n++) {
            uint8_t rows[12 * 40], out[12 * 40];
            int64_t ids[12], versions[12];
            uint64_t written, state = items * 100 + n;
            const aether_table_gather_options options = {.flags = AETHER_TABLE_CHECK};
            for (uint64_t i = 0; i < n; i++) {
                ids[i] = (int64_t)(i * 29 % ROWS);
                versions[i] = (int64_t)n;
            }
            for (uint64_t i = 0; i < n * items; i++)
                rows[i] = (uint8_t)test_random(&state);
            CHECK_OK(aether_table_put(t, ids, n, rows, n * items, versions, &written, NULL, &err), err);
            CHECK_EQ(written, n);
            memset(out, 0xEE, sizeof out);
            CHECK_OK(aether_table_gather(t, ids, n, out, n * items, &options, NULL, &err), err);
            CHECK(memcmp(rows, out, n * items) == 0);
            CHECK_EQ(out[n * items], 0xEE);
            for (uint64_t i = 0; i < n; i++) { /* sums of single rows are made in another way */
                CHECK_OK(aether_table_gather(t, &ids[i], 1, out, items, &options, NULL, &err), err);
                CHECK(memcmp(rows + i * items, out, items) == 0);
            }
        }
        aether_table_close(t);
    }
}

TEST(the_sum_is_that_of_the_format) {
    aether_table *t = make(floats(ITEMS));
    uint8_t bytes[8 + ITEMS * 4 + 12];
    const uint64_t row = 5, version = 77;
    CHECK_EQ(put(t, 5, 3, 77, NULL), AETHER_OK);
    CHECK_EQ(put(t, 5, 4, 77, NULL), AETHER_OK);
    const ae_slot *slot = ae_table_slot(t, 5);
    const uint32_t seq = atomic_load(&slot->seq);
    CHECK_EQ(seq, 4);
    memcpy(bytes, &row, 8);
    fill((float *)(void *)(bytes + 8), 5, 4, ITEMS);
    memcpy(bytes + 8 + ITEMS * 4, &version, 8);
    memcpy(bytes + 16 + ITEMS * 4, &seq, 4);
    CHECK_EQ(atomic_load(&slot->sum), ae_crc32c(0, bytes, sizeof bytes));
    aether_table_close(t);
}

TEST(older_versions_are_left_out) {
    aether_table *t = make(floats(ITEMS));
    aether_error err;
    float data[ITEMS];
    uint64_t written;
    int64_t row = 9, version;
    CHECK_OK(aether_table_versions(t, &row, 1, &version, NULL, &err), err);
    CHECK_EQ(version, -1);
    CHECK_EQ(put(t, 9, 1, 10, &written) + (int)written, 1);
    CHECK_EQ(put(t, 9, 2, 9, &written) + (int)written, 0);
    CHECK_OK(get(t, 9, data, 0, &err), err);
    CHECK(is_row(data, 9, 1));
    CHECK_EQ(put(t, 9, 3, 10, &written) + (int)written, 1);
    CHECK_EQ(put(t, 9, 4, -1, &written) + (int)written, 1);
    CHECK_OK(aether_table_versions(t, &row, 1, &version, NULL, &err), err);
    CHECK_EQ(version, 11); /* no times: one more */
    aether_table_close(t);
}

TEST(a_time_is_the_version_if_none_is_given) {
    aether_table_info info = floats(ITEMS);
    info.tick = 1000000;
    aether_table *t = make(info);
    aether_error err;
    const int64_t row = 1, before = (int64_t)time(NULL) * 1000;
    int64_t version;
    CHECK_EQ(put(t, 1, 0, -1, NULL), AETHER_OK);
    CHECK_OK(aether_table_versions(t, &row, 1, &version, NULL, &err), err);
    CHECK(version >= before && version < before + 100000);
    CHECK_EQ(put(t, 1, 0, before + 1000000, NULL), AETHER_OK);
    CHECK_EQ(put(t, 1, 0, -1, NULL),
             AETHER_OK); /* the clock is behind, and the row is written all the same */
    CHECK_OK(aether_table_versions(t, &row, 1, &version, NULL, &err), err);
    CHECK_EQ(version, before + 1000000);
    aether_table_close(t);
}

TEST(missing_rows_are_filled) {
    static const uint32_t dtypes[] = {AETHER_F16, AETHER_BF16, AETHER_F32, AETHER_F64};
    static const uint64_t nans[] = {0x7E00, 0x7FC0, 0x7FC00000, UINT64_C(0x7FF8000000000000)};
    for (unsigned k = 0; k < 4; k++) {
        aether_table_info info = floats(3);
        info.dtype = dtypes[k];
        aether_table *t = make(info);
        aether_error err;
        uint64_t out[6] = {1, 1, 1, 1, 1, 1};
        const int64_t ids[2] = {0, 299};
        const uint64_t size = 2 * 3 * aether_dtype_size(dtypes[k]);
        aether_table_gather_options options = {.missing = AETHER_MISSING_NAN};
        CHECK_OK(aether_table_gather(t, ids, 2, out, size, &options, NULL, &err), err);
        CHECK_EQ(memcmp(out, &nans[k], aether_dtype_size(dtypes[k])), 0);
        options.missing = AETHER_MISSING_ZERO;
        CHECK_OK(aether_table_gather(t, ids, 2, out, size, &options, NULL, &err), err);
        for (uint64_t i = 0; i < size; i++)
            CHECK_EQ(((uint8_t *)out)[i], 0);
        aether_table_close(t);
    }
}

TEST(rows_are_converted) {
    aether_table_info info = {
        .num_rows = 2, .num_dims = 1, .shape = {3}, .dtype = AETHER_I8, .flags = AETHER_TABLE_SCALED};
    aether_table *t = make(info);
    aether_error err;
    uint8_t row[7] = {0, 0, 0, 0, 127, 0, 0x80};
    const float factor = 0.5f;
    float out[3];
    const int64_t id = 1;
    uint64_t written;
    memcpy(row, &factor, 4);
    CHECK_OK(aether_table_put(t, &id, 1, row, 7, NULL, &written, NULL, &err), err);
    CHECK_OK(aether_table_gather(t, &id, 1, out, sizeof out, NULL, NULL, &err), err);
    CHECK(out[0] == 63.5f && out[1] == 0 && out[2] == -64.0f);
    aether_table_close(t);
    info = (aether_table_info){.num_rows = 2, .num_dims = 1, .shape = {2}, .dtype = AETHER_BF16};
    t = make(info);
    const uint16_t halves[2] = {0x3F80, 0xC000};
    CHECK_OK(aether_table_put(t, &id, 1, halves, 4, NULL, &written, NULL, &err), err);
    const aether_table_gather_options wide = {.dtype = AETHER_F32, .flags = AETHER_TABLE_CHECK};
    CHECK_OK(aether_table_gather(t, &id, 1, out, 8, &wide, NULL, &err), err);
    CHECK(out[0] == 1 && out[1] == -2);
    aether_table_close(t);
}

TEST(rows_may_be_empty_and_there_may_be_none) {
    aether_table_info info = floats(0);
    aether_table *t = make(info);
    aether_error err;
    const int64_t id = 7;
    uint64_t written;
    uint8_t none = 0;
    CHECK_CODE(aether_table_gather(t, &id, 1, &none, 0, NULL, NULL, &err), AETHER_E_MISSING_ROW);
    CHECK_OK(aether_table_put(t, &id, 1, &none, 0, NULL, &written, NULL, &err), err);
    CHECK_OK(aether_table_gather(t, &id, 1, &none, 0, NULL, NULL, &err), err);
    aether_table_close(t);
    info = floats(ITEMS);
    info.num_rows = 0;
    t = make(info);
    CHECK_CODE(aether_table_gather(t, &id, 0, NULL, 0, NULL, NULL, &err), AETHER_OK);
    CHECK_CODE(get(t, 0, (float[ITEMS]){0}, 0, &err), AETHER_E_RANGE);
    aether_table_close(t);
}

TEST(arguments_are_checked) {
    aether_table *t = make(floats(ITEMS));
    aether_table *none = t;
    aether_error err;
    float data[3 * ITEMS] = {0};
    const int64_t ids[3] = {0, ROWS, -1}, versions[1] = {-5};
    uint64_t written = 9;
    CHECK_CODE(aether_table_put(t, ids, 3, data, sizeof data, NULL, &written, NULL, &err), AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    CHECK_EQ(written, 0);
    CHECK_CODE(get(t, 0, data, 0, &err), AETHER_E_MISSING_ROW); /* nothing was written */
    CHECK_CODE(aether_table_put(t, ids, 1, data, 4, NULL, &written, NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_table_put(t, ids, 1, data, ITEMS * 4, versions, &written, NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(get(t, -1, data, 0, &err), AETHER_E_RANGE);
    CHECK_CODE(aether_table_gather(t, ids, 1, data, 3, NULL, NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_table_versions(t, ids + 1, 1, (int64_t *)(void *)data, NULL, &err), AETHER_E_RANGE);
    aether_table_gather_options options = {.dtype = AETHER_U8};
    CHECK_CODE(aether_table_gather(t, ids, 1, data, ITEMS, &options, NULL, &err), AETHER_E_UNSUPPORTED);
    options = (aether_table_gather_options){.missing = 3};
    CHECK_CODE(aether_table_gather(t, ids, 1, data, ITEMS * 4, &options, NULL, &err), AETHER_E_INVALID);
    aether_table_info info = floats(1);
    info.num_dims = 9;
    CHECK_CODE(aether_table_create(NULL, &info, &none, &err), AETHER_E_INVALID);
    CHECK(!none);
    info = floats(UINT64_MAX / 2);
    CHECK_CODE(aether_table_create(NULL, &info, &none, &err), AETHER_E_LIMIT);
    info = floats(1);
    info.flags = AETHER_TABLE_SCALED;
    CHECK_CODE(aether_table_create(NULL, &info, &none, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_table_attach(-1, 0, &none, &err), AETHER_E_IO);
    CHECK_CODE(aether_table_open("/nowhere/at/all", 0, &none, &err), AETHER_E_NOT_FOUND);
    CHECK_CODE(aether_table_open("/tmp", 0, &none, &err), AETHER_E_IO);
    aether_table_close(t);
    aether_table_close(NULL);
}

/* ---- files --------------------------------------------------------------------------- */

static aether_table *make_file(const char *name, char *path, size_t size) {
    aether_table *t = NULL;
    aether_table_info info = floats(ITEMS);
    aether_error err;
    test_path(path, size, name);
    unlink(path);
    CHECK_OK(aether_table_create(path, &info, &t, &err), err);
    return t;
}

TEST(a_file_is_opened_by_others) {
    char path[128];
    aether_table *a = make_file("rows", path, sizeof path), *b = NULL, *c = NULL;
    aether_table_info one, two;
    aether_error err;
    float data[ITEMS];
    REQUIRE(a);
    CHECK_OK(aether_table_open(path, 0, &b, &err), err);
    CHECK_OK(aether_table_attach(aether_table_descriptor(a), 1, &c, &err), err);
    REQUIRE(b && c);
    aether_table_describe(a, &one);
    aether_table_describe(b, &two);
    CHECK_EQ(memcmp(&one, &two, sizeof one), 0);
    CHECK_EQ(put(c, 3, 1, -1, NULL), AETHER_OK);
    CHECK_OK(get(b, 3, data, AETHER_TABLE_CHECK, &err), err);
    CHECK(is_row(data, 3, 1));
    CHECK_CODE(put(b, 3, 1, -1, NULL), AETHER_E_INVALID); /* for reading only */
    aether_table *again = NULL;
    CHECK_CODE(aether_table_create(path, &one, &again, &err), AETHER_E_IO);
    CHECK_EQ(err.os_errno, EEXIST);
    aether_table_close(a);
    aether_table_close(c);
    CHECK_OK(get(b, 3, data, AETHER_TABLE_CHECK, &err), err);
    aether_table_close(b);
}

TEST(a_file_that_is_cut_is_noticed) {
    char path[128];
    aether_table *t = make_file("cut", path, sizeof path), *again = NULL, *attached = NULL;
    aether_error err;
    float data[ITEMS];
    REQUIRE(t);
    CHECK_OK(aether_table_attach(aether_table_descriptor(t), 1, &attached, &err), err);
    REQUIRE(attached);
    CHECK_EQ(put(t, ROWS - 1, 1, -1, NULL), AETHER_OK);
    CHECK_EQ(truncate(path, 4096 + ROWS * 128 - 1), 0); /* in its last row */
    CHECK_CODE(aether_table_open(path, 0, &again, &err), AETHER_E_TRUNCATED);
    CHECK_EQ(truncate(path, 4096), 0);
    CHECK_CODE(get(t, ROWS - 1, data, 0, &err), AETHER_E_FILE_CHANGED);
    CHECK_CODE(put(t, ROWS - 1, 1, -1, NULL), AETHER_E_FILE_CHANGED);
    CHECK_CODE(get(attached, ROWS - 1, data, 0, &err), AETHER_E_FILE_CHANGED);
    CHECK(strncmp(err.message + 1, path, strlen(path)) == 0); /* not 'in shared memory' */
    CHECK_CODE(aether_table_open(path, 0, &again, &err), AETHER_E_TRUNCATED);
    aether_table_close(t);
    aether_table_close(attached);
}

static char cut_path[128];

static int cut_now(void) {
    if (truncate(cut_path, 4096) != 0)
        abort();
    return 0;
}

/* Put many rows into a file that is cut after some thousands of them. */
static int put_while_cut(aether_table *t, aether_error *err) {
    enum { MANY = 3 * 4096 };
    static int64_t ids[MANY];
    static float rows[MANY][ITEMS];
    aether_task task = {.poll = cut_now};
    uint64_t written;
    for (uint64_t i = 0; i < MANY; i++)
        ids[i] = (int64_t)(i % ROWS);
    return aether_table_put(t, ids, MANY, rows, sizeof rows, NULL, &written, &task, err);
}

TEST(a_file_that_is_cut_during_a_put_is_noticed) {
    aether_table *t = make_file("cut_put", cut_path, sizeof cut_path);
    aether_error err;
    REQUIRE(t);
    CHECK_CODE(put_while_cut(t, &err), AETHER_E_FILE_CHANGED);
    CHECK(strstr(err.message, "shrank from"));
    CHECK(!strstr(err.message, "what was read"));
    CHECK(err.position >= 4096 && err.position < 4096 + ROWS); /* the cut is noticed behind the first row */
    CHECK_EQ(err.value, err.position % ROWS);
    const int64_t ids[] = {7, 8};
    const float rows[2][ITEMS] = {{0}};
    uint64_t written;
    CHECK_CODE(aether_table_put(t, ids, 2, rows, sizeof rows, NULL, &written, NULL, &err),
               AETHER_E_FILE_CHANGED);
    CHECK(strstr(err.message, "so row 7 (ids[0]) and those after it may not be written"));
    aether_table_close(t);
}

/* Pages that were lost before the file grew again cannot be had back by a handle; by another one they can. */
TEST(a_handle_whose_stores_were_lost_puts_nothing_any_more) {
    aether_table *t = make_file("regrown", cut_path, sizeof cut_path), *other = NULL;
    aether_table_info info;
    aether_error err;
    float data[ITEMS];
    uint64_t written;
    const int64_t last = ROWS - 1;
    REQUIRE(t);
    aether_table_describe(t, &info);
    CHECK_OK(aether_table_open(cut_path, 1, &other, &err), err);
    REQUIRE(other);
    CHECK_EQ(truncate(cut_path, 4096), 0);
    atomic_store(&ae_table_slot_writable(t, (uint64_t)last)->seq, 2); /* as a put does at this moment */
    CHECK_EQ(truncate(cut_path, (off_t)(AE_TABLE_HEADER + ROWS * info.stride)), 0);
    memset(data, 0, sizeof data);
    for (int i = 0; i < 2; i++) {
        CHECK_CODE(aether_table_put(t, &last, 1, data, sizeof data, NULL, &written, NULL, &err),
                   AETHER_E_FILE_CHANGED);
        CHECK_EQ(err.position, 0);
        CHECK_EQ(err.value, last);
        CHECK(strstr(err.message, "could not be written at byte 4096"));
        CHECK_EQ(written, 0);
    }
    CHECK_CODE(get(other, last, data, 0, &err), AETHER_E_MISSING_ROW);
    CHECK_EQ(put(other, last, 1, -1, NULL), AETHER_OK);
    CHECK_OK(get(other, last, data, AETHER_TABLE_CHECK, &err), err);
    aether_table_close(t);
    aether_table_close(other);
}

TEST(foreign_files_are_refused) {
    char path[128];
    aether_table *t = make_file("foreign", path, sizeof path);
    aether_error err;
    REQUIRE(t);
    aether_table_close(t);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    uint8_t header[4096];
    CHECK_EQ(pread(fd, header, sizeof header, 0), 4096);
    for (unsigned at = 0; at < AE_TABLE_CHECKED + 4; at += at < 160 ? 1 : 61) {
        const uint8_t wrong = header[at] ^ 0x10;
        CHECK_EQ(pwrite(fd, &wrong, 1, at), 1);
        const int rc = aether_table_open(path, 0, &t, &err);
        CHECK_EQ(rc, at < 8 ? AETHER_E_FORMAT : at >= 12 && at < 16 ? AETHER_E_VERSION : AETHER_E_CORRUPT);
        CHECK_EQ(pwrite(fd, &header[at], 1, at), 1);
    }
    uint32_t order;
    memcpy(&order, header + 8, sizeof order);
    order = __builtin_bswap32(order);
    CHECK_EQ(pwrite(fd, &order, sizeof order, 8), sizeof order);
    CHECK_CODE(aether_table_open(path, 0, &t, &err), AETHER_E_FORMAT);
    CHECK(strstr(err.message, "another byte order"));
    CHECK_EQ(pwrite(fd, header, sizeof header, 0), sizeof header);
    struct stat st;
    CHECK_EQ(fstat(fd, &st), 0);
    for (unsigned left = 8; left < 16; left += 2) { /* cut, and grown again */
        CHECK_EQ(ftruncate(fd, left), 0);
        CHECK_EQ(ftruncate(fd, st.st_size), 0);
        CHECK_CODE(aether_table_open(path, 0, &t, &err), AETHER_E_CORRUPT);
        CHECK(strstr(err.message, "is damaged") || left > 12);
        CHECK_EQ(pwrite(fd, header, sizeof header, 0), sizeof header);
    }
    CHECK_EQ(ftruncate(fd, 100), 0);
    CHECK_CODE(aether_table_open(path, 0, &t, &err), AETHER_E_FORMAT);
    close(fd);
}

/* ---- threads -------------------------------------------------------------------------- */

typedef struct worker {
    aether_table *t;
    unsigned number;
    atomic_bool *stop;
    uint64_t torn, rows;
} worker;

static void *write_on(void *arg) {
    worker *w = arg;
    for (unsigned i = 0; !atomic_load(w->stop); i++)
        put(w->t, i % 5, (w->number * 97 + i) % 1000, -1, NULL);
    return NULL;
}

static void *read_on(void *arg) {
    worker *w = arg;
    float data[64][ITEMS];
    int64_t ids[64];
    for (unsigned i = 0; i < 64; i++)
        ids[i] = i % 5;
    const aether_table_gather_options options = {.flags = w->number % 2 ? AETHER_TABLE_CHECK : 0};
    while (!atomic_load(w->stop)) {
        if (aether_table_gather(w->t, ids, 64, data, sizeof data, &options, NULL, NULL))
            w->torn++;
        for (unsigned i = 0; i < 64; i++, w->rows++)
            for (unsigned k = 1; k < ITEMS; k++)
                w->torn += data[i][k] != data[i][0] || (int64_t)data[i][0] / 1000 != ids[i];
    }
    return NULL;
}

TEST(readers_beside_writers_see_whole_rows) {
    aether_table *t = make(floats(ITEMS));
    atomic_bool stop = false;
    worker workers[4];
    pthread_t threads[4];
    uint64_t rows = 0;
    for (int64_t row = 0; row < 5; row++)
        CHECK_EQ(put(t, row, 0, -1, NULL), AETHER_OK);
    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (worker){.t = t, .number = i, .stop = &stop};
        REQUIRE(pthread_create(&threads[i], NULL, i < 2 ? write_on : read_on, &workers[i]) == 0);
    }
    usleep(TEST_ONLY_RACES ? 1500000 : 500000);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(workers[i].torn, 0);
        rows += workers[i].rows;
    }
    CHECK(rows > 0);
    aether_table_close(t);
}

/* ---- killed writers ---------------------------------------------------------------------- */

/* Begin a row in a child, which then does as the signal says: end, or stop. */
static pid_t stay_inside(aether_table *t, int64_t row, int signal_number) {
    const pid_t child = fork();
    if (child == 0) {
        ae_table_header *header = (ae_table_header *)(void *)t->writable;
        ae_shard *shard = &header->shards[ae_shard_of((uint64_t)row)];
        atomic_store(&shard->owner, ae_process_self());
        atomic_store(&shard->row, (uint64_t)row);
        ae_slot *slot = ae_table_slot_writable(t, (uint64_t)row);
        atomic_store(&slot->seq, atomic_load(&slot->seq) | 1);
        atomic_store(&slot->data[0], 12345);
        kill(getpid(), signal_number);
        _exit(0);
    }
    return child;
}

/* Leave a row as a writer does that is killed in the middle of it. */
static void die_inside(aether_table *t, int64_t row) {
    const pid_t child = stay_inside(t, row, SIGKILL);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
}

static int cancel_now(void) {
    return 1;
}

static int cancel_at_the_second_look(void) {
    static int looks;
    return ++looks > 1;
}

TEST(a_stopped_writer_is_not_taken_for_a_dead_one) {
    aether_table *t = make(floats(ITEMS));
    aether_error err;
    float data[40][ITEMS];
    int64_t ids[40], version;
    int status;
    char name[32];
    for (int64_t row = 0; row < 40; row++) {
        CHECK_EQ(put(t, row, 1, 5, NULL), AETHER_OK);
        ids[row] = row % 2 ? 10 : row;
    }
    const pid_t child = stay_inside(t, 10, SIGSTOP);
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    CHECK(WIFSTOPPED(status));
    aether_task cancelled = {.poll = cancel_now}, polled = cancelled;
    CHECK_CODE(aether_table_gather(t, ids + 1, 1, data, sizeof data[0], NULL, &cancelled, &err),
               AETHER_E_CANCELLED);
    CHECK_CODE(aether_table_versions(t, ids + 1, 1, &version, &polled, &err), AETHER_E_CANCELLED);
    aether_task impatient = {.poll = cancel_at_the_second_look};
    uint64_t written; /* row 0 has the same lock */
    CHECK_CODE(aether_table_put(t, ids, 1, data, sizeof data[0], NULL, &written, &impatient, &err),
               AETHER_E_CANCELLED);
    snprintf(name, sizeof name, "process %d has", (int)child);
    CHECK_CODE(aether_table_put(t, ids, 1, data, sizeof data[0], NULL, &written, NULL, &err), AETHER_E_TORN);
    CHECK(err.position == 0 && err.value == 0 && strstr(err.message, name));
    const time_t before = time(NULL);
    CHECK_CODE(aether_table_gather(t, ids, 40, data, sizeof data, NULL, NULL, &err), AETHER_E_TORN);
    CHECK(time(NULL) - before < 60); /* not for each of the twenty anew */
    CHECK_EQ(err.position, 1);
    CHECK_EQ(err.value, 10);
    snprintf(name, sizeof name, "by process %d, which lives", (int)child);
    CHECK(strstr(err.message, name));
    CHECK_CODE(aether_table_versions(t, ids + 1, 1, &version, NULL, &err), AETHER_E_TORN);
    CHECK(strstr(err.message, name));
    kill(child, SIGCONT);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_CODE(get(t, 10, data[0], 0, &err), AETHER_E_TORN);
    CHECK(strstr(err.message, "is half written by a put that failed or whose process ended"));
    aether_table_close(t);
}

/* Usually it is the process that would wait for its child that waits for the child's row. */
TEST(a_killed_writer_that_nobody_has_waited_for_is_dead) {
    aether_table *t = make(floats(ITEMS));
    aether_error err;
    float data[ITEMS];
    siginfo_t info;
    CHECK_EQ(put(t, 10, 1, 5, NULL), AETHER_OK);
    const pid_t child = stay_inside(t, 10, SIGKILL);
    CHECK_EQ(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    CHECK_CODE(get(t, 10, data, 0, &err), AETHER_E_TORN);
    CHECK(strstr(err.message, "whose process ended"));
    alarm(60); /* ends a put that waits for ever */
    CHECK_EQ(put(t, 10, 2, 6, NULL), AETHER_OK);
    alarm(0);
    CHECK_OK(get(t, 10, data, AETHER_TABLE_CHECK, &err), err);
    CHECK(is_row(data, 10, 2));
    CHECK_EQ(waitpid(child, NULL, 0), child);
    aether_table_close(t);
}

TEST(a_killed_writer_leaves_one_row_torn) {
    aether_table *t = make(floats(ITEMS));
    aether_error err;
    float data[ITEMS];
    int64_t version;
    const int64_t row = 10;
    for (int64_t other = 0; other < 64; other++) /* one shard */
        CHECK_EQ(put(t, other, 1, 5, NULL), AETHER_OK);
    die_inside(t, 10);
    CHECK_CODE(get(t, 10, data, 0, &err), AETHER_E_TORN);
    CHECK_EQ(err.value, 10);
    CHECK_CODE(aether_table_versions(t, &row, 1, &version, NULL, &err), AETHER_E_TORN);
    for (int64_t other = 0; other < 64; other++)
        if (other != 10) {
            CHECK_OK(get(t, other, data, AETHER_TABLE_CHECK, &err), err);
            CHECK(is_row(data, other, 1));
        }
    CHECK_EQ(put(t, 11, 2, 6, NULL), AETHER_OK); /* takes the lock over */
    CHECK_CODE(get(t, 10, data, 0, &err), AETHER_E_TORN);
    CHECK_EQ(put(t, 10, 3, 1, NULL), AETHER_OK); /* any version: nobody knows which one was torn */
    CHECK_OK(get(t, 10, data, AETHER_TABLE_CHECK, &err), err);
    CHECK(is_row(data, 10, 3));
    aether_table_close(t);
}

/* The counter of a row's writes begins anew, and not at that of a row that was never written. */
TEST(a_row_outlives_the_end_of_its_counter) {
    aether_table *t = make(floats(ITEMS));
    aether_error err;
    float data[ITEMS];
    ae_slot *slot = ae_table_slot_writable(t, 3);
    CHECK_EQ(put(t, 3, 1, -1, NULL), AETHER_OK);
    atomic_store(&slot->seq, UINT32_MAX - 1);
    CHECK_EQ(put(t, 3, 2, -1, NULL), AETHER_OK);
    CHECK_OK(get(t, 3, data, AETHER_TABLE_CHECK, &err), err);
    CHECK(is_row(data, 3, 2));
    aether_table_close(t);
}

/* A row that others read is put again while a half of it is copied: the other half of the room lies on a page
 * that must not be written yet. */
static struct {
    aether_table *table;
    uint8_t *page;
    unsigned puts;
} meddler;

static void meddle(int number) {
    (void)number;
    if (mprotect(meddler.page, 4096, PROT_READ | PROT_WRITE) != 0 || meddler.puts++)
        abort();
    CHECK_EQ(put(meddler.table, 3, 2, -1, NULL), AETHER_OK);
}

TEST_ONE_THREAD(a_row_that_changes_while_it_is_copied_is_read_again) {
    enum { LONG = 512 };
    uint8_t *pages = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    float *out = (float *)(void *)(pages + 4096 - LONG / 2 * sizeof *out);
    const struct sigaction action = {.sa_handler = meddle};
    struct sigaction before;
    REQUIRE(sigaction(SIGSEGV, &action, &before) == 0);
    for (uint32_t flags = 0; flags <= AETHER_TABLE_CHECK; flags += AETHER_TABLE_CHECK) {
        aether_table *t = make(floats(LONG));
        aether_error err;
        meddler.table = t;
        meddler.page = pages + 4096;
        meddler.puts = 0;
        CHECK_EQ(put(t, 3, 1, -1, NULL), AETHER_OK);
        CHECK_EQ(mprotect(meddler.page, 4096, PROT_NONE), 0);
        CHECK_OK(get(t, 3, out, flags, &err), err);
        CHECK_EQ(meddler.puts, 1);
        for (unsigned i = 0; i < LONG; i++)
            CHECK(out[i] == 3002);
        aether_table_close(t);
    }
    sigaction(SIGSEGV, &before, NULL);
    munmap(pages, 2 * 4096);
}

/* As they are read by RDMA: what is torn, in work, or of another place is not taken. */
TEST(slots_that_were_read_from_outside_are_judged_by_their_sums) {
    enum { TAKEN = 7 };
    aether_table *t = make(floats(ITEMS));
    aether_table_info info;
    aether_error err;
    uint8_t slots[TAKEN][128], whole[TAKEN];
    float out[TAKEN][ITEMS];
    int64_t ids[TAKEN];
    uint64_t taken;
    aether_table_describe(t, &info);
    REQUIRE(info.stride == sizeof slots[0]);
    for (int64_t i = 0; i < TAKEN; i++) {
        ids[i] = 5 * i;
        CHECK(i == 6 || put(t, ids[i], 1, -1, NULL) == AETHER_OK); /* the last was never written */
        memcpy(slots[i], ae_table_slot(t, (uint64_t)ids[i]), sizeof slots[0]);
    }
    slots[1][AE_SLOT_HEAD + ITEMS * 4 - 1] ^= 1;
    slots[2][0] ^= 1; /* seq is odd */
    slots[3][8] ^= 1; /* the version */
    memcpy(slots[4], slots[0], sizeof slots[0]);
    CHECK_OK(aether_slots_take(
                 &info, AE_SIZED(aether_slots, ids, TAKEN, slots, sizeof slots[0], out, sizeof out, whole),
                 &taken, &err),
             err);
    CHECK_EQ(taken, 2);
    for (int i = 0; i < TAKEN; i++)
        CHECK_EQ(whole[i], i == 0 || i == 5);
    CHECK(is_row(out[0], 0, 1) && is_row(out[5], 25, 1));
    aether_table_close(t);
}

TEST(a_damaged_row_does_not_fit_its_sum) {
    aether_table *t = make(floats(ITEMS));
    aether_error err;
    float data[ITEMS];
    CHECK_EQ(put(t, 3, 1, -1, NULL), AETHER_OK);
    ae_slot *slot = ae_table_slot_writable(t, 3);
    atomic_fetch_xor(&slot->data[2], 1);
    CHECK_OK(get(t, 3, data, 0, &err), err);
    CHECK_CODE(get(t, 3, data, AETHER_TABLE_CHECK, &err), AETHER_E_CORRUPT);
    CHECK_EQ(put(t, 3, 1, -1, NULL), AETHER_OK);
    CHECK_OK(get(t, 3, data, AETHER_TABLE_CHECK, &err), err);
    aether_table_close(t);
}

TEST_MAIN()
