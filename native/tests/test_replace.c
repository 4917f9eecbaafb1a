/* Atomic replacement: full disks, interrupted calls, crashes at any moment. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "os/replace.h"
#include "os/write.h"
#include "test.h"

/* ---- helpers ---------------------------------------------------------------- */

enum { OLD_SIZE = 6000, NEW_SIZE = 5 << 20 };

/* What the array holds, made once. */
static const uint8_t *content_of(char which) {
    static uint8_t contents[2][NEW_SIZE];
    uint8_t *content = contents[which == 'n'];
    if (content[1] == 0) /* it will be 31 or 57 */
        for (size_t i = 0; i < NEW_SIZE; i++)
            content[i] = (uint8_t)((which == 'o' ? 31 : 57) * i + (i >> 11));
    return content;
}

/* A feature file with one array; 'o' is the old content, 'n' the new one. */
static int save(const char *path, char which, aether_error *err) {
    size_t size = which == 'o' ? OLD_SIZE : NEW_SIZE;
    aether_writer *w;
    int rc = aether_writer_create(path, AETHER_CONTENT_FEATURES, &w, err);
    if (!rc) {
        rc = aether_writer_begin(w, AETHER_SECTION_ARRAY, 0, AETHER_U8, err);
        rc = rc ? rc : aether_writer_append(w, content_of(which), size, NULL, err);
        rc = rc ? rc : aether_writer_end(w, err);
        if (rc)
            aether_writer_abort(w);
        else
            rc = aether_writer_commit(w, err);
    }
    return rc;
}

/* 'o', 'n', or 0 if the file is neither. */
static char which_is(const char *path) {
    aether_error err;
    aether_file *file;
    if (aether_file_open(path, &file, &err) != AETHER_OK)
        return 0;
    aether_section s = {0};
    char which = 0;
    if (aether_file_verify(file, NULL, &err) == AETHER_OK &&
        aether_file_section(file, 0, &s, &err) == AETHER_OK)
        which = s.size == OLD_SIZE ? 'o' : s.size == NEW_SIZE ? 'n' : 0;
    const uint8_t *data = aether_file_data(file, 0);
    if (which && memcmp(data, content_of(which), s.size) != 0)
        which = 0;
    aether_file_close(file);
    return which;
}

/* Temporaries beside `path`, removed if `clean`; other strangers count as 1000. */
static unsigned leftovers(const char *dir, const char *name, bool clean) {
    unsigned found = 0;
    char prefix[256];
    snprintf(prefix, sizeof prefix, ".%s.", name);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strcmp(e->d_name, name) == 0)
            continue;
        size_t length = strlen(e->d_name), suffix = strlen(AE_REPLACE_SUFFIX);
        bool ours = strncmp(e->d_name, prefix, strlen(prefix)) == 0 && length > suffix &&
                    strcmp(e->d_name + length - suffix, AE_REPLACE_SUFFIX) == 0;
        found += ours ? 1 : 1000;
        if (clean && ours)
            unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
    return found;
}

static char dir[128], path[160];

static void fresh_dir(const char *name) {
    test_path(dir, sizeof dir, name);
    mkdir(dir, 0700);
    snprintf(path, sizeof path, "%s/a.bin", dir);
}

/* ---- hooks -------------------------------------------------------------------- */

static int calls;   /* system calls made through the hooks */
static int fail_at; /* this one fails with fail_errno (or kills, if that is 0) */
static int fail_errno;
static bool rename_failed;

static bool strike(void) {
    if (calls++ != fail_at)
        return false;
    if (fail_errno == 0)
        kill(getpid(), SIGKILL);
    errno = fail_errno;
    return true;
}

static int hook_open(int at, const char *name, int flags, mode_t mode) {
    return strike() ? -1 : openat(at, name, flags, mode);
}

static ssize_t hook_pwrite(int fd, const void *data, size_t size, off_t offset) {
    if (!strike())
        return pwrite(fd, data, size, offset);
    int saved = errno;
    if (pwrite(fd, data, size / 2, offset) < 0) /* a disk that fills up takes a part */
        abort();
    errno = saved;
    return -1;
}

static int hook_fsync(int fd) {
    return strike() ? -1 : fsync(fd);
}

static int hook_rename(int at, const char *from, const char *to) {
    rename_failed = strike();
    return rename_failed ? -1 : renameat(at, from, at, to);
}

static void use_hooks(int at, int error) {
    static const ae_os_write_hooks hooks = {
        .open = hook_open, .pwrite = hook_pwrite, .fsync = hook_fsync, .rename = hook_rename};
    calls = 0;
    fail_at = at;
    fail_errno = error;
    rename_failed = false;
    ae_os_set_write_hooks(&hooks);
}

/* ---- tests -------------------------------------------------------------------- */

TEST_ONE_THREAD(replaces_and_leaves_nothing_else) {
    aether_error err;
    fresh_dir("plain");
    REQUIRE_OK(save(path, 'o', &err), err);
    CHECK_EQ(which_is(path), 'o');
    REQUIRE_OK(save(path, 'n', &err), err);
    CHECK_EQ(which_is(path), 'n');
    CHECK_EQ(leftovers(dir, "a.bin", false), 0);
}

/* Every system call of a save fails once, in turn: the old file stays, no
 * temporary does, the error names file and reason. */
TEST_ONE_THREAD(any_failing_call_keeps_the_old_file) {
    static const int errors[] = {ENOSPC, EIO, EDQUOT};
    aether_error err;
    fresh_dir("failing");
    REQUIRE_OK(save(path, 'o', &err), err);
    for (unsigned k = 0; k < 3; k++) {
        int at = 0, rc;
        for (;; at++) {
            use_hooks(at, errors[k]);
            rc = save(path, 'n', &err);
            ae_os_set_write_hooks(NULL);
            if (calls <= at) /* went through without reaching the failure */
                break;
            CHECK_EQ(rc, errors[k] == EIO ? AETHER_E_IO : AETHER_E_DISK_FULL);
            CHECK_EQ(err.os_errno, errors[k]);
            CHECK_HAS(err.message, "a.bin");
            CHECK_HAS(err.message, strerror(errors[k]));
            CHECK_EQ(leftovers(dir, "a.bin", true), 0);
            if (which_is(path) == 'n') /* only the directory's sync comes after the rename */
                CHECK_HAS(err.message, "in place");
            else
                CHECK_EQ(which_is(path), 'o');
            REQUIRE_OK(save(path, 'o', &err), err);
        }
        CHECK_EQ(rc, AETHER_OK);
        CHECK(at >= 7); /* open, 2 blocks, table, header, fsync, rename, fsync */
        REQUIRE_OK(save(path, 'o', &err), err);
    }
}

TEST_ONE_THREAD(interrupted_calls_are_repeated) {
    aether_error err;
    fresh_dir("interrupted");
    for (int at = 0; at < 9; at++) {
        use_hooks(at, EINTR);
        int rc = save(path, 'n', &err);
        ae_os_set_write_hooks(NULL);
        if (!rename_failed) { /* rename() is not interruptible: the hook's EINTR is an error */
            CHECK_OK(rc, err);
            CHECK_EQ(which_is(path), 'n');
        }
        unlink(path);
        CHECK_EQ(leftovers(dir, "a.bin", true), 0);
    }
}

static ssize_t short_pwrite(int fd, const void *data, size_t size, off_t offset) {
    return pwrite(fd, data, size > 65537 ? 65537 : size > 1 ? size - 1 : size, offset);
}

TEST_ONE_THREAD(short_writes_are_continued) {
    aether_error err;
    fresh_dir("short");
    ae_os_set_write_hooks(&(ae_os_write_hooks){.pwrite = short_pwrite});
    int rc = save(path, 'n', &err);
    ae_os_set_write_hooks(NULL);
    CHECK_OK(rc, err);
    CHECK_EQ(which_is(path), 'n');
}

/* What a power failure would lose now: bytes of the new file, and its name. */
static bool bytes_unsynced, name_unsynced;
static unsigned renames;

static ssize_t noting_pwrite(int fd, const void *data, size_t size, off_t offset) {
    bytes_unsynced = true;
    return pwrite(fd, data, size, offset);
}

static int noting_fsync(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        abort();
    *(S_ISDIR(st.st_mode) ? &name_unsynced : &bytes_unsynced) = false;
    return 0;
}

static int noting_rename(int at, const char *from, const char *to) {
    CHECK(!bytes_unsynced);
    name_unsynced = true;
    renames++;
    return renameat(at, from, at, to);
}

TEST_ONE_THREAD(all_is_on_disk_before_the_name_and_then_the_name_is) {
    aether_error err;
    aether_replace *r;
    fresh_dir("synced");
    ae_os_set_write_hooks(
        &(ae_os_write_hooks){.pwrite = noting_pwrite, .fsync = noting_fsync, .rename = noting_rename});
    CHECK_OK(save(path, 'n', &err), err);
    CHECK(!name_unsynced);
    REQUIRE_OK(aether_replace_begin(path, &r, &err), err);
    CHECK_OK(aether_replace_write(r, "abc", 3, 0, &err), err);
    CHECK_OK(aether_replace_sync(r, &err), err);
    CHECK(!bytes_unsynced);
    CHECK_OK(aether_replace_write(r, "def", 3, 3, &err), err); /* behind a sync */
    CHECK_OK(aether_replace_commit(r, &err), err);
    CHECK(!name_unsynced);
    ae_os_set_write_hooks(NULL);
    CHECK_EQ(renames, 2);
}

static ssize_t zero_pwrite(int fd, const void *data, size_t size, off_t offset) {
    (void)fd, (void)data, (void)size, (void)offset;
    return 0;
}

TEST_ONE_THREAD(writes_of_nothing_end) {
    aether_error err;
    fresh_dir("zero");
    ae_os_set_write_hooks(&(ae_os_write_hooks){.pwrite = zero_pwrite});
    int rc = save(path, 'n', &err);
    ae_os_set_write_hooks(NULL);
    CHECK_EQ(rc, AETHER_E_IO);
    CHECK_EQ(leftovers(dir, "a.bin", true), 0);
    CHECK(access(path, F_OK) != 0);
}

/* SIGKILL before every system call of a save, in a child. */
TEST_ONE_THREAD(a_crash_at_any_moment_leaves_one_whole_file) {
    aether_error err;
    fresh_dir("crash");
    REQUIRE_OK(save(path, 'o', &err), err);
    bool finished = false;
    unsigned old = 0, new = 0;
    for (int at = 0; !finished && at < 100; at++) {
        fflush(stdout);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            use_hooks(at, 0);
            _exit(save(path, 'n', &err) ? 1 : 0);
        }
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        finished = WIFEXITED(status);
        CHECK(finished ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
        char which = which_is(path);
        old += which == 'o';
        new += which == 'n';
        CHECK(which == 'o' || which == 'n');
        CHECK(leftovers(dir, "a.bin", true) <= 1);
        if (which == 'n')
            REQUIRE_OK(save(path, 'o', &err), err);
    }
    CHECK(finished);
    CHECK(old >= 6);
    CHECK(new >= 2); /* killed before the directory's sync; and not killed */
}

/* The same at moments that no system call marks. */
TEST_ONE_THREAD(a_crash_by_the_clock_leaves_one_whole_file) {
    aether_error err;
    uint64_t state = 7;
    fresh_dir("clock");
    REQUIRE_OK(save(path, 'o', &err), err);
    for (int round = 0; round < 25; round++) {
        fflush(stdout);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            for (;;)
                if (save(path, 'n', &err) || save(path, 'o', &err))
                    _exit(1);
        }
        usleep((useconds_t)(test_random(&state) % 30000));
        kill(child, SIGKILL);
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status));
        CHECK(which_is(path) != 0);
        CHECK(leftovers(dir, "a.bin", true) <= 1);
    }
}

/* ---- what dead writers leave ------------------------------------------------------ */

/* A writer of a child, which has put a whole file into its temporary and waits to be killed. */
static pid_t hang_before_rename(int *ready) {
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        aether_replace *r;
        aether_error err;
        if (aether_replace_begin(path, &r, &err) == AETHER_OK && write(ends[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(ends[1]);
    char byte;
    *ready = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Only of dead writers, only of this target. */
TEST_ONE_THREAD(the_next_writer_removes_what_dead_ones_left) {
    aether_error err;
    aether_replace *r;
    int ready[3];
    char name[320];
    fresh_dir("stale");
    pid_t dead = hang_before_rename(&ready[0]), other = hang_before_rename(&ready[1]);
    REQUIRE(ready[0] && ready[1]);
    end(dead);
    CHECK_EQ(leftovers(dir, "a.bin", false), 2); /* the second has removed none: the first lived then */
    end(other);
    pid_t living = hang_before_rename(&ready[2]);
    REQUIRE(ready[2]);
    CHECK_EQ(leftovers(dir, "a.bin", false), 1);
    /* names that are nearly those of temporaries */
    static const char *const strangers[] = {
        ".a.bin.0123456789abcde.aether-tmp", ".a.bin.0123456789abcdeg.aether-tmp",
        ".b.bin.0123456789abcdef.aether-tmp", ".a.bin.0123456789abcdef.other-tmp"};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s/%s", dir, strangers[i]);
        REQUIRE(close(open(name, O_CREAT | O_WRONLY, 0600)) == 0);
    }
    snprintf(name, sizeof name, "%s/.a.bin.0123456789abcdef.aether-tmp", dir);
    REQUIRE(symlink("/etc/hostname", name) == 0);
    REQUIRE_OK(aether_replace_begin(path, &r, &err), err);
    CHECK_OK(aether_replace_write(r, "new", 3, 0, &err), err);
    CHECK_OK(aether_replace_commit(r, &err), err);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s/%s", dir, strangers[i]);
        CHECK(unlink(name) == 0);
    }
    CHECK_EQ(leftovers(dir, "a.bin", false), 2); /* of the living writer, and the link */
    end(living);
    REQUIRE_OK(aether_replace_begin(path, &r, &err), err);
    aether_replace_abort(r);
    CHECK_EQ(leftovers(dir, "a.bin", true), 1); /* the link */
}

/* Writers that begin, commit and die at once: each commit is whole, and at last nothing is left. */
TEST_ONE_THREAD(writers_of_one_file_do_not_disturb_each_other) {
    aether_error err;
    uint64_t state = 3;
    fresh_dir("many");
    pid_t children[6];
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 6; i++) {
            fflush(stdout);
            children[i] = fork();
            REQUIRE(children[i] >= 0);
            if (children[i] == 0) {
                for (int k = 0; k < 40; k++)
                    if (save(path, i % 2 ? 'n' : 'o', &err) != AETHER_OK)
                        _exit(1);
                _exit(0);
            }
        }
        usleep((useconds_t)(test_random(&state) % 100000));
        for (int i = 0; i < 3; i++)
            kill(children[i], SIGKILL);
        for (int i = 0; i < 6; i++) {
            int status;
            REQUIRE(waitpid(children[i], &status, 0) == children[i]);
            CHECK(WIFSIGNALED(status) ? i < 3 : WEXITSTATUS(status) == 0);
        }
        CHECK(which_is(path) != 0);
        REQUIRE_OK(save(path, 'o', &err), err);
        CHECK_EQ(leftovers(dir, "a.bin", false), 0);
    }
}

static int hook_rename_never(int at, const char *from, const char *to) {
    (void)at, (void)from, (void)to;
    kill(getpid(), SIGKILL);
    return -1;
}

/* Killed with everything written and synced: only the rename is missing. */
TEST_ONE_THREAD(a_temporary_never_opens) {
    aether_error err;
    aether_file *file = NULL;
    aether_writer *w;
    fresh_dir("whole");
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        static const ae_os_write_hooks hooks = {.rename = hook_rename_never};
        ae_os_set_write_hooks(&hooks);
        save(path, 'n', &err);
        _exit(1);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    DIR *d = opendir(dir);
    unsigned found = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (ae_replace_is_temporary(e->d_name)) {
            char name[512], moved[512];
            snprintf(name, sizeof name, "%s/%s", dir, e->d_name);
            snprintf(moved, sizeof moved, "%s/moved", dir);
            CHECK_CODE(aether_file_open(name, &file, &err), AETHER_E_FORMAT);
            CHECK_HAS(err.message, "did not finish");
            CHECK_CODE(aether_file_map_raw(name, &file, &err), AETHER_E_FORMAT);
            CHECK_CODE(aether_writer_create(name, 1, &w, &err), AETHER_E_INVALID);
            REQUIRE(link(name, moved) == 0); /* it is its name alone that says so */
            CHECK_EQ(which_is(moved), 'n');
            REQUIRE(unlink(moved) == 0);
            found++;
        }
    closedir(d);
    CHECK_EQ(found, 1);
    REQUIRE_OK(save(path, 'o', &err), err);
    CHECK_EQ(leftovers(dir, "a.bin", false), 0);
}

TEST_ONE_THREAD(abort_removes_the_temporary) {
    aether_error err;
    aether_writer *w;
    fresh_dir("abort");
    REQUIRE_OK(aether_writer_create(path, 1, &w, &err), err);
    CHECK_EQ(leftovers(dir, "a.bin", false), 1);
    aether_writer_abort(w);
    CHECK_EQ(leftovers(dir, "a.bin", false), 0);
    CHECK(access(path, F_OK) != 0);
}

/* A forked child that drops its copy of a writer must not take the parent's file. */
TEST_ONE_THREAD(a_forked_child_cannot_disturb_the_parent) {
    aether_error err;
    aether_writer *w;
    fresh_dir("fork");
    REQUIRE_OK(aether_writer_create(path, 1, &w, &err), err);
    REQUIRE_OK(aether_writer_begin(w, AETHER_SECTION_META, 0, AETHER_U8, &err), err);
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        bool refused = aether_writer_append(w, "x", 1, NULL, &err) == AETHER_OK &&
                       aether_writer_end(w, &err) == AETHER_E_INVALID &&
                       aether_writer_commit(w, &err) == AETHER_E_INVALID;
        _exit(refused ? 0 : 1);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(leftovers(dir, "a.bin", false), 1);
    CHECK_OK(aether_writer_append(w, "{}", 2, NULL, &err), err);
    CHECK_OK(aether_writer_end(w, &err), err);
    CHECK_OK(aether_writer_commit(w, &err), err);
    CHECK_EQ(leftovers(dir, "a.bin", false), 0);
}

TEST_ONE_THREAD(permissions_follow_umask_and_the_old_file) {
    aether_error err;
    struct stat st;
    fresh_dir("mode");
    mode_t old = umask(027);
    REQUIRE_OK(save(path, 'o', &err), err);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640);
    REQUIRE(chmod(path, 0600) == 0);
    REQUIRE_OK(save(path, 'n', &err), err);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    umask(old);
}

TEST_ONE_THREAD(links_are_followed) {
    aether_error err;
    struct stat st;
    char link_path[200], target[200];
    fresh_dir("link");
    snprintf(link_path, sizeof link_path, "%s/link", dir);
    snprintf(target, sizeof target, "%s/sub", dir);
    mkdir(target, 0700);
    snprintf(target, sizeof target, "%s/sub/real", dir);
    REQUIRE_OK(save(target, 'o', &err), err);
    REQUIRE(symlink("sub/real", link_path) == 0);
    REQUIRE_OK(save(link_path, 'n', &err), err);
    CHECK(lstat(link_path, &st) == 0 && S_ISLNK(st.st_mode));
    CHECK_EQ(which_is(target), 'n');
    unlink(target);
    CHECK_CODE(save(link_path, 'n', &err), AETHER_E_NOT_FOUND);
    CHECK_HAS(err.message, "link to a missing file");
}

TEST_ONE_THREAD(places_that_cannot_be_written) {
    aether_error err;
    char other[400];
    fresh_dir("places");
    CHECK_CODE(save(dir, 'n', &err), AETHER_E_IO);
    CHECK_EQ(err.os_errno, EISDIR);
    snprintf(other, sizeof other, "%s/", dir);
    CHECK_CODE(save(other, 'n', &err), AETHER_E_IO);
    snprintf(other, sizeof other, "%s/none/a.bin", dir);
    CHECK_CODE(save(other, 'n', &err), AETHER_E_NOT_FOUND);
    CHECK_HAS(err.message, "none");
    CHECK_CODE(save("/dev/null", 'n', &err), AETHER_E_IO);
    CHECK_HAS(err.message, "not a regular file");
    snprintf(other, sizeof other, "%s/pipe", dir);
    REQUIRE(mkfifo(other, 0600) == 0);
    CHECK_CODE(save(other, 'n', &err), AETHER_E_IO);
    struct stat st;
    CHECK(stat(other, &st) == 0 && S_ISFIFO(st.st_mode));
}

/* In a child; nothing is forbidden to root, so it becomes nobody there. */
static int in_child(int (*work)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(77);
        _exit(work());
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* 0 if saving is refused for lack of permission. */
static int save_is_denied(void) {
    aether_error err;
    return save(path, 'n', &err) == AETHER_E_IO && err.os_errno == EACCES ? 0 : 1;
}

static int open_is_denied(void) {
    aether_error err;
    aether_file *file;
    return aether_file_open(path, &file, &err) == AETHER_E_IO && err.os_errno == EACCES ? 0 : 1;
}

TEST_ONE_THREAD(permissions_are_respected) {
    aether_error err;
    fresh_dir("denied");
    REQUIRE_OK(save(path, 'o', &err), err);
    chmod(test_dir(), 0755);
    chmod(dir, 0777);
    chmod(path, 0444); /* a read-only file in a directory open to all */
    CHECK_EQ(in_child(save_is_denied), 0);
    chmod(path, 0000);
    CHECK_EQ(in_child(open_is_denied), 0);
    chmod(path, 0666);
    chmod(dir, 0555);
    CHECK_EQ(in_child(save_is_denied), 0);
    chmod(dir, 0700);
    CHECK_EQ(which_is(path), 'o');
}

static int save_hits_limit(void) {
    aether_error err;
    struct rlimit limit = {1 << 20, 1 << 20};
    signal(SIGXFSZ, SIG_IGN); /* as Python does */
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 77;
    return save(path, 'n', &err) == AETHER_E_IO && err.os_errno == EFBIG ? 0 : 1;
}

TEST_ONE_THREAD(a_file_size_limit_is_an_error) {
    aether_error err;
    fresh_dir("limit");
    REQUIRE_OK(save(path, 'o', &err), err);
    chmod(test_dir(), 0755);
    chmod(dir, 0777);
    chmod(path, 0666);
    CHECK_EQ(in_child(save_hits_limit), 0);
    CHECK_EQ(which_is(path), 'o');
    CHECK_EQ(leftovers(dir, "a.bin", false), 0);
}

/* A real full disk: a tmpfs of 2 MiB in a name space of the child's own. */
static int fill_small_disk(void) {
    aether_error err;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", dir, "tmpfs", 0, "size=2m") != 0)
        return 77;
    if (save(path, 'o', &err) != AETHER_OK)
        return 1;
    if (save(path, 'n', &err) != AETHER_E_DISK_FULL || err.os_errno != ENOSPC)
        return 2;
    return which_is(path) == 'o' && leftovers(dir, "a.bin", false) == 0 ? 0 : 3;
}

TEST_ONE_THREAD(a_full_disk_keeps_the_old_file) {
    fresh_dir("full");
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0)
        _exit(fill_small_disk());
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        SKIP("mounting a small tmpfs is not permitted");
    CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST_ONE_THREAD(long_and_relative_names) {
    aether_error err;
    char name[256], long_path[420], here[512];
    fresh_dir("names");
    memset(name, 'x', 255);
    name[255] = '\0';
    snprintf(long_path, sizeof long_path, "%s/%s", dir, name);
    CHECK_OK(save(long_path, 'o', &err), err);
    CHECK_EQ(which_is(long_path), 'o');
    unlink(long_path);
    snprintf(long_path, sizeof long_path, "%s/%sy", dir, name);
    CHECK_CODE(save(long_path, 'o', &err), AETHER_E_IO);
    CHECK_EQ(err.os_errno, ENAMETOOLONG);
    REQUIRE(getcwd(here, sizeof here) && chdir(dir) == 0);
    aether_writer *w;
    REQUIRE_OK(aether_writer_create("rel.bin", 1, &w, &err), err);
    REQUIRE(chdir("/") == 0);
    CHECK_OK(aether_writer_commit(w, &err), err);
    CHECK(chdir(dir) == 0 && access("rel.bin", F_OK) == 0);
    CHECK(chdir(here) == 0);
}

TEST_MAIN()
