#include "build/lists.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/pool.h"
#include "core/task.h"

#define NO_ROW       UINT64_MAX
#define BLOCK        65536u       /* rows between two looks at the task */
#define SLICE_ROWS   32768u       /* a slice worth a thread's wake-up */
#define BUCKET_BYTES (256u << 10) /* a bucket, of which the L2 cache holds the better part of the copy */
#define BUCKET_LISTS 8192u        /* and so do its counters */
#define MAX_MAJOR    (UINT64_C(1) << 42)

typedef struct {
    void *data;
    uint64_t size;
} scratch;

typedef struct {
    uint64_t rows, bucket;
} sized_bucket;

typedef struct {
    const int64_t *major, *minor;
    uint64_t num_edges, num_major, num_minor;
    uint64_t *indptr;
    void *indices, *order, *keys; /* bucket by bucket; keys: major's low bits */
    uint32_t id_bytes, order_bytes, key_bytes, threads;
    ae_build_shape shape;
    uint64_t *places;        /* [slices][buckets]: counts, then the next free place */
    uint64_t *ends;          /* [slices][buckets]: where its places end */
    uint64_t *first;         /* [buckets + 1]: places of each bucket */
    uint64_t *bad;           /* [slices]: first bad row, or NO_ROW */
    sized_bucket *schedule;  /* [buckets]: the largest first */
    scratch *copies;         /* [threads] */
    atomic_ullong bad_slice; /* slices after this one need not be read */
    atomic_int failed;       /* AETHER_E_CANCELLED, _NO_MEMORY or _INVALID */
    aether_task *task;
} build;

/* Always inlined with a constant `bytes`. */
static inline __attribute__((always_inline)) void put_item(void *array, uint64_t i, uint64_t value,
                                                           uint32_t bytes) {
    switch (bytes) {
    case 2:
        ((uint16_t *)array)[i] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)array)[i] = (uint32_t)value;
        break;
    case 8:
        ((uint64_t *)array)[i] = value;
        break;
    }
}

static inline __attribute__((always_inline)) uint64_t get_item(const void *array, uint64_t i,
                                                               uint32_t bytes) {
    switch (bytes) {
    case 2:
        return ((const uint16_t *)array)[i];
    case 4:
        return ((const uint32_t *)array)[i];
    default:
        return ((const uint64_t *)array)[i];
    }
}

/* Call `function(..., key_bytes, id_bytes, order_bytes)` with constants. */
#define WIDTHS(k, i, o) ((k)*100 + (i)*10 + (o))
#define DISPATCH_ORDER(function, b, x, k, i)                                                                 \
    case WIDTHS(k, i, 0):                                                                                    \
        function(b, x, k, i, 0);                                                                             \
        break;                                                                                               \
    case WIDTHS(k, i, 4):                                                                                    \
        function(b, x, k, i, 4);                                                                             \
        break;                                                                                               \
    case WIDTHS(k, i, 8):                                                                                    \
        function(b, x, k, i, 8);                                                                             \
        break;
#define DISPATCH(function, b, x)                                                                             \
    switch (WIDTHS((b)->key_bytes, (b)->id_bytes, (b)->order_bytes)) {                                       \
        DISPATCH_ORDER(function, b, x, 2, 4)                                                                 \
        DISPATCH_ORDER(function, b, x, 2, 8)                                                                 \
        DISPATCH_ORDER(function, b, x, 4, 4)                                                                 \
        DISPATCH_ORDER(function, b, x, 4, 8)                                                                 \
    }

ae_build_shape ae_build_plan(uint64_t num_edges, uint64_t num_major, uint32_t record_bytes,
                             uint32_t threads) {
    ae_build_shape s = {0};
    uint64_t wanted = ae_max_u64(num_major / BUCKET_LISTS, num_edges / (BUCKET_BYTES / record_bytes));
    wanted = ae_min_u64(wanted, AE_BUILD_BUCKETS);
    while (num_major && (num_major - 1) >> s.shift >= ae_max_u64(wanted, 1))
        s.shift++;
    s.buckets = num_major ? ((num_major - 1) >> s.shift) + 1 : 1;
    s.slices = threads > 1 ? ae_min_u64((uint64_t)threads * 4, num_edges / SLICE_ROWS) : 1;
    s.slices = ae_max_u64(s.slices, 1);
    s.slice_len = num_edges / s.slices + (num_edges % s.slices != 0);
    return s;
}

/* ---- common to the passes ------------------------------------------------ */

static void fail_build(build *b, int rc) {
    atomic_store_explicit(&b->failed, rc, memory_order_relaxed);
}

/* Count `rows` more visits; return 0 if the build is to stop. */
static int go_on_building(build *b, uint64_t rows) {
    ae_task_add(b->task, rows);
    if (ae_task_cancelled(b->task))
        fail_build(b, AETHER_E_CANCELLED);
    return atomic_load_explicit(&b->failed, memory_order_relaxed) == 0;
}

static uint64_t edge_slice_begin(const build *b, uint64_t slice) {
    return ae_min_u64(slice * b->shape.slice_len, b->num_edges);
}

/* ---- pass 1: check ids, count rows per bucket and slice ------------------- */

static uint64_t count_rows(const build *b, uint64_t *counts, uint64_t begin, uint64_t end) {
    const int64_t *major = b->major, *minor = b->minor;
    const uint64_t num_major = b->num_major, num_minor = b->num_minor;
    const uint32_t shift = b->shape.shift;
    for (uint64_t row = begin; row < end; row++) {
        uint64_t id = (uint64_t)major[row];
        if (id >= num_major || (uint64_t)minor[row] >= num_minor) /* negative ids are large here */
            return row;
        counts[id >> shift]++;
    }
    return NO_ROW;
}

static void note_bad_row(build *b, uint64_t slice, uint64_t row) {
    b->bad[slice] = row;
    ae_lower(&b->bad_slice, slice);
}

static void count_edge_slice(void *ctx, uint64_t slice, uint32_t worker) {
    build *b = ctx;
    uint64_t *counts = b->places + slice * b->shape.buckets, end = edge_slice_begin(b, slice + 1);
    (void)worker;
    for (uint64_t row = edge_slice_begin(b, slice), stop; row < end; row = stop) {
        stop = ae_min_u64(row + BLOCK, end);
        if (slice > atomic_load_explicit(&b->bad_slice, memory_order_relaxed) ||
            !go_on_building(b, stop - row))
            return;
        uint64_t bad = count_rows(b, counts, row, stop);
        if (bad != NO_ROW) {
            note_bad_row(b, slice, bad);
            return;
        }
    }
}

static int report_bad_row(const build *b, aether_error *err) {
    uint64_t row = NO_ROW;
    for (uint64_t s = 0; s < b->shape.slices; s++)
        row = ae_min_u64(row, b->bad[s]);
    if (row == NO_ROW)
        return AETHER_OK;
    int in_major = (uint64_t)b->major[row] >= b->num_major;
    int64_t id = in_major ? b->major[row] : b->minor[row];
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)row, id, "%s id %lld at row %llu is not in [0, %llu)",
                       in_major ? "major" : "minor", (long long)id, (unsigned long long)row,
                       (unsigned long long)(in_major ? b->num_major : b->num_minor));
}

/* Turn counts into places: bucket by bucket, and in a bucket slice by slice. */
static void reserve_edge_places(build *b) {
    uint64_t place = 0, buckets = b->shape.buckets;
    for (uint64_t bucket = 0; bucket < buckets; bucket++) {
        b->first[bucket] = place;
        for (uint64_t s = 0; s < b->shape.slices; s++) {
            uint64_t rows = b->places[s * buckets + bucket];
            b->places[s * buckets + bucket] = place;
            place += rows;
            b->ends[s * buckets + bucket] = place;
        }
        b->schedule[bucket] = (sized_bucket){place - b->first[bucket], bucket};
    }
    b->first[buckets] = place;
}

static int by_rows(const void *a, const void *b) {
    uint64_t x = ((const sized_bucket *)a)->rows, y = ((const sized_bucket *)b)->rows;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* ---- pass 2: scatter the rows into buckets --------------------------------
 *
 * The ids are read a second time here, and another thread of the caller's may
 * have changed them: each row is held to the places that pass 1 counted. */

static inline __attribute__((always_inline)) void scatter_edges(build *b, uint64_t slice, uint32_t key_bytes,
                                                                uint32_t id_bytes, uint32_t order_bytes) {
    const int64_t *major = b->major, *minor = b->minor;
    void *keys = b->keys, *indices = b->indices, *order = b->order;
    uint64_t *places = b->places + slice * b->shape.buckets, end = edge_slice_begin(b, slice + 1);
    const uint64_t *ends = b->ends + slice * b->shape.buckets, num_major = b->num_major;
    const uint32_t shift = b->shape.shift;
    const uint64_t mask = (UINT64_C(1) << shift) - 1;
    for (uint64_t row = edge_slice_begin(b, slice), stop; row < end; row = stop) {
        stop = ae_min_u64(row + BLOCK, end);
        if (!go_on_building(b, stop - row))
            return;
        for (uint64_t i = row; i < stop; i++) {
            uint64_t id = (uint64_t)((const volatile int64_t *)major)[i];
            if (__builtin_expect(id >= num_major || places[id >> shift] == ends[id >> shift], 0)) {
                fail_build(b, AETHER_E_INVALID);
                return;
            }
            uint64_t place = places[id >> shift]++;
            put_item(keys, place, id & mask, key_bytes);
            put_item(indices, place, (uint64_t)minor[i], id_bytes);
            if (order_bytes)
                put_item(order, place, i, order_bytes);
        }
    }
}

static void scatter_edge_slice(void *ctx, uint64_t slice, uint32_t worker) {
    build *b = ctx;
    (void)worker;
    DISPATCH(scatter_edges, b, slice)
}

/* ---- pass 3: sort each bucket ---------------------------------------------- */

/* Room for a bucket's copy. The largest buckets come first, so this allocates
 * once per thread. */
static void *copy_room(build *b, uint32_t worker, uint64_t size) {
    scratch *c = &b->copies[worker];
    if (c->size < size) {
        aether_buffer_free(c->data, c->size);
        c->data = aether_buffer_alloc(size, NULL);
        c->size = c->data ? size : 0;
    }
    return c->data;
}

/* ends[k] = where list k starts. */
static inline __attribute__((always_inline)) void list_starts(build *b, uint64_t bucket, uint64_t *ends,
                                                              uint64_t lists, uint32_t key_bytes) {
    const uint64_t end = b->first[bucket + 1];
    memset(ends, 0, lists * sizeof *ends);
    for (uint64_t row = b->first[bucket], stop; row < end && go_on_building(b, 0); row = stop) {
        stop = ae_min_u64(row + BLOCK, end);
        for (uint64_t i = row; i < stop; i++)
            ends[get_item(b->keys, i, key_bytes)]++;
    }
    uint64_t place = b->first[bucket];
    for (uint64_t k = 0; k < lists; k++) {
        uint64_t rows = ends[k];
        ends[k] = place;
        place += rows;
    }
}

typedef struct {
    uint64_t bucket;
    uint32_t worker;
} bucket_job;

/* The counters are indptr itself, one entry late: list k's counter starts as
 * its first place and has become its end, indptr[k + 1], when it is full. */
static inline __attribute__((always_inline)) void
sort_bucket(build *b, const bucket_job *job, uint32_t key_bytes, uint32_t id_bytes, uint32_t order_bytes) {
    const uint64_t low = job->bucket << b->shape.shift, begin = b->first[job->bucket];
    const uint64_t rows = b->first[job->bucket + 1] - begin;
    const uint64_t lists = ae_min_u64(b->num_major - low, UINT64_C(1) << b->shape.shift);
    void *indices = b->indices, *order = b->order, *keys = b->keys;
    uint64_t *ends = b->indptr + low + 1;
    list_starts(b, job->bucket, ends, lists, key_bytes);
    if (rows == 0)
        return;
    const uint64_t ids_size = (rows * id_bytes + 7) & ~UINT64_C(7); /* keeps what follows aligned */
    char *ids = copy_room(b, job->worker, ids_size + rows * order_bytes);
    if (!ids) {
        fail_build(b, AETHER_E_NO_MEMORY);
        return;
    }
    char *inputs = ids + ids_size;
    for (uint64_t row = 0, stop; row < rows; row = stop) {
        stop = ae_min_u64(row + BLOCK, rows);
        if (!go_on_building(b, 0))
            return;
        memcpy(ids + row * id_bytes, (char *)indices + (begin + row) * id_bytes, (stop - row) * id_bytes);
        if (order_bytes)
            memcpy(inputs + row * order_bytes, (char *)order + (begin + row) * order_bytes,
                   (stop - row) * order_bytes);
    }
    for (uint64_t row = 0, stop; row < rows; row = stop) {
        stop = ae_min_u64(row + BLOCK, rows);
        if (!go_on_building(b, stop - row))
            return;
        for (uint64_t i = row; i < stop; i++) {
            uint64_t place = ends[get_item(keys, begin + i, key_bytes)]++;
            put_item(indices, place, get_item(ids, i, id_bytes), id_bytes);
            if (order_bytes)
                put_item(order, place, get_item(inputs, i, order_bytes), order_bytes);
        }
    }
}

static void sort_bucket_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    build *b = ctx;
    bucket_job job = {b->schedule[chunk].bucket, worker};
    if (go_on_building(b, 0))
        DISPATCH(sort_bucket, b, &job)
}

/* ---- the whole -------------------------------------------------------------- */

static int build_failure(build *b, aether_error *err) {
    int rc = atomic_load(&b->failed);
    if (rc == AETHER_E_CANCELLED)
        return ae_error_set(err, rc, "building was cancelled");
    if (rc == AETHER_E_NO_MEMORY)
        return ae_error_set(err, rc, "no memory to sort a bucket of edges");
    if (rc == AETHER_E_INVALID)
        return ae_error_set(err, rc, "the edges were changed while the lists were built from them");
    return AETHER_OK;
}

static int run_passes(build *b, aether_error *err) {
    int rc;
    ae_task_begin(b->task, b->num_edges * 3);
    ae_pool_run(count_edge_slice, b, b->shape.slices, b->threads);
    if ((rc = build_failure(b, err)) != 0 || (rc = report_bad_row(b, err)) != 0)
        return rc;
    reserve_edge_places(b);
    qsort(b->schedule, b->shape.buckets, sizeof *b->schedule, by_rows);
    ae_pool_run(scatter_edge_slice, b, b->shape.slices, b->threads);
    if ((rc = build_failure(b, err)) != 0)
        return rc;
    b->indptr[0] = 0;
    if (b->num_major)
        ae_pool_run(sort_bucket_chunk, b, b->shape.buckets, b->threads);
    return build_failure(b, err);
}

static int allocate_build(build *b, aether_error *err) {
    uint64_t buckets = b->shape.buckets, slices = b->shape.slices;
    b->places = calloc(slices * buckets, sizeof *b->places);
    b->ends = calloc(slices * buckets, sizeof *b->ends);
    b->first = calloc(buckets + 1, sizeof *b->first);
    b->schedule = calloc(buckets, sizeof *b->schedule);
    b->bad = malloc(slices * sizeof *b->bad);
    b->copies = calloc(b->threads, sizeof *b->copies);
    if (!b->places || !b->ends || !b->first || !b->schedule || !b->bad || !b->copies)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for the tables of the build");
    memset(b->bad, 0xFF, slices * sizeof *b->bad); /* NO_ROW */
    atomic_init(&b->bad_slice, NO_ROW);
    b->keys = aether_buffer_alloc(ae_max_u64(b->num_edges * b->key_bytes, 1), err);
    return b->keys ? AETHER_OK : AETHER_E_NO_MEMORY;
}

static void release_build(build *b) {
    for (uint32_t i = 0; b->copies && i < b->threads; i++)
        aether_buffer_free(b->copies[i].data, b->copies[i].size);
    aether_buffer_free(b->keys, ae_max_u64(b->num_edges * b->key_bytes, 1));
    free(b->copies);
    free(b->bad);
    free(b->schedule);
    free(b->first);
    free(b->ends);
    free(b->places);
}

static int check_build(const build *b, aether_error *err) {
    const uint64_t u32 = UINT64_C(1) << 32;
    if (b->id_bytes != 4 && b->id_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, 0, b->id_bytes, "id_bytes is %u, must be 4 or 8",
                           b->id_bytes);
    if (b->order && b->order_bytes != 4 && b->order_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, 0, b->order_bytes, "order_bytes is %u, must be 4 or 8",
                           b->order_bytes);
    if (!b->indptr || (b->num_edges && (!b->major || !b->minor || !b->indices)))
        return ae_error_set(err, AETHER_E_INVALID,
                            "indptr and, with edges, major, minor and indices are needed");
    if (b->num_major >= MAX_MAJOR || b->num_edges >= UINT64_MAX / 16)
        return ae_error_set(err, AETHER_E_LIMIT, "%llu lists of %llu edges are more than can be built",
                            (unsigned long long)b->num_major, (unsigned long long)b->num_edges);
    if (b->id_bytes == 4 && b->num_minor > u32)
        return ae_error_set(err, AETHER_E_LIMIT, "ids below %llu do not fit in 4 bytes",
                            (unsigned long long)b->num_minor);
    if (b->order_bytes == 4 && b->num_edges > u32)
        return ae_error_set(err, AETHER_E_LIMIT, "rows below %llu do not fit in 4 bytes of order",
                            (unsigned long long)b->num_edges);
    return AETHER_OK;
}

int aether_build_lists(const aether_edge_list *edges, const aether_built_lists *out, aether_task *task,
                       aether_error *err) {
    int rc = ae_options_check(edges, sizeof *edges, "aether_edge_list", err);
    if (!rc)
        rc = ae_options_check(out, sizeof *out, "aether_built_lists", err);
    if (rc)
        return rc;
    const uint64_t num_edges = edges->num_edges, num_major = edges->num_major;
    build b = {.major = edges->major,
               .minor = edges->minor,
               .num_edges = num_edges,
               .num_major = num_major,
               .num_minor = ae_min_u64(edges->num_minor, INT64_MAX),
               .indptr = out->indptr,
               .indices = out->indices,
               .order = out->order,
               .id_bytes = out->id_bytes,
               .order_bytes = out->order ? out->order_bytes : 0,
               .task = task};
    rc = check_build(&b, err);
    if (rc)
        return rc;
    b.threads = num_edges / SLICE_ROWS || num_major / BUCKET_LISTS ? ae_pool_threads(0) : 1;
    b.shape = ae_build_plan(num_edges, num_major, b.id_bytes + b.order_bytes, b.threads);
    b.key_bytes = b.shape.shift <= 16 ? 2 : 4;
    rc = allocate_build(&b, err);
    if (!rc)
        rc = run_passes(&b, err);
    release_build(&b);
    return rc;
}
