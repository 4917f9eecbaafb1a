/* The log: what was committed comes back, in order, from any commit on; damage is told from torn ends. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <pthread.h>
#include <sys/stat.h>

#include "log/directory.h"
#include "log_helpers.h"
#include "os/write.h"

enum { SEGMENT = 64 << 10 };

/* Damage is done at every fifth byte, which is each byte of some frame; for long at every one. */
static uint64_t step(void) {
    return test_long() && !TEST_SANITIZED ? 1 : 5;
}

static const char first_name[] = "wal-0000000000000001.log";

/* ---- round trips --------------------------------------------------------------------- */

TEST(an_empty_log) {
    char dir[128];
    uint64_t next;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(SEGMENT, AE_LOG_SYNC);
    REQUIRE_OK(log_open(log_dir(dir, sizeof dir, "empty"), &options, 5, &next, &log, &err), err);
    CHECK_EQ(next, 5);
    CHECK_EQ(ae_log_next(log), 5);
    CHECK_OK(ae_log_flush(log, &err), err);
    CHECK_CODE(ae_log_sync(log, 5, &err), AETHER_E_RANGE);
    CHECK_EQ(err.value, 5);
    CHECK_EQ(log_count_files(dir, ".log"), 0); /* nothing is made before the first commit */
    ae_log_close(log);
    ae_log_close(NULL);
}

TEST_ONE_THREAD(round_trips_over_many_opens) {
    static const ae_log_durability durabilities[] = {AE_LOG_SYNC, AE_LOG_BATCH, AE_LOG_NONE};
    uint64_t state = 3;
    char dir[128];
    aether_error err;
    for (unsigned d = 0; d < 3; d++) {
        ae_log_options options = log_options(SEGMENT, durabilities[d]);
        log_dir(dir, sizeof dir, "trips");
        uint64_t last = 0;
        for (unsigned round = 0; round < 12; round++) {
            ae_log *log;
            uint64_t next, from = 1 + test_random(&state) % (last + 1);
            REQUIRE_OK(log_open(dir, &options, from, &next, &log, &err), err);
            CHECK_EQ(next, last + 1);
            for (uint64_t n = test_random(&state) % 100; n > 0; n--, last++)
                REQUIRE_OK(log_put_next(log, &err), err);
            if (round % 2)
                REQUIRE_OK(ae_log_flush(log, &err), err);
            ae_log_close(log);
        }
        CHECK(last > 200);
        CHECK(log_count_files(dir, ".log") > 3);
        log_remove_files(dir);
    }
}

TEST(commits_up_to_a_whole_segment) {
    char dir[128];
    uint64_t next, lsn;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(AE_LOG_MIN_SEGMENT, AE_LOG_SYNC);
    const uint32_t room = AE_LOG_MIN_SEGMENT - AE_LOG_HEADER_BYTES - sizeof(ae_log_frame);
    static const uint8_t zeros[AE_LOG_MIN_SEGMENT];
    REQUIRE_OK(log_open(log_dir(dir, sizeof dir, "whole"), &options, 1, &next, &log, &err), err);
    CHECK_CODE(ae_log_put(log, zeros, room + 1, 0, &lsn, &err), AETHER_E_LIMIT);
    CHECK_EQ(lsn, 0);
    CHECK_CODE(ae_log_put(log, zeros, UINT64_MAX, 0, &lsn, &err), AETHER_E_LIMIT);
    for (uint64_t i = 1; i <= 3; i++) { /* a refused commit does no harm */
        REQUIRE_OK(ae_log_put(log, zeros, room, 0, &lsn, &err), err);
        CHECK_EQ(lsn, i);
    }
    CHECK_EQ(log_count_files(dir, ".log"), 3);
    ae_log_close(log);
    char path[200]; /* of the first commit alone */
    snprintf(path, sizeof path, "%s/%s", dir, first_name);
    REQUIRE(unlink(path) == 0);
    CHECK_CODE(log_open(dir, &options, 1, &next, &log, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "a segment is missing");
}

static int refuse_third(void *user, const ae_log_commit *commit, aether_error *err) {
    (void)user;
    if (commit->lsn == 3 && err)
        err->code = AETHER_E_CANCELLED;
    return commit->lsn == 3 ? AETHER_E_CANCELLED : AETHER_OK;
}

TEST(bad_arguments_and_foreign_logs) {
    char dir[128];
    uint64_t next;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(5000, AE_LOG_SYNC);
    log_dir(dir, sizeof dir, "refused");
    CHECK_CODE(log_open(dir, &options, 1, &next, &log, &err), AETHER_E_INVALID);
    CHECK_EQ(err.value, 5000);
    options = log_options(SEGMENT, AE_LOG_SYNC);
    CHECK_CODE(log_open(dir, &options, 0, &next, &log, &err), AETHER_E_RANGE);
    CHECK_CODE(log_open("/nowhere/at/all", &options, 1, &next, &log, &err), AETHER_E_NOT_FOUND);
    REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
    for (unsigned i = 0; i < 5; i++)
        CHECK_OK(log_put_next(log, &err), err);
    ae_log_close(log);
    CHECK_CODE(ae_log_open(dir, &options, 1, refuse_third, NULL, &log, &err), AETHER_E_CANCELLED);
    CHECK(!log);
    options.graph[0] ^= 1;
    CHECK_CODE(log_open(dir, &options, 1, &next, &log, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "another graph");
}

/* ---- release --------------------------------------------------------------------------- */

/* Commits are written over and over into the same few files; after each open only those that were
 * not released, and no older ones, come back. */
TEST_ONE_THREAD(recycled_segments_never_show_old_frames) {
    char dir[128];
    uint64_t last = 0, kept = 1, state = 5;
    aether_error err;
    ae_log_options options = log_options(16 << 10, AE_LOG_NONE);
    log_dir(dir, sizeof dir, "recycled");
    for (unsigned round = 0; round < 60; round++) {
        ae_log *log;
        uint64_t next;
        REQUIRE_OK(log_open(dir, &options, kept, &next, &log, &err), err);
        REQUIRE(next == last + 1);
        for (uint64_t n = test_random(&state) % 60; n > 0; n--, last++)
            REQUIRE_OK(log_put_next(log, &err), err);
        kept += test_random(&state) % (last + 2 - kept);
        REQUIRE_OK(ae_log_release(log, kept, &err), err);
        CHECK(log_count_files(dir, ".free") <= 2);
        ae_log_close(log);
        CHECK_EQ(log_count_files(dir, ".new"), 0);
    }
    CHECK(last > 1000);
}

TEST(a_missing_segment_is_corruption) {
    char dir[128], path[200];
    uint64_t next;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(16 << 10, AE_LOG_SYNC);
    REQUIRE_OK(log_open(log_dir(dir, sizeof dir, "missing"), &options, 1, &next, &log, &err), err);
    while (log_count_files(dir, ".log") < 3)
        REQUIRE_OK(log_put_next(log, &err), err);
    ae_log_close(log);
    snprintf(path, sizeof path, "%s/%s", dir, first_name);
    REQUIRE(unlink(path) == 0);
    CHECK_CODE(log_open(dir, &options, 1, &next, &log, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "a segment is missing");
}

/* The graph's file may hold commits that the log has lost, under AE_LOG_NONE. */
TEST(a_log_that_ends_before_the_graph) {
    char dir[128];
    uint64_t next;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(16 << 10, AE_LOG_NONE);
    log_dir(dir, sizeof dir, "behind");
    REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
    for (unsigned i = 0; i < 40; i++)
        REQUIRE_OK(log_put_next(log, &err), err);
    ae_log_close(log);
    REQUIRE_OK(log_open(dir, &options, 100, &next, &log, &err), err);
    CHECK_EQ(ae_log_next(log), 100);
    REQUIRE_OK(log_put_next(log, &err), err);
    ae_log_close(log);
    REQUIRE_OK(log_open(dir, &options, 100, &next, &log, &err), err);
    CHECK_EQ(next, 101);
    ae_log_close(log);
}

/* ---- damage: one segment, cut and flipped at every byte ---------------------------------- */

enum { FRAMES = 13 };

typedef struct damaged_log {
    char dir[128], path[200];
    uint8_t *bytes;
    uint64_t offsets[FRAMES + 1]; /* of frame i + 1; the last is where they end */
} damaged_log;

static ae_log_options damage_options(void) {
    return log_options(SEGMENT, AE_LOG_NONE);
}

/* A log of FRAMES commits, synced after each third, and perhaps after the last. */
static void make_log(damaged_log *d, const char *name, bool synced) {
    aether_error err;
    ae_log *log;
    uint64_t next;
    ae_log_options options = damage_options();
    REQUIRE_OK(log_open(log_dir(d->dir, sizeof d->dir, name), &options, 1, &next, &log, &err), err);
    for (unsigned i = 1; i <= FRAMES; i++) {
        REQUIRE_OK(log_put_next(log, &err), err);
        if (i % 3 == 0)
            REQUIRE_OK(ae_log_flush(log, &err), err);
    }
    if (synced)
        REQUIRE_OK(ae_log_flush(log, &err), err);
    ae_log_close(log);
    snprintf(d->path, sizeof d->path, "%s/%s", d->dir, first_name);
    d->bytes = log_read_file(d->path, SEGMENT);
    d->offsets[0] = AE_LOG_HEADER_BYTES;
    uint8_t payload[LOG_MAX_PAYLOAD];
    for (unsigned i = 0; i < FRAMES; i++)
        d->offsets[i + 1] = d->offsets[i] + ae_log_frame_bytes(log_payload(i + 1, payload));
}

/* Of frames 0 to FRAMES - 1, the one that byte `at` is in; FRAMES if it is behind them. */
static unsigned frame_of(const damaged_log *d, uint64_t at) {
    unsigned i = 0;
    while (i < FRAMES && at >= d->offsets[i + 1])
        i++;
    return i;
}

/* The last lsn that the frames after `i` say was synced: they know of each third before them. */
static unsigned synced_after(unsigned i) {
    return i + 1 < FRAMES ? (FRAMES - 1) / 3 * 3 : 0;
}

/* A file that was there as a whole, and is short now, was cut by somebody. */
TEST_ONE_THREAD(a_file_cut_at_every_byte_is_refused) {
    damaged_log d;
    ae_os_set_write_hooks(&log_without_syncs);
    make_log(&d, "cut", false);
    for (uint64_t size = SEGMENT - 1; size < SEGMENT; size -= step()) { /* until it wraps */
        aether_error err;
        uint64_t next;
        ae_log *log;
        ae_log_options options = damage_options();
        REQUIRE(truncate(d.path, (off_t)size) == 0);
        CHECK_CODE(log_open(d.dir, &options, 1, &next, &log, &err), AETHER_E_TRUNCATED);
        CHECK_HAS(err.message, first_name);
        CHECK_EQ(err.position, size);
    }
    ae_os_set_write_hooks(NULL);
    free(d.bytes);
}

/* A crash leaves zeros where nothing was written: every frame that is whole comes back. */
TEST_ONE_THREAD(writing_that_stopped_at_every_byte) {
    damaged_log d;
    ae_os_set_write_hooks(&log_without_syncs);
    make_log(&d, "stopped", false);
    uint8_t *bytes = calloc(1, SEGMENT);
    uint64_t reached = d.offsets[FRAMES];
    for (uint64_t at = AE_LOG_HEADER_BYTES; at <= reached; at += step()) {
        aether_error err;
        uint64_t next, whole = frame_of(&d, at);
        ae_log *log;
        ae_log_options options = damage_options();
        memcpy(bytes, d.bytes, at);
        log_write_file(d.path, bytes, SEGMENT);
        while (at < d.offsets[FRAMES] && whole < FRAMES) { /* a frame may end with zeros */
            if (memcmp(bytes, d.bytes, d.offsets[whole + 1]) != 0)
                break;
            whole++;
        }
        REQUIRE_OK(log_open(d.dir, &options, 1, &next, &log, &err), err);
        REQUIRE(next == whole + 1);
        ae_log_close(log);
    }
    ae_os_set_write_hooks(NULL);
    free(bytes);
    free(d.bytes);
}

/* A flipped bit is damage if a later frame, or the mark, knows that its frame was synced, else the log ends
 * there. */
static void flip_every_byte(const char *name, bool synced) {
    damaged_log d;
    make_log(&d, name, synced);
    unsigned corrupt = 0, ended = 0;
    for (uint64_t at = 0; at < SEGMENT; at += at < d.offsets[FRAMES] + 1024 ? step() : 97) {
        aether_error err;
        uint64_t next;
        ae_log *log;
        ae_log_options options = damage_options();
        d.bytes[at] ^= (uint8_t)(1u << at % 8);
        log_write_file(d.path, d.bytes, SEGMENT);
        d.bytes[at] ^= (uint8_t)(1u << at % 8);
        int rc = log_open(d.dir, &options, 1, &next, &log, &err);
        unsigned frame = frame_of(&d, at);
        if (at < AE_LOG_HEADER_BYTES) {
            CHECK(rc == AETHER_E_CORRUPT || rc == AETHER_E_FORMAT || rc == AETHER_E_VERSION);
            CHECK_HAS(err.message, first_name);
        } else if (frame < FRAMES && frame + 1 <= (synced ? FRAMES : synced_after(frame))) {
            CHECK_EQ(rc, AETHER_E_CORRUPT);
            CHECK_EQ(err.position, d.offsets[frame]);
            CHECK_EQ(err.value, frame + 1);
            CHECK_HAS(err.message, first_name);
            corrupt++;
        } else {
            CHECK_EQ(rc, AETHER_OK);
            CHECK_EQ(next, frame + 1);
            ended++;
        }
        ae_log_close(log);
    }
    CHECK(corrupt > 4000 / step() && ended > 1000 / step());
    free(d.bytes);
}

TEST_ONE_THREAD(a_bit_flipped_in_every_byte) {
    ae_os_set_write_hooks(&log_without_syncs);
    flip_every_byte("flipped", false);
    flip_every_byte("flipped-after-sync", true);
    ae_os_set_write_hooks(NULL);
}

/* Whoever opens a log has its end on disk, and says so. */
TEST(damage_after_an_open) {
    damaged_log d;
    ae_log_options options = damage_options();
    aether_error err;
    ae_log *log;
    uint64_t next;
    make_log(&d, "opened", false);
    REQUIRE_OK(log_open(d.dir, &options, 1, &next, &log, &err), err);
    ae_log_close(log);
    uint8_t *bytes = log_read_file(d.path, SEGMENT);
    bytes[d.offsets[FRAMES - 1] + 50] ^= 1;
    log_write_file(d.path, bytes, SEGMENT);
    CHECK_CODE(log_open(d.dir, &options, 1, &next, &log, &err), AETHER_E_CORRUPT);
    CHECK_EQ(err.value, FRAMES);
    free(bytes);
    free(d.bytes);
}

/* In a segment that another one follows, every commit was synced. */
TEST(damage_before_the_last_segment) {
    char dir[128], path[200];
    uint64_t next;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(16 << 10, AE_LOG_NONE);
    REQUIRE_OK(log_open(log_dir(dir, sizeof dir, "before"), &options, 1, &next, &log, &err), err);
    while (log_count_files(dir, ".log") < 2)
        REQUIRE_OK(log_put_next(log, &err), err);
    uint64_t last = ae_log_next(log) - 1;
    ae_log_close(log);
    snprintf(path, sizeof path, "%s/%s", dir, first_name);
    uint8_t *bytes = log_read_file(path, 16 << 10), payload[LOG_MAX_PAYLOAD];
    uint64_t offset = AE_LOG_HEADER_BYTES;
    for (uint64_t lsn = 1; lsn < last; lsn++) {
        bytes[offset + 5] ^= 1;
        log_write_file(path, bytes, 16 << 10);
        bytes[offset + 5] ^= 1;
        CHECK_CODE(log_open(dir, &options, 1, &next, &log, &err), AETHER_E_CORRUPT);
        CHECK_EQ(next, lsn);
        CHECK_EQ(err.position, offset);
        REQUIRE_OK(log_open(dir, &options, last, &next, &log, &err), err); /* it is not needed then */
        CHECK_EQ(next, last + 1);
        ae_log_close(log);
        offset += ae_log_frame_bytes(log_payload(lsn, payload));
    }
    free(bytes);
}

/* ---- when a commit is synced ------------------------------------------------------------ */

static atomic_uint syncs;

static int count_sync(int fd) {
    atomic_fetch_add(&syncs, 1);
    return fdatasync(fd);
}

static uint64_t hand_clock;

static uint64_t hand_now(void) {
    return hand_clock;
}

/* Put a commit and return how many syncs that took. */
static unsigned syncs_of_put(ae_log *log) {
    aether_error err;
    atomic_store(&syncs, 0);
    CHECK_OK(log_put_next(log, &err), err);
    return atomic_load(&syncs);
}

static unsigned syncs_of_flush(ae_log *log) {
    aether_error err;
    atomic_store(&syncs, 0);
    CHECK_OK(ae_log_flush(log, &err), err);
    return atomic_load(&syncs);
}

TEST(durability_says_when_a_commit_is_synced) {
    static const ae_log_hooks hooks = {.now = hand_now};
    static const ae_os_write_hooks counting = {.fdatasync = count_sync};
    for (unsigned d = AE_LOG_SYNC; d <= AE_LOG_NONE; d++) {
        char dir[128];
        uint64_t next;
        aether_error err;
        ae_log *log;
        ae_log_options options = log_options(SEGMENT, (ae_log_durability)d);
        log_dir(dir, sizeof dir, "when");
        ae_log_set_hooks(&hooks);
        ae_os_set_write_hooks(&counting);
        REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
        hand_clock = 1000;
        syncs_of_put(log); /* begins the segment */
        CHECK_EQ(syncs_of_put(log), d == AE_LOG_SYNC);
        hand_clock += 9999999; /* just below 10 ms after the first of the two */
        CHECK_EQ(syncs_of_put(log), d == AE_LOG_SYNC);
        hand_clock += 1;
        CHECK_EQ(syncs_of_put(log), d != AE_LOG_NONE);
        CHECK_EQ(syncs_of_put(log), d == AE_LOG_SYNC);
        CHECK_EQ(syncs_of_flush(log), d != AE_LOG_SYNC);
        CHECK_EQ(syncs_of_flush(log), 0);
        ae_log_close(log);
        ae_os_set_write_hooks(NULL);
        ae_log_set_hooks(NULL);
        log_remove_files(dir);
    }
}

/* ---- threads ------------------------------------------------------------------------------ */

enum { THREADS = 4, COMMITS = 150 };

typedef struct committer {
    pthread_t thread;
    ae_log *log;
    uint64_t lsns[COMMITS];
} committer;

static void *commit_many(void *arg) {
    committer *c = arg;
    aether_error err;
    for (uint64_t i = 0; i < COMMITS; i++) {
        uint64_t payload[40] = {(uint64_t)(uintptr_t)c, i};
        if (i % 3 == 0) {
            CHECK_OK(ae_log_append(c->log, payload, sizeof payload, 1, &c->lsns[i], &err), err);
            CHECK_OK(ae_log_sync(c->log, c->lsns[i], &err), err);
        } else
            CHECK_OK(ae_log_put(c->log, payload, sizeof payload, 1, &c->lsns[i], &err), err);
        if (i % 50 == 49)
            CHECK_OK(ae_log_release(c->log, c->lsns[i] / 4, &err), err);
    }
    return NULL;
}

typedef struct seen {
    committer *committers;
    uint64_t count, first;
} seen;

/* Commit lsn must be the one that its thread was told. */
static int find_commit(void *user, const ae_log_commit *commit, aether_error *err) {
    (void)err;
    seen *s = user;
    const uint64_t *payload = commit->payload;
    const committer *c = (const committer *)(uintptr_t)payload[0];
    CHECK(c >= s->committers && c < s->committers + THREADS);
    CHECK_EQ(c->lsns[payload[1]], commit->lsn);
    CHECK_EQ(commit->lsn, s->first + s->count);
    s->count++;
    return AETHER_OK;
}

static int slow_sync(int fd) {
    atomic_fetch_add(&syncs, 1);
    usleep(1000);
    return fdatasync(fd);
}

/* Slow syncs are shared: those who come while one is under way join the next. */
static struct {
    ae_log *log;
    unsigned syncs;
    uint64_t appended;
} in_between;

static int append_meanwhile(int fd) {
    (void)fd;
    if (in_between.syncs++ == 0)
        CHECK_EQ(ae_log_append(in_between.log, "x", 1, 1, &in_between.appended, NULL), AETHER_OK);
    return 0;
}

/* What is appended while another commit is synced may not be on disk with it. */
TEST_ONE_THREAD(a_commit_during_a_sync_needs_one_of_its_own) {
    char dir[128];
    ae_log_options options = log_options(SEGMENT, AE_LOG_NONE);
    uint64_t next;
    aether_error err;
    log_dir(dir, sizeof dir, "meanwhile");
    REQUIRE_OK(log_open(dir, &options, 1, &next, &in_between.log, &err), err);
    REQUIRE_OK(log_put_next(in_between.log, &err), err);
    ae_os_set_write_hooks(&(ae_os_write_hooks){.fdatasync = append_meanwhile});
    CHECK_OK(ae_log_sync(in_between.log, 1, &err), err);
    CHECK_EQ(in_between.appended, 2);
    CHECK_EQ(in_between.syncs, 1);
    CHECK_OK(ae_log_sync(in_between.log, 2, &err), err);
    CHECK_EQ(in_between.syncs, 2);
    ae_os_set_write_hooks(NULL);
    ae_log_close(in_between.log);
}

TEST(threads_commit_together) {
    static const ae_os_write_hooks slow = {.fdatasync = slow_sync};
    static const ae_log_durability durabilities[] = {AE_LOG_SYNC, AE_LOG_BATCH};
    for (unsigned d = 0; d < 2; d++) {
        char dir[128];
        uint64_t next;
        aether_error err;
        committer committers[THREADS] = {0};
        ae_log *log;
        ae_log_options options = log_options(SEGMENT, durabilities[d]);
        options.interval_ms = 1;
        log_dir(dir, sizeof dir, "threads");
        REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
        atomic_store(&syncs, 0);
        ae_os_set_write_hooks(&slow);
        for (unsigned t = 0; t < THREADS; t++) {
            committers[t].log = log;
            REQUIRE(pthread_create(&committers[t].thread, NULL, commit_many, &committers[t]) == 0);
        }
        for (unsigned t = 0; t < THREADS; t++)
            pthread_join(committers[t].thread, NULL);
        ae_os_set_write_hooks(NULL);
        CHECK(atomic_load(&syncs) < THREADS * COMMITS * 3 / 4);
        CHECK_EQ(ae_log_next(log), THREADS * COMMITS + 1);
        ae_log_close(log);
        const uint64_t first = THREADS * COMMITS / 4; /* no more than that was released */
        seen s = {committers, 0, first};
        REQUIRE_OK(ae_log_open(dir, &options, first, find_commit, &s, &log, &err), err);
        CHECK_EQ(s.count, THREADS * COMMITS + 1 - first);
        ae_log_close(log);
        log_remove_files(dir);
    }
}

/* ---- the golden file -------------------------------------------------------------------------- */

static uint64_t golden_clock;

static uint64_t golden_now(void) {
    return golden_clock += 1000000;
}

static void golden_uuid(uint8_t out[16]) {
    memcpy(out, "a golden segment", 16);
}

static _Atomic uint64_t bytes_written;

static ssize_t count_bytes(int fd, const void *data, size_t size, off_t offset) {
    atomic_fetch_add(&bytes_written, size);
    return pwrite(fd, data, size, offset);
}

/* The commit that begins a segment then writes its header and itself, and no zeros. */
TEST(a_spare_segment_is_taken) {
    enum { SIZE = 256 << 10 };
    static const ae_os_write_hooks hooks = {.pwrite = count_bytes};
    static uint8_t payload[16 << 10];
    char dir[128];
    uint64_t next, lsn;
    aether_error err;
    ae_log *log;
    const ae_log_options options = log_options(SIZE, AE_LOG_NONE);
    log_dir(dir, sizeof dir, "spare");
    REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
    CHECK(!ae_log_wants_spare(log));
    ae_os_set_write_hooks(&hooks);
    for (int round = 0; round < 3; round++) {
        while (!ae_log_wants_spare(log))
            CHECK_OK(ae_log_put(log, payload, sizeof payload, 1, &lsn, &err), err);
        CHECK_EQ(log_count_files(dir, ".free"), 0);
        while (ae_log_fill_spare(log))
            CHECK_EQ(log_count_files(dir, ".free"), 0); /* until it is whole */
        CHECK(!ae_log_wants_spare(log));
        CHECK(!ae_log_fill_spare(log)); /* there is one */
        CHECK_EQ(log_count_files(dir, ".free"), 1);
        CHECK_EQ(log_count_files(dir, ".spare"), 0);
        const unsigned segments = log_count_files(dir, ".log");
        while (log_count_files(dir, ".log") == segments) {
            atomic_store(&bytes_written, 0);
            CHECK_OK(ae_log_put(log, payload, sizeof payload, 1, &lsn, &err), err);
        }
        CHECK(atomic_load(&bytes_written) < SIZE / 4);
        CHECK_EQ(log_count_files(dir, ".free"), 0);
    }
    ae_os_set_write_hooks(NULL);
    CHECK(ae_log_fill_spare(log));
    CHECK_EQ(log_count_files(dir, ".spare"), 1);
    ae_log_close(log); /* takes what is not whole away */
    CHECK_EQ(log_count_files(dir, ".spare"), 0);
}

static int64_t bytes_on_disk(const char *dir, const char *name) {
    char path[300];
    struct stat found;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &found) == 0 ? found.st_blocks * 512 : -1;
}

/* A session of one commit takes a few blocks, and every one of many comes back. */
TEST(what_a_session_has_not_used_goes_back_to_the_disk) {
    enum { SIZE = 1 << 20 };
    char dir[128], name[64];
    uint64_t next;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(SIZE, AE_LOG_SYNC);
    log_dir(dir, sizeof dir, "unused");
    for (uint64_t session = 1; session <= 6; session++) {
        REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
        CHECK_EQ(next, session);
        REQUIRE_OK(log_put_next(log, &err), err);
        snprintf(name, sizeof name, "wal-%016" PRIx64 ".log", session);
        CHECK(bytes_on_disk(dir, name) >= SIZE); /* while it may be written to */
        ae_log_close(log);
        if (session == 1 && bytes_on_disk(dir, name) >= SIZE)
            return; /* a file system without holes */
        CHECK(bytes_on_disk(dir, name) <= 64 << 10);
    }
    REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
    CHECK_EQ(next, 7);
    REQUIRE_OK(log_put_next(log, &err), err);
    CHECK_OK(ae_log_release(log, 7, &err), err);
    CHECK_EQ(log_count_files(dir, ".free"), 0); /* with holes they are of no use */
    CHECK_EQ(log_count_files(dir, ".log"), 1);
    ae_log_close(log);
}

TEST(what_is_left_over_goes) {
    char dir[128], path[200];
    uint64_t next;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(8 << 10, AE_LOG_NONE);
    log_dir(dir, sizeof dir, "left");
    for (unsigned i = 0; i < 2; i++) { /* of a process that was killed while it filled them */
        snprintf(path, sizeof path, "%s/%s", dir, i ? "wal.new" : "wal.spare");
        log_write_file(path, "zeros", 5);
    }
    REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
    CHECK_EQ(log_count_files(dir, "wal.new") + log_count_files(dir, "wal.spare"), 0);
    while (log_count_files(dir, ".log") < 5)
        REQUIRE_OK(log_put_next(log, &err), err);
    CHECK_OK(ae_log_release(log, ae_log_next(log), &err), err);
    CHECK_EQ(log_count_files(dir, ".free"), AE_LOG_MAX_FREE);
    ae_log_close(log);
    CHECK_EQ(log_count_files(dir, ".free"), AE_LOG_MAX_IDLE);
}

static void write_named(const char *dir, const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    log_write_file(path, (const uint8_t *)text, strlen(text));
}

static void check_named(const char *dir, const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    uint8_t *bytes = log_read_file(path, strlen(text));
    CHECK(memcmp(bytes, text, strlen(text)) == 0);
    free(bytes);
}

/* Short, and long enough for a header. */
TEST(what_only_has_the_name_of_a_segment_is_left_alone) {
    enum { SIZE = 8 << 10 };
    static char notes[2][SIZE + 1];
    char dir[128], expected[300];
    uint64_t next;
    aether_error err;
    ae_log *log;
    const ae_log_options options = log_options(SIZE, AE_LOG_NONE);
    strcpy(notes[0], "notes");
    memset(notes[1], 'n', SIZE);
    for (unsigned kind = 0; kind < 2; kind++) {
        const char *text = notes[kind];
        log_dir(dir, sizeof dir, kind ? "foreign" : "notes");
        REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
        while (log_count_files(dir, ".log") < 3)
            REQUIRE_OK(log_put_next(log, &err), err);
        CHECK_OK(ae_log_release(log, ae_log_next(log) - 1, &err), err);
        const uint64_t from = ae_log_next(log) - 1;
        ae_log_close(log);
        write_named(dir, "wal-0000000000000001.log", text);
        write_named(dir, "wal-0000000000000001.free", text);
        REQUIRE_OK(log_open(dir, &options, from, &next, &log, &err), err);
        CHECK_EQ(next, from + 1);
        for (unsigned i = 0; i < 100; i++)
            REQUIRE_OK(log_put_next(log, &err), err);
        CHECK_OK(ae_log_release(log, ae_log_next(log) - 1, &err), err);
        const uint64_t last = ae_log_next(log) - 1;
        ae_log_close(log);
        check_named(dir, "wal-0000000000000001.log", text);
        check_named(dir, "wal-0000000000000001.free", text);
        REQUIRE_OK(log_open(dir, &options, last, &next, &log, &err), err);
        CHECK_EQ(next, last + 1);
        ae_log_close(log);

        /* One that stands behind the log says nothing about what comes before it. */
        write_named(dir, "wal-0000000000099999.log", text);
        CHECK_CODE(log_open(dir, &options, last, &next, &log, &err), AETHER_E_FORMAT);
        CHECK_EQ(err.value, last + 1);
        CHECK_HAS(err.message, "wal-0000000000099999.log' is damaged at byte 0, or no segment");
        CHECK_HAS(err.message, "move it away");
        snprintf(expected, sizeof expected, "%s/wal-0000000000099999.log", dir);
        REQUIRE(unlink(expected) == 0);
        REQUIRE_OK(log_open(dir, &options, last, &next, &log, &err), err);
        ae_log_close(log);
    }
}

/* Where the graph's file is ahead of its log, nothing of the log is needed. */
TEST(a_segment_of_another_graph_is_left_alone) {
    char dir[128], other[128], path[300];
    uint64_t next;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(SEGMENT, AE_LOG_NONE);
    REQUIRE_OK(log_open(log_dir(dir, sizeof dir, "mine"), &options, 1, &next, &log, &err), err);
    REQUIRE_OK(log_put_next(log, &err), err);
    ae_log_close(log);
    options.graph[0] ^= 1;
    REQUIRE_OK(log_open(log_dir(other, sizeof other, "other"), &options, 7, &next, &log, &err), err);
    REQUIRE_OK(log_put_next(log, &err), err);
    ae_log_close(log);
    snprintf(path, sizeof path, "%s/%s", dir, first_name);
    uint8_t *bytes = log_read_file(path, SEGMENT);
    snprintf(path, sizeof path, "%s/%s", other, first_name);
    log_write_file(path, bytes, SEGMENT);
    REQUIRE_OK(log_open(other, &options, 7, &next, &log, &err), err);
    CHECK_EQ(next, 8);
    CHECK_OK(ae_log_release(log, 8, &err), err);
    ae_log_close(log);
    uint8_t *again = log_read_file(path, SEGMENT);
    CHECK(memcmp(bytes, again, SEGMENT) == 0);
    free(again);
    free(bytes);
    CHECK_CODE(log_open(other, &options, 8, &next, &log, &err), AETHER_E_INVALID); /* it stands alone */
    CHECK_HAS(err.message, "another graph: move it away");
}

/* The bytes of a log never change: after a deliberate change of the format there is a new version
 * and a new golden file (AETHER_WRITE_GOLDEN=1 writes it), and the old one goes on being read. */
TEST(golden_file_of_version_1) {
    static const ae_log_hooks hooks = {golden_now, golden_uuid};
    const char *golden = TEST_DATA "/wal-v1-mark.log", *old = TEST_DATA "/wal-v1.log";
    enum { SIZE = 16 << 10 };
    char dir[128], path[200];
    uint64_t next;
    aether_error err;
    ae_log *log;
    ae_log_options options = log_options(SIZE, AE_LOG_SYNC);
    golden_clock = UINT64_C(1800000000000000000);
    ae_log_set_hooks(&hooks);
    REQUIRE_OK(log_open(log_dir(dir, sizeof dir, "golden"), &options, 1, &next, &log, &err), err);
    for (unsigned i = 0; i < 6; i++)
        CHECK_OK(log_put_next(log, &err), err);
    ae_log_close(log);
    ae_log_set_hooks(NULL);
    snprintf(path, sizeof path, "%s/%s", dir, first_name);
    uint8_t *bytes = log_read_file(path, SIZE);
    if (getenv("AETHER_WRITE_GOLDEN"))
        log_write_file(golden, bytes, SIZE);
    uint8_t *expected = log_read_file(golden, SIZE);
    CHECK(memcmp(bytes, expected, SIZE) == 0);
    log_write_file(path, expected, SIZE);
    REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
    CHECK_EQ(next, 7);
    ae_log_close(log);
    free(bytes);
    free(expected);
    expected = log_read_file(old, SIZE); /* before there were marks */
    log_write_file(path, expected, SIZE);
    REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
    CHECK_EQ(next, 7);
    ae_log_close(log);
    free(expected);
}

TEST_MAIN()
