/* Several batches in flight; threads that share a file; fork; threads that end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>

#include "io_file.h"

#if defined(__SANITIZE_THREAD__)
/* A forked child of a threaded program starts threads here, on purpose. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "die_after_fork=0";
}
#endif

enum { FILE_SIZE = 3 << 20, BATCHES = 12, THREADS = 6 };

static char path[128];
static int fault_at;

static void make_file(void) {
    if (!path[0])
        io_make(test_path(path, sizeof path, "queue.bin"), FILE_SIZE);
}

static unsigned entries(const char *folder) {
    unsigned n = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static unsigned open_descriptors(void) {
    return entries("/proc/self/fd");
}

/* ---- batches ------------------------------------------------------------------------- */

static aether_io *files[2]; /* a file per batch, in turn: one past the page cache */
static io_ranges ranges[BATCHES];
static ae_io_batch batches[BATCHES];

static void open_both(uint32_t tier) {
    aether_error err;
    for (uint32_t direct = 0; direct < 2; direct++) {
        aether_io_options o = {.tier = tier, .direct = direct, .depth = direct ? 8 : 0};
        files[direct] = NULL;
        CHECK_OK(aether_io_open(path, &o, &files[direct], &err), err);
    }
    for (unsigned i = 0; i < BATCHES; i++) {
        ranges[i] = io_random(FILE_SIZE, 30 * i, 5000, i);
        batches[i] = (ae_io_batch){.io = files[i % 2],
                                   .requests = ranges[i].requests,
                                   .num_requests = ranges[i].n,
                                   .user = &ranges[i]};
    }
}

static void close_both(void) {
    for (unsigned i = 0; i < BATCHES; i++)
        io_free(&ranges[i]);
    aether_io_close(files[0]);
    aether_io_close(files[1]);
}

#define FOR_EACH_TIER(tier)                                                                                  \
    for (uint32_t tier = AETHER_IO_URING; tier <= AETHER_IO_PREAD; tier++)                                   \
        if (aether_io_probe(tier, NULL) == AETHER_OK)

TEST(batches_in_flight_together) {
    aether_error err;
    make_file();
    FOR_EACH_TIER(tier) {
        ae_io_queue *q;
        REQUIRE_OK(ae_io_queue_create(ae_io_tier(tier), &q, &err), err);
        CHECK(ae_io_reap(q, true) == NULL);
        open_both(tier);
        for (unsigned i = 0; i < BATCHES; i++)
            CHECK_OK(ae_io_submit(q, &batches[i], &err), err);
        unsigned seen = 0;
        for (ae_io_batch *b; (b = ae_io_reap(q, true)); seen++) {
            CHECK_EQ(b->rc, AETHER_OK);
            CHECK(b >= batches && b < batches + BATCHES);
            io_check(b->user);
            memset(((io_ranges *)b->user)->memory, 0xEE, ((io_ranges *)b->user)->size);
            if (seen < 5) /* a batch may be submitted again at once */
                CHECK_OK(ae_io_submit(q, b, &err), err);
        }
        CHECK_EQ(seen, BATCHES + 5);
        CHECK(ae_io_reap(q, true) == NULL);
        ae_io_queue_destroy(q);
        close_both();
    }
}

TEST(reaping_without_waiting) {
    aether_error err;
    make_file();
    FOR_EACH_TIER(tier) {
        ae_io_queue *q;
        REQUIRE_OK(ae_io_queue_create(ae_io_tier(tier), &q, &err), err);
        open_both(tier);
        CHECK_OK(ae_io_submit(q, &batches[9], &err), err);
        ae_io_batch *b = NULL;
        for (unsigned i = 0; i < 5000 && !b; i++) {
            b = ae_io_reap(q, false);
            usleep(1000);
        }
        CHECK(b == &batches[9]);
        io_check(&ranges[9]);
        ae_io_queue_destroy(q);
        close_both();
    }
}

static int32_t fail_one(uint64_t at, int32_t result) {
    (void)at;
    return fault_at-- == 0 ? -EIO : result;
}

/* A batch that fails does not touch the others. */
TEST(one_batch_fails) {
    aether_error err;
    make_file();
    FOR_EACH_TIER(tier) {
        ae_io_queue *q;
        REQUIRE_OK(ae_io_queue_create(ae_io_tier(tier), &q, &err), err);
        open_both(tier);
        fault_at = 400;
        ae_io_set_hooks(&(ae_io_hooks){.result = fail_one});
        for (unsigned i = 0; i < BATCHES; i++)
            CHECK_OK(ae_io_submit(q, &batches[i], &err), err);
        unsigned failed = 0, seen = 0;
        for (ae_io_batch *b; (b = ae_io_reap(q, true)); seen++) {
            failed += b->rc != AETHER_OK;
            if (b->rc)
                CHECK_EQ(b->error.os_errno, EIO);
            else
                io_check(b->user);
        }
        ae_io_set_hooks(NULL);
        CHECK_EQ(seen, BATCHES);
        CHECK_EQ(failed, 1);
        ae_io_queue_destroy(q);
        close_both();
    }
}

TEST(a_queue_destroyed_in_flight_waits) {
    aether_error err;
    make_file();
    FOR_EACH_TIER(tier) {
        ae_io_queue *q;
        REQUIRE_OK(ae_io_queue_create(ae_io_tier(tier), &q, &err), err);
        open_both(tier);
        for (unsigned i = 0; i < BATCHES; i++)
            CHECK_OK(ae_io_submit(q, &batches[i], &err), err);
        ae_io_queue_destroy(q);
        close_both(); /* frees the buffers: nothing may be written any more */
    }
}

/* ---- threads ------------------------------------------------------------------------- */

static aether_io *shared;

static void *read_much(void *arg) {
    aether_error err;
    for (uint64_t round = 0; round < 10; round++) {
        io_ranges r = io_random(FILE_SIZE, 200, 6000, round * THREADS + (uint64_t)(uintptr_t)arg);
        CHECK_OK(aether_io_read(shared, r.requests, r.n, NULL, &err), err);
        io_check(&r);
        io_free(&r);
    }
    return NULL;
}

static void read_in_threads(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, read_much, (void *)i) != 0)
            abort();
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

TEST(threads_share_a_file) {
    aether_error err;
    make_file();
    FOR_EACH_MODE(mode) {
        REQUIRE_OK(aether_io_open(path, mode, &shared, &err), err);
        unsigned before = open_descriptors();
        read_in_threads();
        aether_io_stats s;
        aether_io_count(shared, &s);
        CHECK_EQ(s.requests, THREADS * 10 * 200);
        CHECK_EQ(open_descriptors(), before); /* their rings have ended with them */
        aether_io_close(shared);
    }
}

/* ---- a task's poll() that reads ------------------------------------------------------ */

static aether_task within_task;
static unsigned reads_within;

/* As a signal's handler may. */
static int32_t read_within(void) {
    aether_error err;
    io_ranges r = io_random(FILE_SIZE, 20, 6000, ++reads_within);
    CHECK_OK(aether_io_read(shared, r.requests, r.n, NULL, &err), err);
    io_check(&r);
    io_free(&r);
    within_task.next_poll = 0; /* at the next look again */
    return 0;
}

TEST(a_read_within_a_read) {
    aether_error err;
    make_file();
    FOR_EACH_MODE(mode) {
        REQUIRE_OK(aether_io_open(path, mode, &shared, &err), err);
        io_ranges r = io_random(FILE_SIZE, 2000, 6000, 1);
        within_task = (aether_task){.poll = read_within};
        reads_within = 0;
        CHECK_OK(aether_io_read(shared, r.requests, r.n, &within_task, &err), err);
        io_check(&r);
        io_free(&r);
        CHECK(reads_within > 4);
        aether_io_close(shared);
    }
}

/* ---- fork ---------------------------------------------------------------------------- */

static bool reads_right(aether_io *io) {
    aether_error err;
    io_ranges r = io_random(FILE_SIZE, 300, 6000, 77);
    bool right = aether_io_read(io, r.requests, r.n, NULL, &err) == AETHER_OK;
    for (uint64_t i = 0; right && i < r.n; i++)
        right = io_right(r.requests[i].buffer, r.requests[i].offset, r.requests[i].length);
    io_free(&r);
    return right;
}

static int status_of(pid_t child) {
    int status = -1;
    for (int i = 0; i < 3000; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        usleep(10000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

TEST(parent_and_child_read_on) {
    SKIP_FORK_UNDER_SANITIZERS();
    aether_error err;
    make_file();
    FOR_EACH_MODE(mode) {
        aether_io *io;
        REQUIRE_OK(aether_io_open(path, mode, &io, &err), err);
        CHECK(reads_right(io)); /* this thread's ring exists before the fork */
        pid_t child = fork();
        if (child == 0) {
            bool right = true;
            for (int i = 0; i < 5; i++)
                right = right && reads_right(io);
            if (mode->tier == AETHER_IO_PREAD) /* its threads are its own: ".", "..", this one, more */
                right = right && entries("/proc/self/task") > 3;
            _exit(right ? 0 : 1);
        }
        for (int i = 0; i < 5; i++)
            CHECK(reads_right(io));
        CHECK_EQ(status_of(child), 0);
        CHECK(reads_right(io));
        aether_io_close(io);
    }
}

/* The child lets go of a queue with reads in flight; the parent's come back. */
TEST(a_child_cannot_use_the_parents_queue) {
    SKIP_FORK_UNDER_SANITIZERS();
    aether_error err;
    make_file();
    FOR_EACH_TIER(tier) {
        ae_io_queue *q;
        REQUIRE_OK(ae_io_queue_create(ae_io_tier(tier), &q, &err), err);
        open_both(tier);
        CHECK_OK(ae_io_submit(q, &batches[11], &err), err);
        pid_t child = fork();
        if (child == 0) {
            bool right = ae_io_queue_inherited(q) && ae_io_submit(q, &batches[1], &err) == AETHER_E_INVALID &&
                         !ae_io_reap(q, true);
            ae_io_queue_destroy(q);
            _exit(right ? 0 : 1);
        }
        CHECK_EQ(status_of(child), 0);
        CHECK_OK(ae_io_submit(q, &batches[10], &err), err);
        for (unsigned i = 0; i < 2; i++) {
            ae_io_batch *b = ae_io_reap(q, true);
            REQUIRE(b != NULL);
            CHECK_EQ(b->rc, AETHER_OK);
            io_check(b->user);
        }
        ae_io_queue_destroy(q);
        close_both();
    }
}

static void *fork_often(void *arg) {
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(reads_right(shared) ? 0 : 1);
        CHECK_EQ(status_of(child), 0);
    }
    return arg;
}

TEST(fork_beside_threads_that_read) {
    SKIP_FORK_UNDER_SANITIZERS();
    aether_error err;
    make_file();
    FOR_EACH_MODE(mode) {
        pthread_t forker;
        REQUIRE_OK(aether_io_open(path, mode, &shared, &err), err);
        REQUIRE(pthread_create(&forker, NULL, fork_often, NULL) == 0);
        read_in_threads();
        pthread_join(forker, NULL);
        aether_io_close(shared);
    }
}

TEST_MAIN()
