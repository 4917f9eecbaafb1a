/*
 * Refuse the 1st, 2nd, 3rd ... allocation of what a scenario does, until it succeeds, as LAGraph's
 * tests do.
 *
 *   sweep:  allocation   0 1 2 3 4 5 6 ...
 *           run 0        X                    AETHER_E_NO_MEMORY, and nothing leaks
 *           run 1        . X                  (or success, where memory is a bonus)
 *           run n        . . . . . .          all granted: success, the sweep ends
 *
 * The linker's --wrap sends the library's allocations through here (see the Makefile); those of
 * libc itself are not counted. After a refusal the handles that the call was given are used once
 * more, with memory, and must work.
 *
 * A program that includes this is called test_no_memory*, and has a function prepare(), which makes
 * what its scenarios share. tests/packaging/test_refused_memory.py holds that every function of
 * the headers that may allocate is in one of these programs.
 */
#ifndef AE_TESTS_REFUSED_MEMORY_H
#define AE_TESTS_REFUSED_MEMORY_H

#include <errno.h>
#include <sys/mman.h>

#include "test.h"

static void prepare(void);

/* ---- the allocator -------------------------------------------------------------------- */

#define GRANT_ALL UINT64_MAX

static _Thread_local bool counting; /* the pool's threads do not count */
static uint64_t allocations, refused_one = GRANT_ALL;

static bool refuse(void) {
    return counting && allocations++ == refused_one;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *data, size_t size);
char *__real_strdup(const char *text);
void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *data, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *__wrap_malloc(size_t size) {
    return refuse() ? no_memory() : __real_malloc(size);
}
void *__wrap_calloc(size_t n, size_t size) {
    return refuse() ? no_memory() : __real_calloc(n, size);
}
void *__wrap_realloc(void *data, size_t size) {
    return refuse() ? no_memory() : __real_realloc(data, size);
}
char *__wrap_strdup(const char *text) {
    return refuse() ? no_memory() : __real_strdup(text);
}
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset) {
    if (refuse()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(at, size, prot, flags, fd, offset);
}

static void grant_all(void) {
    refused_one = GRANT_ALL;
}

/* ---- the sweep ------------------------------------------------------------------------ */

/* Makes handles, uses them, releases them; returns the first code that is not 0. */
typedef int (*scenario)(aether_error *err);

#define MOST_ALLOCATIONS 5000

static void sweep(const char *name, scenario run) {
    uint64_t refusals = 0;
    for (uint64_t n = 0; n < MOST_ALLOCATIONS; n++) {
        aether_error err = {0};
        allocations = 0;
        refused_one = n;
        counting = true;
        int rc = run(&err);
        counting = false;
        bool reached = allocations > n;
        grant_all();
        if (!reached) {
            if (rc != AETHER_OK)
                TEST_FAIL("%s, with memory: %d %s", name, rc, err.message);
            if (n == 0)
                TEST_FAIL("%s allocates nothing: not worth a sweep", name);
            if (n && !refusals)
                TEST_FAIL("%s never said that memory is short", name);
            return;
        }
        refusals += rc != AETHER_OK;
        if (rc != AETHER_OK && rc != AETHER_E_NO_MEMORY)
            TEST_FAIL("%s, allocation %" PRIu64 " refused: %d %s", name, n, rc, err.message);
        if (rc != AETHER_OK && !err.message[0])
            TEST_FAIL("%s, allocation %" PRIu64 " refused: no message", name, n);
    }
    TEST_FAIL("%s: no end", name);
}

#define SWEEP(title, ...)                                                                                    \
    static int run_##title(aether_error *err) {                                                              \
        int rc = 0;                                                                                          \
        __VA_ARGS__                                                                                          \
    }                                                                                                        \
    TEST(title) {                                                                                            \
        prepare();                                                                                           \
        sweep(#title, run_##title);                                                                          \
    }

/* Make a handle or leave. */
#define MAKE(call)                                                                                           \
    if ((rc = (call)) != 0)                                                                                  \
    goto done

/* Use handles; after a refusal once more, with memory, and leave. */
#define USE(call)                                                                                            \
    if ((rc = (call)) != 0) {                                                                                \
        aether_error again = {0};                                                                            \
        if (rc == AETHER_E_NO_MEMORY) {                                                                      \
            aether_error *first = err;                                                                       \
            grant_all();                                                                                     \
            err = &again;                                                                                    \
            CHECK_OK(call, again);                                                                           \
            err = first;                                                                                     \
        }                                                                                                    \
        goto done;                                                                                           \
    }

#endif
