/* Slots that another process reads by UCX while they are written: rows that are taken are whole. Without a
 * card UCX asks a thread of the other side, which copies memory as a card would, without a look at its order.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "slots/table.h"
#include "test.h"

enum { ROWS = 512, ITEMS = 128, AT_ONCE = 256, ROUNDS = 400 };

#define SKIP_WITHOUT_UCX()                                                                                   \
    do {                                                                                                     \
        static aether_error why;                                                                             \
        setenv("AETHERGRAPH_UCX_TLS", "tcp", 0);                                                             \
        setenv("UCX_LOG_LEVEL", "error", 0);                                                                 \
        if (aether_rdma_problem(&why))                                                                       \
            SKIP(why.message);                                                                               \
    } while (0)

static aether_table *make(void) {
    const aether_table_info info = {.num_rows = ROWS, .num_dims = 1, .shape = {ITEMS}, .dtype = AETHER_F32};
    aether_table *t = NULL;
    aether_error err;
    CHECK_OK(aether_table_create(NULL, &info, &t, &err), err);
    return t;
}

/* Row `row` as put number k leaves it. */
static void put(aether_table *t, int64_t row, unsigned k) {
    float data[ITEMS];
    uint64_t written;
    for (unsigned i = 0; i < ITEMS; i++)
        data[i] = (float)((unsigned)row * 4096 + k % 4096);
    (void)aether_table_put(t, &row, 1, data, sizeof data, NULL, &written, NULL, NULL);
}

static bool is_whole(const float *data, int64_t row) {
    for (unsigned i = 1; i < ITEMS; i++)
        if (data[i] != data[0])
            return false;
    return (int64_t)data[0] / 4096 == row;
}

/* ---- the side that is read: a process of its own -------------------------------------------- */

typedef struct hello {
    uint64_t base, size, address_size, key_size;
    uint8_t bytes[4096]; /* address, then key */
} hello;

static atomic_int stop;

static void *write_on(void *arg) {
    for (unsigned k = 1; !atomic_load(&stop); k++)
        for (int64_t row = 0; row < ROWS && !atomic_load(&stop); row++)
            put(arg, row, k);
    return NULL;
}

static _Noreturn void be_read(int to, int from) {
    aether_error err;
    aether_rdma_target *target = NULL;
    const void *key = NULL;
    hello h = {0};
    aether_table_info info;
    pthread_t writer;
    aether_table *t = make();
    for (int64_t row = 0; row < ROWS - 1; row++) /* the last one stays missing */
        put(t, row, 0);
    aether_table_describe(t, &info);
    h.base = (uint64_t)(uintptr_t)aether_table_slots(t);
    h.size = info.num_rows * info.stride;
    if (aether_rdma_target_create(&target, &err) ||
        aether_rdma_target_add(target, aether_table_slots(t), h.size, &key, &h.key_size, &err)) {
        fprintf(stderr, "%s\n", err.message);
        _exit(2);
    }
    const void *address = aether_rdma_target_address(target, &h.address_size);
    memcpy(h.bytes, address, h.address_size);
    memcpy(h.bytes + h.address_size, key, h.key_size);
    if (write(to, &h, sizeof h) != sizeof h)
        _exit(3);
    pthread_create(&writer, NULL, write_on, t);
    struct pollfd end = {.fd = from, .events = POLLIN};
    while (!poll(&end, 1, 0))
        aether_rdma_target_serve(target, 5, &err);
    atomic_store(&stop, 1);
    pthread_join(writer, NULL);
    aether_rdma_target_destroy(target);
    aether_table_close(t);
    _exit(0);
}

/* Start it; return its process and what it says. */
static pid_t start(hello *h, int *end) {
    int there[2], back[2];
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    const pid_t child = fork();
    if (child == 0) {
        close(there[0]);
        close(back[1]);
        be_read(there[1], back[0]);
    }
    close(there[1]);
    close(back[0]);
    *end = back[1];
    size_t have = 0;
    for (ssize_t got; (got = read(there[0], (char *)h + have, sizeof *h - have)) > 0;)
        have += (size_t)got;
    close(there[0]);
    CHECK_EQ(have, sizeof *h);
    return child;
}

/* ---- the side that reads ---------------------------------------------------------------------- */

static aether_rdma_reader *connect_to(const hello *h, uint8_t *land, uint64_t size) {
    aether_rdma_reader *r = NULL;
    aether_error err;
    CHECK_OK(aether_rdma_reader_create(h->bytes, h->bytes + h->address_size, h->base, h->size, &r, &err),
             err);
    CHECK_OK(aether_rdma_reader_land(r, land, size, &err), err);
    return r;
}

TEST(no_torn_row_is_taken) {
    SKIP_FORK_UNDER_SANITIZERS();
    SKIP_WITHOUT_UCX();
    static hello h;
    static float rows[AT_ONCE * ITEMS];
    static uint8_t whole[AT_ONCE];
    int64_t ids[AT_ONCE];
    uint64_t offsets[AT_ONCE], taken = 0, all = 0, odd = 0;
    aether_table_info info;
    aether_error err;
    int end;
    aether_table *like = make();
    aether_table_describe(like, &info);
    aether_table_close(like);
    const uint64_t bytes = 16 + info.row_bytes;
    uint8_t *land = aligned_alloc(4096, AT_ONCE * info.stride);
    const pid_t child = start(&h, &end);
    aether_rdma_reader *r = connect_to(&h, land, AT_ONCE * info.stride);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            ids[i] = (int64_t)((i * 7 + round * 13) % (ROWS - 1));
            offsets[i] = (uint64_t)ids[i] * info.stride;
        }
        CHECK_OK(aether_rdma_read(r,
                                  AE_SIZED(aether_rdma_pieces, offsets, AT_ONCE, bytes, info.stride, 10000),
                                  NULL, &err),
                 err);
        CHECK_OK(aether_slots_take(
                     &info, AE_SIZED(aether_slots, ids, AT_ONCE, land, info.stride, rows, sizeof rows, whole),
                     &taken, &err),
                 err);
        for (unsigned i = 0; i < AT_ONCE; i++)
            if (whole[i])
                CHECK(is_whole(rows + i * ITEMS, ids[i]));
            else
                odd++;
        all += taken;
    }
    CHECK(all > (uint64_t)ROUNDS * AT_ONCE / 2);
    CHECK_EQ(all + odd, (uint64_t)ROUNDS * AT_ONCE);
    /* Beyond the memory, and more than there is room for. */
    offsets[0] = h.size - bytes + 1;
    CHECK_CODE(
        aether_rdma_read(r, AE_SIZED(aether_rdma_pieces, offsets, 1, bytes, info.stride, 1000), NULL, &err),
        AETHER_E_RANGE);
    aether_rdma_reader_destroy(r);
    CHECK(write(end, "x", 1) == 1);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    close(end);
    free(land);
}

TEST(a_target_that_is_killed) {
    SKIP_FORK_UNDER_SANITIZERS();
    SKIP_WITHOUT_UCX();
    static hello h;
    aether_error err;
    int end, rc = 0;
    uint8_t *land = aligned_alloc(4096, 4096);
    const pid_t child = start(&h, &end);
    aether_rdma_reader *r = connect_to(&h, land, 4096);
    const uint64_t offset = 0;
    CHECK_OK(aether_rdma_read(r, AE_SIZED(aether_rdma_pieces, &offset, 1, 528, 576, 10000), NULL, &err), err);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 100 && !rc; i++)
        rc = aether_rdma_read(r, AE_SIZED(aether_rdma_pieces, &offset, 1, 528, 576, 1000), NULL, &err);
    CHECK_EQ(rc, AETHER_E_IO);
    CHECK_CODE(aether_rdma_read(r, AE_SIZED(aether_rdma_pieces, &offset, 1, 528, 576, 1000), NULL, &err),
               AETHER_E_IO);
    aether_rdma_reader_destroy(r);
    close(end);
    free(land);
}

static void *cancel_soon(void *arg) {
    usleep(200 * 1000);
    __atomic_store_n(&((aether_task *)arg)->cancel, 1, __ATOMIC_RELAXED);
    return NULL;
}

TEST(a_wait_for_a_target_that_has_stopped_ends_with_its_task) {
    SKIP_FORK_UNDER_SANITIZERS();
    SKIP_WITHOUT_UCX();
    static hello h;
    aether_error err;
    aether_task task = {0};
    pthread_t other;
    int end, status;
    uint8_t *land = aligned_alloc(4096, 4096);
    const pid_t child = start(&h, &end);
    aether_rdma_reader *r = connect_to(&h, land, 4096);
    const uint64_t offset = 0;
    CHECK_OK(aether_rdma_read(r, AE_SIZED(aether_rdma_pieces, &offset, 1, 528, 576, 10000), NULL, &err), err);
    kill(child, SIGSTOP);
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    pthread_create(&other, NULL, cancel_soon, &task);
    CHECK_CODE(aether_rdma_read(r, AE_SIZED(aether_rdma_pieces, &offset, 1, 528, 576, 60000), &task, &err),
               AETHER_E_CANCELLED);
    pthread_join(other, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    aether_rdma_reader_destroy(r);
    close(end);
    free(land);
}

TEST(slots_from_a_wrong_place_are_not_taken) {
    aether_table *t = make();
    aether_table_info info;
    aether_error err;
    float rows[2 * ITEMS];
    uint8_t whole[2];
    uint64_t taken;
    put(t, 3, 5);
    put(t, 4, 6);
    aether_table_describe(t, &info);
    const uint8_t *slots = (const uint8_t *)aether_table_slots(t) + 3 * info.stride;
    const int64_t right[2] = {3, 4}, wrong[2] = {3, 5}, missing[2] = {5, 6};
    CHECK_OK(aether_slots_take(&info,
                               AE_SIZED(aether_slots, right, 2, slots, info.stride, rows, sizeof rows, whole),
                               &taken, &err),
             err);
    CHECK(taken == 2 && whole[0] && whole[1] && is_whole(rows, 3) && is_whole(rows + ITEMS, 4));
    CHECK_OK(aether_slots_take(&info,
                               AE_SIZED(aether_slots, wrong, 2, slots, info.stride, rows, sizeof rows, whole),
                               &taken, &err),
             err);
    CHECK(taken == 1 && whole[0] && !whole[1]);
    CHECK_OK(aether_slots_take(&info,
                               AE_SIZED(aether_slots, missing, 2, slots + 2 * info.stride, info.stride, rows,
                                        sizeof rows, whole),
                               &taken, &err),
             err);
    CHECK_EQ(taken, 0);
    /* Every bit of a slot that counts. */
    uint8_t *copy = malloc(info.stride);
    for (uint64_t bit = 0; bit < 8 * (16 + info.row_bytes); bit++) {
        memcpy(copy, slots, info.stride);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK_OK(aether_slots_take(
                     &info, AE_SIZED(aether_slots, right, 1, copy, info.stride, rows, sizeof rows / 2, whole),
                     &taken, &err),
                 err);
        CHECK_EQ(taken, 0);
    }
    free(copy);
    CHECK_CODE(aether_slots_take(&info, AE_SIZED(aether_slots, right, 2, slots, info.stride, rows, 7, whole),
                                 &taken, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_slots_take(&info, AE_SIZED(aether_slots, right, 2, slots, 16, rows, sizeof rows, whole),
                                 &taken, &err),
               AETHER_E_INVALID);
    info.row_items++;
    CHECK_CODE(aether_slots_take(
                   &info, AE_SIZED(aether_slots, right, 2, slots, info.stride, rows, sizeof rows, whole),
                   &taken, &err),
               AETHER_E_INVALID);
    CHECK_CODE(
        aether_slots_take(NULL, AE_SIZED(aether_slots, right, 0, NULL, 0, NULL, 0, NULL), &taken, &err),
        AETHER_E_INVALID);
    aether_table_close(t);
}

TEST_MAIN()
