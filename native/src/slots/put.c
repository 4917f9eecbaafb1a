/*
 * Writing rows. A call goes through its rows in groups of AE_SLOT_SUMS: their checksums are begun together
 * and the lines of the next group's slots are asked for, then each row is written under the lock of its
 * shard.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/task.h"
#include "os/process.h"
#include "slots/shard.h"
#include "slots/sum.h"
#include "slots/table.h"

enum { AHEAD = 8, LOOK = 4096 }; /* rows: between writing and prefetching; between two looks at the task */

typedef struct putting {
    aether_table *t;
    const int64_t *ids;
    const uint8_t *rows;
    const int64_t *versions; /* NULL: by the clock */
    uint64_t n, now, written;
} putting;

/* ---- one row ------------------------------------------------------------------------- */

static void store_data(ae_slot *slot, const uint8_t *data, uint64_t row_bytes) {
    uint8_t *to = (uint8_t *)slot->data;
    ae_wide word;
    uint64_t i = 0;
    for (; i + AE_SLOT_WIDE <= row_bytes; i += AE_SLOT_WIDE) {
        memcpy(&word, data + i, AE_SLOT_WIDE);
        ae_wide_store(to + i, word);
    }
    if (i < row_bytes) {
        word = (ae_wide){0};
        memcpy(&word, data + i, row_bytes - i);
        ae_wide_store(to + i, word);
    }
}

/* Return the version that a row gets. A time never goes back, whatever the clock does, and a count stays at
 * the largest number: readers take versions for signed ones. */
static uint64_t next_version(const putting *p, uint64_t i, uint64_t before) {
    if (p->versions)
        return (uint64_t)p->versions[i];
    return p->now ? ae_max_u64(p->now, before) : ae_min_u64(before + 1, INT64_MAX);
}

/* Write a row, unless it has a newer version; its shard is locked. A seq that is odd here is a dead
 * writer's: readers wait for none of its stores. A row stays odd of which stores may be lost: others could
 * read what lay there before. */
static bool write_row(const putting *p, uint64_t i, uint64_t row, ae_shard *shard, uint32_t sum) {
    ae_slot *slot = ae_table_slot_writable(p->t, row);
    const uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed);
    const uint64_t before = seq % 2 ? 0 : atomic_load_explicit(&slot->version, memory_order_relaxed);
    const uint64_t version = next_version(p, i, before);
    if (version < before)
        return false;
    const uint32_t odd = seq | 1, even = odd + 1 ? odd + 1 : 2;
    const uint8_t *data = p->rows + i * p->t->info.row_bytes;
    atomic_store_explicit(&shard->row, row, memory_order_relaxed);
    atomic_store_explicit(&slot->seq, odd, memory_order_release);
    AE_SLOT_FENCE(memory_order_release);
    store_data(slot, data, p->t->info.row_bytes);
    atomic_store_explicit(&slot->version, version, memory_order_relaxed);
    atomic_store_explicit(&slot->sum, ae_slot_sum_end(sum, version, even), memory_order_relaxed);
    if (ae_table_lost_stores(p->t))
        return false;
    atomic_store_explicit(&slot->seq, even, memory_order_release);
    return true;
}

/* ---- many ------------------------------------------------------------------------------ */

static inline __attribute__((always_inline)) void prefetch_slot(const putting *p, uint64_t i) {
    if (i < p->n)
        ae_slot_prefetch(ae_table_slot_writable(p->t, (uint64_t)p->ids[i]), p->t->info.stride, true);
}

/* Say that a living process keeps others from a row. */
static int refuse_busy(const putting *p, uint64_t at, const ae_shard *shard, aether_error *err) {
    const uint32_t pid = ae_process_pid(atomic_load_explicit(&shard->owner, memory_order_relaxed));
    return ae_error_at(err, AETHER_E_TORN, (int64_t)at, p->ids[at],
                       "row %" PRId64 " (ids[%" PRIu64 "]) of '%s' could not be written for %d s: process "
                       "%" PRIu32
                       " has the lock of its shard, and lives (stopped, say): let it go on, or end "
                       "it",
                       p->ids[at], at, p->t->name, AE_SHARD_PATIENCE, pid);
}

static int write_group(putting *p, uint64_t begin, uint32_t count, aether_task *task, aether_error *err) {
    uint64_t rows[AE_SLOT_SUMS];
    const uint8_t *data[AE_SLOT_SUMS];
    uint32_t sums[AE_SLOT_SUMS];
    for (uint32_t k = 0; k < count; k++) {
        prefetch_slot(p, begin + k + AHEAD);
        rows[k] = (uint64_t)p->ids[begin + k];
        data[k] = p->rows + (begin + k) * p->t->info.row_bytes;
    }
    ae_slot_sums_begin(rows, data, count, p->t->info.row_bytes, sums);
    ae_table_header *header = (ae_table_header *)(void *)p->t->writable;
    for (uint32_t k = 0; k < count; k++) {
        if (rows[k] >= p->t->info.num_rows)
            continue; /* the caller has changed its ids since they were checked */
        ae_table_take_huge(p->t, rows[k]);
        ae_shard *shard = &header->shards[ae_shard_of(rows[k])];
        const int rc = ae_shard_lock(shard, task);
        if (rc)
            return rc == AETHER_E_TORN ? refuse_busy(p, begin + k, shard, err) : rc;
        p->written += write_row(p, begin + k, rows[k], shard, sums[k]);
        ae_shard_unlock(shard);
        if (ae_table_lost_stores(p->t))
            break; /* so that no more rows are left torn */
    }
    return AETHER_OK;
}

static int write_all(putting *p, aether_task *task, aether_error *err) {
    ae_task_begin(task, p->n);
    for (uint64_t i = 0; i < AHEAD; i++)
        prefetch_slot(p, i);
    for (uint64_t i = 0; i < p->n; i += AE_SLOT_SUMS) {
        const uint32_t count = (uint32_t)ae_min_u64(AE_SLOT_SUMS, p->n - i);
        const int rc = write_group(p, i, count, task, err);
        if (rc == AETHER_E_TORN)
            return rc;
        const bool stop = rc || (i % LOOK == 0 && i && ae_task_cancelled(task));
        ae_task_add(task, count);
        if (stop)
            return ae_error_set(err, AETHER_E_CANCELLED, "writing rows was cancelled");
        /* In which row nobody knows: the last store of one may be lost, too. */
        if (ae_table_lost_stores(p->t))
            return ae_table_check_stores(p->t, p->ids, i, err);
    }
    return AETHER_OK;
}

static uint64_t ticks_now(uint64_t tick) {
    struct timespec t;
    if (!tick)
        return 0;
    clock_gettime(CLOCK_REALTIME, &t);
    return ae_max_u64(((uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec) / tick, 1);
}

static int check_put(const putting *p, uint64_t size, aether_error *err) {
    uint64_t needed;
    if (!p->t->writable)
        return ae_error_set(err, AETHER_E_INVALID, "'%s' is open for reading only: open it for writing",
                            p->t->name);
    if (p->n && (!p->ids || !p->rows))
        return ae_error_set(err, AETHER_E_INVALID, "ids and rows are needed");
    if (__builtin_mul_overflow(p->n, p->t->info.row_bytes, &needed) || needed != size)
        return ae_error_set(err, AETHER_E_INVALID,
                            "%" PRIu64 " rows of %" PRIu64 " bytes are not the %" PRIu64 " bytes given", p->n,
                            p->t->info.row_bytes, size);
    for (uint64_t i = 0; p->versions && i < p->n; i++)
        if (p->versions[i] < 0)
            return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, p->versions[i],
                               "versions[%" PRIu64 "] = %" PRId64 " is negative", i, p->versions[i]);
    return ae_table_refuse_ids(p->t, p->ids, p->n, err);
}

int aether_table_put(aether_table *t, const int64_t *ids, uint64_t n, const void *rows, uint64_t size,
                     const int64_t *versions, uint64_t *written, aether_task *task, aether_error *err) {
    putting p = {.t = t, .ids = ids, .rows = rows, .versions = versions, .n = n};
    *written = 0;
    int rc = check_put(&p, size, err);
    if (rc || !n)
        return rc;
    rc = ae_table_check_stores(t, ids, 0, err);
    if (rc)
        return rc;
    p.now = ticks_now(t->info.tick);
    rc = write_all(&p, task, err);
    *written = p.written;
    return rc;
}
