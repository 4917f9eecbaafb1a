/* A topology by itself: what create refuses, what the lists of nodes are, edge
 * ids of both widths, damage. */
#include "test.h"
#include "topology/topology.h"

#define NUM_NODES 5
#define LONG_LIST 600 /* copied in more than two blocks */
#define NUM_EDGES (LONG_LIST + 7)

static const uint64_t good_indptr[] = {0, 3, 3, 3 + LONG_LIST, 3 + LONG_LIST, NUM_EDGES};
static uint64_t indptr[NUM_NODES + 1];
static uint32_t narrow[NUM_EDGES], edge_ids4[NUM_EDGES];
static uint64_t wide[NUM_EDGES], edge_ids8[NUM_EDGES];

/* Edge ids: the upper half of the 8-byte ones is not zero, nor is the top bit of the others. */
static aether_lists good_lists(void) {
    memcpy(indptr, good_indptr, sizeof indptr);
    for (uint64_t e = 0; e < NUM_EDGES; e++) {
        wide[e] = narrow[e] = (uint32_t)(e * 7 % NUM_NODES);
        edge_ids4[e] = UINT32_MAX - (uint32_t)e;
        edge_ids8[e] = (e + 1) << 33 | e;
    }
    return (aether_lists){NUM_NODES, NUM_NODES, NUM_EDGES, indptr, narrow, NULL, 4, 8};
}

static void check_refused(const aether_lists *lists, int rc) {
    aether_error err = {0};
    aether_topology *t = NULL;
    CHECK_CODE(aether_topology_create(lists, &t, &err), rc);
    CHECK(!t);
    CHECK(err.message[0]);
    aether_topology_destroy(t);
}

TEST_ONE_THREAD(indptr_runs_from_0_to_the_number_of_edges) {
    aether_lists l = good_lists();
    indptr[0] = 1;
    check_refused(&l, AETHER_E_CORRUPT);
    indptr[0] = 0;
    indptr[NUM_NODES] = NUM_EDGES - 1;
    check_refused(&l, AETHER_E_CORRUPT);
    indptr[NUM_NODES] = NUM_EDGES + 1;
    check_refused(&l, AETHER_E_CORRUPT);
}

TEST_ONE_THREAD(impossible_lists_are_refused) {
    aether_lists l = good_lists();
    l.indptr = NULL;
    check_refused(&l, AETHER_E_INVALID);
    l = good_lists();
    l.indices = NULL;
    check_refused(&l, AETHER_E_INVALID);
    l = good_lists();
    l.id_bytes = 2;
    check_refused(&l, AETHER_E_INVALID);
    l = good_lists();
    l.edge_ids = edge_ids8;
    l.edge_id_bytes = 6;
    check_refused(&l, AETHER_E_INVALID);
    check_refused(NULL, AETHER_E_INVALID);
}

/* The sizes are looked at before indptr[num_major] is. */
TEST_ONE_THREAD(more_than_63_bits_are_refused) {
    aether_lists l = good_lists();
    l.num_major = INT64_MAX;
    check_refused(&l, AETHER_E_LIMIT);
    l = good_lists();
    l.num_minor = INT64_MAX;
    check_refused(&l, AETHER_E_LIMIT);
    l = good_lists();
    l.num_edges = indptr[NUM_NODES] = INT64_MAX;
    check_refused(&l, AETHER_E_LIMIT);
}

TEST_ONE_THREAD(no_nodes_and_no_edges_are_a_topology) {
    uint64_t zero[] = {0};
    aether_lists l = {0, 0, 0, zero, NULL, NULL, 4, 8};
    aether_error err = {0};
    aether_topology *t = NULL;
    REQUIRE_OK(aether_topology_create(&l, &t, &err), err);
    CHECK_OK(aether_topology_neighbors(t, AE_SIZED(aether_list_request, .n = 0, .capacity = 0), NULL, &err),
             err);
    int64_t node = 0, degree;
    CHECK_CODE(aether_topology_degrees(t, &node, 1, &degree, NULL, &err), AETHER_E_RANGE);
    aether_topology_destroy(t);
}

/* The lists of nodes 2, 1, 0, 2 with edge id `id(e)` at position e. */
static void check_neighbors(const aether_lists *lists, uint64_t (*id)(uint64_t)) {
    enum { TOTAL = 2 * LONG_LIST + 3 };
    static int64_t neighbors[TOTAL + 1], edges[TOTAL + 1];
    const int64_t nodes[] = {2, 1, 0, 2};
    aether_error err = {0};
    aether_topology *t = NULL;
    REQUIRE_OK(aether_topology_create(lists, &t, &err), err);
    neighbors[TOTAL] = edges[TOTAL] = -5;
    CHECK_OK(aether_topology_neighbors(t,
                                       AE_SIZED(aether_list_request, .nodes = nodes, .n = 4,
                                                .capacity = TOTAL, .neighbors = neighbors, .edges = edges),
                                       NULL, &err),
             err);
    for (uint64_t i = 0; i < TOTAL; i++) {
        uint64_t e = i < LONG_LIST ? 3 + i : i - LONG_LIST; /* lists 0 and 2 adjoin */
        CHECK_EQ(neighbors[i], wide[e]);
        CHECK_EQ(edges[i], id(e));
    }
    CHECK_EQ(neighbors[TOTAL], -5);
    CHECK_EQ(edges[TOTAL], -5);
    aether_topology_destroy(t);
}

static uint64_t id_is_position(uint64_t e) {
    return e;
}
static uint64_t id_of_4_bytes(uint64_t e) {
    return edge_ids4[e];
}
static uint64_t id_of_8_bytes(uint64_t e) {
    return edge_ids8[e];
}

TEST_ONE_THREAD(neighbors_and_edge_ids_of_every_width) {
    aether_lists l = good_lists();
    for (int is_wide = 0; is_wide < 2; is_wide++) {
        l.indices = is_wide ? (void *)wide : (void *)narrow;
        l.id_bytes = is_wide ? 8 : 4;
        l.edge_ids = NULL;
        check_neighbors(&l, id_is_position);
        l.edge_ids = edge_ids4;
        l.edge_id_bytes = 4;
        check_neighbors(&l, id_of_4_bytes);
        l.edge_ids = edge_ids8;
        l.edge_id_bytes = 8;
        check_neighbors(&l, id_of_8_bytes);
    }
}

TEST_ONE_THREAD(either_output_may_be_left_out) {
    aether_lists l = good_lists();
    aether_error err = {0};
    aether_topology *t = NULL;
    REQUIRE_OK(aether_topology_create(&l, &t, &err), err);
    int64_t out[3], node = 0;
    CHECK_OK(aether_topology_neighbors(
                 t, AE_SIZED(aether_list_request, .nodes = &node, .n = 1, .capacity = 3, .neighbors = out),
                 NULL, &err),
             err);
    CHECK_EQ(out[2], narrow[2]);
    CHECK_OK(aether_topology_neighbors(
                 t, AE_SIZED(aether_list_request, .nodes = &node, .n = 1, .capacity = 3, .edges = out), NULL,
                 &err),
             err);
    CHECK_EQ(out[2], 2);
    aether_topology_destroy(t);
}

TEST_ONE_THREAD(capacity_is_never_exceeded) {
    aether_lists l = good_lists();
    aether_error err = {0};
    aether_topology *t = NULL;
    REQUIRE_OK(aether_topology_create(&l, &t, &err), err);
    int64_t out[7] = {0, 0, 0, -5, -5, -5, -5};
    const int64_t nodes[] = {0, 4};
    for (uint64_t capacity = 3; capacity < 7; capacity++) {
        CHECK_CODE(aether_topology_neighbors(t,
                                             AE_SIZED(aether_list_request, .nodes = nodes, .n = 2,
                                                      .capacity = capacity, .neighbors = out),
                                             NULL, &err),
                   AETHER_E_INVALID);
        CHECK_EQ(out[3], -5);
    }
    CHECK_CODE(aether_topology_neighbors(t,
                                         AE_SIZED(aether_list_request, .nodes = nodes, .n = 1, .capacity = 2,
                                                  .neighbors = out, .edges = out),
                                         NULL, &err),
               AETHER_E_INVALID);
    CHECK_OK(aether_topology_neighbors(
                 t, AE_SIZED(aether_list_request, .nodes = nodes, .n = 2, .capacity = 7, .neighbors = out),
                 NULL, &err),
             err);
    CHECK_EQ(out[6], narrow[NUM_EDGES - 1]);
    aether_topology_destroy(t);
}

/* All lists, some entries at a time, as items of either width. */
static void check_read(const aether_topology *t, uint32_t what, uint32_t item_bytes, uint64_t capacity) {
    static uint8_t out[8 * (NUM_EDGES + 1)];
    static uint64_t other[NUM_EDGES + 1];
    aether_list_place at = {0, 0};
    aether_task task = {0};
    aether_error err = {0};
    uint64_t total = 0, count = 1;
    memset(out, 0xee, sizeof out);
    while (count) {
        const aether_entry_column columns[] = {
            {what, item_bytes, out + total * item_bytes},
            {what ^ 1, 8, other + total},
        };
        CHECK_OK(aether_topology_read(t, AE_SIZED(aether_entry_columns, columns, 2, capacity), &at, &count,
                                      &task, &err),
                 err);
        CHECK_EQ(count, total + capacity < NUM_EDGES ? capacity : NUM_EDGES - total);
        CHECK_EQ(task.done, count);
        total += count;
    }
    CHECK_EQ(total, NUM_EDGES);
    CHECK_EQ(at.node, NUM_NODES);
    for (uint64_t e = 0; e < NUM_EDGES; e++) {
        uint64_t found = 0;
        memcpy(&found, out + e * item_bytes, item_bytes);
        CHECK_EQ(found, what == AETHER_READ_NEIGHBORS ? wide[e] : e);
        CHECK_EQ(other[e], what == AETHER_READ_NEIGHBORS ? e : wide[e]);
    }
    CHECK_EQ(out[total * item_bytes], 0xee);
}

TEST_ONE_THREAD(all_lists_are_read_some_entries_at_a_time) {
    aether_lists l = good_lists();
    aether_error err = {0};
    aether_topology *t = NULL;
    REQUIRE_OK(aether_topology_create(&l, &t, &err), err);
    const uint64_t capacities[] = {1, 3, 256, 257, NUM_EDGES - 1, NUM_EDGES, 2 * NUM_EDGES};
    for (uint64_t i = 0; i < sizeof capacities / sizeof *capacities; i++)
        for (uint32_t bytes = 4; bytes <= 8; bytes += 4) {
            check_read(t, AETHER_READ_NEIGHBORS, bytes, capacities[i]);
            check_read(t, AETHER_READ_EDGE_IDS, bytes, capacities[i]);
        }
    uint64_t ends[NUM_NODES];
    CHECK_OK(aether_topology_ends(t, 0, NUM_NODES, 0, ends, NULL, &err), err);
    for (uint64_t v = 0; v < NUM_NODES; v++)
        CHECK_EQ(ends[v], good_indptr[v + 1]);
    CHECK_OK(aether_topology_ends(t, 2, 2, 100, ends, NULL, &err), err);
    CHECK_EQ(ends[0], 100 + LONG_LIST);
    CHECK_EQ(ends[1], 100 + LONG_LIST);
    CHECK_OK(aether_topology_ends(t, NUM_NODES, 0, 0, ends, NULL, &err), err);
    CHECK_CODE(aether_topology_ends(t, 3, 3, 0, ends, NULL, &err), AETHER_E_RANGE);
    aether_topology_destroy(t);
}

TEST_ONE_THREAD(what_cannot_be_read_is_refused) {
    aether_lists l = good_lists();
    aether_error err = {0};
    aether_topology *t = NULL;
    uint64_t out[1], count;
    aether_list_place at = {0, 0};
    REQUIRE_OK(aether_topology_create(&l, &t, &err), err);
    const struct {
        aether_entry_column columns[2];
        int code;
    } bad[] = {{{{AETHER_READ_NEIGHBORS, 8, out}, {AETHER_READ_TIMES + 1, 8, out}}, AETHER_E_INVALID},
               {{{AETHER_READ_NEIGHBORS, 8, out}, {AETHER_READ_NEIGHBORS, 2, out}}, AETHER_E_INVALID},
               {{{AETHER_READ_NEIGHBORS, 8, out}, {AETHER_READ_TIMES, 4, out}}, AETHER_E_INVALID},
               {{{AETHER_READ_NEIGHBORS, 8, out}, {AETHER_READ_WEIGHTS, 8, out}}, AETHER_E_UNSUPPORTED}};
    for (uint64_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_CODE(aether_topology_read(t, AE_SIZED(aether_entry_columns, bad[i].columns, 2, 1), &at, &count,
                                        NULL, &err),
                   bad[i].code);
    const aether_entry_column *good = bad[0].columns;
    aether_task task = {.cancel = 1};
    CHECK_CODE(aether_topology_read(t, AE_SIZED(aether_entry_columns, good, 1, 1), &at, &count, &task, &err),
               AETHER_E_CANCELLED);
    CHECK_CODE(aether_topology_ends(t, 0, 1, 0, out, &task, &err), AETHER_E_CANCELLED);
    narrow[1] = NUM_NODES;
    at = (aether_list_place){0, 1};
    CHECK_CODE(aether_topology_read(t, AE_SIZED(aether_entry_columns, good, 1, 1), &at, &count, NULL, &err),
               AETHER_E_CORRUPT);
    CHECK_EQ(at.entry, 1); /* it stays where it was */
    aether_topology_destroy(t);
}

/* Every pair twice. */
static uint64_t all_pairs(int64_t *major, int64_t *minor) {
    uint64_t n = 0;
    for (int64_t v = 0; v < NUM_NODES; v++)
        for (int64_t i = 0; i < 2 * NUM_NODES; i++) {
            major[n] = v;
            minor[n++] = i / 2;
        }
    return n;
}

TEST_ONE_THREAD(edges_are_found_by_their_ends) {
    static int64_t major[2 * NUM_NODES * NUM_NODES], minor[2 * NUM_NODES * NUM_NODES];
    static uint64_t pairs[2 * NUM_EDGES], positions[2 * NUM_EDGES];
    aether_lists l = good_lists();
    aether_error err = {0};
    aether_topology *t = NULL;
    REQUIRE_OK(aether_topology_create(&l, &t, &err), err);
    uint64_t n = all_pairs(major, minor), hits = 0;
    aether_task task = {0};
    CHECK_OK(aether_find_edges(t,
                               AE_SIZED(aether_edge_search, major, minor, n, pairs, positions, 2 * NUM_EDGES),
                               &hits, &task, &err),
             err);
    CHECK_EQ(task.done, n);
    REQUIRE(hits == 2 * NUM_EDGES); /* every edge, once for each of its two pairs */
    for (uint64_t h = 0; h < hits; h++) {
        CHECK_EQ(positions[h], h / 2);
        CHECK_EQ(narrow[positions[h]], minor[pairs[h]]);
        CHECK(indptr[major[pairs[h]]] <= positions[h] && positions[h] < indptr[major[pairs[h]] + 1]);
        CHECK(h % 2 == 0 || pairs[h] == pairs[h - 1] + 1);
    }
    task.cancel = 1;
    CHECK_CODE(aether_find_edges(t, AE_SIZED(aether_edge_search, major, minor, n, pairs, positions, 0), &hits,
                                 &task, &err),
               AETHER_E_CANCELLED);
    aether_topology_destroy(t);
}

TEST_ONE_THREAD(edges_are_counted_beyond_the_room_for_them) {
    aether_lists l = good_lists();
    aether_error err = {0};
    aether_topology *t = NULL;
    REQUIRE_OK(aether_topology_create(&l, &t, &err), err);
    int64_t major[] = {0, 2, 2}, minor[] = {narrow[0], 0, NUM_NODES - 1};
    uint64_t all = 0, some = 0, pairs[2] = {99, 99}, positions[2] = {99, 99};
    CHECK_OK(
        aether_find_edges(t, AE_SIZED(aether_edge_search, major, minor, 3, NULL, NULL, 0), &all, NULL, &err),
        err);
    CHECK_OK(aether_find_edges(t, AE_SIZED(aether_edge_search, major, minor, 3, pairs, positions, 1), &some,
                               NULL, &err),
             err);
    CHECK_EQ(some, all);
    CHECK_EQ(pairs[0], 0);
    CHECK_EQ(pairs[1], 99);
    CHECK_EQ(positions[0], 0);
    CHECK_EQ(positions[1], 99);
    minor[1] = NUM_NODES;
    CHECK_CODE(
        aether_find_edges(t, AE_SIZED(aether_edge_search, major, minor, 3, NULL, NULL, 0), &all, NULL, &err),
        AETHER_E_RANGE);
    CHECK_HAS(err.message, "minor[1]");
    minor[1] = minor[2] = 0;
    major[2] = 1;
    CHECK_CODE(
        aether_find_edges(t, AE_SIZED(aether_edge_search, major, minor, 3, NULL, NULL, 0), &all, NULL, &err),
        AETHER_E_INVALID);
    CHECK_EQ(err.position, 2);
    major[0] = -1;
    CHECK_CODE(
        aether_find_edges(t, AE_SIZED(aether_edge_search, major, minor, 3, NULL, NULL, 0), &all, NULL, &err),
        AETHER_E_RANGE);
    CHECK_EQ(err.value, -1);
    aether_topology_destroy(t);
}

/* The file may be damaged after it was opened: each list and id is checked when it is read. */
static void check_damage(uint32_t id_bytes) {
    aether_lists l = good_lists();
    l.id_bytes = id_bytes;
    l.indices = id_bytes == 4 ? (void *)narrow : (void *)wide;
    aether_error err = {0};
    aether_topology *t = NULL;
    REQUIRE_OK(aether_topology_create(&l, &t, &err), err);
    static int64_t out[LONG_LIST];
    int64_t node = 2;
    narrow[3 + 300] = NUM_NODES;
    wide[3 + 300] = NUM_NODES;
    CHECK_CODE(aether_topology_neighbors(t,
                                         AE_SIZED(aether_list_request, .nodes = &node, .n = 1,
                                                  .capacity = LONG_LIST, .neighbors = out),
                                         NULL, &err),
               AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 303);
    CHECK_EQ(err.value, NUM_NODES);
    indptr[2] = 3 + LONG_LIST + 1; /* begins behind its end */
    CHECK_CODE(aether_topology_degrees(t, &node, 1, out, NULL, &err), AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 2);
    indptr[2] = 3;
    indptr[3] = NUM_EDGES + 1; /* ends behind the last edge */
    CHECK_CODE(aether_topology_degrees(t, &node, 1, out, NULL, &err), AETHER_E_CORRUPT);
    indptr[3] = NUM_EDGES;
    CHECK_OK(aether_topology_degrees(t, &node, 1, out, NULL, &err), err);
    CHECK_EQ(out[0], NUM_EDGES - 3);
    aether_topology_destroy(t);
}

TEST_ONE_THREAD(damage_is_reported_with_4_byte_ids) {
    check_damage(4);
}
TEST_ONE_THREAD(damage_is_reported_with_8_byte_ids) {
    check_damage(8);
}

TEST_MAIN()
