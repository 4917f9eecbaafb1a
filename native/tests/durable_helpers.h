/*
 * durable_helpers.h - a graph of three relations whose history follows from a seed, and a model of it.
 *
 *   step k   one transaction: some changes of each kind, and a note that says k
 *
 *   live graph, killed or closed --> replayed --> its notes say how many steps it has seen
 *   model, made by those steps                    equal to it, lists, ids, times, weights
 *
 * Relation 0 has both layouts, times, weights and edge ids; 1 is a set of in-edges with weights; 2
 * has out-edges in the order of arrival, and nothing else.
 */
#ifndef AE_DURABLE_HELPERS_H
#define AE_DURABLE_HELPERS_H

#include "live_model.h"
#include "log_helpers.h"

enum { WORLD_RELATIONS = 3, WORLD_MOST = 400, WORLD_NOTE = 7, WORLD_NODES = 20 };

typedef struct world {
    aether_live_relation relations[WORLD_RELATIONS];
    model csc[WORLD_RELATIONS], csr[WORLD_RELATIONS];
    uint64_t seed, steps;
} world;

static inline world world_make(uint64_t seed) {
    world w = {.seed = seed};
    for (int i = 0; i < WORLD_RELATIONS; i++)
        w.relations[i] = (aether_live_relation){.num_src = WORLD_NODES,
                                                .num_dst = WORLD_NODES + 3,
                                                .max_src = MODEL_NODES,
                                                .max_dst = MODEL_NODES,
                                                .order = AETHER_ORDER_TIME};
    w.relations[0].layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR;
    w.relations[0].columns = AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS;
    w.relations[0].edge_id_bytes = 8;
    w.relations[1].layouts = AETHER_LIVE_CSC;
    w.relations[1].order = AETHER_ORDER_ID;
    w.relations[1].columns = AETHER_LIVE_WEIGHTS;
    w.relations[1].edge_id_bytes = 4;
    w.relations[2].layouts = AETHER_LIVE_CSR;
    for (int i = 0; i < WORLD_RELATIONS; i++) {
        w.csc[i] = model_make(&w.relations[i], AETHER_LIVE_CSC);
        w.csr[i] = model_make(&w.relations[i], AETHER_LIVE_CSR);
    }
    return w;
}

static inline void world_free(world *w) {
    for (int i = 0; i < WORLD_RELATIONS; i++) {
        model_free(&w->csc[i]);
        model_free(&w->csr[i]);
    }
}

static inline aether_live *world_graph(const world *w) {
    const aether_live_options o = {
        .relations = w->relations, .num_relations = WORLD_RELATIONS, .arena_bytes = UINT64_C(64) << 20};
    aether_live *g = NULL;
    aether_error err = {0};
    CHECK_OK(aether_live_create(&o, &g, &err), err);
    return g;
}

/* ---- steps ---- */

typedef struct world_change {
    enum { CHANGE_INSERT, CHANGE_ONE, CHANGE_DELETE, CHANGE_DELETE_IDS, CHANGE_NODES } kind;
    uint32_t relation;
    uint64_t n;
    int64_t src[WORLD_MOST], dst[WORLD_MOST], times[WORLD_MOST], ids[WORLD_MOST];
    float weights[WORLD_MOST];
} world_change;

/* Fill in a change that fits the model. */
static inline void world_plan(const world *w, world_change *c, uint64_t *state) {
    const uint64_t what = test_random(state) % 16;
    c->relation = (uint32_t)(test_random(state) % WORLD_RELATIONS);
    const model *out = &w->csr[c->relation]; /* by source */
    c->kind = what < 8    ? CHANGE_INSERT
              : what < 11 ? CHANGE_ONE
              : what < 13 ? CHANGE_DELETE
              : what < 15 ? CHANGE_DELETE_IDS
                          : CHANGE_NODES;
    if (c->kind == CHANGE_DELETE_IDS && (!out->edge_id_bytes || !out->next_edge_id))
        c->kind = CHANGE_DELETE;
    c->n = c->kind == CHANGE_INSERT ? test_random(state) % (test_random(state) % 4 ? 20 : WORLD_MOST)
                                    : 1 + test_random(state) % 5;
    if (c->kind == CHANGE_ONE)
        c->n = 1;
    if (c->kind == CHANGE_NODES)
        c->n = out->num_nodes < MODEL_NODES && out->num_minor < MODEL_NODES;
    for (uint64_t i = 0; i < c->n; i++) {
        c->src[i] = (int64_t)(test_random(state) % out->num_nodes);
        c->dst[i] = (int64_t)(test_random(state) % out->num_minor);
        c->times[i] = (int64_t)(test_random(state) % 1000) - 500;
        c->weights[i] = (float)(test_random(state) % 100) / 8;
        c->ids[i] = out->next_edge_id ? (int64_t)(test_random(state) % out->next_edge_id) : 0;
        const model_list *l = &out->lists[c->src[i]];
        if (c->kind >= CHANGE_DELETE && l->n && test_random(state) % 8) {
            const model_edge *e = &l->edges[test_random(state) % l->n];
            c->dst[i] = e->id;
            c->ids[i] = e->edge_id;
        }
    }
}

static inline int world_change_graph(aether_live *g, const world *w, const world_change *c,
                                     aether_error *err) {
    const uint32_t columns = w->relations[c->relation].columns;
    const aether_live_edges edges = {.src = c->src,
                                     .dst = c->dst,
                                     .times = columns & AETHER_LIVE_TIMES ? c->times : NULL,
                                     .weights = columns & AETHER_LIVE_WEIGHTS ? c->weights : NULL,
                                     .count = c->n};
    uint64_t done;
    switch (c->kind) {
    case CHANGE_INSERT:
        return aether_live_insert(g, c->relation, &edges, NULL, &done, err);
    case CHANGE_ONE:
        return aether_live_insert_one(g, c->relation, c->src[0], c->dst[0], c->times[0], c->weights[0], NULL,
                                      NULL, err);
    case CHANGE_NODES:
        return aether_live_add_nodes(g, c->relation, c->n, c->n, err);
    default:
        return aether_live_delete(g, c->relation, c->src, c->dst,
                                  c->kind == CHANGE_DELETE_IDS ? c->ids : NULL, c->n, &done, err);
    }
}

static inline void world_change_model(world *w, const world_change *c) {
    model *in = &w->csc[c->relation], *out = &w->csr[c->relation];
    if (c->kind == CHANGE_NODES) {
        in->num_nodes += c->n;
        in->num_minor += c->n;
        out->num_nodes += c->n;
        out->num_minor += c->n;
        return;
    }
    for (uint64_t i = 0; i < c->n; i++) {
        const int64_t id = c->kind == CHANGE_DELETE_IDS ? c->ids[i] : -1;
        if (c->kind <= CHANGE_ONE) {
            model_insert(in, c->dst[i], c->src[i], c->times[i], c->weights[i]);
            model_insert(out, c->src[i], c->dst[i], c->times[i], c->weights[i]);
        } else {
            model_delete(in, c->dst[i], c->src[i], id);
            model_delete(out, c->src[i], c->dst[i], id);
        }
    }
}

/* Write the note of a step and return its size: the step's number, and as many bytes as it likes. */
static inline uint64_t world_note(uint64_t seed, uint64_t step, uint8_t *out) {
    uint64_t state = seed ^ (step * 77);
    const uint64_t size = 8 + test_random(&state) % (test_random(&state) % 8 ? 40 : 9000);
    memcpy(out, &step, 8);
    for (uint64_t i = 8; i < size; i++)
        out[i] = (uint8_t)(step + i);
    return size;
}

/* Do step w->steps in the graph (NULL: in the model alone), and in the model if it was committed. */
static inline int world_step(world *w, aether_live *g, aether_error *err) {
    static world_change change; /* changes are planned by what the model was before the step... */
    static world_change done[3];
    static uint8_t note[10000];
    uint64_t state = w->seed + w->steps * 1000;
    const uint64_t changes = 1 + test_random(&state) % 3;
    int rc = AETHER_OK;
    if (g) {
        rc = aether_live_begin(g, err);
        if (!rc)
            rc = aether_live_note(g, WORLD_NOTE, note, world_note(w->seed, w->steps, note), err);
    }
    uint32_t used = 0; /* ... and no relation is changed twice in one */
    for (uint64_t i = 0; !rc && i < changes; i++) {
        world_plan(w, &change, &state);
        done[i] = change;
        if (used & 1u << change.relation)
            done[i].kind = CHANGE_INSERT, done[i].n = 0;
        used |= 1u << change.relation;
        if (g)
            rc = world_change_graph(g, w, &done[i], err);
    }
    if (g && !rc)
        rc = aether_live_commit(g, err);
    for (uint64_t i = 0; !rc && i < changes; i++)
        world_change_model(w, &done[i]);
    w->steps += !rc;
    return rc;
}

/* Change the graph and undo it again. */
static inline void world_abort(const world *w, aether_live *g, uint64_t *state) {
    static world_change change;
    aether_error err = {0};
    REQUIRE_OK(aether_live_begin(g, &err), err);
    CHECK_OK(aether_live_note(g, WORLD_NOTE, state, 8, &err), err);
    for (int i = 0; i < 3; i++) {
        world_plan(w, &change, state);
        if (change.kind != CHANGE_NODES)
            CHECK_OK(world_change_graph(g, w, &change, &err), err);
    }
    CHECK_OK(aether_live_abort(g, &err), err);
}

static inline void world_check(const world *w, const aether_live *g) {
    uint64_t state = w->steps;
    aether_snapshot *s = NULL;
    aether_error err = {0};
    REQUIRE_OK(aether_snapshot_take(g, &s, &err), err);
    for (uint32_t i = 0; i < WORLD_RELATIONS; i++) {
        if (w->relations[i].layouts & AETHER_LIVE_CSC)
            model_check_layout(s, i, AETHER_LIVE_CSC, &w->csc[i], &state);
        if (w->relations[i].layouts & AETHER_LIVE_CSR)
            model_check_layout(s, i, AETHER_LIVE_CSR, &w->csr[i], &state);
    }
    aether_snapshot_release(s);
}

/* ---- journals ---- */

typedef struct world_notes {
    uint64_t seed, steps; /* the next note is of this step */
    uint64_t lsn;
} world_notes;

static inline int world_check_note(void *user, uint64_t lsn, uint32_t kind, const void *bytes,
                                   uint64_t size) {
    static uint8_t expected[10000];
    world_notes *n = user;
    const uint64_t length = world_note(n->seed, n->steps, expected);
    CHECK_EQ(kind, WORLD_NOTE);
    CHECK_EQ((uintptr_t)bytes % 8, 0);
    CHECK(lsn > n->lsn);
    CHECK(size == length && memcmp(bytes, expected, size) == 0);
    n->lsn = lsn;
    n->steps++;
    return 0;
}

static inline aether_journal_options journal_options(uint64_t segment_size, uint32_t durability) {
    aether_journal_options o = {.segment_size = segment_size, .durability = durability};
    memcpy(o.graph, log_graph, 16);
    return o;
}

/* Open a new graph on a journal; *steps becomes the number of steps that it has. NULL after a failure. */
static inline aether_live *world_open(const world *w, const char *dir, const aether_journal_options *options,
                                      uint64_t *steps, aether_error *err) {
    aether_live *g = world_graph(w);
    world_notes notes = {.seed = w->seed};
    const int rc = aether_live_open_journal(g, dir, options, 1, world_check_note, &notes, NULL, err);
    *steps = notes.steps;
    if (rc == AETHER_OK) {
        CHECK_EQ(aether_live_lsn(g), notes.lsn);
        return g;
    }
    aether_live_close(g);
    return NULL;
}

/* Check that the journal holds `least` to `most` steps, and the graph is what they make. Return how many
 * they are. */
static inline uint64_t world_check_journal(uint64_t seed, const char *dir,
                                           const aether_journal_options *options, uint64_t least,
                                           uint64_t most) {
    world w = world_make(seed);
    uint64_t steps = 0;
    aether_error err = {0};
    aether_live *g = world_open(&w, dir, options, &steps, &err);
    if (!g) {
        TEST_FAIL("cannot open the journal: %d %s", err.code, err.message);
    } else {
        CHECK(steps >= least && steps <= most);
        while (w.steps < steps && world_step(&w, NULL, &err) == AETHER_OK)
            continue;
        world_check(&w, g);
        aether_live_close(g);
    }
    world_free(&w);
    return steps;
}

#endif
