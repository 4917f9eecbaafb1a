#include "topology/visit_lists.h"

#include "core/error.h"
#include "core/failure.h"
#include "core/pool.h"
#include "core/task.h"

#define CHUNK  4096 /* nodes handed out at a time */
#define LOCATE 256  /* nodes located at a time */

typedef struct run {
    const aether_topology *t;
    ae_visit visit;
    const void *ctx;
    aether_task *task;
    ae_failure failure;
    ae_scratch scratch[AE_POOL_MAX];
} run;

static int visit_some(run *r, uint64_t begin, uint64_t n, ae_scratch *scratch, aether_error *err) {
    uint64_t nodes[LOCATE] = {0}, edges = 0;
    ae_list lists[LOCATE];
    if (ae_task_cancelled(r->task))
        return ae_error_set(err, AETHER_E_CANCELLED, "cancelled");
    for (uint64_t i = 0; i < n; i++)
        nodes[i] = begin + i;
    int rc = r->t->ops->locate(r->t, nodes, n, lists, err);
    for (uint64_t i = 0; i < n && !rc; i++) {
        if (edges >= AE_TASK_ITEMS) {
            ae_task_add(r->task, edges);
            edges = 0;
            rc = ae_task_check(r->task, "visiting lists", err);
        }
        if (!rc && lists[i].degree)
            rc = r->visit(r->ctx, r->t, nodes[i], lists[i], scratch, err);
        edges += lists[i].degree;
    }
    ae_task_add(r->task, edges);
    return rc;
}

static void visit_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    run *r = ctx;
    uint64_t begin = chunk * CHUNK, end = begin + CHUNK;
    end = end < r->t->num_major ? end : r->t->num_major;
    for (; begin < end && !ae_failure_seen(&r->failure); begin += LOCATE) {
        aether_error error = {0};
        uint64_t n = end - begin < LOCATE ? end - begin : LOCATE;
        int rc = visit_some(r, begin, n, &r->scratch[worker], &error);
        if (rc)
            ae_failure_note(&r->failure, rc, &error);
    }
}

int ae_visit_lists(const aether_topology *t, ae_visit visit, const void *ctx, aether_task *task,
                   aether_error *err) {
    run r = {.t = t, .visit = visit, .ctx = ctx, .task = task};
    ae_task_begin(task, t->num_edges);
    ae_pool_run(visit_chunk, &r, (t->num_major + CHUNK - 1) / CHUNK, 0);
    for (uint32_t i = 0; i < AE_POOL_MAX; i++)
        ae_scratch_free(&r.scratch[i]);
    return ae_failure_take(&r.failure, err);
}
