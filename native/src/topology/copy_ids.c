/* aether_topology_ids, aether_topology_ids_from: copy the ids of many positions with all threads. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/pool.h"
#include "core/task.h"
#include "topology/topology.h"

#define BLOCK 256u        /* positions and ids on the stack */
#define CHUNK (64u << 10) /* positions between two looks at the task */
#define NONE  UINT64_MAX

typedef struct {
    const aether_topology *t;
    const int64_t *positions; /* NULL: those from `begin` on */
    uint64_t begin, n;
    uint8_t *out;
    uint32_t id_bytes;
    aether_task *task;
    atomic_ullong bad; /* the first block that failed so far, or NONE */
    atomic_int cancelled;
} copying;

static int find_positions(const copying *c, uint64_t at, uint64_t n, uint64_t *out, aether_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        out[i] = c->positions ? (uint64_t)c->positions[at + i] : c->begin + at + i;
        if (out[i] >= c->t->end_positions)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)(at + i), (int64_t)out[i],
                               "position %" PRId64 " is not in [0, %" PRIu64 ")", (int64_t)out[i],
                               c->t->end_positions);
    }
    return AETHER_OK;
}

static int copy_block(const copying *c, uint64_t at, aether_error *err) {
    uint64_t positions[BLOCK], ids[BLOCK], n = ae_min_u64(BLOCK, c->n - at);
    int rc = find_positions(c, at, n, positions, err);
    if (rc)
        return rc;
    if (c->positions)
        c->t->ops->prefetch(c->t, positions, n);
    rc = c->t->ops->fetch(c->t, positions, n, ids, err);
    if (rc)
        return rc;
    if (c->id_bytes == 8) {
        memcpy(c->out + 8 * at, ids, n * sizeof *ids);
        return AETHER_OK;
    }
    uint32_t *out = (uint32_t *)c->out + at;
    for (uint64_t i = 0; i < n; i++)
        out[i] = (uint32_t)ids[i];
    return AETHER_OK;
}

static void copy_id_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    copying *c = ctx;
    uint64_t at = chunk * CHUNK, end = ae_min_u64(at + CHUNK, c->n);
    (void)worker;
    if (ae_task_cancelled(c->task))
        atomic_store_explicit(&c->cancelled, 1, memory_order_relaxed);
    if (atomic_load_explicit(&c->cancelled, memory_order_relaxed) ||
        at > atomic_load_explicit(&c->bad, memory_order_relaxed))
        return;
    ae_task_add(c->task, end - at);
    for (; at < end; at += BLOCK)
        if (copy_block(c, at, NULL) != AETHER_OK) {
            ae_lower(&c->bad, at);
            return;
        }
}

static int check_copying(const aether_topology *t, const void *out, uint64_t n, uint32_t id_bytes,
                         aether_error *err) {
    if (!t || (!out && n) || (id_bytes != 4 && id_bytes != 8))
        return ae_error_set(err, AETHER_E_INVALID, "a topology, out, and id_bytes of 4 or 8 are needed");
    if (id_bytes == 4 && t->num_minor > (uint64_t)UINT32_MAX + 1)
        return ae_error_set(err, AETHER_E_LIMIT, "ids below %" PRIu64 " do not fit in 32 bits", t->num_minor);
    return AETHER_OK;
}

static int run_copying(copying *c, aether_error *err) {
    const uint64_t n = c->n;
    atomic_init(&c->bad, NONE);
    atomic_init(&c->cancelled, 0);
    ae_task_begin(c->task, n);
    ae_pool_run(copy_id_chunk, c, n / CHUNK + (n % CHUNK != 0), 0);
    if (atomic_load(&c->cancelled))
        return ae_error_set(err, AETHER_E_CANCELLED, "reading ids was cancelled");
    uint64_t bad = atomic_load(&c->bad);
    if (bad == NONE)
        return AETHER_OK;
    /* The failed block is copied again to get its error. If it succeeds now (memory was short),
     * the rest is copied as well. */
    int rc = AETHER_OK;
    for (uint64_t at = bad; !rc && at < n; at += BLOCK)
        rc = copy_block(c, at, err);
    return rc;
}

int aether_topology_ids(const aether_topology *t, const int64_t *positions, uint64_t n, void *out,
                        uint32_t id_bytes, aether_task *task, aether_error *err) {
    copying c = {.t = t, .positions = positions, .n = n, .out = out, .id_bytes = id_bytes, .task = task};
    int rc = check_copying(t, out, n, id_bytes, err);
    if (!rc && n && !positions)
        return ae_error_set(err, AETHER_E_INVALID, "positions are needed");
    return rc || !n ? rc : run_copying(&c, err);
}

int aether_topology_ids_from(const aether_topology *t, uint64_t begin, uint64_t n, void *out,
                             uint32_t id_bytes, aether_task *task, aether_error *err) {
    copying c = {.t = t, .begin = begin, .n = n, .out = out, .id_bytes = id_bytes, .task = task};
    int rc = check_copying(t, out, n, id_bytes, err);
    if (rc)
        return rc;
    if (!ae_topology_is_dense(t))
        return ae_error_set(err, AETHER_E_UNSUPPORTED,
                            "the positions of this graph are not 0..%" PRId64
                            ": pass those to look at to aether_topology_ids",
                            (int64_t)t->num_edges - 1);
    if (begin > t->end_positions || n > t->end_positions - begin)
        return ae_error_at(err, AETHER_E_RANGE, (int64_t)begin, (int64_t)n,
                           "%" PRIu64 " positions from %" PRIu64 " on are not below %" PRIu64, n, begin,
                           t->end_positions);
    return run_copying(&c, err);
}
