#include "order/rabbit.h"

#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/options.h"
#include "core/pool.h"
#include "core/task.h"
#include "order/undirected.h"
#include "os/advise.h"

#define CHUNK      256 /* nodes that a thread takes at a time */
#define AHEAD      12
#define LET_GO     (UINT64_C(64) << 20) /* bytes of mapped lists after which their pages are let go of */
#define AROUND     65536                /* bytes that the system maps around a page */
#define NONE       AE_RABBIT_NONE
#define LOCKED     (-1.0f) /* the strength of what is looked at, or has joined another */
#define MOST_TRIES 3       /* times that a thread looks for another community at once */

typedef struct worker {
    ae_merged_edges edges;
    ae_scratch buffer;  /* kept edges that are read */
    ae_scratch waiting; /* nodes that found only locked communities */
    uint64_t num_waiting;
    uint64_t touched; /* bytes of mapped lists, since their pages were let go of */
} worker;

typedef struct rabbit {
    const uint64_t *places;
    const uint32_t *neighbors;
    uint64_t n;
    double share; /* 1 / 2m */
    _Atomic uint64_t *atoms;
    _Atomic uint32_t *into;
    uint32_t *next;
    ae_kept_edges kept;
    bool mapped;
    aether_task *task;
    ae_failure failure;
    worker workers[AE_POOL_MAX];
} rabbit;

/* ---- atoms ----------------------------------------------------------------------------- */

static inline uint64_t atom_of(float strength, uint32_t child) {
    uint32_t bits;
    memcpy(&bits, &strength, sizeof bits);
    return (uint64_t)bits << 32 | child;
}

static inline float strength_of(uint64_t atom) {
    const uint32_t bits = (uint32_t)(atom >> 32);
    float strength;
    memcpy(&strength, &bits, sizeof strength);
    return strength;
}

static inline uint32_t child_of(uint64_t atom) {
    return (uint32_t)atom;
}

/* Return the root of a node's community; paths are halved on the way. */
static inline uint32_t community_root(rabbit *r, uint32_t node) {
    uint32_t up = atomic_load_explicit(&r->into[node], memory_order_acquire);
    while (up != node) {
        const uint32_t above = atomic_load_explicit(&r->into[up], memory_order_acquire);
        if (above == up)
            return up;
        atomic_store_explicit(&r->into[node], above, memory_order_relaxed);
        node = above;
        up = atomic_load_explicit(&r->into[node], memory_order_acquire);
    }
    return node;
}

/* ---- edges of a community --------------------------------------------------------------- */

static int add_list(rabbit *r, worker *w, uint32_t node, uint32_t root, aether_error *err) {
    const uint64_t begin = r->places[node], end = r->places[node + UINT64_C(1)];
    w->touched += (end - begin) * sizeof *r->neighbors + (node == root ? 0 : AROUND);
    for (uint64_t i = begin; i < end; i++) {
        const uint32_t to = r->neighbors[i];
        if (i + AHEAD < end && r->neighbors[i + AHEAD] < r->n)
            __builtin_prefetch((const void *)&r->into[r->neighbors[i + AHEAD]]);
        if (to >= r->n)
            return ae_order_bad_entry(i, to, r->n, err);
        const uint32_t other = community_root(r, to);
        const int rc = other == root ? AETHER_OK : ae_merged_edges_add(&w->edges, other, 1, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static int add_kept_edges(rabbit *r, worker *w, uint32_t node, uint32_t root, aether_error *err) {
    const ae_kept *kept = ae_kept_edges_get(&r->kept, node, r->n, &w->buffer, err);
    if (!kept)
        return err->code;
    for (uint64_t i = 0; i < kept->n; i++) {
        if (i + AHEAD < kept->n)
            __builtin_prefetch((const void *)&r->into[kept->edges[i + AHEAD].node]);
        const uint32_t other = community_root(r, kept->edges[i].node);
        const int rc =
            other == root ? AETHER_OK : ae_merged_edges_add(&w->edges, other, kept->edges[i].weight, err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

/* Add up the edges of a root and of what joined it. */
static int add_up_edges(rabbit *r, worker *w, uint32_t root, uint32_t child, aether_error *err) {
    ae_merged_edges_clear(&w->edges);
    int rc = add_list(r, w, root, root, err);
    for (; !rc && child != NONE; child = r->next[child])
        rc = ae_kept_edges_has(&r->kept, child) ? add_kept_edges(r, w, child, root, err)
                                                : add_list(r, w, child, root, err);
    return rc;
}

/* Return the community that gains the most if it takes in one of this strength; NONE: none gains. `busy` says
 * whether some are locked. */
static uint32_t best_of(const rabbit *r, const worker *w, float strength, bool *busy) {
    const ae_merged_edge *pairs = ae_merged_pairs(&w->edges);
    const double expected = (double)strength * r->share;
    double most = 0;
    uint32_t best = NONE;
    *busy = false;
    for (uint64_t i = 0; i < w->edges.n; i++) {
        const uint32_t node = pairs[i].node;
        const float other = strength_of(atomic_load_explicit(&r->atoms[node], memory_order_relaxed));
        if (other < 0) {
            *busy = true;
            continue;
        }
        const double gain = (double)pairs[i].weight - expected * (double)other;
        if (gain > most || (gain == most && best != NONE && node < best)) {
            most = gain;
            best = node;
        }
    }
    return best;
}

static void drop_children(rabbit *r, uint32_t child) {
    for (; child != NONE; child = r->next[child])
        ae_kept_edges_drop(&r->kept, child);
}

/* ---- joining ---------------------------------------------------------------------------- */

/* Let a locked root join another, if that is still one. */
static bool join_root(rabbit *r, uint32_t node, float strength, uint32_t to) {
    uint64_t seen = atomic_load_explicit(&r->atoms[to], memory_order_acquire), joined;
    do {
        if (strength_of(seen) < 0)
            return false;
        r->next[node] = child_of(seen);
        joined = atom_of(strength_of(seen) + strength, node);
    } while (!atomic_compare_exchange_weak_explicit(&r->atoms[to], &seen, joined, memory_order_acq_rel,
                                                    memory_order_acquire));
    atomic_store_explicit(&r->into[node], to, memory_order_release);
    return true;
}

/* Let a node join the community that gains the most. `waits` says that those were locked. */
static int take_turn(rabbit *r, worker *w, uint32_t node, bool *waits, aether_error *err) {
    *waits = false;
    uint64_t before = atomic_load_explicit(&r->atoms[node], memory_order_acquire);
    while (!atomic_compare_exchange_weak_explicit(&r->atoms[node], &before, atom_of(LOCKED, child_of(before)),
                                                  memory_order_acq_rel, memory_order_acquire)) {
    }
    const uint32_t child = child_of(before);
    const float strength = strength_of(before);
    int rc = AETHER_OK;
    for (uint32_t tries = 0; !rc; tries++) {
        bool busy;
        rc = add_up_edges(r, w, node, child, err);
        const uint32_t to = rc ? NONE : best_of(r, w, strength, &busy);
        if (rc)
            break;
        if (to == NONE && !busy) {
            drop_children(r, child);
            break;
        }
        if (to != NONE) {
            if (child != NONE)
                rc = ae_kept_edges_put(&r->kept, node, ae_merged_pairs(&w->edges), w->edges.n, err);
            if (!rc && join_root(r, node, strength, to)) {
                drop_children(r, child);
                return AETHER_OK;
            }
            ae_kept_edges_drop(&r->kept, node);
        }
        if (rc || tries + 1 == MOST_TRIES) {
            *waits = true;
            break;
        }
    }
    atomic_store_explicit(&r->atoms[node], before, memory_order_release);
    return rc;
}

static int wait_for_others(worker *w, uint32_t node, aether_error *err) {
    const uint64_t used = w->num_waiting * sizeof node;
    const int rc = ae_scratch_reserve(&w->waiting, used + sizeof node, used, err);
    if (!rc)
        ((uint32_t *)w->waiting.data)[w->num_waiting++] = node;
    return rc;
}

/* Let go of the pages of mapped lists. */
static void let_go(const rabbit *r, worker *w) {
    w->touched = 0;
    ae_os_let_go(r->neighbors, r->places[r->n] * sizeof *r->neighbors);
    ae_os_let_go(r->places, (r->n + 1) * sizeof *r->places);
}

static void take_chunk(void *ctx, uint64_t chunk, uint32_t number) {
    rabbit *r = ctx;
    worker *w = &r->workers[number];
    const uint64_t begin = chunk * CHUNK, end = r->n - begin < CHUNK ? r->n : begin + CHUNK;
    aether_error error = {0};
    int rc = ae_failure_seen(&r->failure) ? AETHER_OK : ae_task_check(r->task, "ordering nodes", &error);
    if (rc)
        ae_failure_note(&r->failure, rc, &error);
    for (uint64_t i = begin; i < end && !ae_failure_seen(&r->failure); i++) {
        bool waits;
        rc = take_turn(r, w, (uint32_t)i, &waits, &error);
        if (!rc && waits)
            rc = wait_for_others(w, (uint32_t)i, &error);
        if (rc)
            ae_failure_note(&r->failure, rc, &error);
        if (r->mapped && w->touched >= LET_GO)
            let_go(r, w);
    }
    ae_task_add(r->task, end - begin);
}

/* Give the nodes that waited their turns, with no other thread there. */
static void finish_waiting(rabbit *r) {
    aether_error error = {0};
    for (uint32_t i = 0; i < AE_POOL_MAX; i++) {
        const worker *w = &r->workers[i];
        const uint32_t *nodes = w->waiting.data;
        for (uint64_t j = 0; j < w->num_waiting && !ae_failure_seen(&r->failure); j++) {
            bool waits;
            const int rc = take_turn(r, &r->workers[0], nodes[j], &waits, &error);
            if (rc)
                ae_failure_note(&r->failure, rc, &error);
        }
    }
}

/* ---- the order -------------------------------------------------------------------------- */

/* Number the nodes tree by tree, depth first. `into` becomes the communities, `stack` has room for all nodes.
 */
static uint64_t number_nodes(rabbit *r, uint32_t *stack, uint32_t *order, uint32_t *community) {
    uint32_t roots = NONE;
    for (uint64_t i = r->n; i-- > 0;) { /* joined by their next, which roots do not have */
        if (community[i] != i)
            continue;
        r->next[i] = roots;
        roots = (uint32_t)i;
    }
    uint64_t done = 0, communities = 0;
    for (uint32_t root = roots, after; root != NONE; root = after, communities++) {
        uint64_t depth = 0;
        after = r->next[root];
        stack[depth++] = root;
        while (depth) {
            const uint32_t node = stack[--depth];
            order[done++] = node;
            community[node] = (uint32_t)communities;
            for (uint32_t c = child_of(r->atoms[node]); c != NONE; c = r->next[c])
                stack[depth++] = c; /* the first that joined comes last, and is taken first */
        }
    }
    return communities;
}

static void begin_alone(rabbit *r) {
    for (uint64_t i = 0; i < r->n; i++) {
        const float strength = (float)(r->places[i + 1] - r->places[i]);
        atomic_init(&r->atoms[i], atom_of(strength, NONE));
        atomic_init(&r->into[i], (uint32_t)i);
        r->next[i] = NONE;
        atomic_init(&r->kept.places[i], 0);
    }
}

static void free_all(rabbit *r) {
    for (uint64_t i = 0; r->kept.places && i < r->n; i++)
        ae_kept_edges_drop(&r->kept, (uint32_t)i);
    for (uint32_t i = 0; i < AE_POOL_MAX; i++) {
        ae_merged_edges_free(&r->workers[i].edges);
        ae_scratch_free(&r->workers[i].buffer);
        ae_scratch_free(&r->workers[i].waiting);
    }
    aether_buffer_free(r->atoms, r->n * sizeof *r->atoms);
    aether_buffer_free(r->next, r->n * sizeof *r->next);
    aether_buffer_free((void *)r->kept.places, r->n * sizeof *r->kept.places);
}

static int run_rabbit(rabbit *r, uint32_t threads, uint32_t *order, uint64_t *communities,
                      aether_error *err) {
    r->atoms = aether_buffer_alloc(r->n * sizeof *r->atoms, err);
    r->next = r->atoms ? aether_buffer_alloc(r->n * sizeof *r->next, err) : NULL;
    r->kept.places = r->next ? aether_buffer_alloc(r->n * sizeof *r->kept.places, err) : NULL;
    if (!r->kept.places)
        return AETHER_E_NO_MEMORY;
    begin_alone(r);
    ae_task_begin(r->task, r->n);
    ae_pool_run(take_chunk, r, (r->n + CHUNK - 1) / CHUNK, threads);
    finish_waiting(r);
    const int rc = ae_failure_take(&r->failure, err);
    if (!rc) /* nothing is kept any more: its places are the stack */
        *communities =
            number_nodes(r, (uint32_t *)(void *)r->kept.places, order, (uint32_t *)(void *)r->into);
    if (!rc)
        memset((void *)r->kept.places, 0, r->n * sizeof *r->kept.places);
    return rc;
}

int aether_order_rabbit(const uint64_t *places, const uint32_t *neighbors, uint64_t n,
                        const aether_rabbit_options *options, const aether_rabbit_order *out,
                        aether_task *task, aether_error *err) {
    aether_error own = {0};
    int rc = ae_options_check(out, sizeof *out, "aether_rabbit_order", err);
    if (!rc)
        rc = ae_order_check_count(n, err);
    if (!rc)
        rc = ae_order_check_places(places, n, err);
    if (rc)
        return rc;
    rabbit *r = aether_buffer_alloc(sizeof *r, err); /* zeros */
    if (!r)
        return AETHER_E_NO_MEMORY;
    *r = (rabbit){.places = places,
                  .neighbors = neighbors,
                  .n = n,
                  .share = 1.0 / (double)(places[n] ? places[n] : 1),
                  .into = (_Atomic uint32_t *)(void *)out->community,
                  .kept = {.memory = options->memory, .file = options->file},
                  .mapped = options->mapped != 0,
                  .task = task};
    rc = run_rabbit(r, options->num_threads, out->order, out->num_communities, &own);
    free_all(r);
    aether_buffer_free(r, sizeof *r);
    if (rc && err)
        *err = own;
    return rc;
}
