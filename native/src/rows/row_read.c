/*
 * Coalesces sorted row requests into reads; delivers completed reads to output rows and to the
 * cache.
 *
 *   workspace  [wanted][other]  [segment 0: requests | firsts | data] [segment 1: ...] ...
 *
 * A segment is one batch of the thread's queue. Its data area takes runs one after the
 * other, each aligned; a run that is read straight into out takes no room there.
 */
#include <string.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/task.h"
#include "io/range.h"
#include "io/read.h"
#include "rows/row_file.h"

#define ALIGN       AE_IO_PAGE /* of data areas */
#define PUT_AT_ONCE 64u

typedef struct segment {
    ae_io_batch batch;
    aether_io_request *requests;
    uint32_t *firsts; /* run i serves wanted[firsts[i] .. firsts[i + 1]) */
    uint8_t *data;
    uint64_t used;
} segment;

typedef struct flow {
    ae_row_job *job;
    ae_io_queue *queue;
    segment segments[AE_ROW_SEGMENTS];
    uint64_t next; /* wanted[0 .. next) is under way */
    uint32_t in_flight;
    int rc;
    aether_error error;
} flow;

/* ---- a workspace's memory ---------------------------------------------------------------- */

static uint64_t align_up(uint64_t n, uint64_t alignment) {
    return (n + alignment - 1) & ~(alignment - 1);
}

static uint64_t lists_bytes(void) {
    return align_up(AE_ROW_READS * sizeof(aether_io_request) + (AE_ROW_READS + 1) * sizeof(uint32_t), ALIGN);
}

/* Room for one frame behind the data: the last frame may be shorter in the file, but is copied
 * whole. */
static uint64_t segment_bytes(uint64_t data, uint64_t frame_bytes) {
    return lists_bytes() + align_up(data + frame_bytes, ALIGN);
}

static uint64_t wanted_bytes(uint64_t block) {
    return align_up(2 * block * sizeof(uint64_t), ALIGN);
}

uint64_t ae_row_workspace_bytes(uint64_t block, uint64_t data, uint32_t segments, uint64_t frame_bytes) {
    return wanted_bytes(block) + segments * segment_bytes(data, frame_bytes);
}

uint64_t *ae_row_workspace_wanted(const ae_row_workspace *w) {
    return (uint64_t *)(void *)w->memory;
}

static void lay_out_segments(flow *w) {
    const aether_row_file *f = w->job->file;
    uint64_t size = segment_bytes(f->plan.segment, f->frame_bytes);
    uint8_t *at = w->job->workspace->memory + wanted_bytes(f->plan.block);
    for (uint32_t i = 0; i < f->plan.segments; i++, at += size) {
        segment *s = &w->segments[i];
        s->requests = (aether_io_request *)(void *)at;
        s->firsts = (uint32_t *)(void *)(at + AE_ROW_READS * sizeof *s->requests);
        s->data = at + lists_bytes();
    }
}

/* ---- cutting ----------------------------------------------------------------------------- */

static uint64_t item_of(const ae_row_job *j, uint64_t i) {
    return j->wanted[i] >> AE_ROW_PLACE;
}

static uint64_t wanted_place(const ae_row_job *j, uint64_t i) {
    return j->wanted[i] & ((1u << AE_ROW_PLACE) - 1);
}

static uint64_t frame_of(const ae_row_job *j, uint64_t i) {
    return item_of(j, i) / j->group;
}

static uint64_t frame_begin(const aether_row_file *f, uint64_t frame) {
    return f->offset + frame * f->frame_bytes;
}

static uint64_t frame_end(const aether_row_file *f, uint64_t frame) {
    return ae_min_u64(frame_begin(f, frame + 1), f->offset + f->num_rows * f->row_bytes);
}

typedef struct run {
    uint64_t begin, end; /* bytes of the file to read */
    uint64_t last;       /* the run serves wanted[first .. last) */
} run;

static ae_io_range range_of(const aether_row_file *f, const run *r) {
    ae_io_range range = ae_io_align(r->begin, r->end - r->begin, f->io->alignment);
    range.size = ae_min_u64(range.size, f->io->size - range.offset);
    return range;
}

/* Return the longest run from wanted[first] on that fits a segment. */
static run cut_run(const ae_row_job *j, uint64_t first) {
    const aether_row_file *f = j->file;
    uint64_t frame = frame_of(j, first);
    run r = {frame_begin(f, frame), frame_end(f, frame), first + 1};
    for (; r.last < j->num_wanted; r.last++) {
        frame = frame_of(j, r.last);
        if (frame_begin(f, frame) > r.end + AE_ROW_GAP)
            break;
        run longer = {r.begin, frame_end(f, frame), r.last};
        if (range_of(f, &longer).size > f->plan.segment)
            break;
        r.end = longer.end;
    }
    return r;
}

/* A run can be read straight into out if its rows are consecutive there, unconverted and
 * aligned. */
static bool is_straight(const ae_row_job *j, uint64_t first, const run *r) {
    const aether_io *io = j->file->io;
    if (j->convert || j->group != 1 || r->end - r->begin != (r->last - first) * j->item_bytes)
        return false;
    uint8_t *target = j->out + wanted_place(j, first) * j->out_bytes;
    if (!ae_io_is_aligned(r->begin, io->alignment) || !ae_io_is_aligned(r->end, io->alignment) ||
        !ae_io_is_aligned((uintptr_t)target, io->memory_alignment))
        return false;
    for (uint64_t i = first + 1; i < r->last; i++)
        if (j->wanted[i] - j->wanted[i - 1] != (UINT64_C(1) << AE_ROW_PLACE) + 1)
            return false;
    return true;
}

/* Add a run; false: no room. */
static bool add_run(flow *w, segment *s) {
    ae_row_job *j = w->job;
    run r = cut_run(j, w->next);
    aether_io_request *q = &s->requests[s->batch.num_requests];
    if (is_straight(j, w->next, &r)) {
        *q = (aether_io_request){r.begin, r.end - r.begin, j->out + wanted_place(j, w->next) * j->out_bytes};
        atomic_fetch_add_explicit(&j->file->stats.direct, r.last - w->next, memory_order_relaxed);
    } else {
        ae_io_range range = range_of(j->file, &r);
        if (s->used + range.size > j->file->plan.segment)
            return false;
        *q = (aether_io_request){range.offset, range.size, s->data + s->used};
        s->used += align_up(range.size, ae_max_u64(j->file->io->memory_alignment, sizeof(uint64_t)));
    }
    w->next = r.last;
    s->firsts[++s->batch.num_requests] = (uint32_t)r.last;
    return true;
}

static void fail_flow(flow *w, int rc, const aether_error *error) {
    if (w->rc && w->error.position <= error->position)
        return;
    w->rc = rc;
    w->error = *error;
}

static void begin_segment_read(flow *w, segment *s) {
    ae_row_job *j = w->job;
    aether_error error;
    if (w->next == j->num_wanted || w->rc)
        return;
    s->batch = (ae_io_batch){.io = j->file->io, .requests = s->requests, .user = s};
    s->used = 0;
    s->firsts[0] = (uint32_t)w->next;
    while (w->next < j->num_wanted && s->batch.num_requests < AE_ROW_READS && add_run(w, s))
        ;
    int rc = ae_io_submit(w->queue, &s->batch, &error);
    if (rc) {
        fail_flow(w, rc, &error);
        return;
    }
    atomic_fetch_add_explicit(&j->file->stats.reads, s->batch.num_requests, memory_order_relaxed);
    w->in_flight++;
}

/* ---- delivering ----------------------------------------------------------------------------- */

typedef struct frame_queue {
    uint64_t keys[PUT_AT_ONCE];
    const void *frames[PUT_AT_ONCE];
    uint32_t into[PUT_AT_ONCE]; /* frames of a loan */
    uint64_t n;
} frame_queue;

static void put_frames(ae_row_job *j, frame_queue *p) {
    if (j->loan)
        ae_cache_loan_put(j->loan, p->keys, p->into, p->frames, p->n, j->time);
    else if (j->keep)
        ae_cache_put(j->file->cache, p->keys, p->frames, p->n);
    p->n = 0;
}

/* Count a frame that was read, and queue it for the cache or the loan. */
static void note_frame(ae_row_job *j, frame_queue *p, uint64_t frame, const void *data, uint64_t place) {
    atomic_fetch_add_explicit(&j->file->stats.frames, 1, memory_order_relaxed);
    if (j->loan && j->steps[place].what != AE_STEP_KEPT)
        return;
    if (p->n == PUT_AT_ONCE)
        put_frames(j, p);
    p->into[p->n] = j->loan ? j->steps[place].value : 0;
    p->keys[p->n] = frame;
    p->frames[p->n++] = data;
}

static void give(const ae_row_job *j, uint64_t i, const uint8_t *data) {
    uint8_t *out = j->out + wanted_place(j, i) * j->out_bytes;
    if (out == data)
        return; /* read straight into out */
    if (j->convert)
        j->convert(out, data, j->items);
    else
        memcpy(out, data, j->item_bytes);
}

static void deliver_run(ae_row_job *j, const aether_io_request *q, uint64_t first, uint64_t last,
                        frame_queue *p) {
    const aether_row_file *f = j->file;
    for (uint64_t i = first, frame; i < last; i++) {
        frame = frame_of(j, i);
        const uint8_t *data = (const uint8_t *)q->buffer + (frame_begin(f, frame) - q->offset);
        if (i == first || frame_of(j, i - 1) != frame)
            note_frame(j, p, frame, data, wanted_place(j, i));
        give(j, i, data + item_of(j, i) % j->group * j->item_bytes);
    }
}

static void deliver(flow *w, segment *s) {
    frame_queue p = {.n = 0};
    for (uint64_t i = 0; i < s->batch.num_requests; i++)
        deliver_run(w->job, &s->requests[i], s->firsts[i], s->firsts[i + 1], &p);
    put_frames(w->job, &p);
    ae_task_add(w->job->task, s->firsts[s->batch.num_requests] - s->firsts[0]);
}

/* ---- the flow ----------------------------------------------------------------------------------- */

static void check_cancel(flow *w) {
    if (w->rc || !ae_task_cancelled(w->job->task))
        return;
    ae_error_clear(&w->error);
    w->rc = ae_error_set(&w->error, AETHER_E_CANCELLED, "gathering from '%s' was cancelled",
                         w->job->file->io->path);
}

int ae_row_read(ae_row_job *job, aether_error *err) {
    flow w = {.job = job};
    if (job->num_wanted == 0)
        return AETHER_OK;
    int rc = ae_io_take_queue(job->file->io, &w.queue, err);
    if (rc)
        return rc;
    lay_out_segments(&w);
    check_cancel(&w);
    for (uint32_t i = 0; i < job->file->plan.segments; i++)
        begin_segment_read(&w, &w.segments[i]);
    for (ae_io_batch *batch; w.in_flight && (batch = ae_io_reap(w.queue, true));) {
        segment *s = batch->user;
        w.in_flight--;
        if (batch->rc)
            fail_flow(&w, batch->rc, &batch->error);
        else if (!w.rc)
            deliver(&w, s);
        check_cancel(&w);
        begin_segment_read(&w, s);
    }
    ae_io_give_back_queue(w.queue);
    if (w.rc && err)
        *err = w.error;
    return w.rc;
}
