#include "build/records.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/pool.h"
#include "core/task.h"

#define NO_ROW     UINT64_MAX
#define SLICE_ROWS 65536u
#define HELD_BYTES 128u /* records of a part that a slice collects before it moves them */
#define MAX_RECORD 65536u

static uint64_t num_slices(uint64_t n, uint32_t threads) {
    return threads > 1 ? ae_max_u64(ae_min_u64((uint64_t)threads * 4, n / SLICE_ROWS), 1) : 1;
}

static uint64_t record_slice_begin(uint64_t slice, uint64_t slices, uint64_t n) {
    return n / slices * slice + ae_min_u64(slice, n % slices);
}

/* ---- pack ---------------------------------------------------------------------- */

typedef struct {
    const int64_t *major, *minor;
    const aether_column *columns;
    uint32_t num_columns, id_bytes, record_bytes;
    uint64_t n, slices;
    char *records;
    atomic_ullong bad;
} packing;

/* The fast path of most graphs: 4-byte ids and no columns. */
static void pack_pairs(packing *p, uint64_t begin, uint64_t end) {
    uint64_t all = 0;
    for (uint64_t i = begin; i < end; i++) {
        uint64_t major = (uint64_t)p->major[i], minor = (uint64_t)p->minor[i], pair = major | minor << 32;
        all |= major | minor;
        memcpy(p->records + i * 8, &pair, 8);
    }
    if (all >> 32 == 0)
        return;
    for (uint64_t i = begin; i < end; i++)
        if (((uint64_t)p->major[i] | (uint64_t)p->minor[i]) >> 32) {
            ae_lower(&p->bad, i);
            return;
        }
}

static void pack_rows(packing *p, uint64_t begin, uint64_t end) {
    const uint32_t id_bytes = p->id_bytes;
    for (uint64_t i = begin; i < end; i++) {
        char *to = p->records + i * p->record_bytes;
        if (((uint64_t)p->major[i] | (uint64_t)p->minor[i]) >> (id_bytes == 4 ? 32 : 63)) {
            ae_lower(&p->bad, i);
            return;
        }
        memcpy(to, &p->major[i], id_bytes); /* little-endian: the low bytes come first */
        memcpy(to + id_bytes, &p->minor[i], id_bytes);
        to += 2 * id_bytes;
        for (uint32_t c = 0; c < p->num_columns; c++) {
            uint32_t width = p->columns[c].bytes;
            const char *from = (const char *)p->columns[c].data + i * width;
            if (width == 4)
                memcpy(to, from, 4);
            else if (width == 8)
                memcpy(to, from, 8);
            else
                memcpy(to, from, width);
            to += width;
        }
    }
}

static void pack_slice(void *ctx, uint64_t slice, uint32_t worker) {
    packing *p = ctx;
    (void)worker;
    uint64_t begin = record_slice_begin(slice, p->slices, p->n),
             end = record_slice_begin(slice + 1, p->slices, p->n);
    if (p->id_bytes == 4 && p->num_columns == 0)
        pack_pairs(p, begin, end);
    else
        pack_rows(p, begin, end);
}

static int check_record_sizes(uint64_t n, uint32_t record_bytes, uint32_t id_bytes, aether_error *err) {
    if (id_bytes != 4 && id_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, 0, id_bytes, "id_bytes is %u, must be 4 or 8", id_bytes);
    if (record_bytes < 2 * id_bytes || record_bytes > MAX_RECORD || n > UINT64_MAX / MAX_RECORD)
        return ae_error_at(err, AETHER_E_LIMIT, 0, record_bytes,
                           "%" PRIu64 " records of %" PRIu32 " bytes cannot be", n, record_bytes);
    return AETHER_OK;
}

int aether_records_pack(const aether_record_columns *rows, void *records, uint64_t records_size,
                        aether_error *err) {
    int rc = ae_options_check(rows, sizeof *rows, "aether_record_columns", err);
    if (rc)
        return rc;
    const int64_t *major = rows->major, *minor = rows->minor;
    const uint64_t n = rows->n;
    const uint32_t id_bytes = rows->id_bytes;
    packing p = {.major = major,
                 .minor = minor,
                 .columns = rows->columns,
                 .num_columns = rows->num_columns,
                 .id_bytes = id_bytes,
                 .record_bytes = 2 * id_bytes,
                 .n = n,
                 .records = records};
    for (uint32_t c = 0; c < rows->num_columns; c++)
        p.record_bytes += ae_min_u64(rows->columns[c].bytes, MAX_RECORD);
    rc = check_record_sizes(n, p.record_bytes, id_bytes, err);
    if (rc)
        return rc;
    if (records_size != n * p.record_bytes)
        return ae_error_set(err, AETHER_E_INVALID,
                            "%" PRIu64 " records of %" PRIu32 " bytes do not fill %" PRIu64, n,
                            p.record_bytes, records_size);
    atomic_init(&p.bad, NO_ROW);
    uint32_t threads = ae_pool_threads(0);
    p.slices = num_slices(n, threads);
    ae_pool_run(pack_slice, &p, p.slices, threads);
    uint64_t bad = atomic_load(&p.bad);
    if (bad == NO_ROW)
        return AETHER_OK;
    int in_major = (uint64_t)major[bad] >> (id_bytes == 4 ? 32 : 63) != 0;
    int64_t id = in_major ? major[bad] : minor[bad];
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)bad, id, "%s id %lld at row %llu does not fit",
                       in_major ? "major" : "minor", (long long)id, (unsigned long long)bad);
}

/* ---- partition -------------------------------------------------------------------- */

typedef struct {
    const char *records;
    char *out;
    uint64_t n, low, num_parts, slices;
    uint32_t record_bytes, shift, held_rows;
    aether_field field;
    uint64_t *places; /* [slices][num_parts]: counts, then the next place */
    char *held;       /* [threads][num_parts][held_rows] records */
    uint8_t *filled;  /* [threads][num_parts] */
    atomic_ullong bad;
    atomic_int cancelled;
    aether_task *task;
} partitioning;

static int go_on_partitioning(partitioning *p, uint64_t rows) {
    ae_task_add(p->task, rows);
    if (ae_task_cancelled(p->task))
        atomic_store_explicit(&p->cancelled, 1, memory_order_relaxed);
    return !atomic_load_explicit(&p->cancelled, memory_order_relaxed);
}

static void count_record_slice(void *ctx, uint64_t slice, uint32_t worker) {
    partitioning *p = ctx;
    (void)worker;
    uint64_t *counts = p->places + slice * p->num_parts;
    uint64_t begin = record_slice_begin(slice, p->slices, p->n),
             end = record_slice_begin(slice + 1, p->slices, p->n);
    if (!go_on_partitioning(p, end - begin))
        return;
    for (uint64_t i = begin; i < end; i++) {
        uint64_t key = ae_record_key(p->records + i * p->record_bytes, p->field);
        uint64_t part = (key - p->low) >> p->shift;
        if (key < p->low || part >= p->num_parts) {
            ae_lower(&p->bad, i);
            return;
        }
        counts[part]++;
    }
}

static void reserve_record_places(partitioning *p, uint64_t *counts) {
    uint64_t place = 0;
    for (uint64_t part = 0; part < p->num_parts; part++) {
        uint64_t first = place;
        for (uint64_t s = 0; s < p->slices; s++) {
            uint64_t rows = p->places[s * p->num_parts + part];
            p->places[s * p->num_parts + part] = place;
            place += rows;
        }
        counts[part] = place - first;
    }
}

/* `bytes` is a constant in the callers below, except for odd sizes. */
static inline __attribute__((always_inline)) void scatter_records(partitioning *p, uint64_t slice,
                                                                  uint32_t worker, uint64_t bytes) {
    uint64_t *places = p->places + slice * p->num_parts;
    uint8_t *filled = p->filled + worker * p->num_parts;
    char *held = p->held + worker * p->num_parts * p->held_rows * bytes;
    const uint64_t room = p->held_rows * bytes, low = p->low;
    const uint32_t shift = p->shift, held_rows = p->held_rows;
    uint64_t end = record_slice_begin(slice + 1, p->slices, p->n);
    memset(filled, 0, p->num_parts);
    for (uint64_t i = record_slice_begin(slice, p->slices, p->n); i < end; i++) {
        const char *record = p->records + i * bytes;
        uint64_t part = (ae_record_key(record, p->field) - low) >> shift;
        char *mine = held + part * room;
        uint32_t rows = filled[part];
        memcpy(mine + rows * bytes, record, bytes);
        if (++rows == held_rows) {
            memcpy(p->out + places[part] * bytes, mine, room);
            places[part] += held_rows;
            rows = 0;
        }
        filled[part] = (uint8_t)rows;
    }
    for (uint64_t part = 0; part < p->num_parts; part++)
        memcpy(p->out + places[part] * bytes, held + part * room, filled[part] * bytes);
}

static void scatter_record_slice(void *ctx, uint64_t slice, uint32_t worker) {
    partitioning *p = ctx;
    if (!go_on_partitioning(p, record_slice_begin(slice + 1, p->slices, p->n) -
                                   record_slice_begin(slice, p->slices, p->n)))
        return;
    switch (p->record_bytes) {
    case 8:
        scatter_records(p, slice, worker, 8);
        break;
    case 12:
        scatter_records(p, slice, worker, 12);
        break;
    case 16:
        scatter_records(p, slice, worker, 16);
        break;
    case 24:
        scatter_records(p, slice, worker, 24);
        break;
    default:
        scatter_records(p, slice, worker, p->record_bytes);
    }
}

static int report_partitioning(partitioning *p, aether_error *err) {
    uint64_t bad = atomic_load(&p->bad);
    if (atomic_load(&p->cancelled))
        return ae_error_set(err, AETHER_E_CANCELLED, "partitioning was cancelled");
    if (bad == NO_ROW)
        return AETHER_OK;
    uint64_t key = ae_record_key(p->records + bad * p->record_bytes, p->field);
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)bad, (int64_t)key,
                       "the key %" PRIu64 " of record %" PRIu64 " is in none of the %" PRIu64 " parts", key,
                       bad, p->num_parts);
}

static int run_partitioning(partitioning *p, uint64_t *counts, uint32_t threads, aether_error *err) {
    p->places = calloc(p->slices * p->num_parts, sizeof *p->places);
    p->filled = malloc(threads * p->num_parts);
    p->held = malloc(threads * p->num_parts * p->held_rows * p->record_bytes);
    if (!p->places || !p->filled || !p->held)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for the tables of %" PRIu64 " parts",
                            p->num_parts);
    ae_task_begin(p->task, 2 * p->n);
    ae_pool_run(count_record_slice, p, p->slices, threads);
    int rc = report_partitioning(p, err);
    if (rc)
        return rc;
    reserve_record_places(p, counts);
    ae_pool_run(scatter_record_slice, p, p->slices, threads);
    return report_partitioning(p, err);
}

int ae_record_check_field(aether_field field, uint32_t record_bytes, aether_error *err) {
    int known = field.dtype == AETHER_U32 || field.dtype == AETHER_U64 || field.dtype == AETHER_I64 ||
                field.dtype == AETHER_F64;
    uint32_t bytes = field.dtype == AETHER_U32 ? 4 : 8;
    if (!known || record_bytes < bytes || field.offset > record_bytes - bytes)
        return ae_error_at(err, AETHER_E_INVALID, field.offset, field.dtype,
                           "no key of dtype %" PRIu32 " at byte %" PRIu32 " of a record of %" PRIu32,
                           field.dtype, field.offset, record_bytes);
    return AETHER_OK;
}

int aether_records_partition(const aether_records *records, const aether_partition *partition,
                             uint64_t *counts, void *out, aether_task *task, aether_error *err) {
    int rc = ae_options_check(records, sizeof *records, "aether_records", err);
    if (!rc)
        rc = ae_options_check(partition, sizeof *partition, "aether_partition", err);
    if (rc)
        return rc;
    const uint32_t record_bytes = records->record_bytes, shift = partition->shift;
    const uint64_t n = records->n, num_parts = partition->num_parts;
    partitioning p = {.records = records->data,
                      .out = out,
                      .n = n,
                      .low = partition->low,
                      .num_parts = num_parts,
                      .record_bytes = record_bytes,
                      .shift = shift,
                      .held_rows = (uint32_t)ae_max_u64(HELD_BYTES / ae_max_u64(record_bytes, 1), 1),
                      .field = partition->key,
                      .task = task};
    rc = check_record_sizes(n, record_bytes, 4, err);
    rc = rc ? rc : ae_record_check_field(partition->key, record_bytes, err);
    if (rc)
        return rc;
    if (shift > 63 || num_parts == 0 || num_parts > AETHER_MAX_PARTS)
        return ae_error_at(err, AETHER_E_INVALID, shift, (int64_t)num_parts,
                           "%" PRIu64 " parts by a shift of %" PRIu32 " cannot be", num_parts, shift);
    atomic_init(&p.bad, NO_ROW);
    atomic_init(&p.cancelled, 0);
    uint32_t threads = n / SLICE_ROWS ? ae_pool_threads(0) : 1;
    p.slices = num_slices(n, threads);
    rc = run_partitioning(&p, counts, threads, err);
    free(p.places);
    free(p.filled);
    free(p.held);
    return rc;
}
