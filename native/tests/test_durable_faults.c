/* Live graphs with a journal when the system fails: errors, full disks, short writes, killed processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "durable_helpers.h"
#include "write_faults.h"

enum { SEED = 5, STEPS = 24, SEGMENT = 16 << 10, MANY_CALLS = 60, STEP = TEST_ONLY_RACES ? 7 : 1 };

static uint64_t *acknowledged; /* steps; seen by the parent when the child is killed */

/* Open, and do steps until all are done. After a failure the graph stays what it was for readers,
 * and refuses changes. */
static void work(const char *dir) {
    const aether_journal_options options = journal_options(SEGMENT, AETHER_SYNC);
    world w = world_make(SEED);
    uint64_t steps, failures = 0;
    aether_error err = {0};
    *acknowledged = 0;
    aether_live *g = world_open(&w, dir, &options, &steps, &err);
    if (!g) {
        CHECK(err.code == AETHER_E_IO || err.code == AETHER_E_DISK_FULL);
        world_free(&w);
        return;
    }
    for (int i = 0; i < STEPS; i++) {
        const int rc = world_step(&w, g, &err);
        if (rc) {
            CHECK_EQ(rc, fault == FAIL_EIO ? AETHER_E_IO : AETHER_E_DISK_FULL);
            CHECK(!failures++ || strstr(err.message, "read-only"));
            if (failures == 1)
                world_check(&w, g);
        }
        CHECK(!rc == !failures); /* one failure, and none works any more */
        *acknowledged = w.steps;
    }
    CHECK(!failures || (aether_live_note(g, 1, "x", 1, &err) && aether_live_begin(g, &err)));
    world_check(&w, g);
    aether_live_close(g);
    world_free(&w);
}

/* What was acknowledged is there; one more step may be. */
static void check_outcome(const char *dir) {
    const aether_journal_options options = journal_options(SEGMENT, AETHER_UNSYNCED);
    world_check_journal(SEED, dir, &options, *acknowledged,
                        *acknowledged < STEPS ? *acknowledged + 1 : STEPS);
}

TEST(a_fault_at_every_call) {
    char dir[128];
    uint64_t here;
    acknowledged = &here;
    log_dir(dir, sizeof dir, "faults");
    for (fault = 0; fault < FAIL_KILL; fault++) {
        bool struck = true;
        unsigned at = 0;
        for (; struck; at += STEP) {
            log_remove_files(dir);
            faults_begin(at);
            work(dir);
            ae_os_set_write_hooks(NULL);
            struck = calls > at;
            CHECK(struck || here == STEPS);
            check_outcome(dir);
        }
        CHECK(at > MANY_CALLS);
    }
}

TEST(a_kill_at_every_call) {
    char dir[128];
    int status = 0;
    unsigned at = 0;
    acknowledged =
        mmap(NULL, sizeof *acknowledged, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(acknowledged != MAP_FAILED);
    fault = FAIL_KILL;
    log_dir(dir, sizeof dir, "kills");
    do {
        log_remove_files(dir);
        faults_begin(at);
        at += STEP;
        const pid_t child = fork();
        if (child == 0) {
            work(dir);
            _exit(atomic_load(&test_failures) ? 1 : 0);
        }
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        ae_os_set_write_hooks(NULL);
        check_outcome(dir);
    } while (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(*acknowledged, STEPS);
    CHECK(at > MANY_CALLS);
    munmap(acknowledged, sizeof *acknowledged);
}

/* ---- a real full disk ------------------------------------------------------------------------- */

/* On a tmpfs of 1 MiB, in a name space of the child's own: commit until it is full, make room, go on. */
static int fill_small_disk(const char *dir) {
    const aether_journal_options options = journal_options(64 << 10, AETHER_BATCH);
    world w = world_make(SEED);
    uint64_t steps;
    aether_error err = {0};
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", dir, "tmpfs", 0, "size=1m") != 0)
        return 77;
    aether_live *g = world_open(&w, dir, &options, &steps, &err);
    if (!g)
        return 1;
    while (world_step(&w, g, &err) == AETHER_OK && w.steps < 2000)
        continue;
    CHECK_EQ(err.code, AETHER_E_DISK_FULL);
    CHECK(w.steps > 10);
    world_check(&w, g);
    CHECK_CODE(aether_live_begin(g, &err), AETHER_E_DISK_FULL);
    CHECK_HAS(err.message, "read-only until merge(), or until it is opened again");
    CHECK_OK(aether_live_flush(g, &err), err); /* what was committed is saved */
    aether_live_close(g);
    CHECK(mount("none", dir, "tmpfs", MS_REMOUNT, "size=4m") == 0);
    g = world_open(&w, dir, &options, &steps, &err);
    if (!g)
        return 2;
    CHECK_EQ(steps, w.steps);
    world_check(&w, g);
    CHECK_OK(world_step(&w, g, &err), err);
    aether_live_close(g);
    world_check_journal(SEED, dir, &options, w.steps, w.steps);
    world_free(&w);
    return atomic_load(&test_failures) ? 3 : 0;
}

TEST(a_full_disk_is_left_alone_until_there_is_room) {
    SKIP_FORK_UNDER_SANITIZERS();
    char dir[128];
    int status = 0;
    log_dir(dir, sizeof dir, "full");
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(fill_small_disk(dir));
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("needs the right to mount a tmpfs");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- a sync that fails while nobody waits for it -------------------------------------------- */

static _Atomic bool failing;
static _Atomic unsigned failed_syncs;

static int sync_may_fail(int fd) {
    if (!atomic_load(&failing))
        return fdatasync(fd);
    atomic_fetch_add(&failed_syncs, 1);
    errno = EIO;
    return -1;
}

TEST(a_batch_that_cannot_be_synced_is_told_to_the_next_commit) {
    static const ae_os_write_hooks hooks = {.fdatasync = sync_may_fail};
    aether_journal_options options = journal_options(1 << 20, AETHER_BATCH);
    char dir[128];
    world w = world_make(SEED);
    uint64_t steps;
    aether_error err = {0};
    options.interval_ms = 1;
    ae_os_set_write_hooks(&hooks);
    aether_live *g = world_open(&w, log_dir(dir, sizeof dir, "batch"), &options, &steps, &err);
    REQUIRE(g != NULL);
    for (int i = 0; i < 5; i++)
        CHECK_OK(world_step(&w, g, &err), err);
    CHECK_OK(aether_live_flush(g, &err), err);
    atomic_store(&failing, true);
    CHECK_OK(world_step(&w, g, &err), err); /* seen, and not on disk */
    for (int i = 0; i < 1000 && !atomic_load(&failed_syncs); i++)
        usleep(10000);
    CHECK_CODE(aether_live_flush(g, &err), AETHER_E_IO);
    CHECK_CODE(world_step(&w, g, &err), AETHER_E_IO);
    CHECK_HAS(err.message, "read-only");
    CHECK_EQ(atomic_load(&failed_syncs), 1); /* never tried again */
    CHECK_EQ(w.steps, 6);
    world_check(&w, g);
    aether_live_close(g);
    CHECK_EQ(atomic_load(&failed_syncs), 1);
    atomic_store(&failing, false);
    ae_os_set_write_hooks(NULL);
    world_check_journal(SEED, dir, &options, 5, 6);
    world_free(&w);
}

TEST_MAIN()
