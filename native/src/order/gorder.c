/*
 * Gorder: each next node is the one that has most to do with the last five.
 *
 * H. Wei, J. X. Yu, C. Lu, X. Lin: Speedup Graph Processing by Graph Ordering. SIGMOD 2016.
 *
 *   order    ... a b c d e | ?          window: the last `window` nodes
 *   score    of each node left: edges to nodes of the window, and neighbours in common with them
 *   heads    0: v -> w -> ...           nodes left by score, in doubly linked lists: as scores change by 1,
 *            1: x -> ...                every change is a step from one list to the next
 *            2: ...
 *
 * When a node comes into the window, the scores of its neighbours and of theirs go up by 1 for each path to
 * them, and down when it leaves. Of equal scores the node is taken whose score changed last.
 *
 * Caveats: the undirected lists stand for both directions, where the paper counts common in-neighbours.
 * Common neighbours of more than sqrt(n) edges are not counted, as in the authors' program: they would
 * take most of the time. Even so the time grows with the sum of squared degrees. Memory: 12 bytes per node,
 * and 4 for each score up to the highest. One thread.
 */
#include <inttypes.h>
#include <string.h>

#include "core/error.h"
#include "core/task.h"
#include "order/undirected.h"
#include "os/scratch.h"

#define NONE        UINT32_MAX
#define PLACED      UINT32_MAX /* the score of nodes that are in the order */
#define CHECK_NODES 64

typedef struct gorder {
    const uint64_t *places;
    const uint32_t *neighbors;
    uint64_t n, most; /* edges of a common neighbour that is counted */
    uint32_t *scores, *next, *before;
    ae_scratch heads;
    uint64_t num_heads;
    uint32_t top; /* no score is higher */
} gorder;

static uint32_t *heads_of(const gorder *g) {
    return g->heads.data;
}

static int add_head(gorder *g, uint32_t score, aether_error *err) {
    if (score < g->num_heads)
        return AETHER_OK;
    const uint64_t used = g->num_heads * sizeof(uint32_t), wanted = (score + UINT64_C(1)) * sizeof(uint32_t);
    const int rc = ae_scratch_reserve(&g->heads, wanted, used, err);
    if (rc)
        return rc;
    const uint64_t room = g->heads.bytes / sizeof(uint32_t);
    memset(heads_of(g) + g->num_heads, 0xff, (room - g->num_heads) * sizeof(uint32_t));
    g->num_heads = room;
    return AETHER_OK;
}

static void link_node(gorder *g, uint32_t node, uint32_t score) {
    const uint32_t head = heads_of(g)[score];
    g->scores[node] = score;
    g->next[node] = head;
    g->before[node] = NONE;
    if (head != NONE)
        g->before[head] = node;
    heads_of(g)[score] = node;
    g->top = score > g->top ? score : g->top;
}

static void unlink_node(gorder *g, uint32_t node) {
    const uint32_t next = g->next[node], before = g->before[node];
    if (next != NONE)
        g->before[next] = before;
    if (before != NONE)
        g->next[before] = next;
    else
        heads_of(g)[g->scores[node]] = next;
}

static int step_score(gorder *g, uint32_t node, bool up, aether_error *err) {
    const uint32_t score = g->scores[node];
    if (score == PLACED || (up && score + 1 == PLACED))
        return AETHER_OK;
    const int rc = up ? add_head(g, score + 1, err) : AETHER_OK;
    if (rc)
        return rc;
    unlink_node(g, node);
    link_node(g, node, up ? score + 1 : score - 1);
    return AETHER_OK;
}

static int step_list(gorder *g, uint32_t node, uint32_t without, bool up, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t i = g->places[node]; !rc && i < g->places[node + UINT64_C(1)]; i++) {
        const uint32_t other = g->neighbors[i];
        if (other >= g->n)
            return ae_order_bad_entry(i, other, g->n, err);
        if (other != without)
            rc = step_score(g, other, up, err);
    }
    return rc;
}

/* Let the scores follow a node into the window, or out of it. */
static int move_window(gorder *g, uint32_t node, bool up, aether_error *err) {
    int rc = step_list(g, node, node, up, err);
    for (uint64_t i = g->places[node]; !rc && i < g->places[node + UINT64_C(1)]; i++) {
        const uint32_t common = g->neighbors[i];
        if (g->places[common + UINT64_C(1)] - g->places[common] <= g->most)
            rc = step_list(g, common, node, up, err);
    }
    return rc;
}

static int run_gorder(gorder *g, uint32_t window, uint32_t *order, aether_task *task, aether_error *err) {
    int rc = add_head(g, 0, err);
    for (uint64_t i = 0; !rc && i < g->n; i++)
        link_node(g, (uint32_t)i, 0);
    ae_task_begin(task, g->n);
    for (uint64_t i = 0; !rc && i < g->n; i++) {
        rc = i % CHECK_NODES ? AETHER_OK : ae_task_check(task, "ordering nodes", err);
        while (heads_of(g)[g->top] == NONE)
            g->top--;
        const uint32_t node = heads_of(g)[g->top];
        unlink_node(g, node);
        g->scores[node] = PLACED;
        order[i] = node;
        if (!rc && i >= window)
            rc = move_window(g, order[i - window], false, err);
        if (!rc)
            rc = move_window(g, node, true, err);
        ae_task_add(task, 1);
    }
    return rc;
}

int aether_order_gorder(const uint64_t *places, const uint32_t *neighbors, uint64_t n, uint32_t window,
                        uint32_t *order, aether_task *task, aether_error *err) {
    gorder g = {.places = places, .neighbors = neighbors, .n = n};
    int rc = ae_order_check_count(n, err);
    if (!rc)
        rc = ae_order_check_places(places, n, err);
    if (!rc && window == 0)
        rc = ae_error_set(err, AETHER_E_INVALID, "a window of no nodes");
    if (rc)
        return rc;
    while ((g.most + 1) * (g.most + 1) <= n)
        g.most++;
    const uint64_t bytes = 3 * n * sizeof(uint32_t);
    g.scores = aether_buffer_alloc(bytes, err);
    if (!g.scores)
        return AETHER_E_NO_MEMORY;
    g.next = g.scores + n;
    g.before = g.next + n;
    rc = run_gorder(&g, window, order, task, err);
    aether_buffer_free(g.scores, bytes);
    ae_scratch_free(&g.heads);
    return rc;
}
