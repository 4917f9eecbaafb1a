/* Live graphs whose edges are in memory of their user's: hooks that count, that refuse, that are wrong. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live_helpers.h"
#include "topology/topology.h"

enum { NODES = 100, ARENA = 4 << 20, LISTS = 2 };

/* What the hooks have seen, and when they refuse. */
typedef struct counter {
    uint64_t reserved, released, reserves, releases, commits, bytes;
    uint64_t ends[LISTS]; /* of what is committed, in each reserve */
    uint8_t *at[LISTS];
    uint64_t wrong;
    uint64_t most_reserves, most_bytes; /* refuse more */
    uint64_t shift;                     /* of what is handed out */
} counter;

static void *reserve(void *context, uint64_t size) {
    counter *c = context;
    if (c->reserves == c->most_reserves)
        return NULL;
    uint8_t *data =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return NULL;
    c->reserved += size;
    c->at[c->reserves++ % LISTS] = data;
    return data + c->shift;
}

static int commit(void *context, void *data, uint64_t offset, uint64_t size) {
    counter *c = context;
    const int list = data == c->at[1];
    c->wrong += (data != c->at[0] && !list) || offset != c->ends[list] || !size;
    if (c->bytes + size > c->most_bytes)
        return 12;
    c->ends[list] = offset + size;
    c->bytes += size;
    c->commits++;
    return 0;
}

static void release(void *context, void *data, uint64_t size) {
    counter *c = context;
    c->released += size;
    c->releases++;
    munmap((uint8_t *)data - c->shift, size);
}

static counter unlimited(void) {
    return (counter){.most_reserves = LISTS, .most_bytes = UINT64_MAX};
}

static int create(counter *c, uint32_t flags, bool commits, aether_live **out, aether_error *err) {
    const aether_live_relation r = {.num_src = NODES,
                                    .num_dst = NODES,
                                    .layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR,
                                    .order = AETHER_ORDER_TIME,
                                    .edge_id_bytes = 8};
    aether_live_memory memory = {c, reserve, commits ? commit : NULL, release};
    const aether_live_options o = {.relations = &r,
                                   .num_relations = 1,
                                   .flags = flags,
                                   .arena_bytes = ARENA,
                                   .memory = c ? &memory : NULL};
    const int rc = aether_live_create(&o, out, err);
    memory = (aether_live_memory){0}; /* it was copied */
    return rc;
}

static int insert(aether_live *g, uint64_t n, uint64_t *state, aether_error *err) {
    static int64_t src[1 << 16], dst[1 << 16];
    uint64_t inserted;
    for (uint64_t i = 0; i < n; i++) {
        src[i] = (int64_t)(test_random(state) % NODES);
        dst[i] = (int64_t)(test_random(state) % NODES);
    }
    const aether_live_edges edges = {.src = src, .dst = dst, .count = n};
    return aether_live_insert(g, 0, &edges, NULL, &inserted, err);
}

/* Check that two graphs have the same lists. */
static void compare(const aether_live *a, const aether_live *b) {
    const aether_live *both[2] = {a, b};
    static int64_t degrees[2][NODES], ids[2][1 << 17], edges[2][1 << 17];
    for (uint32_t layout = AETHER_LIVE_CSC; layout <= AETHER_LIVE_CSR; layout++) {
        memset(ids, 0, sizeof ids);
        for (int i = 0; i < 2; i++) {
            aether_error err = {0};
            aether_snapshot *s = live_pin(both[i]);
            const aether_topology *t = aether_snapshot_topology(s, 0, layout);
            CHECK_OK(aether_topology_degrees(t, NULL, NODES, degrees[i], NULL, &err), err);
            CHECK_OK(aether_topology_neighbors(t,
                                               AE_SIZED(aether_list_request, .n = NODES, .capacity = 1 << 17,
                                                        .neighbors = ids[i], .edges = edges[i]),
                                               NULL, &err),
                     err);
            aether_snapshot_release(s);
        }
        CHECK(memcmp(degrees[0], degrees[1], sizeof degrees[0]) == 0);
        CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
        CHECK(memcmp(edges[0], edges[1], sizeof edges[0]) == 0);
    }
}

TEST_ONE_THREAD(a_graph_in_memory_that_counts) {
    for (int commits = 0; commits < 2; commits++) {
        counter c = unlimited();
        aether_live *g = NULL, *twin = NULL;
        aether_live_stats stats;
        aether_error err = {0};
        uint64_t state = 1, twin_state = 1;
        REQUIRE_OK(create(&c, AETHER_LIVE_HUGE, commits, &g, &err), err);
        REQUIRE_OK(create(NULL, 0, false, &twin, &err), err);
        CHECK_EQ(c.reserves, LISTS);
        CHECK_EQ(c.reserved, (uint64_t)LISTS * ARENA);
        CHECK_EQ(aether_live_num_descriptors(g), 0);
        CHECK(aether_live_num_descriptors(twin) > 0);
        for (int i = 0; i < 5; i++) {
            CHECK_OK(insert(g, 5000, &state, &err), err);
            CHECK_OK(insert(twin, 5000, &twin_state, &err), err);
            compare(g, twin);
        }
        aether_live_count(g, &stats);
        CHECK(!commits || (c.commits > 2 && c.bytes >= stats.used_bytes && c.bytes <= ARENA));
        CHECK_EQ(c.wrong, 0);
        CHECK_EQ(c.releases, 0);
        aether_live_close(g);
        aether_live_close(twin);
        CHECK_EQ(c.releases, LISTS);
        CHECK_EQ(c.released, c.reserved);
    }
}

/* Whatever commit() refuses: the change is undone, readers go on, and later changes may succeed. */
TEST_ONE_THREAD(memory_that_is_refused) {
    for (uint64_t most = 0; most < 600 << 10; most += 40 << 10) {
        counter c = unlimited();
        aether_live *g = NULL, *twin = NULL;
        aether_error err = {0};
        uint64_t state = 2, twin_state = 2, refused = 0;
        c.most_bytes = most;
        REQUIRE_OK(create(&c, 0, true, &g, &err), err);
        REQUIRE_OK(create(NULL, 0, false, &twin, &err), err);
        for (int i = 0; i < 20; i++) {
            const uint64_t before = state;
            const int rc = insert(g, 2000, &state, &err);
            CHECK(rc == AETHER_OK || rc == AETHER_E_NO_MEMORY);
            refused += rc != AETHER_OK;
            if (rc == AETHER_OK) {
                twin_state = before;
                CHECK_OK(insert(twin, 2000, &twin_state, &err), err);
            }
        }
        CHECK(refused > 0 || most > 300 << 10);
        c.most_bytes = UINT64_MAX;
        /* Edge ids of undone changes are given out again, so the twin has the same ones. */
        twin_state = state;
        CHECK_OK(insert(g, 2000, &state, &err), err);
        CHECK_OK(insert(twin, 2000, &twin_state, &err), err);
        compare(g, twin);
        aether_live_close(g);
        aether_live_close(twin);
        CHECK_EQ(c.wrong, 0);
        CHECK_EQ(c.releases, LISTS);
    }
}

static void *reserve_nothing(void *context, uint64_t size) {
    (void)context;
    void *data = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

static int allow(void *context, void *data, uint64_t offset, uint64_t size) {
    (void)context;
    return mprotect((uint8_t *)data + offset, size, PROT_READ | PROT_WRITE) ? 12 : 0;
}

static void unmap(void *context, void *data, uint64_t size) {
    (void)context;
    munmap(data, size);
}

/* What a position from anywhere leads to is not even looked at behind what was committed. */
TEST(positions_of_memory_that_is_not_there) {
    const aether_live_memory memory = {.reserve = reserve_nothing, .commit = allow, .release = unmap};
    const aether_live_relation r = {.num_src = NODES,
                                    .num_dst = NODES,
                                    .layouts = AETHER_LIVE_CSC,
                                    .order = AETHER_ORDER_TIME,
                                    .edge_id_bytes = 8};
    const aether_live_options o = {
        .relations = &r, .num_relations = 1, .arena_bytes = ARENA, .memory = &memory};
    aether_live *g = NULL;
    aether_error err = {0};
    uint64_t state = 4, out;
    REQUIRE_OK(aether_live_create(&o, &g, &err), err);
    for (int round = 0; round < 3; round++) {
        aether_snapshot *s = live_pin(g);
        const aether_topology *t = aether_snapshot_topology(s, 0, AETHER_LIVE_CSC);
        uint64_t refused = 0, asked = 0;
        for (uint64_t unit = 0; unit < ARENA / 16; unit += 64)
            for (uint64_t kind = 0; kind < 4; kind++) {
                const uint64_t position =
                    UINT64_C(1) << 62 | (kind & 1) << 61 | unit << 30 | (kind & 2) * 500;
                for (uint32_t what = AETHER_ASK_IDS; what <= AETHER_ASK_EDGES; what++, asked++) {
                    const int rc = aether_topology_answer(t, what, &position, 1, &out, &err);
                    CHECK(rc == AETHER_OK || rc == AETHER_E_RANGE);
                    refused += rc == AETHER_E_RANGE;
                }
            }
        CHECK(refused > asked / 2);
        CHECK(round || refused == asked);
        aether_snapshot_release(s);
        CHECK_OK(insert(g, 5000, &state, &err), err);
    }
    aether_live_close(g);
}

TEST(reserves_that_fail) {
    for (uint64_t most = 0; most < LISTS; most++) {
        counter c = unlimited();
        aether_live *g = NULL;
        aether_error err = {0};
        c.most_reserves = most;
        CHECK_CODE(create(&c, 0, true, &g, &err), AETHER_E_NO_MEMORY);
        CHECK(g == NULL && strstr(err.message, "reserve() refused"));
        CHECK_EQ(c.releases, most);
    }
    counter c = unlimited();
    aether_live *g = NULL;
    aether_error err = {0};
    c.shift = 64;
    CHECK_CODE(create(&c, 0, true, &g, &err), AETHER_E_INVALID);
    CHECK(strstr(err.message, "multiple of 4096"));
    CHECK_EQ(c.releases, 1);
    const aether_live_relation r = {.num_src = 1, .num_dst = 1, .layouts = 1, .order = AETHER_ORDER_ID};
    const aether_live_memory none = {.reserve = reserve};
    const aether_live_options o = {
        .relations = &r, .num_relations = 1, .arena_bytes = ARENA, .memory = &none};
    CHECK_CODE(aether_live_create(&o, &g, &err), AETHER_E_INVALID);
    CHECK(strstr(err.message, "release"));
}

/* A child has a copy of the memory, which does not follow. */
TEST(a_forked_child_is_refused) {
    counter c = unlimited();
    aether_live *g = NULL;
    aether_error err = {0};
    uint64_t state = 3;
    int status = 0;
    REQUIRE_OK(create(&c, 0, true, &g, &err), err);
    CHECK_OK(insert(g, 1000, &state, &err), err);
    aether_snapshot *resting = live_pin(g);
    aether_snapshot_rest(resting);
    const pid_t child = fork();
    if (child == 0) {
        aether_snapshot *s;
        int good =
            aether_snapshot_take(g, &s, &err) == AETHER_E_UNSUPPORTED && s == NULL && err.value == getppid();
        good &= aether_live_degree(g, 0, AETHER_LIVE_CSC, 0, &err) == AETHER_E_UNSUPPORTED;
        good &= aether_snapshot_renew(resting, &err) == AETHER_E_UNSUPPORTED && err.value == getppid();
        aether_snapshot_release(resting);
        aether_live_close(g);
        good = good && c.releases == 0;
        _exit(good ? 7 : 8);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK_OK(insert(g, 1000, &state, &err), err);
    CHECK_OK(aether_snapshot_renew(resting, &err), err);
    aether_snapshot_release(resting);
    aether_live_close(g);
    CHECK_EQ(c.releases, LISTS);
}

TEST_MAIN()
