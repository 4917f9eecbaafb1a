/*
 * Breadth-first order, by Cuthill and McKee (1969) and turned round by George (1971).
 *
 *   queue = order  [ 3 | 1 7 | 0 4 9 | ...        from the node of the lowest degree that is left;
 *                                                 neighbours in ascending degree
 *   result         ... | 9 4 0 | 7 1 | 3 ]
 *
 * Caveats: where a component begins, its node of the lowest degree does, not a peripheral one. Memory: a bit
 * per node beside the result. Lists are read in the order of the result, at random.
 */
#include <stdlib.h>

#include "core/error.h"
#include "core/task.h"
#include "order/undirected.h"

#define CHECK_NODES 1024

typedef struct search {
    const uint64_t *places;
    const uint32_t *neighbors;
    uint64_t n, found;
    uint64_t *seen;
    uint32_t *order;
} search;

static void find_node(search *s, uint32_t node) {
    const uint64_t bit = UINT64_C(1) << node % 64;
    if (s->seen[node / 64] & bit)
        return;
    s->seen[node / 64] |= bit;
    s->order[s->found++] = node;
}

static int find_neighbors(search *s, uint32_t node, aether_error *err) {
    for (uint64_t i = s->places[node]; i < s->places[node + UINT64_C(1)]; i++) {
        if (s->neighbors[i] >= s->n)
            return ae_order_bad_entry(i, s->neighbors[i], s->n, err);
        find_node(s, s->neighbors[i]);
    }
    return AETHER_OK;
}

static int run_bfs(search *s, aether_task *task, aether_error *err) {
    uint64_t done = 0;
    ae_task_begin(task, s->n);
    for (uint64_t start = 0; start < s->n; start++) {
        find_node(s, (uint32_t)start);
        for (; done < s->found; done++) {
            int rc = done % CHECK_NODES ? AETHER_OK : ae_task_check(task, "ordering nodes", err);
            if (!rc)
                rc = find_neighbors(s, s->order[done], err);
            if (rc)
                return rc;
            ae_task_add(task, 1);
        }
    }
    for (uint64_t i = 0; i < s->n / 2; i++) {
        const uint32_t one = s->order[i];
        s->order[i] = s->order[s->n - 1 - i];
        s->order[s->n - 1 - i] = one;
    }
    return AETHER_OK;
}

int aether_order_bfs(const uint64_t *places, const uint32_t *neighbors, uint64_t n, uint32_t *order,
                     aether_task *task, aether_error *err) {
    search s = {places, neighbors, n, 0, NULL, order};
    int rc = ae_order_check_count(n, err);
    if (!rc)
        rc = ae_order_check_places(places, n, err);
    if (rc)
        return rc;
    s.seen = calloc(n / 64 + 1, sizeof *s.seen);
    if (!s.seen)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "cannot allocate a bit for each node");
    rc = run_bfs(&s, task, err);
    free(s.seen);
    return rc;
}
