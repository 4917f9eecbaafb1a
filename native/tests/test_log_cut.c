/* A log that is cut before its damage opens again, and nothing of it is lost. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "log/cut.h"
#include "log/recover.h"
#include "log_helpers.h"

enum { SEGMENT = 64 << 10 };

static const char first_name[] = "wal-0000000000000001.log";

/* Examine a log, which is to fail with `expected`, cut it before its damage, which is commit `damaged`, open
 * it, and go on. */
static void cut_and_open(const char *dir, const ae_log_options *options, int expected, uint64_t damaged) {
    const uint64_t from = 1;
    ae_log_directory d;
    aether_error err;
    ae_log *log;
    uint64_t *segments, count, next, after;
    log_replay r = {from, from};
    REQUIRE_OK(ae_log_directory_open(dir, &d, &err), err);
    REQUIRE_OK(ae_log_list_segments(&d, &segments, &count, &err), err);
    int rc = ae_log_examine(&d, log_graph, segments, count, from, log_check_commit, &r, &next, &err);
    CHECK_EQ(rc, expected);
    if (rc) {
        CHECK_EQ(err.value, damaged);
        CHECK_HAS(err.message, "byte ");
        CHECK_HAS(err.message, "aethergraph verify --truncate");
        CHECK_HAS(err.message, dir);
    }
    if (rc == AETHER_E_TRUNCATED) {
        ae_os_set_write_hooks(&log_notes_syncs);
        REQUIRE_OK(ae_log_complete(&d, segments, count, &err), err);
        CHECK(!log_unsynced.names);
        ae_os_set_write_hooks(NULL);
        r.next = from;
        rc = ae_log_examine(&d, log_graph, segments, count, from, log_check_commit, &r, &next, &err);
    }
    if (rc) {
        ae_os_set_write_hooks(&log_notes_syncs); /* which looks at the order of renames and syncs */
        REQUIRE_OK(ae_log_cut(&d, segments, count, next, &err), err);
        CHECK(!log_unsynced.names);
        ae_os_set_write_hooks(NULL);
    }
    free(segments);
    ae_log_directory_close(&d);
    for (unsigned i = 0; i < 2; i++) {
        REQUIRE_OK(log_open(dir, options, from, &after, &log, &err), err);
        CHECK_EQ(after, next + i);
        CHECK_OK(log_put_next(log, &err), err);
        ae_log_close(log);
    }
    CHECK_EQ(next, damaged);
}

TEST_ONE_THREAD(a_log_that_is_cut_before_its_damage_goes_on) {
    enum { SMALL = 16 << 10 };
    char dir[128], path[200];
    aether_error err;
    ae_log_options options = log_options(SMALL, AE_LOG_NONE);
    uint8_t payload[LOG_MAX_PAYLOAD];
    log_dir(dir, sizeof dir, "cut-before");
    for (uint64_t damaged = 1; damaged < 12; damaged++) {
        ae_log *log;
        uint64_t next, offset = AE_LOG_HEADER_BYTES;
        log_remove_files(dir);
        REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
        while (log_count_files(dir, ".log") < 3)
            REQUIRE_OK(log_put_next(log, &err), err);
        ae_log_close(log);
        for (uint64_t lsn = 1; lsn < damaged; lsn++)
            offset += ae_log_frame_bytes(log_payload(lsn, payload));
        if (offset >= SMALL - AE_LOG_UNIT)
            break;
        snprintf(path, sizeof path, "%s/%s", dir, first_name);
        uint8_t *bytes = log_read_file(path, SMALL), *aside;
        bytes[offset + 8] ^= 1;
        log_write_file(path, bytes, SMALL);
        cut_and_open(dir, &options, AETHER_E_CORRUPT, damaged);
        CHECK_EQ(log_count_files(dir, ".log.cut-1"), 3);
        snprintf(path, sizeof path, "%s/%s.cut-1", dir, first_name);
        aside = log_read_file(path, SMALL);
        CHECK(memcmp(bytes, aside, SMALL) == 0); /* nothing is lost */
        free(aside);
        free(bytes);
        cut_and_open(dir, &options, AETHER_OK, damaged + 2);
        CHECK_EQ(log_count_files(dir, ".cut-1"), 3);
    }
}

/* Commits 1 to 12, on disk; return the bytes of their segment. */
static uint8_t *twelve(const char *dir, const char *path, const ae_log_options *options) {
    aether_error err;
    ae_log *log;
    uint64_t next;
    log_remove_files(dir);
    CHECK_OK(log_open(dir, options, 1, &next, &log, &err), err);
    for (unsigned i = 0; i < 12; i++)
        CHECK_OK(log_put_next(log, &err), err);
    CHECK_OK(ae_log_flush(log, &err), err);
    ae_log_close(log);
    return log_read_file(path, SEGMENT);
}

/* A file that was cut short, and a header that is damaged. */
TEST(what_cannot_be_read_is_cut) {
    char dir[128], path[200];
    uint8_t payload[LOG_MAX_PAYLOAD];
    ae_log_options options = log_options(SEGMENT, AE_LOG_NONE);
    uint64_t end = AE_LOG_HEADER_BYTES;
    snprintf(path, sizeof path, "%s/%s", log_dir(dir, sizeof dir, "short"), first_name);
    for (uint64_t lsn = 1; lsn <= 5; lsn++)
        end += ae_log_frame_bytes(log_payload(lsn, payload));
    free(twelve(dir, path, &options));
    REQUIRE(truncate(path, (off_t)end + 7) == 0);
    cut_and_open(dir, &options, AETHER_E_TRUNCATED, 6);
    uint8_t *bytes = twelve(dir, path, &options);
    bytes[100] ^= 1;
    log_write_file(path, bytes, SEGMENT);
    cut_and_open(dir, &options, AETHER_E_CORRUPT, 1);
    CHECK_EQ(log_count_files(dir, ".cut-1"), 1);
    free(bytes);
}

/* ---- a reader beside a writer --------------------------------------------------------------- */

typedef struct late {
    log_replay replay;
    const char *path;
    const uint8_t *bytes; /* of the whole segment */
    uint64_t lsn;         /* the commit before the one whose frame comes late */
} late;

/* The segment is in memory by now: its writer goes on. */
static int write_late(void *user, const ae_log_commit *commit, aether_error *err) {
    late *l = user;
    if (commit->lsn == l->lsn)
        log_write_file(l->path, l->bytes, SEGMENT);
    return log_check_commit(&l->replay, commit, err);
}

/* Cleaners and backups take files away by their names: that must not look like a log that ended there. */
TEST_ONE_THREAD(a_log_whose_newest_segment_is_gone_is_no_log_that_ends_before_it) {
    enum { SMALL = 16 << 10, MOST = 3 };
    char dir[128];
    aether_error err;
    ae_log_options options = log_options(SMALL, AE_LOG_NONE);
    log_dir(dir, sizeof dir, "newest-gone");
    for (uint64_t left = 0; left < MOST; left++) {
        ae_log_directory d;
        ae_log *log;
        uint64_t next, count, after, *segments;
        log_remove_files(dir);
        REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
        while (log_count_files(dir, ".log") < MOST)
            REQUIRE_OK(log_put_next(log, &err), err);
        ae_log_close(log);
        REQUIRE_OK(ae_log_directory_open(dir, &d, &err), err);
        REQUIRE_OK(ae_log_list_segments(&d, &segments, &count, &err), err);
        REQUIRE(count == MOST);
        for (uint64_t i = left; i < MOST; i++) {
            char name[64];
            snprintf(name, sizeof name, "wal-%016llx.log", (unsigned long long)segments[i]);
            REQUIRE(unlinkat(d.fd, name, 0) == 0);
        }
        const uint64_t lost = segments[left];
        free(segments);
        CHECK_CODE(log_open(dir, &options, 1, &after, &log, &err), AETHER_E_CORRUPT);
        CHECK_EQ(err.value, lost);
        CHECK_HAS(err.message, "is missing; put it back, or let the log end before commit");
        REQUIRE_OK(ae_log_list_segments(&d, &segments, &count, &err), err);
        CHECK_OK(ae_log_cut(&d, segments, count, lost, &err), err);
        free(segments);
        ae_log_directory_close(&d);
        REQUIRE_OK(log_open(dir, &options, 1, &after, &log, &err), err);
        CHECK_EQ(after, lost);
        CHECK_OK(log_put_next(log, &err), err);
        CHECK_OK(ae_log_flush(log, &err), err);
        ae_log_close(log);
        REQUIRE_OK(log_open(dir, &options, 1, &after, &log, &err), err);
        CHECK_EQ(after, lost + 1);
        CHECK_OK(ae_log_release(log, after, &err), err); /* of what was given up nothing is missed */
        ae_log_close(log);
        CHECK_EQ(log_count_files(dir, ".log"), 0);
        CHECK_OK(log_open(dir, &options, after, &next, &log, &err), err);
        ae_log_close(log);
    }
}

/* A reader may find the end of the log before a frame was written, and behind it what was written later. */
TEST(a_frame_that_is_written_while_its_segment_is_read) {
    enum { LATE = 6 };
    char dir[128], path[200];
    uint8_t payload[LOG_MAX_PAYLOAD];
    aether_error err;
    ae_log_directory d;
    uint64_t *segments, count, next, offset = AE_LOG_HEADER_BYTES;
    ae_log_options options = log_options(SEGMENT, AE_LOG_SYNC);
    snprintf(path, sizeof path, "%s/%s", log_dir(dir, sizeof dir, "late"), first_name);
    uint8_t *bytes = twelve(dir, path, &options), *torn = log_read_file(path, SEGMENT);
    for (uint64_t lsn = 1; lsn < LATE; lsn++)
        offset += ae_log_frame_bytes(log_payload(lsn, payload));
    memset(torn + offset, 0, ae_log_frame_bytes(log_payload(LATE, payload)));
    log_write_file(path, torn, SEGMENT);
    REQUIRE_OK(ae_log_directory_open(dir, &d, &err), err);
    REQUIRE_OK(ae_log_list_segments(&d, &segments, &count, &err), err);
    late l = {{1, 1}, path, bytes, LATE - 1};
    CHECK_OK(ae_log_examine(&d, log_graph, segments, count, 1, write_late, &l, &next, &err), err);
    CHECK_EQ(next, 13);
    CHECK_EQ(l.replay.next, 13);
    log_write_file(path, torn, SEGMENT); /* one that does not come is damage */
    l.replay = (log_replay){1, 1};
    l.lsn = 0;
    CHECK_CODE(ae_log_examine(&d, log_graph, segments, count, 1, write_late, &l, &next, &err),
               AETHER_E_CORRUPT);
    CHECK_EQ(next, LATE);
    free(segments);
    ae_log_directory_close(&d);
    free(torn);
    free(bytes);
}

TEST_MAIN()
