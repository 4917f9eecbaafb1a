/* Many deletions from one list in one call: of both layouts, and over a base, where memory may end. */
#include "live_helpers.h"
#include "topology/topology.h"

enum { EDGES = 100000, BATCH = 5000, BASE = 1000000 };

static int64_t hub[BASE], ends[BASE];

/* Edges from the nodes 1, 2 ... to node 0, whose list is long; those from them are short. */
static aether_live *make(uint32_t order, uint32_t layouts, uint32_t edge_id_bytes) {
    aether_live *g = live_make((live_spec){.relation = {.num_src = EDGES + 1,
                                                        .num_dst = EDGES + 1,
                                                        .layouts = layouts,
                                                        .order = order,
                                                        .edge_id_bytes = edge_id_bytes},
                                           .arena_bytes = 64 << 20});
    for (int64_t i = 0; i < EDGES; i++)
        ends[i] = i + 1;
    return g;
}

static uint64_t length(const aether_live *g, uint32_t layout, int64_t node) {
    aether_snapshot *s = live_pin(g);
    uint64_t out = 0;
    aether_error err = {0};
    CHECK_OK(aether_topology_degrees(aether_snapshot_topology(s, 0, layout), &node, 1, (int64_t *)&out, NULL,
                                     &err),
             err);
    aether_snapshot_release(s);
    return out;
}

static void check_hub(uint32_t order, bool from_hub, bool twice) {
    aether_live *g = make(order, AETHER_LIVE_CSC | AETHER_LIVE_CSR, twice ? 4 : 0);
    const int64_t *src = from_hub ? hub : ends, *dst = from_hub ? ends : hub;
    const uint32_t of_hub = from_hub ? AETHER_LIVE_CSR : AETHER_LIVE_CSC,
                   of_ends = (AETHER_LIVE_CSC | AETHER_LIVE_CSR) - of_hub;
    const aether_live_edges edges = {.src = src, .dst = dst, .count = EDGES};
    const uint64_t each = twice && order == AETHER_ORDER_TIME ? 2 : 1;
    uint64_t n;
    aether_error err = {0};
    REQUIRE_OK(aether_live_insert(g, 0, &edges, NULL, &n, &err), err);
    if (twice)
        REQUIRE_OK(aether_live_insert(g, 0, &edges, NULL, &n, &err), err);
    REQUIRE_OK(aether_live_delete(g, 0, src + 7, dst + 7, NULL, BATCH, &n, &err), err);
    CHECK_EQ(n, each * BATCH);
    REQUIRE_OK(aether_live_delete(g, 0, src + 7, dst + 7, NULL, BATCH + 1, &n, &err), err);
    CHECK_EQ(n, each);
    if (twice) { /* of two edges the one that was inserted first */
        REQUIRE_OK(aether_live_delete(g, 0, src, dst, hub, 7, &n, &err), err);
        CHECK_EQ(n, 1);
    }
    CHECK_EQ(length(g, of_hub, 0), each * (EDGES - BATCH - 1) - twice);
    CHECK_EQ(length(g, of_ends, 1), each - twice);
    CHECK_EQ(length(g, of_ends, 7), each);
    CHECK_EQ(length(g, of_ends, 8), 0);
    CHECK_EQ(length(g, of_ends, 8 + BATCH), 0);
    CHECK_EQ(length(g, of_ends, 9 + BATCH), each);
    aether_live_close(g);
}

TEST(batches_of_a_hub) {
    for (int i = 0; i < 8; i++)
        check_hub(i % 2 ? AETHER_ORDER_ID : AETHER_ORDER_TIME, i & 2, i & 4);
}

/* Pieces of an extent take memory: where there is none, the list is as it was. */
static void check_no_room(uint32_t order) {
    static uint32_t ids[BASE];
    static const uint64_t indptr[2] = {0, BASE};
    const aether_lists lists = {.indptr = indptr,
                                .indices = ids,
                                .id_bytes = 4,
                                .num_major = 1,
                                .num_minor = BASE,
                                .num_edges = BASE};
    aether_topology *t = NULL;
    aether_live *g = NULL;
    aether_error err = {0};
    uint64_t n;
    for (uint32_t i = 0; i < BASE; i++)
        ids[i] = i;
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    const live_spec spec = {.relation = {.num_src = BASE,
                                         .num_dst = 1,
                                         .layouts = AETHER_LIVE_CSC,
                                         .order = order,
                                         .edge_id_bytes = 4,
                                         .base_edges = BASE,
                                         .base_edge_ids = BASE},
                            .arena_bytes = 256 << 10};
    const aether_live_base base = {.lists = t, .last_time = INT64_MAX};
    REQUIRE_OK(live_create(&spec, &g, &err), err);
    REQUIRE_OK(aether_live_set_base(g, 0, AETHER_LIVE_CSC, &base, &err), err);
    for (uint32_t apart = 10; apart < 100; apart += 25) { /* copies, directories or extents do not fit */
        for (int64_t i = 0; i < BASE / apart; i++)
            ends[i] = i * apart;
        CHECK_CODE(aether_live_delete(g, 0, ends, hub, NULL, BASE / apart, &n, &err), AETHER_E_NO_MEMORY);
        CHECK_EQ(length(g, AETHER_LIVE_CSC, 0), BASE);
    }
    aether_live_stats stats;
    REQUIRE_OK(aether_live_delete(g, 0, ends, hub, NULL, 10, &n, &err), err);
    CHECK_EQ(n, 10);
    aether_snapshot *s = live_pin(g);
    uint64_t major = 0, position, id;
    ae_list list;
    const aether_topology *now = live_lists(s);
    REQUIRE_OK(now->ops->locate(now, &major, 1, &list, &err), err);
    CHECK_EQ(list.degree, BASE - 10);
    uint64_t wrong = 0;
    for (uint32_t i = 0, at = 0; i < BASE; i++) {
        if (i % 85 == 0 && i < 850)
            continue;
        position = list.start + at++;
        REQUIRE_OK(now->ops->fetch(now, &position, 1, &id, &err), err);
        wrong += id != i;
    }
    CHECK_EQ(wrong, 0);
    aether_snapshot_release(s);
    for (int64_t i = 0; i < BASE; i++)
        ends[i] = i;
    REQUIRE_OK(aether_live_delete(g, 0, ends, hub, NULL, BASE, &n, &err), err);
    CHECK_OK(aether_live_reclaim(g, &err), err);
    aether_live_count(g, &stats);
    CHECK_EQ(stats.used_bytes, 0);
    aether_live_close(g);
    aether_topology_destroy(t);
}

TEST(pieces_of_a_base_without_room) {
    check_no_room(AETHER_ORDER_TIME);
    check_no_room(AETHER_ORDER_ID);
}

TEST_MAIN()
