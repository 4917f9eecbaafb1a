/* Live graphs and tables of live rows whose memory their creator changes while others read it: by a stray
 * store, or to do harm. Readers fail, or see something else; they neither crash nor wait for ever. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <sched.h>

#include "live_damage.h"
#include "live_helpers.h"
#include "slots/table.h"

#define NODES LIVE_DAMAGE_NODES

static int times_of(int few, int many) {
    return test_long() && !TEST_SANITIZED ? many : few;
}

static live_spec plain(uint64_t base_edges) {
    return (live_spec){.relation = live_damage_relation(base_edges), .arena_bytes = 4 << 20};
}

/* Return a graph with a hub, whose list is large, and short lists. */
static aether_live *make(void) {
    aether_live *g = live_make(plain(0));
    aether_error err = {0};
    for (int64_t i = 0; i < 20000; i++)
        CHECK_OK(live_insert(g, i % 4 ? 7 : i % NODES, i % NODES, &err), err);
    return g;
}

/* What a graph has by node 7, as a reader finds it. */
static int read_node(const aether_live *reader, int64_t *degree, aether_error *err) {
    int64_t node = 7;
    aether_snapshot *s = NULL;
    int rc = aether_snapshot_take(reader, &s, err);
    if (rc)
        return rc;
    rc = aether_topology_degrees(live_lists(s), &node, 1, degree, NULL, err);
    int64_t *ids = rc ? NULL : malloc(((uint64_t)*degree + 1) * sizeof *ids);
    if (ids)
        rc = aether_topology_neighbors(live_lists(s),
                                       AE_SIZED(aether_list_request, .nodes = &node, .n = 1,
                                                .capacity = (uint64_t)*degree, .neighbors = ids),
                                       NULL, err);
    free(ids);
    aether_snapshot_release(s);
    return rc;
}

TEST(what_relations_are_is_read_once) {
    aether_live *g = make(), *reader = NULL;
    aether_live_relation as_attached;
    aether_error err = {0};
    REQUIRE_OK(live_attach_again(g, &reader, &err), err);
    /* The relations follow on the second page of the control block. */
    aether_live_relation *shared = (aether_live_relation *)(void *)(g->graph.control.memory.data + 4096);
    shared->layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR;
    shared->max_dst = shared->num_dst = UINT32_MAX;
    CHECK_OK(aether_live_relation_at(reader, 0, &as_attached, &err), err);
    CHECK_EQ(as_attached.layouts, AETHER_LIVE_CSC);
    CHECK_EQ(as_attached.max_dst, NODES);
    aether_live_close(reader);
    aether_live_close(g);
}

#define MANY 400 /* relations: each takes two descriptors */

static atomic_bool stop;

static void *flip_layouts(void *control) {
    uint8_t *block = control;
    for (uint32_t value = 1; !atomic_load(&stop); value ^= 2)
        for (uint64_t r = 0; r < MANY; r++)
            __atomic_store_n(&((aether_live_relation *)(void *)(block + 4096 + 32768 + r * 4224))->layouts,
                             value, __ATOMIC_RELAXED);
    return NULL;
}

TEST(a_creator_may_change_layouts_while_others_attach) {
    aether_live_relation *relations = calloc(MANY, sizeof *relations);
    for (uint32_t r = 0; r < MANY; r++)
        relations[r] = (aether_live_relation){
            .num_src = 8, .num_dst = 8, .max_src = 8, .max_dst = 8, .layouts = 1, .order = AETHER_ORDER_TIME};
    const aether_live_options o = {.relations = relations, .num_relations = MANY, .arena_bytes = 1 << 20};
    aether_live *g = NULL, *reader;
    aether_error err = {0};
    REQUIRE_OK(aether_live_create(&o, &g, &err), err);
    int32_t *fds = calloc(aether_live_num_descriptors(g), sizeof *fds);
    aether_live_descriptors(g, fds);
    pthread_t thread;
    pthread_create(&thread, NULL, flip_layouts, g->graph.control.memory.data);
    int attached = 0;
    for (int i = 0; i < 300; i++)
        attached += aether_live_attach(fds, 2, &reader, &err) == AETHER_OK; /* too few of them */
    CHECK_EQ(attached, 0);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    free(fds);
    free(relations);
    aether_live_close(g);
}

TEST(a_wrong_word_for_what_is_taken_leads_nowhere) {
    aether_live *g = make(), *reader = NULL;
    aether_error err = {0};
    int64_t degree = 0;
    REQUIRE_OK(live_attach_again(g, &reader, &err), err);
    CHECK_OK(read_node(reader, &degree, &err), err);
    CHECK_EQ(degree, 15000);
    const ae_lists *lists = &g->graph.lists[0];
    ae_root *root = &lists->table.roots[7];
    atomic_store(ae_table_taken(&lists->table), UINT64_C(1) << 40);
    atomic_store(&root->head, UINT64_C(0x7ffffff0) << 32 | 4); /* a small list behind the arena */
    CHECK_EQ(read_node(reader, &degree, &err), AETHER_E_RANGE);
    atomic_store(&root->head, UINT64_C(0xfffffff0) << 32 | 4); /* a large one */
    CHECK_EQ(read_node(reader, &degree, &err), AETHER_E_RANGE);
    atomic_store(&root->past, ae_past(ae_stamp_of(AE_STAMP_REACH), 0x7ffffff0)); /* a history */
    CHECK_OK(read_node(reader, &degree, &err), err);
    CHECK_EQ(degree, 0);
    aether_live_close(reader);
    aether_live_close(g);
}

TEST(a_list_is_not_longer_than_its_memory) {
    aether_live *g = make(), *reader = NULL;
    aether_error err = {0};
    int64_t degree = 0;
    REQUIRE_OK(live_attach_again(g, &reader, &err), err);
    ae_root *root = &g->graph.lists[0].table.roots[7];
    atomic_store(&root->head, atomic_load(&root->head) | UINT32_MAX);
    CHECK_EQ(read_node(reader, &degree, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "a list of 4294967295 entries");
    aether_live_close(reader);
    aether_live_close(g);
}

TEST(more_nodes_than_there_is_room_for_are_refused) {
    aether_live *g = make(), *reader = NULL;
    ae_control *c = &g->graph.control;
    aether_error err = {0};
    int64_t degree;
    REQUIRE_OK(live_attach_again(g, &reader, &err), err);
    const uint64_t last = aether_live_last_commit(g);
    ae_control_put_counts(c, 0, last, &(ae_counts){.num_src = NODES, .num_dst = UINT64_C(1) << 40});
    CHECK_EQ(read_node(reader, &degree, &err), AETHER_E_EXPIRED);
    CHECK_HAS(err.message, "the memory of the live graph is damaged");
    aether_live_relation_stats stats;
    CHECK_EQ(aether_live_count_relation(reader, 0, &stats, &err), AETHER_E_EXPIRED);
    aether_live_stats all;
    aether_live_count(reader, &all);
    CHECK_EQ(all.epoch, last);
    aether_live_close(reader);
    aether_live_close(g);
}

TEST(a_last_commit_without_numbers_is_not_waited_for) {
    aether_live *g = make(), *reader = NULL;
    aether_error err = {0};
    int64_t degree;
    aether_snapshot *held;
    REQUIRE_OK(live_attach_again(g, &reader, &err), err);
    held = live_pin(reader);
    const uint64_t last = aether_live_last_commit(g);
    ae_control_commit(&g->graph.control, last + 1000); /* a stray store */
    CHECK_EQ(aether_live_lsn(reader), 0);
    CHECK_EQ(read_node(reader, &degree, &err), AETHER_E_EXPIRED);
    CHECK_EQ(aether_snapshot_renew(held, &err), AETHER_E_EXPIRED);
    aether_snapshot_rest(held);
    CHECK_EQ(aether_snapshot_renew(held, &err), AETHER_E_EXPIRED);
    ae_control_commit(&g->graph.control, last);
    CHECK_OK(aether_snapshot_renew(held, &err), err);
    aether_snapshot_release(held);
    CHECK_OK(read_node(reader, &degree, &err), err);
    aether_live_stats stats;
    aether_live_count(reader, &stats);
    CHECK_EQ(stats.snapshots, 0); /* those that failed have let go */
    aether_live_close(reader);
    aether_live_close(g);
}

/* ---- any byte ---- */

static void damage(aether_live *g, const aether_live_base *base, uint64_t state, int times) {
    aether_live *reader = NULL;
    live_stretch all[LIVE_DAMAGE_STRETCHES];
    live_stretches(g, all);
    for (int i = 0; i < times; i++) {
        const live_stretch *part = &all[test_random(&state) % LIVE_DAMAGE_STRETCHES];
        /* Most of what leads elsewhere stands in the first pages. */
        const uint64_t within = test_random(&state) % 2 && part->size > 8192 ? 8192 : part->size;
        uint64_t *word = (uint64_t *)(void *)(part->at + test_random(&state) % (within / 8) * 8);
        const uint64_t before = *word, what = test_random(&state);
        /* A bit, half of the word, or all of it; what attaches sees it from the beginning, or later on. */
        const uint64_t other = what % 3 == 0   ? before ^ UINT64_C(1) << test_random(&state) % 64
                               : what % 3 == 1 ? (before & UINT32_MAX) | test_random(&state) << 32
                                               : test_random(&state);
        const bool early = what & 8;
        if (early)
            __atomic_store_n(word, other, __ATOMIC_RELAXED);
        if (live_attach_again(g, &reader, NULL) == AETHER_OK) {
            if (base)
                aether_live_set_base(reader, 0, AETHER_LIVE_CSC, base, NULL);
            __atomic_store_n(word, other, __ATOMIC_RELAXED);
            live_read(reader);
            aether_live_close(reader);
        }
        __atomic_store_n(word, before, __ATOMIC_RELAXED);
    }
    int64_t degree;
    aether_error err = {0};
    REQUIRE_OK(live_attach_again(g, &reader, &err), err);
    if (base)
        CHECK_OK(aether_live_set_base(reader, 0, AETHER_LIVE_CSC, base, &err), err);
    CHECK_OK(read_node(reader, &degree, &err), err); /* all is as it was */
    aether_live_close(reader);
}

TEST(any_word_may_be_damaged) {
    aether_live *g = make();
    damage(g, NULL, 7, times_of(300, 5000));
    aether_live_close(g);
}

TEST(any_word_over_a_base_may_be_damaged) {
    aether_error err = {0};
    const aether_live_base base = live_damage_base();
    REQUIRE(base.lists);
    aether_live *g = live_make(plain(NODES * LIVE_DAMAGE_DEGREE));
    CHECK_OK(aether_live_set_base(g, 0, AETHER_LIVE_CSC, &base, &err), err);
    for (int64_t i = 0; i < 400; i++)
        CHECK_OK(live_insert(g, i % 20, i % NODES, &err), err);
    /* The line of some roots: far behind the table. */
    aether_live *reader = NULL;
    int64_t degree;
    REQUIRE_OK(live_attach_again(g, &reader, &err), err);
    CHECK_OK(aether_live_set_base(reader, 0, AETHER_LIVE_CSC, &base, &err), err);
    CHECK_OK(read_node(reader, &degree, &err), err);
    CHECK_EQ(degree, 28);
    const uint32_t line = atomic_load(&g->graph.lists[0].table.lines[7 / AE_ROOTS_OF_LINE]);
    atomic_store(&g->graph.lists[0].table.lines[7 / AE_ROOTS_OF_LINE], UINT32_MAX);
    CHECK_OK(read_node(reader, &degree, &err), err);
    CHECK_EQ(degree, 8); /* the base's list */
    atomic_store(&g->graph.lists[0].table.lines[7 / AE_ROOTS_OF_LINE], line);
    aether_live_close(reader);
    damage(g, &base, 11, times_of(300, 5000));
    aether_live_close(g);
    aether_topology_destroy((aether_topology *)base.lists);
}

/* ---- tables of live rows ---- */

static atomic_int cut_fd;
static atomic_bool cut_ends;

/* Cut a table to two pages, and seal it so, some time after it was given. */
static void *cut(void *unused) {
    for (uint32_t delay = 0; !atomic_load(&cut_ends); delay = (delay + 97) % 6000) {
        const int fd = atomic_load(&cut_fd);
        if (fd < 0) {
            sched_yield();
            continue;
        }
        for (volatile uint32_t i = 0; i < delay; i++)
            continue;
        if (ftruncate(fd, 8192) == 0)
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
        atomic_store(&cut_fd, -1);
    }
    return unused;
}

TEST(a_table_that_is_cut_and_sealed_meanwhile_is_not_taken_for_whole) {
    const aether_table_info info = {.num_rows = 1000, .num_dims = 1, .shape = {1024}, .dtype = AETHER_F32};
    aether_table *t = NULL, *reader;
    aether_error err = {0};
    REQUIRE_OK(aether_table_create(NULL, &info, &t, &err), err);
    static char head[4096];
    const int source = aether_table_descriptor(t);
    const off_t size = lseek(source, 0, SEEK_END);
    CHECK_EQ(pread(source, head, sizeof head, 0), sizeof head);
    pthread_t thread;
    atomic_store(&cut_fd, -1);
    atomic_store(&cut_ends, false);
    pthread_create(&thread, NULL, cut, NULL);
    int wrong = 0;
    for (int i = 0; i < times_of(3000, 100000); i++) {
        const int fd = memfd_create("table", MFD_ALLOW_SEALING | MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, size) || pwrite(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
            break;
        atomic_store(&cut_fd, fd);
        reader = NULL;
        const int rc = aether_table_attach(fd, 0, &reader, &err);
        while (atomic_load(&cut_fd) >= 0)
            sched_yield();
        /* Sealed memory is read without a guard against a file that shrinks. */
        wrong += rc == AETHER_OK && reader->memory.data && reader->memory.size < (uint64_t)size;
        aether_table_close(reader);
        close(fd);
    }
    CHECK_EQ(wrong, 0);
    atomic_store(&cut_ends, true);
    pthread_join(thread, NULL);
    aether_table_close(t);
}

TEST_MAIN()
