/*
 * Reading rows. A chunk of ids is turned into slots block by block; while one row is copied those that
 * follow come into the cache. Most rows take one try; what becomes of the others is in read_row_slot().
 *
 *   seq    0       never written: `missing` decides
 *          odd     in work: again, while a living writer has the row and for some seconds at most; else it
 *                  is torn
 *          even    copied, and accepted if seq has not changed (and, with AETHER_TABLE_CHECK, the sum is
 * right)
 */
#include "rows/gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/dtype.h"
#include "core/error.h"
#include "core/minmax.h"
#include "core/pool.h"
#include "core/task.h"
#include "os/process.h"
#include "slots/scale.h"
#include "slots/shard.h"
#include "slots/sum.h"
#include "slots/table.h"

#define CHUNK_WORK  (256u << 10) /* bytes moved between two looks at the task */
#define THREAD_WORK (128u << 10) /* bytes moved that are worth a thread */
#define AHEAD_BYTES (16u << 10)  /* in flight */
#define AHEAD_MAX   64u          /* rows */
#define LONG_ROW    128u         /* bytes */
#define NONE        UINT64_MAX

/* What a slot was found to be. BUSY: a living writer had it in work all the time. LEFT: given up, since the
 * call is cancelled, or fails anyway. AGAIN: not known yet. */
enum { READ, MISSING, TORN, BUSY, DAMAGED, LEFT, AGAIN };

typedef struct gathering {
    const aether_table *t;
    const int64_t *ids;
    uint64_t n, chunk_ids, ahead;
    uint8_t *out;
    uint64_t out_bytes; /* per row */
    uint32_t out_dtype, missing;
    bool checked;
    ae_convert_fn convert; /* NULL: rows are copied as they are */
    uint8_t *scratch;      /* a row for each worker, where they are converted */
    aether_task *task;
    atomic_ullong bad[LEFT]; /* the first position of an id that is none (at READ), or of a slot that is so */
    atomic_int cancelled;
} gathering;

/* Say who has a row in work; whoever it was may have ended the row meanwhile. */
static void describe_writer(const aether_table *t, int64_t row, char *out, size_t size) {
    const ae_shard *shard = &t->header->shards[ae_shard_of((uint64_t)row)];
    const uint32_t pid = ae_process_pid(atomic_load_explicit(&shard->owner, memory_order_relaxed));
    char name[32] = "a process";
    if (pid)
        snprintf(name, sizeof name, "process %u", pid);
    snprintf(
        out, size,
        "has been in work for %d s by %s, which lives (stopped, or writing this row all the time): let it "
        "go on, or end it and write the row again",
        AE_SHARD_PATIENCE, name);
}

/* Report what the slot at a position was found to be; READ: that there is no such row. */
static int refuse(const aether_table *t, int found, uint64_t at, int64_t row, aether_error *err) {
    static const int code[LEFT] = {AETHER_E_RANGE, AETHER_E_MISSING_ROW, AETHER_E_TORN, AETHER_E_TORN,
                                   AETHER_E_CORRUPT};
    static const char *const why[LEFT] = {
        [READ] = "does not exist",
        [MISSING] = "was never written: write it, or read with another `missing`",
        [TORN] = "is half written by a put that failed or whose process ended: write it again",
        [DAMAGED] = "does not fit its checksum: write it again",
    };
    char busy[200];
    if (found == BUSY)
        describe_writer(t, row, busy, sizeof busy);
    return ae_error_at(err, code[found], (int64_t)at, row, "row %" PRId64 " (ids[%" PRIu64 "]) of '%s' %s",
                       row, at, t->name, found == BUSY ? busy : why[found]);
}

/* ---- one slot --------------------------------------------------------------------------- */

/* A row that is long goes by the library's memcpy, which has the widest instructions. C has no word for the
 * race with a writer; but whatever the copy has of it, the fence comes after, and seq tells. */
static inline void load_data(const ae_slot *slot, uint8_t *out, uint64_t row_bytes) {
    const uint8_t *data = (const uint8_t *)slot->data;
    uint64_t i = 0;
#ifndef AE_SANITIZED
    if (row_bytes >= LONG_ROW) {
        memcpy(out, data, row_bytes);
        return;
    }
#endif
    for (; i + AE_SLOT_WIDE <= row_bytes; i += AE_SLOT_WIDE) {
        const ae_wide word = ae_wide_load(data + i);
        memcpy(out + i, &word, AE_SLOT_WIDE);
    }
    if (i < row_bytes) {
        const ae_wide word = ae_wide_load(data + i);
        memcpy(out + i, &word, row_bytes - i);
    }
}

static bool sum_is_right(uint64_t row, const uint8_t *data, uint64_t row_bytes, uint64_t version,
                         uint32_t seq, uint32_t sum) {
    uint32_t begun;
    ae_slot_sums_begin(&row, &data, 1, row_bytes, &begun);
    return ae_slot_sum_end(begun, version, seq) == sum;
}

/* Try once; false: again. */
static inline bool try_slot(const gathering *g, uint64_t row, const ae_slot *slot, uint8_t *out, int *found) {
    const uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
    *found = MISSING;
    if (seq % 2 || !seq)
        return !seq;
    load_data(slot, out, g->t->info.row_bytes);
    const uint64_t version = atomic_load_explicit(&slot->version, memory_order_relaxed);
    const uint32_t sum = atomic_load_explicit(&slot->sum, memory_order_relaxed);
    AE_SLOT_FENCE(memory_order_acquire);
    if (atomic_load_explicit(&slot->seq, memory_order_relaxed) != seq)
        return false;
    *found = READ;
    if (!g->checked || sum_is_right(row, out, g->t->info.row_bytes, version, seq, sum))
        return true;
    *found = DAMAGED;
    return true;
}

/* Return whether a row is odd, and stays so, because nobody alive is writing it. */
static bool is_left(const aether_table *t, uint64_t row, const ae_slot *slot) {
    const uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
    if (seq % 2 == 0 || ae_shard_is_writing(&t->header->shards[ae_shard_of(row)], row))
        return false;
    return atomic_load_explicit(&slot->seq, memory_order_relaxed) == seq;
}

/* How long a row has been waited for; zeros: not yet. */
typedef struct waiting {
    uint32_t tries;
    time_t until;
} waiting;

/* Wait a little for the writer of a row. AGAIN: look at it again; else what it was found to be. */
static int wait_for_writer(const aether_table *t, uint64_t row, const ae_slot *slot, aether_task *task,
                           waiting *w) {
    if (!ae_shard_wait(w->tries++))
        return AGAIN;
    if (is_left(t, row, slot))
        return TORN;
    if (ae_task_cancelled(task))
        return LEFT;
    const time_t now = ae_shard_now();
    if (!w->until)
        w->until = now + AE_SHARD_PATIENCE + 1; /* of a second that has begun */
    return now < w->until ? AGAIN : BUSY;
}

static __attribute__((noinline)) int read_patiently(const gathering *g, uint64_t row, const ae_slot *slot,
                                                    uint8_t *out) {
    waiting w = {0};
    int found;
    while (!try_slot(g, row, slot, out, &found)) {
        found = wait_for_writer(g->t, row, slot, g->task, &w);
        if (found != AGAIN)
            return found;
        if (w.until && atomic_load_explicit(&g->bad[BUSY], memory_order_relaxed) != NONE)
            return LEFT; /* one row is waited for that long, not each */
    }
    return found;
}

static inline int read_row_slot(const gathering *g, uint64_t row, uint8_t *out) {
    const ae_slot *slot = ae_table_slot(g->t, row);
    int found;
    return try_slot(g, row, slot, out, &found) ? found : read_patiently(g, row, slot, out);
}

/* ---- rows as they are wanted -------------------------------------------------------------- */

static void fill_missing(const gathering *g, uint8_t *out) {
    static const uint16_t half = 0x7E00, brain = 0x7FC0;
    static const uint32_t single = 0x7FC00000;
    static const uint64_t wide = UINT64_C(0x7FF8000000000000);
    const void *nan = g->out_dtype == AETHER_F16    ? (const void *)&half
                      : g->out_dtype == AETHER_BF16 ? (const void *)&brain
                      : g->out_dtype == AETHER_F32  ? (const void *)&single
                                                    : (const void *)&wide;
    const uint32_t bytes = aether_dtype_size(g->out_dtype);
    if (g->missing == AETHER_MISSING_ZERO)
        memset(out, 0, g->out_bytes);
    else
        for (uint64_t i = 0; i < g->out_bytes; i += bytes)
            memcpy(out + i, nan, bytes);
}

static int read_converted(const gathering *g, uint64_t row, uint8_t *scratch, uint8_t *out) {
    const int found = read_row_slot(g, row, scratch);
    if (found == READ && g->t->info.flags & AETHER_TABLE_SCALED)
        ae_slot_scale(scratch, g->t->info.row_items, out);
    else if (found == READ)
        g->convert(out, scratch, g->t->info.row_items);
    return found;
}

/* ---- chunks of ids ------------------------------------------------------------------------- */

static bool go_on_reading_slots(gathering *g, uint64_t n) {
    ae_task_add(g->task, n);
    if (ae_task_cancelled(g->task))
        atomic_store_explicit(&g->cancelled, 1, memory_order_relaxed);
    return !atomic_load_explicit(&g->cancelled, memory_order_relaxed);
}

/* Read a row as it is wanted, or note what is wrong with it. */
static __attribute__((noinline)) void read_any(gathering *g, uint64_t i, uint64_t row, uint8_t *scratch) {
    uint8_t *out = g->out + i * g->out_bytes;
    if (row >= g->t->info.num_rows) {
        ae_lower(&g->bad[READ], i);
        return;
    }
    const int found = scratch ? read_converted(g, row, scratch, out) : read_row_slot(g, row, out);
    if (found == MISSING && g->missing != AETHER_MISSING_ERROR)
        fill_missing(g, out);
    else if (found == LEFT)
        go_on_reading_slots(g, 0);
    else if (found != READ)
        ae_lower(&g->bad[found], i);
}

/* Rows that were copied whole, and whose checksums are compared together. */
typedef struct copies {
    uint64_t rows[AE_SLOT_SUMS], places[AE_SLOT_SUMS], versions[AE_SLOT_SUMS];
    const uint8_t *data[AE_SLOT_SUMS];
    uint32_t seqs[AE_SLOT_SUMS], sums[AE_SLOT_SUMS];
    uint32_t n;
} copies;

/* What most rows take: one try, and no look at anything but the slot. Fills entry c->n. */
static inline bool read_at_once(const ae_slot *slot, uint8_t *out, uint64_t row_bytes, copies *c) {
    const uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
    if (seq % 2 || !seq)
        return false;
    load_data(slot, out, row_bytes);
    c->seqs[c->n] = seq;
    c->versions[c->n] = atomic_load_explicit(&slot->version, memory_order_relaxed);
    c->sums[c->n] = atomic_load_explicit(&slot->sum, memory_order_relaxed);
    AE_SLOT_FENCE(memory_order_acquire);
    return atomic_load_explicit(&slot->seq, memory_order_relaxed) == seq;
}

/* Compare the checksums of copies; one that is wrong is read again, and named if it stays so. */
static void compare_sums(gathering *g, copies *c) {
    uint32_t begun[AE_SLOT_SUMS];
    ae_slot_sums_begin(c->rows, c->data, c->n, g->t->info.row_bytes, begun);
    for (uint32_t k = 0; k < c->n; k++)
        if (ae_slot_sum_end(begun[k], c->versions[k], c->seqs[k]) != c->sums[k])
            read_any(g, c->places[k], c->rows[k], NULL);
    c->n = 0;
}

/* Ids are read once each, so that one who changes them meanwhile gets other rows, but no others' memory.
 * All that the loop needs is in variables: the compiler takes it that stores to `out` could change the rest.
 */
static void gather_slot_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    gathering *g = ctx;
    const uint64_t begin = chunk * g->chunk_ids, end = begin + ae_min_u64(g->chunk_ids, g->n - begin);
    const uint64_t num_rows = g->t->info.num_rows, stride = g->t->info.stride, ahead = g->ahead;
    const uint64_t row_bytes = g->t->info.row_bytes, out_bytes = g->out_bytes;
    const uint8_t *slots = (const uint8_t *)g->t->header + AE_TABLE_HEADER;
    const volatile int64_t *ids = g->ids;
    uint8_t *scratch = g->scratch ? g->scratch + worker * row_bytes : NULL;
    const bool checked = g->checked;
    copies c = {.n = 0};
    uint8_t *out = g->out + begin * out_bytes;
    if (!go_on_reading_slots(g, end - begin))
        return;
    for (uint64_t i = begin; i < end + ahead; i++) {
        const uint64_t next = i < end ? (uint64_t)ids[i] : 0;
        if (i < end && next < num_rows)
            ae_slot_prefetch((const ae_slot *)(const void *)(slots + next * stride), AE_SLOT_HEAD + row_bytes,
                             false);
        if (i < begin + ahead)
            continue;
        const uint64_t row = (uint64_t)ids[i - ahead];
        const ae_slot *slot = (const ae_slot *)(const void *)(slots + row * stride);
        if (scratch || row >= num_rows || !read_at_once(slot, out, row_bytes, &c)) {
            read_any(g, i - ahead, row, scratch);
        } else if (checked) {
            c.rows[c.n] = row;
            c.places[c.n] = i - ahead;
            c.data[c.n] = out;
            if (++c.n == AE_SLOT_SUMS)
                compare_sums(g, &c);
        }
        out += out_bytes;
    }
    compare_sums(g, &c);
}

static int report_bad_slot(const gathering *g, aether_error *err) {
    for (int found = READ; found <= DAMAGED; found++) {
        const uint64_t at = atomic_load(&g->bad[found]);
        if (at == NONE)
            continue;
        return refuse(g->t, found, at, g->ids[at], err);
    }
    return AETHER_OK;
}

static int run_slot_gathering(gathering *g, aether_error *err) {
    const uint64_t row_work = ae_max_u64(g->t->info.stride, g->out_bytes);
    const uint64_t most = ae_pool_threads(0);
    const uint32_t threads =
        (uint32_t)ae_max_u64(ae_min_u64(g->n / ae_max_u64(THREAD_WORK / row_work, 1), most), 1);
    g->chunk_ids = ae_max_u64(CHUNK_WORK / row_work, 1);
    g->ahead = ae_min_u64(ae_max_u64(AHEAD_BYTES / g->t->info.stride, 2), AHEAD_MAX);
    if (g->convert || g->t->info.flags & AETHER_TABLE_SCALED) {
        g->scratch = calloc(threads, g->t->info.row_bytes);
        if (!g->scratch)
            return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory converting rows");
    }
    for (int found = READ; found <= DAMAGED; found++)
        atomic_init(&g->bad[found], NONE);
    ae_task_begin(g->task, g->n);
    ae_pool_run(gather_slot_chunk, g, (g->n - 1) / g->chunk_ids + 1, threads);
    free(g->scratch);
    if (atomic_load(&g->cancelled))
        return ae_error_set(err, AETHER_E_CANCELLED, "gathering was cancelled");
    const int rc = aether_table_check(g->t, err); /* zeros of a file that was cut look like missing rows */
    return rc ? rc : report_bad_slot(g, err);
}

static int check_gathering(gathering *g, const aether_table_gather_options *o, uint64_t out_size,
                           aether_error *err) {
    const aether_table_info *info = &g->t->info;
    const uint32_t dtype = info->flags & AETHER_TABLE_SCALED ? AETHER_F32 : info->dtype;
    g->out_dtype = o && o->dtype ? o->dtype : dtype;
    g->missing = o ? o->missing : AETHER_MISSING_ERROR;
    g->checked = o && o->flags & AETHER_TABLE_CHECK;
    int rc = ae_gather_types(dtype, 8, g->out_dtype, &g->convert, err);
    if (rc)
        return rc;
    if (g->convert && info->flags & AETHER_TABLE_SCALED)
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "scaled rows are gathered as float32, not as %s",
                            ae_dtype_name(g->out_dtype));
    const bool is_float = g->out_dtype == AETHER_F16 || g->out_dtype == AETHER_BF16 ||
                          g->out_dtype == AETHER_F32 || g->out_dtype == AETHER_F64;
    if (g->missing > AETHER_MISSING_NAN || (g->missing == AETHER_MISSING_NAN && !is_float))
        return ae_error_set(err, AETHER_E_INVALID, "missing = %u with rows of %s", g->missing,
                            ae_dtype_name(g->out_dtype));
    g->out_bytes = info->row_items * aether_dtype_size(g->out_dtype);
    rc = ae_gather_room(g->n, g->out_bytes, out_size, err);
    if (!rc && g->n && (!g->ids || !g->out))
        rc = ae_error_set(err, AETHER_E_INVALID, "ids and out are needed");
    return rc;
}

int aether_table_gather(const aether_table *t, const int64_t *ids, uint64_t n, void *out, uint64_t out_size,
                        const aether_table_gather_options *options, aether_task *task, aether_error *err) {
    gathering g = {.t = t, .ids = ids, .n = n, .out = out, .task = task};
    const int rc = check_gathering(&g, options, out_size, err);
    return rc || !n ? rc : run_slot_gathering(&g, err);
}

/* ---- versions -------------------------------------------------------------------------------- */

/* Set *version to that of a row, -1 if it was never written; return what the row was found to be. */
static int read_version(const aether_table *t, uint64_t row, aether_task *task, int64_t *version) {
    const ae_slot *slot = ae_table_slot(t, row);
    waiting w = {0};
    int found;
    do {
        const uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
        const uint64_t its_own = atomic_load_explicit(&slot->version, memory_order_relaxed);
        AE_SLOT_FENCE(memory_order_acquire);
        if (seq % 2 == 0 && atomic_load_explicit(&slot->seq, memory_order_relaxed) == seq) {
            *version = seq ? (int64_t)its_own : -1;
            return READ;
        }
        found = wait_for_writer(t, row, slot, task, &w);
    } while (found == AGAIN);
    return found;
}

int aether_table_versions(const aether_table *t, const int64_t *ids, uint64_t n, int64_t *versions,
                          aether_task *task, aether_error *err) {
    if (n && (!ids || !versions))
        return ae_error_set(err, AETHER_E_INVALID, "ids and versions are needed");
    int rc = AETHER_OK;
    ae_task_begin(task, n);
    for (uint64_t i = 0; !rc && i < n; i++) {
        const uint64_t row = (uint64_t)((const volatile int64_t *)ids)[i];
        if (row >= t->info.num_rows)
            return refuse(t, READ, i, (int64_t)row, err);
        if (i % AE_TASK_ITEMS == 0) {
            ae_task_add(task, ae_min_u64(AE_TASK_ITEMS, n - i));
            rc = ae_task_check(task, "reading versions", err);
        }
        const int found = rc ? READ : read_version(t, row, task, &versions[i]);
        if (found == LEFT)
            rc = ae_task_check(task, "reading versions", err);
        else if (found != READ)
            rc = refuse(t, found, i, (int64_t)row, err);
    }
    if (rc == AETHER_E_CANCELLED)
        return rc;
    const int cut = aether_table_check(t, err);
    return cut ? cut : rc;
}
