/* Checks of ids and of lists as aether_build_lists writes them. */
#include <stdatomic.h>
#include <stdbool.h>

#include "build/lists.h"
#include "core/error.h"
#include "core/minmax.h"
#include "core/pool.h"
#include "core/task.h"

#define CHUNK 65536u /* items per piece of work */
#define NONE  UINT64_MAX

static uint64_t num_chunks(uint64_t n) {
    return n / CHUNK + (n % CHUNK != 0);
}

/* A single chunk is not worth waking a worker. */
static uint32_t threads_for(uint64_t n) {
    return n <= CHUNK ? 1 : 0;
}

/* ---- id bounds -------------------------------------------------------------- */

typedef struct {
    const int64_t *ids;
    uint64_t n;
    atomic_llong min, max;
} bounds;

static void bounds_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    bounds *b = ctx;
    const int64_t *ids = b->ids;
    uint64_t begin = chunk * CHUNK, end = ae_min_u64(begin + CHUNK, b->n);
    int64_t low = ids[begin], high = low;
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        low = ids[i] < low ? ids[i] : low;
        high = ids[i] > high ? ids[i] : high;
    }
    long long seen = atomic_load_explicit(&b->min, memory_order_relaxed);
    while (low < seen && !atomic_compare_exchange_weak(&b->min, &seen, low))
        ;
    seen = atomic_load_explicit(&b->max, memory_order_relaxed);
    while (high > seen && !atomic_compare_exchange_weak(&b->max, &seen, high))
        ;
}

int aether_id_bounds(const int64_t *ids, uint64_t n, int64_t *min, int64_t *max, aether_error *err) {
    if (!min || !max || (n && !ids))
        return ae_error_set(err, AETHER_E_INVALID, "ids, min and max are needed");
    *min = *max = -1;
    if (n == 0)
        return AETHER_OK;
    bounds b = {.ids = ids, .n = n};
    atomic_init(&b.min, ids[0]);
    atomic_init(&b.max, ids[0]);
    ae_pool_run(bounds_chunk, &b, num_chunks(n), threads_for(n));
    *min = atomic_load(&b.min);
    *max = atomic_load(&b.max);
    return AETHER_OK;
}

/* ---- lists -------------------------------------------------------------------- */

typedef struct {
    const uint64_t *indptr;
    const void *indices;
    uint64_t num_major, num_minor, num_edges;
    aether_task *task;
    atomic_ullong bad; /* the first bad list or position found so far, or NONE */
    atomic_int cancelled;
} checking;

/* Return false if the chunk need not be read: cancelled, or an earlier item is bad. */
static bool wanted(checking *l, uint64_t begin, uint64_t end) {
    ae_task_add(l->task, end - begin);
    if (ae_task_cancelled(l->task))
        atomic_store_explicit(&l->cancelled, 1, memory_order_relaxed);
    return !atomic_load_explicit(&l->cancelled, memory_order_relaxed) &&
           begin < atomic_load_explicit(&l->bad, memory_order_relaxed);
}

static void indptr_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    checking *l = ctx;
    uint64_t begin = chunk * CHUNK, end = ae_min_u64(begin + CHUNK, l->num_major);
    (void)worker;
    if (!wanted(l, begin, end))
        return;
    uint64_t i = begin;
    while (i < end && l->indptr[i] <= l->indptr[i + 1])
        i++;
    if (i < end)
        ae_lower(&l->bad, i);
}

/* Finding the largest id of a chunk vectorises; only a bad chunk is searched. */
static uint64_t first_above_u32(const uint32_t *ids, uint64_t n, uint64_t limit) {
    uint32_t largest = 0;
    for (uint64_t i = 0; i < n; i++)
        largest = ids[i] > largest ? ids[i] : largest;
    uint64_t i = largest < limit ? n : 0;
    while (i < n && ids[i] < limit)
        i++;
    return i;
}

static uint64_t first_above_u64(const uint64_t *ids, uint64_t n, uint64_t limit) {
    uint64_t largest = 0;
    for (uint64_t i = 0; i < n; i++)
        largest = ids[i] > largest ? ids[i] : largest;
    uint64_t i = largest < limit ? n : 0;
    while (i < n && ids[i] < limit)
        i++;
    return i;
}

static void indices_u32_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    checking *l = ctx;
    uint64_t begin = chunk * CHUNK, end = ae_min_u64(begin + CHUNK, l->num_edges);
    (void)worker;
    if (!wanted(l, begin, end))
        return;
    uint64_t i = begin + first_above_u32((const uint32_t *)l->indices + begin, end - begin, l->num_minor);
    if (i < end)
        ae_lower(&l->bad, i);
}

static void indices_u64_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    checking *l = ctx;
    uint64_t begin = chunk * CHUNK, end = ae_min_u64(begin + CHUNK, l->num_edges);
    (void)worker;
    if (!wanted(l, begin, end))
        return;
    uint64_t i = begin + first_above_u64((const uint64_t *)l->indices + begin, end - begin, l->num_minor);
    if (i < end)
        ae_lower(&l->bad, i);
}

static int check_indptr(checking *l, aether_error *err) {
    typedef unsigned long long ull;
    const uint64_t *indptr = l->indptr, last = l->num_major;
    if (indptr[0] != 0)
        return ae_error_at(err, AETHER_E_CORRUPT, 0, (int64_t)indptr[0], "indptr[0] is %llu, must be 0",
                           (ull)indptr[0]);
    ae_pool_run(indptr_chunk, l, num_chunks(last), threads_for(last));
    uint64_t list = atomic_load(&l->bad);
    if (list != NONE)
        return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)list, (int64_t)indptr[list + 1],
                           "list %llu ends at %llu, before its start %llu", (ull)list, (ull)indptr[list + 1],
                           (ull)indptr[list]);
    if (!atomic_load(&l->cancelled) && indptr[last] != l->num_edges)
        return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)last, (int64_t)indptr[last],
                           "the last list ends at %llu, there are %llu edges", (ull)indptr[last],
                           (ull)l->num_edges);
    return AETHER_OK;
}

static uint64_t index_at(const checking *l, uint64_t i, uint32_t id_bytes) {
    return id_bytes == 4 ? ((const uint32_t *)l->indices)[i] : ((const uint64_t *)l->indices)[i];
}

static int check_indices(checking *l, uint32_t id_bytes, aether_error *err) {
    ae_pool_run(id_bytes == 4 ? indices_u32_chunk : indices_u64_chunk, l, num_chunks(l->num_edges),
                threads_for(l->num_edges));
    uint64_t position = atomic_load(&l->bad);
    if (position == NONE)
        return AETHER_OK;
    uint64_t id = index_at(l, position, id_bytes);
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)position, (int64_t)id,
                       "id %llu at position %llu of the lists is not in [0, %llu)", (unsigned long long)id,
                       (unsigned long long)position, (unsigned long long)l->num_minor);
}

int aether_check_lists(const aether_lists *lists, aether_task *task, aether_error *err) {
    const uint32_t id_bytes = lists->id_bytes;
    if (id_bytes != 4 && id_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, 0, id_bytes, "id_bytes is %u, must be 4 or 8", id_bytes);
    if (!lists->indptr)
        return ae_error_set(err, AETHER_E_INVALID, "indptr is needed");
    checking l = {.indptr = lists->indptr,
                  .indices = lists->indices,
                  .num_major = lists->num_major,
                  .num_minor = lists->num_minor,
                  .num_edges = lists->num_edges,
                  .task = task};
    atomic_init(&l.bad, NONE);
    atomic_init(&l.cancelled, 0);
    ae_task_begin(task, l.num_major + (l.indices ? l.num_edges : 0));
    int rc = check_indptr(&l, err);
    if (!rc && l.indices && !atomic_load(&l.cancelled))
        rc = check_indices(&l, id_bytes, err);
    if (!rc && atomic_load(&l.cancelled))
        rc = ae_error_set(err, AETHER_E_CANCELLED, "checking was cancelled");
    return rc;
}
