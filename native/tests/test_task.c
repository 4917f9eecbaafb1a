/* Looks at a task: which threads ask its caller, and what a look costs the others. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/task.h"
#include "test.h"

enum { LOOKS = 1000 };

/* Questions to the system for the number of a thread or a process: the linker puts these functions before
 * libc's (see the Makefile). */
static atomic_uint questions;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
pid_t __real_getpid(void);
pid_t __wrap_getpid(void);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (number == SYS_gettid)
        atomic_fetch_add(&questions, 1);
    return __real_syscall(number, a, b, c, d, e, f);
}

pid_t __wrap_getpid(void) {
    atomic_fetch_add(&questions, 1);
    return __real_getpid();
}

static atomic_uint polls;

static int32_t count_poll(void) {
    atomic_fetch_add(&polls, 1);
    return 0;
}

static int32_t cancel_now(void) {
    return 1;
}

static void *look_often(void *task) {
    for (int i = 0; i < LOOKS; i++)
        CHECK(!ae_task_cancelled(task));
    return NULL;
}

static void look_in_another_thread(aether_task *task) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, look_often, task) == 0);
    pthread_join(thread, NULL);
}

TEST(another_thread_polls_never_and_asks_the_system_once) {
    aether_task task = {.poll = count_poll};
    atomic_store(&polls, 0);
    atomic_store(&questions, 0);
    look_in_another_thread(&task);
    CHECK_EQ(atomic_load(&polls), 0);
    CHECK_EQ(atomic_load(&questions), 2); /* its own number, and the process's */
}

TEST(the_main_thread_polls_after_others_have_looked) {
    aether_task task = {.poll = cancel_now};
    aether_error err;
    look_in_another_thread(&task);
    CHECK_CODE(ae_task_check(&task, "waiting", &err), AETHER_E_CANCELLED);
    CHECK_STR(err.message, "waiting was cancelled");
    CHECK_EQ(task.cancel, 1);
}

/* Look, fork, and look in the child, of which this is the main thread. */
static void *look_and_fork(void *task) {
    int status = -1;
    CHECK(!ae_task_cancelled(task));
    const pid_t child = fork();
    if (child == 0)
        _exit(ae_task_cancelled(task) ? 0 : 1);
    CHECK(child > 0);
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    return NULL;
}

TEST(a_thread_that_forks_polls_in_the_child) {
    SKIP_FORK_UNDER_SANITIZERS();
    aether_task task = {.poll = cancel_now};
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, look_and_fork, &task) == 0);
    pthread_join(thread, NULL);
}

TEST_MAIN()
