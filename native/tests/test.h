/*
 * test.h - the test harness: one program per test_*.c, no library needed.
 *
 *   TEST(round_trip) {                 registers itself; runs in source order
 *       CHECK_OK(aether_thing(&err), err);
 *       CHECK_EQ(count, 3);
 *   }
 *   TEST_MAIN()
 *
 * A test that starts no thread, nor does what it calls or forks, is TEST_ONE_THREAD(name): it runs before
 * the others, and not under ThreadSanitizer, which has nothing to say of what one thread does. Where the
 * plain build sees it start one, it fails, unless there is no io_uring: then reading takes threads.
 *
 * Output: "ok    name", "FAIL  name" or "skip  name (why)" per test, with the seconds that it kept
 * processors busy if they were several, then the counts. Exit 0: all passed; 1: a failure; 77: everything
 * was skipped.
 * Arguments select tests by substring: ./test_container truncat
 *
 * Caveats: a failed CHECK goes on with the test, a failed REQUIRE returns from
 * the function it stands in. CHECK may be used from several threads.
 */
#ifndef AE_TEST_H
#define AE_TEST_H

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define AETHER_EXPERIMENTAL
#include "aether/build.h"
#include "aether/experimental.h"
#include "aether/io.h"
#include "aether/live.h"
#include "core/options.h"

#define TEST_MAX 256

/* True under ThreadSanitizer: tests that repeat their work for several numbers of threads need only the
 * larger ones there. */
#ifdef __SANITIZE_THREAD__
#define TEST_ONLY_RACES true
#else
#define TEST_ONLY_RACES false
#endif

/* True under any sanitizer: what is tried at every byte is tried at a part of them there. The plain build
 * judges them all; a sanitizer looks for what any of them does. */
#ifdef AE_SANITIZED
#define TEST_SANITIZED true
#else
#define TEST_SANITIZED false
#endif

typedef struct {
    const char *name;
    void (*run)(void);
    bool one_thread;
} test_case;

static test_case test_cases[TEST_MAX];
static unsigned test_count;
static atomic_uint test_failures;    /* failed checks of the running test */
static const char *test_skip_reason; /* set by SKIP */

#define TEST_OF(title, one_thread)                                                                           \
    static void test_##title(void);                                                                          \
    __attribute__((constructor)) static void register_##title(void) {                                        \
        if (test_count == TEST_MAX)                                                                          \
            abort();                                                                                         \
        test_cases[test_count++] = (test_case){#title, test_##title, one_thread};                            \
    }                                                                                                        \
    static void test_##title(void)

#define TEST(title)            TEST_OF(title, false)
#define TEST_ONE_THREAD(title) TEST_OF(title, true)

/* Threads that the program, its children and the library in them have started. The linker puts this
 * before libc's function (see the Makefile); ThreadSanitizer, which runs no test that is not to start
 * any, keeps its own. */
static atomic_uint *test_threads;

#ifndef __SANITIZE_THREAD__
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg) {
    atomic_fetch_add(test_threads, 1);
    return __real_pthread_create(thread, attr, run, arg);
}
#endif

#define SKIP(reason)                                                                                         \
    do {                                                                                                     \
        test_skip_reason = (reason);                                                                         \
        return;                                                                                              \
    } while (0)

/* For tests that fork a process with threads. What a sanitizer allocates, for threads that start or
 * end too, is under locks that fork() knows nothing of: one that is taken then stays taken in the
 * child, which waits for ever. The plain build runs these tests. */
#ifdef AE_SANITIZED
#define SKIP_FORK_UNDER_SANITIZERS() SKIP("a sanitizer's allocator does not survive a fork: make test")
#else
#define SKIP_FORK_UNDER_SANITIZERS() (void)0
#endif

#define TEST_FAIL(...)                                                                                       \
    do {                                                                                                     \
        atomic_fetch_add(&test_failures, 1);                                                                 \
        printf("      %s:%d: ", __FILE__, __LINE__);                                                         \
        printf(__VA_ARGS__);                                                                                 \
        printf("\n");                                                                                        \
    } while (0)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            TEST_FAIL("CHECK(%s)", #condition);                                                              \
    } while (0)

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            TEST_FAIL("REQUIRE(%s)", #condition);                                                            \
            return;                                                                                          \
        }                                                                                                    \
    } while (0)

/* Integers of any type that fits in 64 bits. */
#define CHECK_EQ(actual, expected)                                                                           \
    do {                                                                                                     \
        long long actual_ = (long long)(actual), expected_ = (long long)(expected);                          \
        if (actual_ != expected_)                                                                            \
            TEST_FAIL("%s is %lld, expected %s (%lld)", #actual, actual_, #expected, expected_);             \
    } while (0)

#define CHECK_STR(actual, expected)                                                                          \
    do {                                                                                                     \
        const char *actual_ = (actual), *expected_ = (expected);                                             \
        if (strcmp(actual_, expected_) != 0)                                                                 \
            TEST_FAIL("%s is \"%s\", expected \"%s\"", #actual, actual_, expected_);                         \
    } while (0)

/* `text` contains `part`. */
#define CHECK_HAS(text, part)                                                                                \
    do {                                                                                                     \
        const char *text_ = (text), *part_ = (part);                                                         \
        if (!strstr(text_, part_))                                                                           \
            TEST_FAIL("\"%s\" does not contain \"%s\"", text_, part_);                                       \
    } while (0)

#define CHECK_OK(call, err)                                                                                  \
    do {                                                                                                     \
        int code_ = (call);                                                                                  \
        if (code_ != AETHER_OK)                                                                              \
            TEST_FAIL("%s: %d %s", #call, code_, (err).message);                                             \
    } while (0)

#define REQUIRE_OK(call, err)                                                                                \
    do {                                                                                                     \
        int code_ = (call);                                                                                  \
        if (code_ != AETHER_OK) {                                                                            \
            TEST_FAIL("%s: %d %s", #call, code_, (err).message);                                             \
            return;                                                                                          \
        }                                                                                                    \
    } while (0)

/* The call must fail with this very code. */
#define CHECK_CODE(call, expected)                                                                           \
    do {                                                                                                     \
        int code_ = (call);                                                                                  \
        if (code_ != (expected))                                                                             \
            TEST_FAIL("%s returned %d, expected %s (%d)", #call, code_, #expected, (expected));              \
    } while (0)

/* A small deterministic generator for test data. */
static inline uint64_t test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* A fresh directory of the test program, removed at its exit. The program makes it before its first
 * test: a child that is killed could not remove one of its own. */
static char test_dir_path[64];
static pid_t test_dir_owner;

static inline void test_dir_remove(void) {
    char command[96];
    if (getpid() != test_dir_owner)
        return;
    snprintf(command, sizeof command, "rm -rf '%s'", test_dir_path);
    if (test_dir_path[0] && system(command) != 0)
        fprintf(stderr, "could not remove %s\n", test_dir_path);
}

static inline const char *test_dir(void) {
    if (!test_dir_path[0]) {
        strcpy(test_dir_path, "/tmp/aether-test-XXXXXX");
        if (!mkdtemp(test_dir_path))
            abort();
        test_dir_owner = getpid();
        atexit(test_dir_remove);
    }
    return test_dir_path;
}

/* `buffer` = test_dir()/name; returns buffer. */
static inline char *test_path(char *buffer, size_t size, const char *name) {
    snprintf(buffer, size, "%s/%s", test_dir(), name);
    return buffer;
}

static inline bool test_selected(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return true;
    return argc < 2;
}

/* Seconds that the processors have worked for this program and for the children it has waited for. */
static inline double test_busy(void) {
    double seconds = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage usage;
        getrusage(i ? RUSAGE_CHILDREN : RUSAGE_SELF, &usage);
        seconds += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    }
    return seconds;
}

enum { TEST_PASSED, TEST_FAILED, TEST_SKIPPED };

static inline int test_run(const test_case *test) {
    double before = test_busy();
    unsigned threads = atomic_load(test_threads);
    char busy[32] = "";
    atomic_store(&test_failures, 0);
    test_skip_reason = NULL;
    test->run();
    if (test->one_thread && atomic_load(test_threads) != threads &&
        aether_io_probe(AETHER_IO_URING, NULL) == AETHER_OK)
        TEST_FAIL("it starts threads: TEST, not TEST_ONE_THREAD");
    if (test_busy() - before >= 2)
        snprintf(busy, sizeof busy, " (%.0f s)", test_busy() - before);
    if (atomic_load(&test_failures)) {
        printf("FAIL  %s%s\n", test->name, busy);
        return TEST_FAILED;
    }
    if (test_skip_reason) {
        printf("skip  %s (%s)\n", test->name, test_skip_reason);
        return TEST_SKIPPED;
    }
    printf("ok    %s%s\n", test->name, busy);
    return TEST_PASSED;
}

/* Return whether tests that repeat random work are to do so for long: AE_TEST_LONG=1. */
static inline bool test_long(void) {
    const char *text = getenv("AE_TEST_LONG");
    return text && strcmp(text, "1") == 0;
}

static inline int test_main(int argc, char **argv) {
    unsigned counts[3] = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_dir();
    test_threads =
        mmap(NULL, sizeof *test_threads, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (test_threads == MAP_FAILED)
        abort();
    /* Tests of one thread run first: a pool that another one started would work for them unseen. */
    for (int first = TEST_ONLY_RACES ? 0 : 1; first >= 0; first--) {
        aether_set_num_threads(first ? 1 : 0, NULL);
        for (unsigned i = 0; i < test_count; i++)
            if (test_cases[i].one_thread == first && test_selected(test_cases[i].name, argc, argv))
                counts[test_run(&test_cases[i])]++;
    }
    printf("%u passed, %u failed, %u skipped\n", counts[TEST_PASSED], counts[TEST_FAILED],
           counts[TEST_SKIPPED]);
    return counts[TEST_FAILED] ? 1 : counts[TEST_SKIPPED] && !counts[TEST_PASSED] ? 77 : 0;
}

#define TEST_MAIN()                                                                                          \
    int main(int argc, char **argv) {                                                                        \
        return test_main(argc, argv);                                                                        \
    }

#endif
