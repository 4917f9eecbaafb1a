/* A process that changes a live graph is killed again and again, at any moment: what it was told to be
 * committed is there, and nothing that it did not do.
 *
 * AETHER_KILLS is how often, 50 unless it is set. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "durable_helpers.h"

enum { MOST_STEPS = 400, SEGMENT = 64 << 10 };

typedef struct progress {
    _Atomic uint64_t acknowledged; /* steps */
} progress;

/* Go on with the graph until somebody ends this. */
static void work(const char *dir, uint64_t seed, uint32_t durability, progress *p) {
    aether_journal_options options = journal_options(SEGMENT, durability);
    world w = world_make(seed);
    uint64_t steps, state = seed;
    aether_error err = {0};
    options.interval_ms = 2;
    aether_live *g = world_open(&w, dir, &options, &steps, &err);
    if (!g)
        _exit(1);
    while (w.steps < steps && world_step(&w, NULL, &err) == AETHER_OK)
        continue;
    while (w.steps < MOST_STEPS) {
        if (world_step(&w, g, &err))
            _exit(2);
        atomic_store(&p->acknowledged, w.steps);
        if (w.steps % 5 == 0)
            world_abort(&w, g, &state);
    }
    _exit(0);
}

static void wait_for(const progress *p, uint64_t steps) {
    for (int i = 0; i < 60000 && atomic_load(&p->acknowledged) < steps; i++)
        usleep(1000);
}

TEST(killed_again_and_again) {
    static const uint32_t durabilities[] = {AETHER_UNSYNCED, AETHER_BATCH, AETHER_SYNC};
    const aether_journal_options options = journal_options(SEGMENT, AETHER_UNSYNCED);
    const char *wanted = getenv("AETHER_KILLS");
    const long kills = wanted ? strtol(wanted, NULL, 10) : TEST_ONLY_RACES ? 15 : 50;
    char dir[128];
    uint64_t state = (uint64_t)getpid(), seed = 1, steps = 0, total = 0;
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    log_dir(dir, sizeof dir, "kills");
    for (long i = 0; i < kills; i++) {
        atomic_store(&p->acknowledged, steps);
        const pid_t child = fork();
        if (child == 0)
            work(dir, seed, durabilities[i % 3], p);
        REQUIRE(child > 0);
        if (test_random(&state) % 4) /* else it may be killed while it replays */
            wait_for(p, steps + 1 + test_random(&state) % 8);
        usleep((useconds_t)(test_random(&state) % 10000));
        int status = 0;
        kill(child, SIGKILL);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        const uint64_t acknowledged = atomic_load(&p->acknowledged);
        const uint64_t found = world_check_journal(seed, dir, &options, acknowledged, acknowledged + 1);
        if (atomic_load(&test_failures))
            break;
        total += acknowledged - steps;
        steps = found;
        if (found > MOST_STEPS / 2) {
            log_remove_files(dir);
            steps = 0;
            seed++;
        }
    }
    CHECK(total > (uint64_t)kills); /* there was something to lose */
    munmap(p, sizeof *p);
}

TEST_MAIN()
