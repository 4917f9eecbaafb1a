#include "rows/gather.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/pool.h"
#include "core/task.h"

#define LINE          64u
#define BLOCK_IDS     256u         /* addresses on the stack */
#define CHUNK_WORK    (64u << 10)  /* bytes moved between two looks at the task */
#define THREAD_WORK   (128u << 10) /* bytes moved that are worth a thread */
#define AHEAD_BYTES   (16u << 10)  /* in flight: enough to fill the miss buffers of a core's L2 */
#define AHEAD_MAX     64u          /* rows */
#define LINES_MAX     32u          /* per row: beyond, the hardware follows by itself */
#define COPY_CHUNK    (2u << 20)   /* one huge page is first touched by one thread */
#define NONE          UINT64_MAX
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef struct gathering gathering;

typedef void (*rows_fn)(const gathering *g, const char *const *at, uint64_t n, char *out);

struct gathering {
    const char *base;
    uint64_t num_rows, stride, items;
    uint64_t in_bytes, out_bytes; /* per row */
    const void *ids;
    uint32_t id_bytes;
    uint32_t ahead; /* rows between copying and prefetching */
    uint64_t n, chunk_ids;
    char *out;
    rows_fn move;
    ae_convert_fn convert;
    aether_task *task;
    atomic_ullong bad; /* the first bad position found so far, or NONE */
    atomic_int cancelled;
};

/* ---- moving rows ------------------------------------------------------------- */

/* Into the L2, which has more misses under way than the L1. Not non-temporally, though rows are read
 * once: those hints go through the few miss buffers of the L1, and past lines that the L3 holds. */
ALWAYS_INLINE void prefetch_row(const char *row, uint64_t bytes) {
    uint64_t end = bytes < LINES_MAX * LINE ? bytes : LINES_MAX * LINE;
    for (uint64_t i = 0; i < end; i += LINE)
        __builtin_prefetch(row + i, 0, 2);
    if (end)
        __builtin_prefetch(row + end - 1, 0, 2); /* rows that start inside a line touch one more */
}

/* `bytes` is a constant in the callers below, except in move_any. */
ALWAYS_INLINE void move_rows(const gathering *g, const char *const *at, uint64_t n, char *out,
                             uint64_t bytes) {
    uint64_t ahead = ae_min_u64(g->ahead, n);
    for (uint64_t i = 0; i < ahead; i++)
        prefetch_row(at[i], bytes);
    for (uint64_t i = 0; i < n - ahead; i++) {
        prefetch_row(at[i + ahead], bytes);
        memcpy(out + i * bytes, at[i], bytes);
    }
    for (uint64_t i = n - ahead; i < n; i++)
        memcpy(out + i * bytes, at[i], bytes);
}

static void move_any(const gathering *g, const char *const *at, uint64_t n, char *out) {
    move_rows(g, at, n, out, g->in_bytes);
}

#define MOVE(size)                                                                                           \
    static void move_##size(const gathering *g, const char *const *at, uint64_t n, char *out) {              \
        move_rows(g, at, n, out, size);                                                                      \
    }
MOVE(1)
MOVE(2)
MOVE(4)
MOVE(8)
MOVE(16)
MOVE(32)
MOVE(64)

static void move_converted(const gathering *g, const char *const *at, uint64_t n, char *out) {
    uint64_t ahead = ae_min_u64(g->ahead, n);
    for (uint64_t i = 0; i < ahead; i++)
        prefetch_row(at[i], g->in_bytes);
    for (uint64_t i = 0; i < n; i++) {
        if (i + ahead < n)
            prefetch_row(at[i + ahead], g->in_bytes);
        g->convert(out + i * g->out_bytes, at[i], g->items);
    }
}

static rows_fn mover(const gathering *g) {
    if (g->convert)
        return move_converted;
    switch (g->in_bytes) {
    case 1:
        return move_1;
    case 2:
        return move_2;
    case 4:
        return move_4;
    case 8:
        return move_8;
    case 16:
        return move_16;
    case 32:
        return move_32;
    case 64:
        return move_64;
    default:
        return move_any;
    }
}

/* ---- chunks of ids ------------------------------------------------------------- */

ALWAYS_INLINE uint64_t row_id_at(const gathering *g, uint64_t i) {
    return g->id_bytes == 4 ? ((const uint32_t *)g->ids)[i] : ((const uint64_t *)g->ids)[i];
}

/* Return false at a bad id. Negative ids are large numbers here. */
static bool locate_rows(gathering *g, uint64_t begin, uint64_t n, const char **at) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = row_id_at(g, begin + i);
        if (id >= g->num_rows) {
            ae_lower(&g->bad, begin + i);
            return false;
        }
        at[i] = g->base + id * g->stride;
    }
    return true;
}

static bool go_on_gathering(gathering *g, uint64_t begin, uint64_t n) {
    ae_task_add(g->task, n);
    if (ae_task_cancelled(g->task))
        atomic_store_explicit(&g->cancelled, 1, memory_order_relaxed);
    return !atomic_load_explicit(&g->cancelled, memory_order_relaxed) &&
           begin < atomic_load_explicit(&g->bad, memory_order_relaxed);
}

static void gather_row_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    gathering *g = ctx;
    const char *at[BLOCK_IDS];
    uint64_t begin = chunk * g->chunk_ids, end = begin + ae_min_u64(g->chunk_ids, g->n - begin);
    (void)worker;
    if (!go_on_gathering(g, begin, end - begin))
        return;
    for (uint64_t i = begin, n; i < end; i += n) {
        n = ae_min_u64(BLOCK_IDS, end - i);
        if (!locate_rows(g, i, n, at))
            return;
        if (g->out_bytes)
            g->move(g, at, n, g->out + i * g->out_bytes);
    }
}

static int run_gathering(gathering *g, aether_error *err) {
    /* A short row costs a whole cache line. */
    uint64_t row_work = ae_max_u64(ae_max_u64(g->in_bytes, g->out_bytes), LINE);
    g->chunk_ids = ae_max_u64(CHUNK_WORK / row_work, 1);
    g->ahead = (uint32_t)ae_min_u64(ae_max_u64(AHEAD_BYTES / ae_max_u64(g->in_bytes, 1), 2), AHEAD_MAX);
    uint64_t threads =
        ae_max_u64(ae_min_u64(g->n / ae_max_u64(THREAD_WORK / row_work, 1), ae_pool_threads(0)), 1);
    ae_pool_run(gather_row_chunk, g, (g->n - 1) / g->chunk_ids + 1, (uint32_t)threads);
    if (atomic_load(&g->cancelled))
        return ae_error_set(err, AETHER_E_CANCELLED, "gathering was cancelled");
    uint64_t position = atomic_load(&g->bad);
    if (position == NONE)
        return AETHER_OK;
    int64_t id = (int64_t)row_id_at(g, position);
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)position, id,
                       "id %lld at position %llu is not in [0, %llu)", (long long)id,
                       (unsigned long long)position, (unsigned long long)g->num_rows);
}

/* ---- arguments ------------------------------------------------------------------- */

int ae_gather_types(uint32_t dtype, uint32_t id_bytes, uint32_t out_dtype, ae_convert_fn *convert,
                    aether_error *err) {
    if (!aether_dtype_size(dtype) || !aether_dtype_size(out_dtype))
        return ae_error_set(err, AETHER_E_INVALID, "unknown dtype (rows %u, out %u)", dtype, out_dtype);
    if (id_bytes != 4 && id_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, 0, id_bytes, "id_bytes is %u, must be 4 or 8", id_bytes);
    *convert = dtype == out_dtype ? NULL : ae_rows_convert(dtype, out_dtype);
    if (dtype != out_dtype && !*convert)
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "rows of %s cannot be gathered as %s",
                            ae_dtype_name(dtype), ae_dtype_name(out_dtype));
    return AETHER_OK;
}

int ae_gather_room(uint64_t n, uint64_t row_bytes, uint64_t out_size, aether_error *err) {
    uint64_t total;
    if (__builtin_mul_overflow(n, row_bytes, &total) || total > INT64_MAX)
        return ae_error_set(err, AETHER_E_LIMIT, "%" PRIu64 " rows of %" PRIu64 " bytes: sizes overflow", n,
                            row_bytes);
    if (total != out_size)
        return ae_error_set(err, AETHER_E_INVALID,
                            "%" PRIu64 " rows of %" PRIu64 " bytes do not fill the %" PRIu64 " bytes of out",
                            n, row_bytes, out_size);
    return AETHER_OK;
}

static int check_row_sizes(gathering *g, const aether_rows *rows, uint32_t out_dtype, aether_error *err) {
    uint64_t last_row = 0, extent = 0, ids = 0;
    bool over = __builtin_mul_overflow(rows->row_items, aether_dtype_size(rows->dtype), &g->in_bytes) ||
                __builtin_mul_overflow(rows->row_items, aether_dtype_size(out_dtype), &g->out_bytes) ||
                __builtin_mul_overflow(rows->num_rows, rows->stride, &last_row) ||
                __builtin_add_overflow(last_row, g->in_bytes, &extent) ||
                __builtin_mul_overflow(g->n, (uint64_t)g->id_bytes, &ids);
    if (over || ae_max_u64(extent, ids) > INT64_MAX)
        return ae_error_set(err, AETHER_E_LIMIT, "%llu rows of %llu items, %llu bytes apart: sizes overflow",
                            (unsigned long long)rows->num_rows, (unsigned long long)rows->row_items,
                            (unsigned long long)rows->stride);
    return AETHER_OK;
}

int aether_gather(const aether_rows *rows, const aether_row_request *request, aether_task *task,
                  aether_error *err) {
    int rc = ae_options_check(request, sizeof *request, "aether_row_request", err);
    if (rc)
        return rc;
    const aether_row_request *r = request;
    gathering g = {.ids = r->ids, .id_bytes = r->id_bytes, .n = r->n, .out = r->out, .task = task};
    if (!rows)
        return ae_error_set(err, AETHER_E_INVALID, "rows are needed");
    rc = ae_gather_types(rows->dtype, r->id_bytes, r->out_dtype, &g.convert, err);
    if (rc || (rc = check_row_sizes(&g, rows, r->out_dtype, err)) != 0 ||
        (rc = ae_gather_room(r->n, g.out_bytes, r->out_size, err)) != 0)
        return rc;
    ae_task_begin(task, r->n);
    if (r->n == 0)
        return AETHER_OK;
    if (!r->ids || (g.out_bytes && (!r->out || (rows->num_rows && !rows->data))))
        return ae_error_set(err, AETHER_E_INVALID, "ids, out and data are needed");
    g.base = rows->data;
    g.num_rows = rows->num_rows;
    g.stride = g.in_bytes ? rows->stride : 0; /* empty rows may have no memory to point to */
    g.items = rows->row_items;
    g.move = mover(&g);
    atomic_init(&g.bad, NONE);
    atomic_init(&g.cancelled, 0);
    return run_gathering(&g, err);
}

/* ---- copy -------------------------------------------------------------------------- */

typedef struct {
    char *dst;
    const char *src;
    uint64_t size;
    aether_task *task;
    atomic_int cancelled;
} copying;

static void copy_byte_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    copying *c = ctx;
    uint64_t begin = chunk * COPY_CHUNK, size = ae_min_u64(COPY_CHUNK, c->size - begin);
    (void)worker;
    if (ae_task_cancelled(c->task))
        atomic_store_explicit(&c->cancelled, 1, memory_order_relaxed);
    if (atomic_load_explicit(&c->cancelled, memory_order_relaxed))
        return;
    memcpy(c->dst + begin, c->src + begin, size);
    ae_task_add(c->task, size);
}

int aether_copy(void *dst, const void *src, uint64_t size, aether_task *task, aether_error *err) {
    copying c = {.dst = dst, .src = src, .size = size, .task = task};
    if (size && (!dst || !src))
        return ae_error_set(err, AETHER_E_INVALID, "dst and src are needed");
    aether_guard();
    atomic_init(&c.cancelled, 0);
    ae_task_begin(task, size);
    ae_pool_run(copy_byte_chunk, &c, size / COPY_CHUNK + (size % COPY_CHUNK != 0), 0);
    return atomic_load(&c.cancelled) ? ae_error_set(err, AETHER_E_CANCELLED, "copying was cancelled")
                                     : AETHER_OK;
}
