/*
 * rows/row_file.h - rows of a file, gathered within a number of bytes.
 *
 *   ids    7 2 7 900 ...   a block of them
 *          |
 *   cache  found: copied to out          (frames: one row, or a group of small ones)
 *          | missing
 *   wanted (2,1) (7,0) (7,2) (900,3)     row and place in the block, sorted by row
 *          | near ones together
 *   runs   [2 ... 7]  [900]              aligned reads, several segments of them in flight
 *          | as they complete
 *   out    each place; the cache gets each frame
 *
 * The budget is divided at opening into workspaces and the cache. A workspace is the memory of one
 * gather at a time; a thread that finds no free workspace waits for one. Only a gather within another
 * one of the thread, from a task's poll(), does not wait: it has memory of its own, beyond the budget.
 *
 * Caveats
 *   - All memory is taken from the budget at opening, except for memory of the I/O threads and
 *     rings, for which each workspace is charged AE_ROW_IO_BYTES.
 *   - A run of whole rows that are consecutive in out is read straight into it, if file,
 *     rows and out are aligned as direct reads need; all other rows are copied once.
 *   - The file must not change while it is open: every gather checks whether it was written to.
 *   - "The file" is any source of bytes (io/source.h); aether_row_open takes one by its path.
 */
#ifndef AE_ROWS_ROW_FILE_H
#define AE_ROWS_ROW_FILE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cache/schedule.h"
#include "io/source.h"
#include "rows/convert.h"

#define AE_ROW_WORKSPACES 4u
#define AE_ROW_SEGMENTS   8u
#define AE_ROW_READS      64u         /* most reads of a segment: 8 segments are several times the depth */
#define AE_ROW_GAP        (8u << 10)  /* reading so many bytes more costs about as much as another read */
#define AE_ROW_IO_BYTES   (64u << 10) /* a ring, or stacks of threads that read */
#define AE_ROW_PLACE      20          /* bits of a place in a block */
#define AE_ROW_GROUPED    256u        /* smaller rows share frames of about so many bytes */
#define AE_ROW_MOST       (UINT64_C(1) << (63 - AE_ROW_PLACE))

/* Division of the budget into workspaces and cache. */
typedef struct ae_row_division {
    uint32_t workspaces, segments;
    uint64_t block;     /* ids */
    uint64_t segment;   /* bytes of data */
    uint64_t workspace; /* bytes in all */
    uint64_t cache;     /* bytes */
} ae_row_division;

typedef struct ae_row_workspace {
    atomic_int owner;        /* process whose thread has the workspace; 0: free */
    atomic_uintptr_t thread; /* the thread; 0 before it is noted */
    uint8_t *memory;
} ae_row_workspace;

struct aether_row_file {
    aether_io *io;
    uint64_t offset, num_rows, row_items, row_bytes;
    uint32_t dtype;
    uint32_t group;       /* rows of a frame */
    uint64_t frame_bytes; /* of every frame; the last one may be shorter in the file */
    uint64_t budget;
    ae_row_division plan;
    ae_cache *cache;
    atomic_uint users;    /* the caller, and plans: the last one closes */
    atomic_uint released; /* number of workspaces given back; futex of threads that wait for a workspace */
    ae_row_workspace workspaces[AE_ROW_WORKSPACES];
    struct {
        atomic_ullong rows, hits, frames, reads, direct;
    } stats;
};

/* One gather: from a block of places to reads and back. */
typedef struct ae_row_job {
    aether_row_file *file;
    ae_row_workspace *workspace;
    ae_row_workspace own;  /* has memory if the job is within another one of its thread */
    uint64_t item_bytes;   /* bytes of one item (a row, or a frame) in the file */
    uint32_t group;        /* items of a frame */
    uint64_t items;        /* elements of one item, for convert */
    ae_convert_fn convert; /* NULL: copied */
    uint8_t *out;
    uint64_t out_bytes; /* per place */
    uint64_t *wanted;   /* item << AE_ROW_PLACE | place */
    uint64_t num_wanted;
    bool keep;                  /* put frames that were read into the cache */
    ae_cache_loan *loan;        /* of a plan: put frames into the loan instead; else NULL */
    const ae_cache_step *steps; /* with a loan: only frames of places that are AE_STEP_KEPT */
    uint32_t time;              /* with a loan: when its frames are used */
    aether_task *task;
} ae_row_job;

/* Open rows of a source, as aether_row_open() does those of a file. */
int ae_row_open(const ae_io_source *source, const aether_row_options *options, aether_task *task,
                aether_row_file **out, aether_error *err);

/* Begin a job that gathers n rows to `out`: check the arguments and take a workspace. */
int ae_row_begin(aether_row_file *f, const aether_row_request *request, aether_task *task, ae_row_job *job,
                 aether_error *err);
/* End a job: give the workspace back, and return `rc`, or AETHER_E_FILE_CHANGED if the file changed. */
int ae_row_end(ae_row_job *job, int rc, aether_error *err);

/* Sort and read the rows that a block of n ids misses; count all n. */
int ae_row_read_block(ae_row_job *job, uint64_t n, aether_error *err);

/* Copy a row that was found to its place in out. */
void ae_row_copy(const ae_row_job *job, uint64_t place, const void *row);

/* Fail with AETHER_E_RANGE for the id at `position`. */
int ae_row_bad_id(const aether_row_file *f, uint64_t position, uint64_t id, aether_error *err);

/* Sort numbers item << place_bits | place by item. Their places ascend before, and equal items stay
 * in that order. `other` is scratch for n. */
void ae_row_sort(uint64_t *wanted, uint64_t *other, uint64_t n, unsigned place_bits, uint64_t num_items);

/* Read the sorted rows in job->wanted into their places. */
int ae_row_read(ae_row_job *job, aether_error *err);

/* Return the bytes of a workspace with segments of `data` bytes. */
uint64_t ae_row_workspace_bytes(uint64_t block, uint64_t data, uint32_t segments, uint64_t frame_bytes);
/* Return the bytes of memory of each workspace of a file. */
uint64_t ae_row_workspace_memory(const aether_row_file *f);
/* Return the workspace's list of wanted rows: room for two blocks, the second one to sort with. */
uint64_t *ae_row_workspace_wanted(const ae_row_workspace *w);

#endif
