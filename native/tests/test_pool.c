/* The thread pool: every chunk once, nested and concurrent runs, fork, latency. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "core/pool.h"
#include "test.h"

typedef struct {
    atomic_uint *hits;    /* per chunk */
    uint64_t *per_worker; /* plain: one worker index must never run on two threads at once */
    uint32_t workers;
    atomic_uint bad_worker;
} counted;

static void count_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    counted *c = ctx;
    if (worker >= c->workers) {
        atomic_fetch_add(&c->bad_worker, 1);
        return;
    }
    c->per_worker[worker]++;
    atomic_fetch_add(&c->hits[chunk], 1);
}

/* Run `chunks` chunks; 1 if each ran exactly once. */
static int run_counted(uint64_t chunks, uint32_t threads) {
    counted c = {.workers = ae_pool_threads(threads)};
    c.hits = calloc(chunks + 1, sizeof *c.hits);
    c.per_worker = calloc(c.workers, sizeof *c.per_worker);
    uint32_t took_part = ae_pool_run(count_chunk, &c, chunks, threads);
    uint64_t sum = 0;
    int ok = took_part >= 1 && took_part <= c.workers && atomic_load(&c.bad_worker) == 0;
    for (uint32_t w = 0; w < c.workers; w++)
        sum += c.per_worker[w];
    for (uint64_t i = 0; i < chunks; i++)
        ok = ok && atomic_load(&c.hits[i]) == 1;
    free(c.hits);
    free(c.per_worker);
    return ok && sum == chunks;
}

TEST(every_chunk_runs_once) {
    static const uint64_t chunks[] = {0, 1, 2, 3, 7, 8, 100, 10000};
    static const uint32_t threads[] = {0, 1, 2, 8, 64};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
        for (size_t j = 0; j < sizeof threads / sizeof *threads; j++)
            CHECK(run_counted(chunks[i], threads[j]));
}

TEST(many_short_runs) {
    for (int i = 0; i < 5000; i++)
        CHECK(run_counted(2 + (uint64_t)i % 5, 2 + (uint32_t)i % 3));
}

/* ---- several threads really work ---------------------------------------- */

static void wait_for_both(void *ctx, uint64_t chunk, uint32_t worker) {
    atomic_uint *arrived = ctx;
    (void)chunk, (void)worker;
    atomic_fetch_add(arrived, 1);
    for (int ms = 0; atomic_load(arrived) < 2 && ms < 100000; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

TEST(two_chunks_run_at_the_same_time) {
    atomic_uint arrived = 0;
    CHECK_EQ(ae_pool_run(wait_for_both, &arrived, 2, 2), 2);
    CHECK_EQ(atomic_load(&arrived), 2);
}

/* The owner's last check and the worker's last chunk, in every order. */
static void sleep_in_last(void *ctx, uint64_t chunk, uint32_t worker) {
    (void)worker;
    if (chunk == 1)
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    atomic_fetch_add((atomic_uint *)ctx, 1);
}

TEST(owner_sleeps_for_a_slow_worker) {
    for (int i = 0; i < 50; i++) {
        atomic_uint done = 0;
        ae_pool_run(sleep_in_last, &done, 2, 2);
        CHECK_EQ(atomic_load(&done), 2);
    }
}

/* ---- nested and concurrent runs ------------------------------------------ */

static void run_nested(void *ctx, uint64_t chunk, uint32_t worker) {
    (void)chunk, (void)worker;
    if (run_counted(17, 4))
        atomic_fetch_add((atomic_uint *)ctx, 1);
}

TEST(nested_runs_do_all_their_chunks) {
    atomic_uint good = 0;
    for (int i = 0; i < 50; i++)
        ae_pool_run(run_nested, &good, 20, 4);
    CHECK_EQ(atomic_load(&good), 1000);
}

static void *caller_main(void *arg) {
    for (uint32_t i = 0; i < 2000; i++)
        if (!run_counted(1 + i % 7, 2 + i % 4))
            atomic_fetch_add((atomic_uint *)arg, 1);
    return NULL;
}

TEST(four_callers_at_once) {
    pthread_t callers[4];
    atomic_uint bad = 0;
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&callers[i], NULL, caller_main, &bad) == 0);
    for (int i = 0; i < 100; i++)
        CHECK_OK(aether_set_num_threads(1 + i % 5, NULL), (aether_error){0});
    for (int i = 0; i < 4; i++)
        pthread_join(callers[i], NULL);
    CHECK_EQ(atomic_load(&bad), 0);
    aether_set_num_threads(0, NULL);
}

/* ---- fork ------------------------------------------------------------------ */

/* 0 if the child ran runs of its own with a live second thread. */
static int fork_and_run(void) {
    pid_t pid = fork();
    if (pid == 0) {
        alarm(120); /* a hang is a failure, not a stuck test */
        atomic_uint arrived = 0;
        int ok = ae_pool_run(wait_for_both, &arrived, 2, 2) == 2;
        for (int i = 0; i < 100; i++)
            ok = ok && run_counted(50, 4);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

TEST(parent_and_child_both_run_after_fork) {
    SKIP_FORK_UNDER_SANITIZERS();
    CHECK(run_counted(100, 4));
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(fork_and_run(), 0);
        CHECK(run_counted(100, 4));
    }
}

static atomic_int stop_callers;

static void *busy_caller(void *arg) {
    (void)arg;
    while (!atomic_load(&stop_callers))
        run_counted(8, 3);
    return NULL;
}

/* The fork falls into the middle of another thread's run. */
TEST(fork_while_another_thread_is_in_a_run) {
    SKIP_FORK_UNDER_SANITIZERS();
    pthread_t caller;
    atomic_store(&stop_callers, 0);
    REQUIRE(pthread_create(&caller, NULL, busy_caller, NULL) == 0);
    for (int i = 0; i < 30; i++)
        CHECK_EQ(fork_and_run(), 0);
    atomic_store(&stop_callers, 1);
    pthread_join(caller, NULL);
    CHECK(run_counted(100, 4));
}

/* ---- settings -------------------------------------------------------------- */

TEST(set_num_threads_checks_its_argument) {
    aether_error err = {0};
    CHECK_CODE(aether_set_num_threads(-1, &err), AETHER_E_INVALID);
    CHECK_EQ(err.value, -1);
    CHECK_CODE(aether_set_num_threads(AE_POOL_MAX + 1, &err), AETHER_E_INVALID);
    CHECK_OK(aether_set_num_threads(7, &err), err);
    CHECK_EQ(aether_get_num_threads(), 7);
    CHECK_EQ(ae_pool_threads(0), 7);
    CHECK_EQ(ae_pool_threads(3), 3);
    CHECK_EQ(ae_pool_threads(100000), AE_POOL_MAX);
    CHECK_OK(aether_set_num_threads(0, &err), err);
    CHECK(aether_get_num_threads() >= 1);
}

TEST(environment_is_parsed_strictly) {
    unsetenv("AETHERGRAPH_NUM_THREADS");
    aether_set_num_threads(0, NULL);
    int usual = aether_get_num_threads();
    static const char *const bad[] = {"",   "0",  "-1",  "+3",  " 3",
                                      "3 ", "3x", "0x3", "257", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("AETHERGRAPH_NUM_THREADS", bad[i], 1);
        aether_set_num_threads(0, NULL);
        CHECK_EQ(aether_get_num_threads(), usual);
    }
    setenv("AETHERGRAPH_NUM_THREADS", "5", 1);
    aether_set_num_threads(0, NULL);
    CHECK_EQ(aether_get_num_threads(), 5);
    setenv("AETHERGRAPH_NUM_THREADS", "256", 1);
    aether_set_num_threads(0, NULL);
    CHECK_EQ(aether_get_num_threads(), 256);
    unsetenv("AETHERGRAPH_NUM_THREADS");
    aether_set_num_threads(0, NULL);
}

typedef struct {
    atomic_uint arrived;
    sigset_t mask;
} signal_mask;

static void note_signal_mask(void *ctx, uint64_t chunk, uint32_t worker) {
    signal_mask *noted = ctx;
    if (worker)
        pthread_sigmask(SIG_SETMASK, NULL, &noted->mask);
    wait_for_both(&noted->arrived, chunk, worker); /* the owner leaves a chunk to the worker */
}

TEST(workers_leave_signals_to_the_application) {
    signal_mask noted = {0};
    sigemptyset(&noted.mask);
    REQUIRE(ae_pool_run(note_signal_mask, &noted, 2, 2) == 2);
    CHECK(sigismember(&noted.mask, SIGINT) == 1);
    CHECK(sigismember(&noted.mask, SIGTERM) == 1);
    CHECK(sigismember(&noted.mask, SIGBUS) == 0);
}

/* ---- latency (printed, not asserted) -------------------------------------- */

static void nothing(void *ctx, uint64_t chunk, uint32_t worker) {
    (void)ctx, (void)chunk, (void)worker;
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

TEST(latency) {
    enum { RUNS = 2000 };
    double busy = now_us();
    for (int i = 0; i < RUNS; i++)
        ae_pool_run(nothing, NULL, 2, 2);
    busy = (now_us() - busy) / RUNS;
    double idle = 0;
    for (int i = 0; i < 200; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); /* the worker falls asleep */
        double start = now_us();
        ae_pool_run(nothing, NULL, 2, 2);
        idle += now_us() - start;
    }
    printf("      empty 2-thread run: %.2f us back to back, %.2f us after a pause\n", busy, idle / 200);
}

TEST_MAIN()
