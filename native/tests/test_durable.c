/* Live graphs with a journal: what is replayed is what was committed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sys/wait.h>

#include "durable/ops.h"
#include "durable_helpers.h"
#include "os/write.h"

/* ---- replays ------------------------------------------------------------------------------- */

static void run_generations(uint64_t seed, uint64_t segment_size, uint32_t durability) {
    const aether_journal_options options = journal_options(segment_size, durability);
    char dir[128];
    world w = world_make(seed);
    uint64_t steps = 0, state = seed;
    log_remove_files(log_dir(dir, sizeof dir, "generations"));
    for (int generation = 0; generation < 4; generation++) {
        aether_error err = {0};
        aether_live *g = world_open(&w, dir, &options, &steps, &err);
        if (!g) {
            TEST_FAIL("%s", err.message);
            break;
        }
        CHECK_EQ(steps, w.steps);
        world_check(&w, g);
        for (int i = 0; i < 40; i++) {
            const uint64_t lsn = aether_live_lsn(g);
            CHECK_OK(world_step(&w, g, &err), err);
            CHECK(aether_live_lsn(g) > lsn);
            if (test_random(&state) % 4 == 0)
                world_abort(&w, g, &state);
        }
        world_check(&w, g);
        aether_live_close(g);
    }
    world_free(&w);
}

TEST(a_replay_makes_the_same_graph) {
    run_generations(1, 0, AETHER_UNSYNCED);
    run_generations(2, 64 << 10, AETHER_BATCH);
    run_generations(3, 8 << 10, AETHER_UNSYNCED); /* most transactions span frames */
    run_generations(4, 16 << 10, AETHER_SYNC);
}

/* A graph of one relation without columns: 1000 to 1000 nodes, in-edges. */
static aether_live *plain_graph(uint64_t nodes) {
    return live_make((live_spec){.relation = {.num_src = nodes,
                                              .num_dst = nodes,
                                              .layouts = AETHER_LIVE_CSC,
                                              .order = AETHER_ORDER_TIME,
                                              .edge_id_bytes = 8},
                                 .arena_bytes = UINT64_C(256) << 20});
}

static int open_plain(aether_live *g, const char *dir, uint64_t segment, uint64_t from, aether_error *err) {
    const aether_journal_options options = journal_options(segment, AETHER_UNSYNCED);
    return aether_live_open_journal(g, dir, &options, from, NULL, NULL, NULL, err);
}

static uint64_t num_edges(const aether_live *g) {
    aether_live_stats stats;
    aether_live_count(g, &stats);
    return stats.num_edges;
}

static uint64_t insert_many(aether_live *g, uint64_t n, int *rc, aether_error *err) {
    int64_t *src = malloc(n * sizeof *src), *dst = malloc(n * sizeof *dst);
    const aether_live_edges edges = {.src = src, .dst = dst, .count = n};
    uint64_t inserted = 0;
    for (uint64_t i = 0; i < n; i++) {
        src[i] = (int64_t)(i % 1000);
        dst[i] = (int64_t)(i * 7 % 1000);
    }
    *rc = aether_live_insert(g, 0, &edges, NULL, &inserted, err);
    free(src);
    free(dst);
    return inserted;
}

/* 1.6 MB in segments of 64 KiB. */
TEST(a_transaction_may_be_larger_than_segments) {
    enum { EDGES = 200000 };
    char dir[128];
    aether_error err = {0};
    aether_live *g = plain_graph(1000);
    int rc;
    REQUIRE_OK(open_plain(g, log_dir(dir, sizeof dir, "large"), 64 << 10, 1, &err), err);
    CHECK_OK(live_insert(g, 1, 2, &err), err);
    CHECK_EQ(insert_many(g, EDGES, &rc, &err), EDGES);
    CHECK_OK(rc, err);
    CHECK(aether_live_lsn(g) > 25); /* of its last frame */
    CHECK_OK(live_insert(g, 1, 3, &err), err);
    aether_live_close(g);
    g = plain_graph(1000);
    REQUIRE_OK(open_plain(g, dir, 64 << 10, 1, &err), err);
    CHECK_EQ(num_edges(g), EDGES + 2);
    aether_live_close(g);
    /* Replays begin where a transaction does. */
    g = plain_graph(1000);
    CHECK_CODE(open_plain(g, dir, 64 << 10, 5, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "begins with 2");
    aether_live_close(g);
}

TEST(what_was_given_up_after_it_was_partly_written_never_was) {
    char dir[128];
    aether_error err = {0};
    log_dir(dir, sizeof dir, "given up");
    for (int life = 0; life < 4; life++) {
        aether_live *g = plain_graph(1000);
        int rc;
        REQUIRE_OK(open_plain(g, dir, 16 << 10, 1, &err), err);
        CHECK_EQ(num_edges(g), life);
        CHECK_OK(aether_live_begin(g, &err), err);
        CHECK_EQ(insert_many(g, 5000, &rc, &err), 5000);
        CHECK_OK(rc, err);
        if (life % 2)
            CHECK_OK(aether_live_abort(g, &err), err);
        if (life % 2)
            CHECK_OK(live_insert(g, 1, 2, &err), err);
        else { /* the next life finds parts at the end of the log */
            aether_live_close(g);
            g = plain_graph(1000);
            REQUIRE_OK(open_plain(g, dir, 16 << 10, 1, &err), err);
            CHECK_EQ(num_edges(g), life);
            CHECK_OK(live_insert(g, 1, 2, &err), err);
        }
        CHECK_EQ(num_edges(g), life + 1);
        aether_live_close(g);
    }
}

/* ---- notes --------------------------------------------------------------------------------- */

enum { MOST_NOTES = 32 };

typedef struct notes {
    struct {
        uint64_t lsn, size;
        uint32_t kind;
        uint32_t sum;
    } seen[MOST_NOTES];
    uint32_t n, stop_at;
} notes;

static uint32_t sum_of(const uint8_t *bytes, uint64_t size) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < size; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

static int take_note(void *user, uint64_t lsn, uint32_t kind, const void *bytes, uint64_t size) {
    notes *k = user;
    if (k->n == MOST_NOTES)
        return 1;
    k->seen[k->n].lsn = lsn;
    k->seen[k->n].size = size;
    k->seen[k->n].kind = kind;
    k->seen[k->n].sum = sum_of(bytes, size);
    return ++k->n == k->stop_at;
}

TEST(notes_come_back_in_order) {
    static const uint64_t sizes[] = {0, 1, 8, 4000, 4016, 4017, 4040, 8064, 50000, 3};
    enum { NOTES = sizeof sizes / sizeof *sizes, MOST_BYTES = 50000 + NOTES };
    const aether_journal_options options = journal_options(8 << 10, AETHER_UNSYNCED);
    char dir[128];
    uint8_t *bytes = malloc(MOST_BYTES);
    uint64_t state = 1, lsns[2 * NOTES];
    aether_error err = {0};
    aether_live *g = plain_graph(10);
    for (int i = 0; i < MOST_BYTES; i++)
        bytes[i] = (uint8_t)test_random(&state);
    log_dir(dir, sizeof dir, "notes");
    REQUIRE_OK(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), err);
    for (uint32_t i = 0; i < NOTES; i++) { /* each a commit of its own */
        CHECK_OK(aether_live_note(g, i, bytes, sizes[i], &err), err);
        lsns[i] = aether_live_lsn(g);
    }
    CHECK_OK(aether_live_begin(g, &err), err);
    CHECK_OK(aether_live_note(g, 1, bytes, 9000, &err), err);
    CHECK_OK(aether_live_abort(g, &err), err);
    CHECK_OK(aether_live_begin(g, &err), err);
    for (uint32_t i = 0; i < NOTES; i++)
        CHECK_OK(aether_live_note(g, NOTES + i, bytes + i, sizes[i], &err), err);
    CHECK_OK(live_insert(g, 1, 2, &err), err);
    CHECK_OK(aether_live_commit(g, &err), err);
    for (uint32_t i = 0; i < NOTES; i++)
        lsns[NOTES + i] = aether_live_lsn(g);
    aether_live_close(g);
    notes seen = {0};
    g = plain_graph(10);
    CHECK_OK(aether_live_open_journal(g, dir, &options, 1, take_note, &seen, NULL, &err), err);
    CHECK_EQ(num_edges(g), 1);
    CHECK_EQ(seen.n, 2 * NOTES);
    for (uint32_t i = 0; i < seen.n; i++) {
        CHECK_EQ(seen.seen[i].kind, i);
        CHECK_EQ(seen.seen[i].lsn, lsns[i]);
        CHECK_EQ(seen.seen[i].size, sizes[i % NOTES]);
        CHECK_EQ(seen.seen[i].sum, sum_of(bytes + (i < NOTES ? 0 : i - NOTES), sizes[i % NOTES]));
    }
    aether_live_close(g);
    /* Whoever takes notes can stop the replay: that transaction is not seen. */
    seen = (notes){.stop_at = 2 * NOTES};
    g = plain_graph(10);
    CHECK_CODE(aether_live_open_journal(g, dir, &options, 1, take_note, &seen, NULL, &err),
               AETHER_E_CANCELLED);
    CHECK_EQ(num_edges(g), 0);
    aether_live_close(g);
    free(bytes);
}

/* ---- what is refused ------------------------------------------------------------------------- */

TEST(without_a_journal) {
    aether_error err = {0};
    aether_live *g = plain_graph(10);
    CHECK_CODE(aether_live_note(g, 1, "x", 1, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "aether_live_open_journal");
    CHECK_CODE(aether_live_flush(g, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_live_release_journal(g, 1, &err), AETHER_E_INVALID);
    CHECK_EQ(aether_live_lsn(g), 0);
    aether_live_close(g);
}

TEST(what_cannot_be_opened) {
    aether_journal_options options = journal_options(8 << 10, AETHER_SYNC);
    char dir[128], path[200], pid[32];
    aether_error err = {0};
    aether_live *g = plain_graph(10), *second = plain_graph(10);
    log_dir(dir, sizeof dir, "refused");
    options.durability = 0;
    CHECK_CODE(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "durability = 0");
    options.durability = AETHER_SYNC;
    CHECK_CODE(aether_live_open_journal(g, dir, &options, 0, NULL, NULL, NULL, &err), AETHER_E_RANGE);
    options.segment_size = 1000;
    CHECK_CODE(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "segment_size is 1000");
    options.segment_size = 8 << 10;
    CHECK_OK(aether_live_begin(g, &err), err);
    CHECK_CODE(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "transaction");
    CHECK_OK(aether_live_abort(g, &err), err);
    snprintf(path, sizeof path, "%s/nowhere", dir);
    CHECK_CODE(aether_live_open_journal(g, path, &options, 1, NULL, NULL, NULL, &err), AETHER_E_NOT_FOUND);
    CHECK_HAS(err.message, "nowhere");

    CHECK_OK(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), err);
    CHECK_CODE(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "has a journal already");
    CHECK_CODE(aether_live_open_journal(second, dir, &options, 1, NULL, NULL, NULL, &err), AETHER_E_INVALID);
    snprintf(pid, sizeof pid, "process %d", (int)getpid());
    CHECK_HAS(err.message, pid);
    CHECK_EQ(err.value, getpid());
    CHECK_OK(live_insert(g, 1, 2, &err), err);
    CHECK_CODE(aether_live_release_journal(g, 0, &err), AETHER_E_RANGE);
    CHECK_CODE(aether_live_release_journal(g, 3, &err), AETHER_E_RANGE);
    CHECK_OK(aether_live_release_journal(g, 2, &err), err);
    aether_live_close(g);

    options.graph[0] ^= 1;
    CHECK_CODE(aether_live_open_journal(second, dir, &options, 1, NULL, NULL, NULL, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "another graph");
    options.graph[0] ^= 1;
    CHECK_OK(aether_live_open_journal(second, dir, &options, 1, NULL, NULL, NULL, &err), err);
    CHECK_EQ(num_edges(second), 1);
    aether_live_close(second);
}

/* Open a journal of what `g` committed in another graph; the error names the commit. */
static void check_misfit(const char *dir, aether_live *other, const char *why) {
    aether_error err = {0};
    CHECK_CODE(open_plain(other, dir, 8 << 10, 1, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "commit 2 of the log does not fit");
    CHECK_HAS(err.message, why);
    CHECK_EQ(err.value, 2);
    CHECK(!other || aether_live_lsn(other) == 1); /* what came before it is there */
    aether_live_close(other);
}

TEST(a_commit_that_does_not_fit) {
    char dir[128];
    aether_error err = {0};
    aether_live *g = plain_graph(100);
    REQUIRE_OK(open_plain(g, log_dir(dir, sizeof dir, "misfit"), 8 << 10, 1, &err), err);
    CHECK_OK(live_insert(g, 5, 6, &err), err);
    CHECK_OK(aether_live_begin(g, &err), err);
    CHECK_OK(aether_live_add_nodes(g, 0, 0, 3, &err), err);
    CHECK_OK(live_insert(g, 102, 7, &err), err);
    CHECK_OK(aether_live_commit(g, &err), err);
    aether_live_close(g);
    check_misfit(dir, plain_graph(90), "dst[0] = 102 is not in 0..92");
    live_spec spec = {.relation = {.num_src = 100,
                                   .num_dst = 100,
                                   .max_src = 100,
                                   .max_dst = 101,
                                   .layouts = AETHER_LIVE_CSC,
                                   .order = AETHER_ORDER_TIME},
                      .arena_bytes = 1 << 20};
    check_misfit(dir, live_make(spec), "max_dst");
    /* The second commit is replayed into a graph that has had another first one. */
    g = plain_graph(100);
    CHECK_CODE(open_plain(g, dir, 8 << 10, 2, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "after 1 others, and here there were 0");
    aether_live_close(g);
    g = plain_graph(100);
    CHECK_OK(live_insert(g, 9, 9, &err), err);
    CHECK_OK(open_plain(g, dir, 8 << 10, 2, &err), err);
    CHECK_EQ(num_edges(g), 2);
    aether_live_close(g);
}

/* Put a payload into a log, and replay it. */
static int replay_payload(const void *payload, uint64_t size, aether_error *err) {
    char dir[128];
    const ae_log_options options = log_options(64 << 10, AE_LOG_NONE);
    uint64_t next, lsn;
    ae_log *log;
    log_remove_files(log_dir(dir, sizeof dir, "payload"));
    int rc = log_open(dir, &options, 1, &next, &log, err);
    if (rc)
        return rc;
    rc = ae_log_put(log, payload, size, 1, &lsn, err);
    ae_log_close(log);
    aether_live *g = plain_graph(10);
    rc = rc ? rc : open_plain(g, dir, 64 << 10, 1, err);
    aether_live_close(g);
    return rc;
}

TEST(a_payload_of_another_kind) {
    _Alignas(8) uint8_t payload[256] = {0};
    const int64_t id = 3;
    aether_error err = {0};
    CHECK_OK(replay_payload(payload, 0, &err), err);
    memset(payload, 0xEE, sizeof payload);
    CHECK_CODE(replay_payload(payload, sizeof payload, &err), AETHER_E_VERSION);
    CHECK_HAS(err.message, "commit 1 of the log");
    ae_op_put_edges(payload, 1, 0, 0, &id, &id, NULL, NULL, 1); /* no relation 1 */
    CHECK_CODE(replay_payload(payload, ae_op_edges_bytes(1, 0), &err), AETHER_E_CORRUPT);
    ae_op_put_edges(payload, 0, 0, 0, &id, &id, NULL, NULL, 1);
    CHECK_OK(replay_payload(payload, ae_op_edges_bytes(1, 0), &err), err);
    CHECK_CODE(replay_payload(payload, ae_op_edges_bytes(1, 0) - 8, &err), AETHER_E_CORRUPT);
    ae_op_put_edges(payload, 0, AE_OP_TIMES, 0, &id, &id, &id, NULL, 1); /* no times */
    CHECK_CODE(replay_payload(payload, ae_op_edges_bytes(1, AE_OP_TIMES), &err), AETHER_E_CORRUPT);
    ae_op_put_nodes(payload, 0, UINT64_MAX, 0);
    CHECK_CODE(replay_payload(payload, ae_op_nodes_bytes(), &err), AETHER_E_CORRUPT);
    ae_op_put_delete(payload, 0, AE_OP_EDGE_IDS, &id, &id, &id, 1); /* no edge 3 */
    CHECK_CODE(replay_payload(payload, ae_op_delete_bytes(1, AE_OP_EDGE_IDS), &err), AETHER_E_CORRUPT);
    ae_op_put_note(payload, 1, true, "x", 1);
    CHECK_CODE(replay_payload(payload, ae_op_note_bytes(1), &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "does not go on");
    ae_op_put_note(payload + ae_op_note_bytes(1), 2, false, "x", 1);
    CHECK_CODE(replay_payload(payload, 2 * ae_op_note_bytes(1), &err), AETHER_E_CORRUPT);
    ae_op_put_nodes(payload, 0, 0, 1);
    ae_op_put_part(payload + ae_op_nodes_bytes(), 1, true);
    CHECK_CODE(replay_payload(payload, ae_op_nodes_bytes() + AE_OP_HEADER_BYTES, &err), AETHER_E_CORRUPT);
    ae_op_put_part(payload, 7, true);
    CHECK_CODE(replay_payload(payload, AE_OP_HEADER_BYTES, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "commit 7, which is not open");
    ae_op_put_part(payload, 0, true);
    CHECK_CODE(replay_payload(payload, AE_OP_HEADER_BYTES, &err), AETHER_E_CORRUPT);
    ae_op_put_part(payload, 1, false); /* the log ends before the transaction does */
    CHECK_OK(replay_payload(payload, AE_OP_HEADER_BYTES, &err), err);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

TEST(what_is_given_up_is_not_replayed) {
    char dir[128];
    aether_error err = {0};
    aether_live *g = plain_graph(100), *after;
    REQUIRE_OK(open_plain(g, log_dir(dir, sizeof dir, "checkpoint"), 8 << 10, 1, &err), err);
    for (int64_t i = 0; i < 40; i++)
        CHECK_OK(live_insert(g, i, i + 1, &err), err);
    const uint64_t saved = aether_live_lsn(g);
    CHECK_EQ(saved, 40);
    for (int64_t i = 0; i < 5; i++)
        CHECK_OK(live_insert(g, 50 + i, i, &err), err);
    const unsigned before = log_count_files(dir, ".log");
    CHECK_OK(aether_live_release_journal(g, saved + 1, &err), err);
    CHECK(log_count_files(dir, ".log") < before);
    aether_live_close(g);
    after = plain_graph(100); /* as the checkpoint has it */
    for (int64_t i = 0; i < 40; i++)
        CHECK_OK(live_insert(after, i, i + 1, &err), err);
    REQUIRE_OK(open_plain(after, dir, 8 << 10, saved + 1, &err), err);
    CHECK_EQ(num_edges(after), 45);
    CHECK_EQ(live_degree(after, 54), 1);
    CHECK_EQ(aether_live_lsn(after), 45);
    aether_live_close(after);
    after = plain_graph(100);
    CHECK_CODE(open_plain(after, dir, 8 << 10, 1, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "a segment is missing");
    aether_live_close(after);
}

TEST(a_graph_whose_log_was_closed_refuses_changes) {
    char dir[128];
    aether_error err = {0};
    aether_live *g = plain_graph(100), *after;
    REQUIRE_OK(open_plain(g, log_dir(dir, sizeof dir, "closed"), 8 << 10, 1, &err), err);
    CHECK_OK(live_insert(g, 0, 1, &err), err);
    CHECK_OK(aether_live_close_journal(g, &err), err);
    CHECK_CODE(live_insert(g, 1, 2, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "has been closed");
    CHECK_CODE(aether_live_begin(g, &err), AETHER_E_INVALID);
    CHECK_CODE(open_plain(g, "/nowhere", 8 << 10, 2, &err), AETHER_E_NOT_FOUND);
    CHECK_CODE(aether_live_add_nodes(g, 0, 1, 1, &err), AETHER_E_INVALID);
    CHECK_EQ(num_edges(g), 1);
    REQUIRE_OK(open_plain(g, dir, 8 << 10, 2, &err), err);
    CHECK_OK(live_insert(g, 2, 3, &err), err);
    aether_live_close(g);
    after = plain_graph(100);
    REQUIRE_OK(open_plain(after, dir, 8 << 10, 1, &err), err);
    CHECK_EQ(num_edges(after), 2);
    CHECK_EQ(live_degree(after, 2), 1);
    aether_live_close(after);
}

/* ---- when it is on disk ------------------------------------------------------------------------ */

static _Atomic unsigned syncs;
static _Atomic uint64_t seen_in_sync; /* edges that readers saw during the last sync */
static aether_live *watched;

static int count_sync(int fd) {
    if (watched)
        atomic_store(&seen_in_sync, num_edges(watched));
    atomic_fetch_add(&syncs, 1);
    return fdatasync(fd);
}

static const ae_os_write_hooks counting = {.fdatasync = count_sync};

static aether_live *open_counting(const char *name, uint32_t durability, uint32_t interval_ms) {
    aether_journal_options options = journal_options(1 << 20, durability);
    char dir[128];
    aether_error err = {0};
    aether_live *g = plain_graph(100);
    options.interval_ms = interval_ms;
    CHECK_OK(aether_live_open_journal(g, log_dir(dir, sizeof dir, name), &options, 1, NULL, NULL, NULL, &err),
             err);
    CHECK_OK(live_insert(g, 0, 0, &err), err); /* begins the segment */
    CHECK_OK(aether_live_flush(g, &err), err);
    return g;
}

TEST(a_synced_commit_is_on_disk_before_it_is_seen) {
    aether_error err = {0};
    ae_os_set_write_hooks(&counting);
    aether_live *g = open_counting("sync", AETHER_SYNC, 0);
    watched = g;
    for (unsigned i = 1; i < 5; i++) {
        const unsigned before = atomic_load(&syncs);
        CHECK_OK(live_insert(g, 1, i, &err), err);
        CHECK_EQ(atomic_load(&syncs), before + 1);
        CHECK_EQ(atomic_load(&seen_in_sync), i);
        CHECK_EQ(num_edges(g), i + 1);
    }
    watched = NULL;
    aether_live_close(g);
    ae_os_set_write_hooks(NULL);
}

/* The last commits before a pause as well: nobody calls anything. */
TEST(a_batch_is_synced_by_itself) {
    aether_error err = {0};
    ae_os_set_write_hooks(&counting);
    aether_live *g = open_counting("batch", AETHER_BATCH, 20);
    for (int round = 0; round < 3; round++) {
        const unsigned before = atomic_load(&syncs);
        for (int64_t i = 0; i < 50; i++)
            CHECK_OK(live_insert(g, 1, i, &err), err);
        for (int i = 0; i < 1000 && atomic_load(&syncs) == before; i++)
            usleep(10000);
        CHECK(atomic_load(&syncs) > before);
    }
    aether_live_close(g);
    ae_os_set_write_hooks(NULL);
}

TEST(a_batch_that_is_closed_is_on_disk) {
    aether_error err = {0};
    ae_os_set_write_hooks(&counting);
    aether_live *g = open_counting("closed", AETHER_BATCH, 1000000);
    CHECK_OK(live_insert(g, 1, 1, &err), err);
    const unsigned before = atomic_load(&syncs);
    aether_live_close(g);
    CHECK_EQ(atomic_load(&syncs), before + 1);
    ae_os_set_write_hooks(NULL);
}

TEST(nothing_but_a_flush_syncs_the_unsynced) {
    aether_error err = {0};
    ae_os_set_write_hooks(&counting);
    aether_live *g = open_counting("unsynced", AETHER_UNSYNCED, 0);
    const unsigned before = atomic_load(&syncs);
    for (int64_t i = 0; i < 50; i++)
        CHECK_OK(live_insert(g, 1, i, &err), err);
    CHECK_EQ(atomic_load(&syncs), before);
    CHECK_OK(aether_live_flush(g, &err), err);
    CHECK_EQ(atomic_load(&syncs), before + 1);
    CHECK_OK(aether_live_flush(g, &err), err); /* nothing to do */
    CHECK_EQ(atomic_load(&syncs), before + 1);
    aether_live_close(g);
    ae_os_set_write_hooks(NULL);
}

/* ---- other threads ------------------------------------------------------------------------------ */

static _Atomic bool done_committing;

static void *flush_again_and_again(void *arg) {
    aether_live *g = arg;
    uint64_t last = 0;
    aether_error err = {0};
    while (!atomic_load(&done_committing)) {
        const uint64_t lsn = aether_live_lsn(g);
        CHECK(lsn >= last);
        last = lsn;
        CHECK_OK(aether_live_flush(g, &err), err);
    }
    return NULL;
}

/* ... flush and ask for the number of the last commit while the writer goes on. */
TEST(others_flush_while_one_writes) {
    const aether_journal_options options = journal_options(64 << 10, AETHER_BATCH);
    char dir[128];
    world w = world_make(9);
    uint64_t steps;
    pthread_t thread;
    aether_error err = {0};
    aether_live *g = world_open(&w, log_dir(dir, sizeof dir, "threads"), &options, &steps, &err);
    REQUIRE(g != NULL);
    REQUIRE(pthread_create(&thread, NULL, flush_again_and_again, g) == 0);
    for (int i = 0; i < 100; i++)
        CHECK_OK(world_step(&w, g, &err), err);
    atomic_store(&done_committing, true);
    pthread_join(thread, NULL);
    aether_live_close(g);
    world_check_journal(9, dir, &options, 100, 100);
    world_free(&w);
}

/* ---- a forked child ---------------------------------------------------------------------------- */

TEST(a_forked_child_leaves_the_journal_alone) {
    SKIP_FORK_UNDER_SANITIZERS();
    const aether_journal_options options = journal_options(8 << 10, AETHER_BATCH);
    char dir[128];
    aether_error err = {0};
    aether_live *g = plain_graph(10);
    int status;
    log_dir(dir, sizeof dir, "fork");
    REQUIRE_OK(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), err);
    CHECK_OK(live_insert(g, 1, 2, &err), err);
    const pid_t child = fork();
    if (child == 0) {
        bool good = live_insert(g, 1, 3, &err) == AETHER_E_UNSUPPORTED;
        good &= aether_live_note(g, 1, "x", 1, &err) == AETHER_E_UNSUPPORTED;
        good &= aether_live_flush(g, &err) == AETHER_E_UNSUPPORTED;
        good &= aether_live_release_journal(g, 1, &err) == AETHER_E_UNSUPPORTED;
        good &= live_degree(g, 1) == 1;
        aether_live_close(g);
        aether_live *own = plain_graph(10); /* the parent has it open */
        good &= aether_live_open_journal(own, dir, &options, 1, NULL, NULL, NULL, &err) == AETHER_E_INVALID;
        _exit(good ? 0 : 1);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_OK(live_insert(g, 1, 4, &err), err);
    aether_live_close(g);
    g = plain_graph(10);
    CHECK_OK(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), err);
    CHECK_EQ(num_edges(g), 2);
    aether_live_close(g);
}

/* A writer that ended has let go of the log, although a child of its lives on. */
TEST(a_forked_child_does_not_keep_the_lock) {
    SKIP_FORK_UNDER_SANITIZERS();
    const aether_journal_options options = journal_options(8 << 10, AETHER_SYNC);
    char dir[128], byte;
    aether_error err = {0};
    int ready[2], stay[2], status;
    log_dir(dir, sizeof dir, "orphan");
    REQUIRE(pipe(ready) == 0 && pipe(stay) == 0);
    const pid_t writer = fork();
    if (writer == 0) {
        aether_live *g = plain_graph(10);
        if (aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err) ||
            live_insert(g, 1, 2, &err))
            _exit(1);
        if (fork() == 0) {
            close(stay[1]);
            (void)!write(ready[1], "x", 1);
            (void)!read(stay[0], &byte, 1); /* until the test ends */
            aether_live_close(g);
            _exit(0);
        }
        pause();
    }
    REQUIRE(writer > 0 && read(ready[0], &byte, 1) == 1);
    aether_live *g = plain_graph(10);
    CHECK_CODE(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), AETHER_E_INVALID);
    kill(writer, SIGKILL);
    REQUIRE(waitpid(writer, &status, 0) == writer);
    CHECK_OK(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), err);
    CHECK_EQ(num_edges(g), 1);
    aether_live_close(g);
    close(stay[1]);
    close(stay[0]);
    close(ready[0]);
    close(ready[1]);
}

/* ---- as it was ------------------------------------------------------------------------------------ */

static uint64_t lsn_seen(const aether_live *g) {
    aether_live_commit_info info = {0};
    aether_snapshot *s = NULL;
    aether_error err = {0};
    CHECK_OK(aether_snapshot_take(g, &s, &err), err);
    if (s)
        CHECK_OK(aether_snapshot_describe(s, 0, &info, &err), err);
    aether_snapshot_release(s);
    return info.lsn;
}

/* A log is replayed up to any commit of it, while its writer goes on, and from there to a later one. */
TEST(a_graph_as_it_was) {
    enum { STEPS = 40 };
    const aether_journal_options options = journal_options(32 << 10, AETHER_UNSYNCED);
    char dir[128];
    aether_error err = {0};
    uint64_t lsns[STEPS + 1] = {0}, state = 5, last, seen;
    world w = world_make(11);
    aether_live *g = world_graph(&w);
    log_dir(dir, sizeof dir, "as-it-was");
    CHECK_EQ(lsn_seen(g), 0);
    REQUIRE_OK(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), err);
    for (int i = 1; i <= STEPS; i++) {
        REQUIRE_OK(world_step(&w, g, &err), err);
        lsns[i] = aether_live_lsn(g);
        CHECK_EQ(lsn_seen(g), lsns[i]);
        if (i % 7 == 0) { /* what is undone has no number */
            world_abort(&w, g, &state);
            CHECK_EQ(lsn_seen(g), lsns[i]);
        }
    }
    for (int i = 0; i <= STEPS; i += 8) {
        world past = world_make(11);
        world_notes told = {.seed = 11};
        aether_live *h = world_graph(&past);
        CHECK_OK(
            aether_live_replay(h, dir, options.graph, 1, lsns[i], world_check_note, &told, &last, NULL, &err),
            err);
        CHECK(last == lsns[i] && told.steps == (uint64_t)i && lsn_seen(h) == lsns[i]);
        while (past.steps < (uint64_t)i && world_step(&past, NULL, &err) == AETHER_OK)
            continue;
        world_check(&past, h);
        CHECK_OK(aether_live_replay(h, dir, options.graph, last + 1, lsns[STEPS], world_check_note, &told,
                                    &seen, NULL, &err),
                 err);
        CHECK(seen == lsns[STEPS] && lsn_seen(h) == seen);
        world_check(&w, h);
        aether_live_close(h);
        world_free(&past);
    }
    REQUIRE_OK(world_step(&w, g, &err), err); /* the writer never noticed */
    aether_live_close(g);
    CHECK_EQ(world_check_journal(11, dir, &options, STEPS + 1, STEPS + 1), STEPS + 1);
    world_free(&w);
}

TEST(a_replay_of_what_is_not_there) {
    const aether_journal_options options = journal_options(8 << 10, AETHER_UNSYNCED);
    char dir[128];
    aether_error err = {0};
    uint64_t last;
    aether_live *g = plain_graph(2000), *h = plain_graph(2000);
    log_dir(dir, sizeof dir, "not-there");
    REQUIRE_OK(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), err);
    for (int i = 0; i < 5000; i++)
        REQUIRE_OK(live_insert(g, i % 2000, (i + 1) % 2000, &err), err);
    CHECK_OK(aether_live_replay(h, dir, options.graph, 1, 0, NULL, NULL, &last, NULL, &err), err);
    CHECK_EQ(last, 0);
    CHECK_OK(aether_live_replay(h, dir, options.graph, 1, UINT64_MAX, NULL, NULL, &last, NULL, &err), err);
    CHECK(last == 5000 && num_edges(h) == 5000);
    CHECK_CODE(aether_live_replay(h, dir, options.graph, 0, 9, NULL, NULL, &last, NULL, &err),
               AETHER_E_RANGE);
    CHECK_CODE(aether_live_replay(g, dir, options.graph, 1, 9, NULL, NULL, &last, NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_live_replay(h, "/nonexistent", options.graph, 1, 9, NULL, NULL, &last, NULL, &err),
               AETHER_E_NOT_FOUND);
    CHECK_OK(aether_live_release_journal(g, 4000, &err), err);
    aether_live_close(h);
    h = plain_graph(2000);
    CHECK_CODE(aether_live_replay(h, dir, options.graph, 1, 4500, NULL, NULL, &last, NULL, &err),
               AETHER_E_CORRUPT);
    CHECK(last == 0 && num_edges(h) == 0);
    aether_live_close(h);
    aether_live_close(g);
}

/* ---- the format -------------------------------------------------------------------------------- */

static uint64_t golden_clock;

static uint64_t golden_now(void) {
    return golden_clock += 1000;
}

static void golden_uuid(uint8_t out[16]) {
    memset(out, 0x5A, 16);
}

/* A log with every operation. Its bytes never change; see test_log.c. */
static int write_golden(aether_live *g, aether_error *err) {
    static const int64_t src[] = {1, 2, 3}, dst[] = {4, 5, 6}, times[] = {7, -8, 9}, ids[] = {2, 1};
    static const float weights[] = {1, 0.5f, 2};
    static const uint8_t note[5000] = "a note that takes two frames";
    const aether_live_edges timed = {src, dst, times, weights, 3}, weighted = {src, dst, NULL, weights, 3},
                            plain = {src, dst, NULL, NULL, 2};
    uint64_t n;
    int rc = aether_live_insert(g, 0, &timed, NULL, &n, err);
    rc = rc ? rc : aether_live_insert_one(g, 2, 1, 2, 0, 0, NULL, NULL, err);
    rc = rc ? rc : aether_live_begin(g, err);
    rc = rc ? rc : aether_live_insert(g, 1, &weighted, NULL, &n, err);
    rc = rc ? rc : aether_live_insert(g, 2, &plain, NULL, &n, err);
    rc = rc ? rc : aether_live_delete(g, 0, src + 1, dst + 1, ids + 1, 1, &n, err);
    rc = rc ? rc : aether_live_delete(g, 1, src, dst, NULL, 2, &n, err);
    rc = rc ? rc : aether_live_add_nodes(g, 2, 5, 6, err);
    rc = rc ? rc : aether_live_note(g, 9, note, sizeof note, err);
    return rc ? rc : aether_live_commit(g, err);
}

TEST(golden_file_with_every_operation) {
    static const ae_log_hooks hooks = {golden_now, golden_uuid};
    const char *golden = TEST_DATA "/wal-ops-v1.log";
    enum { SIZE = 16 << 10 };
    const aether_journal_options options = journal_options(SIZE, AETHER_UNSYNCED);
    char dir[128], path[200];
    aether_error err = {0};
    world w = world_make(1);
    aether_live *g = world_graph(&w);
    golden_clock = UINT64_C(1800000000000000000);
    ae_log_set_hooks(&hooks);
    log_dir(dir, sizeof dir, "golden");
    REQUIRE_OK(aether_live_open_journal(g, dir, &options, 1, NULL, NULL, NULL, &err), err);
    CHECK_OK(write_golden(g, &err), err);
    aether_live_close(g);
    ae_log_set_hooks(NULL);
    snprintf(path, sizeof path, "%s/wal-0000000000000001.log", dir);
    uint8_t *bytes = log_read_file(path, SIZE);
    if (getenv("AETHER_WRITE_GOLDEN"))
        log_write_file(golden, bytes, SIZE);
    uint8_t *expected = log_read_file(golden, SIZE);
    CHECK(memcmp(bytes, expected, SIZE) == 0);
    log_write_file(path, expected, SIZE);
    notes seen = {0};
    aether_live_relation_stats stats[3];
    g = world_graph(&w);
    CHECK_OK(aether_live_open_journal(g, dir, &options, 1, take_note, &seen, NULL, &err), err);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_OK(aether_live_count_relation(g, i, &stats[i], &err), err);
    CHECK_EQ(stats[0].num_edges, 2);
    CHECK_EQ(stats[1].num_edges, 1);
    CHECK_EQ(stats[2].num_edges, 3);
    CHECK_EQ(stats[2].num_src, WORLD_NODES + 5);
    CHECK_EQ(seen.n, 1);
    CHECK(seen.seen[0].kind == 9 && seen.seen[0].size == 5000);
    aether_live_close(g);
    world_free(&w);
    free(bytes);
    free(expected);
}

TEST_MAIN()
