/* aether_row_gather: looks blocks of ids up in the cache, and lends workspaces. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/task.h"
#include "rows/gather.h"
#include "rows/row_file.h"

#define AT_ONCE 256u /* ids looked up while the cache is entered */
#define AHEAD   16u  /* ids between fetching a slot of the index and looking at it */
#define LINE    64u
#define LOOK_NS 50000000 /* between two looks at the task of a thread that waits */

/* ---- workspaces --------------------------------------------------------------------------- */

/* A workspace of another process is free here: a thread of the parent had it at the fork. */
static bool claim_workspace(ae_row_workspace *w, int process) {
    int owner = atomic_load_explicit(&w->owner, memory_order_relaxed);
    return owner != process && atomic_compare_exchange_strong_explicit(
                                   &w->owner, &owner, process, memory_order_acquire, memory_order_relaxed);
}

/* Take a free workspace, if there is one. *has: the thread has one already. */
static ae_row_workspace *take_any(aether_row_file *f, bool *has) {
    const uintptr_t thread = (uintptr_t)pthread_self();
    const int process = getpid();
    *has = false;
    for (uint32_t i = 0; i < f->plan.workspaces; i++) {
        ae_row_workspace *w = &f->workspaces[i];
        if (claim_workspace(w, process)) {
            atomic_store_explicit(&w->thread, thread, memory_order_relaxed);
            return w;
        }
        *has |= atomic_load_explicit(&w->thread, memory_order_relaxed) == thread;
    }
    return NULL;
}

static int take_workspace(ae_row_job *j, aether_error *err) {
    static const struct timespec look = {0, LOOK_NS};
    aether_row_file *f = j->file;
    for (bool has;;) {
        unsigned released = atomic_load(&f->released);
        j->workspace = take_any(f, &has);
        if (j->workspace)
            return AETHER_OK;
        if (has) { /* it would wait for itself */
            j->workspace = &j->own;
            j->own.memory = aether_buffer_alloc(ae_row_workspace_memory(f), err);
            return j->own.memory ? AETHER_OK : AETHER_E_NO_MEMORY;
        }
        int rc = ae_task_check(j->task, "gathering", err);
        if (rc)
            return rc;
        syscall(SYS_futex, &f->released, FUTEX_WAIT_PRIVATE, released, &look, NULL, 0);
    }
}

static void give_back(ae_row_job *j) {
    aether_row_file *f = j->file;
    if (j->own.memory) {
        aether_buffer_free(j->own.memory, ae_row_workspace_memory(f));
        return;
    }
    atomic_store_explicit(&j->workspace->thread, 0, memory_order_relaxed);
    atomic_store_explicit(&j->workspace->owner, 0, memory_order_release);
    atomic_fetch_add(&f->released, 1);
    syscall(SYS_futex, &f->released, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- what the cache has ------------------------------------------------------------------ */

typedef struct id_list {
    const void *data;
    uint32_t bytes;
    uint64_t n;
} id_list;

/* Negative ids are large. */
static uint64_t list_id_at(const id_list *list, uint64_t i) {
    return list->bytes == 4 ? ((const uint32_t *)list->data)[i] : ((const uint64_t *)list->data)[i];
}

int ae_row_bad_id(const aether_row_file *f, uint64_t position, uint64_t id, aether_error *err) {
    return ae_error_at(err, AETHER_E_RANGE, (int64_t)position, (int64_t)id,
                       "id %" PRId64 " at position %" PRIu64 " is not in [0, %" PRIu64 ")", (int64_t)id,
                       position, f->num_rows);
}

void ae_row_copy(const ae_row_job *j, uint64_t place, const void *row) {
    uint8_t *out = j->out + place * j->out_bytes;
    if (j->convert)
        j->convert(out, row, j->items);
    else
        memcpy(out, row, j->item_bytes);
}

/* Copy the rows of n checked ids that the cache has; note the others as wanted. */
static void look_up(ae_row_job *j, const uint64_t *rows, uint64_t place, uint64_t n) {
    const uint8_t *found[AT_ONCE];
    ae_cache_reader r;
    ae_cache_enter(j->file->cache, &r);
    for (uint64_t i = 0; i < n && i < AHEAD; i++)
        ae_cache_prefetch(&r, rows[i] / j->group);
    for (uint64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            ae_cache_prefetch(&r, rows[i + AHEAD] / j->group);
        found[i] = ae_cache_find(&r, rows[i] / j->group);
        if (!found[i]) {
            j->wanted[j->num_wanted++] = rows[i] << AE_ROW_PLACE | (place + i);
            continue;
        }
        found[i] += rows[i] % j->group * j->item_bytes;
        for (uint64_t at = 0; at < ae_min_u64(j->item_bytes, 8 * LINE); at += LINE)
            __builtin_prefetch(found[i] + at, 0, 2);
    }
    for (uint64_t i = 0; i < n; i++)
        if (found[i])
            ae_row_copy(j, place + i, found[i]);
    ae_cache_leave(&r);
}

/* Each id is read once: an id that changes meanwhile cannot lead outside. */
static int look_up_block(ae_row_job *j, const id_list *list, uint64_t first, uint64_t n, aether_error *err) {
    uint64_t rows[AT_ONCE];
    j->num_wanted = 0;
    for (uint64_t i = 0, m; i < n; i += m) {
        m = ae_min_u64(AT_ONCE, n - i);
        for (uint64_t k = 0; k < m; k++) {
            rows[k] = list_id_at(list, first + i + k);
            if (rows[k] >= j->file->num_rows)
                return ae_row_bad_id(j->file, first + i + k, rows[k], err);
        }
        look_up(j, rows, i, m);
    }
    return AETHER_OK;
}

/* ---- gathering ------------------------------------------------------------------------------ */

int ae_row_read_block(ae_row_job *j, uint64_t n, aether_error *err) {
    aether_row_file *f = j->file;
    atomic_fetch_add_explicit(&f->stats.rows, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&f->stats.hits, n - j->num_wanted, memory_order_relaxed);
    ae_task_add(j->task, n - j->num_wanted);
    ae_row_sort(j->wanted, j->wanted + f->plan.block, j->num_wanted, AE_ROW_PLACE, f->num_rows);
    return ae_row_read(j, err);
}

static int gather_block(ae_row_job *j, const id_list *list, uint64_t first, uint64_t n, aether_error *err) {
    int rc = look_up_block(j, list, first, n, err);
    return rc ? rc : ae_row_read_block(j, n, err);
}

static int gather_all(ae_row_job *j, const id_list *list, aether_error *err) {
    uint8_t *out = j->out;
    int rc = AETHER_OK;
    for (uint64_t i = 0, n; i < list->n && !rc; i += n) {
        n = ae_min_u64(j->file->plan.block, list->n - i);
        j->out = out + i * j->out_bytes;
        rc = ae_task_cancelled(j->task) ? ae_error_set(err, AETHER_E_CANCELLED, "gathering was cancelled")
                                        : gather_block(j, list, i, n, err);
    }
    return rc;
}

int ae_row_begin(aether_row_file *f, const aether_row_request *request, aether_task *task, ae_row_job *j,
                 aether_error *err) {
    *j = (ae_row_job){.file = f,
                      .item_bytes = f->row_bytes,
                      .group = f->group,
                      .items = f->row_items,
                      .out = request->out,
                      .task = task};
    int rc = ae_gather_types(f->dtype, request->id_bytes, request->out_dtype, &j->convert, err);
    if (rc)
        return rc;
    j->out_bytes = f->row_items * aether_dtype_size(request->out_dtype);
    rc = ae_gather_room(request->n, j->out_bytes, request->out_size, err);
    if (rc)
        return rc;
    ae_task_begin(task, request->n);
    if (request->n && (!request->ids || !request->out))
        return ae_error_set(err, AETHER_E_INVALID, "ids and out are needed");
    rc = take_workspace(j, err);
    if (rc)
        return rc;
    j->wanted = ae_row_workspace_wanted(j->workspace);
    return AETHER_OK;
}

int ae_row_end(ae_row_job *j, int rc, aether_error *err) {
    give_back(j);
    return ae_io_end(j->file->io, rc, err);
}

int aether_row_gather(aether_row_file *f, const aether_row_request *request, aether_task *task,
                      aether_error *err) {
    ae_row_job j;
    int rc = ae_options_check(request, sizeof *request, "aether_row_request", err);
    if (!rc)
        rc = ae_row_begin(f, request, task, &j, err);
    if (rc)
        return rc;
    const id_list list = {request->ids, request->id_bytes, request->n};
    j.keep = true;
    return ae_row_end(&j, gather_all(&j, &list, err), err);
}
