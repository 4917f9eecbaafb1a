/* A hash of edges that does not depend on their order: what verifying compares two orders by. */
#include "core/error.h"
#include "core/least.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/task.h"

#include <stdatomic.h>
#include <stdbool.h>

#define CHUNK 65536u /* edges per piece of work */

typedef struct {
    const uint64_t *indptr;
    const void *minor, *edge_ids;
    uint64_t num_major, begin, n, key;
    uint32_t id_bytes, edge_id_bytes;
    bool transposed;
    aether_task *task;
    atomic_ullong sum;
    atomic_int cancelled;
} hashing;

static uint64_t number_at(const void *numbers, uint32_t bytes, uint64_t i) {
    return bytes == 4 ? ((const uint32_t *)numbers)[i] : ((const uint64_t *)numbers)[i];
}

static uint64_t hash_edge(uint64_t key, uint64_t edge, uint64_t from, uint64_t to) {
    uint64_t h = ae_rng_mix(key + edge * AE_RNG_GAMMA);
    h = ae_rng_mix(h + from * AE_RNG_GAMMA);
    return ae_rng_mix(h + to * AE_RNG_GAMMA);
}

/* The list of a position; whatever indptr holds, a number up to num_major. */
static uint64_t list_of(const hashing *h, uint64_t position) {
    uint64_t low = 0, high = h->indptr ? h->num_major : 0;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (h->indptr[middle + 1] <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void hash_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    hashing *h = ctx;
    uint64_t first = chunk * CHUNK, end = first + ae_min_u64(CHUNK, h->n - first), sum = 0;
    uint64_t list = list_of(h, h->begin + first);
    (void)worker;
    if (ae_task_cancelled(h->task))
        atomic_store_explicit(&h->cancelled, 1, memory_order_relaxed);
    if (atomic_load_explicit(&h->cancelled, memory_order_relaxed))
        return;
    for (uint64_t i = first; i < end; i++) {
        uint64_t position = h->begin + i;
        while (h->indptr && list < h->num_major && position >= h->indptr[list + 1])
            list++;
        uint64_t minor = h->minor ? number_at(h->minor, h->id_bytes, i) : 0;
        uint64_t edge = h->edge_ids ? number_at(h->edge_ids, h->edge_id_bytes, i) : position;
        sum += h->transposed ? hash_edge(h->key, edge, minor, list) : hash_edge(h->key, edge, list, minor);
    }
    atomic_fetch_add_explicit(&h->sum, sum, memory_order_relaxed);
    ae_task_add(h->task, end - first);
}

int aether_hash_edges(const uint64_t *indptr, uint64_t num_major, const void *minor, uint32_t id_bytes,
                      const void *edge_ids, uint32_t edge_id_bytes, uint64_t begin, uint64_t n,
                      uint32_t transposed, uint64_t key, uint64_t *sum, aether_task *task,
                      aether_error *err) {
    if ((id_bytes != 4 && id_bytes != 8) || (edge_id_bytes != 4 && edge_id_bytes != 8))
        return ae_error_at(err, AETHER_E_INVALID, 0, id_bytes, "ids of %u and %u bytes: must be 4 or 8",
                           id_bytes, edge_id_bytes);
    if (!sum)
        return ae_error_set(err, AETHER_E_INVALID, "sum is needed");
    hashing h = {.indptr = indptr,
                 .minor = minor,
                 .edge_ids = edge_ids,
                 .num_major = num_major,
                 .begin = begin,
                 .n = n,
                 .key = key,
                 .id_bytes = id_bytes,
                 .edge_id_bytes = edge_id_bytes,
                 .transposed = transposed != 0,
                 .task = task};
    aether_guard(); /* the arrays may be mapped */
    atomic_init(&h.sum, 0);
    atomic_init(&h.cancelled, 0);
    ae_task_begin(task, n);
    ae_pool_run(hash_chunk, &h, n / CHUNK + (n % CHUNK != 0), n <= CHUNK ? 1 : 0);
    if (atomic_load(&h.cancelled))
        return ae_error_set(err, AETHER_E_CANCELLED, "hashing was cancelled");
    *sum += atomic_load(&h.sum);
    return AETHER_OK;
}
