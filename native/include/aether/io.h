/*
 * aether/io.h - graphs, values and rows that stay in their file and are read piece by piece.
 *
 *   file --aether_io_open--> aether_io  (a tier: io_uring, or threads with pread; a queue for each thread)
 *                               |  aether_io_read: ranges into the caller's buffers
 *        +----------------------+----------------------+
 *   aether_topology_create_paged                 aether_values_open
 *   lists; [aether_topology_keep_pages]          weights, times, ids; [aether_values_keep_pages]
 *        |                                             |
 *   samplers and groups (aether.h)               aether_relation.weights_in_file, ..., aether_values_gather
 *
 *   file --aether_row_open--> aether_row_file  (cache within a budget: a hot set, S3-FIFO for the rest)
 *                               |  aether_row_gather: rows into the caller's array
 *                               +--aether_row_plan_create--> gathers that are known ahead: Belady's optimum
 *
 * What to call, in which order
 *
 *   1. A graph larger than memory ("Topologies in a file"): aether_io_open, then aether_topology_create_paged
 *      in place of aether_topology_create. Many batches at once (aether_group_sample) read each page once.
 *   2. Features larger than memory ("Rows of a file"): aether_row_open once, aether_row_gather per batch.
 *   3. A file of any content that is replaced as a whole ("Files as they are"): aether_replace_begin,
 *      aether_replace_write, aether_replace_commit.
 *
 * Caveats: the rules of aether.h hold. A file must not change while it is open: calls report
 * AETHER_E_FILE_CHANGED. What borrows an aether_io goes before it.
 */
#ifndef AETHER_IO_H
#define AETHER_IO_H

#include "aether.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* CFFI BEGIN */

/* ---- Reading ranges of a file -------------------------------------------- */

#define AETHER_IO_AUTO  0 /* AETHERGRAPH_IO if it is set, else the first that works of the tiers below */
#define AETHER_IO_URING 1 /* io_uring, a ring per thread */
#define AETHER_IO_PREAD 2 /* pread in threads of their own; works everywhere */

#define AETHER_IO_SIZES 9 /* reads of up to 4 KiB, 8 KiB, ... 1 MiB */

/* Settings of an open file; all zeros are the defaults. */
typedef struct aether_io_options {
    uint32_t tier;   /* AETHER_IO_* */
    uint32_t direct; /* 1: past the system's page cache, if the file system can; 0: through it */
    uint32_t depth;  /* reads under way at once, for each calling thread: 1 to 256; 0: 128 */
    uint32_t reserved;
} aether_io_options;

/* Tier, alignment and size of an open file. */
typedef struct aether_io_info {
    uint32_t tier;   /* AETHER_IO_URING or AETHER_IO_PREAD */
    uint32_t direct; /* 1: reads go past the system's page cache */
    uint32_t depth;
    uint32_t alignment;        /* of offsets and lengths that are read without a copy; 1: any */
    uint32_t memory_alignment; /* of buffers that are read into without a copy */
    uint32_t reserved;
    uint64_t size; /* of the file when it was opened */
} aether_io_info;

/* One range of the file, and where its bytes go. */
typedef struct aether_io_request {
    uint64_t offset;
    uint64_t length;
    void *buffer;
} aether_io_request;

/* Counts since the file was opened, of all threads. */
typedef struct aether_io_stats {
    uint64_t requests;      /* asked for by callers */
    uint64_t reads;         /* asked of the system: long requests are cut, short reads go on */
    uint64_t bytes;         /* that came back from the system */
    uint64_t copied;        /* reads that were not aligned and went through a buffer */
    uint64_t repeated;      /* reads that came back short, or that the system put off */
    uint64_t max_in_flight; /* the most reads under way at once in one thread */
    uint64_t wait_ns;       /* time that threads spent in the system: submitting and waiting */
    /* reads by size, and the bytes that they asked for: class i is up to 4096 << i bytes */
    uint64_t size_reads[AETHER_IO_SIZES];
    uint64_t size_bytes[AETHER_IO_SIZES];
} aether_io_stats;

/* A file to read ranges from. May be shared by threads. */
typedef struct aether_io aether_io;

/* Find out whether a tier works in this process, by reading through it. AETHER_E_UNSUPPORTED: it
 * does not; err->message says why. */
int aether_io_probe(uint32_t tier, aether_error *err);

/* Open a regular file; `options` NULL: all zeros. The file must not change while it is open.
 * AETHER_E_NOT_FOUND, _IO, _INVALID; _UNSUPPORTED: the tier that was asked for (here or by
 * AETHERGRAPH_IO) does not work. */
int aether_io_open(const char *path, const aether_io_options *options, aether_io **out, aether_error *err);
/* Close the file, when no thread is reading from it. NULL is fine. */
void aether_io_close(aether_io *io);
/* Describe how the file is read. */
void aether_io_describe(const aether_io *io, aether_io_info *out);
/* Copy the counts of the file. */
void aether_io_count(const aether_io *io, aether_io_stats *out);

/* Read n ranges, which may overlap, in any order; returns when all are there. After an error the
 * buffers hold some of the bytes, and none is written any more.
 * AETHER_E_RANGE names the first request (position) past the end of the file;
 * _FILE_CHANGED: the file has become shorter, or was written to; _IO names the offset (position).
 * Ranges and buffers need not be aligned: unaligned ones are read through a buffer and
 * copied. `task` counts bytes. */
int aether_io_read(aether_io *io, const aether_io_request *requests, uint64_t n, aether_task *task,
                   aether_error *err);

/* ---- Topologies in a file ------------------------------------------------ */

/* Where the arrays of lists are in a file. */
typedef struct aether_lists_in_file {
    uint64_t size;      /* sizeof(aether_lists_in_file) */
    aether_io *io;      /* borrowed for the topology's life */
    uint64_t indptr_at; /* byte of the offsets, uint64 */
    uint64_t ids_at;    /* byte of the ids, or of their blocks */
    /* Sizes of the blocks and the index of compressed ids; their pointers may be NULL, or mapped from the
     * same file. NULL: the ids are not compressed. */
    const aether_blocks *blocks;
    uint64_t index_at; /* byte of the index of the blocks */
} aether_lists_in_file;

/* Make a topology whose ids stay in a file, and are read page by page, or block by block, when they are asked
 * for. The offsets are read now and kept compressed, and so is the index of blocks. `lists` gives counts and
 * widths (of compressed ids before they were encoded): its indptr is not used, its indices may be NULL, or
 * mapped from the same file, which makes reads of entries near each other cheaper; they are NULL where there
 * are blocks. AETHER_E_CORRUPT: offsets descend or do not end at num_edges, or the index cannot be right.
 * Blocks are checked when they are used. `task` counts bytes. */
int aether_topology_create_paged(const aether_lists *lists, const aether_lists_in_file *place,
                                 aether_task *task, aether_topology **out, aether_error *err);

/* Give a topology in a file a page cache of `bytes` for the pages that are used most. Samples that
 * are made one by one fill it; groups find the pages as well. Call once, before the topology is
 * used. AETHER_E_INVALID: its ids are not in a file. */
int aether_topology_keep_pages(aether_topology *t, uint64_t bytes, aether_error *err);
/* Return the bytes that the topology's page cache takes so far. */
uint64_t aether_topology_kept(const aether_topology *t);

/* ---- Values in a file ---------------------------------------------------- */

/* Open `count` values of item_bytes (a power of two up to 64) at byte `offset` (a multiple of 64)
 * of a file. Samplers take weights, times and ids of 4 or 8 bytes this way (aether_relation).
 * Borrows `io`. */
int aether_values_open(aether_io *io, uint64_t offset, uint64_t count, uint32_t item_bytes,
                       aether_values **out, aether_error *err);
/* Release the values; `io` stays open. NULL is fine. */
void aether_values_close(aether_values *values);

/* Give the values a page cache of `bytes`, from now on, for the pages that are used most. One
 * thread does this, once. */
int aether_values_keep_pages(aether_values *values, uint64_t bytes, aether_error *err);
/* Let values that are the ids of a topology's lists use the page cache of the topology, which must
 * outlive them. AETHER_E_INVALID: they are not its ids. */
int aether_values_share_pages(aether_values *values, const aether_topology *t, aether_error *err);
/* Return the bytes that the page cache of the values takes so far; 0 if it is a topology's. */
uint64_t aether_values_kept(const aether_values *values);

/* Memory of one caller's aether_values_gather() calls, kept from call to call. */
typedef struct aether_staging aether_staging;

/* Make a staging of four windows of window_bytes each (0: the default) and up to span_bytes for
 * sorting; memory is taken as it is needed. */
int aether_staging_create(uint64_t window_bytes, uint64_t span_bytes, aether_staging **out,
                          aether_error *err);
/* Release a staging. NULL is fine. */
void aether_staging_destroy(aether_staging *staging);
/* Set whether the page cache learns from calls with this staging which pages are used most. */
void aether_staging_learn(aether_staging *staging, int learns);
/* Return the reads and bytes that its calls have asked for so far, and the bytes that it holds. */
void aether_staging_count(const aether_staging *staging, uint64_t *reads, uint64_t *bytes, uint64_t *memory);

/* Values that are asked for, and where they go: the one at positions[i] to place i of `out`. */
typedef struct aether_value_request {
    uint64_t size; /* sizeof(aether_value_request) */
    const uint64_t *positions;
    uint64_t n;
    void *out;
    uint64_t out_size; /* bytes of n values */
} aether_value_request;

/* Gather values. Each page is read once. Positions so many and so far apart that sorting them takes more than
 * the staging's span_bytes are gathered in parts, each of which reads its pages once. AETHER_E_FILE_CHANGED:
 * the file was written to or became shorter. */
int aether_values_gather(const aether_values *values, const aether_value_request *request,
                         aether_staging *staging, aether_task *task, aether_error *err);

/* ---- Rows of a file ------------------------------------------------------ */

/* Rows that lie one after the other in a file, and how much memory they may take. */
typedef struct aether_row_options {
    uint64_t offset; /* of row 0 in the file */
    uint64_t num_rows;
    uint64_t row_items; /* elements per row */
    uint64_t memory;    /* bytes for all: cache, index, buffers of reads under way */
    const int64_t *hot; /* rows that stay in the cache, the most important first; borrowed for the call */
    uint64_t num_hot;
    uint32_t hot_percent; /* of the cache at most for them */
    uint32_t dtype;
    uint32_t tier; /* AETHER_IO_* */
    uint32_t reserved;
} aether_row_options;

/* Counts since opening, of all threads, without the reads of hot rows at opening. A forked child
 * goes on counting from its parent's numbers, except for those of the cache, which begin anew. */
typedef struct aether_row_stats {
    uint64_t rows;         /* asked for */
    uint64_t hits;         /* rows found in the cache */
    uint64_t frames_read;  /* frames that were missing, each once for a block of ids */
    uint64_t reads;        /* ranges asked of the I/O engine for missing frames */
    uint64_t direct_rows;  /* rows read straight to their place in the output */
    uint64_t device_reads; /* asked of the system */
    uint64_t device_bytes; /* that came back from the system */
    uint64_t wait_ns;      /* that threads spent in the system: submitting and waiting */
    uint64_t frame_rows;   /* rows that are cached together: 1, or more if they are small */
    uint64_t frames;       /* room of the cache */
    uint64_t frames_held;  /* frames in use */
    uint64_t hot_frames;
    uint64_t inserted;
    uint64_t evicted;
    uint64_t budget;      /* bytes for all */
    uint64_t cache_bytes; /* of the budget, for the cache and its index */
    uint64_t work_bytes;  /* of the budget, for reads under way and sorting */
    uint32_t tier;        /* AETHER_IO_URING or AETHER_IO_PREAD */
    uint32_t direct;      /* 1: reads go past the system's page cache */
} aether_row_stats;

/* Rows that are gathered from a file through a cache. May be shared by threads. */
typedef struct aether_row_file aether_row_file;

/* Open rows of a file and read the hot ones. AETHER_E_INVALID: the memory is too small, among
 * others; the message has the least that works. AETHER_E_TRUNCATED: the file ends before the last
 * row; _RANGE: a hot row does not exist; otherwise as aether_io_open(). `task` counts hot rows. */
int aether_row_open(const char *path, const aether_row_options *options, aether_task *task,
                    aether_row_file **out, aether_error *err);
/* Close the rows, when no thread is gathering from them. NULL is fine. */
void aether_row_close(aether_row_file *f);

/* Gather rows as aether_gather() does. AETHER_E_FILE_CHANGED: the file was written to or became shorter;
 * AETHER_E_IO: a read failed. `task` counts ids. */
int aether_row_gather(aether_row_file *f, const aether_row_request *request, aether_task *task,
                      aether_error *err);
/* Copy the counts of the rows. */
void aether_row_count(const aether_row_file *f, aether_row_stats *out);

/* ---- Rows of a file: gathers known ahead --------------------------------- */

/* Totals of a plan, over all its lists. */
typedef struct aether_row_plan_stats {
    uint64_t lists;
    uint64_t next;        /* lists that have been gathered */
    uint64_t rows;        /* of all lists */
    uint64_t hits;        /* rows that are found in the cache */
    uint64_t frames_read; /* each once for a list that does not find it: the fewest possible */
    uint64_t frames_lent; /* frames of the cache that this plan has */
    uint64_t bytes;       /* of memory, outside the file's budget */
} aether_row_plan_stats;

/* Gathers that will be asked for, one list of ids after the other. While a plan exists it has all
 * of the cache that is not hot, and keeps there what is used again soonest. Other plans and
 * gathers then find hot rows only. One thread at a time. */
typedef struct aether_row_plan aether_row_plan;

/* Plan num_lists gathers: list i is ids[ends[i - 1]..ends[i]), the first from 0 on. `ids` is
 * borrowed until the plan is destroyed. AETHER_E_RANGE names the first id that is no row;
 * AETHER_E_LIMIT: too many ids for one plan. */
int aether_row_plan_create(aether_row_file *f, const uint64_t *ids, const uint64_t *ends, uint64_t num_lists,
                           aether_row_plan **out, aether_error *err);
/* End the plan and give the cache back. Its file may have been closed before. NULL is fine. */
void aether_row_plan_destroy(aether_row_plan *p);

/* Gather the rows of the next list; out_size and out_dtype are as in aether_row_request. After a
 * failure there is no next list. */
int aether_row_plan_gather(aether_row_plan *p, void *out, uint64_t out_size, uint32_t out_dtype,
                           aether_task *task, aether_error *err);
/* Copy the totals of the plan. */
void aether_row_plan_count(const aether_row_plan *p, aether_row_plan_stats *out);

/* ---- Files as they are --------------------------------------------------- */

/* Give the system a hint about a range of a mapping: random access (1), sequential (2), will need
 * (3), drop from the system's page cache what is clean and unused (4). Never fails. */
void aether_advise(const void *data, uint64_t size, int32_t advice);

/* Free the disk space of a range of an open file: whole blocks become holes, which read as zeros,
 * and the file keeps its size. A hint: nothing happens on file systems without holes. */
void aether_file_discard(int32_t fd, uint64_t offset, uint64_t size);

/* A file of any content that is being written beside `path` and replaces it on commit. A crash at
 * any moment leaves the old file or the new one. */
typedef struct aether_replace aether_replace;

/* Begin a new file. Removes the temporaries that killed writers of `path` left. */
int aether_replace_begin(const char *path, aether_replace **out, aether_error *err);
/* Write bytes at `offset`; ranges may come in any order. */
int aether_replace_write(aether_replace *r, const void *data, uint64_t size, uint64_t offset,
                         aether_error *err);
/* Fsync: what is left for commit is the rename, unless more is written. */
int aether_replace_sync(aether_replace *r, aether_error *err);
/* Fsync, and rename over `path`. Releases r, also on failure. */
int aether_replace_commit(aether_replace *r, aether_error *err);
/* Remove the temporary and release r. NULL is fine. */
void aether_replace_abort(aether_replace *r);

/* CFFI END */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
