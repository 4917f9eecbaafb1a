/* Live graphs of several relations, in both layouts: all of it changes in one commit, whatever
 * happens in between. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "live/handle.h"
#include "live_model.h"
#include "os/shared.h"

enum { RELATIONS = 4, NODES = 48, HELD = 4, CROWD = 1500 };

static const aether_live_relation relations[RELATIONS] = {
    {.num_src = NODES,
     .num_dst = 7,
     .max_src = MODEL_NODES,
     .layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR,
     .order = AETHER_ORDER_TIME,
     .columns = AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS,
     .edge_id_bytes = 8},
    {.num_src = NODES,
     .num_dst = MODEL_NODES,
     .layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR,
     .order = AETHER_ORDER_ID,
     .columns = AETHER_LIVE_WEIGHTS,
     .edge_id_bytes = 4},
    {.num_src = 5, .num_dst = NODES, .layouts = AETHER_LIVE_CSR, .order = AETHER_ORDER_TIME},
    {.num_src = NODES,
     .num_dst = NODES,
     .layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR,
     .order = AETHER_ORDER_ID},
};

static aether_live *make(const aether_live_relation *all, uint32_t n, uint64_t arena_bytes, uint32_t flags) {
    const aether_live_options o = {
        .relations = all, .num_relations = n, .flags = flags, .arena_bytes = arena_bytes};
    aether_live *g = NULL;
    aether_error err = {0};
    CHECK_OK(aether_live_create(&o, &g, &err), err);
    return g;
}

/* ---- a graph and its model: a model for each layout of each relation ---- */

typedef struct typed_model {
    model csc[RELATIONS], csr[RELATIONS];
} typed_model;

static typed_model make_model(void) {
    typed_model m;
    for (int r = 0; r < RELATIONS; r++) {
        m.csc[r] = model_make(&relations[r], AETHER_LIVE_CSC);
        m.csr[r] = model_make(&relations[r], AETHER_LIVE_CSR);
    }
    return m;
}

static typed_model copy_model(const typed_model *m) {
    typed_model copy;
    for (int r = 0; r < RELATIONS; r++) {
        copy.csc[r] = model_copy(&m->csc[r]);
        copy.csr[r] = model_copy(&m->csr[r]);
    }
    return copy;
}

static void free_model(typed_model *m) {
    for (int r = 0; r < RELATIONS; r++) {
        model_free(&m->csc[r]);
        model_free(&m->csr[r]);
    }
}

static int64_t insert_into_model(typed_model *m, uint32_t r, int64_t src, int64_t dst, int64_t time,
                                 float weight) {
    const int64_t edge = model_insert(&m->csc[r], dst, src, time, weight);
    CHECK_EQ(model_insert(&m->csr[r], src, dst, time, weight), edge);
    return edge;
}

static void check_shown(const aether_snapshot *s, const typed_model *m, uint64_t *state) {
    for (uint32_t r = 0; r < RELATIONS; r++) {
        if (relations[r].layouts & AETHER_LIVE_CSC)
            model_check_layout(s, r, AETHER_LIVE_CSC, &m->csc[r], state);
        if (relations[r].layouts & AETHER_LIVE_CSR)
            model_check_layout(s, r, AETHER_LIVE_CSR, &m->csr[r], state);
    }
}

/* ---- random operations ---- */

typedef struct run {
    aether_live *g;
    typed_model now, committed;
    aether_snapshot *held[HELD];
    typed_model shown[HELD];
    uint64_t state;
    bool open;
} run;

static uint64_t below(run *r, uint64_t n) {
    return test_random(&r->state) % n;
}

enum { BATCH = 2500 };

static void insert(run *r, uint32_t relation, uint64_t n) {
    static int64_t src[BATCH], dst[BATCH], time[BATCH], ids[BATCH], expected[BATCH];
    static float weight[BATCH];
    const uint32_t columns = relations[relation].columns;
    const model *csc = &r->now.csc[relation];
    const uint64_t before = csc->num_edges;
    uint64_t inserted;
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        src[i] = (int64_t)below(r, csc->num_minor);
        dst[i] = (int64_t)below(r, csc->num_nodes);
        time[i] = (int64_t)below(r, 50);
        weight[i] = (float)below(r, 9);
        expected[i] = insert_into_model(&r->now, relation, src[i], dst[i], time[i], weight[i]);
    }
    const aether_live_edges edges = {.src = src,
                                     .dst = dst,
                                     .times = columns & AETHER_LIVE_TIMES ? time : NULL,
                                     .weights = columns & AETHER_LIVE_WEIGHTS ? weight : NULL,
                                     .count = n};
    REQUIRE_OK(aether_live_insert(r->g, relation, &edges, ids, &inserted, &err), err);
    CHECK_EQ(inserted, csc->num_edges - before);
    CHECK(memcmp(ids, expected, n * sizeof *ids) == 0);
}

static void insert_one(run *r, uint32_t relation) {
    const model *csc = &r->now.csc[relation];
    const int64_t src = (int64_t)below(r, csc->num_minor), dst = (int64_t)below(r, csc->num_nodes);
    const int64_t time = (int64_t)below(r, 50);
    const float weight = (float)below(r, 9);
    const uint64_t before = csc->num_edges;
    const int64_t expected = insert_into_model(&r->now, relation, src, dst, time, weight);
    int64_t edge = -2;
    int inserted = -1;
    aether_error err = {0};
    if (!relations[relation].columns && below(r, 2)) {
        CHECK_EQ(aether_live_insert_plain(r->g, relation, src, dst, &err), expected < 0 ? 0 : expected);
        return;
    }
    REQUIRE_OK(aether_live_insert_one(r->g, relation, src, dst, time, weight, &edge, &inserted, &err), err);
    CHECK_EQ(edge, expected);
    CHECK_EQ(inserted, csc->num_edges - before);
}

static void delete_some(run *r, uint32_t relation) {
    int64_t src[20], dst[20], ids[20];
    model *csc = &r->now.csc[relation];
    const bool by_id = csc->edge_id_bytes && csc->next_edge_id && below(r, 2);
    uint64_t n = 1 + below(r, 20), expected = 0, deleted;
    aether_error err = {0};
    for (uint64_t i = 0; i < n; i++) {
        dst[i] = (int64_t)below(r, csc->num_nodes);
        const model_list *l = &csc->lists[dst[i]];
        const bool there = l->n && below(r, 8);
        const model_edge e = there ? l->edges[below(r, l->n)] : (model_edge){0};
        src[i] = e.id;
        ids[i] = e.edge_id;
        const uint64_t gone = model_delete(csc, dst[i], src[i], by_id ? ids[i] : -1);
        CHECK_EQ(model_delete(&r->now.csr[relation], src[i], dst[i], by_id ? ids[i] : -1), gone);
        expected += gone;
    }
    REQUIRE_OK(aether_live_delete(r->g, relation, src, dst, by_id ? ids : NULL, n, &deleted, &err), err);
    CHECK_EQ(deleted, expected);
}

static void add_nodes(run *r) {
    aether_error err = {0};
    if (r->now.csr[0].num_nodes == MODEL_NODES)
        return;
    CHECK_OK(aether_live_add_nodes(r->g, 0, 1, 0, &err), err);
    r->now.csr[0].num_nodes++;
    r->now.csc[0].num_minor++;
}

static void settle(run *r) {
    if (r->open)
        return;
    free_model(&r->committed);
    r->committed = copy_model(&r->now);
}

static void change(run *r) {
    const uint64_t what = below(r, 16);
    const uint32_t relation = (uint32_t)below(r, RELATIONS);
    if (what < 6)
        insert_one(r, relation);
    else if (what < 10)
        insert(r, relation, 1 + below(r, what < 9 ? 100 : BATCH));
    else if (what < 15)
        delete_some(r, relation);
    else
        add_nodes(r);
    settle(r);
}

static void end(run *r, bool keep) {
    aether_error err = {0};
    r->open = false;
    if (keep) {
        CHECK_OK(aether_live_commit(r->g, &err), err);
    } else {
        CHECK_OK(aether_live_abort(r->g, &err), err);
        free_model(&r->now);
        r->now = copy_model(&r->committed);
    }
    settle(r);
}

static void look(run *r) {
    const uint64_t i = below(r, HELD), what = below(r, 3);
    aether_error err = {0};
    if (r->held[i]) {
        check_shown(r->held[i], &r->shown[i], &r->state);
        free_model(&r->shown[i]);
        if (what == 0) {
            aether_snapshot_release(r->held[i]);
            r->held[i] = NULL;
            return;
        }
        CHECK_OK(aether_snapshot_renew(r->held[i], &err), err);
    } else {
        r->held[i] = live_pin(r->g);
    }
    r->shown[i] = copy_model(&r->committed);
}

static void check_counts(run *r) {
    aether_live_stats sum;
    uint64_t used = 0, edges = 0, touched = 0;
    aether_error err = {0};
    CHECK_OK(aether_live_reclaim(r->g, &err), err);
    aether_live_count(r->g, &sum);
    for (uint32_t k = 0; k < RELATIONS; k++) {
        aether_live_relation_stats one;
        CHECK_OK(aether_live_count_relation(r->g, k, &one, &err), err);
        CHECK_EQ(one.num_src, r->committed.csr[k].num_nodes);
        CHECK_EQ(one.num_dst, r->committed.csc[k].num_nodes);
        CHECK_EQ(one.num_edges, r->committed.csc[k].num_edges);
        CHECK_EQ(one.end_edge_ids, r->committed.csc[k].next_edge_id);
        CHECK_EQ(one.retired_bytes, 0);
        edges += one.num_edges;
        used += one.used_bytes;
        touched += one.touched_nodes;
    }
    CHECK_EQ(sum.num_edges, edges);
    CHECK_EQ(sum.used_bytes, used);
    CHECK_EQ(sum.touched_nodes, touched);
}

TEST_ONE_THREAD(all_relations_change_in_one_commit) {
#ifdef AE_SANITIZED
    enum { STEPS = 300 };
#else
    enum { STEPS = 1200 };
#endif
    static run r;
    aether_error err = {0};
    r = (run){.g = make(relations, RELATIONS, 64 << 20, 0), .state = 11};
    r.now = make_model();
    r.committed = make_model();
    for (int i = 0; i < STEPS; i++) {
        const uint64_t what = below(&r, 20);
        if (what < 3 && !r.open) {
            CHECK_OK(aether_live_begin(r.g, &err), err);
            r.open = true;
        } else if (what < 5 && r.open) {
            end(&r, what < 4);
        } else if (what < 6) {
            look(&r);
        } else {
            change(&r);
        }
    }
    if (r.open)
        end(&r, true);
    for (int i = 0; i < HELD; i++)
        if (r.held[i]) {
            check_shown(r.held[i], &r.shown[i], &r.state);
            aether_snapshot_release(r.held[i]);
            free_model(&r.shown[i]);
        }
    aether_snapshot *last = live_pin(r.g);
    check_shown(last, &r.committed, &r.state);
    aether_snapshot_release(last);
    check_counts(&r);
    aether_live_close(r.g);
    free_model(&r.now);
    free_model(&r.committed);
}

/* ---- failures ---- */

/* The failure comes at each point of a transaction in turn, in either layout: nothing of it is left
 * in any relation. */
TEST_ONE_THREAD(a_full_arena_undoes_all_relations) {
    static int64_t src[60], dst[60], times[60];
    static float weights[60];
    aether_live *g = make(relations, RELATIONS, 1 << 20, 0);
    typed_model shows = make_model();
    uint64_t state = 4, failures = 0, late = 0, n;
    aether_error err = {0};
    for (int step = 0; step < 3000 && failures < 150; step++) {
        typed_model next = copy_model(&shows);
        int rc = aether_live_begin(g, &err);
        const uint32_t first = (uint32_t)(test_random(&state) % RELATIONS);
        for (uint32_t i = 0; !rc && i < RELATIONS; i++) {
            const uint32_t r = (first + i) % RELATIONS;
            const aether_live_edges edges = {.src = src,
                                             .dst = dst,
                                             .times = relations[r].columns & AETHER_LIVE_TIMES ? times : NULL,
                                             .weights =
                                                 relations[r].columns & AETHER_LIVE_WEIGHTS ? weights : NULL,
                                             .count = 60};
            for (int k = 0; k < 60; k++) {
                src[k] = (int64_t)(test_random(&state) % relations[r].num_src);
                dst[k] = (int64_t)(test_random(&state) % relations[r].num_dst);
                insert_into_model(&next, r, src[k], dst[k], 0, 0);
            }
            rc = aether_live_insert(g, r, &edges, NULL, &n, &err);
            late += rc && i > 0;
        }
        if (!rc)
            rc = aether_live_commit(g, &err);
        if (rc) {
            CHECK_EQ(rc, AETHER_E_NO_MEMORY);
            CHECK_CODE(aether_live_commit(g, &err), AETHER_E_INVALID); /* it is over */
            failures++;
        }
        free_model(rc ? &next : &shows);
        shows = rc ? shows : next;
        if (rc && failures % 10 == 0) {
            aether_snapshot *s = live_pin(g);
            check_shown(s, &shows, &state);
            aether_snapshot_release(s);
        }
    }
    CHECK_EQ(failures, 150);
    CHECK(late > 20);
    free_model(&shows);
    aether_live_close(g);
}

TEST(what_is_refused_names_the_relation) {
    aether_live_relation two[2] = {relations[0], relations[1]};
    const aether_live_options none = {.arena_bytes = 1 << 20};
    aether_live_options o = {.relations = two, .num_relations = 2, .arena_bytes = 1 << 20};
    const int64_t node = 0;
    const aether_live_edges edges = {.src = &node, .dst = &node, .count = 1};
    aether_live *g = NULL;
    aether_live_relation relation;
    aether_live_relation_stats stats;
    aether_live_commit_info info;
    uint64_t n;
    uint8_t found;
    aether_error err = {0};
    CHECK_CODE(aether_live_create(&none, &g, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "num_relations = 0");
    two[1].edge_id_bytes = 3;
    CHECK_CODE(aether_live_create(&o, &g, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "edge_id_bytes = 3 of relation 1");
    CHECK_EQ(err.position, 1);
    two[1].edge_id_bytes = 4;
    o.flags = 4;
    CHECK_CODE(aether_live_create(&o, &g, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "flags = 4");
    o.flags = 0;
    REQUIRE_OK(aether_live_create(&o, &g, &err), err);
    CHECK_EQ(aether_live_num_relations(g), 2);
    CHECK_CODE(aether_live_relation_at(g, 2, &relation, &err), AETHER_E_RANGE);
    CHECK_HAS(err.message, "relation 2 is not in 0..1");
    CHECK_CODE(aether_live_insert(g, 2, &edges, NULL, &n, &err), AETHER_E_RANGE);
    CHECK_CODE(aether_live_insert_one(g, 2, 0, 0, 0, 0, NULL, NULL, &err), AETHER_E_RANGE);
    CHECK_CODE(aether_live_delete(g, 2, &node, &node, NULL, 1, &n, &err), AETHER_E_RANGE);
    CHECK_CODE(aether_live_add_nodes(g, UINT32_MAX, 1, 1, &err), AETHER_E_RANGE);
    CHECK_CODE(aether_live_count_relation(g, 2, &stats, &err), AETHER_E_RANGE);
    CHECK_CODE(aether_live_insert_one(g, 0, -1, 0, 0, 0, NULL, NULL, &err), AETHER_E_RANGE);
    CHECK_STR(err.message, "src[0] = -1 is not in 0..47");
    CHECK_CODE(aether_live_insert_one(g, 0, 0, 7, 0, 0, NULL, NULL, &err), AETHER_E_RANGE);
    CHECK_STR(err.message, "dst[0] = 7 is not in 0..6");
    CHECK_CODE((int)aether_live_insert_plain(g, 0, -2, 0, &err), AETHER_E_RANGE);
    CHECK_STR(err.message, "src[0] = -2 is not in 0..47");
    CHECK_CODE(aether_live_insert_one(g, 0, 0, 0, 0, -1, NULL, NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_live_add_nodes(g, 0, MODEL_NODES, 0, &err), AETHER_E_LIMIT);
    CHECK_HAS(err.message, "max_src = 64");
    aether_snapshot *s = live_pin(g);
    CHECK_CODE(aether_snapshot_describe(s, 2, &info, &err), AETHER_E_RANGE);
    CHECK_CODE(aether_snapshot_has_edges(s, 2, &node, &node, 1, &found, NULL, &err), AETHER_E_RANGE);
    CHECK(!aether_snapshot_topology(s, 2, AETHER_LIVE_CSC));
    CHECK(!aether_snapshot_topology(s, 0, 3));
    CHECK(aether_snapshot_topology(s, 0, AETHER_LIVE_CSR));
    aether_snapshot_release(s);
    aether_live_close(g);
    two[0].layouts = AETHER_LIVE_CSR;
    REQUIRE_OK(aether_live_create(&o, &g, &err), err);
    s = live_pin(g);
    CHECK(!aether_snapshot_topology(s, 0, AETHER_LIVE_CSC));
    aether_snapshot_release(s);
    aether_live_close(g);
}

TEST_ONE_THREAD(a_graph_of_many_relations) {
    enum { MANY = 100 };
    static aether_live_relation all[MANY];
    static int32_t fds[2 + 4 * MANY];
    aether_error err = {0};
    for (int r = 0; r < MANY; r++) {
        all[r] = relations[3];
        all[r].max_src = all[r].max_dst = 1 << 20; /* sanitizers have little room for address space */
    }
    aether_live *g = make(all, MANY, 4 << 20, 0), *other = NULL;
    for (uint32_t r = 0; r < MANY; r++)
        CHECK_OK(aether_live_insert_one(g, r, r % NODES, 1, 0, 0, NULL, NULL, &err), err);
    CHECK_EQ(aether_live_num_descriptors(g), 2 + 4 * MANY);
    aether_live_descriptors(g, fds);
    REQUIRE_OK(aether_live_attach(fds, 2 + 4 * MANY, &other, &err), err);
    aether_snapshot *s = live_pin(other);
    for (uint32_t r = 0; r < MANY; r++) {
        const int64_t node = 1;
        int64_t neighbor = -1;
        CHECK_OK(aether_topology_neighbors(aether_snapshot_topology(s, r, AETHER_LIVE_CSC),
                                           AE_SIZED(aether_list_request, .nodes = &node, .n = 1,
                                                    .capacity = 1, .neighbors = &neighbor),
                                           NULL, &err),
                 err);
        CHECK_EQ(neighbor, r % NODES);
    }
    aether_snapshot_release(s);
    aether_live_close(other);
    aether_live_close(g);
}

TEST(locked_and_huge_memory_if_the_system_has_it) {
    struct rlimit old, little = {.rlim_cur = 64 << 10};
    aether_error err = {0};
    for (uint32_t flags = 0; flags < 4; flags++) {
        aether_live *g = NULL;
        const aether_live_options o = {
            .relations = &relations[3], .num_relations = 1, .flags = flags, .arena_bytes = 4 << 20};
        const int rc = aether_live_create(&o, &g, &err);
        if (rc) { /* such is the limit here */
            CHECK(flags & AETHER_LIVE_LOCKED);
            CHECK_HAS(err.message, "ulimit -l");
            continue;
        }
        CHECK_OK(aether_live_insert_one(g, 0, 1, 2, 0, 0, NULL, NULL, &err), err);
        aether_live_close(g);
    }
    CHECK_EQ(getrlimit(RLIMIT_MEMLOCK, &old), 0);
    little.rlim_max = old.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &little), 0);
    ae_shared memory;
    CHECK_OK(ae_shared_create("test", 1 << 20, AE_SHARED_WHOLE, &memory, &err), err);
    if (geteuid() != 0) {
        CHECK_CODE(ae_shared_lock(&memory, 0, 1 << 20, &err), AETHER_E_IO);
        CHECK_HAS(err.message, "ulimit -l");
    }
    ae_shared_close(&memory);
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &old), 0);
}

/* ---- readers beside the writer ---- */

typedef struct race {
    aether_live *g;
    atomic_bool done;
} race;

/* Add up source * 64 + destination of all edges. */
static uint64_t add_up(const aether_snapshot *s, uint32_t relation, uint32_t layout, uint64_t *count) {
    const aether_topology *t = aether_snapshot_topology(s, relation, layout);
    uint64_t sum = 0;
    aether_error err = {0};
    for (uint64_t v = 0; v < t->num_major; v++) {
        ae_list list;
        CHECK_OK(t->ops->locate(t, &v, 1, &list, &err), err);
        for (uint64_t i = 0; i < list.degree; i++) {
            const uint64_t position = list.start + i;
            uint64_t id = 0;
            CHECK_OK(t->ops->fetch(t, &position, 1, &id, &err), err);
            sum += layout == AETHER_LIVE_CSC ? id * 64 + v : v * 64 + id;
        }
        *count += list.degree;
    }
    return sum;
}

/* Every commit puts the same edges into relations 1 and 3, or takes them away. */
static void *read_on(void *arg) {
    race *r = arg;
    aether_snapshot *s = live_pin(r->g);
    aether_error err = {0};
    while (!atomic_load(&r->done)) {
        uint64_t count[4] = {0}, n = 0;
        aether_live_commit_info info[2];
        const uint64_t sum = add_up(s, 1, AETHER_LIVE_CSC, &count[0]);
        CHECK_EQ(add_up(s, 1, AETHER_LIVE_CSR, &count[1]), sum);
        CHECK_EQ(add_up(s, 3, AETHER_LIVE_CSC, &count[2]), sum);
        CHECK_EQ(add_up(s, 3, AETHER_LIVE_CSR, &count[3]), sum);
        CHECK(count[0] == count[1] && count[0] == count[2] && count[0] == count[3]);
        for (uint32_t i = 0; i < 2; i++)
            CHECK_OK(aether_snapshot_describe(s, 1 + 2 * i, &info[i], &err), err);
        CHECK_EQ(info[0].num_edges, count[0]);
        CHECK_EQ(info[1].num_edges, count[0]);
        CHECK_EQ(info[0].epoch, info[1].epoch);
        CHECK_OK(aether_snapshot_renew(s, &err), err);
        CHECK_EQ(add_up(s, 1, AETHER_LIVE_CSR, &n), add_up(s, 3, AETHER_LIVE_CSC, &n));
    }
    aether_snapshot_release(s);
    return NULL;
}

TEST(a_reader_sees_one_commit_of_all_relations) {
#ifdef AE_SANITIZED
    enum { COMMITS = 3000 };
#else
    enum { COMMITS = 30000 };
#endif
    race r = {.g = make(relations, RELATIONS, 256 << 20, 0)};
    const float weight = 1;
    pthread_t reader;
    uint64_t state = 3;
    aether_error err = {0};
    CHECK_EQ(pthread_create(&reader, NULL, read_on, &r), 0);
    for (int i = 0; i < COMMITS; i++) {
        const int64_t src = (int64_t)(test_random(&state) % NODES);
        const int64_t dst = (int64_t)(test_random(&state) % NODES);
        uint64_t n;
        REQUIRE_OK(aether_live_begin(r.g, &err), err);
        for (uint32_t k = 1; k <= 3; k += 2)
            if (i % 3)
                CHECK_OK(aether_live_insert_one(r.g, k, src, dst, 0, weight, NULL, NULL, &err), err);
            else
                CHECK_OK(aether_live_delete(r.g, k, &src, &dst, NULL, 1, &n, &err), err);
        REQUIRE_OK(aether_live_commit(r.g, &err), err);
    }
    atomic_store(&r.done, true);
    pthread_join(reader, NULL);
    aether_live_close(r.g);
}

/* A writer that is always faster leaves the slot of the last commit with the number of a later one. */
TEST(a_snapshot_whose_numbers_are_always_gone_is_given_up) {
    aether_live *g = make(relations, RELATIONS, 1 << 20, 0);
    aether_error err = {0};
    aether_live_relation_stats numbers;
    aether_live_stats stats;
    int64_t id;
    REQUIRE_OK(aether_live_insert_one(g, 3, 1, 2, 0, 0, &id, NULL, &err), err);
    aether_snapshot *s = live_pin(g), *none;
    const uint64_t last = aether_live_last_commit(g);
    const ae_counts counts = {.num_src = NODES, .num_dst = NODES, .num_edges = 1};
    alarm(60); /* ends a reader that tries for ever */
    for (uint64_t i = 1; i <= 64; i++)
        ae_control_put_counts(&g->graph.control, 2, last + i, &counts);
    ae_control_put_lsn(&g->graph.control, last, 0);
    CHECK_CODE(aether_snapshot_renew(s, &err), AETHER_E_EXPIRED);
    CHECK_EQ(err.value, (int64_t)last);
    CHECK_CODE(aether_snapshot_take(g, &none, &err), AETHER_E_EXPIRED);
    CHECK(!none);
    CHECK_CODE(aether_live_count_relation(g, 2, &numbers, &err), AETHER_E_EXPIRED);
    aether_live_count(g, &stats);
    CHECK_EQ(stats.num_edges, 1); /* of the relation that can be read */
    CHECK_EQ(stats.snapshots, 1); /* that which could not be taken has let go */
    ae_control_put_lsn(&g->graph.control, last + 64, 7);
    CHECK_EQ(aether_live_lsn(g), 0);
    alarm(0);
    aether_snapshot_release(s);
    aether_live_close(g);
}

/* The relation that changes is the last of many: it is read first as soon as it was missed once. */
static void *insert_on(void *arg) {
    race *r = arg;
    aether_error err = {0};
    int64_t id;
    for (uint64_t i = 0; !atomic_load(&r->done); i++)
        CHECK_OK(aether_live_insert_one(r->g, CROWD - 1, (int64_t)(i % NODES), (int64_t)(i / NODES % NODES),
                                        0, 0, &id, NULL, &err),
                 err);
    return NULL;
}

static aether_live *make_crowd(void) {
    static aether_live_relation all[CROWD];
    for (uint32_t i = 0; i < CROWD; i++)
        all[i] = (aether_live_relation){.num_src = NODES,
                                        .num_dst = NODES,
                                        .max_src = NODES,
                                        .max_dst = NODES,
                                        .layouts = AETHER_LIVE_CSC,
                                        .order = AETHER_ORDER_ID};
    return make(all, CROWD, 64 << 20, 0);
}

TEST(readers_of_many_relations_win_over_a_fast_writer) {
    race r = {.g = make_crowd()};
    aether_snapshot *s = live_pin(r.g), *taken;
    aether_error err = {0};
    pthread_t writer;
    CHECK_EQ(pthread_create(&writer, NULL, insert_on, &r), 0);
    alarm(120);
    for (int i = 0; i < 200; i++) {
        CHECK_OK(aether_snapshot_renew(s, &err), err);                          /* reads what has changed */
        if (i % 4 == 0 && aether_snapshot_take(r.g, &taken, &err) == AETHER_OK) /* reads all relations */
            aether_snapshot_release(taken);
    }
    alarm(0);
    CHECK(!err.message[0]);
    atomic_store(&r.done, true);
    pthread_join(writer, NULL);
    aether_snapshot_release(s);
    aether_live_close(r.g);
}

/* Whatever has changed since, in a few relations or in more than there are, a renewed snapshot shows it. */
TEST(a_renewed_snapshot_shows_each_change) {
    aether_live *g = make_crowd();
    aether_snapshot *s = live_pin(g);
    aether_error err = {0};
    aether_live_commit_info info;
    static uint64_t num_edges[CROWD];
    uint64_t state = 11, deleted;
    for (int round = 0; round < 300; round++) {
        const uint64_t commits = test_random(&state) % (round % 50 == 0 ? 3 * CROWD : 30);
        for (uint64_t i = 0; i < commits; i++) {
            const uint32_t r = (uint32_t)(test_random(&state) % (round % 2 ? 7 : CROWD));
            const int64_t src = (int64_t)(test_random(&state) % NODES), dst = (int64_t)(i % NODES);
            int64_t id;
            aether_live_relation_stats stats;
            if (test_random(&state) % 4)
                CHECK_OK(aether_live_insert_one(g, r, src, dst, 0, 0, &id, NULL, &err), err);
            else
                CHECK_OK(aether_live_delete(g, r, &src, &dst, NULL, 1, &deleted, &err), err);
            CHECK_OK(aether_live_count_relation(g, r, &stats, &err), err);
            num_edges[r] = stats.num_edges;
        }
        if (round % 5 == 0)
            aether_snapshot_rest(s);
        CHECK_OK(aether_snapshot_renew(s, &err), err);
        for (uint32_t r = 0; r < CROWD; r++) {
            CHECK_OK(aether_snapshot_describe(s, r, &info, &err), err);
            CHECK_EQ(info.num_edges, num_edges[r]);
            CHECK_EQ(aether_snapshot_topology(s, r, AETHER_LIVE_CSC)->num_edges, num_edges[r]);
        }
    }
    aether_snapshot_release(s);
    aether_live_close(g);
}

TEST_MAIN()
