/* Sources that are no files: bytes that are computed, read through a tier of their own, and a
 * descriptor without a path. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/mman.h>

#include "core/error.h"
#include "io/source.h"
#include "io_file.h"
#include "rows/row_file.h"

enum { ROWS = 3000, WIDTH = 5, SIZE = ROWS * WIDTH * 4 };

/* ---- computed bytes -------------------------------------------------------------------- */

/* State of the source: byte i is io_byte(i), as in the files of io_file.h. */
typedef struct numbers {
    int refuses; /* code of opening; 0: it opens */
    bool changed;
    uint32_t opened, reads;
    int32_t result; /* of every read, if it is negative */
} numbers;

static int open_numbers(aether_io *io, bool direct, aether_error *err) {
    numbers *n = io->state;
    (void)direct;
    if (n->refuses)
        return ae_error_set(err, n->refuses, "'%s' does not answer", io->path);
    io->size = SIZE;
    n->opened++;
    return AETHER_OK;
}

static int numbers_changed(const aether_io *io, aether_error *err) {
    const numbers *n = io->state;
    return n->changed ? ae_error_set(err, AETHER_E_FILE_CHANGED, "'%s' has changed", io->path) : AETHER_OK;
}

static void close_numbers(aether_io *io) {
    numbers *n = io->state;
    n->opened -= n->refuses == 0;
}

/* The tier: a read is done when it is handed over. */
typedef struct ready {
    ae_io_op *first;
} ready;

static int create_ready(void **out, aether_error *err) {
    *out = calloc(1, sizeof(ready));
    return *out ? AETHER_OK : ae_error_set(err, AETHER_E_NO_MEMORY, "no memory");
}

static void push_ready(void *state, ae_io_op *op) {
    numbers *n = op->batch->io->state;
    const uint64_t at = op->offset + op->start;
    const uint64_t length = at + op->length < SIZE ? op->length : SIZE - at;
    for (uint64_t i = 0; i < length; i++)
        op->data[op->start + i] = io_byte(at + i);
    op->result = n->result < 0 ? n->result : (int32_t)length;
    n->reads++;
    op->next = ((ready *)state)->first;
    ((ready *)state)->first = op;
}

static int enter_ready(void *state, uint32_t wanted) {
    (void)state, (void)wanted;
    return 0;
}

static ae_io_op *pop_ready(void *state) {
    ae_io_op *op = ((ready *)state)->first;
    if (op)
        ((ready *)state)->first = op->next;
    return op;
}

static const ae_io_tier_ops ready_tier = {.number = 77,
                                          .name = "arithmetic",
                                          .create = create_ready,
                                          .destroy = free,
                                          .push = push_ready,
                                          .enter = enter_ready,
                                          .pop = pop_ready,
                                          .abandon = free};

static const ae_io_source_ops numbers_ops = {
    .tier = &ready_tier, .open = open_numbers, .changed = numbers_changed, .close = close_numbers};

static ae_io_source source_of(numbers *n) {
    return (ae_io_source){&numbers_ops, "numbers://here", n};
}

static aether_row_options row_options(void) {
    return (aether_row_options){
        .num_rows = ROWS, .row_items = WIDTH, .memory = 1 << 20, .dtype = AETHER_U32, .tier = AETHER_IO_AUTO};
}

/* ---- ranges ---------------------------------------------------------------------------- */

TEST(ranges_come_through_the_sources_tier) {
    io_prepare(SIZE);
    numbers n = {0};
    const ae_io_source source = source_of(&n);
    aether_io *io;
    aether_io_info info;
    aether_error err = {0};
    setenv("AETHERGRAPH_IO", "pread", 1); /* is for files */
    REQUIRE_OK(ae_io_open(&source, NULL, &io, &err), err);
    unsetenv("AETHERGRAPH_IO");
    aether_io_describe(io, &info);
    CHECK_EQ(info.tier, 77);
    CHECK_EQ(info.size, SIZE);
    CHECK_EQ(info.direct, 0);
    io_ranges r = io_random(SIZE, 200, 3000, 1);
    CHECK_OK(aether_io_read(io, r.requests, r.n, NULL, &err), err);
    for (uint64_t i = 0; i < r.n; i++)
        CHECK(io_right(r.requests[i].buffer, r.requests[i].offset, r.requests[i].length));
    CHECK(n.reads > 100);
    n.result = -EIO;
    CHECK_CODE(aether_io_read(io, r.requests, r.n, NULL, &err), AETHER_E_IO);
    CHECK_HAS(err.message, "numbers://here");
    n.changed = true;
    CHECK_CODE(aether_io_read(io, r.requests, r.n, NULL, &err), AETHER_E_FILE_CHANGED);
    n.result = 0;
    CHECK_CODE(aether_io_read(io, r.requests, r.n, NULL, &err), AETHER_E_FILE_CHANGED);
    io_free(&r);
    aether_io_close(io);
    CHECK_EQ(n.opened, 0);
}

TEST(a_source_that_cannot_be_opened) {
    numbers n = {.refuses = AETHER_E_NOT_FOUND};
    const ae_io_source source = source_of(&n);
    aether_io *io;
    aether_error err = {0};
    CHECK_CODE(ae_io_open(&source, NULL, &io, &err), AETHER_E_NOT_FOUND);
    CHECK(!io);
    n.refuses = 0;
    CHECK_CODE(ae_io_open(&source, &(aether_io_options){.tier = AETHER_IO_PREAD}, &io, &err),
               AETHER_E_UNSUPPORTED);
    CHECK_HAS(err.message, "read by arithmetic, not by pread");
    n.result = -EACCES; /* the first read tells */
    CHECK_CODE(ae_io_open(&source, NULL, &io, &err), AETHER_E_UNSUPPORTED);
    CHECK_HAS(err.message, "arithmetic");
    CHECK_EQ(n.opened, 0);
}

/* ---- rows ------------------------------------------------------------------------------ */

static void check_rows(aether_row_file *f, uint64_t seed) {
    enum { IDS = 700 };
    static int64_t ids[IDS];
    static uint8_t out[IDS][WIDTH * 4];
    aether_error err = {0};
    for (int i = 0; i < IDS; i++)
        ids[i] = (int64_t)(test_random(&seed) % ROWS);
    REQUIRE_OK(aether_row_gather(f, AE_SIZED(aether_row_request, ids, IDS, out, sizeof out, 8, AETHER_U32),
                                 NULL, &err),
               err);
    for (int i = 0; i < IDS; i++)
        CHECK(io_right(out[i], (uint64_t)ids[i] * WIDTH * 4, WIDTH * 4));
}

TEST(rows_of_a_source) {
    io_prepare(SIZE);
    numbers n = {0};
    const ae_io_source source = source_of(&n);
    const int64_t hot[] = {7, 2999}, id = 7;
    const uint64_t planned[] = {5, 7, 5, 900}, ends[] = {2, 4};
    aether_row_options o = row_options();
    aether_row_file *f;
    aether_row_plan *p;
    aether_row_stats stats;
    aether_error err = {0};
    uint8_t out[2][WIDTH * 4];
    o.hot = hot;
    o.num_hot = 2;
    o.hot_percent = 10;
    REQUIRE_OK(ae_row_open(&source, &o, NULL, &f, &err), err);
    for (uint64_t seed = 0; seed < 5; seed++)
        check_rows(f, seed);
    aether_row_count(f, &stats);
    CHECK_EQ(stats.tier, 77);
    CHECK(stats.hits > 0);
    CHECK(stats.hot_frames > 0);
    REQUIRE_OK(aether_row_plan_create(f, planned, ends, 2, &p, &err), err);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aether_row_plan_gather(p, out, sizeof out, AETHER_U32, NULL, &err), err);
        for (int j = 0; j < 2; j++)
            CHECK(io_right(out[j], planned[2 * i + j] * WIDTH * 4, WIDTH * 4));
    }
    aether_row_plan_destroy(p);
    n.changed = true; /* also where the row is in the cache */
    CHECK_CODE(aether_row_gather(f, AE_SIZED(aether_row_request, &id, 1, out, sizeof out[0], 8, AETHER_U32),
                                 NULL, &err),
               AETHER_E_FILE_CHANGED);
    CHECK_STR(err.message, "'numbers://here' has changed");
    n.changed = false;
    CHECK_OK(aether_row_gather(f, AE_SIZED(aether_row_request, &id, 1, out, sizeof out[0], 8, AETHER_U32),
                               NULL, &err),
             err);
    aether_row_close(f);
    CHECK_EQ(n.opened, 0);
}

TEST(rows_that_the_source_does_not_have) {
    numbers n = {0};
    const ae_io_source source = source_of(&n);
    aether_row_options o = row_options();
    aether_row_file *f;
    aether_error err = {0};
    o.num_rows++;
    CHECK_CODE(ae_row_open(&source, &o, NULL, &f, &err), AETHER_E_TRUNCATED);
    CHECK_HAS(err.message, "numbers://here");
    CHECK(!f);
    CHECK_EQ(n.opened, 0);
}

/* ---- a descriptor without a path ------------------------------------------------------- */

static int open_memory(aether_io *io, bool direct, aether_error *err) {
    (void)direct;
    io->fd = memfd_create("rows", MFD_CLOEXEC);
    if (io->fd < 0 || write(io->fd, io_content, SIZE) != SIZE)
        return ae_error_os(err, errno, "cannot make '%s'", io->path);
    io->size = SIZE;
    return AETHER_OK;
}

static int never_changed(const aether_io *io, aether_error *err) {
    (void)io, (void)err;
    return AETHER_OK;
}

static void close_memory(aether_io *io) {
    if (io->fd >= 0)
        close(io->fd);
}

static const ae_io_source_ops memory_ops = {
    .open = open_memory, .changed = never_changed, .close = close_memory};

TEST(rows_of_a_descriptor_by_any_tier) {
    io_prepare(SIZE);
    for (uint32_t tier = AETHER_IO_AUTO; tier <= AETHER_IO_PREAD; tier++) {
        const ae_io_source source = {&memory_ops, "memory", NULL};
        aether_row_options o = row_options();
        aether_row_file *f;
        aether_error err = {0};
        if (tier != AETHER_IO_AUTO && aether_io_probe(tier, NULL) != AETHER_OK)
            continue;
        o.tier = tier;
        REQUIRE_OK(ae_row_open(&source, &o, NULL, &f, &err), err);
        check_rows(f, tier);
        aether_row_close(f);
    }
}

TEST_MAIN()
