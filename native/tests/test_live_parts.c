/* The parts of live graphs by themselves: arena, directories, rooms, the last commit number. */
#include <errno.h>

#include "core/error.h"
#include "live/blocks.h"
#include "live/transaction.h"
#include "test.h"

/* ---- the arena against a map of its units ---- */

enum { ARENA = 4 << 20, UNITS = ARENA / AE_UNIT, BLOCKS = 4000 };

typedef struct block {
    ae_ref ref;
    uint32_t units;
} block;

/* Mark the units of a block; each must have been unmarked (or marked, to unmark it). */
static void mark(uint8_t *map, block b, uint8_t as) {
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < b.units; i++) {
        wrong += b.ref + i >= UNITS || map[b.ref + i] == as;
        map[b.ref + i] = as;
    }
    CHECK_EQ(wrong, 0);
}

static void swap_last(block *blocks, uint64_t *n, uint64_t i) {
    blocks[i] = blocks[--*n];
}

TEST_ONE_THREAD(blocks_do_not_overlap) {
    static uint8_t map[UNITS];
    static block blocks[BLOCKS];
    ae_arena a;
    aether_error err = {0};
    uint64_t state = 1, n = 0, refused = 0, budget = ARENA;
    REQUIRE_OK(ae_arena_create(ARENA, 1, NULL, &budget, &a, &err), err);
    for (int step = 0; step < 60000; step++) {
        const bool large = test_random(&state) % 16 == 0;
        if (n < BLOCKS && test_random(&state) % 16 < (step / 6000 % 2 ? 6 : 10)) {
            block b = {.units = 1 + (uint32_t)(test_random(&state) % (large ? 5000 : 80))};
            b.ref = ae_arena_alloc(&a, b.units);
            refused += !b.ref;
            if (!b.ref)
                continue;
            mark(map, b, 1);
            memset(ae_arena_at(&a, b.ref), 0xAB, (uint64_t)b.units * AE_UNIT);
            blocks[n++] = b;
        } else if (n) {
            const uint64_t i = test_random(&state) % n;
            mark(map, blocks[i], 0);
            ae_arena_free(&a, blocks[i].ref, blocks[i].units);
            swap_last(blocks, &n, i);
        }
    }
    CHECK(refused > 10);
    while (n) {
        mark(map, blocks[n - 1], 0);
        n--;
        ae_arena_free(&a, blocks[n].ref, blocks[n].units);
    }
    CHECK_EQ(a.used, 0);
    /* All of it is free, so neighbours are joined where a block finds no other room. */
    CHECK(ae_arena_alloc(&a, UNITS / 2) != 0);
    CHECK_EQ(ae_arena_alloc(&a, UNITS / 2), 0); /* the header takes a slab */
    CHECK(ae_arena_alloc(&a, UNITS / 4) != 0);
    ae_arena_close(&a);
}

TEST_ONE_THREAD(arenas_share_a_budget) {
    enum { BUDGET = 1 << 20, MARGIN = 256 << 10 };
    ae_arena a, b;
    aether_error err = {0};
    uint64_t budget = BUDGET, got[2] = {0};
    REQUIRE_OK(ae_arena_create(BUDGET, 1, NULL, &budget, &a, &err), err);
    REQUIRE_OK(ae_arena_create(BUDGET, 2, NULL, &budget, &b, &err), err);
    CHECK_EQ(budget, BUDGET); /* nothing is taken before it is needed */
    CHECK_EQ(ae_arena_alloc(&a, BUDGET / AE_UNIT + 1), 0);
    CHECK_EQ(budget, BUDGET);
    const ae_ref first = ae_arena_alloc(&a, 1);
    CHECK(first && budget > BUDGET - (64 << 10));
    while (ae_arena_alloc(&a, 100))
        got[0] += 100 * AE_UNIT;
    CHECK(got[0] > BUDGET - MARGIN);
    while (ae_arena_alloc(&b, 1))
        got[1] += AE_UNIT;
    CHECK(got[0] + got[1] < BUDGET);
    ae_arena_free(&a, first, 1); /* what an arena has taken is used again */
    CHECK_EQ(ae_arena_alloc(&a, 1), first);
    ae_arena_close(&a);
    ae_arena_close(&b);
}

TEST_ONE_THREAD(every_size_gets_a_block_that_is_not_much_larger) {
    ae_arena a;
    aether_error err = {0};
    uint64_t budget = UINT64_C(1) << 30;
    REQUIRE_OK(ae_arena_create(budget, 1, NULL, &budget, &a, &err), err);
    for (uint32_t units = 1; units < 60000; units += 1 + units / 50) {
        const uint64_t before = a.used;
        const ae_ref ref = ae_arena_alloc(&a, units);
        REQUIRE(ref != 0);
        CHECK(a.used - before >= units && (a.used - before) * 8 <= (uint64_t)units * 9 + 8);
        ae_arena_free(&a, ref, units);
        CHECK_EQ(a.used, before);
        CHECK_EQ(ae_arena_alloc(&a, units), ref); /* the block comes back */
        ae_arena_free(&a, ref, units);
    }
    ae_arena_close(&a);
}

/* ---- histories ---- */

/* Commits make histories while the oldest reader follows them, now near, now far. Each keeps what was written
 * into it until its commit is left behind. */
TEST_ONE_THREAD(histories_stay_until_their_commit_is_left) {
    enum { COMMITS = 3000, EACH = 300 };
    static ae_ref made[COMMITS][EACH];
    static uint32_t number[COMMITS];
    ae_arena a;
    ae_histories h = {0};
    aether_error err = {0};
    uint64_t state = 3, budget = 32 << 20, oldest = 0, wrong = 0, most = 0;
    REQUIRE_OK(ae_arena_create(budget, 1, NULL, &budget, &a, &err), err);
    for (uint32_t commit = 1; commit < COMMITS; commit++) {
        number[commit] = (uint32_t)(test_random(&state) % EACH);
        for (uint32_t i = 0; i < number[commit]; i++) {
            REQUIRE(ae_histories_reserve(&h, &a) && ae_histories_have_room(&h));
            made[commit][i] = ae_histories_new(&h, commit);
            *(ae_history *)ae_arena_at(&a, made[commit][i]) = (ae_history){commit * EACH + i, commit, 0};
        }
        most = a.used > most ? a.used : most;
        const uint64_t next = commit - test_random(&state) % (commit / 500 % 2 ? 200 : 3);
        for (uint64_t old = oldest + 1; old <= commit; old++) /* those of the oldest itself may be gone */
            for (uint32_t i = 0; i < number[old]; i++)
                wrong += ((ae_history *)ae_arena_at(&a, made[old][i]))->head != old * EACH + i;
        oldest = next > oldest && next < commit + 1 ? next : oldest;
        ae_histories_reclaim(&h, &a, oldest);
    }
    CHECK_EQ(wrong, 0);
    CHECK(most < 220 * EACH); /* those of the commits that wait, and not of all */
    ae_histories_reclaim(&h, &a, COMMITS);
    CHECK_EQ(h.units, 0);
    CHECK_EQ(h.used, 0);
    CHECK_EQ(a.used, h.filling.units);
    ae_histories_free(&h);
    ae_arena_close(&a);
}

TEST_ONE_THREAD(histories_of_an_arena_that_is_nearly_full) {
    enum { SIZE = 1 << 20, SOME = 20 };
    ae_arena a;
    ae_histories h = {0};
    aether_error err = {0};
    uint64_t budget = SIZE;
    ae_ref holes[SOME], last = 0, ref;
    REQUIRE_OK(ae_arena_create(SIZE, 1, NULL, &budget, &a, &err), err);
    for (uint32_t i = 0; (ref = ae_arena_alloc(&a, 1)); i++) {
        if (i % 2 == 0)
            holes[i / 2 % SOME] = ref; /* apart from each other, so that none is joined with another */
        last = ref;
    }
    CHECK(last != 0);
    CHECK(!ae_histories_reserve(&h, &a));
    for (uint32_t i = 0; i < SOME; i++)
        ae_arena_free(&a, holes[i], 1);
    uint32_t n = 0;
    for (; ae_histories_reserve(&h, &a); n++)
        CHECK(ae_histories_new(&h, 1) != 0);
    CHECK_EQ(n, SOME);
    CHECK_EQ(ae_histories_new(&h, 1), 0);
    ae_histories_reclaim(&h, &a, 1);
    CHECK(ae_histories_reserve(&h, &a));
    ae_histories_free(&h);
    ae_arena_close(&a);
}

/* ---- blocks ---- */

static ae_entry entry_of(uint32_t i) {
    return (ae_entry){
        .id = 1000 + i, .edge_id = 2000 + i, .time = -3000 - (int64_t)i, .weight = 0.5f + (float)i};
}

/* Return how many values of n entries are not those of the entries that `which` names. */
static uint64_t count_wrong(const ae_layout *l, const uint8_t *groups, const uint32_t *which, uint32_t n) {
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *group = groups + (uint64_t)(i / AE_GROUP) * l->group;
        const uint32_t lane = i % AE_GROUP;
        const ae_entry want = entry_of(which[i]);
        wrong += ae_group_id(group, lane) != want.id;
        wrong += l->edge_id_bytes && ae_group_edge_id(l, group, lane) != want.edge_id;
        wrong += l->time && ae_group_time(l, group, lane) != want.time;
        wrong += l->weight && ae_group_weight(l, group, lane) < want.weight;
        wrong += l->weight && ae_group_weight(l, group, lane) > want.weight;
    }
    return wrong;
}

/* Insert into a block of n entries, at every place; the bytes around it stay as they are. */
static void insert_at_every_place(const ae_layout *l, uint32_t n, bool in_place) {
    enum { MOST = 64, AROUND = 32 };
    _Alignas(16) uint8_t memory[2][2 * AROUND + MOST * AE_GROUP_MOST / AE_GROUP];
    const uint64_t bytes = ae_groups_bytes(l, ae_room(n + 1)), old = ae_groups_bytes(l, ae_room(n));
    for (uint32_t at = 0; at <= n; at++) {
        uint32_t which[MOST];
        memset(memory, 0xEE, sizeof memory);
        uint8_t *src = memory[0] + AROUND, *dst = in_place ? src : memory[1] + AROUND;
        for (uint32_t i = 0; i < n; i++) {
            const ae_entry entry = entry_of(i);
            ae_put_entry(l, src, i, &entry);
        }
        for (uint32_t i = 0; i <= n; i++)
            which[i] = i < at ? i : i == at ? n : i - 1;
        const ae_entry entry = entry_of(n);
        ae_blocks_insert(l, dst, src, at, n, &entry);
        CHECK_EQ(count_wrong(l, dst, which, n + 1), 0);
        CHECK(dst[-1] == 0xEE && dst[bytes] == 0xEE);
        CHECK(in_place || (src[-1] == 0xEE && src[old] == 0xEE));
        for (uint32_t i = 0; i < n; i++)
            which[i] = i;
        CHECK(in_place || count_wrong(l, src, which, n) == 0);
    }
}

TEST_ONE_THREAD(an_entry_goes_between_others) {
    for (uint32_t columns = 0; columns < 4; columns++)
        for (uint32_t id_bytes = 0; id_bytes <= 8; id_bytes += 4) {
            const ae_layout l = ae_layout_of(
                (columns & 1 ? AETHER_LIVE_TIMES : 0) | (columns & 2 ? AETHER_LIVE_WEIGHTS : 0), id_bytes);
            for (uint32_t n = 0; n < 30; n++) {
                insert_at_every_place(&l, n, false);
                if (n < ae_room(n))
                    insert_at_every_place(&l, n, true);
            }
        }
}

/* ---- huge pages ---- */

static struct {
    uint64_t calls, last;
    uint64_t none_from; /* call from which the system has none */
} asked;

static int give_huge(uint64_t offset) {
    asked.last = offset;
    return asked.calls++ >= asked.none_from ? ENOMEM : 0;
}

/* Fill an arena with blocks that name themselves; return how many of them do not any more. */
static uint64_t fill_arena(uint64_t budget, bool huge) {
    enum { BLOCK = 64, MOST = 1 << 15 };
    static ae_ref refs[MOST];
    ae_arena a;
    aether_error err = {0};
    uint64_t n = 0, wrong = 0;
    CHECK_OK(ae_arena_create(UINT64_C(32) << 20, 1, NULL, &budget, &a, &err), err);
    a.huge = huge;
    while (n < MOST && (refs[n] = ae_arena_alloc(&a, BLOCK))) {
        *(uint64_t *)ae_arena_at(&a, refs[n]) = refs[n];
        n++;
    }
    for (uint64_t i = 0; i < n; i++)
        wrong += *(uint64_t *)ae_arena_at(&a, refs[i]) != refs[i];
    CHECK(n > MOST / 2);
    ae_arena_close(&a);
    return wrong;
}

TEST_ONE_THREAD(arenas_take_huge_pages_while_there_are_some) {
    const ae_shared_hooks hooks = {.collapse = give_huge};
    const uint64_t much = UINT64_C(48) << 20, little = UINT64_C(18) << 20;
    CHECK_EQ(fill_arena(much, true), 0); /* whatever this system has */
    ae_shared_set_hooks(&hooks);
    asked.none_from = 100;
    CHECK_EQ(fill_arena(much, true), 0);
    CHECK(asked.calls > 8); /* up to 16 MiB of the budget are left */
    CHECK_EQ(asked.last % AE_SHARED_HUGE, 0);
    asked.calls = 0;
    asked.none_from = 3;
    CHECK_EQ(fill_arena(much, true), 0);
    CHECK_EQ(asked.calls, 4); /* the first refusal is the last */
    asked.calls = 0;
    CHECK_EQ(fill_arena(little, true), 0);
    CHECK_EQ(asked.calls, 2); /* of the first two pages: then less than eight are left */
    asked.calls = 0;
    CHECK_EQ(fill_arena(much, false), 0);
    CHECK_EQ(asked.calls, 0);
    ae_shared_set_hooks(NULL);
}

/* A page of roots gets huge when a quarter of its nodes have lists, and heads stay. */
static void check_table(uint64_t none_from, uint64_t calls) {
    enum { NODES = 1 << 18, PER_PAGE = AE_SHARED_HUGE / sizeof(ae_root) };
    static int64_t major[NODES], degrees[NODES];
    const aether_live_relation relation = {
        .num_src = NODES, .num_dst = NODES, .layouts = AETHER_LIVE_CSC, .order = AETHER_ORDER_TIME};
    const aether_live_options options = {.relations = &relation,
                                         .num_relations = 1,
                                         .flags = AETHER_LIVE_HUGE,
                                         .arena_bytes = UINT64_C(16) << 20};
    const aether_live_edges edges = {.src = major, .dst = major, .count = PER_PAGE / 4 + PER_PAGE / 8};
    aether_live *g = NULL;
    aether_snapshot *s = NULL;
    aether_error err = {0};
    uint64_t n, wrong = 0;
    for (int64_t i = 0; i < NODES; i++)
        major[i] = i;
    asked.calls = 0;
    asked.none_from = none_from;
    ae_shared_set_hooks(none_from == UINT64_MAX ? NULL : &(ae_shared_hooks){.collapse = give_huge});
    REQUIRE_OK(aether_live_create(&options, &g, &err), err);
    for (int twice = 0; twice < 2; twice++) /* more edges, but no more nodes */
        CHECK_OK(aether_live_insert(g, 0, &edges, NULL, &n, &err), err);
    CHECK_EQ(asked.calls, calls);
    REQUIRE_OK(aether_snapshot_take(g, &s, &err), err);
    CHECK_OK(aether_topology_degrees(aether_snapshot_topology(s, 0, AETHER_LIVE_CSC), major, NODES, degrees,
                                     NULL, &err),
             err);
    for (uint64_t i = 0; i < NODES; i++)
        wrong += degrees[i] != (i < edges.count ? 2 : 0);
    CHECK_EQ(wrong, 0);
    aether_snapshot_release(s);
    aether_live_close(g);
    ae_shared_set_hooks(NULL);
}

TEST_ONE_THREAD(tables_take_huge_pages_where_they_have_filled) {
    check_table(UINT64_MAX, 0); /* whatever this system has */
    check_table(100, 1);
    check_table(0, 1);
}

/* ---- layout ---- */

TEST_ONE_THREAD(rooms_grow_by_half_at_most_and_keep_themselves) {
    CHECK_EQ(ae_room(0), 0);
    for (uint32_t n = 1; n < 40000; n++) {
        const uint32_t room = ae_room(n);
        CHECK(room >= n && room % AE_GROUP == 0);
        CHECK(room <= 4 || room <= n + n / 2 + 2);
        CHECK_EQ(ae_room(room), room);
    }
    CHECK_EQ(ae_room(AE_LEAF_TIME), AE_LEAF_TIME);
    CHECK_EQ(ae_room(AE_LEAF_ID), AE_LEAF_ID);
    CHECK_EQ(ae_room(AE_LEAF_ID_MOST), AE_LEAF_ID_MOST);
}

TEST_ONE_THREAD(entries_are_found_in_leaves_of_any_size) {
    enum { LEAVES = 300 };
    uint64_t state = 2;
    for (int round = 0; round < 300; round++) {
        uint32_t before[LEAVES], end = 0;
        const uint32_t count = 1 + (uint32_t)(test_random(&state) % LEAVES);
        const bool uneven = round % 3 == 0;
        for (uint32_t c = 0; c < count; c++) {
            before[c] = end;
            end += 1 + (uint32_t)(test_random(&state) % (uneven && c % 17 == 0 ? 5000
                                                         : round % 3 == 1      ? 1
                                                                               : 90));
        }
        uint64_t wrong = 0;
        for (uint32_t i = 0, leaf = 0; i < end; i++) {
            while (leaf + 1 < count && before[leaf + 1] <= i)
                leaf++;
            wrong += ae_directory_find(before, count, i) != leaf;
        }
        CHECK_EQ(wrong, 0);
    }
}

TEST_ONE_THREAD(columns_do_not_overlap) {
    for (uint32_t columns = 0; columns < 4; columns++)
        for (uint32_t bytes = 0; bytes <= 8; bytes += 4) {
            const ae_layout l = ae_layout_of(columns, bytes);
            const uint32_t times = columns & AETHER_LIVE_TIMES ? 8 : 0,
                           weights = columns & AETHER_LIVE_WEIGHTS ? 4 : 0;
            CHECK_EQ(l.group, AE_GROUP * (4 + bytes + times + weights));
            CHECK_EQ(l.group % AE_UNIT, 0);
            CHECK_EQ(l.time % 8, 0);
            CHECK_EQ(l.edge_id % (bytes ? bytes : 1), 0);
            CHECK(!l.edge_id == !bytes && !l.time == !times && !l.weight == !weights);
        }
}

/* ---- numbers of commits ---- */

static const aether_live_relation plain = {
    .num_src = 10, .num_dst = 20, .layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR, .order = AETHER_ORDER_ID};

TEST_ONE_THREAD(numbers_are_those_of_the_last_change_up_to_a_commit) {
    const aether_live_relation relations[] = {plain, plain};
    const aether_live_options o = {.relations = relations, .num_relations = 2};
    ae_control c;
    ae_counts counts;
    aether_error err = {0};
    REQUIRE_OK(ae_control_create(&o, &c, &err), err);
    for (uint64_t epoch = 2; epoch <= 1000; epoch++) {
        ae_control_put_counts(&c, 0, epoch, &(ae_counts){.num_src = 10, .num_edges = epoch});
        if (epoch % 10 == 0)
            ae_control_put_counts(&c, 1, epoch, &(ae_counts){.num_edges = epoch});
        CHECK(ae_control_counts(&c, 0, epoch - 1, &counts)); /* a commit before it is published */
        CHECK_EQ(counts.num_edges, epoch == 2 ? 0 : epoch - 1);
        ae_control_commit(&c, epoch);
        CHECK(ae_control_counts(&c, 0, epoch, &counts));
        CHECK_EQ(counts.num_edges, epoch);
        CHECK(ae_control_counts(&c, 1, epoch, &counts));
        CHECK_EQ(counts.num_edges, epoch / 10 * 10);
        CHECK_EQ(counts.num_dst, epoch < 10 ? 20 : 0);
    }
    CHECK(ae_control_counts(&c, 0, 938, &counts));
    CHECK_EQ(counts.num_edges, 938);
    CHECK(!ae_control_counts(&c, 0, 937, &counts)); /* may be being replaced */
    CHECK(ae_control_counts(&c, 1, 500, &counts));
    CHECK_EQ(counts.num_edges, 500);
    CHECK(ae_control_counts(&c, 1, 389, &counts));
    CHECK_EQ(counts.num_edges, 380);
    CHECK(!ae_control_counts(&c, 1, 379, &counts));
    ae_control_close(&c);
}

TEST_ONE_THREAD(commit_numbers_run_out_with_an_error) {
    const aether_live_options o = {.relations = &plain, .num_relations = 1, .arena_bytes = 1 << 20};
    ae_graph graph;
    ae_transaction t;
    ae_counts counts;
    aether_error err = {0};
    REQUIRE_OK(ae_graph_create(&o, &graph, &err), err);
    ae_control_put_counts(&graph.control, 0, AE_CONTROL_LAST_COMMIT - 1, &(ae_counts){.num_src = 10});
    ae_control_commit(&graph.control, AE_CONTROL_LAST_COMMIT - 1);
    REQUIRE_OK(ae_transaction_init(&t, &graph, 0, &err), err);
    CHECK_EQ(t.relations[0].counts.num_src, 10);
    CHECK_OK(ae_transaction_begin(&t, &err), err);
    CHECK_OK(ae_writer_touch(ae_transaction_open(&t, 0)->csr, 3, 0, &err), err);
    ae_transaction_commit(&t);
    CHECK_CODE(ae_transaction_begin(&t, &err), AETHER_E_LIMIT);
    CHECK_HAS(err.message, "2^48 commits");
    CHECK(ae_control_counts(&graph.control, 0, AE_CONTROL_LAST_COMMIT, &counts));
    CHECK_EQ(counts.num_src, 10);
    CHECK_EQ(ae_control_usage(&graph.control, 0).touched, 1);
    ae_transaction_free(&t);
    ae_graph_close(&graph);
}

static int no_huge(uint64_t offset) {
    (void)offset;
    return EINVAL;
}

static int a_huge_one(uint64_t offset) {
    (void)offset;
    return 0;
}

TEST_ONE_THREAD(the_system_is_asked_for_a_huge_page) {
    const int found = aether_live_has_huge_pages();
    ae_shared_set_hooks(&(ae_shared_hooks){.collapse = a_huge_one});
    CHECK_EQ(aether_live_has_huge_pages(), 1);
    ae_shared_set_hooks(&(ae_shared_hooks){.collapse = no_huge});
    CHECK_EQ(aether_live_has_huge_pages(), 0);
    ae_shared_set_hooks(NULL);
    CHECK_EQ(aether_live_has_huge_pages(), found);
}

TEST_MAIN()
