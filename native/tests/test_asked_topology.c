/*
 * Lists that somebody else is asked for: samples are those of the arrays that answer, questions are
 * few, and wrong answers are found.
 */
#include "core/error.h"
#include "test.h"
#include "topology/arrays.h"

enum { NODES = 9000, DEGREE = 5, EDGES = NODES * DEGREE };

static uint64_t indptr[NODES + 1];
static uint32_t indices[EDGES], edge_ids[EDGES];
static double weights[EDGES]; /* by edge id */

/* Who answers: arrays, and what is wrong with them. */
typedef struct source {
    aether_topology *arrays;
    atomic_uint asked[5];
    uint64_t most;              /* numbers in a question */
    int code;                   /* it fails with this */
    uint64_t start, degree, id; /* added to what is right */
} source;

static int answer(void *user, uint32_t what, const uint64_t *in, uint64_t n, uint64_t *out,
                  aether_error *err) {
    source *s = user;
    const ae_topology_ops *ops = s->arrays->ops;
    atomic_fetch_add(&s->asked[what], 1);
    s->most = n > s->most ? n : s->most;
    if (s->code)
        return ae_error_set(err, s->code, "the other side is gone");
    for (uint64_t i = 0; i < n && what == AETHER_ASK_WEIGHTS; i++)
        memcpy(out + i, &weights[edge_ids[in[i]]], 8);
    if (what == AETHER_ASK_WEIGHTS)
        return AETHER_OK;
    int rc = what == AETHER_ASK_LISTS ? ops->locate(s->arrays, in, n, (ae_list *)(void *)out, err)
             : what == AETHER_ASK_IDS ? ops->fetch(s->arrays, in, n, out, err)
                                      : ops->edge_ids(s->arrays, in, n, out, err);
    for (uint64_t i = 0; i < n && what == AETHER_ASK_LISTS; i++) {
        out[2 * i] += s->start;
        out[2 * i + 1] += s->degree;
    }
    for (uint64_t i = 0; i < n && what == AETHER_ASK_IDS; i++)
        out[i] += s->id;
    return rc;
}

static aether_topology *make(source *s) {
    aether_topology *t = NULL;
    aether_error err = {0};
    for (uint64_t v = 0; v < NODES; v++) {
        indptr[v + 1] = (v + 1) * DEGREE;
        for (uint64_t k = 0; k < DEGREE; k++) {
            indices[v * DEGREE + k] = (uint32_t)((v * 7 + k * k + 1) % NODES);
            edge_ids[v * DEGREE + k] = (uint32_t)(EDGES - 1 - (v * DEGREE + k));
        }
    }
    const aether_lists lists = {NODES, NODES, EDGES, indptr, indices, edge_ids, 4, 4};
    CHECK_OK(aether_topology_create(&lists, &s->arrays, &err), err);
    const aether_asked_lists facts = {.num_major = NODES, .num_minor = NODES, .num_edges = EDGES};
    CHECK_OK(aether_topology_create_asked(&facts, answer, s, &t, &err), err);
    return t;
}

static void release(source *s, aether_topology *t) {
    aether_topology_destroy(t);
    aether_topology_destroy(s->arrays);
}

typedef struct counts {
    uint64_t hop_nodes[3], hop_edges[2], nodes, edges;
} counts;

/* Export edge ids as int32, too, and compare. */
static int narrow(const aether_sampler *s, const counts *c, const int64_t *edges, aether_error *err) {
    int32_t *ids = calloc(c->edges + 1, sizeof *ids);
    if (!ids)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a test");
    int rc = aether_sample_export_edges(
        s, 0, AE_SIZED(aether_sample_arrays, .item_bytes = 4, .num_edges = c->edges, .edge = ids), err);
    for (uint64_t i = 0; !rc && i < c->edges; i++)
        CHECK_EQ(ids[i], edges[i]);
    free(ids);
    return rc;
}

static int draw(aether_topology *t, uint32_t threads, counts *c, int64_t **out, aether_error *err) {
    const uint64_t num_nodes = NODES;
    const int64_t fanouts[2] = {3, 2};
    const aether_relation relation = {.topology = t};
    aether_sampler *s = NULL;
    static int64_t ids[5000];
    for (int64_t i = 0; i < 5000; i++)
        ids[i] = i;
    const aether_seeds seeds = {.ids = ids, .count = 5000};
    const aether_sample_options options = {
        .key = 7, .fanouts = fanouts, .num_hops = 2, .num_threads = threads};
    int rc = aether_sampler_create_typed(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &s, err);
    if (!rc)
        rc = aether_sample_typed(
            s, &seeds, &options,
            AE_SIZED(aether_sample_counts, c->hop_nodes, c->hop_edges, &c->nodes, &c->edges), err);
    *out = rc ? NULL : calloc(c->nodes + 3 * c->edges + 1, 8);
    if (*out) {
        int64_t *row = *out + c->nodes;
        rc = aether_sample_export(s,
                                  AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = c->nodes,
                                           .num_edges = c->edges, .node = *out, .row = row,
                                           .col = row + c->edges, .edge = row + 2 * c->edges),
                                  err);
        if (!rc)
            rc = narrow(s, c, row + 2 * c->edges, err);
    }
    aether_sampler_destroy(s);
    return rc;
}

TEST(samples_are_those_of_who_answers) {
    for (uint32_t threads = 1; threads <= 2; threads++) {
        source s = {0};
        aether_topology *t = make(&s);
        counts a = {0}, b = {0};
        int64_t *mine, *its;
        aether_error err = {0};
        CHECK_OK(draw(t, threads, &a, &mine, &err), err);
        CHECK_OK(draw(s.arrays, threads, &b, &its, &err), err);
        CHECK(memcmp(&a, &b, sizeof a) == 0 && a.edges > 15000);
        CHECK(memcmp(mine, its, 8 * (a.nodes + 3 * a.edges)) == 0);
        /* 5000 seeds: two questions; the nodes of the second hop: one or two. Ids: one for each hop. */
        CHECK(s.asked[AETHER_ASK_LISTS] <= 4);
        CHECK_EQ(s.asked[AETHER_ASK_IDS], 2);
        /* Wide ids are asked for once, narrow ones 512 at a time. */
        CHECK_EQ(s.asked[AETHER_ASK_EDGES], 1 + (a.edges + 511) / 512);
        CHECK_EQ(s.most, a.edges);
        free(mine);
        free(its);
        release(&s, t);
    }
}

/* Hash a weighted sample of two hops in which some seeds are the same; `own`: the weights are asked for. */
static int draw_by_weight(aether_topology *t, bool own, uint32_t flags, uint64_t *hash, aether_error *err) {
    const uint64_t num_nodes = NODES, left_out[] = {3, 4, 77, 5000};
    const int64_t fanouts[2] = {3, -1};
    const aether_excluded excluded = {left_out, 4};
    const aether_relation relation = {.topology = t,
                                      .weights = own ? NULL : weights,
                                      .weight_dtype = AETHER_F64,
                                      .own_values = own ? AETHER_OWN_WEIGHTS : 0};
    aether_sampler *s = NULL;
    counts c = {0};
    int64_t ids[600];
    for (int64_t i = 0; i < 600; i++)
        ids[i] = i * 7 % 500;
    const aether_seeds seeds = {.ids = ids, .count = 600};
    const aether_sample_options options = {
        .key = 7, .fanouts = fanouts, .num_hops = 2, .flags = flags, .num_threads = 1, .exclude = &excluded};
    int rc = aether_sampler_create_typed(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &s, err);
    for (int turn = 0; !rc && turn < 2; turn++)
        rc = aether_sample_typed(s, &seeds, &options,
                                 AE_SIZED(aether_sample_counts, c.hop_nodes, c.hop_edges, &c.nodes, &c.edges),
                                 err);
    int64_t *out = rc ? NULL : calloc(c.nodes + 3 * c.edges + 1, 8);
    if (out) {
        int64_t *row = out + c.nodes;
        rc = aether_sample_export(s,
                                  AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = c.nodes,
                                           .num_edges = c.edges, .node = out, .row = row,
                                           .col = row + c.edges, .edge = row + 2 * c.edges),
                                  err);
        *hash = aether_hash_ids(out, c.nodes + 2 * c.edges);
    }
    free(out);
    aether_sampler_destroy(s);
    return rc;
}

TEST(weights_of_a_hop_are_one_question) {
    static const uint32_t flags[] = {0, AETHER_SAMPLE_REPLACE, AETHER_SAMPLE_DISJOINT};
    const aether_asked_lists facts = {
        .num_major = NODES, .num_minor = NODES, .num_edges = EDGES, .own_values = AETHER_OWN_WEIGHTS};
    for (unsigned i = 0; i < 3; i++) {
        source s = {0};
        aether_topology *t = make(&s), *far = NULL;
        aether_error err = {0};
        uint64_t mine = 0, its = 1;
        for (uint64_t e = 0; e < EDGES; e++)
            weights[e] = (double)(e % 7) / 3;
        REQUIRE_OK(aether_topology_create_asked(&facts, answer, &s, &far, &err), err);
        CHECK_OK(draw_by_weight(far, true, flags[i], &mine, &err), err);
        CHECK_OK(draw_by_weight(s.arrays, false, flags[i], &its, &err), err);
        CHECK_EQ(mine, its);
        CHECK_EQ(s.asked[AETHER_ASK_WEIGHTS], 4); /* two samples of two hops */
        weights[edge_ids[0]] = -1;
        CHECK_CODE(draw_by_weight(far, true, flags[i], &mine, &err), AETHER_E_INVALID);
        s.code = AETHER_E_IO;
        CHECK_CODE(draw_by_weight(far, true, flags[i], &mine, &err), AETHER_E_IO);
        aether_topology_destroy(far);
        release(&s, t);
    }
}

TEST(jobs_of_many_samples_are_one_question) {
    source s = {0};
    aether_topology *t = make(&s);
    uint64_t positions[6] = {3, 9, EDGES - 1, 0, 0, 4}, ids[6] = {0}, expected[6];
    const ae_fetch jobs[4] = {{positions, 2, ids},
                              {positions + 2, 0, ids},
                              {positions + 2, 3, ids + 2},
                              {positions + 5, 1, ids + 5}};
    aether_error err = {0};
    CHECK_OK(t->ops->fetch_many(t, jobs, 4, NULL, NULL, &err), err);
    CHECK_OK(s.arrays->ops->fetch(s.arrays, positions, 6, expected, &err), err);
    CHECK(memcmp(ids, expected, sizeof ids) == 0);
    CHECK_EQ(s.asked[AETHER_ASK_IDS], 1);
    CHECK_OK(t->ops->fetch_many(t, jobs + 1, 1, NULL, NULL, &err), err);
    CHECK_EQ(s.asked[AETHER_ASK_IDS], 1); /* nothing to ask for */
    release(&s, t);
}

/* Of an edge type: ids are of other nodes than the lists. */
TEST(ids_are_of_other_nodes_than_lists) {
    source s = {0};
    aether_topology *t = make(&s), *narrow = NULL, *wide = NULL;
    aether_error err = {0};
    aether_asked_lists facts = {.num_major = NODES, .num_minor = 351, .num_edges = EDGES};
    REQUIRE_OK(aether_topology_create_asked(&facts, answer, &s, &narrow, &err), err);
    facts = (aether_asked_lists){.num_major = 10, .num_minor = NODES, .num_edges = EDGES};
    REQUIRE_OK(aether_topology_create_asked(&facts, answer, &s, &wide, &err), err);
    uint64_t ids[2];
    const uint64_t fit[2] = {0, 1}, beyond[2] = {0, 50 * DEGREE}; /* of nodes 0 and 50: ids 1, 2, 351 */
    CHECK_OK(narrow->ops->fetch(narrow, fit, 2, ids, &err), err);
    CHECK_CODE(narrow->ops->fetch(narrow, beyond, 2, ids, &err), AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 50 * DEGREE);
    CHECK_OK(wide->ops->fetch(wide, beyond, 2, ids, &err), err);
    CHECK_EQ(ids[1], 351);
    aether_topology_destroy(narrow);
    aether_topology_destroy(wide);
    release(&s, t);
}

TEST(wrong_answers_are_found) {
    static const source wrong[] = {
        {.start = EDGES}, {.degree = EDGES},      {.start = UINT64_MAX}, {.degree = UINT64_MAX - 8},
        {.id = NODES},    {.id = UINT64_MAX / 2}, {.code = AETHER_E_IO}, {.code = AETHER_E_FILE_CHANGED}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        source s = wrong[i];
        aether_topology *t = make(&s);
        counts c = {0};
        int64_t *out;
        aether_error err = {0};
        CHECK_CODE(draw(t, 1 + i % 2, &c, &out, &err), s.code ? s.code : AETHER_E_CORRUPT);
        CHECK(err.message[0] && !out);
        release(&s, t);
    }
}

/* Where positions are those of a commit of a live graph, of which there are far more than edges. */
TEST(positions_may_be_any) {
    source s = {0};
    aether_topology *t = make(&s), *sparse = NULL;
    aether_error err = {0};
    const aether_asked_lists facts = {.num_major = NODES,
                                      .num_minor = NODES,
                                      .num_edges = EDGES,
                                      .end_positions = INT64_MAX,
                                      .end_edge_ids = 2 * EDGES};
    REQUIRE_OK(aether_topology_create_asked(&facts, answer, &s, &sparse, &err), err);
    aether_topology_facts found;
    CHECK_OK(aether_topology_describe(sparse, &found, &err), err);
    CHECK_EQ(found.num_edges, EDGES);
    CHECK_EQ(found.end_positions, INT64_MAX);
    CHECK_EQ(found.end_edge_ids, 2 * EDGES);
    s.start = UINT64_C(1) << 62;
    const uint64_t node = 3;
    ae_list list;
    CHECK_CODE(t->ops->locate(t, &node, 1, &list, &err), AETHER_E_CORRUPT);
    CHECK_OK(sparse->ops->locate(sparse, &node, 1, &list, &err), err);
    CHECK_EQ(list.start, (UINT64_C(1) << 62) + 3 * DEGREE);
    s.start = INT64_MAX;
    CHECK_CODE(sparse->ops->locate(sparse, &node, 1, &list, &err), AETHER_E_CORRUPT);
    aether_topology_destroy(sparse);
    release(&s, t);
}

TEST(questions_are_answered_from_any_topology) {
    source s = {0};
    aether_topology *t = make(&s);
    aether_error err = {0};
    const uint64_t in[2] = {7, NODES - 1};
    uint64_t out[4], expected[4];
    for (uint32_t what = AETHER_ASK_LISTS; what <= AETHER_ASK_EDGES; what++) {
        CHECK_OK(aether_topology_answer(s.arrays, what, in, 2, out, &err), err);
        CHECK_OK(answer(&s, what, in, 2, expected, &err), err);
        CHECK(memcmp(out, expected, what == AETHER_ASK_LISTS ? 32 : 16) == 0);
        const uint64_t bad[2] = {0, what == AETHER_ASK_LISTS ? NODES : EDGES};
        CHECK_CODE(aether_topology_answer(s.arrays, what, bad, 2, out, &err), AETHER_E_RANGE);
        CHECK_EQ(err.position, 1);
        CHECK_OK(aether_topology_answer(s.arrays, what, NULL, 0, NULL, &err), err);
    }
    CHECK_CODE(aether_topology_answer(s.arrays, AETHER_ASK_WEIGHTS, in, 2, out, &err), AETHER_E_UNSUPPORTED);
    CHECK_CODE(aether_topology_answer(s.arrays, AETHER_ASK_TIMES, in, 2, out, &err), AETHER_E_UNSUPPORTED);
    CHECK_CODE(aether_topology_answer(s.arrays, 9, in, 2, out, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_topology_answer(NULL, 0, in, 2, out, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_topology_answer(s.arrays, 0, NULL, 2, out, &err), AETHER_E_INVALID);
    release(&s, t);
}

TEST(facts_are_checked) {
    aether_topology *t = NULL;
    aether_asked_lists facts = {.num_major = 1, .num_minor = 1};
    CHECK_CODE(aether_topology_create_asked(NULL, answer, NULL, &t, NULL), AETHER_E_INVALID);
    CHECK_CODE(aether_topology_create_asked(&facts, NULL, NULL, &t, NULL), AETHER_E_INVALID);
    facts.num_edges = UINT64_MAX;
    CHECK_CODE(aether_topology_create_asked(&facts, answer, NULL, &t, NULL), AETHER_E_LIMIT);
    facts = (aether_asked_lists){.num_major = 1, .num_minor = UINT64_MAX};
    CHECK_CODE(aether_topology_create_asked(&facts, answer, NULL, &t, NULL), AETHER_E_LIMIT);
    facts = (aether_asked_lists){.num_major = 1, .num_minor = 1, .num_edges = 9, .end_positions = 8};
    CHECK_CODE(aether_topology_create_asked(&facts, answer, NULL, &t, NULL), AETHER_E_INVALID);
    facts = (aether_asked_lists){.num_major = 1, .num_minor = 1, .num_edges = 9, .end_edge_ids = UINT64_MAX};
    CHECK_CODE(aether_topology_create_asked(&facts, answer, NULL, &t, NULL), AETHER_E_INVALID);
    facts = (aether_asked_lists){.num_major = 1,
                                 .num_minor = 7,
                                 .edge_ids_are_positions = 1,
                                 .own_values = AETHER_OWN_WEIGHTS | AETHER_OWN_TIMES};
    aether_error err = {0};
    REQUIRE_OK(aether_topology_create_asked(&facts, answer, NULL, &t, &err), err);
    aether_topology_facts found;
    CHECK_OK(aether_topology_describe(t, &found, &err), err);
    CHECK_EQ(found.own_values, AETHER_OWN_WEIGHTS | AETHER_OWN_TIMES);
    CHECK(found.edge_ids_are_positions && found.num_major == 1 && found.num_minor == 7);
    aether_topology_destroy(t);
}

TEST_MAIN()
