/* The log when the system fails: errors, full disks, short writes, killed processes, lost power. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "log_helpers.h"
#include "write_faults.h"

enum { SEGMENT = 8 << 10, BEFORE = 5, COMMITS = 40 };

/* ---- a fault at every call ------------------------------------------------------------- */

static int fresh_log(const char *dir) {
    ae_log_options options = log_options(SEGMENT, AE_LOG_NONE);
    aether_error err;
    ae_log *log;
    uint64_t next;
    log_remove_files(dir);
    int rc = log_open(dir, &options, 1, &next, &log, &err);
    for (unsigned i = 0; i < BEFORE && !rc; i++)
        rc = log_put_next(log, &err);
    ae_log_close(log);
    return rc;
}

typedef struct outcome {
    uint64_t acknowledged, attempted; /* the last lsns */
    uint64_t released;                /* commits below it may be gone */
} outcome;

static outcome *shared; /* seen by the parent when the child is killed */

/* Open, commit, release; note what was acknowledged. Nothing may be acknowledged after a failure. */
static void work(const char *dir) {
    ae_log_options options = log_options(SEGMENT, AE_LOG_SYNC);
    aether_error err = {0};
    ae_log *log;
    uint64_t next;
    *shared = (outcome){BEFORE, BEFORE, 1};
    if (log_open(dir, &options, 1, &next, &log, &err)) {
        CHECK((err.code == AETHER_E_IO || err.code == AETHER_E_DISK_FULL) && err.message[0]);
        return;
    }
    CHECK_EQ(next, BEFORE + 1);
    int failed = 0;
    for (unsigned i = 0; i < COMMITS; i++) {
        shared->attempted += !failed;
        int rc = log_put_next(log, &err);
        if (!rc && !failed)
            shared->acknowledged++;
        if (failed) {
            CHECK_EQ(rc, failed); /* until it is opened again */
            CHECK_HAS(err.message, "read-only");
        }
        failed = rc ? rc : failed;
        if (i == COMMITS / 2) {
            shared->released = shared->acknowledged - 2;
            (void)ae_log_release(log, shared->released, &err); /* a failure leaves files, no more */
        }
    }
    CHECK_OK(ae_log_sync(log, shared->acknowledged, &err), err);
    if (ae_log_flush(log, &err)) /* whether or not it fails, it does not sync again */
        CHECK(failed_fd >= 0);
    ae_log_close(log);
}

static void check_outcome(const char *dir) {
    ae_log_options options = log_options(SEGMENT, AE_LOG_SYNC);
    aether_error err;
    ae_log *log;
    uint64_t next;
    REQUIRE_OK(log_open(dir, &options, shared->released, &next, &log, &err), err);
    CHECK(next - 1 >= shared->acknowledged);
    CHECK(next - 1 <= shared->attempted);
    CHECK_OK(log_put_next(log, &err), err); /* and it goes on */
    ae_log_close(log);
    REQUIRE_OK(log_open(dir, &options, shared->released, &next, &log, &err), err);
    ae_log_close(log);
}

static void run_in_child(const char *dir) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        work(dir);
        _exit(atomic_load(&test_failures) ? 1 : 0);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
}

TEST_ONE_THREAD(a_fault_at_every_call) {
    char dir[128];
    log_dir(dir, sizeof dir, "faults");
    shared = aether_buffer_alloc(sizeof *shared, NULL);
    REQUIRE(shared != NULL);
    outcome *lasting = shared;
    for (fault = 0; fault < FAIL_KILL; fault++) {
        bool struck = true;
        for (fail_at = 0; struck; fail_at++) {
            REQUIRE(fresh_log(dir) == 0);
            faults_begin(fail_at);
            work(dir);
            ae_os_set_write_hooks(NULL);
            struck = calls > fail_at;
            CHECK_EQ(syncs_after_failure, 0);
            if (!struck)
                CHECK_EQ(shared->acknowledged, BEFORE + COMMITS);
            check_outcome(dir);
        }
        CHECK(fail_at > 60);
    }
    aether_buffer_free(lasting, sizeof *lasting);
}

TEST_ONE_THREAD(a_kill_at_every_call) {
    char dir[128];
    log_dir(dir, sizeof dir, "kills");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    fault = FAIL_KILL;
    for (fail_at = 0; fail_at < 400; fail_at++) {
        REQUIRE(fresh_log(dir) == 0);
        faults_begin(fail_at);
        run_in_child(dir);
        ae_os_set_write_hooks(NULL);
        check_outcome(dir);
        if (shared->acknowledged == BEFORE + COMMITS)
            break;
    }
    CHECK(fail_at > 60 && fail_at < 400);
    munmap(shared, sizeof *shared);
}

/* ---- a forked child ---------------------------------------------------------------------- */

TEST_ONE_THREAD(a_forked_child_can_only_close) {
    char dir[128];
    ae_log_options options = log_options(SEGMENT, AE_LOG_SYNC);
    aether_error err;
    ae_log *log;
    uint64_t next, lsn;
    int status;
    REQUIRE_OK(log_open(log_dir(dir, sizeof dir, "fork"), &options, 1, &next, &log, &err), err);
    CHECK_OK(log_put_next(log, &err), err);
    pid_t child = fork();
    if (child == 0) {
        bool refused = ae_log_put(log, "x", 1, 1, &lsn, &err) == AETHER_E_INVALID &&
                       ae_log_append(log, "x", 1, 1, &lsn, &err) == AETHER_E_INVALID &&
                       ae_log_sync(log, 1, &err) == AETHER_E_INVALID &&
                       ae_log_flush(log, &err) == AETHER_E_INVALID &&
                       ae_log_release(log, 1, &err) == AETHER_E_INVALID;
        ae_log_close(log);
        _exit(refused ? 0 : 1);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_OK(log_put_next(log, &err), err);
    ae_log_close(log);
}

/* ---- lost power ---------------------------------------------------------------------------- */

/* A disk below the page cache: of every sector that was written and not synced, what it held before. A
 * sync that fails makes the cache believe that all is on disk, as the kernel does: only writing a sector
 * again lets a later sync save it. Renames and sizes are taken to be on disk at once. */
enum { SECTOR = 512, MAX_SECTORS = 4096, MAX_FILES = 256 };

typedef struct pending {
    int file; /* descriptor of our own */
    off_t offset;
    bool dropped; /* by a sync that failed */
    uint8_t before[SECTOR];
} pending;

static pending pendings[MAX_SECTORS];
static unsigned num_pending;
static struct {
    ino_t inode;
    int fd;
} files[MAX_FILES];
static unsigned num_files;
static uint64_t power_state;
static unsigned writes_left, syncs_left; /* until writes, or a sync, fail */

static int own_descriptor(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        abort();
    for (unsigned i = 0; i < num_files; i++)
        if (files[i].inode == st.st_ino)
            return files[i].fd;
    if (num_files == MAX_FILES)
        abort();
    files[num_files].inode = st.st_ino;
    files[num_files].fd = dup(fd);
    return files[num_files++].fd;
}

static pending *find_pending(int file, off_t offset) {
    for (unsigned i = 0; i < num_pending; i++)
        if (pendings[i].file == file && pendings[i].offset == offset)
            return &pendings[i];
    return NULL;
}

static ssize_t power_pwrite(int fd, const void *data, size_t size, off_t offset) {
    if (writes_left == 0) {
        errno = EIO;
        return -1;
    }
    writes_left--;
    int file = own_descriptor(fd);
    for (off_t at = offset; at < offset + (off_t)size; at += SECTOR) {
        pending *p = find_pending(file, at);
        if (!p) {
            if (num_pending == MAX_SECTORS)
                abort();
            p = &pendings[num_pending++];
            *p = (pending){.file = file, .offset = at};
            if (pread(fd, p->before, SECTOR, at) < 0)
                abort();
        }
        p->dropped = false;
    }
    return pwrite(fd, data, size, offset);
}

static int power_sync(int fd) {
    bool fails = syncs_left == 0 || writes_left == 0;
    syncs_left -= syncs_left > 0;
    int file = own_descriptor(fd);
    unsigned kept = 0;
    for (unsigned i = 0; i < num_pending; i++) {
        pending p = pendings[i];
        if (p.file == file && fails)
            p.dropped = true;
        if (p.file != file || p.dropped)
            pendings[kept++] = p;
    }
    num_pending = kept;
    errno = EIO;
    return fails ? -1 : 0;
}

/* Directories have no sectors here. */
static int power_fsync(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : power_sync(fd);
}

static const ae_os_write_hooks powered = {
    .pwrite = power_pwrite, .fsync = power_fsync, .fdatasync = power_sync};

/* Any of the sectors that were not synced is lost. */
static void lose_power(void) {
    for (unsigned i = 0; i < num_pending; i++)
        if (test_random(&power_state) % 2 &&
            pwrite(pendings[i].file, pendings[i].before, SECTOR, pendings[i].offset) != SECTOR)
            abort();
    num_pending = 0;
    for (unsigned i = 0; i < num_files; i++)
        close(files[i].fd);
    num_files = 0;
}

/* Open, commit and sync until something fails or enough was done. Return the last lsn that was said
 * to be on disk. */
static uint64_t commit_until_failure(const char *dir, ae_log_durability durability, uint64_t synced,
                                     uint64_t *last) {
    ae_log_options options = log_options(16 << 10, durability);
    aether_error err;
    ae_log *log;
    uint64_t next;
    if (log_open(dir, &options, 1, &next, &log, &err)) {
        CHECK_EQ(err.code, AETHER_E_IO);
        return synced;
    }
    CHECK(next - 1 >= synced && next - 1 <= *last);
    synced = *last = next - 1; /* what an open shows is on disk */
    for (unsigned i = 0; i < 30; i++) {
        int rc = log_put_next(log, &err);
        *last += 1;
        if (rc)
            break;
        if (durability == AE_LOG_SYNC)
            synced = *last;
        else if (test_random(&power_state) % 4 == 0 && ae_log_flush(log, &err) == AETHER_OK)
            synced = *last;
    }
    ae_log_close(log);
    return synced;
}

TEST_ONE_THREAD(lost_power) {
    static const ae_log_durability durabilities[] = {AE_LOG_SYNC, AE_LOG_NONE};
    char dir[128];
    unsigned lost = 0;
    log_dir(dir, sizeof dir, "power");
    for (unsigned round = 0; round < 400; round++) {
        uint64_t synced = 0, last = 0;
        power_state = round;
        ae_os_set_write_hooks(&powered);
        for (unsigned life = 0; life < 5; life++) {
            writes_left = 1 + (unsigned)(test_random(&power_state) % 60);
            syncs_left = (unsigned)(test_random(&power_state) % 40);
            synced = commit_until_failure(dir, durabilities[round % 2], synced, &last);
            if (test_random(&power_state) % 2) /* else only the process ends */
                lose_power();
        }
        lose_power();
        ae_os_set_write_hooks(NULL);
        ae_log_options options = log_options(16 << 10, AE_LOG_SYNC);
        aether_error err;
        ae_log *log;
        uint64_t next;
        REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
        CHECK(next - 1 >= synced && next - 1 <= last);
        lost += next - 1 < last;
        ae_log_close(log);
        log_remove_files(dir);
    }
    CHECK(lost > 100); /* the test does lose something */
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Here renames are not on disk at once: whoever returns has synced the directory. */
TEST_ONE_THREAD(names_are_on_disk_before_what_needs_them) {
    char dir[128];
    ae_log_options options = log_options(16 << 10, AE_LOG_SYNC);
    aether_error err;
    ae_log *log;
    uint64_t next;
    ae_os_set_write_hooks(&log_notes_syncs);
    REQUIRE_OK(log_open(log_dir(dir, sizeof dir, "names"), &options, 1, &next, &log, &err), err);
    while (log_count_files(dir, ".log") < 3) {
        REQUIRE_OK(log_put_next(log, &err), err);
        CHECK(!log_unsynced.names);
    }
    CHECK_OK(ae_log_release(log, ae_log_next(log), &err), err);
    CHECK(!log_unsynced.names);
    CHECK_EQ(log_unsynced.renames, 8); /* three segments, each noted as the newest; two that were given up */
    ae_log_close(log);
    ae_os_set_write_hooks(NULL);
}

/* ---- a sync that is interrupted ----------------------------------------------------------- */

static unsigned interrupted;

static int interrupt_once(int fd) {
    if (interrupted++ % 2)
        return fdatasync(fd);
    errno = EINTR;
    return -1;
}

/* Some file systems of user space let a signal end it. */
TEST_ONE_THREAD(an_interrupted_sync_is_made_again) {
    ae_log_options options = log_options(SEGMENT, AE_LOG_SYNC);
    char dir[128];
    aether_error err;
    ae_log *log;
    uint64_t next;
    ae_os_set_write_hooks(&(ae_os_write_hooks){.fsync = interrupt_once, .fdatasync = interrupt_once});
    REQUIRE_OK(log_open(log_dir(dir, sizeof dir, "eintr"), &options, 1, &next, &log, &err), err);
    for (unsigned i = 0; i < COMMITS; i++)
        CHECK_OK(log_put_next(log, &err), err);
    ae_log_close(log);
    ae_os_set_write_hooks(NULL);
    CHECK(interrupted > 2 * COMMITS);
    CHECK(log_count_files(dir, ".log") > 2);
}

/* ---- a directory that cannot be listed to its end ---------------------------------------- */

static unsigned entries_left = UINT_MAX;

/* In front of the system's. */
struct dirent *readdir(DIR *entries) {
    struct dirent *(*next)(DIR *) = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
    if (entries_left == 0) {
        errno = EIO;
        return NULL;
    }
    entries_left -= entries_left != UINT_MAX;
    return next(entries);
}

/* Segments that were not listed would be taken for none, and overwritten. */
TEST_ONE_THREAD(half_listed) {
    ae_log_options options = log_options(SEGMENT, AE_LOG_NONE);
    char dir[128];
    aether_error err;
    ae_log *log;
    uint64_t next;
    log_dir(dir, sizeof dir, "listed");
    REQUIRE(fresh_log(dir) == 0);
    REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
    for (unsigned i = 0; i < COMMITS; i++)
        CHECK_OK(log_put_next(log, &err), err);
    ae_log_close(log);
    const unsigned entries = log_count_files(dir, "");
    CHECK(log_count_files(dir, ".log") > 2);
    for (unsigned n = 0; n <= entries; n++) {
        entries_left = n;
        CHECK_EQ(log_open(dir, &options, 1, &next, &log, &err), AETHER_E_IO);
        entries_left = UINT_MAX;
        CHECK_HAS(err.message, "cannot list the log's directory");
    }
    REQUIRE_OK(log_open(dir, &options, 1, &next, &log, &err), err);
    CHECK_EQ(next, BEFORE + COMMITS + 1);
    ae_log_close(log);
}

TEST_MAIN()
