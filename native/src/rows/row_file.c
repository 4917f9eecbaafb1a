#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "rows/row_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "core/minmax.h"

#define BLOCK_MOST       (UINT64_C(1) << 18)
#define BLOCK_LEAST      (UINT64_C(1) << 10)
#define SEGMENT_MOST     (512u << 10)
#define SEGMENT_LEAST    (16u << 10)
#define WORKSPACE_SHARE  8 /* a workspace takes at most this part of the budget, if possible */
#define WORKSPACES_SHARE 4 /* all workspaces take at most this part */

/* ---- dividing the budget ----------------------------------------------------------------- */

/* A segment has room for one frame, however it lies to the alignment. */
static uint64_t segment_for(const aether_row_file *f, uint64_t wanted) {
    uint64_t whole = f->frame_bytes + 2 * (uint64_t)f->io->alignment;
    return (ae_max_u64(wanted, whole) + AE_IO_PAGE - 1) & ~(uint64_t)(AE_IO_PAGE - 1);
}

static uint64_t num_frames(const aether_row_file *f) {
    return (f->num_rows - 1) / f->group + 1;
}

static void measure_division(const aether_row_file *f, ae_row_division *p, uint64_t segment) {
    p->segment = segment_for(f, segment);
    p->workspace =
        ae_row_workspace_bytes(p->block, p->segment, p->segments, f->frame_bytes) + AE_ROW_IO_BYTES;
}

static int divide_memory(aether_row_file *f, aether_error *err) {
    ae_row_division *p = &f->plan;
    uint64_t segment = SEGMENT_MOST, one = ae_cache_bytes(1, (uint32_t)f->frame_bytes) + sizeof *f;
    *p = (ae_row_division){.workspaces = 1, .segments = AE_ROW_SEGMENTS, .block = BLOCK_MOST};
    measure_division(f, p, segment);
    while (p->workspace > f->budget / WORKSPACE_SHARE && (p->block > BLOCK_LEAST || p->segments > 2)) {
        p->block = ae_max_u64(p->block / 2, BLOCK_LEAST);
        segment = ae_max_u64(segment / 2, SEGMENT_LEAST);
        if (segment == SEGMENT_LEAST && p->block == BLOCK_LEAST)
            p->segments /= 2;
        measure_division(f, p, segment);
    }
    if (f->budget < p->workspace + one)
        return ae_error_at(err, AETHER_E_INVALID, 0, (int64_t)f->budget,
                           "a memory budget of %" PRIu64 " bytes is too small to read rows of %" PRIu64
                           " bytes: it needs at least %" PRIu64,
                           f->budget, f->row_bytes, p->workspace + one);
    p->workspaces =
        (uint32_t)ae_max_u64(ae_min_u64(f->budget / WORKSPACES_SHARE / p->workspace, AE_ROW_WORKSPACES), 1);
    uint64_t all = ae_cache_bytes(num_frames(f), (uint32_t)f->frame_bytes);
    p->cache = ae_min_u64(f->budget - p->workspaces * p->workspace - sizeof *f, all);
    return AETHER_OK;
}

/* ---- opening -------------------------------------------------------------------------------- */

static int check_row_options(const aether_row_options *o, aether_error *err) {
    uint64_t bytes, end;
    uint32_t item = aether_dtype_size(o->dtype);
    if (!item)
        return ae_error_at(err, AETHER_E_INVALID, 0, o->dtype, "unknown dtype %" PRIu32, o->dtype);
    if (o->num_rows == 0 || o->row_items == 0)
        return ae_error_set(err, AETHER_E_INVALID, "there are no rows to read, or they have no items");
    if (__builtin_mul_overflow(o->row_items, (uint64_t)item, &bytes) || bytes > UINT32_MAX / 2 ||
        __builtin_mul_overflow(bytes, o->num_rows, &end) || __builtin_add_overflow(end, o->offset, &end) ||
        end > INT64_MAX || o->num_rows >= AE_ROW_MOST)
        return ae_error_set(err, AETHER_E_LIMIT,
                            "%" PRIu64 " rows of %" PRIu64 " items of %s are more than can be read",
                            o->num_rows, o->row_items, ae_dtype_name(o->dtype));
    if (o->hot_percent > 100)
        return ae_error_at(err, AETHER_E_INVALID, 0, o->hot_percent,
                           "hot_percent is %" PRIu32 ", must be 0 to 100", o->hot_percent);
    if (o->num_hot && !o->hot)
        return ae_error_set(err, AETHER_E_INVALID, "hot ids are needed");
    for (uint64_t i = 0; i < o->num_hot; i++)
        if ((uint64_t)o->hot[i] >= o->num_rows)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, o->hot[i],
                               "id %" PRId64 " at position %" PRIu64 " is not in [0, %" PRIu64 ")", o->hot[i],
                               i, o->num_rows);
    return AETHER_OK;
}

static void describe_rows(aether_row_file *f, const aether_row_options *o) {
    f->offset = o->offset;
    f->num_rows = o->num_rows;
    f->row_items = o->row_items;
    f->dtype = o->dtype;
    f->row_bytes = o->row_items * aether_dtype_size(o->dtype);
    f->group = (uint32_t)ae_max_u64(AE_ROW_GROUPED / f->row_bytes, 1);
    f->frame_bytes = f->group * f->row_bytes;
    f->budget = o->memory;
}

static int open_io(aether_row_file *f, const ae_io_source *source, const aether_row_options *o,
                   aether_error *err) {
    int rc = ae_io_open(source, &(aether_io_options){.tier = o->tier, .direct = 1}, &f->io, err);
    if (rc)
        return rc;
    if (f->offset + f->num_rows * f->row_bytes > f->io->size)
        return ae_error_at(err, AETHER_E_TRUNCATED, (int64_t)f->io->size, 0,
                           "'%s' has %" PRIu64 " bytes, its rows end at %" PRIu64, source->name, f->io->size,
                           f->offset + f->num_rows * f->row_bytes);
    return AETHER_OK;
}

uint64_t ae_row_workspace_memory(const aether_row_file *f) {
    return f->plan.workspace - AE_ROW_IO_BYTES;
}

static int make_workspaces(aether_row_file *f, aether_error *err) {
    for (uint32_t i = 0; i < f->plan.workspaces; i++) {
        f->workspaces[i].memory = aether_buffer_alloc(ae_row_workspace_memory(f), err);
        if (!f->workspaces[i].memory)
            return AETHER_E_NO_MEMORY;
    }
    return ae_cache_create(f->plan.cache, (uint32_t)f->frame_bytes, &f->cache, err);
}

/* ---- the hot set -------------------------------------------------------------------------------- */

/* Pin the frames of a block of ids, and read them straight into the cache. */
static int pin_block(aether_row_file *f, const aether_row_options *o, uint64_t *next, uint64_t most,
                     aether_task *task, aether_error *err) {
    ae_cache_stats held;
    ae_cache_count(f->cache, &held);
    ae_row_job j = {.file = f,
                    .workspace = &f->workspaces[0],
                    .item_bytes = f->frame_bytes,
                    .out_bytes = f->frame_bytes,
                    .group = 1,
                    .wanted = ae_row_workspace_wanted(&f->workspaces[0]),
                    .task = task};
    uint64_t room = ae_min_u64(most - held.hot, f->plan.block);
    for (; *next < o->num_hot && j.num_wanted < room; ++*next) {
        uint64_t frame = (uint64_t)o->hot[*next] / f->group;
        uint8_t *at = ae_cache_pin(f->cache, frame);
        if (!at)
            continue; /* the frame is pinned already */
        j.out = j.num_wanted ? j.out : at;
        j.wanted[j.num_wanted] = frame << AE_ROW_PLACE | j.num_wanted;
        j.num_wanted++;
    }
    ae_row_sort(j.wanted, j.wanted + f->plan.block, j.num_wanted, AE_ROW_PLACE, num_frames(f));
    return ae_row_read(&j, err);
}

static int pin(aether_row_file *f, const aether_row_options *o, aether_task *task, aether_error *err) {
    ae_cache_stats held;
    int rc = AETHER_OK;
    ae_cache_count(f->cache, &held);
    uint64_t most = held.frames * o->hot_percent / 100;
    for (uint64_t next = 0; next < o->num_hot && held.hot < most && !rc;) {
        rc = pin_block(f, o, &next, most, task, err);
        ae_cache_count(f->cache, &held);
    }
    memset(&f->stats, 0, sizeof f->stats);
    memset(&f->io->stats, 0, sizeof f->io->stats);
    return rc;
}

int ae_row_open(const ae_io_source *source, const aether_row_options *options, aether_task *task,
                aether_row_file **out, aether_error *err) {
    *out = NULL;
    int rc = check_row_options(options, err);
    if (rc)
        return rc;
    aether_row_file *f = calloc(1, sizeof *f);
    if (!f)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening '%s'", source->name);
    atomic_init(&f->users, 1);
    describe_rows(f, options);
    rc = open_io(f, source, options, err);
    rc = rc ? rc : divide_memory(f, err);
    rc = rc ? rc : make_workspaces(f, err);
    rc = rc ? rc : pin(f, options, task, err);
    if (rc)
        aether_row_close(f);
    else
        *out = f;
    return rc;
}

int aether_row_open(const char *path, const aether_row_options *options, aether_task *task,
                    aether_row_file **out, aether_error *err) {
    return ae_row_open(&(ae_io_source){&ae_io_file_source, path, NULL}, options, task, out, err);
}

void aether_row_close(aether_row_file *f) {
    if (!f || atomic_fetch_sub(&f->users, 1) > 1)
        return;
    for (uint32_t i = 0; i < f->plan.workspaces; i++)
        if (f->workspaces[i].memory)
            aether_buffer_free(f->workspaces[i].memory, ae_row_workspace_memory(f));
    ae_cache_destroy(f->cache);
    aether_io_close(f->io);
    free(f);
}

/* ---- counting -------------------------------------------------------------------------------------- */

void aether_row_count(const aether_row_file *f, aether_row_stats *out) {
    ae_cache_stats cache;
    aether_io_stats io;
    ae_cache_count(f->cache, &cache);
    aether_io_count(f->io, &io);
    *out = (aether_row_stats){
        .rows = atomic_load(&f->stats.rows),
        .hits = atomic_load(&f->stats.hits),
        .frames_read = atomic_load(&f->stats.frames),
        .reads = atomic_load(&f->stats.reads),
        .direct_rows = atomic_load(&f->stats.direct),
        .device_reads = io.reads,
        .device_bytes = io.bytes,
        .wait_ns = io.wait_ns,
        .frame_rows = f->group,
        .frames = cache.frames,
        .frames_held = cache.held,
        .hot_frames = cache.hot,
        .inserted = cache.inserted,
        .evicted = cache.evicted,
        .budget = f->budget,
        .cache_bytes = cache.bytes,
        .work_bytes = f->plan.workspaces * f->plan.workspace + sizeof *f,
        .tier = f->io->tier->number,
        .direct = f->io->direct,
    };
}
