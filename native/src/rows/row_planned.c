/* Gathers that are known ahead: a schedule decides what the cache keeps (cache/schedule.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/options.h"
#include "core/task.h"
#include "rows/row_file.h"

#define AHEAD 8u /* rows between fetching one from the cache and copying it */
#define LINE  64u

struct aether_row_plan {
    aether_row_file *file;
    ae_cache_loan loan;
    const uint64_t *ids; /* borrowed */
    ae_cache_step *steps;
    uint64_t *ends;
    uint64_t num_lists, next;
    uint64_t reads; /* frames that will be read */
    bool failed;
};

/* ---- planning ------------------------------------------------------------------------ */

static int check_planned_lists(const aether_row_file *f, const uint64_t *ids, const uint64_t *ends,
                               uint64_t lists, aether_error *err) {
    for (uint64_t i = 1; i < lists; i++)
        if (ends[i] < ends[i - 1])
            return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, (int64_t)ends[i],
                               "list %" PRIu64 " ends before it begins", i);
    uint64_t n = lists ? ends[lists - 1] : 0;
    if (n >= AE_CACHE_POSITIONS)
        return ae_error_at(err, AETHER_E_LIMIT, 0, (int64_t)n,
                           "%" PRIu64 " rows are more than can be planned at once: at most %" PRIu64, n,
                           AE_CACHE_POSITIONS - 1);
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] >= f->num_rows)
            return ae_row_bad_id(f, i, ids[i], err);
    return AETHER_OK;
}

static unsigned bits_of(uint64_t n) {
    return n < 2 ? 1 : 64 - (unsigned)__builtin_clzll(n - 1);
}

/* Write the frames of all ids, each with its position, sorted, to the first half of `memory`. */
static int sort_frames(const aether_row_plan *p, uint64_t n, uint64_t *memory, ae_cache_wishes *w,
                       aether_error *err) {
    uint64_t frames = (p->file->num_rows - 1) / p->file->group + 1;
    *w = (ae_cache_wishes){memory, n, bits_of(n), p->ends, p->num_lists};
    if (w->shift + bits_of(frames) > 64)
        return ae_error_at(err, AETHER_E_LIMIT, 0, (int64_t)n,
                           "%" PRIu64 " rows of a table of %" PRIu64 " are more than can be planned at once",
                           n, p->file->num_rows);
    for (uint64_t i = 0; i < n; i++)
        memory[i] = p->ids[i] / p->file->group << w->shift | i;
    ae_row_sort(memory, memory + n, n, w->shift, frames);
    return AETHER_OK;
}

static int decide_steps(aether_row_plan *p, uint64_t n, aether_error *err) {
    ae_cache_wishes w;
    uint64_t *memory = malloc((2 * n + 1) * sizeof *memory);
    if (!memory)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory planning %" PRIu64 " rows", n);
    int rc = sort_frames(p, n, memory, &w, err);
    rc = rc ? rc : ae_cache_schedule(&p->loan, &w, p->steps, &p->reads, err);
    free(memory);
    return rc;
}

static int make_row_plan(aether_row_plan *p, const uint64_t *ends, aether_error *err) {
    uint64_t n = p->num_lists ? ends[p->num_lists - 1] : 0;
    p->ends = malloc((p->num_lists + 1) * sizeof *p->ends);
    p->steps = malloc((n + 1) * sizeof *p->steps);
    if (!p->ends || !p->steps)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory planning %" PRIu64 " rows", n);
    memcpy(p->ends, ends, p->num_lists * sizeof *p->ends);
    int rc = ae_cache_loan_begin(p->file->cache, &p->loan, err);
    return rc ? rc : decide_steps(p, n, err);
}

int aether_row_plan_create(aether_row_file *f, const uint64_t *ids, const uint64_t *ends, uint64_t num_lists,
                           aether_row_plan **out, aether_error *err) {
    *out = NULL;
    if (num_lists && (!ends || (ends[num_lists - 1] && !ids)))
        return ae_error_set(err, AETHER_E_INVALID, "ids and ends are needed");
    int rc = check_planned_lists(f, ids, ends, num_lists, err);
    if (rc)
        return rc;
    aether_row_plan *p = calloc(1, sizeof *p);
    if (!p)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory planning");
    p->file = f;
    atomic_fetch_add(&f->users, 1);
    p->ids = ids;
    p->num_lists = num_lists;
    rc = make_row_plan(p, ends, err);
    if (rc)
        aether_row_plan_destroy(p);
    else
        *out = p;
    return rc;
}

void aether_row_plan_destroy(aether_row_plan *p) {
    if (!p)
        return;
    ae_cache_loan_end(&p->loan);
    aether_row_close(p->file);
    free(p->steps);
    free(p->ends);
    free(p);
}

/* ---- gathering -------------------------------------------------------------------------- */

typedef struct range {
    uint64_t begin, n; /* positions of a list */
} range;

static range list_range(const aether_row_plan *p, uint64_t list) {
    uint64_t begin = list ? p->ends[list - 1] : 0;
    return (range){begin, p->ends[list] - begin};
}

/* Return the row of a position whose frame is in the cache, or NULL. */
static const uint8_t *found_at(const aether_row_plan *p, uint64_t position) {
    const ae_cache_step *s = &p->steps[position];
    if (s->what != AE_STEP_FOUND)
        return NULL;
    const uint8_t *frame = ae_cache_loan_frame(&p->loan, s->value);
    return frame + p->ids[position] % p->file->group * p->file->row_bytes;
}

/* Runs before any frame is kept: that may overwrite a frame that is found here. */
static void copy_found(aether_row_plan *p, const ae_row_job *j, range r) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < r.n; i++) {
        const uint8_t *later = i + AHEAD < r.n ? found_at(p, r.begin + i + AHEAD) : NULL;
        for (uint64_t at = 0; later && at < ae_min_u64(j->item_bytes, 8 * LINE); at += LINE)
            __builtin_prefetch(later + at, 0, 2);
        const uint8_t *row = found_at(p, r.begin + i);
        if (!row)
            continue;
        ae_row_copy(j, i, row);
        ae_cache_loan_use(&p->loan, p->steps[r.begin + i].value, j->time);
        n++;
    }
    ae_task_add(j->task, n);
}

static int read_others(const aether_row_plan *p, ae_row_job *j, range r, aether_error *err) {
    uint8_t *out = j->out;
    int rc = AETHER_OK;
    for (uint64_t i = 0, n; i < r.n && !rc; i += n) {
        n = ae_min_u64(p->file->plan.block, r.n - i);
        j->out = out + i * j->out_bytes;
        j->steps = p->steps + r.begin + i;
        j->num_wanted = 0;
        for (uint64_t k = 0; k < n; k++)
            if (j->steps[k].what != AE_STEP_FOUND)
                j->wanted[j->num_wanted++] = p->ids[r.begin + i + k] << AE_ROW_PLACE | k;
        rc = ae_task_cancelled(j->task) ? ae_error_set(err, AETHER_E_CANCELLED, "gathering was cancelled")
                                        : ae_row_read_block(j, n, err);
    }
    return rc;
}

int aether_row_plan_gather(aether_row_plan *p, void *out, uint64_t out_size, uint32_t out_dtype,
                           aether_task *task, aether_error *err) {
    if (p->failed)
        return ae_error_set(err, AETHER_E_INVALID, "a gather of this plan has failed: make another plan");
    if (p->next == p->num_lists)
        return ae_error_set(err, AETHER_E_INVALID, "all %" PRIu64 " lists of this plan have been gathered",
                            p->num_lists);
    if (ae_cache_loan_inherited(&p->loan))
        return ae_error_set(err, AETHER_E_INVALID,
                            "a plan belongs to the process that made it: make another one in this process");
    ae_row_job j;
    range r = list_range(p, p->next);
    int rc = ae_row_begin(p->file,
                          AE_SIZED(aether_row_request, p->ids, r.n, out, out_size, sizeof *p->ids, out_dtype),
                          task, &j, err);
    if (rc)
        return rc;
    j.loan = &p->loan;
    j.time = (uint32_t)p->next;
    copy_found(p, &j, r);
    rc = ae_row_end(&j, read_others(p, &j, r, err), err);
    p->failed = rc != AETHER_OK;
    p->next += rc == AETHER_OK;
    return rc;
}

void aether_row_plan_count(const aether_row_plan *p, aether_row_plan_stats *out) {
    uint64_t n = p->num_lists ? p->ends[p->num_lists - 1] : 0, hits = 0;
    for (uint64_t i = 0; i < n; i++)
        hits += p->steps[i].what == AE_STEP_FOUND;
    *out = (aether_row_plan_stats){
        .lists = p->num_lists,
        .next = p->next,
        .rows = n,
        .hits = hits,
        .frames_read = p->reads,
        .frames_lent = p->loan.end - p->loan.first,
        .bytes = n * sizeof *p->steps + p->num_lists * sizeof *p->ends +
                 2 * (uint64_t)(p->loan.end - p->loan.first) * sizeof(uint32_t) + sizeof *p,
    };
}
