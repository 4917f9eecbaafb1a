/* A hash of edges that does not depend on their order: verifying compares CSC and CSR by it. */
#include <stdatomic.h>
#include <stdbool.h>

#include "aether/build.h"
#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/task.h"

#define CHUNK  65536u /* edges per piece of work */
#define INLINE static inline __attribute__((always_inline))

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

INLINE uint64_t number_at(const void *numbers, uint32_t bytes, uint64_t i) {
    return bytes == 4 ? ((const uint32_t *)numbers)[i] : ((const uint64_t *)numbers)[i];
}

/* Edges e, from, to hash to mix(e x + from y + to z) with secret odd x, y and z. */
typedef struct {
    uint64_t edge, major, minor;
} factors;

static factors factors_of(uint64_t key, bool transposed) {
    uint64_t from = ae_rng_draw(key, 0) | 1, to = ae_rng_draw(key, 1) | 1, edge = ae_rng_draw(key, 2) | 1;
    return transposed ? (factors){edge, to, from} : (factors){edge, from, to};
}

/* The result is at most num_major whatever indptr holds: the arrays may be damaged. */
static uint64_t edge_list_of(const hashing *h, uint64_t position) {
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

/* Inlined once for each pair of widths. */
INLINE uint64_t hash_list(const hashing *h, uint64_t list, uint64_t first, uint64_t end, uint32_t id_bytes,
                          uint32_t edge_id_bytes) {
    const factors f = factors_of(h->key, h->transposed);
    const uint64_t base = list * f.major;
    uint64_t sum = 0;
    for (uint64_t i = first; i < end; i++) {
        uint64_t minor = id_bytes == 0 ? 0 : number_at(h->minor, id_bytes, i);
        uint64_t edge = edge_id_bytes == 0 ? h->begin + i : number_at(h->edge_ids, edge_id_bytes, i);
        sum += ae_rng_mix(base + minor * f.minor + edge * f.edge);
    }
    return sum;
}

typedef uint64_t (*hash_list_fn)(const hashing *h, uint64_t list, uint64_t first, uint64_t end);

#define HASH(a, b)                                                                                           \
    static uint64_t hash_##a##_##b(const hashing *h, uint64_t list, uint64_t first, uint64_t end) {          \
        return hash_list(h, list, first, end, a, b);                                                         \
    }
HASH(0, 0)
HASH(0, 4)
HASH(0, 8)
HASH(4, 0)
HASH(4, 4)
HASH(4, 8)
HASH(8, 0)
HASH(8, 4)
HASH(8, 8)

static hash_list_fn hasher(const hashing *h) {
    static const hash_list_fn table[3][3] = {
        {hash_0_0, hash_0_4, hash_0_8}, {hash_4_0, hash_4_4, hash_4_8}, {hash_8_0, hash_8_4, hash_8_8}};
    return table[h->minor ? h->id_bytes / 4 : 0][h->edge_ids ? h->edge_id_bytes / 4 : 0];
}

static void hash_edge_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    hashing *h = ctx;
    uint64_t first = chunk * CHUNK, end = first + ae_min_u64(CHUNK, h->n - first), sum = 0;
    uint64_t list = edge_list_of(h, h->begin + first);
    hash_list_fn hash = hasher(h);
    (void)worker;
    if (ae_task_cancelled(h->task))
        atomic_store_explicit(&h->cancelled, 1, memory_order_relaxed);
    if (atomic_load_explicit(&h->cancelled, memory_order_relaxed))
        return;
    for (uint64_t i = first, stop; i < end; i = stop) {
        uint64_t list_end = UINT64_MAX; /* read once: the file may change */
        for (; h->indptr && list < h->num_major; list++)
            if ((list_end = h->indptr[list + 1]) > h->begin + i)
                break;
        stop = list_end > h->begin + i ? ae_min_u64(list_end - h->begin, end) : end;
        sum += hash(h, list, i, stop);
    }
    atomic_fetch_add_explicit(&h->sum, sum, memory_order_relaxed);
    ae_task_add(h->task, end - first);
}

int aether_hash_edges(const aether_edge_run *edges, uint32_t transposed, uint64_t key, uint64_t *sum,
                      aether_task *task, aether_error *err) {
    const aether_edge_run *e = edges;
    int rc = ae_options_check(e, sizeof *e, "aether_edge_run", err);
    if (rc)
        return rc;
    if ((e->id_bytes != 4 && e->id_bytes != 8) || (e->edge_id_bytes != 4 && e->edge_id_bytes != 8))
        return ae_error_at(err, AETHER_E_INVALID, 0, e->id_bytes, "ids of %u and %u bytes: must be 4 or 8",
                           e->id_bytes, e->edge_id_bytes);
    if (!sum)
        return ae_error_set(err, AETHER_E_INVALID, "sum is needed");
    hashing h = {.indptr = e->indptr,
                 .minor = e->minor,
                 .edge_ids = e->edge_ids,
                 .num_major = e->num_major,
                 .begin = e->begin,
                 .n = e->n,
                 .key = key,
                 .id_bytes = e->id_bytes,
                 .edge_id_bytes = e->edge_id_bytes,
                 .transposed = transposed != 0,
                 .task = task};
    aether_guard(); /* the arrays may be mapped */
    atomic_init(&h.sum, 0);
    atomic_init(&h.cancelled, 0);
    ae_task_begin(task, h.n);
    ae_pool_run(hash_edge_chunk, &h, h.n / CHUNK + (h.n % CHUNK != 0), h.n <= CHUNK ? 1 : 0);
    if (atomic_load(&h.cancelled))
        return ae_error_set(err, AETHER_E_CANCELLED, "hashing was cancelled");
    *sum += atomic_load(&h.sum);
    return AETHER_OK;
}
