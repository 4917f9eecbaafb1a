/* Numbers that stay in a file: looked up in value pages, in rounds with reading between. */
#include "core/error.h"
#include "io_file.h"
#include "sample/draw/retries.h"
#include "topology/paged/windows.h"

#define COUNT 20000u
#define AT    128u

static char path_memory[128];

static const char *values_path(void) {
    return test_path(path_memory, sizeof path_memory, "values");
}

/* Number i is i * 7 + 1, of `bytes` bytes; all bits set now and then. */
static uint64_t number(uint64_t i, uint32_t bytes) {
    return i % 97 == 5 ? (bytes == 4 ? UINT32_MAX : UINT64_MAX) : i * 7 + 1;
}

static aether_values *open_values(uint32_t bytes, bool direct, aether_io **io) {
    aether_error err = {0};
    aether_values *v = NULL;
    FILE *f = fopen(values_path(), "wb");
    if (!f || fseek(f, AT, SEEK_SET))
        abort();
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t x = number(i, bytes);
        if (fwrite(&x, bytes, 1, f) != 1)
            abort();
    }
    if (fclose(f))
        abort();
    const aether_io_options options = {.direct = direct};
    CHECK_OK(aether_io_open(values_path(), &options, io, &err), err);
    CHECK_OK(aether_values_open(*io, AT, COUNT, bytes, &v, &err), err);
    return v;
}

/* Each node looks for number `node` and, knowing it, for another; every tenth for a stretch. */
typedef struct job {
    ae_value_cache *p;
    uint32_t bytes;
    uint64_t *found; /* of each node */
    uint64_t most_held, tries, stop;
} job;

static uint64_t value_of(const void *value, uint32_t bytes) {
    return bytes == 4 ? *(const uint32_t *)value : *(const uint64_t *)value;
}

static uint64_t second(uint64_t node, uint64_t first) {
    return (node * 31 + first % 1000) % COUNT;
}

static int look_up(void *ctx, uint64_t node, bool again, aether_error *err) {
    job *j = ctx;
    const void *value;
    j->tries++;
    j->most_held = j->p->count > j->most_held ? j->p->count : j->most_held;
    if (node == j->stop)
        return ae_error_set(err, AETHER_E_INVALID, "stop");
    (void)again;
    if (node % 10 == 3 && node + 200 < COUNT) {
        int rc = ae_value_cache_ask(j->p, node, 200, err);
        if (rc)
            return rc;
    }
    int rc = ae_value_cache_find(j->p, node, &value, err);
    if (rc)
        return rc;
    const uint64_t first = value_of(value, j->bytes);
    rc = ae_value_cache_find(j->p, second(node, first), &value, err);
    if (rc)
        return rc;
    j->found[node] = value_of(value, j->bytes);
    return AETHER_OK;
}

static uint64_t run(job *j, uint64_t count, uint64_t most, aether_error *err) {
    ae_retries retries = {0};
    ae_staging staging = {0};
    ae_fetch fetch;
    uint64_t rounds = 1;
    int rc;
    while ((rc = ae_retries_round(&retries, count, &j->p, 1, most, look_up, j, err)) == AE_WANTED) {
        rc = ae_value_cache_read(&j->p, 1, &fetch, &staging, NULL, err);
        if (rc)
            break;
        rounds++;
    }
    CHECK_EQ(rc, j->stop == UINT64_MAX ? AETHER_OK : AETHER_E_INVALID);
    ae_staging_free(&staging);
    ae_retries_free(&retries);
    return rounds;
}

TEST_ONE_THREAD(numbers_are_found_within_so_many_value_pages) {
    for (uint32_t bytes = 4; bytes <= 8; bytes += 4)
        for (uint64_t most = 1; most < 100000; most *= 40) {
            aether_error err = {0};
            aether_io *io;
            aether_values *v = open_values(bytes, most > 1, &io);
            ae_value_cache p = {.values = v};
            job j = {.p = &p, .bytes = bytes, .found = calloc(COUNT, 8), .stop = UINT64_MAX};
            const uint64_t count = most == 1 ? 300 : COUNT;
            const uint64_t rounds = run(&j, count, most, &err);
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < count; i++)
                wrong += j.found[i] != number(second(i, number(i, bytes)), bytes);
            CHECK_EQ(wrong, 0);
            CHECK(j.most_held <= 32 * most + 200); /* those that wait ask for more */
            CHECK(rounds > (most < 100 ? 10 : 1));
            CHECK(ae_value_cache_memory(&p) > 0);
            free(j.found);
            ae_value_cache_free(&p);
            CHECK_EQ(ae_value_cache_memory(&p), 0);
            aether_values_close(v);
            aether_io_close(io);
        }
}

typedef struct visits {
    const ae_list *lists;
    uint64_t count, last, unordered, beyond, upto_entry;
} visits;

static int visit(void *ctx, uint64_t node, bool again, aether_error *err) {
    visits *v = ctx;
    (void)again, (void)err;
    const uint64_t stretch = v->lists[node].start * AE_STRETCHES / (COUNT + 1);
    v->count++;
    v->unordered += stretch < v->last;
    v->beyond += v->lists[node].start >= v->upto_entry;
    v->last = stretch;
    return AETHER_OK;
}

TEST_ONE_THREAD(rounds_go_through_the_file_and_no_further_than_they_may) {
    enum { NODES = 3000 };
    aether_error err = {0};
    ae_retries retries = {0};
    ae_list *lists = calloc(NODES, sizeof *lists);
    visits v = {.lists = lists};
    for (uint64_t i = 0; i < NODES; i++)
        lists[i] = (ae_list){i * 7919 % COUNT, 3};
    lists[5].start = COUNT; /* an empty list at the very end */
    CHECK_OK(ae_retries_sort(&retries, lists, NODES, COUNT, &err), err);
    for (retries.upto = 100; retries.upto <= AE_STRETCHES; retries.upto += 231) { /* 100 ... 1024 */
        v.upto_entry = retries.upto == AE_STRETCHES ? UINT64_MAX
                                                    : (uint64_t)retries.upto * (COUNT + 1) / AE_STRETCHES + 1;
        const int rc = ae_retries_round(&retries, NODES, NULL, 0, 1, visit, &v, &err);
        CHECK_EQ(rc, retries.upto == AE_STRETCHES ? AETHER_OK : AE_WANTED);
        CHECK(v.count > retries.upto * (uint64_t)NODES / AE_STRETCHES * 9 / 10);
    }
    CHECK_EQ(v.count, NODES);
    CHECK_EQ(v.unordered, 0);
    CHECK_EQ(v.beyond, 0);
    CHECK(ae_retries_memory(&retries) >= NODES * sizeof(uint32_t));
    ae_retries_free(&retries);
    free(lists);
}

TEST_ONE_THREAD(a_failure_ends_the_rounds) {
    aether_error err = {0};
    aether_io *io;
    aether_values *v = open_values(4, false, &io);
    ae_value_cache p = {.values = v};
    job j = {.p = &p, .bytes = 4, .found = calloc(COUNT, 8), .stop = 500};
    run(&j, COUNT, 64, &err);
    CHECK_HAS(err.message, "stop");
    CHECK(j.tries < 3000);
    j.stop = UINT64_MAX;
    run(&j, 50, 64, &err); /* what was asked for and not read comes now */
    CHECK_EQ(j.found[20], number(second(20, number(20, 4)), 4));
    free(j.found);
    ae_value_cache_free(&p);
    aether_values_close(v);
    aether_io_close(io);
}

TEST_ONE_THREAD(what_does_not_lie_in_the_file_is_refused) {
    aether_error err = {0};
    aether_io *io;
    aether_values *v = open_values(4, false, &io), *other;
    CHECK_CODE(aether_values_open(io, AT, COUNT + 1, 4, &other, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_values_open(io, AT + 4, 1, 4, &other, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_values_open(io, 1 << 30, 1, 4, &other, &err), AETHER_E_INVALID);
    for (uint32_t bytes = 0; bytes <= 128; bytes = bytes * 2 + 3) /* no powers of two, or too large */
        CHECK_CODE(aether_values_open(io, AT, 1, bytes, &other, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_values_open(io, AT, 1, 128, &other, &err), AETHER_E_INVALID);
    CHECK(other == NULL);
    aether_values_close(v);
    aether_io_close(io);
}

/* ---- gathering ---- */

#define PAGES (COUNT * 8 / 4096 + 2) /* that 8 bytes each may lie on */

typedef struct gathered {
    uint64_t reads, bytes, memory;
} gathered;

static gathered counts(const aether_staging *s) {
    gathered g;
    aether_staging_count(s, &g.reads, &g.bytes, &g.memory);
    return g;
}

/* Any order, duplicates, both ends of the file. */
static void choose(uint64_t *positions, uint64_t n, uint64_t count) {
    for (uint64_t i = 0; i < n; i++)
        positions[i] = i * 7919 * 7919 % count;
    positions[0] = count - 1;
}

static uint64_t count_wrong(const aether_values *v, uint32_t bytes, const uint64_t *positions, uint64_t n,
                            aether_staging *staging) {
    aether_error err = {0};
    uint8_t *out = calloc(n, bytes);
    uint64_t wrong = 0;
    CHECK_OK(aether_values_gather(v, AE_SIZED(aether_value_request, positions, n, out, n * bytes), staging,
                                  NULL, &err),
             err);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t expected[64];
        for (uint32_t b = 0; b < bytes; b += 4) {
            const uint64_t byte = positions[i] * bytes + b, word = number(byte / 8, 8);
            memcpy(expected + b, (const uint8_t *)&word + byte % 8, bytes < 4 ? bytes : 4);
        }
        wrong += memcmp(out + i * bytes, expected, bytes) != 0;
    }
    free(out);
    return wrong;
}

TEST_ONE_THREAD(each_page_is_read_once_for_a_gather) {
    const uint64_t n = 60000;
    uint64_t *positions = calloc(n, sizeof *positions);
    for (uint32_t bytes = 1; bytes <= 64; bytes *= 2) {
        aether_error err = {0};
        aether_io *io;
        aether_values *of_words = open_values(8, bytes != 8, &io), *v;
        aether_staging *staging;
        const uint64_t count = (uint64_t)COUNT * 8 / bytes;
        CHECK_OK(aether_values_open(io, AT, count, bytes, &v, &err), err);
        CHECK_OK(aether_staging_create(1, 16 << 20, &staging, &err), err);
        choose(positions, n, count);
        CHECK_EQ(count_wrong(v, bytes, positions, n, staging), 0);
        CHECK(counts(staging).bytes <= PAGES * 4096);
        CHECK(counts(staging).reads < 12);
        aether_staging_destroy(staging);
        aether_values_close(v);
        aether_values_close(of_words);
        aether_io_close(io);
    }
    free(positions);
}

TEST_ONE_THREAD(sorting_takes_as_much_memory_as_it_may) {
    aether_error err = {0};
    aether_io *io;
    aether_values *v = open_values(8, true, &io);
    aether_staging *staging;
    const uint64_t n = 60000;
    uint64_t *positions = calloc(n, sizeof *positions);
    choose(positions, n, COUNT);
    CHECK_OK(aether_staging_create(1, 64 << 10, &staging, &err), err);
    CHECK_EQ(count_wrong(v, 8, positions, n, staging), 0);
    CHECK(counts(staging).memory < (4 * AE_WINDOW_LEAST) + (512u << 10));
    CHECK(counts(staging).bytes > 2 * PAGES * 4096);
    aether_staging_destroy(staging);
    aether_values_close(v);
    aether_io_close(io);
    free(positions);
}

TEST_ONE_THREAD(kept_pages_are_not_read_again) {
    for (int all = 0; all < 2; all++) {
        aether_error err = {0};
        aether_io *io;
        aether_values *v = open_values(8, true, &io);
        aether_staging *staging;
        uint64_t positions[512];
        CHECK_EQ(aether_values_kept(v), 0);
        CHECK_OK(aether_values_keep_pages(v, all ? 1 << 20 : 64 << 10, &err), err);
        CHECK_OK(aether_staging_create(0, 1 << 20, &staging, &err), err);
        aether_staging_learn(staging, true);
        for (uint64_t i = 0; i < 512; i++) /* a quarter of the file */
            positions[i] = i * 311 % (COUNT / 4);
        for (int round = 0; round < 600; round++)
            CHECK_EQ(count_wrong(v, 8, positions, 512, staging), 0);
        const uint64_t before = counts(staging).bytes;
        CHECK_EQ(count_wrong(v, 8, positions, 512, staging), 0);
        CHECK_EQ(counts(staging).bytes, before);
        CHECK(aether_values_kept(v) > 0);
        CHECK(aether_values_kept(v) <= (all ? 1u << 20 : 64u << 10));
        aether_staging_destroy(staging);
        aether_values_close(v);
        aether_io_close(io);
    }
}

TEST_ONE_THREAD(a_position_that_is_none_is_named) {
    aether_error err = {0};
    aether_io *io;
    aether_values *v = open_values(4, true, &io);
    aether_staging *staging;
    uint64_t positions[3] = {0, COUNT, UINT64_MAX};
    uint32_t out[3];
    CHECK_OK(aether_staging_create(0, 0, &staging, &err), err);
    CHECK_CODE(
        aether_values_gather(v, AE_SIZED(aether_value_request, positions, 3, out, 12), staging, NULL, &err),
        AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    CHECK_CODE(aether_values_gather(v, AE_SIZED(aether_value_request, positions + 2, 1, out, 4), staging,
                                    NULL, &err),
               AETHER_E_RANGE);
    CHECK_EQ(err.value, -1);
    CHECK_OK(
        aether_values_gather(v, AE_SIZED(aether_value_request, positions, 1, out, 4), staging, NULL, &err),
        err);
    CHECK_OK(
        aether_values_gather(v, AE_SIZED(aether_value_request, positions, 0, NULL, 0), staging, NULL, &err),
        err);
    CHECK_CODE(
        aether_values_gather(v, AE_SIZED(aether_value_request, positions, 1, out, 3), staging, NULL, &err),
        AETHER_E_INVALID);
    CHECK_EQ(out[0], number(0, 4));
    aether_staging_destroy(staging);
    aether_values_close(v);
    aether_io_close(io);
}

TEST_MAIN()
