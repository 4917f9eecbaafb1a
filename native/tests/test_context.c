/* Contexts: every row stands in a list of the row that it was reached from and is not too late, none
 * twice; the same for any number of threads; lists of many equal entries; errors. What is drawn is
 * compared with a model in tests/sampling/test_contexts.py. */
#include <string.h>

#include "sample/draw/times.h"
#include "typed_graph.h"

enum { SEEDS = 150, MOST = 40 };

typedef struct contexts {
    int32_t types[SEEDS * MOST], from[SEEDS * MOST], depths[SEEDS * MOST], relations[SEEDS * MOST];
    int64_t ids[SEEDS * MOST], lengths[SEEDS];
} contexts;

static aether_context_rows rows_of(contexts *c) {
    return (aether_context_rows){c->types, c->ids, c->from, c->depths, c->relations, c->lengths};
}

typedef struct input {
    uint32_t types[SEEDS];
    int64_t ids[SEEDS], until[SEEDS];
    uint64_t count;
} input;

static input make_input(const typed_graph *g, uint64_t state) {
    input in = {.count = 0};
    for (uint32_t i = 0; i < SEEDS; i++) {
        uint32_t type = (uint32_t)(test_random(&state) % TYPED_TYPES);
        if (!g->num_nodes[type])
            continue;
        in.types[in.count] = type;
        in.until[in.count] = (int64_t)(test_random(&state) % 5) - 2;
        in.ids[in.count++] = (int64_t)(test_random(&state) % g->num_nodes[type]);
    }
    return in;
}

static bool is_seen(const typed_graph *g, uint32_t relation, uint64_t node, uint64_t other, int64_t until) {
    const aether_relation *r = &g->relations[relation];
    const ae_times times = ae_times_of(r);
    ae_list list = {0};
    aether_error err = {0};
    CHECK_OK(r->topology->ops->locate(r->topology, &node, 1, &list, &err), err);
    if (ae_times_given(&times))
        CHECK_OK(ae_times_restrict(&times, r->topology, INT64_MIN, until, &list, &err), err);
    for (uint64_t at = list.start; at < list.start + list.degree; at++) {
        uint64_t id = UINT64_MAX;
        CHECK_OK(r->topology->ops->fetch(r->topology, &at, 1, &id, &err), err);
        if (id == other)
            return true;
    }
    return false;
}

static void check_rows(const typed_graph *g, const input *in, const contexts *c, uint32_t budget) {
    for (uint64_t i = 0; i < in->count; i++) {
        const uint64_t row = i * budget;
        REQUIRE(c->lengths[i] >= 1 && c->lengths[i] <= budget);
        CHECK(c->ids[row] == in->ids[i] && c->from[row] == -1 && c->depths[row] == 0);
        for (int64_t k = 1; k < budget; k++) {
            const uint64_t at = row + (uint64_t)k;
            if (k >= c->lengths[i]) {
                CHECK(c->ids[at] == -1 && c->types[at] == -1 && c->relations[at] == -1);
                continue;
            }
            REQUIRE(c->from[at] >= 0 && c->from[at] < k);
            const uint64_t from = row + (uint64_t)c->from[at];
            CHECK_EQ(c->depths[at], c->depths[from] + 1);
            CHECK_EQ(c->types[from], g->relations[c->relations[at]].from);
            CHECK_EQ(c->types[at], g->relations[c->relations[at]].to);
            CHECK(c->from[at] >= c->from[at - 1]);
            CHECK(is_seen(g, (uint32_t)c->relations[at], (uint64_t)c->ids[from], (uint64_t)c->ids[at],
                          in->until[i]));
            for (uint64_t before = row; before < at; before++)
                CHECK(c->ids[before] != c->ids[at] || c->types[before] != c->types[at]);
        }
    }
}

TEST(rows_come_from_lists_in_time_and_once_for_any_threads) {
    contexts *one = calloc(1, sizeof *one), *many = calloc(1, sizeof *many);
    int64_t rows = 0;
    for (uint64_t seed = 0; seed < 120; seed++) {
        typed_graph *g = typed_make(seed, TYPED_TIMES);
        const input in = make_input(g, seed + 1);
        uint64_t state = seed;
        int64_t fanouts[TYPED_RELATIONS];
        for (uint32_t r = 0; r < TYPED_RELATIONS; r++)
            fanouts[r] = (int64_t)(test_random(&state) % 6) - 1;
        const aether_context_seeds seeds = {in.types, in.ids, in.until, in.count};
        aether_context_options options = {.key = seed,
                                          .fanouts = fanouts,
                                          .budget = 1 + (uint32_t)(test_random(&state) % MOST),
                                          .flags = seed % 2 ? AETHER_SAMPLE_LATEST : 0,
                                          .num_threads = 1};
        aether_context_rows out = rows_of(one);
        aether_error err = {0};
        REQUIRE_OK(aether_sample_contexts(
                       AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES),
                       &seeds, &options, &out, &err),
                   err);
        check_rows(g, &in, one, options.budget);
        out = rows_of(many);
        options.num_threads = 4;
        REQUIRE_OK(aether_sample_contexts(
                       AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES),
                       &seeds, &options, &out, &err),
                   err);
        CHECK(!memcmp(one, many, sizeof *one));
        for (uint64_t i = 0; i < in.count; i++)
            rows += one->lengths[i];
        typed_free(g);
    }
    CHECK(rows > 20000);
    free(one);
    free(many);
}

TEST(a_parent_named_many_times_hides_no_other) {
    enum { ROWS = 2, EDGES = 1000, BUDGET = 4 };
    static uint32_t ids[EDGES]; /* of row 0: 0, 0, ... 0, 1, 2 */
    const uint64_t indptr[ROWS + 1] = {0, EDGES, EDGES}, num_nodes[2] = {ROWS, 3};
    ids[EDGES - 2] = 1;
    ids[EDGES - 1] = 2;
    const aether_lists lists = {ROWS, 3, EDGES, indptr, ids, NULL, 4, 8};
    aether_topology *t = NULL;
    aether_error err = {0};
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    const aether_relation parents = {.topology = t, .from = 0, .to = 1};
    const uint32_t types[ROWS] = {0, 0};
    const int64_t seed_ids[ROWS] = {0, 1}, all = -1;
    const aether_context_seeds seeds = {types, seed_ids, NULL, ROWS};
    aether_task task = {0};
    aether_context_options options = {.fanouts = &all, .budget = BUDGET, .task = &task};
    contexts *c = calloc(1, sizeof *c);
    const aether_context_rows out = rows_of(c);
    for (options.budget = 1; options.budget <= BUDGET; options.budget++) {
        REQUIRE_OK(aether_sample_contexts(AE_SIZED(aether_schema, &parents, num_nodes, 1, 2), &seeds,
                                          &options, &out, &err),
                   err);
        CHECK_EQ(c->lengths[0], options.budget);
        CHECK_EQ(c->lengths[1], 1);
        for (uint32_t i = 1; i < options.budget; i++)
            CHECK(c->ids[i] == i - 1 && c->types[i] == 1 && c->from[i] == 0);
    }
    free(c);
    aether_topology_destroy(t);
}

TEST(what_does_not_fit_is_named) {
    typed_graph *g = typed_make(3, 0);
    contexts *c = calloc(1, sizeof *c);
    int64_t fanouts[TYPED_RELATIONS] = {1, 1, 1, 1, 1, 1, 1};
    uint32_t type = 0;
    while (!g->num_nodes[type])
        type++;
    int64_t id = (int64_t)g->num_nodes[type];
    aether_context_seeds seeds = {&type, &id, NULL, 1};
    aether_context_options options = {.fanouts = fanouts, .budget = 5};
    const aether_context_rows out = rows_of(c);
    aether_error err = {0};
    CHECK_CODE(aether_sample_contexts(
                   AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES), &seeds,
                   &options, &out, &err),
               AETHER_E_RANGE);
    id = 0;
    options.budget = 0;
    CHECK_CODE(aether_sample_contexts(
                   AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES), &seeds,
                   &options, &out, &err),
               AETHER_E_INVALID);
    options.budget = 5;
    options.flags = AETHER_SAMPLE_REPLACE;
    CHECK_CODE(aether_sample_contexts(
                   AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES), &seeds,
                   &options, &out, &err),
               AETHER_E_INVALID);
    options.flags = 0;
    type = TYPED_TYPES;
    CHECK_CODE(aether_sample_contexts(
                   AE_SIZED(aether_schema, g->relations, g->num_nodes, TYPED_RELATIONS, TYPED_TYPES), &seeds,
                   &options, &out, &err),
               AETHER_E_INVALID);
    free(c);
    typed_free(g);
}

TEST_MAIN()
