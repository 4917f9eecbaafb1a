/* The SIGBUS guard: mapped files that shrink, alone and among other handlers. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "os/sigbus.h"
#include "test.h"

enum { PAGE = 4096, PAGES = 64, SIZE = PAGES * PAGE };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* sanitizers have handlers of their own and exit instead of dying of a signal */
#else
#define SANITIZED 0
#endif

static char path[256];

static void make_file(const char *name) {
    static uint8_t data[SIZE];
    memset(data, 0xAA, sizeof data);
    FILE *file = fopen(test_path(path, sizeof path, name), "wb");
    if (!file || fwrite(data, 1, SIZE, file) != SIZE || fclose(file) != 0)
        abort();
}

static aether_file *map_file(const char *name) {
    aether_error err;
    aether_file *file;
    make_file(name);
    return aether_file_map_raw(path, &file, &err) == AETHER_OK ? file : NULL;
}

static uint8_t peek(const aether_file *file, size_t at) {
    return ((const volatile uint8_t *)aether_file_base(file))[at];
}

/* Run in a child: signal handling is left as it is for the next test. Returns
 * the exit status, or 1000 + the signal that killed it. */
static int in_child(int (*work)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(work());
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "      %s:%d: %s\n", __FILE__, __LINE__, #condition);                            \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

/* ---- a file that shrinks -------------------------------------------------------- */

static int shrink(void) {
    aether_error err;
    aether_file *file = map_file("shrink");
    EXPECT(file && peek(file, SIZE - 1) == 0xAA);
    EXPECT(truncate(path, 10 * PAGE + 100) == 0);
    EXPECT(peek(file, 0) == 0xAA);
    EXPECT(peek(file, 10 * PAGE + 99) == 0xAA);
    EXPECT(peek(file, 10 * PAGE + 100) == 0); /* the rest of the last page: no fault */
    EXPECT(aether_file_check(file, &err) == AETHER_E_FILE_CHANGED);
    EXPECT(strstr(err.message, "shrank from 262144 to 41060"));
    EXPECT(err.position == 10 * PAGE + 100 && err.value == SIZE);
    for (size_t at = 11 * PAGE; at < SIZE; at += PAGE / 2)
        EXPECT(peek(file, at) == 0);
    EXPECT(peek(file, 5 * PAGE) == 0xAA); /* what is there stays readable */
    /* Growing again does not undo it: the zeros stay, and so does the error. */
    EXPECT(truncate(path, SIZE) == 0);
    EXPECT(peek(file, SIZE - 1) == 0);
    EXPECT(aether_file_check(file, &err) == AETHER_E_FILE_CHANGED);
    EXPECT(strstr(err.message, "could not be read at byte 45056"));
    aether_file_close(file);
    return 0;
}

TEST(a_file_that_shrinks_reads_as_zeros) {
    CHECK_EQ(in_child(shrink), 0);
}

static int shrink_to_nothing(void) {
    aether_error err;
    aether_file *file = map_file("nothing");
    EXPECT(file && truncate(path, 0) == 0);
    for (size_t at = SIZE; at-- > 0; at -= at % 997)
        EXPECT(peek(file, at) == 0);
    EXPECT(aether_file_check(file, &err) == AETHER_E_FILE_CHANGED);
    EXPECT(aether_file_check(file, NULL) == AETHER_E_FILE_CHANGED);
    aether_file_close(file);
    file = map_file("nothing"); /* the slot starts afresh */
    EXPECT(file && aether_file_check(file, &err) == AETHER_OK && peek(file, 1) == 0xAA);
    aether_file_close(file);
    return 0;
}

TEST(a_file_that_shrinks_to_nothing) {
    CHECK_EQ(in_child(shrink_to_nothing), 0);
}

/* Stores into a mapping that was registered as writable go on, and go nowhere. */
static int store_while_it_shrinks(void) {
    make_file("stores");
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    volatile uint8_t *data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ae_sigbus_slot *slot = ae_sigbus_add((const void *)data, SIZE, fd, true);
    ae_sigbus_install();
    EXPECT(fd >= 0 && data != MAP_FAILED && slot);
    data[SIZE - 1] = 1;
    EXPECT(ae_sigbus_damage(slot) == -1 && ftruncate(fd, 10 * PAGE) == 0);
    data[SIZE - 1] = 2;
    EXPECT(ae_sigbus_damage(slot) == 10 * PAGE);
    EXPECT(data[SIZE - 1] == 2 && data[10 * PAGE] == 0);
    data[0] = 3; /* what is there is still the file's */
    uint8_t byte = 0;
    EXPECT(ftruncate(fd, SIZE) == 0 && pread(fd, &byte, 1, 0) == 1 && byte == 3);
    EXPECT(pread(fd, &byte, 1, SIZE - 1) == 1 && byte == 0);
    ae_sigbus_remove(slot);
    return 0;
}

TEST(stores_into_a_file_that_shrinks_go_nowhere) {
    CHECK_EQ(in_child(store_while_it_shrinks), 0);
}

static int shrink_container(void) {
    aether_error err;
    aether_writer *w;
    aether_file *file;
    static const uint8_t data[SIZE] = {1};
    test_path(path, sizeof path, "container");
    EXPECT(aether_writer_create(path, AETHER_CONTENT_FEATURES, &w, &err) == AETHER_OK);
    EXPECT(aether_writer_begin(w, AETHER_SECTION_ARRAY, 0, AETHER_U8, &err) == AETHER_OK);
    EXPECT(aether_writer_append(w, data, SIZE, NULL, &err) == AETHER_OK);
    EXPECT(aether_writer_end(w, &err) == AETHER_OK && aether_writer_commit(w, &err) == AETHER_OK);
    EXPECT(aether_file_open(path, &file, &err) == AETHER_OK);
    EXPECT(truncate(path, 5000) == 0);
    const volatile uint8_t *mapped = aether_file_data(file, 0);
    EXPECT(mapped[0] == 1 && mapped[SIZE - 1] == 0);
    EXPECT(aether_file_verify(file, NULL, &err) == AETHER_E_FILE_CHANGED);
    EXPECT(aether_file_check(file, &err) == AETHER_E_FILE_CHANGED);
    aether_file_close(file);
    return 0;
}

/* As cp does it: the same inode, other content, in the end the same size. */
static int overwrite_in_place(void) {
    aether_error err;
    aether_file *file;
    EXPECT(shrink_container() == 0); /* makes the path; starts over below */
    aether_writer *w;
    EXPECT(aether_writer_create(path, AETHER_CONTENT_FEATURES, &w, &err) == AETHER_OK);
    EXPECT(aether_writer_commit(w, &err) == AETHER_OK);
    EXPECT(aether_file_open(path, &file, &err) == AETHER_OK);
    EXPECT(aether_file_check(file, &err) == AETHER_OK);
    usleep(20000); /* more than the grain of file times */
    int fd = open(path, O_WRONLY);
    EXPECT(fd >= 0 && pwrite(fd, "x", 1, 5) == 1);
    EXPECT(aether_file_check(file, &err) == AETHER_E_FILE_CHANGED);
    EXPECT(strstr(err.message, "was written to while it was open"));
    EXPECT(aether_file_verify(file, NULL, &err) == AETHER_E_FILE_CHANGED);
    aether_file_close(file);
    return 0;
}

TEST(a_container_written_to_in_place) {
    CHECK_EQ(in_child(overwrite_in_place), 0);
}

TEST(a_container_that_shrinks) {
    CHECK_EQ(in_child(shrink_container), 0);
}

/* Reads by the kernel into or from lost pages fail instead of faulting. */
static int kernel_access(void) {
    aether_file *file = map_file("kernel");
    int sink = open("/dev/null", O_WRONLY), pipes[2];
    EXPECT(file && sink >= 0 && pipe(pipes) == 0 && truncate(path, PAGE) == 0);
    const char *lost = (const char *)aether_file_base(file) + 9 * PAGE;
    EXPECT(write(pipes[1], lost, 8) == -1 && errno == EFAULT);
    EXPECT(*lost == 0);
    EXPECT(write(pipes[1], lost, 8) == 8);
    aether_file_close(file);
    return 0;
}

TEST(system_calls_on_lost_pages_fail) {
    CHECK_EQ(in_child(kernel_access), 0);
}

/* ---- threads ---------------------------------------------------------------------- */

typedef struct {
    const aether_file *file;
    unsigned seed;
    atomic_uint *errors;
} reader;

/* 0xAA or 0, never 0xAA again after the damage was reported for that byte. */
static void *read_everywhere(void *context) {
    const reader *r = context;
    uint64_t state = r->seed;
    for (int i = 0; i < 20000; i++) {
        uint8_t byte = peek(r->file, test_random(&state) % SIZE);
        if (byte != 0xAA && byte != 0)
            atomic_fetch_add(r->errors, 1);
    }
    return NULL;
}

static void *map_and_close(void *context) {
    const reader *r = context;
    aether_error err;
    for (int i = 0; i < 300; i++) {
        aether_file *file;
        if (aether_file_map_raw(path, &file, &err) != AETHER_OK || (peek(file, 0) != 0xAA))
            atomic_fetch_add(r->errors, 1);
        aether_file_close(file);
    }
    return NULL;
}

static int threads(void) {
    enum { READERS = 6, OPENERS = 3 };
    pthread_t ids[READERS + OPENERS];
    reader readers[READERS + OPENERS];
    atomic_uint errors = 0;
    aether_file *file = map_file("threads");
    EXPECT(file);
    for (unsigned i = 0; i < READERS + OPENERS; i++) {
        readers[i] = (reader){file, i, &errors};
        EXPECT(pthread_create(&ids[i], NULL, i < READERS ? read_everywhere : map_and_close, &readers[i]) ==
               0);
    }
    for (int pages = PAGES; pages > 1; pages--) {
        EXPECT(truncate(path, pages * PAGE - 5) == 0);
        usleep(200);
    }
    for (unsigned i = 0; i < READERS + OPENERS; i++)
        pthread_join(ids[i], NULL);
    EXPECT(atomic_load(&errors) == 0);
    EXPECT(aether_file_check(file, NULL) == AETHER_E_FILE_CHANGED);
    aether_file_close(file);
    return 0;
}

TEST(many_threads_read_while_it_shrinks) {
    CHECK_EQ(in_child(threads), 0);
}

/* More mappings than one chunk of slots, each damaged by itself. */
static int many_files(void) {
    enum { COUNT = 200 };
    static aether_file *files[COUNT];
    aether_error err;
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "many-%d", i);
        files[i] = map_file(name);
        EXPECT(files[i]);
        if (i % 2)
            EXPECT(truncate(path, PAGE) == 0);
    }
    for (int i = 0; i < COUNT; i++) {
        EXPECT(peek(files[i], 3 * PAGE) == (i % 2 ? 0 : 0xAA));
        EXPECT(aether_file_check(files[i], &err) == (i % 2 ? AETHER_E_FILE_CHANGED : AETHER_OK));
    }
    for (int i = 0; i < COUNT; i++)
        aether_file_close(files[i]);
    return 0;
}

TEST(many_files_are_told_apart) {
    CHECK_EQ(in_child(many_files), 0);
}

static int after_fork(void) {
    aether_file *file = map_file("fork");
    EXPECT(file);
    pid_t child = fork();
    if (child == 0) {
        bool good = truncate(path, PAGE) == 0 && peek(file, 7 * PAGE) == 0 &&
                    aether_file_check(file, NULL) == AETHER_E_FILE_CHANGED;
        _exit(good ? 0 : 1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(peek(file, 7 * PAGE) == 0);
    return 0;
}

TEST(parent_and_child_are_both_guarded) {
    CHECK_EQ(in_child(after_fork), 0);
}

/* ---- other handlers ----------------------------------------------------------------- */

static volatile sig_atomic_t foreign_calls;

/* A mapping that is not ours, beyond the end of its file. */
static const volatile uint8_t *foreign_mapping(void) {
    make_file("foreign");
    int fd = open(path, O_RDWR);
    uint8_t *data = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    return ftruncate(fd, 0) == 0 ? data : NULL;
}

static int foreign_fault(void) {
    aether_file *file = map_file("ours");
    const volatile uint8_t *data = foreign_mapping();
    EXPECT(file && data);
    return data[0] ? 2 : 3; /* not reached */
}

TEST(a_fault_elsewhere_kills_as_ever) {
    if (SANITIZED)
        SKIP("the sanitizer's own handler is in place");
    CHECK_EQ(in_child(foreign_fault), 1000 + SIGBUS);
}

static int sent_signal(void) {
    aether_file *file = map_file("ours");
    EXPECT(file && raise(SIGBUS) == 0);
    return 3; /* not reached */
}

TEST(a_sent_signal_kills_as_ever) {
    if (SANITIZED)
        SKIP("the sanitizer's own handler is in place");
    CHECK_EQ(in_child(sent_signal), 1000 + SIGBUS);
}

static void repair_foreign(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    void *page = (void *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    foreign_calls++;
    if (info->si_code > 0)
        mmap(page, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void install_foreign(void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
}

static int chains(void) {
    install_foreign(repair_foreign);
    aether_file *file = map_file("chain");
    const volatile uint8_t *data = foreign_mapping();
    test_path(path, sizeof path, "chain");
    EXPECT(file && data && truncate(path, 0) == 0);
    for (int i = 0; i < 5; i++) { /* theirs and ours, in turn */
        EXPECT(data[i * PAGE] == 0);
        EXPECT(foreign_calls == i + 1);
    }
    EXPECT(peek(file, 3 * PAGE) == 0);
    EXPECT(foreign_calls == 5);
    return 0;
}

TEST(other_faults_go_to_the_earlier_handler) {
    CHECK_EQ(in_child(chains), 0);
}

static int sent_to_earlier(void) {
    install_foreign(repair_foreign);
    aether_file *file = map_file("sent");
    EXPECT(file && raise(SIGBUS) == 0 && raise(SIGBUS) == 0);
    EXPECT(foreign_calls == 2);
    return 0;
}

TEST(sent_signals_go_to_the_earlier_handler) {
    CHECK_EQ(in_child(sent_to_earlier), 0);
}

static int ignored(void) {
    signal(SIGBUS, SIG_IGN);
    aether_file *file = map_file("ignored");
    EXPECT(file && raise(SIGBUS) == 0);
    EXPECT(truncate(path, 0) == 0 && peek(file, 0) == 0);
    return 0;
}

TEST(ignored_sent_signals_stay_ignored) {
    CHECK_EQ(in_child(ignored), 0);
}

/* A library that comes later and replaces the handler, as data loader workers do. */
static int later_handler(void) {
    aether_file *file = map_file("later");
    EXPECT(file && aether_file_check(file, NULL) == AETHER_OK);
    install_foreign(repair_foreign);
    EXPECT(aether_file_check(file, NULL) == AETHER_OK); /* puts ours on top again */
    EXPECT(truncate(path, 0) == 0 && peek(file, 2 * PAGE) == 0);
    EXPECT(foreign_calls == 0);
    EXPECT(aether_file_check(file, NULL) == AETHER_E_FILE_CHANGED);
    const volatile uint8_t *data = foreign_mapping();
    EXPECT(data[0] == 0 && foreign_calls == 1);
    return 0;
}

TEST(a_later_handler_is_put_underneath) {
    CHECK_EQ(in_child(later_handler), 0);
}

/* As before, but nothing was checked since: reading begins with aether_guard(). */
static int later_handler_before_a_read(void) {
    aether_file *file = map_file("before_read");
    install_foreign(repair_foreign);
    EXPECT(file && truncate(path, 0) == 0);
    aether_guard();
    EXPECT(peek(file, 2 * PAGE) == 0 && foreign_calls == 0);
    EXPECT(aether_file_check(file, NULL) == AETHER_E_FILE_CHANGED);
    return 0;
}

TEST(reads_put_the_guard_on_top) {
    CHECK_EQ(in_child(later_handler_before_a_read), 0);
}

/* Handlers that print, restore what they replaced, and raise again: ours is
 * what the later one replaced, so this could go round for ever. */
static struct sigaction replaced;

static void restore_and_raise(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    foreign_calls++;
    sigaction(number, &replaced, NULL);
    raise(number);
}

static void call_replaced(int number, siginfo_t *info, void *context) {
    foreign_calls++;
    replaced.sa_sigaction(number, info, context);
}

static int loop_with(void (*handler)(int, siginfo_t *, void *)) {
    aether_file *file = map_file("loop");
    sigaction(SIGBUS, NULL, &replaced);
    install_foreign(handler);
    EXPECT(file && aether_file_check(file, NULL) == AETHER_OK);
    const volatile uint8_t *data = foreign_mapping();
    return data[0] ? 2 : 3; /* not reached */
}

static int restoring_loop(void) {
    return loop_with(restore_and_raise);
}
static int calling_loop(void) {
    return loop_with(call_replaced);
}

TEST(handlers_that_point_at_each_other_end) {
    if (SANITIZED)
        SKIP("the sanitizer's own handler is in place");
    CHECK_EQ(in_child(restoring_loop), 1000 + SIGBUS);
    CHECK_EQ(in_child(calling_loop), 1000 + SIGBUS);
}

/* ---- opting out ----------------------------------------------------------------------- */

static int switched_off(void) {
    struct sigaction action;
    setenv("AETHERGRAPH_NO_SIGBUS_GUARD", "1", 1);
    struct sigaction before;
    sigaction(SIGBUS, NULL, &before);
    aether_file *file = map_file("off");
    EXPECT(file && sigaction(SIGBUS, NULL, &action) == 0 && action.sa_handler == before.sa_handler);
    EXPECT(truncate(path, 0) == 0);
    EXPECT(aether_file_check(file, NULL) == AETHER_E_FILE_CHANGED); /* still noticed */
    aether_file_close(file);
    return 0;
}

TEST(the_guard_can_be_switched_off) {
    CHECK_EQ(in_child(switched_off), 0);
}

/* errno and the registry survive; unknown addresses belong to nobody. */
static int find_and_errno(void) {
    const void *start;
    uint64_t size;
    aether_file *file = map_file("find");
    const char *base = aether_file_base(file);
    EXPECT(ae_sigbus_find(base + 5, &start, &size) >= 0 && start == base && size == SIZE);
    EXPECT(ae_sigbus_find(base - 1, &start, &size) == -1 || start != base);
    EXPECT(ae_sigbus_find(&size, &start, &size) == -1);
    EXPECT(truncate(path, 0) == 0);
    errno = 1234;
    EXPECT(peek(file, 5) == 0 && errno == 1234);
    aether_file_close(file);
    EXPECT(ae_sigbus_find(base + 5, &start, &size) == -1);
    return 0;
}

TEST(regions_are_found_and_errno_is_kept) {
    CHECK_EQ(in_child(find_and_errno), 0);
}

TEST_MAIN()
