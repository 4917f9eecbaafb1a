#include "topology/paged/windows.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/task.h"
#include "io/file.h"
#include "io/queue.h"
#include "io/read.h"
#include "topology/paged/entries.h"

#define PAGE       ((uint64_t)1 << AE_PAGE_BITS)
#define GAP        (AE_MERGE_GAP / PAGE)
#define LONG       16  /* a run of more pages per read than this is long */
#define AHEAD      16  /* spans to prefetch ahead */
#define PUMP_SPANS 256 /* spans taken apart between two looks at the queue */

typedef struct window {
    ae_io_batch batch;
    aether_io_request *requests;
    ae_run *runs;
    uint64_t *pages; /* pages to read, ascending */
    uint64_t *kept;  /* pages found in the page cache, ascending */
    uint64_t num_runs, num_pages, num_kept, num_data;
    uint64_t begin, end; /* spans */
    uint8_t *data;
    bool busy, finished;
} window;

typedef struct stream {
    const ae_paged *p;
    const ae_fetch *jobs;
    const ae_span *spans;
    uint64_t num_spans, next;
    uint64_t room; /* pages of data in a window */
    ae_staging *staging;
    ae_io_queue *queue;
    ae_hot_pages *hot; /* page cache, or NULL */
    bool learns;       /* the page cache learns from this stream */
    window windows[AE_WINDOWS];
    ae_open_blocks open;
    aether_task *task;
    int rc;
    aether_error *err;
} stream;

/* ---- which pages ---- */

/* Pages of a window while spans are added. Pages before those of the last span are final: spans
 * are sorted by unit. */
typedef struct filling {
    window *w;
    uint64_t cost; /* pages of data for the final pages, gaps included */
    uint64_t base; /* first unit of the last span */
    uint32_t mask; /* bit i: unit base + i is needed */
} filling;

/* Most pages of data that the pending pages and one more span may add. */
#define PENDING (2 * (AE_SPAN_UNITS + GAP))

static void settle_page(filling *f, uint64_t page) {
    window *w = f->w;
    uint64_t gap = w->num_pages ? page - w->pages[w->num_pages - 1] : 1;
    f->cost += gap <= GAP ? gap : 1;
    w->pages[w->num_pages++] = page;
}

static void settle_units(const stream *s, filling *f, uint32_t units) {
    const window *w = f->w;
    for (uint32_t i = 0; i < units; i++)
        if (f->mask >> i & 1) {
            ae_pages pages = ae_entries_pages(s->p, f->base + i);
            if (w->num_pages && w->pages[w->num_pages - 1] == pages.first)
                pages.first++; /* units may share a page */
            for (uint64_t page = pages.first; page <= pages.last; page++)
                settle_page(f, page);
        }
}

static void add_span(const stream *s, filling *f, const ae_span *span) {
    const uint64_t *positions = s->jobs[span->job].positions + span->at;
    const uint64_t moved = span->unit - f->base;
    if (moved) {
        settle_units(s, f, moved < AE_SPAN_UNITS ? (uint32_t)moved : AE_SPAN_UNITS);
        f->mask = moved < AE_SPAN_UNITS ? f->mask >> moved : 0;
        f->base = span->unit;
    }
    for (uint32_t i = 0; i < span->count; i++)
        f->mask |= 1u << (ae_place_unit(s->p->place, positions[i]) - span->unit);
}

static void make_runs(window *w, uint64_t count) {
    w->num_runs = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t page = w->pages[i];
        ae_run *last = w->num_runs ? &w->runs[w->num_runs - 1] : NULL;
        if (last && page - (last->page + last->count) < GAP)
            last->count = page + 1 - last->page;
        else
            w->runs[w->num_runs++] = (ae_run){page, 1, NULL};
    }
}

/* Extend the requests of the runs, from run `at` on, to bytes [begin, end). Pages that are in
 * the page cache are in no run. */
static void need(const window *w, uint64_t at, uint64_t begin, uint64_t end) {
    for (uint64_t page = begin / PAGE; page <= (end - 1) / PAGE; page++) {
        while (at < w->num_runs && w->runs[at].page + w->runs[at].count <= page)
            at++;
        if (at == w->num_runs || page < w->runs[at].page)
            continue;
        aether_io_request *r = &w->requests[at];
        const uint64_t first = ae_max_u64(begin, page * PAGE), last = ae_min_u64(end, (page + 1) * PAGE);
        r->offset = ae_min_u64(r->offset, first);
        r->length = ae_max_u64(r->length, last);
    }
}

/* Find the bytes that the spans need of each run. Until make_requests, a request's `length`
 * holds the end of the range. */
static void find_bytes(const stream *s, window *w) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < w->num_runs; i++)
        w->requests[i] = (aether_io_request){.offset = UINT64_MAX};
    for (uint64_t i = w->begin; i < w->end; i++) {
        const ae_span *span = &s->spans[i];
        const uint64_t *positions = s->jobs[span->job].positions + span->at;
        const uint64_t page = ae_entries_pages(s->p, span->unit).first;
        while (at < w->num_runs && w->runs[at].page + w->runs[at].count <= page)
            at++;
        for (uint32_t j = 0; j < span->count; j++) {
            if (j && ae_entries_together(s->p, positions[j - 1], positions[j]))
                continue;
            const ae_bytes bytes = ae_entries_bytes(s->p, positions[j]);
            need(w, at, bytes.begin, bytes.end);
        }
    }
}

/* Granularity of reads. If the device's sectors are smaller than a page, unneeded sectors at
 * both ends of a run are trimmed; not for long runs, where this saves too little. */
static uint64_t step_of(const stream *s, const window *w) {
    const aether_io *io = s->p->io;
    const uint64_t step = io->alignment > io->memory_alignment ? io->alignment : io->memory_alignment;
    const bool is_long = w->num_pages > LONG * w->num_runs;
    return !is_long && io->direct && step < PAGE ? step : PAGE;
}

/* Trim a run to the bytes that are needed; a page that the page cache wants is read whole. */
static void trim_run(const stream *s, const aether_io_request *need, uint64_t step, uint64_t *begin,
                     uint64_t *end) {
    const uint64_t first = *begin / PAGE, last = *end / PAGE - 1;
    const bool keeps = s->hot && s->learns;
    if (!keeps || !ae_hot_pages_wants(s->hot, first))
        *begin = need->offset & ~(step - 1);
    if (!keeps || !ae_hot_pages_wants(s->hot, last))
        *end = (need->length + step - 1) & ~(step - 1);
}

static void make_requests(const stream *s, window *w) {
    const uint64_t size = s->p->io->size, step = step_of(s, w);
    if (step < PAGE)
        find_bytes(s, w);
    for (uint64_t i = 0; i < w->num_runs; i++) {
        ae_run *r = &w->runs[i];
        uint64_t begin = r->page * PAGE, end = begin + r->count * PAGE;
        if (step < PAGE)
            trim_run(s, &w->requests[i], step, &begin, &end);
        if (end > size) /* the file ends inside its last page */
            end = size;
        uint8_t *data = w->data + w->num_data * PAGE;
        r->data = data;
        w->num_data += r->count;
        w->requests[i] = (aether_io_request){begin, end - begin, data + (begin - r->page * PAGE)};
        s->staging->bytes += end - begin;
    }
    s->staging->reads += w->num_runs;
    w->batch = (ae_io_batch){
        .io = s->p->io, .requests = w->requests, .num_requests = w->num_runs, .task = NULL, .user = w};
}

/* Split the pages of the window: pages in the page cache go to w->kept, missing ones stay in
 * w->pages, each in order. Return how many are missing. */
static uint64_t part_pages(const stream *s, window *w) {
    uint64_t missing = 0, kept = 0;
    for (uint64_t i = 0; s->hot && i < w->num_pages; i++)
        if (ae_hot_pages_find(s->hot, w->pages[i]))
            w->kept[kept++] = w->pages[i];
        else
            w->pages[missing++] = w->pages[i];
    if (!s->hot)
        missing = w->num_pages;
    w->num_pages = missing;
    w->num_kept = kept;
    return missing;
}

static int compare_runs(const void *a, const void *b) {
    const ae_run *x = a, *y = b;
    return x->page < y->page ? -1 : x->page > y->page;
}

/* Add runs for the kept pages that are not in a gap of a read, and sort all runs. */
static void add_kept_runs(const stream *s, window *w) {
    uint64_t reads = w->num_runs, all = reads, at = 0;
    for (uint64_t i = 0; i < w->num_kept; i++) {
        const uint64_t page = w->kept[i];
        while (at < reads && w->runs[at].page + w->runs[at].count <= page)
            at++;
        if (at < reads && w->runs[at].page <= page)
            continue;
        w->runs[all++] = (ae_run){page, 1, ae_hot_pages_find(s->hot, page)};
    }
    w->num_runs = all;
    if (all > reads)
        qsort(w->runs, all, sizeof *w->runs, compare_runs);
}

static void prefetch_spans(const stream *s, uint64_t at) {
    if (at + AHEAD < s->num_spans) {
        const ae_span *span = &s->spans[at + AHEAD];
        __builtin_prefetch(s->jobs[span->job].positions + span->at);
    }
}

/* A span on the last span's page costs no page here, but the next window would read the page
 * again. */
static bool is_free(const stream *s, const filling *f) {
    return s->p->place.narrow && s->spans[s->next].unit == f->base;
}

static int begin_window(stream *s, window *w) {
    filling f = {.w = w, .base = s->spans[s->next].unit};
    w->begin = s->next;
    w->num_pages = w->num_kept = w->num_data = 0;
    while (s->next < s->num_spans && (f.cost + PENDING <= s->room || is_free(s, &f))) {
        prefetch_spans(s, s->next);
        add_span(s, &f, &s->spans[s->next++]);
    }
    w->end = s->next;
    settle_units(s, &f, AE_SPAN_UNITS);
    if (s->hot && s->learns)
        ae_hot_pages_count(s->hot, w->pages, w->num_pages);
    make_runs(w, part_pages(s, w));
    make_requests(s, w);
    if (w->num_kept)
        add_kept_runs(s, w);
    w->busy = true;
    w->finished = w->batch.num_requests == 0; /* every page was in the page cache */
    return w->finished ? AETHER_OK : ae_io_submit(s->queue, &w->batch, s->err);
}

/* ---- taking a window apart ---- */

/* Lets other windows' reads go on while one is taken apart. */
static void pump(const stream *s) {
    ae_io_batch *batch = ae_io_reap(s->queue, false);
    if (batch)
        ((window *)batch->user)->finished = true;
}

/* Only pages that were asked for are offered, and only if they were read whole: gaps and trimmed
 * pages are not. */
static void offer_pages(const stream *s, const window *w) {
    const aether_io_request *r = w->requests;
    for (uint64_t i = 0; s->hot && s->learns && i < w->num_pages; i++) {
        const uint64_t begin = w->pages[i] * PAGE;
        while (r->offset + r->length <= begin)
            r++;
        if (r->offset <= begin && begin + PAGE <= r->offset + r->length)
            ae_hot_pages_offer(s->hot, w->pages[i], (const uint8_t *)r->buffer + (begin - r->offset));
    }
}

static int take_apart(stream *s, window *w) {
    const ae_run *r = w->runs;
    uint64_t edges = 0;
    if (w->batch.rc) {
        if (s->err)
            *s->err = w->batch.error;
        return w->batch.rc;
    }
    ae_entries_close(&s->open);
    for (uint64_t i = w->begin; i < w->end; i++) {
        const ae_span *span = &s->spans[i];
        const uint64_t page = ae_entries_pages(s->p, span->unit).first;
        while (r->page + r->count <= page)
            r++;
        if (i + AHEAD < w->end) {
            const ae_span *ahead = &s->spans[i + AHEAD];
            const ae_fetch *job = &s->jobs[ahead->job];
            __builtin_prefetch((char *)job->ids + ahead->at * s->p->arrays.base.id_bytes, 1);
            __builtin_prefetch(job->positions + ahead->at);
        }
        const int rc = ae_entries_take(s->p, &s->jobs[span->job], span, r, &s->open, s->err);
        if (rc)
            return rc;
        edges += span->count;
        if ((i - w->begin) % PUMP_SPANS == PUMP_SPANS - 1)
            pump(s);
    }
    ae_task_add(s->task, edges);
    offer_pages(s, w);
    return AETHER_OK;
}

/* ---- the stream ---- */

static window *find_window(stream *s, bool busy, bool finished) {
    for (uint32_t i = 0; i < AE_WINDOWS; i++)
        if (s->windows[i].busy == busy && s->windows[i].finished == finished)
            return &s->windows[i];
    return NULL;
}

/* Begin as many windows as are free; none after a failure. */
static void begin_windows(stream *s) {
    window *w;
    while (!s->rc && s->next < s->num_spans && (w = find_window(s, false, false)) != NULL) {
        if (ae_task_cancelled(s->task))
            s->rc = ae_error_set(s->err, AETHER_E_CANCELLED, "sampling was cancelled");
        else
            s->rc = begin_window(s, w);
        if (s->rc)
            w->busy = false;
    }
}

static void finish_window(stream *s, window *w) {
    if (!s->rc)
        s->rc = take_apart(s, w);
    w->busy = w->finished = false;
}

static int run_stream(stream *s) {
    for (;;) {
        begin_windows(s);
        window *w = find_window(s, true, true);
        if (!w && find_window(s, true, false)) {
            ae_io_batch *batch = ae_io_reap(s->queue, true);
            w = batch ? batch->user : NULL;
        }
        if (!w)
            return s->rc;
        finish_window(s, w);
    }
}

/* ---- memory ---- */

static uint64_t window_bytes(uint64_t pages) {
    return pages * (PAGE + 2 * sizeof(uint64_t) + sizeof(ae_run) + sizeof(aether_io_request)) + PAGE;
}

static int reserve_windows(stream *s, ae_staging *staging, aether_error *err) {
    uint64_t bytes = ae_staging_window(staging);
    uint64_t pages = (bytes < AE_WINDOW_LEAST ? AE_WINDOW_LEAST : bytes) / PAGE;
    /* A few positions need no windows of full size. */
    s->room = s->num_spans < pages / PENDING ? (s->num_spans + 1) * PENDING : pages;
    uint64_t each = window_bytes(s->room) & ~(PAGE - 1);
    int rc = ae_scratch_reserve(&staging->windows, AE_WINDOWS * each, 0, err);
    for (uint32_t i = 0; !rc && i < AE_WINDOWS; i++) {
        window *w = &s->windows[i];
        w->data = (uint8_t *)staging->windows.data + i * each;
        w->pages = (uint64_t *)(void *)(w->data + s->room * PAGE);
        w->kept = w->pages + s->room;
        w->runs = (ae_run *)(void *)(w->kept + s->room);
        w->requests = (aether_io_request *)(void *)(w->runs + s->room);
    }
    return rc;
}

int ae_windows_stream(const ae_paged *p, const ae_fetch *jobs, const ae_span *spans, uint64_t num_spans,
                      ae_staging *staging, aether_task *task, aether_error *err) {
    stream s = {.p = p, .jobs = jobs, .spans = spans, .num_spans = num_spans, .task = task, .err = err};
    s.staging = staging;
    s.hot = __atomic_load_n(&p->hot,
                            __ATOMIC_ACQUIRE); /* values may get their page cache while other threads read */
    s.learns = s.hot && (staging->learns || ae_hot_pages_holds_all(s.hot));
    if (!num_spans)
        return AETHER_OK;
    int rc = reserve_windows(&s, staging, err);
    rc = rc ? rc : ae_io_take_queue(p->io, &s.queue, err);
    if (rc)
        return rc;
    rc = run_stream(&s);
    ae_io_give_back_queue(s.queue);
    return rc;
}
