/* Random operations on live graphs against a model, with and without a base, with snapshots held across them:
 * each goes on showing its commit. */
#include "live_base.h"

enum { HELD = 6, BATCH = 4096, MINORS = 1 << 20 };

typedef struct held {
    aether_snapshot *snapshot;
    model shows;
} held;

typedef struct run {
    aether_live *g;
    model now, committed;
    held held[HELD];
    uint64_t state;
    bool open;
    bool by_source; /* an edge has the time of its source */
} run;

static uint64_t below(run *r, uint64_t n) {
    return test_random(&r->state) % n;
}

/* Return the time of a source: some have the same. */
static int64_t source_time(int64_t minor) {
    return minor * 7919 % 5000;
}

/* Two hubs, the rest in the tail. */
static int64_t random_node(run *r) {
    return (int64_t)(below(r, 3) ? below(r, 2) : below(r, r->now.num_nodes));
}

/* Some batches are all for one hub and ascend, so that its list grows long quickly. */
static void insert(run *r, uint64_t most) {
    static int64_t major[BATCH], minor[BATCH], time[BATCH], expected[BATCH], ids[BATCH];
    static float weight[BATCH];
    const uint64_t n = 1 + below(r, most), kind = below(r, 4);
    const bool ahead = kind == 0;
    const int64_t hub = (int64_t)below(r, 2), clock = (int64_t)r->now.next_edge_id;
    const uint64_t before = r->now.num_edges;
    uint64_t inserted;
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        major[i] = kind < 3 && most > 100 ? hub : random_node(r);
        minor[i] = (int64_t)(ahead ? (r->now.next_edge_id * 7 + i) % MINORS : below(r, MINORS));
        if (below(r, 8) == 0)
            minor[i] = (int64_t)below(r, 40); /* the same ones now and then */
        time[i] = ahead || below(r, 20) ? clock + (int64_t)i : (int64_t)below(r, (uint64_t)clock + 1);
        if (r->by_source)
            time[i] = source_time(minor[i]);
        weight[i] = (float)below(r, 100) / 8;
        expected[i] = model_insert(&r->now, major[i], minor[i], time[i], weight[i]);
    }
    const aether_live_edges edges = {.src = minor,
                                     .dst = major,
                                     .times = r->now.columns & AETHER_LIVE_TIMES ? time : NULL,
                                     .weights = r->now.columns & AETHER_LIVE_WEIGHTS ? weight : NULL,
                                     .count = n};
    REQUIRE_OK(aether_live_insert(r->g, 0, &edges, ids, &inserted, &err), err);
    CHECK_EQ(inserted, r->now.num_edges - before);
    CHECK(memcmp(ids, expected, n * sizeof *ids) == 0);
}

static void delete (run *r, uint64_t most) {
    static int64_t major[BATCH], minor[BATCH], ids[BATCH];
    const uint64_t n = 1 + below(r, most);
    const bool by_id = r->now.edge_id_bytes && below(r, 2);
    uint64_t expected = 0, deleted;
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        major[i] = random_node(r);
        const model_list *l = &r->now.lists[major[i]];
        const model_edge *e = &l->edges[l->n ? below(r, l->n) : 0];
        minor[i] = l->n && below(r, 8) ? e->id : (int64_t)below(r, 40);
        ids[i] = l->n && minor[i] == e->id ? e->edge_id : 0;
        if (by_id && !r->now.next_edge_id)
            return;
        expected += model_delete(&r->now, major[i], minor[i], by_id ? ids[i] : -1);
    }
    REQUIRE_OK(aether_live_delete(r->g, 0, minor, major, by_id ? ids : NULL, n, &deleted, &err), err);
    CHECK_EQ(deleted, expected);
}

/* Take much out of a hub's list: a stretch, or entries here and there; some are asked for twice. */
static void delete_many(run *r) {
    static int64_t major[BATCH], minor[BATCH], ids[BATCH];
    const int64_t hub = (int64_t)below(r, 2);
    const model_list *l = &r->now.lists[hub];
    const bool by_id = r->now.edge_id_bytes && below(r, 2);
    const uint64_t apart = below(r, 2) ? 1 : 1 + below(r, 60);
    uint64_t expected = 0, deleted, n = 0;
    aether_error err = {0};
    if (!l->n)
        return;
    for (uint64_t i = below(r, l->n); i < l->n && n < 600; i += below(r, 20) ? 1 + below(r, apart) : 0, n++) {
        major[n] = hub;
        minor[n] = l->edges[i].id;
        ids[n] = l->edges[i].edge_id;
    }
    for (uint64_t i = n; i > 1; i--) { /* in any order */
        const uint64_t k = below(r, i);
        const int64_t id = minor[k], edge = ids[k];
        minor[k] = minor[i - 1];
        ids[k] = ids[i - 1];
        minor[i - 1] = id;
        ids[i - 1] = edge;
    }
    for (uint64_t i = 0; i < n; i++)
        expected += model_delete(&r->now, major[i], minor[i], by_id ? ids[i] : -1);
    REQUIRE_OK(aether_live_delete(r->g, 0, minor, major, by_id ? ids : NULL, n, &deleted, &err), err);
    CHECK_EQ(deleted, expected);
}

static void settle(run *r) {
    if (r->open)
        return;
    model_free(&r->committed);
    r->committed = model_copy(&r->now);
}

static void change(run *r) {
    const uint64_t what = below(r, 16);
    aether_error err = {0};
    if (what < 9)
        insert(r, what < 4 ? 1 : what < 7 ? 60 : BATCH);
    else if (what < 12)
        delete (r, what == 9 ? 1 : 20);
    else if (what < 13)
        delete_many(r);
    else if (what < 14 && r->now.num_nodes < MODEL_NODES) {
        CHECK_OK(aether_live_add_nodes(r->g, 0, 0, 1, &err), err);
        r->now.num_nodes++;
    }
    settle(r);
}

static void end(run *r, bool keep) {
    aether_error err = {0};
    r->open = false;
    if (keep) {
        CHECK_OK(aether_live_commit(r->g, &err), err);
    } else {
        CHECK_OK(aether_live_abort(r->g, &err), err);
        model_free(&r->now);
        r->now = model_copy(&r->committed);
    }
    settle(r);
}

static void release(held *h) {
    aether_snapshot_release(h->snapshot);
    model_free(&h->shows);
    h->snapshot = NULL;
}

static void look(run *r) {
    held *h = &r->held[below(r, HELD)];
    aether_error err = {0};
    if (h->snapshot) {
        const uint64_t what = below(r, 4);
        model_check(h->snapshot, &h->shows, &r->state);
        if (what < 2)
            release(h);
        else if (what < 3) {
            CHECK_OK(aether_snapshot_renew(h->snapshot, &err), err);
            model_free(&h->shows);
            h->shows = model_copy(&r->committed);
        }
    } else {
        h->snapshot = live_pin(r->g);
        h->shows = model_copy(&r->committed);
    }
}

/* Without readers only the edges take memory; without edges nothing does. */
static void check_nothing_is_lost(run *r, bool over_base) {
    aether_live_stats stats;
    aether_error err = {0};
    CHECK_OK(aether_live_reclaim(r->g, &err), err);
    aether_live_count(r->g, &stats);
    CHECK_EQ(stats.retired_bytes, 0);
    CHECK_EQ(stats.num_edges, r->committed.num_edges);
    CHECK_EQ(stats.snapshots, 0);
    CHECK(over_base || stats.used_bytes > r->committed.num_edges * 4);
    for (int64_t v = 0; v < MODEL_NODES; v++) {
        const model_list *l = &r->committed.lists[v];
        for (uint64_t i = 0; i < l->n; i++) {
            uint64_t deleted; /* 0: it went with an equal one */
            CHECK_OK(aether_live_delete(r->g, 0, &l->edges[i].id, &v, NULL, 1, &deleted, &err), err);
        }
    }
    CHECK_OK(aether_live_reclaim(r->g, &err), err);
    aether_live_count(r->g, &stats);
    CHECK_EQ(stats.num_edges, 0);
    CHECK_EQ(stats.used_bytes, 0);
}

/* Fill the model with what the base of a graph is to have: hubs, short lists, empty ones, gaps in the ids. */
static void fill(run *r, uint64_t edges) {
    model *m = &r->now;
    for (uint64_t i = 0; i < edges; i++) {
        const int64_t major = (int64_t)(below(r, 4) ? below(r, 3) : below(r, m->num_nodes - 4));
        const int64_t minor = (int64_t)below(r, below(r, 8) ? MINORS : 40);
        const int64_t time = r->by_source ? source_time(minor) : (int64_t)(i / 2);
        model_insert(m, major, minor, time, (float)below(r, 100) / 8);
        if (below(r, 16) == 0)
            model_delete(m, major, minor, -1);
    }
}

/* `edges`: about as many of the base; 0: there is none. */
static void run_by(bool by_source, uint32_t order, uint32_t columns, uint32_t edge_id_bytes, uint64_t edges,
                   uint64_t seed, int num_steps) {
    static int64_t node_times[MINORS];
    live_spec o = {.relation = {.num_src = MINORS,
                                .num_dst = 20,
                                .max_dst = MODEL_NODES,
                                .layouts = AETHER_LIVE_CSC,
                                .order = order,
                                .columns = columns,
                                .edge_id_bytes = edge_id_bytes},
                   .arena_bytes = UINT64_C(256) << 20,
                   .first_commit = (UINT64_C(1) << 32) - (uint64_t)num_steps / 4}; /* stamps come round */
    static run r;
    static model_base base;
    aether_error err = {0};
    r = (run){.state = seed, .by_source = by_source};
    r.now = model_make(&o.relation, AETHER_LIVE_CSC);
    if (edges) {
        fill(&r, edges);
        model_base_make(&r.now, seed % 2, seed, &base);
        o.relation.base_edges = r.now.num_edges;
        o.relation.base_edge_ids = r.now.next_edge_id;
        for (int64_t i = 0; by_source && i < MINORS; i++)
            node_times[i] = source_time(i);
        if (by_source) {
            base.given.times = node_times;
            base.given.times_of = AETHER_TIMES_OF_NODES + 1;
        }
    }
    r.committed = model_copy(&r.now);
    REQUIRE_OK(live_create(&o, &r.g, &err), err);
    if (by_source) {
        CHECK_CODE(aether_live_set_base(r.g, 0, AETHER_LIVE_CSC, &base.given, &err), AETHER_E_INVALID);
        base.given.times_of = AETHER_TIMES_OF_NODES;
    }
    if (edges)
        REQUIRE_OK(aether_live_set_base(r.g, 0, AETHER_LIVE_CSC, &base.given, &err), err);
    for (int i = 0; i < num_steps; i++) {
        const uint64_t what = below(&r, 20);
        if (what < 2 && !r.open) {
            CHECK_OK(aether_live_begin(r.g, &err), err);
            r.open = true;
        } else if (what < 5 && r.open) {
            end(&r, what < 4);
        } else if (what < 9) {
            look(&r);
        } else if (what < 10 && !r.open) {
            CHECK_OK(aether_live_reclaim(r.g, &err), err);
        } else {
            change(&r);
        }
    }
    if (r.open)
        end(&r, true);
    for (int i = 0; i < HELD; i++)
        if (r.held[i].snapshot) {
            model_check(r.held[i].snapshot, &r.held[i].shows, &r.state);
            release(&r.held[i]);
        }
    aether_snapshot *last = live_pin(r.g);
    model_check(last, &r.committed, &r.state);
    aether_snapshot_release(last);
    check_nothing_is_lost(&r, edges != 0);
    aether_live_close(r.g);
    if (edges)
        model_base_free(&base);
    model_free(&r.now);
    model_free(&r.committed);
}

static void run_over(uint32_t order, uint32_t columns, uint32_t edge_id_bytes, uint64_t edges, uint64_t seed,
                     int num_steps) {
    run_by(false, order, columns, edge_id_bytes, edges, seed, num_steps);
}

static void run_steps(uint32_t order, uint32_t columns, uint32_t edge_id_bytes, uint64_t seed,
                      int num_steps) {
    run_over(order, columns, edge_id_bytes, 0, seed, num_steps);
}

static int steps(void) {
    return test_long() && !TEST_SANITIZED ? 400 : 100;
}

TEST_ONE_THREAD(order_time) {
    run_steps(AETHER_ORDER_TIME, AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS, 8, 1, steps());
    run_steps(AETHER_ORDER_TIME, AETHER_LIVE_TIMES, 4, 2, steps());
}
TEST_ONE_THREAD(order_of_arrival) {
    run_steps(AETHER_ORDER_TIME, 0, 4, 3, steps());
    run_steps(AETHER_ORDER_TIME, AETHER_LIVE_WEIGHTS, 0, 4, steps());
}
TEST_ONE_THREAD(order_id) {
    run_steps(AETHER_ORDER_ID, 0, 0, 5, steps());
    run_steps(AETHER_ORDER_ID, 0, 4, 6, steps());
    run_steps(AETHER_ORDER_ID, AETHER_LIVE_WEIGHTS, 8, 7, steps());
}

TEST_ONE_THREAD(over_a_base_by_time) {
    run_over(AETHER_ORDER_TIME, AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS, 8, 9000, 8, steps());
    run_over(AETHER_ORDER_TIME, AETHER_LIVE_TIMES, 4, 3000, 9, steps());
    run_over(AETHER_ORDER_TIME, AETHER_LIVE_WEIGHTS, 0, 500, 10, steps());
    run_over(AETHER_ORDER_TIME, 0, 4, 60000, 11, steps() / 3);
}
TEST_ONE_THREAD(over_a_base_by_times_of_sources) {
    run_by(true, AETHER_ORDER_TIME, AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS, 8, 9000, 15, steps());
    run_by(true, AETHER_ORDER_TIME, AETHER_LIVE_TIMES, 4, 3000, 16, steps());
}
TEST_ONE_THREAD(over_a_base_by_id) {
    run_over(AETHER_ORDER_ID, 0, 0, 9000, 12, steps());
    run_over(AETHER_ORDER_ID, 0, 4, 500, 13, steps());
    run_over(AETHER_ORDER_ID, AETHER_LIVE_WEIGHTS, 8, 60000, 14, steps() / 3);
}

TEST_MAIN()
