/* Live graphs of other processes: attached, forked, killed while they read. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live_helpers.h"
#include "os/process.h"

static const live_spec plain = {
    .relation = {.num_src = 100,
                 .num_dst = 100,
                 .layouts = AETHER_LIVE_CSC,
                 .order = AETHER_ORDER_ID,
                 .edge_id_bytes = 4},
    .arena_bytes = 512 << 10,
};

static aether_live *make(void) {
    return live_make(plain);
}

static int insert(aether_live *g, int64_t major, int64_t minor) {
    return live_insert(g, major, minor, NULL);
}

static uint64_t snapshots(const aether_live *g) {
    aether_live_stats stats;
    aether_live_count(g, &stats);
    return stats.snapshots;
}

/* Two pipes: the parent says "go on", the child says "done". */
typedef struct child {
    pid_t pid;
    int go[2], done[2];
} child;

static bool say(int fd) {
    return write(fd, "x", 1) == 1;
}

static bool hear(int fd) {
    char c;
    return read(fd, &c, 1) == 1;
}

static bool start(child *c) {
    if (pipe(c->go) || pipe(c->done))
        return false;
    c->pid = fork();
    return c->pid == 0;
}

/* End the child with what it found. */
static void finish(bool good) {
    _exit(good ? 0 : 1);
}

static void check_child(child *c) {
    int status = -1;
    CHECK_EQ(waitpid(c->pid, &status, 0), c->pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < 2; i++) {
        close(c->go[i]);
        close(c->done[i]);
    }
}

TEST(a_forked_child_reads_on_and_cannot_write) {
    aether_live *g = make();
    aether_snapshot *t = NULL;
    aether_error err = {0};
    child c;
    CHECK_OK(insert(g, 1, 2), err);
    CHECK_OK(aether_snapshot_take(g, &t, &err), err);
    if (start(&c)) {
        bool good = live_degree(g, 1) == 1;
        good &= insert(g, 1, 3) == AETHER_E_UNSUPPORTED;
        good &= live_delete(g, 1, 1, NULL) == AETHER_E_UNSUPPORTED;
        good &= aether_live_begin(g, NULL) == AETHER_E_UNSUPPORTED;
        good &= aether_live_reclaim(g, NULL) == AETHER_E_UNSUPPORTED;
        good &= aether_live_reap(g, NULL) == AETHER_E_UNSUPPORTED;
        good &= aether_snapshot_renew(t, NULL) == AETHER_E_UNSUPPORTED;
        aether_snapshot_release(t); /* leaves the parent's pin alone */
        good &= snapshots(g) == 1;
        good &= say(c.done[1]) && hear(c.go[0]);
        good &= live_degree(g, 1) == 2; /* what the parent has committed meanwhile */
        finish(good);
    }
    CHECK(hear(c.done[0]));
    CHECK_EQ(snapshots(g), 1);
    CHECK_OK(insert(g, 1, 3), err);
    CHECK(say(c.go[1]));
    check_child(&c);
    aether_snapshot_release(t);
    aether_live_close(g);
}

TEST(an_inherited_snapshot_lasts_as_long_as_the_parents) {
    aether_live *g = make();
    aether_snapshot *t = NULL;
    aether_error err = {0};
    child c;
    CHECK_OK(aether_snapshot_take(g, &t, &err), err);
    if (start(&c)) {
        const int64_t node = 1;
        int64_t out = -1;
        bool good =
            aether_topology_degrees(live_lists(t), &node, 1, &out, NULL, NULL) == AETHER_OK && out == 0;
        good &= say(c.done[1]) && hear(c.go[0]);
        good &= aether_topology_degrees(live_lists(t), &node, 1, &out, NULL, NULL) == AETHER_E_EXPIRED;
        finish(good);
    }
    CHECK(hear(c.done[0]));
    CHECK_OK(insert(g, 1, 2), err);
    aether_snapshot_release(t);
    CHECK(say(c.go[1]));
    check_child(&c);
    aether_live_close(g);
}

TEST(a_reader_that_is_killed_lets_go) {
    aether_live *g = make();
    aether_live_stats stats;
    aether_error err = {0};
    child c;
    if (start(&c)) {
        aether_snapshot *t[2];
        bool good = aether_snapshot_take(g, &t[0], NULL) == AETHER_OK;
        good &= aether_snapshot_take(g, &t[1], NULL) == AETHER_OK;
        good &= say(c.done[1]);
        hear(c.go[0]);
        finish(good);
    }
    CHECK(hear(c.done[0]));
    CHECK_EQ(snapshots(g), 2);
    for (int64_t i = 0; i < 90; i++)
        CHECK_OK(insert(g, 1, i), err);
    CHECK_OK(aether_live_reclaim(g, &err), err);
    CHECK_OK(aether_live_reap(g, &err), err);
    aether_live_count(g, &stats);
    CHECK(stats.retired_bytes > 90 * 16); /* the child may still read all of it */
    CHECK_EQ(stats.oldest_pid, c.pid);
    CHECK_EQ(stats.oldest_epoch, 1);
    CHECK_EQ(kill(c.pid, SIGKILL), 0);
    CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
    CHECK_OK(aether_live_begin(g, &err), err);
    CHECK_OK(insert(g, 1, 90), err);
    CHECK_OK(aether_live_reclaim(g, &err), err); /* in a transaction: it keeps what it needs to be undone */
    CHECK_OK(aether_live_abort(g, &err), err);
    CHECK_EQ(snapshots(g), 0);
    CHECK_EQ(live_degree(g, 1), 90);
    CHECK_OK(aether_live_reclaim(g, &err), err);
    aether_live_count(g, &stats);
    CHECK_EQ(stats.retired_bytes, 0);
    CHECK_EQ(stats.snapshots, 0);
    aether_live_close(g);
}

/* Nothing is written any more to a graph that goes on elsewhere: what it counts are readers that live. */
TEST(killed_readers_are_freed_and_overdue_ones_stay) {
    live_spec spec = plain;
    spec.max_snapshot_age = 1; /* nanosecond */
    aether_live *g = live_make(spec);
    aether_snapshot *held;
    aether_error err = {0};
    child c;
    if (start(&c)) {
        aether_snapshot *t;
        finish(aether_snapshot_take(g, &t, NULL) == AETHER_OK && say(c.done[1]) && hear(c.go[0]));
    }
    CHECK(hear(c.done[0]));
    CHECK_OK(aether_snapshot_take(g, &held, &err), err);
    CHECK_OK(insert(g, 1, 2), err);
    CHECK_EQ(kill(c.pid, SIGKILL), 0);
    CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
    CHECK_EQ(snapshots(g), 2);
    CHECK_OK(aether_live_reap(g, &err), err);
    CHECK_EQ(snapshots(g), 1);
    CHECK_OK(aether_live_reclaim(g, &err), err);
    CHECK_EQ(snapshots(g), 0);
    aether_snapshot_release(held);
    aether_live_close(g);
}

TEST(a_killed_reader_of_a_retired_graph_does_not_count) {
    aether_live *g = make();
    aether_error err = {0};
    child c;
    if (start(&c)) {
        aether_snapshot *t;
        bool good = aether_snapshot_take(g, &t, NULL) == AETHER_OK; /* of the last commit */
        good &= say(c.done[1]);
        hear(c.go[0]);
        finish(good);
    }
    CHECK(hear(c.done[0]));
    CHECK_OK(aether_live_retire(g, &err), err);
    CHECK_EQ(snapshots(g), 1);
    CHECK_EQ(kill(c.pid, SIGKILL), 0);
    CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
    CHECK_EQ(snapshots(g), 0);
    aether_live_close(g);
}

/* No writer needs to help: the next reader takes a dead one's slot over. */
TEST(slots_of_killed_readers_are_taken_over) {
    enum { MOST = 256 };
    aether_live *g = make();
    aether_snapshot *t = NULL;
    child c;
    if (start(&c)) {
        bool good = true;
        for (int i = 0; i < MOST; i++)
            good &= aether_snapshot_take(g, &t, NULL) == AETHER_OK;
        good &= say(c.done[1]);
        hear(c.go[0]);
        finish(good);
    }
    CHECK(hear(c.done[0]));
    aether_error err = {0};
    char holder[64];
    CHECK_CODE(aether_snapshot_take(g, &t, &err), AETHER_E_LIMIT);
    snprintf(holder, sizeof holder, "(process %d has 256)", (int)c.pid);
    CHECK_HAS(err.message, holder);
    CHECK_EQ(kill(c.pid, SIGKILL), 0);
    CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
    CHECK_CODE(aether_snapshot_take(g, &t, NULL), AETHER_OK);
    aether_snapshot_release(t);
    CHECK_EQ(snapshots(g), MOST - 1);
    aether_live_close(g);
}

TEST(those_that_have_the_most_snapshots_are_named) {
    enum { CHILDREN = 10, MOST = 256 };
    aether_live *g = make();
    aether_snapshot *t[MOST] = {0};
    child c[CHILDREN];
    unsigned left = MOST;
    for (unsigned i = 0; i < CHILDREN; i++) {
        const unsigned own = 2 * i + 1;
        left -= own;
        if (start(&c[i])) {
            bool good = true;
            for (unsigned j = 0; j < own; j++)
                good &= aether_snapshot_take(g, &t[j], NULL) == AETHER_OK;
            good &= say(c[i].done[1]);
            hear(c[i].go[0]);
            finish(good);
        }
        CHECK(hear(c[i].done[0]));
    }
    for (unsigned j = 0; j < left; j++)
        CHECK_CODE(aether_snapshot_take(g, &t[j], NULL), AETHER_OK);
    aether_snapshot *more = NULL;
    aether_error err = {0};
    char most[200];
    CHECK_CODE(aether_snapshot_take(g, &more, &err), AETHER_E_LIMIT);
    snprintf(most, sizeof most, "(process %d has %u, process %d has 19, process %d has 17, ", (int)getpid(),
             left, (int)c[9].pid, (int)c[8].pid);
    CHECK_HAS(err.message, most);
    snprintf(most, sizeof most, "process %d has 7, and others): close some", (int)c[3].pid);
    CHECK_HAS(err.message, most);
    for (unsigned j = 0; j < left; j++)
        aether_snapshot_release(t[j]);
    for (unsigned i = 0; i < CHILDREN; i++) {
        CHECK(say(c[i].go[1]));
        CHECK_EQ(waitpid(c[i].pid, NULL, 0), c[i].pid);
    }
    aether_live_close(g);
}

TEST(a_stranger_attaches_and_reads) {
    aether_live *g = make(), *other = NULL;
    int32_t fds[4];
    aether_live_relation relation;
    aether_error err = {0};
    aether_live_descriptors(g, fds);
    REQUIRE_OK(aether_live_attach(fds, 4, &other, &err), err);
    CHECK_EQ(aether_live_num_relations(other), 1);
    CHECK_OK(aether_live_relation_at(other, 0, &relation, &err), err);
    CHECK(memcmp(&relation, &plain.relation, sizeof relation) == 0);
    CHECK_OK(insert(g, 5, 6), err);
    CHECK_EQ(live_degree(other, 5), 1);
    CHECK_CODE(insert(other, 5, 7), AETHER_E_UNSUPPORTED);
    /* A pin of the other handle counts. */
    aether_snapshot *t = NULL;
    CHECK_OK(aether_snapshot_take(other, &t, &err), err);
    CHECK_EQ(snapshots(g), 1);
    aether_live_close(g); /* the memory stays until the last handle is closed */
    int64_t node = 5, id;
    CHECK_OK(aether_topology_neighbors(
                 live_lists(t),
                 AE_SIZED(aether_list_request, .nodes = &node, .n = 1, .capacity = 1, .neighbors = &id), NULL,
                 &err),
             err);
    CHECK_EQ(id, 6);
    aether_snapshot_release(t);
    aether_live_close(other);
}

TEST(others_cannot_write_or_resize) {
    aether_live *g = make();
    int32_t fds[4];
    aether_live_descriptors(g, fds);
    for (int i = 0; i < 4; i++) {
        struct stat status;
        CHECK_EQ(fstat(fds[i], &status), 0);
        void *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
        CHECK((data == MAP_FAILED) == (i != 1)); /* all write pins */
        if (data != MAP_FAILED)
            munmap(data, 4096);
        CHECK_EQ(ftruncate(fds[i], 0), -1);
        CHECK_EQ(ftruncate(fds[i], status.st_size + 4096), -1);
        CHECK(i == 1 || (pwrite(fds[i], "x", 1, 0) == -1 && errno == EPERM));
    }
    aether_live_close(g);
}

TEST(descriptors_of_something_else_are_refused) {
    static const char *const names[4] = {"control block", "pins", "table", "arena"};
    aether_live *g = make(), *other = NULL;
    int32_t fds[4], wrong[4];
    aether_error err = {0};
    aether_live_descriptors(g, fds);
    for (int i = 0; i < 4; i++) {
        memcpy(wrong, fds, sizeof wrong);
        wrong[i] = open("/dev/null", O_RDONLY);
        CHECK_CODE(aether_live_attach(wrong, 4, &other, &err), AETHER_E_INVALID);
        close(wrong[i]);
        struct stat status; /* of the same size, but without seals: its owner could cut it */
        wrong[i] = memfd_create("unsealed", MFD_CLOEXEC);
        CHECK(fstat(fds[i], &status) == 0 && ftruncate(wrong[i], status.st_size) == 0);
        CHECK_CODE(aether_live_attach(wrong, 4, &other, &err), AETHER_E_INVALID);
        CHECK_HAS(err.message, "no sealed shared memory");
        close(wrong[i]);
        wrong[i] = 9999;
        CHECK_CODE(aether_live_attach(wrong, 4, &other, &err), AETHER_E_IO);
        CHECK_HAS(err.message, names[i]);
    }
    const int32_t swapped[4] = {fds[2], fds[1], fds[0], fds[3]},
                  shifted[4] = {fds[0], fds[2], fds[2], fds[3]};
    CHECK_CODE(aether_live_attach(swapped, 4, &other, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "not the control block");
    CHECK_CODE(aether_live_attach(shifted, 4, &other, &err), AETHER_E_IO);
    CHECK_HAS(err.message, "pins");
    CHECK_CODE(aether_live_attach(fds, 3, &other, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "has 4 descriptors, not 3");
    CHECK_CODE(aether_live_attach(fds, 0, &other, &err), AETHER_E_INVALID);
    aether_live *second = make();
    for (int i = 2; i < 4; i++) {
        int32_t mixed[4];
        aether_live_descriptors(second, mixed);
        mixed[i] = fds[i];
        CHECK_CODE(aether_live_attach(mixed, 4, &other, &err), AETHER_E_INVALID);
        CHECK_HAS(err.message,
                  i == 2 ? "not the table of this live graph" : "not the arena of this live graph");
    }
    CHECK(!other);
    aether_live_close(second);
    aether_live_close(g);
}

TEST(processes_are_told_apart) {
    const uint64_t self = ae_process_self();
    CHECK_EQ(ae_process_pid(self), getpid());
    CHECK(ae_process_alive(self));
    CHECK(ae_process_alive(ae_process_pid(self))); /* it could not read when it had started */
    CHECK(!ae_process_alive(self + (UINT64_C(1) << AE_PROCESS_PID_BITS))); /* the pid, started later */
    CHECK(!ae_process_alive(self - (UINT64_C(1) << AE_PROCESS_PID_BITS))); /* ... or sooner */
    const pid_t pid = fork();
    if (pid == 0)
        _exit(ae_process_pid(ae_process_self()) == (uint32_t)getpid() && ae_process_self() != self ? 0 : 1);
    int status = -1;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(!ae_process_alive((uint64_t)pid));
}

TEST(a_process_that_nobody_has_waited_for_is_dead) {
    child c;
    if (start(&c)) {
        const uint64_t own = ae_process_self();
        finish(write(c.done[1], &own, sizeof own) == sizeof own);
    }
    uint64_t process;
    siginfo_t info;
    CHECK_EQ(read(c.done[0], &process, sizeof process), sizeof process);
    CHECK_EQ(waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT), 0);
    CHECK_EQ(kill(c.pid, 0), 0); /* as if it lived */
    CHECK(!ae_process_alive(process));
    CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
    CHECK(!ae_process_alive(process));
}

static child *of_thread;

static void *outlive_the_main_thread(void *unused) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)getpid());
    for (int tries = 0; tries < 2000 && !strstr(text, ") Z "); tries++) {
        usleep(5000);
        FILE *stat = fopen(path, "r");
        if (!stat || !fgets(text, sizeof text, stat))
            text[0] = '\0';
        if (stat)
            fclose(stat);
    }
    const uint64_t own = strstr(text, ") Z ") ? ae_process_self() : 0;
    if (write(of_thread->done[1], &own, sizeof own) != sizeof own)
        _exit(1);
    hear(of_thread->go[0]);
    _exit(0);
    return unused;
}

/* The kernel says of such a process that it is a zombie; its threads write on. */
TEST(a_process_whose_main_thread_has_ended_lives) {
    child c;
    if (start(&c)) {
        pthread_t thread;
        of_thread = &c;
        if (pthread_create(&thread, NULL, outlive_the_main_thread, NULL) != 0)
            _exit(1);
        syscall(SYS_exit, 0); /* of this thread alone */
    }
    uint64_t process = 0;
    CHECK_EQ(read(c.done[0], &process, sizeof process), sizeof process);
    CHECK(process);
    CHECK(ae_process_alive(process));
    CHECK_EQ(kill(c.pid, SIGKILL), 0);
    CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
    CHECK(!ae_process_alive(process));
}

TEST_MAIN()
