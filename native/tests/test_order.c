/* Orders of nodes on lists that are worked out by hand; threads; memory for edges; damage. */
#include <stdio.h>
#include <unistd.h>

#include "test.h"

/* Two triangles, 0 1 2 and 3 4 5, and an edge between 2 and 3, each stored once. Degrees 2 2 3 3 2 2. */
static const uint64_t indptr[] = {0, 2, 3, 3, 4, 6, 7};
static const uint32_t indices[] = {1, 2, 2, 2, 5, 3, 3};
/* Ranks: 0 1 4 5 are 0 1 2 3, and 2 3 are 4 5. */
static const uint64_t expected_places[] = {0, 2, 4, 6, 8, 11, 14};
static const uint32_t expected_lists[] = {1, 4, 0, 4, 3, 5, 2, 5, 0, 1, 5, 2, 3, 4};

enum { N = 6, ENTRIES = 14 };

static aether_topology *two_triangles(void) {
    aether_lists l = {N, N, 7, indptr, indices, NULL, 4, 8};
    aether_topology *t = NULL;
    aether_error err = {0};
    CHECK_OK(aether_topology_create(&l, &t, &err), err);
    return t;
}

static void make_lists(uint64_t places[N + 1], uint32_t neighbors[ENTRIES]) {
    aether_topology *t = two_triangles();
    aether_error err = {0};
    uint64_t degrees[N] = {0}, balance = 0;
    uint32_t nodes[N], ranks[N];
    CHECK_OK(aether_order_degrees(AE_SIZED(aether_order_part, t, 0, 0, N), degrees, &balance, NULL, &err),
             err);
    CHECK(balance != 0);
    CHECK_OK(aether_order_ranks(degrees, N, nodes, ranks, places, &err), err);
    CHECK_EQ(nodes[2], 4);
    CHECK_EQ(ranks[3], 5);
    CHECK_OK(aether_order_fill(AE_SIZED(aether_order_part, t, 0, 0, N), 1, ranks,
                               AE_SIZED(aether_order_lists, places, neighbors, ENTRIES), NULL, &err),
             err);
    CHECK_OK(aether_order_sort(places, neighbors, N, NULL, &err), err);
    aether_topology_destroy(t);
}

TEST(lists_are_of_both_ends) {
    uint64_t places[N + 1];
    uint32_t neighbors[ENTRIES];
    make_lists(places, neighbors);
    CHECK(memcmp(places, expected_places, sizeof places) == 0);
    CHECK(memcmp(neighbors, expected_lists, sizeof neighbors) == 0);
}

TEST(two_triangles_are_two_communities) {
    const aether_rabbit_options options = {.file = -1, .num_threads = 1};
    uint32_t order[N], community[N];
    uint64_t count = 0;
    aether_error err = {0};
    CHECK_OK(aether_order_rabbit(expected_places, expected_lists, N, &options,
                                 AE_SIZED(aether_rabbit_order, order, community, &count), NULL, &err),
             err);
    CHECK_EQ(count, 2);
    const uint32_t expected_communities[N] = {0, 0, 1, 1, 0, 1};
    CHECK(memcmp(community, expected_communities, sizeof community) == 0);
    for (uint32_t i = 0; i < N; i++)
        CHECK_EQ(community[order[i]], i / 3);
}

TEST(breadth_first_goes_backwards) {
    /* 0: 1 4; 1; 4: 5; 5: 2 3; turned round. */
    const uint32_t expected[N] = {3, 2, 5, 4, 1, 0};
    uint32_t order[N];
    aether_error err = {0};
    CHECK_OK(aether_order_bfs(expected_places, expected_lists, N, order, NULL, &err), err);
    CHECK(memcmp(order, expected, sizeof order) == 0);
}

TEST(gorder_begins_with_the_most_edges) {
    uint32_t order[N];
    aether_error err = {0};
    CHECK_OK(aether_order_gorder(expected_places, expected_lists, N, 5, order, NULL, &err), err);
    CHECK_EQ(order[0], 5);
    CHECK_CODE(aether_order_gorder(expected_places, expected_lists, N, 0, order, NULL, &err),
               AETHER_E_INVALID);
}

TEST(nodes_that_are_not_there_are_refused) {
    aether_topology *t = two_triangles();
    uint64_t degrees[N] = {0}, balance = 0, places[N + 1];
    uint32_t ranks[N] = {0}, neighbors[4];
    aether_error err = {0};
    CHECK_CODE(
        aether_order_degrees(AE_SIZED(aether_order_part, t, 0, 0, N - 1), degrees, &balance, NULL, &err),
        AETHER_E_INVALID);
    CHECK_CODE(aether_order_degrees(AE_SIZED(aether_order_part, t, 1, 0, N), degrees, &balance, NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(
        aether_order_degrees(AE_SIZED(aether_order_part, t, 0, UINT64_MAX, N), degrees, &balance, NULL, &err),
        AETHER_E_INVALID);
    CHECK_CODE(
        aether_order_degrees(AE_SIZED(aether_order_part, t, 0, 0, UINT32_MAX), degrees, &balance, NULL, &err),
        AETHER_E_LIMIT);
    CHECK_CODE(aether_order_ranks(degrees, UINT32_MAX, ranks, ranks, places, &err), AETHER_E_LIMIT);
    /* More edges than there was room for. */
    for (uint32_t i = 0; i < N; i++)
        ranks[i] = i;
    memset(places, 0, sizeof places);
    CHECK_CODE(aether_order_fill(AE_SIZED(aether_order_part, t, 0, 0, N), 1, ranks,
                                 AE_SIZED(aether_order_lists, places, neighbors, 2), NULL, &err),
               AETHER_E_CORRUPT);
    aether_topology_destroy(t);
}

/* ---- a larger graph: rings of cliques --------------------------------------------------- */

enum { CLIQUES = 400, SIZE = 12, MANY = CLIQUES * SIZE, DEGREE = SIZE + 1 };

static uint64_t many_places[MANY + 1];
static uint32_t many[MANY * DEGREE];

/* Cliques of nodes, each joined to the same places of the cliques beside it. */
static void make_cliques(void) {
    for (uint32_t v = 0; v < MANY; v++) {
        const uint32_t clique = v / SIZE, place = v % SIZE;
        uint32_t *list = many + v * DEGREE;
        for (uint32_t i = 0; i < SIZE; i++)
            if (i != place)
                *list++ = clique * SIZE + i;
        *list++ = (clique + 1) % CLIQUES * SIZE + place;
        *list++ = (clique + CLIQUES - 1) % CLIQUES * SIZE + place;
        many_places[v + 1] = (v + UINT64_C(1)) * DEGREE;
    }
}

static void check_cliques(const aether_rabbit_options *options) {
    static uint32_t order[MANY], community[MANY];
    static uint8_t seen[MANY];
    uint64_t count = 0;
    aether_error err = {0};
    memset(seen, 0, sizeof seen);
    CHECK_OK(aether_order_rabbit(many_places, many, MANY, options,
                                 AE_SIZED(aether_rabbit_order, order, community, &count), NULL, &err),
             err);
    CHECK(count > 10 && count <= CLIQUES);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK(order[i] < MANY && !seen[order[i]]);
        seen[order[i]] = 1;
        CHECK(community[i] < count);
        CHECK(i == 0 || community[order[i]] >= community[order[i - 1]]);
    }
}

TEST(threads_share_the_nodes) {
    make_cliques();
    for (uint32_t threads = 1; threads <= 8; threads++)
        check_cliques(&(aether_rabbit_options){.file = -1, .num_threads = threads});
}

TEST(edges_go_to_a_file) {
    make_cliques();
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        FILE *file = tmpfile();
        REQUIRE(file);
        check_cliques(&(aether_rabbit_options){.file = fileno(file), .num_threads = threads});
        CHECK(lseek(fileno(file), 0, SEEK_END) > 10000);
        fclose(file);
    }
}

TEST(damaged_lists_are_told) {
    const aether_rabbit_options options = {.file = -1, .num_threads = 2};
    static uint32_t order[MANY], community[MANY];
    uint64_t count = 0;
    aether_error err = {0};
    make_cliques();
    many[12345] = MANY;
    CHECK_CODE(aether_order_rabbit(many_places, many, MANY, &options,
                                   AE_SIZED(aether_rabbit_order, order, community, &count), NULL, &err),
               AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 12345);
    many_places[7] = 1;
    CHECK_CODE(aether_order_rabbit(many_places, many, MANY, &options,
                                   AE_SIZED(aether_rabbit_order, order, community, &count), NULL, &err),
               AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 7);
}

TEST_MAIN()
