/* The parts of live graphs by themselves: arena, directories, rooms, the last commit number. */
#include "core/error.h"
#include "live/transaction.h"
#include "live/writer.h"
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

TEST(blocks_do_not_overlap) {
    static uint8_t map[UNITS];
    static block blocks[BLOCKS];
    ae_arena a;
    aether_error err = {0};
    uint64_t state = 1, n = 0, refused = 0;
    REQUIRE_OK(ae_arena_create(ARENA, 1, &a, &err), err);
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
        ae_arena_free(&a, blocks[n - 1].ref, blocks[n - 1].units);
        n--;
    }
    CHECK_EQ(a.used, 0);
    /* All of it is free, so neighbours are joined where a block finds no other room. */
    CHECK(ae_arena_alloc(&a, UNITS / 2) != 0);
    CHECK_EQ(ae_arena_alloc(&a, UNITS / 2), 0); /* the header takes a slab */
    CHECK(ae_arena_alloc(&a, UNITS / 4) != 0);
    ae_arena_close(&a);
}

TEST(every_size_gets_a_block_that_is_not_much_larger) {
    ae_arena a;
    aether_error err = {0};
    REQUIRE_OK(ae_arena_create(UINT64_C(1) << 30, 1, &a, &err), err);
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

/* ---- layout ---- */

TEST(rooms_grow_by_half_at_most_and_keep_themselves) {
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

TEST(entries_are_found_in_leaves_of_any_size) {
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

TEST(columns_do_not_overlap) {
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

/* ---- commit numbers ---- */

TEST(commit_numbers_run_out_with_an_error) {
    const aether_live_options o = {
        .num_major = 10, .num_minor = 10, .max_major = 10, .order = AETHER_ORDER_ID};
    ae_table table;
    ae_arena arena;
    ae_shared pins;
    ae_writer w;
    ae_counts counts;
    aether_error err = {0};
    REQUIRE_OK(ae_table_create(&o, &table, &err), err);
    REQUIRE_OK(ae_arena_create(1 << 20, 1, &arena, &err), err);
    REQUIRE_OK(ae_pins_create(&pins, &err), err);
    ae_table_commit(&table, AE_TABLE_LAST_EPOCH - 1, &(ae_counts){.num_major = 10});
    ae_writer_init(&w, &table, &arena, &pins, 0);
    CHECK_EQ(w.counts.num_major, 10);
    CHECK_OK(ae_transaction_begin(&w, &err), err);
    CHECK_OK(ae_writer_touch(&w, 3, 0, &err), err);
    ae_transaction_commit(&w);
    CHECK_CODE(ae_transaction_begin(&w, &err), AETHER_E_LIMIT);
    CHECK_HAS(err.message, "2^32 commits");
    CHECK(ae_table_counts(&table, AE_TABLE_LAST_EPOCH, &counts));
    CHECK_EQ(counts.touched, 1);
    CHECK(!ae_table_counts(&table, AE_TABLE_LAST_EPOCH - 64, &counts)); /* those are gone */
    ae_writer_free(&w);
    ae_shared_close(&pins);
    ae_arena_close(&arena);
    ae_table_close(&table);
}

TEST_MAIN()
