/* Reads that fail, come back short, or are put off; files that shrink; cancelling. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "io_file.h"

#if defined(__SANITIZE_THREAD__)
/* A forked child of a threaded program starts threads here, on purpose. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "die_after_fork=0";
}
#endif

enum { FILE_SIZE = 1 << 20 };

static char path[128];

static uint64_t random_state;
static int strikes, fault;
static uint64_t fault_at;
static aether_task *cancel_task;

static void begin_test(void) {
    if (!path[0])
        io_make(test_path(path, sizeof path, "faults.bin"), FILE_SIZE);
    random_state = 1;
    strikes = 0;
}

static uint32_t short_length(uint64_t at, uint32_t length) {
    (void)at;
    uint32_t part = length > 512 ? (uint32_t)(test_random(&random_state) % (length / 512)) * 512 : 0;
    return part ? part : length;
}

/* The next attempt has to go back to where a direct read may begin. */
static int32_t odd_result(uint64_t at, int32_t result) {
    (void)at;
    return result > 600 ? result - 99 : result;
}

static uint32_t one_block(uint64_t at, uint32_t length) {
    (void)at;
    return length < 512 ? length : 512;
}

static int32_t fail_often(uint64_t at, int32_t result) {
    (void)at;
    return test_random(&random_state) % 2 && ++strikes ? -fault : result;
}

static int32_t fail_at_offset(uint64_t at, int32_t result) {
    return at / 4096 == fault_at / 4096 && ++strikes ? -fault : result;
}

static int32_t fail_always(uint64_t at, int32_t result) {
    (void)at, (void)result;
    strikes++;
    return -fault;
}

static int32_t cancel_later(uint64_t at, int32_t result) {
    (void)at;
    if (++strikes == 40)
        __atomic_store_n(&cancel_task->cancel, 1, __ATOMIC_RELAXED);
    return result;
}

static int fail_setup(void) {
    strikes++;
    return fault;
}

static int fail_every_other(void) {
    return strikes++ % 2 ? fault : 0;
}

static int fail_third(void) {
    return ++strikes == 3 ? fault : 0;
}

/* Every kind of request, right in spite of `hooks`. */
static void check_reads(const aether_io_options *mode, const ae_io_hooks *hooks, uint64_t *repeated) {
    aether_error err;
    aether_io *io;
    aether_io_stats s;
    REQUIRE_OK(aether_io_open(path, mode, &io, &err), err);
    ae_io_set_hooks(hooks);
    io_ranges r = io_random(FILE_SIZE, 600, 6000, 3);
    CHECK_OK(aether_io_read(io, r.requests, r.n, NULL, &err), err);
    ae_io_set_hooks(NULL);
    io_check(&r);
    io_free(&r);
    aether_io_count(io, &s);
    if (repeated)
        *repeated = s.repeated;
    aether_io_close(io);
}

TEST(short_reads_go_on) {
    uint64_t repeated;
    begin_test();
    FOR_EACH_MODE(mode) {
        check_reads(mode, &(ae_io_hooks){.length = short_length}, &repeated);
        CHECK(repeated > 100);
        check_reads(mode, &(ae_io_hooks){.length = one_block}, &repeated);
        CHECK(repeated > 1000);
        check_reads(mode, &(ae_io_hooks){.result = odd_result}, &repeated);
        CHECK(repeated > 100);
    }
}

TEST(interrupted_reads_are_repeated) {
    uint64_t repeated;
    static const int faults[] = {EINTR, EAGAIN};
    begin_test();
    for (unsigned i = 0; i < 2; i++)
        FOR_EACH_MODE(mode) {
            fault = faults[i];
            strikes = 0;
            check_reads(mode, &(ae_io_hooks){.result = fail_often}, &repeated);
            CHECK(strikes > 100);
            CHECK_EQ(repeated, strikes);
        }
}

TEST(a_read_that_is_put_off_for_ever_is_an_error) {
    aether_error err;
    uint8_t data[100];
    begin_test();
    FOR_EACH_MODE(mode) {
        aether_io *io;
        REQUIRE_OK(aether_io_open(path, mode, &io, &err), err);
        fault = EAGAIN;
        strikes = 0;
        ae_io_set_hooks(&(ae_io_hooks){.result = fail_always});
        CHECK_CODE(aether_io_read(io, &(aether_io_request){50, 100, data}, 1, NULL, &err), AETHER_E_IO);
        ae_io_set_hooks(NULL);
        CHECK_EQ(err.os_errno, EAGAIN);
        CHECK(strikes > 100);
        aether_io_close(io);
    }
}

/* The error names the file and the offset of the first request that failed. */
TEST(a_failed_read_is_named) {
    aether_error err;
    begin_test();
    FOR_EACH_MODE(mode) {
        aether_io *io;
        REQUIRE_OK(aether_io_open(path, mode, &io, &err), err);
        uint8_t *data = ae_io_alloc(200 * 4096, &err);
        aether_io_request r[200];
        for (unsigned i = 0; i < 200; i++)
            r[i] = (aether_io_request){i * 4096, 4096, data + 4096 * i};
        fault = EIO;
        fault_at = 37 * 4096;
        ae_io_set_hooks(&(ae_io_hooks){.result = fail_at_offset});
        CHECK_CODE(aether_io_read(io, r, 200, NULL, &err), AETHER_E_IO);
        CHECK_EQ(err.os_errno, EIO);
        CHECK_EQ(err.position, fault_at);
        CHECK_HAS(err.message, "faults.bin");
        CHECK_HAS(err.message, strerror(EIO));
        /* nothing is under way any more: the memory may go, the next read is right */
        free(data);
        ae_io_set_hooks(&(ae_io_hooks){.result = fail_always});
        data = ae_io_alloc(200 * 4096, &err);
        for (unsigned i = 0; i < 200; i++)
            r[i].buffer = data + 4096 * (199 - i);
        CHECK_CODE(aether_io_read(io, r, 200, NULL, &err), AETHER_E_IO);
        CHECK_EQ(err.position, 0); /* all failed: the first counts */
        ae_io_set_hooks(NULL);
        CHECK_OK(aether_io_read(io, r, 200, NULL, &err), err);
        for (unsigned i = 0; i < 200; i++)
            CHECK(io_right(r[i].buffer, r[i].offset, 4096));
        free(data);
        aether_io_close(io);
    }
}

TEST(a_file_that_shrinks_is_noticed) {
    aether_error err;
    char name[128];
    test_path(name, sizeof name, "shrinks.bin");
    FOR_EACH_MODE(mode) {
        aether_io *io;
        io_make(name, 100000);
        REQUIRE_OK(aether_io_open(name, mode, &io, &err), err);
        REQUIRE(truncate(name, 50001) == 0);
        uint8_t *data = ae_io_alloc(110000, &err), *other = data + 102400;
        aether_io_request r[2] = {{0, 50001, data}, {49000, 2000, other}};
        CHECK_CODE(aether_io_read(io, r, 1, NULL, &err), AETHER_E_FILE_CHANGED);
        CHECK(io_right(data, 0, 50001)); /* all of it is there still */
        CHECK_CODE(aether_io_read(io, r, 2, NULL, &err), AETHER_E_FILE_CHANGED);
        CHECK_EQ(err.position, 50001);
        CHECK_EQ(err.value, 100000);
        CHECK_HAS(err.message, "shrinks.bin");
        r[1] = (aether_io_request){90112, 4096, other};
        CHECK_CODE(aether_io_read(io, r, 2, NULL, &err), AETHER_E_FILE_CHANGED);
        free(data);
        aether_io_close(io);
    }
}

TEST(a_file_that_is_written_to_is_noticed) {
    aether_error err;
    char name[128];
    test_path(name, sizeof name, "written.bin");
    FOR_EACH_MODE(mode) {
        aether_io *io;
        io_make(name, 10000);
        REQUIRE_OK(aether_io_open(name, mode, &io, &err), err);
        uint8_t *data = ae_io_alloc(10000, &err);
        const aether_io_request r = {0, 10000, data};
        CHECK_OK(aether_io_read(io, &r, 1, NULL, &err), err);
        REQUIRE(utimensat(AT_FDCWD, name, (const struct timespec[2]){{0}}, 0) == 0);
        CHECK_CODE(aether_io_read(io, &r, 1, NULL, &err), AETHER_E_FILE_CHANGED);
        CHECK_HAS(err.message, "written to");
        free(data);
        aether_io_close(io);
    }
}

TEST(cancelling) {
    aether_error err;
    begin_test();
    FOR_EACH_MODE(mode) {
        aether_io *io;
        aether_io_stats s;
        REQUIRE_OK(aether_io_open(path, mode, &io, &err), err);
        io_ranges r = io_random(FILE_SIZE, 2000, 3000, 7);
        aether_task task = {.cancel = 1};
        CHECK_CODE(aether_io_read(io, r.requests, r.n, &task, &err), AETHER_E_CANCELLED);
        aether_io_count(io, &s);
        CHECK_EQ(s.reads, 0);
        task.cancel = 0;
        cancel_task = &task;
        strikes = 0;
        ae_io_set_hooks(&(ae_io_hooks){.result = cancel_later});
        CHECK_CODE(aether_io_read(io, r.requests, r.n, &task, &err), AETHER_E_CANCELLED);
        ae_io_set_hooks(NULL);
        CHECK_HAS(err.message, "faults.bin");
        CHECK(task.done > 0 && task.done < task.total);
        aether_io_count(io, &s);
        CHECK(s.reads >= 40 && s.reads <= 40 + 2 * AE_IO_DEPTH);
        task.cancel = 0;
        CHECK_OK(aether_io_read(io, r.requests, r.n, &task, &err), err);
        CHECK_EQ(task.done, task.total);
        io_check(&r);
        io_free(&r);
        aether_io_close(io);
    }
}

/* ---- the ring ------------------------------------------------------------------------ */

/* What each of these threads does first is to make a ring. */
static void in_new_thread(void *(*run)(void *)) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, run, NULL) == 0);
    pthread_join(thread, NULL);
}

static void *without_a_ring(void *arg) {
    static const int faults[] = {EPERM, ENOSYS, ENOMEM, EMFILE};
    aether_error err;
    aether_io *io;
    aether_io_info info;
    ae_io_set_hooks(&(ae_io_hooks){.setup = fail_setup});
    for (unsigned i = 0; i < 4; i++) {
        fault = faults[i];
        if (aether_io_open(path, NULL, &io, &err) != AETHER_OK) {
            TEST_FAIL("auto does not open: %s", err.message);
            break;
        }
        aether_io_describe(io, &info);
        CHECK_EQ(info.tier, AETHER_IO_PREAD);
        aether_io_close(io);
        io = NULL;
        aether_io_options forced = {.tier = AETHER_IO_URING};
        CHECK_CODE(aether_io_open(path, &forced, &io, &err), AETHER_E_UNSUPPORTED);
        CHECK(io == NULL);
        CHECK_CODE(aether_io_probe(AETHER_IO_URING, &err), AETHER_E_UNSUPPORTED);
        CHECK_HAS(err.message, "io_uring");
    }
    ae_io_set_hooks(NULL);
    return arg;
}

TEST(a_ring_that_cannot_be_made) {
    begin_test();
    in_new_thread(without_a_ring);
    CHECK(strikes >= 12 || aether_io_probe(AETHER_IO_URING, NULL) != AETHER_OK);
}

/* A ring that is made but cannot read is no better. */
TEST(a_ring_that_cannot_read) {
    aether_error err;
    aether_io *io;
    aether_io_info info;
    begin_test();
    fault = EOPNOTSUPP;
    ae_io_set_hooks(&(ae_io_hooks){.result = fail_always});
    CHECK_CODE(aether_io_open(path, &(aether_io_options){.tier = AETHER_IO_URING}, &io, &err),
               AETHER_E_UNSUPPORTED);
    REQUIRE_OK(aether_io_open(path, NULL, &io, &err), err);
    ae_io_set_hooks(NULL);
    aether_io_describe(io, &info);
    CHECK_EQ(info.tier, AETHER_IO_PREAD);
    aether_io_close(io);
}

/* As containers do it: this process may not make that system call any more. */
static bool forbid(long call) {
    struct sock_filter rc[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rc / sizeof *rc, rc};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In a child: 0 if reading goes on with pread, and a forced ring is refused. */
static int read_without(long call) {
    aether_error err;
    aether_io *io;
    aether_io_info info;
    if (!forbid(call))
        return 2;
    if (aether_io_open(path, NULL, &io, &err) != AETHER_OK)
        return 3;
    aether_io_describe(io, &info);
    io_ranges r = io_random(FILE_SIZE, 100, 3000, 9);
    if (info.tier != AETHER_IO_PREAD || aether_io_read(io, r.requests, r.n, NULL, &err) != AETHER_OK)
        return 4;
    io_check(&r);
    if (aether_io_probe(AETHER_IO_URING, &err) != AETHER_E_UNSUPPORTED)
        return 5;
    return atomic_load(&test_failures) ? 6 : 0;
}

TEST(a_process_that_may_not_use_rings) {
    SKIP_FORK_UNDER_SANITIZERS();
    static const long calls[] = {SYS_io_uring_setup, SYS_io_uring_enter};
    begin_test();
    for (unsigned i = 0; i < 2; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            _exit(read_without(calls[i]));
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
            SKIP("no system call filters here");
        CHECK_EQ(status, 0);
    }
}

static aether_io *shared_io;

static void *read_without_a_ring(void *arg) {
    aether_error err;
    io_ranges r = io_random(FILE_SIZE, 100, 3000, 9);
    int rc = aether_io_read(shared_io, r.requests, r.n, NULL, &err);
    if (arg)
        CHECK_EQ(rc, AETHER_E_UNSUPPORTED);
    else
        CHECK_OK(rc, err);
    if (!rc)
        io_check(&r);
    io_free(&r);
    return NULL;
}

static void *read_without_the_forced_ring(void *arg) {
    (void)arg;
    return read_without_a_ring(&shared_io);
}

TEST(a_thread_without_a_ring_reads_the_other_way) {
    aether_error err;
    begin_test();
    if (aether_io_probe(AETHER_IO_URING, NULL) != AETHER_OK)
        SKIP("no io_uring");
    fault = ENOMEM;
    for (uint32_t tier = AETHER_IO_AUTO; tier <= AETHER_IO_URING; tier++) {
        REQUIRE_OK(aether_io_open(path, &(aether_io_options){.tier = tier}, &shared_io, &err), err);
        ae_io_set_hooks(&(ae_io_hooks){.setup = fail_setup});
        in_new_thread(tier ? read_without_the_forced_ring : read_without_a_ring);
        ae_io_set_hooks(NULL);
        aether_io_close(shared_io);
    }
}

TEST(a_ring_that_is_refused_for_a_while) {
    static const int faults[] = {EINTR, EAGAIN, EBUSY};
    begin_test();
    if (aether_io_probe(AETHER_IO_URING, NULL) != AETHER_OK)
        SKIP("no io_uring");
    for (unsigned i = 0; i < 3; i++)
        for (unsigned direct = 0; direct < 2; direct++) {
            fault = faults[i];
            check_reads(&io_modes[direct], &(ae_io_hooks){.enter = fail_every_other}, NULL);
        }
    CHECK(strikes > 10);
}

/* Reads are under way when the ring breaks: they come back first. Then the thread
 * makes another ring. */
TEST(a_ring_that_breaks) {
    aether_error err;
    begin_test();
    if (aether_io_probe(AETHER_IO_URING, NULL) != AETHER_OK)
        SKIP("no io_uring");
    for (unsigned direct = 0; direct < 2; direct++) {
        aether_io *io;
        REQUIRE_OK(aether_io_open(path, &io_modes[direct], &io, &err), err);
        io_ranges r = io_random(FILE_SIZE, 500, 6000, 3);
        fault = EBADF;
        strikes = 0;
        ae_io_set_hooks(&(ae_io_hooks){.enter = fail_third});
        CHECK_CODE(aether_io_read(io, r.requests, r.n, NULL, &err), AETHER_E_IO);
        CHECK_EQ(err.os_errno, EBADF);
        ae_io_set_hooks(NULL);
        CHECK_OK(aether_io_read(io, r.requests, r.n, NULL, &err), err);
        io_check(&r);
        io_free(&r);
        aether_io_close(io);
    }
}

TEST_MAIN()
