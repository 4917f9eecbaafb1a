/* Lists that stay in their file, plain and compressed, against the same lists in memory: all
 * operations, many samples at once, files that end inside a page, damage, failing reads. */
#include "block_ids.h"
#include "io_file.h"
#include "topology/list_reader.h"
#include "topology/paged/paged.h"
#include "topology/paged/windows.h"

static char path_memory[128];

static const char *lists_path(void) {
    return test_path(path_memory, sizeof path_memory, "lists");
}

typedef struct graph {
    uint64_t num_nodes, num_edges, indptr_at, indices_at;
    uint64_t *indptr;
    void *indices;
    uint32_t id_bytes;
    bool packed; /* blocks instead of indices, which are in the file at indices_at; the index behind indptr */
    id_blocks blocks;
    uint64_t index_at;
    aether_topology *ram;
} graph;

static void put_id(graph *g, uint64_t e, uint64_t id) {
    if (g->id_bytes == 4)
        ((uint32_t *)g->indices)[e] = (uint32_t)id;
    else
        ((uint64_t *)g->indices)[e] = id;
}

static aether_lists lists_of(const graph *g) {
    return (aether_lists){g->num_nodes, g->num_nodes, g->num_edges, g->indptr,
                          g->indices,   NULL,         g->id_bytes,  8};
}

static void write_at(FILE *f, uint64_t at, const void *bytes, uint64_t size) {
    if (fseek(f, (long)at, SEEK_SET) || fwrite(bytes, 1, size, f) != size)
        abort();
}

static void write_graph(const graph *g) {
    FILE *f = fopen(lists_path(), "wb");
    if (!f)
        abort();
    write_at(f, g->indptr_at, g->indptr, 8 * (g->num_nodes + 1));
    if (g->packed) {
        write_at(f, g->index_at, g->blocks.index, g->blocks.index_size);
        write_at(f, g->indices_at, g->blocks.bytes, g->blocks.size);
    } else {
        write_at(f, g->indices_at, g->indices, g->id_bytes * g->num_edges);
    }
    if (fclose(f))
        abort();
}

/* Ids of all kinds, so that blocks are. */
static void fill_ids(graph *g, uint64_t seed) {
    uint64_t ids[1000];
    for (uint64_t e = 0; e < g->num_edges; e++) {
        if (e % 1000 == 0)
            id_pattern((uint32_t)(e / 1000 % ID_PATTERNS), g->num_nodes, 1000, seed + e, ids);
        put_id(g, e, ids[e % 1000]);
    }
}

static void pack(graph *g) {
    uint64_t *ids = calloc(g->num_edges + 1, sizeof *ids);
    for (uint64_t e = 0; e < g->num_edges; e++)
        ids[e] = g->id_bytes == 4 ? ((uint32_t *)g->indices)[e] : ((uint64_t *)g->indices)[e];
    g->packed = true;
    g->blocks = id_encode(ids, g->num_edges, g->id_bytes);
    g->index_at = g->indptr_at + 8 * (g->num_nodes + 1);
    g->indices_at = g->index_at + g->blocks.index_size;
    free(ids);
    write_graph(g);
}

/* Short lists, some empty, and every 500th a long one. */
static graph make_graph(uint64_t seed, uint64_t num_nodes, uint32_t id_bytes) {
    graph g = {.num_nodes = num_nodes, .id_bytes = id_bytes, .indptr_at = 64};
    g.indptr = calloc(num_nodes + 1, sizeof(uint64_t));
    for (uint64_t v = 0; v < num_nodes; v++)
        g.indptr[v + 1] = g.indptr[v] + (v % 500 == 7 ? 30000 : test_random(&seed) % 24);
    g.num_edges = g.indptr[num_nodes];
    g.indices_at = (64 + 8 * (num_nodes + 1) + 63) & ~(uint64_t)63;
    g.indices = calloc(g.num_edges + 1, id_bytes);
    fill_ids(&g, seed);
    write_graph(&g);
    aether_lists lists = lists_of(&g);
    if (aether_topology_create(&lists, &g.ram, NULL))
        abort();
    return g;
}

static void free_graph(graph *g) {
    aether_topology_destroy(g->ram);
    free(g->indptr);
    free(g->indices);
    if (g->packed)
        id_release(&g->blocks);
}

static aether_topology *open_paged(const graph *g, const aether_io_options *mode, aether_io **io) {
    aether_error err = {0};
    aether_topology *t = NULL;
    aether_lists lists = lists_of(g);
    const bool mapped = !mode || !mode->direct; /* half of the tests have a mapping, half have none */
    if (g->packed || !mapped)
        lists.indices = NULL;
    CHECK_OK(aether_io_open(lists_path(), mode, io, &err), err);
    if (g->packed) {
        aether_blocks blocks = {mapped ? g->blocks.bytes : NULL, g->blocks.size, g->blocks.index,
                                g->blocks.index_size};
        CHECK_OK(aether_topology_create_paged(
                     &lists,
                     AE_SIZED(aether_lists_in_file, *io, g->indptr_at, g->indices_at, &blocks, g->index_at),
                     NULL, &t, &err),
                 err);
    } else {
        CHECK_OK(
            aether_topology_create_paged(
                &lists, AE_SIZED(aether_lists_in_file, *io, g->indptr_at, g->indices_at), NULL, &t, &err),
            err);
    }
    return t;
}

/* ---- the plain operations ---- */

static void compare_neighbors(const graph *g, const aether_topology *t) {
    aether_error err = {0};
    int64_t *wanted = calloc(g->num_edges + 1, 8), *got = calloc(g->num_edges + 1, 8);
    const uint64_t some = g->num_nodes < 40 ? g->num_nodes : 40;
    CHECK_OK(aether_topology_degrees(g->ram, NULL, g->num_nodes, wanted, NULL, &err), err);
    CHECK_OK(aether_topology_degrees(t, NULL, g->num_nodes, got, NULL, &err), err);
    CHECK(!memcmp(wanted, got, 8 * g->num_nodes));
    CHECK_OK(aether_topology_neighbors(
                 g->ram,
                 AE_SIZED(aether_list_request, .n = some, .capacity = g->num_edges, .neighbors = wanted),
                 NULL, &err),
             err);
    CHECK_OK(aether_topology_neighbors(
                 t, AE_SIZED(aether_list_request, .n = some, .capacity = g->num_edges, .neighbors = got),
                 NULL, &err),
             err);
    CHECK(!memcmp(wanted, got, 8 * g->indptr[some]));
    free(wanted);
    free(got);
}

/* ---- many at once ---- */

static ae_fetch make_job(const graph *g, uint64_t *seed, uint64_t num_lists) {
    uint64_t *positions = calloc(num_lists * 12 + 1, sizeof(uint64_t)), n = 0;
    for (uint64_t i = 0; i < num_lists; i++) {
        uint64_t v = test_random(seed) % g->num_nodes, degree = g->indptr[v + 1] - g->indptr[v];
        for (uint64_t k = 0; degree && k < 12; k++)
            positions[n++] = g->indptr[v] + (degree > 12 ? test_random(seed) % degree : k % degree);
    }
    return (ae_fetch){positions, n, calloc(n + 1, g->id_bytes)};
}

static void free_job(const ae_fetch *job) {
    free((void *)(uintptr_t)job->positions);
    free(job->ids);
}

static void check_job(const graph *g, const ae_fetch *job) {
    for (uint64_t i = 0; i < job->count; i++) {
        const uint64_t e = job->positions[i];
        const uint64_t id = g->id_bytes == 4 ? ((uint32_t *)job->ids)[i] : ((uint64_t *)job->ids)[i];
        const uint64_t wanted = g->id_bytes == 4 ? ((uint32_t *)g->indices)[e] : ((uint64_t *)g->indices)[e];
        if (id != wanted) {
            TEST_FAIL("entry %" PRIu64 " at position %" PRIu64 " is %" PRIu64 ", not %" PRIu64, i, e, id,
                      wanted);
            return;
        }
    }
}

static void fetch_and_check(const graph *g, const aether_topology *t, uint32_t n, uint64_t num_lists,
                            uint64_t window_bytes) {
    aether_error err = {0};
    aether_task task = {0};
    ae_staging staging = {.window_bytes = window_bytes};
    uint64_t seed = n * 1000 + num_lists, total = 0;
    ae_fetch jobs[8];
    for (uint32_t j = 0; j < n; j++) {
        jobs[j] = make_job(g, &seed, j == 3 ? 0 : num_lists);
        total += jobs[j].count;
    }
    for (int twice = 0; twice < 2; twice++)
        CHECK_OK(t->ops->fetch_many(t, jobs, n, &staging, &task, &err), err);
    CHECK_EQ(task.done, 2 * total);
    for (uint32_t j = 0; j < n; j++) {
        check_job(g, &jobs[j]);
        free_job(&jobs[j]);
    }
    CHECK(ae_staging_memory(&staging) >= total / AE_SPAN_MAX * sizeof(ae_span));
    ae_staging_free(&staging);
}

TEST(lists_in_a_file_are_those_in_memory) {
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t bytes = i % 2 ? 8 : 4;
        graph g = make_graph(bytes, 6000, bytes);
        if (i / 2)
            pack(&g);
        FOR_EACH_MODE(mode) {
            aether_io *io;
            aether_topology *t = open_paged(&g, mode, &io);
            REQUIRE(t != NULL);
            CHECK(aether_topology_memory(t) < 16384 + g.num_nodes * 4);
            compare_neighbors(&g, t);
            fetch_and_check(&g, t, 1, 50, 0);
            fetch_and_check(&g, t, 1, 3000, AE_WINDOW_LEAST);
            fetch_and_check(&g, t, 8, 2000, 0);
            aether_topology_destroy(t);
            aether_io_close(io);
        }
        free_graph(&g);
    }
}

static uint64_t ids_size(const graph *g) {
    return g->packed ? g->blocks.size : g->num_edges * g->id_bytes;
}

static void read_once(graph g) {
    aether_io *io;
    aether_io_stats before, after;
    aether_topology *t = open_paged(&g, NULL, &io);
    aether_io_count(io, &before);
    fetch_and_check(&g, t, 8, 20000, 0);
    aether_io_count(io, &after);
    /* twice all pages at most, and what windows share at their ends */
    CHECK(after.bytes - before.bytes < 2 * (ids_size(&g) + 4096) * 11 / 10);
    aether_topology_destroy(t);
    aether_io_close(io);
    free_graph(&g);
}

TEST(pages_are_read_once_for_all_samples) {
    read_once(make_graph(3, 20000, 4));
}

TEST(pages_of_blocks_are_read_once_for_all_samples) {
    graph g = make_graph(3, 20000, 4);
    pack(&g);
    CHECK(ids_size(&g) < g.num_edges * 4 * 2 / 3);
    read_once(g);
}

/* Of a page at the end of a run only the sectors that hold entries are read. */
static void read_far_entries(graph g) {
    aether_error err = {0};
    aether_io *io;
    aether_io_info info;
    aether_io_stats before, after;
    aether_io_options direct = {.direct = 1};
    aether_topology *t = open_paged(&g, &direct, &io);
    REQUIRE(t != NULL);
    const uint64_t runs = 20;
    uint64_t positions[40], ids[40];
    for (uint64_t i = 0; i < 40; i++) /* pairs of neighbouring entries, 40 KB from pair to pair */
        positions[i] = i / 2 * 10000 + 5000 + i % 2;
    REQUIRE(positions[39] < g.num_edges);
    ae_staging staging = {0};
    const ae_fetch job = {positions, 40, ids};
    aether_io_describe(io, &info);
    aether_io_count(io, &before);
    CHECK_OK(t->ops->fetch_many(t, &job, 1, &staging, NULL, &err), err);
    aether_io_count(io, &after);
    check_job(&g, &job);
    if (info.direct && info.alignment == 512 && info.memory_alignment <= 512)
        CHECK(after.bytes - before.bytes < 2 * runs * 512); /* few lie in two sectors */
    else
        CHECK(after.bytes - before.bytes < 2 * runs * 4096);
    CHECK_EQ(after.reads - before.reads, runs);
    ae_staging_free(&staging);
    aether_topology_destroy(t);
    aether_io_close(io);
    free_graph(&g);
}

TEST(entries_far_from_each_other_cost_a_sector_each) {
    read_far_entries(make_graph(5, 20000, 4));
}

TEST(blocks_far_from_each_other_cost_the_sectors_that_they_are_in) {
    graph g = make_graph(5, 70000, 4);
    uint64_t seed = 3;
    for (uint64_t e = 0; e < g.num_edges; e++)
        put_id(&g, e, test_random(&seed) % g.num_nodes); /* blocks of 280 bytes */
    pack(&g);
    read_far_entries(g);
}

/* ---- pages that are kept ---- */

/* Bytes that are read for the same positions, the n-th time. */
static uint64_t fetch_again(const graph *g, const aether_topology *t, aether_io *io, uint64_t seed,
                            bool learns) {
    aether_io_stats before, after;
    aether_error err = {0};
    ae_staging staging = {.learns = learns};
    ae_fetch job = make_job(g, &seed, 2000);
    aether_io_count(io, &before);
    CHECK_OK(t->ops->fetch_many(t, &job, 1, &staging, NULL, &err), err);
    aether_io_count(io, &after);
    check_job(g, &job);
    free_job(&job);
    ae_staging_free(&staging);
    return after.bytes - before.bytes;
}

static void keep_all(graph g) {
    aether_error err = {0};
    aether_io *io;
    aether_topology *t = open_paged(&g, NULL, &io);
    const uint64_t room = ids_size(&g) * 2;
    CHECK_EQ(aether_topology_kept(t), 0);
    CHECK_OK(aether_topology_keep_pages(t, room, &err), err);
    const uint64_t first = fetch_again(&g, t, io, 1, true);
    CHECK(first > 100000);
    CHECK(fetch_again(&g, t, io, 1, true) <= 4096); /* the file's last page is not kept */
    CHECK(fetch_again(&g, t, io, 1, false) <= 4096);
    CHECK(aether_topology_kept(t) > first / 8);
    for (uint64_t seed = 2; seed < 40; seed++)
        fetch_again(&g, t, io, seed, true);
    CHECK(aether_topology_kept(t) <= room);
    aether_topology_destroy(t);
    aether_io_close(io);
    free_graph(&g);
}

TEST(pages_that_all_have_room_are_read_once) {
    keep_all(make_graph(13, 20000, 4));
}

TEST(pages_of_blocks_that_all_have_room_are_read_once) {
    graph g = make_graph(13, 20000, 4);
    pack(&g);
    keep_all(g);
}

static void keep_some(graph g) {
    aether_error err = {0};
    aether_io *io;
    aether_topology *t = open_paged(&g, NULL, &io);
    const uint64_t room = ids_size(&g) / 5;
    CHECK_OK(aether_topology_keep_pages(t, room, &err), err);
    const uint64_t cold = fetch_again(&g, t, io, 1, true);
    for (uint64_t i = 0; i < 60; i++)
        fetch_again(&g, t, io, i % 3 ? 1 : i + 2, true); /* two of three times the same */
    CHECK(fetch_again(&g, t, io, 1, true) < cold * 95 / 100);
    CHECK(aether_topology_kept(t) <= room);
    CHECK(aether_topology_kept(t) > room / 2);
    aether_topology_destroy(t);
    aether_io_close(io);
    free_graph(&g);
}

TEST(with_little_room_the_most_used_pages_are_kept) {
    keep_some(make_graph(14, 20000, 8));
}

/* Blocks then lie half in a page that is kept and half in one that is read. */
TEST(with_little_room_the_most_used_pages_of_blocks_are_kept) {
    graph g = make_graph(14, 20000, 8);
    pack(&g);
    keep_some(g);
}

TEST(no_room_for_a_page_keeps_none) {
    graph g = make_graph(15, 2000, 4);
    aether_error err = {0};
    aether_io *io;
    aether_topology *t = open_paged(&g, NULL, &io);
    CHECK_OK(aether_topology_keep_pages(t, 1000, &err), err);
    CHECK_EQ(fetch_again(&g, t, io, 1, true), fetch_again(&g, t, io, 1, true));
    CHECK_EQ(aether_topology_kept(t), 0);
    CHECK_CODE(aether_topology_keep_pages(g.ram, 1 << 20, &err), AETHER_E_INVALID);
    aether_topology_destroy(t);
    aether_io_close(io);
    free_graph(&g);
}

TEST(graphs_without_nodes_or_edges) {
    for (uint64_t i = 0; i < 4; i++) {
        const uint64_t n = i % 2;
        graph g = {.num_nodes = n, .id_bytes = 4, .indptr_at = 0, .indices_at = 8 * (n + 1)};
        aether_io *io;
        g.indptr = calloc(n + 1, 8);
        g.indices = calloc(1, 4);
        write_graph(&g);
        if (i / 2)
            pack(&g);
        aether_topology *t = open_paged(&g, NULL, &io);
        REQUIRE(t != NULL);
        int64_t degree = 7;
        CHECK_CODE(aether_topology_degrees(t, NULL, n, &degree, NULL, NULL), AETHER_OK);
        CHECK_EQ(degree, n ? 0 : 7);
        aether_topology_destroy(t);
        aether_io_close(io);
        free_graph(&g);
    }
}

TEST_ONE_THREAD(spans_are_sorted_and_hold_everything_once) {
    const ae_place place = {64, 2, AE_PAGE_BITS, false};
    uint64_t seed = 5;
    graph g = make_graph(9, 30000, 4);
    ae_fetch jobs[3];
    ae_scratch out = {0};
    uint64_t n, held = 0, total = 0;
    for (uint32_t j = 0; j < 3; j++) {
        jobs[j] = make_job(&g, &seed, 9000);
        total += jobs[j].count;
    }
    CHECK_CODE(ae_spans_make(jobs, 3, place, &out, &n, NULL, NULL), AETHER_OK);
    const ae_span *spans = out.data;
    for (uint64_t i = 0; i < n; i++) {
        CHECK(i == 0 || spans[i - 1].unit <= spans[i].unit);
        held += spans[i].count;
        for (uint64_t e = spans[i].at; e < spans[i].at + spans[i].count; e++)
            CHECK(ae_place_unit(place, jobs[spans[i].job].positions[e]) - spans[i].unit < AE_SPAN_UNITS);
    }
    CHECK_EQ(held, total);
    for (uint32_t j = 0; j < 3; j++)
        free_job(&jobs[j]);
    ae_scratch_free(&out);
    free_graph(&g);
}

/* ---- what goes wrong ---- */

static int fetch_once(const graph *g, const aether_topology *t, aether_task *task, aether_error *err) {
    uint64_t seed = 11;
    ae_staging staging = {0};
    ae_fetch job = make_job(g, &seed, 5000);
    int rc = t->ops->fetch_many(t, &job, 1, &staging, task, err);
    free_job(&job);
    ae_staging_free(&staging);
    return rc;
}

static int32_t fail_late(uint64_t offset, int32_t result) {
    return offset > (uint64_t)1 << 20 ? -EIO : result;
}

static void fail_and_go_on(graph g) {
    FOR_EACH_MODE(mode) {
        aether_error err = {0};
        aether_io *io;
        aether_topology *t = open_paged(&g, mode, &io);
        ae_io_set_hooks(&(ae_io_hooks){.result = fail_late});
        CHECK_CODE(fetch_once(&g, t, NULL, &err), AETHER_E_IO);
        CHECK_HAS(err.message, "lists");
        ae_io_set_hooks(NULL);
        aether_task task = {.cancel = 1};
        CHECK_CODE(fetch_once(&g, t, &task, &err), AETHER_E_CANCELLED);
        CHECK_CODE(fetch_once(&g, t, NULL, &err), AETHER_OK);
        aether_topology_destroy(t);
        aether_io_close(io);
    }
    free_graph(&g);
}

TEST(a_failing_read_ends_the_call_and_the_next_one_works) {
    fail_and_go_on(make_graph(4, 20000, 4));
}

TEST(a_failing_read_of_blocks_ends_the_call_and_the_next_one_works) {
    graph g = make_graph(4, 20000, 4);
    pack(&g);
    fail_and_go_on(g);
}

static void cut_off(graph g) {
    aether_error err = {0};
    aether_io *io;
    aether_topology *t = open_paged(&g, NULL, &io);
    CHECK_EQ(truncate(lists_path(), (off_t)(g.indices_at + ids_size(&g) / 2)), 0);
    CHECK_CODE(fetch_once(&g, t, NULL, &err), AETHER_E_FILE_CHANGED);
    CHECK_HAS(err.message, "lists");
    aether_topology_destroy(t);
    aether_io_close(io);
    free_graph(&g);
}

TEST(a_file_that_was_cut_off_is_named) {
    cut_off(make_graph(5, 20000, 4));
}

TEST(a_file_of_blocks_that_was_cut_off_is_named) {
    graph g = make_graph(5, 20000, 4);
    pack(&g);
    cut_off(g);
}

/* ---- whole lists ---- */

typedef struct visits {
    const graph *g;
    const ae_list *lists;
    uint64_t list, done; /* what comes next */
    uint64_t pieces, wrong;
} visits;

static int visit(void *ctx, uint64_t list, uint64_t at, uint64_t *ids, uint64_t n, aether_error *err) {
    visits *v = ctx;
    (void)err;
    while (v->list < list && v->done == v->lists[v->list].degree) { /* lists without entries are left out */
        v->list++;
        v->done = 0;
    }
    v->wrong += list != v->list || at != v->lists[list].start + v->done;
    for (uint64_t i = 0; i < n; i++)
        v->wrong += ids[i] != (v->g->id_bytes == 4 ? ((uint32_t *)v->g->indices)[at + i]
                                                   : ((uint64_t *)v->g->indices)[at + i]);
    v->done += n;
    v->pieces++;
    return AETHER_OK;
}

/* More entries than are read at a time, so that lists are cut. */
TEST(lists_are_read_together) {
    for (uint32_t bytes = 4; bytes <= 8; bytes += 4) {
        graph g = make_graph(bytes, 1200, bytes);
        const uint64_t n = 15 * g.num_nodes;
        aether_error err = {0};
        aether_io *io;
        aether_topology *t = open_paged(&g, NULL, &io);
        ae_list *lists = calloc(n + 1, sizeof *lists);
        uint64_t total = 0;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t node = (i * 7) % g.num_nodes;
            CHECK_OK(t->ops->locate(t, &node, 1, &lists[i], &err), err);
            total += lists[i].degree;
        }
        CHECK(total > 2 * AE_LIST_READER_MOST);
        ae_list_reader reader = {0};
        visits v = {.g = &g, .lists = lists};
        CHECK_OK(ae_list_reader_lists(&reader, t, lists, n, visit, &v, NULL, &err), err);
        CHECK_EQ(v.wrong, 0);
        CHECK_EQ(v.done, lists[v.list].degree);
        for (v.list++; v.list < n; v.list++)
            CHECK_EQ(lists[v.list].degree, 0);
        CHECK(v.pieces > 2 && ae_list_reader_memory(&reader) > 0);
        CHECK_OK(ae_list_reader_lists(&reader, t, lists, 0, visit, &v, NULL, &err), err);
        ae_list_reader_free(&reader);
        CHECK_EQ(ae_list_reader_memory(&reader), 0);
        free(lists);
        aether_topology_destroy(t);
        aether_io_close(io);
        free_graph(&g);
    }
}

TEST(an_id_that_is_too_large_is_found) {
    for (uint32_t i = 0; i < 4; i++) {
        graph g = make_graph(6, 2000, i % 2 ? 8 : 4);
        aether_error err = {0};
        aether_io *io;
        for (uint64_t e = 0; e < g.num_edges; e++)
            put_id(&g, e, g.num_nodes);
        write_graph(&g);
        if (i / 2)
            pack(&g);
        aether_topology *t = open_paged(&g, NULL, &io);
        uint64_t ids[3], positions[] = {5, 9, g.num_edges - 1};
        CHECK_CODE(t->ops->fetch(t, positions, 3, ids, &err), AETHER_E_CORRUPT);
        CHECK_EQ(err.value, (int64_t)g.num_nodes);
        CHECK_HAS(err.message, "aethergraph verify");
        aether_topology_destroy(t);
        aether_io_close(io);
        free_graph(&g);
    }
}

/* Any bytes as blocks: what is wrong is said, and nothing is read outside (sanitizers). */
TEST(damaged_blocks_are_found_or_give_ids_that_exist) {
    graph g = make_graph(8, 3000, 4);
    pack(&g);
    uint64_t seed = 21, refused = 0;
    for (uint64_t i = 0; i < 40; i++) {
        aether_error err = {0};
        aether_io *io;
        for (uint64_t k = 0; k < 20; k++)
            g.blocks.bytes[test_random(&seed) % g.blocks.size] = (uint8_t)test_random(&seed);
        write_graph(&g);
        aether_topology *t = open_paged(&g, &io_modes[2 + i % 2], &io);
        ae_staging staging = {0};
        ae_fetch job = make_job(&g, &seed, 5000);
        int rc = t->ops->fetch_many(t, &job, 1, &staging, NULL, &err);
        CHECK(rc == AETHER_OK || rc == AETHER_E_CORRUPT);
        for (uint64_t e = 0; !rc && e < job.count; e++)
            CHECK(((uint32_t *)job.ids)[e] < g.num_nodes);
        refused += rc != AETHER_OK;
        free_job(&job);
        ae_staging_free(&staging);
        aether_topology_destroy(t);
        aether_io_close(io);
    }
    CHECK(refused > 30);
    free_graph(&g);
}

static int open_index(const graph *g, aether_error *err) {
    aether_io *io;
    aether_topology *t;
    aether_lists lists = lists_of(g);
    aether_blocks blocks = {NULL, g->blocks.size, NULL, g->blocks.index_size};
    lists.indices = NULL;
    if (aether_io_open(lists_path(), NULL, &io, err))
        abort();
    int rc = aether_topology_create_paged(
        &lists, AE_SIZED(aether_lists_in_file, io, g->indptr_at, g->indices_at, &blocks, g->index_at), NULL,
        &t, err);
    CHECK(rc || t);
    CHECK(!rc || !t);
    aether_topology_destroy(t);
    aether_io_close(io);
    return rc;
}

TEST(an_index_that_cannot_be_is_refused) {
    graph g = make_graph(8, 3000, 4);
    aether_error err = {0};
    pack(&g);
    CHECK_OK(open_index(&g, &err), err);
    const id_blocks good = g.blocks;
    const uint64_t groups = good.index_size / sizeof(ae_block_group);
    for (uint64_t i = 0; i < 60; i++) {
        id_blocks bad = good;
        uint64_t seed = i, group = i < 3 ? groups - 1 : test_random(&seed) % groups;
        bad.index = malloc(good.index_size);
        memcpy(bad.index, good.index, good.index_size);
        if (i % 2)
            bad.index[group].start += i % 3 ? 700 : (uint64_t)-1 << 20;
        else
            bad.index[group].after[0] = (uint16_t)(bad.index[group].after[0] + 9000 + i);
        g.blocks = bad;
        write_graph(&g);
        CHECK_CODE(open_index(&g, &err), AETHER_E_CORRUPT);
        CHECK_HAS(err.message, "index");
        free(bad.index);
    }
    g.blocks = good;
    write_graph(&g);
    g.blocks.size--;
    CHECK_CODE(open_index(&g, &err), AETHER_E_CORRUPT);
    g.blocks.size += 2;
    CHECK_CODE(open_index(&g, &err), AETHER_E_INVALID); /* past the end of the file */
    g.blocks.size--;
    g.blocks.index_size -= sizeof(ae_block_group);
    CHECK_CODE(open_index(&g, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "bytes, not");
    free_graph(&g);
}

TEST(what_does_not_lie_in_the_file_is_refused) {
    graph g = make_graph(7, 300, 4);
    aether_lists lists = lists_of(&g);
    aether_error err = {0};
    aether_io *io;
    aether_topology *t;
    CHECK_OK(aether_io_open(lists_path(), NULL, &io, &err), err);
    CHECK_CODE(aether_topology_create_paged(
                   &lists, AE_SIZED(aether_lists_in_file, io, g.indptr_at, g.indices_at + 4), NULL, &t, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_topology_create_paged(
                   &lists, AE_SIZED(aether_lists_in_file, io, g.indptr_at + 4, g.indices_at), NULL, &t, &err),
               AETHER_E_INVALID);
    lists.num_edges++;
    CHECK_CODE(aether_topology_create_paged(&lists, AE_SIZED(aether_lists_in_file, io, g.indptr_at, 64), NULL,
                                            &t, &err),
               AETHER_E_CORRUPT);
    CHECK(t == NULL);
    lists.id_bytes = 3;
    CHECK_CODE(aether_topology_create_paged(&lists, AE_SIZED(aether_lists_in_file, io, g.indptr_at, 64), NULL,
                                            &t, &err),
               AETHER_E_INVALID);
    aether_io_close(io);
    free_graph(&g);
}

TEST_MAIN()
