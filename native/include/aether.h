/*
 * aether.h - the public interface of the AetherGraph native core.
 *
 * Purpose
 *   Everything Python (through cffi) or a C program may call. The text between
 *   the two CFFI markers is read verbatim by native/build_cffi.py, so it holds
 *   plain declarations and integer #defines only.
 *
 * Picture
 *
 *   aether_file ----sections----> raw arrays (mapped, read-only)
 *   aether_buffer --------------> raw arrays (anonymous memory, huge pages)
 *                                    |
 *                    aether_topology (borrows indptr/indices)
 *                                    |
 *                    aether_sampler  (scratch of one caller at a time)
 *                                    |
 *                    aether_sample -> aether_sample_export -> caller's arrays
 *
 *                    aether_topology [, alias and member tables]
 *                                    |
 *                    aether_random_walk, aether_fanout -> caller's arrays
 *
 *   aether_io ------------------> ranges of a file in the caller's buffers
 *   aether_row_file ------------> rows of a file, through a cache, in the caller's buffers
 *
 * Rules
 *   - Functions return 0 or a negative AETHER_E_* code and fill `err` (may be
 *     NULL). They never abort, and call back through aether_task.poll alone.
 *   - A function whose results are as long as a file, a plan or a sample says is told the
 *     length of what they go to (AETHER_E_INVALID if it differs). Where arguments of the
 *     call alone decide, as n does, or counts of node types, edge types and hops that the
 *     caller made the handle with, there is nothing to compare.
 *   - Memory passed in is borrowed for the call, unless the function says that
 *     the handle keeps borrowing it; the caller then keeps it alive.
 *   - Handles made by open/create are released by close/destroy, which accept
 *     NULL. A handle is used by one thread at a time, except aether_file,
 *     aether_topology, aether_weight_sums, aether_io and aether_row_file, which
 *     may be shared.
 *   - After fork() a child may go on using every handle: mappings are private
 *     or read-only and the thread pool starts anew in the child.
 *
 * Caveats
 *   - Little-endian hosts only; a file written elsewhere is refused.
 *   - A mapped file that shrinks while it is open reads as zeros from then on;
 *     aether_file_check() (and every call that takes the file) reports
 *     AETHER_E_FILE_CHANGED. See src/os/sigbus.h.
 *   - Node ids are 32-bit or 64-bit in files (id_bytes), 64-bit in calls.
 */
#ifndef AETHER_H
#define AETHER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define AETHER_MAKE_VERSION(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define AETHER_VERSION_NUMBER                                                                                \
    AETHER_MAKE_VERSION(AETHER_VERSION_MAJOR, AETHER_VERSION_MINOR, AETHER_VERSION_PATCH)

/* CFFI BEGIN */

/* The version of this header; aether_version() is that of the library. Until 1.0 a new
 * minor version may change any declaration, a new patch version none. */
#define AETHER_VERSION_MAJOR 0
#define AETHER_VERSION_MINOR 1
#define AETHER_VERSION_PATCH 0

/* ---- errors ------------------------------------------------------------ */

#define AETHER_OK             0
#define AETHER_E_INVALID      (-1)
#define AETHER_E_RANGE        (-2)
#define AETHER_E_NO_MEMORY    (-3)
#define AETHER_E_IO           (-4)
#define AETHER_E_NOT_FOUND    (-5)
#define AETHER_E_FORMAT       (-6)
#define AETHER_E_VERSION      (-7)
#define AETHER_E_TRUNCATED    (-8)
#define AETHER_E_CORRUPT      (-9)
#define AETHER_E_FILE_CHANGED (-10)
#define AETHER_E_UNSUPPORTED  (-11)
#define AETHER_E_CANCELLED    (-12)
#define AETHER_E_LIMIT        (-13)

typedef struct aether_error {
    int32_t code;      /* AETHER_E_* */
    int32_t os_errno;  /* errno, or 0 */
    int64_t position;  /* index or byte offset of the offending value, or -1 */
    int64_t value;     /* the offending value, if `position` is not -1 */
    char message[488]; /* UTF-8 text, NUL-terminated */
} aether_error;

/* Row i of the error table (code, name, one-line text); 0 past the end. */
typedef struct aether_error_entry {
    int32_t code;
    const char *name;
    const char *text;
} aether_error_entry;
const aether_error_entry *aether_error_table(uint32_t i);

/* ---- library ----------------------------------------------------------- */

const char *aether_version(void);    /* "major.minor.patch" */
const char *aether_build_info(void); /* compiler, sanitizers, CPU dispatch */

/* Threads the pool uses: AETHERGRAPH_NUM_THREADS, else the cores this process
 * may use (affinity and cgroup quota). `set` takes 1..256, or 0 for default. */
int aether_get_num_threads(void);
int aether_set_num_threads(int n, aether_error *err);

/* A long call's shared state: the caller may set `cancel` to 1 and read
 * `done`/`total` (bytes or items) from another thread while the call runs. A call
 * that the process's main thread makes asks `poll` (may be NULL) about every 50 ms, in
 * that thread; anything but 0 sets `cancel`. */
typedef struct aether_task {
    volatile int32_t cancel;
    int32_t reserved;
    volatile uint64_t done;
    volatile uint64_t total;
    int32_t (*poll)(void);
    volatile uint64_t next_poll; /* the library's own */
} aether_task;

/* ---- element types ----------------------------------------------------- */

#define AETHER_U8   1
#define AETHER_BOOL 2
#define AETHER_I8   3
#define AETHER_I16  4
#define AETHER_I32  5
#define AETHER_I64  6
#define AETHER_U32  7
#define AETHER_U64  8
#define AETHER_F16  9
#define AETHER_BF16 10
#define AETHER_F32  11
#define AETHER_F64  12

uint32_t aether_dtype_size(uint32_t dtype); /* bytes; 0 if unknown */

/* ---- memory ------------------------------------------------------------ */

/* Zeroed anonymous memory, huge pages asked for; NULL with err on failure. */
void *aether_buffer_alloc(uint64_t size, aether_error *err);
void aether_buffer_free(void *data, uint64_t size);

/* Give memory that was freed, but is kept for later allocations, back to the system. */
void aether_trim(void);

/* memcpy by all threads; `task` may be NULL. */
int aether_copy(void *dst, const void *src, uint64_t size, aether_task *task, aether_error *err);

/* ---- container files (FORMAT.md) --------------------------------------- */

#define AETHER_CONTENT_GRAPH    1
#define AETHER_CONTENT_FEATURES 2

#define AETHER_SECTION_META         1  /* JSON, UTF-8 */
#define AETHER_SECTION_CSC_INDPTR   2  /* u64[num_dst + 1] */
#define AETHER_SECTION_CSC_INDICES  3  /* u32|u64[num_edges]: sources */
#define AETHER_SECTION_CSR_INDPTR   4  /* u64[num_src + 1] */
#define AETHER_SECTION_CSR_INDICES  5  /* u32|u64[num_edges]: destinations */
#define AETHER_SECTION_CSR_EDGE_IDS 6  /* u32|u64[num_edges]: edge id by CSR position, if not the identity */
#define AETHER_SECTION_EDGE_ORDER   7  /* u32|u64[num_edges]: input row by edge id */
#define AETHER_SECTION_EDGE_WEIGHT  8  /* f32|f64[num_edges] */
#define AETHER_SECTION_EDGE_TIME    9  /* i64|f64[num_edges] */
#define AETHER_SECTION_NODE_TIME    10 /* i64|f64[num_nodes] */
#define AETHER_SECTION_ARRAY        11 /* any rows; named and shaped by META */
#define AETHER_SECTION_CSC_BLOCKS   12 /* u8[]: sources, compressed; instead of CSC_INDICES */
#define AETHER_SECTION_CSC_INDEX    13 /* u64[5 * groups]: where the blocks are */
#define AETHER_SECTION_CSR_BLOCKS   14 /* u8[]: destinations, compressed; instead of CSR_INDICES */
#define AETHER_SECTION_CSR_INDEX    15 /* u64[5 * groups] */

typedef struct aether_section {
    uint32_t kind;     /* AETHER_SECTION_* */
    uint32_t owner;    /* index of the edge type, node type or array it belongs to */
    uint32_t dtype;    /* AETHER_U8.. */
    uint32_t reserved; /* 0 */
    uint64_t offset;   /* bytes from the file's start, a multiple of 4096 */
    uint64_t size;     /* bytes */
    uint64_t checksum; /* XXH3-64 of the XXH3-64s of its 4 MiB blocks (FORMAT.md) */
} aether_section;

typedef struct aether_file aether_file;

/* Map `path` and check header, section table and sizes (not section checksums:
 * see verify). AETHER_E_NOT_FOUND, _IO, _FORMAT, _VERSION, _TRUNCATED, _CORRUPT. */
int aether_file_open(const char *path, aether_file **out, aether_error *err);
void aether_file_close(aether_file *file);
uint32_t aether_file_content(const aether_file *file);
uint32_t aether_file_num_sections(const aether_file *file);
uint64_t aether_file_size(const aether_file *file);
int aether_file_section(const aether_file *file, uint32_t i, aether_section *out, aether_error *err);
const void *aether_file_data(const aether_file *file, uint32_t i); /* NULL if i is out of range */
/* Read every section and compare checksums; names the first bad section. */
int aether_file_verify(const aether_file *file, aether_task *task, aether_error *err);
/* AETHER_E_FILE_CHANGED if a page of the mapping could not be read any more, the
 * file shrank, or it was written to since it was opened. */
int aether_file_check(const aether_file *file, aether_error *err);

/* Put the handler that guards mappings in place again if another library has
 * replaced it since (torch does in every worker process): call before reading
 * mapped memory, and aether_file_check() after. Cheap. */
void aether_guard(void);

/* Map any file read-only under the same guard (features in .npy files). */
int aether_file_map_raw(const char *path, aether_file **out, aether_error *err);
const void *aether_file_base(const aether_file *file);

/* Hint for a range of a mapping: random access (1), sequential (2), will need (3),
 * drop from the page cache as far as clean and unused (4). Never fails. */
void aether_advise(const void *data, uint64_t size, int32_t advice);

/* Give the disk back what a range of an open file takes: whole blocks become holes, which
 * read as zeros, and the file keeps its size. A hint: nothing happens on file systems
 * without holes. */
void aether_file_discard(int32_t fd, uint64_t offset, uint64_t size);

typedef struct aether_writer aether_writer;

/* Write beside `path` and rename over it in commit, after fsync: a crash at any
 * moment leaves the old file or the new one. `abort` removes the temporary, and
 * `create` those that writers of `path` left when they were killed. Files are
 * refused by the name of a temporary, to open and to write (src/os/replace.h).
 * After a failed append or end only commit and abort make sense: both clean up.
 * `append` adds its bytes to task->done and leaves task->total to the caller. */
int aether_writer_create(const char *path, uint32_t content, aether_writer **out, aether_error *err);
int aether_writer_begin(aether_writer *w, uint32_t kind, uint32_t owner, uint32_t dtype, aether_error *err);
int aether_writer_append(aether_writer *w, const void *data, uint64_t size, aether_task *task,
                         aether_error *err);
int aether_writer_end(aether_writer *w, aether_error *err);
int aether_writer_commit(aether_writer *w, aether_error *err); /* releases w, also on failure */
void aether_writer_abort(aether_writer *w);                    /* releases w */

/* The same for a file of any content: the bytes go to the offsets given, `commit`
 * replaces, `abort` removes the temporary. */
typedef struct aether_replace aether_replace;
int aether_replace_begin(const char *path, aether_replace **out, aether_error *err);
int aether_replace_write(aether_replace *r, const void *data, uint64_t size, uint64_t offset,
                         aether_error *err);
int aether_replace_commit(aether_replace *r, aether_error *err); /* releases r, also on failure */
void aether_replace_abort(aether_replace *r);                    /* releases r; NULL is fine */

/* ---- building ---------------------------------------------------------- */

/* Stable counting sort of an edge list into compressed lists.
 *   major[E], minor[E]  ids to group by / to store (CSC: major = dst, minor = src)
 *   indptr[num_major+1], indices[E] of id_bytes (4|8), order[E] of order_bytes
 *   (4|8; may be NULL): input row at each output position.
 * AETHER_E_RANGE names the first bad id: position is the row, value the id.
 * err->message says whether it was major or minor. */
int aether_build_lists(const int64_t *major, const int64_t *minor, uint64_t num_edges, uint64_t num_major,
                       uint64_t num_minor, uint64_t *indptr, void *indices, uint32_t id_bytes, void *order,
                       uint32_t order_bytes, aether_task *task, aether_error *err);

/* Text of lines with num_columns plain integers (1..18 digits) each, between single
 * delimiters: out[num_columns][room] gets the columns. Empty lines are skipped.
 * AETHER_E_FORMAT: anything else, or more than `room` lines; position is the byte
 * at which that line begins. */
int aether_parse_integers(const char *text, uint64_t size, char delimiter, uint32_t num_columns,
                          uint64_t room, int64_t *out, uint64_t *num_rows, aether_error *err);

/* Smallest and largest of n ids (n = 0: both -1). */
int aether_id_bounds(const int64_t *ids, uint64_t n, int64_t *min, int64_t *max, aether_error *err);

/* Check indptr (monotone, 0..num_edges) and every index < num_minor (indices NULL: indptr alone). */
int aether_check_lists(const uint64_t *indptr, uint64_t num_major, const void *indices, uint32_t id_bytes,
                       uint64_t num_edges, uint64_t num_minor, aether_task *task, aether_error *err);

/* Add to *sum a hash of n edges, keyed, which is the same in whatever order they come: edge i, at
 * position begin + i, goes from the list that holds the position to minor[i] (`transposed`: the
 * other way) and has the id edge_ids[i]. Left out (NULL) are indptr and minor, which count as 0
 * then, and edge_ids, as the positions. Other edges have another sum, but for one chance in
 * about 2^64 if they were made by somebody who did not know the key. `task` counts edges. */
int aether_hash_edges(const uint64_t *indptr, uint64_t num_major, const void *minor, uint32_t id_bytes,
                      const void *edge_ids, uint32_t edge_id_bytes, uint64_t begin, uint64_t n,
                      uint32_t transposed, uint64_t key, uint64_t *sum, aether_task *task, aether_error *err);

/* ---- edges as records -------------------------------------------------- */

/* A record: major and minor id (id_bytes each, 4|8), then columns, without gaps. */
typedef struct aether_column {
    const void *data;
    uint32_t bytes; /* of one row */
    uint32_t reserved;
} aether_column;

/* A key inside a record: U32, U64, I64 or F64 (not NaN) at a byte offset. */
typedef struct aether_field {
    uint32_t offset;
    uint32_t dtype;
} aether_field;

/* Rows of columns become records, which take `size` bytes (AETHER_E_INVALID). AETHER_E_RANGE: an
 * id that id_bytes cannot hold; position is the row, value the id. */
int aether_records_pack(const int64_t *major, const int64_t *minor, uint64_t n, uint32_t id_bytes,
                        const aether_column *columns, uint32_t num_columns, void *records, uint64_t size,
                        aether_error *err);

/* A checksum of items of any size, numbered from `first` on: the sum modulo 2^64 of a hash of each
 * and its number, so that sums of pieces add up to that of the whole. sums[0] of all n, or, if
 * counts is not NULL, sums[num_parts] of the counts[i] items from begins[i] on. Against accidents:
 * there is no key. AETHER_E_RANGE: a part that is not within the items. */
int aether_hash_items(const void *items, uint64_t n, uint32_t item_bytes, uint64_t first,
                      const uint64_t *begins, const uint64_t *counts, uint64_t num_parts, uint64_t *sums,
                      aether_error *err);

#define AETHER_MAX_PARTS 65536

/* Stable partition: record i goes to part (key - low) >> shift of num_parts (at
 * most AETHER_MAX_PARTS); `out` has the parts one after the other, counts
 * [num_parts] their sizes. AETHER_E_RANGE: a key in no part. */
int aether_records_partition(const void *records, uint64_t n, uint32_t record_bytes, aether_field field,
                             uint64_t low, uint32_t shift, uint64_t num_parts, uint64_t *counts, void *out,
                             aether_task *task, aether_error *err);

/* Order records (fewer than 2^32 - 1) of the lists low .. low + num_lists - 1:
 *   ends[num_lists]  where each list ends, order[n]  the record at each place.
 * Within a list: as they come, or by `row` (may be NULL), then by `time` (may
 * be NULL), stable. `unique` keeps the first of equal minor ids, before times
 * are looked at; order then has as many entries as the last end says. */
int aether_records_order(const void *records, uint64_t n, uint32_t record_bytes, uint32_t id_bytes,
                         uint64_t low, uint64_t num_lists, const aether_field *row, const aether_field *time,
                         uint32_t unique, uint64_t *ends, uint32_t *order, aether_error *err);

/* ---- gather ------------------------------------------------------------ */

typedef struct aether_rows {
    const void *data; /* row 0; borrowed for the call */
    uint64_t num_rows;
    uint64_t row_items; /* elements per row */
    uint64_t stride;    /* bytes from row to row */
    uint32_t dtype;
    uint32_t reserved;
} aether_rows;

/* out[i] = rows[ids[i]], converted to out_dtype: the same dtype, or a widening
 * one (f16|bf16 -> f32|f64, f32 -> f64, u8|i8|i16|i32 -> wider int, f32, f64).
 * ids of id_bytes (4 unsigned | 8 signed). AETHER_E_RANGE names id and position.
 * AETHER_E_INVALID: out_size is not what the n rows take in out_dtype. */
int aether_gather(const aether_rows *rows, const void *ids, uint32_t id_bytes, uint64_t n, void *out,
                  uint64_t out_size, uint32_t out_dtype, aether_task *task, aether_error *err);

/* ---- topology ---------------------------------------------------------- */

typedef struct aether_lists {
    uint64_t num_major; /* lists */
    uint64_t num_minor; /* ids are below this */
    uint64_t num_edges;
    const uint64_t *indptr; /* borrowed for the topology's life */
    const void *indices;    /* borrowed for the topology's life */
    const void *edge_ids;   /* by position, of edge_id_bytes; NULL: the position itself. Handed out
                               as they are: no value of them is ever checked */
    uint32_t id_bytes;      /* 4 or 8 */
    uint32_t edge_id_bytes; /* 4 or 8 */
} aether_lists;

typedef struct aether_topology aether_topology;

/* Checks indptr[0] and indptr[num_major]; every list is checked when it is used. */
int aether_topology_create(const aether_lists *lists, aether_topology **out, aether_error *err);
void aether_topology_destroy(aether_topology *t);
uint64_t aether_topology_memory(const aether_topology *t); /* bytes held, borrowed ones not counted */

/* Ids compressed in blocks of 128 (FORMAT.md, src/store/blocks.h). */
typedef struct aether_blocks {
    const void *blocks; /* borrowed for the topology's life, as all of lists */
    uint64_t blocks_size;
    const void *index; /* aligned to 8 bytes */
    uint64_t index_size;
} aether_blocks;

/* The same over ids that are compressed: lists->indices is NULL, and id_bytes that of the
 * ids that were encoded. AETHER_E_CORRUPT: the index has another size than the edges ask
 * for. Blocks are checked when they are used. */
int aether_topology_create_compressed(const aether_lists *lists, const aether_blocks *blocks,
                                      aether_topology **out, aether_error *err);

/* Encode n ids of id_bytes (4|8) into blocks, one after the other, by all threads:
 * `used` bytes of `out`, which has aether_encode_bound() of them or more (`room`), and the size
 * of each of its blocks in sizes[ceil(n / 128)]. Further ids may follow if n is a multiple of 128.
 * `task` counts ids. */
uint64_t aether_encode_bound(uint64_t n, uint32_t id_bytes);
int aether_encode_blocks(const void *ids, uint32_t id_bytes, uint64_t n, void *out, uint64_t room,
                         uint16_t *sizes, uint64_t *used, aether_task *task, aether_error *err);

/* Ids at n positions (NULL: those from `begin` on), by all threads, as id_bytes (4|8) each;
 * 4 takes ids below 2^32. Every id is checked: AETHER_E_CORRUPT names the first position
 * whose id is too large or in a damaged block. AETHER_E_RANGE: there is no such position.
 * `task` counts ids. */
int aether_topology_ids(const aether_topology *t, const int64_t *positions, uint64_t begin, uint64_t n,
                        void *out, uint32_t id_bytes, aether_task *task, aether_error *err);

/* Degrees of n nodes (nodes NULL: of 0..n-1). `task` counts nodes. */
int aether_topology_degrees(const aether_topology *t, const int64_t *nodes, uint64_t n, int64_t *out,
                            aether_task *task, aether_error *err);
/* Lists of n nodes, one after the other, into neighbors/edges (either may be
 * NULL); `capacity` is their length and at least the sum of the degrees. After
 * an error they hold some of the lists. `task` counts entries. */
int aether_topology_neighbors(const aether_topology *t, const int64_t *nodes, uint64_t n, int64_t *neighbors,
                              int64_t *edges, uint64_t capacity, aether_task *task, aether_error *err);

/* Where the list of major[i] holds minor[i], for n pairs in ascending order of
 * (major, minor); pairs may repeat. Hit h is pairs[h] at positions[h], hits being
 * in order of major, then of position. Of more than `capacity` hits the rest is
 * counted, not written. Each list is read once. */
int aether_find_edges(const aether_topology *t, const int64_t *major, const int64_t *minor, uint64_t n,
                      uint64_t *pairs, uint64_t *positions, uint64_t capacity, uint64_t *num_hits,
                      aether_task *task, aether_error *err);

/* ---- sampling ---------------------------------------------------------- */

#define AETHER_SAMPLE_REPLACE  1
#define AETHER_SAMPLE_DISJOINT 2
#define AETHER_SAMPLE_INDUCED  4
#define AETHER_SAMPLE_LATEST   8  /* of those in time the last ones, instead of any; where there are times */
#define AETHER_SAMPLE_LAYERED  16 /* every hop expands all nodes so far, not only those of the hop before */

#define AETHER_TIMES_OF_EDGES 1
#define AETHER_TIMES_OF_NODES 2

/* Edges that a sample must not hold, by position in the lists of one relation:
 * ascending, distinct. A node draws as if its list did not have them. */
typedef struct aether_excluded {
    const uint64_t *positions;
    uint64_t count;
} aether_excluded;

typedef struct aether_sample_options {
    uint64_t key;           /* the sample is a pure function of key, seeds and graph */
    const int64_t *fanouts; /* num_hops values; -1 takes every neighbour */
    uint32_t num_hops;
    uint32_t flags;       /* AETHER_SAMPLE_* */
    uint32_t num_threads; /* 0: the pool's; 1: the calling thread only. The hops use it;
                             collecting an induced subgraph's edges is one thread's work */
    uint32_t reserved;
    const aether_excluded *exclude; /* [relations]; NULL: none */
    aether_task *task;              /* looked at by the call and by the export of its result; NULL: none */
} aether_sample_options;

typedef struct aether_sampler aether_sampler;

/* Scratch memory for sampling from `t`, which must outlive it. It grows to what
 * the largest sample so far took and stays that large until destroy. */
int aether_sampler_create(const aether_topology *t, aether_sampler **out, aether_error *err);
void aether_sampler_destroy(aether_sampler *s);
uint64_t aether_sampler_memory(const aether_sampler *s); /* bytes of scratch held */

/* Sample; the result stays in `s` until the next call.
 *   hop_nodes[num_hops+1]  new nodes per hop (hop 0: the seeds, duplicates kept)
 *   hop_edges[num_hops]    edges per hop (induced: zeros, see num_edges)
 *   totals[2]              nodes, edges
 * Seeds that are the same node have a slot each, with the same edges into it;
 * where the node is a source, the first slot is named. (Disjoint: every slot
 * draws its own.)
 * Without replacement every set of `fanout` neighbours of a node is as likely as
 * any other, but the order within the set is not random: whoever cuts an answer
 * short does not get a fair smaller sample. */
int aether_sample(aether_sampler *s, const int64_t *seeds, uint64_t num_seeds,
                  const aether_sample_options *options, uint64_t *hop_nodes, uint64_t *hop_edges,
                  uint64_t *totals, aether_error *err);

/* Copy the last result out, as int64 (out_bytes 8) or int32 (4), into arrays of the
 * lengths given, which are those of the sample (AETHER_E_INVALID):
 *   node[num_nodes] ids; row[num_edges] local source; col[num_edges] local destination,
 *   non-decreasing (layered: within each hop);
 *   edge[num_edges] edge ids; batch[num_nodes] seed slot (disjoint only). NULL skips one.
 * int32 takes a graph of fewer than 2^31 nodes and edges and a sample of fewer
 * nodes, else AETHER_E_LIMIT; of larger values in edge_ids it keeps the low 32
 * bits. */
int aether_sample_export(const aether_sampler *s, uint32_t out_bytes, uint64_t num_nodes, uint64_t num_edges,
                         void *node, void *row, void *col, void *edge, void *batch, aether_error *err);

/* The same over several node types and edge types. In every hop the edge types
 * take their turns in order, each expanding the nodes of its type `from` that
 * the hop before has added. */
typedef struct aether_weight_sums aether_weight_sums;

typedef struct aether_values aether_values; /* numbers that stay in a file (src/store/values.h) */

typedef struct aether_relation {
    const aether_topology *topology; /* a list for each node of type `from`... */
    uint32_t from, to;               /* ...that holds nodes of type `to` */
    const void *weights;             /* F32 or F64 by edge id, finite; NULL: all alike */
    uint32_t weight_dtype;
    uint32_t time_dtype; /* I64 or F64 */
    const void *times;   /* by edge id, or by node of type `to`; NULL: always visible */
    uint32_t times_of;   /* AETHER_TIMES_OF_EDGES or _NODES */
    uint32_t reserved;
    const aether_weight_sums *sums; /* of these weights; NULL: every weight of a list is read */
    /* The same weights and times, and the entries of the lists (for times of nodes), where they
     * are to be read from their file; NULL: from the arrays. Edge ids are positions then. */
    const aether_values *weights_in_file, *times_in_file, *ids_in_file;
} aether_relation;

/* Sums of the weights of long lists (src/sample/sums.h), 16 bytes per 64 edges: draws
 * from such lists, and their samples, are others than without. Reads all weights:
 * AETHER_E_INVALID names an edge whose weight is negative or not finite. Borrows
 * nothing. `task` counts edges. */
int aether_weight_sums_create(const aether_topology *t, const void *weights, uint32_t dtype,
                              aether_weight_sums **out, aether_task *task, aether_error *err);
void aether_weight_sums_destroy(aether_weight_sums *sums);
uint64_t aether_weight_sums_memory(const aether_weight_sums *sums);

/* A seed with bounds sees edges with since <= time <= until, in every hop of its
 * tree; bounds need a disjoint sample. F64 times are compared through
 * aether_time_of_double(), which has to be applied to their bounds. */
typedef struct aether_seeds {
    const int64_t *ids;
    uint64_t count;
    const int64_t *since; /* NULL: from the beginning */
    const int64_t *until; /* NULL: to the end */
} aether_seeds;

/* An int64 for each time, in the same order. */
void aether_time_of_double(const double *times, uint64_t n, int64_t *out);

/* Sampling in time needs lists that are sorted by it: AETHER_E_INVALID with the
 * first node (position) whose list is not, or holds NaN. */
int aether_check_times(const aether_relation *relation, aether_task *task, aether_error *err);

int aether_sampler_create_typed(const aether_relation *relations, uint32_t num_relations,
                                const uint64_t *num_nodes, uint32_t num_types, aether_sampler **out,
                                aether_error *err);

/*   options->fanouts[relations][hops], seeds[types],
 *   hop_nodes[types][hops+1], hop_edges[relations][hops],
 *   num_nodes[types], num_edges[relations]
 * In a disjoint sample seeds are numbered through the types in order. */
int aether_sample_typed(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                        uint64_t *hop_nodes, uint64_t *hop_edges, uint64_t *num_nodes, uint64_t *num_edges,
                        aether_error *err);

/* Several samples of the same fanouts and flags at once, layer by layer: each is the one
 * that aether_sample_typed makes, but what they read out of core is read together. */
typedef struct aether_group aether_group;

typedef struct aether_group_options {
    uint32_t capacity;     /* samples at once: 1 to 4095 */
    uint32_t num_threads;  /* 0: the pool's; 1: the calling thread only */
    uint64_t window_bytes; /* of each of the four buffers that are read into; 0: the default */
} aether_group_options;

/* Relations and node types as for aether_sampler_create_typed. */
int aether_group_create(const aether_relation *relations, uint32_t num_relations, const uint64_t *num_nodes,
                        uint32_t num_types, const aether_group_options *options, aether_group **out,
                        aether_error *err);
void aether_group_destroy(aether_group *g);
uint64_t aether_group_memory(const aether_group *g); /* bytes held now */

/* Make n samples, from seeds[n][types] and options[n], which differ in key and exclude
 * only; samples that were made before and not taken are dropped. After an error none is
 * made, and if it is about the input of one, `failed` is that one. What exclude points to
 * is read until its sample has been taken. `task` counts edges. */
int aether_group_sample(aether_group *g, const aether_seeds *seeds, const aether_sample_options *options,
                        uint32_t n, uint32_t *failed, aether_task *task, aether_error *err);

/* Edges of a relation in each of the samples that were made and not taken: how many, and aether_hash_ids of
 * their ids, in the order of export. AETHER_E_UNSUPPORTED: not known yet (induced samples), or ids are not
 * positions. */
int aether_group_edges(const aether_group *g, uint32_t relation, uint64_t *counts, uint64_t *hashes,
                       aether_error *err);
/* Values of these edges, by edge id, of one sample after the other; each page is read once for all of them.
 */
int aether_group_gather(aether_group *g, uint32_t relation, const aether_values *values, void *out,
                        uint64_t out_size, aether_task *task, aether_error *err);

/* Complete sample i, once. It stays in `out`, for export, until another is taken or made,
 * or its memory is released; `task` is looked at until then. */
int aether_group_take(aether_group *g, uint32_t i, uint64_t *hop_nodes, uint64_t *hop_edges,
                      uint64_t *num_nodes, uint64_t *num_edges, aether_sampler **out, aether_task *task,
                      aether_error *err);
void aether_group_release(aether_group *g);

/* HGT sampling (Hu, Dong, Wang and Sun, "Heterogeneous Graph Transformer", WWW 2020):
 * in each hop num_samples nodes of every type, from those next to what was sampled
 * before, in proportion to the square of the sum of 1 / degree over the edges to it.
 * The edges are all those among the sampled nodes. See src/sample/hgt.h. */
typedef struct aether_hgt_options {
    uint64_t key;               /* the sample is a pure function of key, seeds and graph */
    const int64_t *num_samples; /* [types][hops], not negative */
    uint32_t num_hops;
    uint32_t max_neighbors; /* of a longer list only so many, at random, are seen in a hop; 0: all */
    aether_task *task;      /* as in aether_sample_options */
} aether_hgt_options;

/* On a sampler of aether_sampler_create_typed; seeds[types] have no bounds.
 *   hop_nodes[types][hops+1], num_nodes[types], num_edges[relations]
 * Nodes of a hop come in the order of their draws. */
int aether_sample_hgt(aether_sampler *s, const aether_seeds *seeds, const aether_hgt_options *options,
                      uint64_t *hop_nodes, uint64_t *num_nodes, uint64_t *num_edges, aether_error *err);

/* Nodes and edges of the last result by type, `count` of them; see aether_sample_export. */
int aether_sample_export_nodes(const aether_sampler *s, uint32_t type, uint32_t out_bytes, uint64_t count,
                               void *node, void *batch, aether_error *err);
int aether_sample_export_edges(const aether_sampler *s, uint32_t relation, uint32_t out_bytes, uint64_t count,
                               void *row, void *col, void *edge, aether_error *err);
/* All of a layered sample, one after the other: the nodes of each type; then of each
 * relation the rows, the edge ids and, in the place of col, hop by hop, where among the
 * edges of the hop those of each node begin, and the end of the last: one for every node
 * of type `from` so far, and one more. `count` is how many numbers there are in all. */
int aether_sample_export_layers(const aether_sampler *s, int64_t *out, uint64_t count, aether_error *err);

/* The generator behind sampling (src/core/rng.h), for oracles and tests:
 * out[i] = draw i of the stream (key, hop, edge type, node, seed). */
void aether_rng_draws(uint64_t key, uint32_t hop, uint32_t relation, uint64_t node, uint64_t seed, uint64_t n,
                      uint64_t *out);
/* A hash of ids, their order and their number, for keys: the same on every platform. */
uint64_t aether_hash_ids(const int64_t *ids, uint64_t n);
/* The same whatever their order. */
uint64_t aether_hash_id_set(const int64_t *ids, uint64_t n);

/* ---- random walks ------------------------------------------------------ */

/* Table for drawing from each list by weight (src/sample/alias.h): table[num_edges] by
 * position, from weights[num_edges] by edge id, f32 or f64. AETHER_E_INVALID names an edge
 * whose weight is negative or not finite. `task` counts edges. */
int aether_alias_build(const aether_topology *t, const void *weights, uint32_t dtype, uint64_t *table,
                       uint64_t num_edges, aether_task *task, aether_error *err);

/* Table for asking whether an edge exists (src/sample/members.h): members[num_edges] of
 * the topology's id_bytes. */
int aether_members_build(const aether_topology *t, void *members, uint64_t num_edges, aether_task *task,
                         aether_error *err);

#define AETHER_WALK_PAD 1 /* after a dead end: -1 instead of the last node */

typedef struct aether_walk_options {
    uint64_t key;          /* walk i is a pure function of key, i, starts[i] and graph */
    uint64_t length;       /* steps */
    double p, q;           /* node2vec's return and in-out parameters; both 1: first order */
    double restart;        /* chance of going back to the start, at each step */
    const uint64_t *alias; /* of this topology; NULL: all edges weigh the same */
    const void *members;   /* of this topology; NULL: lists are searched (only if q is not 1) */
    uint32_t flags;        /* AETHER_WALK_* */
    uint32_t num_threads;  /* 0: the pool's; 1: the calling thread only */
} aether_walk_options;

/* Walks along the lists from each of n starts: out[n][length + 1], the start first.
 * A walk at a node without a list (or with weights of zero only) ends there: the
 * rest of its row repeats that node; with `restart` it goes back to its start.
 * AETHER_E_RANGE names the first start that is no node. `task` counts walks. */
int aether_random_walk(const aether_topology *t, const int64_t *starts, uint64_t n,
                       const aether_walk_options *options, int64_t *out, aether_task *task,
                       aether_error *err);

/* k neighbours of each of n nodes, out[n][k]: without replacement (a shorter list is
 * taken whole, -1 fills its row), or with it (AETHER_SAMPLE_REPLACE). The draws are
 * those of a disjoint sample's first hop with that key. `task` counts nodes. */
int aether_fanout(const aether_topology *t, const int64_t *nodes, uint64_t n, uint64_t k, uint64_t key,
                  uint32_t flags, uint32_t num_threads, int64_t *out, aether_task *task, aether_error *err);

/* ---- reading ranges of a file ------------------------------------------ */

#define AETHER_IO_AUTO  0 /* AETHERGRAPH_IO if it is set, else the first that works of the tiers below */
#define AETHER_IO_URING 1 /* io_uring, a ring per thread */
#define AETHER_IO_PREAD 2 /* pread in threads of their own; works everywhere */

#define AETHER_IO_SIZES 9 /* reads of up to 4 KiB, 8 KiB, ... 1 MiB */

typedef struct aether_io_options {
    uint32_t tier;   /* AETHER_IO_* */
    uint32_t direct; /* 1: past the page cache, if the file system can; 0: through it */
    uint32_t depth;  /* reads under way at once, for each calling thread: 1 to 256; 0: 128 */
    uint32_t reserved;
} aether_io_options;

typedef struct aether_io_info {
    uint32_t tier;   /* AETHER_IO_URING or AETHER_IO_PREAD */
    uint32_t direct; /* whether reads go past the page cache */
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
    /* of `reads`, by size: those above the one before and up to 4096 << i bytes, and what they asked for */
    uint64_t size_reads[AETHER_IO_SIZES];
    uint64_t size_bytes[AETHER_IO_SIZES];
} aether_io_stats;

/* A file to read ranges from. May be shared by threads. */
typedef struct aether_io aether_io;

/* Whether a tier works in this process, found out by reading through it: 0, or
 * AETHER_E_UNSUPPORTED and why. */
int aether_io_probe(uint32_t tier, aether_error *err);

/* Open a regular file; `options` NULL: all zeros. The file must not change while
 * it is open. AETHER_E_NOT_FOUND, _IO; _UNSUPPORTED for a tier that was asked for
 * (here or by AETHERGRAPH_IO) and does not work; _INVALID. */
int aether_io_open(const char *path, const aether_io_options *options, aether_io **out, aether_error *err);
void aether_io_close(aether_io *io); /* no thread is reading from it */
void aether_io_describe(const aether_io *io, aether_io_info *out);
void aether_io_count(const aether_io *io, aether_io_stats *out);

/* Read n ranges, which may overlap, in any order; returns when all are there. After
 * an error the buffers hold some of the bytes, and none is written any more.
 * AETHER_E_RANGE names the first request (position) past the end of the file;
 * _FILE_CHANGED: the file has become shorter; _IO names the offset (position).
 * Ranges and buffers need not be aligned: what is not is read through a buffer and
 * copied. `task` counts bytes. */
int aether_io_read(aether_io *io, const aether_io_request *requests, uint64_t n, aether_task *task,
                   aether_error *err);

/* Lists whose offsets (uint64, at byte indptr_at of the file) are read now and kept
 * compressed, and whose ids (at byte indices_at) stay in the file, to be read page by
 * page when they are asked for. `lists` says how many there are and of what size;
 * its indptr is not used, its indices may be NULL, or mapped from the same file: entries
 * near each other are read there. The topology borrows `io`. AETHER_E_CORRUPT:
 * offsets that descend or do not end at num_edges. `task` counts bytes. */
int aether_topology_create_paged(const aether_lists *lists, aether_io *io, uint64_t indptr_at,
                                 uint64_t indices_at, aether_task *task, aether_topology **out,
                                 aether_error *err);

/* The same over ids that are compressed: their blocks lie at byte blocks_at, the index of
 * them, which is read now as well, at index_at. `blocks` gives the sizes of both; its
 * blocks and index may be NULL, or mapped from the same file. Blocks are checked when they are
 * used. AETHER_E_CORRUPT: an index that cannot be. */
int aether_topology_create_paged_blocks(const aether_lists *lists, const aether_blocks *blocks, aether_io *io,
                                        uint64_t indptr_at, uint64_t blocks_at, uint64_t index_at,
                                        aether_task *task, aether_topology **out, aether_error *err);

/* Let it keep the pages that samples made one by one use most, within `bytes`: once, before
 * it is used. What it keeps is found by groups as well. Afterwards: the bytes taken so far. */
int aether_topology_keep_pages(aether_topology *t, uint64_t bytes, aether_error *err);
uint64_t aether_topology_kept(const aether_topology *t);

/* `count` values of `item_bytes` (a power of two up to 64) at `offset` (a multiple of 64) of a file. Samplers
 * of such lists take those of 4 or 8 bytes (aether_relation). Borrows `io`. */
int aether_values_open(aether_io *io, uint64_t offset, uint64_t count, uint32_t item_bytes,
                       aether_values **out, aether_error *err);
void aether_values_close(aether_values *values);

/* The pages that are used most are kept, as those of a topology, from now on; one thread does it, once. Or,
 * of ids of lists: the pages that the topology, which must live longer, keeps are used. */
int aether_values_keep_pages(aether_values *values, uint64_t bytes, aether_error *err);
int aether_values_share_pages(aether_values *values, const aether_topology *t, aether_error *err);
uint64_t aether_values_kept(const aether_values *values);

/* Memory of one caller's aether_values_gather calls, kept from call to call: four windows of `window_bytes`
 * and up to `span_bytes` for sorting. `learn`: from these calls which pages are used most. */
typedef struct aether_staging aether_staging;
int aether_staging_create(uint64_t window_bytes, uint64_t span_bytes, aether_staging **out,
                          aether_error *err);
void aether_staging_destroy(aether_staging *staging);
void aether_staging_learn(aether_staging *staging, int learns);
/* What its calls have read so far, and the bytes that it holds. */
void aether_staging_count(const aether_staging *staging, uint64_t *reads, uint64_t *bytes, uint64_t *memory);

/* Values number positions[0..n) to `out`, in that order. Each page that they lie on is read once; where so
 * many positions lie so far apart that sorting them takes more than `span_bytes`, once for each part of them
 * that does not. */
int aether_values_gather(const aether_values *values, const uint64_t *positions, uint64_t n, void *out,
                         uint64_t out_size, aether_staging *staging, aether_task *task, aether_error *err);

/* ---- rows of a file ------------------------------------------------------ */

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

/* Counts since opening, of all threads; hot rows that were read then do not count. A
 * forked child counts on, its cache anew. */
typedef struct aether_row_stats {
    uint64_t rows;         /* asked for */
    uint64_t hits;         /* of them found in the cache */
    uint64_t frames_read;  /* what was missing, each once for a block of ids */
    uint64_t reads;        /* ranges asked of the I/O engine for it */
    uint64_t direct_rows;  /* read straight to their place */
    uint64_t device_reads; /* asked of the system */
    uint64_t device_bytes; /* that came back from it */
    uint64_t wait_ns;      /* that threads spent in the system: submitting and waiting */
    uint64_t frame_rows;   /* rows that are cached together: 1, or more if they are small */
    uint64_t frames;       /* the cache has room for so many */
    uint64_t frames_held;
    uint64_t hot_frames;
    uint64_t inserted;
    uint64_t evicted;
    uint64_t budget;
    uint64_t cache_bytes; /* of the budget, for the cache and its index */
    uint64_t work_bytes;  /* of the budget, for reads under way and sorting */
    uint32_t tier;        /* AETHER_IO_URING or AETHER_IO_PREAD */
    uint32_t direct;      /* whether reads go past the page cache */
} aether_row_stats;

/* Rows that are gathered from a file through a cache. May be shared by threads. */
typedef struct aether_row_file aether_row_file;

/* AETHER_E_INVALID: among others a memory that is too small; the message has the least.
 * AETHER_E_TRUNCATED: the file ends before the last row; _RANGE: a hot row that there is not;
 * otherwise as aether_io_open. `task` counts hot rows. */
int aether_row_open(const char *path, const aether_row_options *options, aether_task *task,
                    aether_row_file **out, aether_error *err);
void aether_row_close(aether_row_file *f); /* no thread is gathering from it */

/* As aether_gather. AETHER_E_FILE_CHANGED: the file was written to or became shorter;
 * AETHER_E_IO: a read failed. `task` counts ids. */
int aether_row_gather(aether_row_file *f, const void *ids, uint32_t id_bytes, uint64_t n, void *out,
                      uint64_t out_size, uint32_t out_dtype, aether_task *task, aether_error *err);
void aether_row_count(const aether_row_file *f, aether_row_stats *out);

/* ---- rows that are known ahead -------------------------------------------- */

typedef struct aether_row_plan_stats {
    uint64_t lists;
    uint64_t next;        /* lists that have been gathered */
    uint64_t rows;        /* of all lists */
    uint64_t hits;        /* of them found in the cache */
    uint64_t frames_read; /* each once for a list that does not find it: the fewest possible */
    uint64_t frames_lent; /* of the cache, to this plan */
    uint64_t bytes;       /* of memory, outside the file's */
} aether_row_plan_stats;

/* Gathers that will be asked for, one list of ids after the other. While there is a plan it has what of
 * the cache is not hot, and decides what stays there: what is used again soonest. Other plans and
 * gathers then find hot rows only. Serves one thread at a time. */
typedef struct aether_row_plan aether_row_plan;

/* List i is ids[ends[i - 1]..ends[i]), the first from 0 on; ids are borrowed. AETHER_E_RANGE: an id. */
int aether_row_plan_create(aether_row_file *f, const uint64_t *ids, const uint64_t *ends, uint64_t num_lists,
                           aether_row_plan **out, aether_error *err);
void aether_row_plan_destroy(aether_row_plan *p); /* its file may have been closed before */

/* Gather the next list, out_size being as for aether_gather. After a failure there is no next one. */
int aether_row_plan_gather(aether_row_plan *p, void *out, uint64_t out_size, uint32_t out_dtype,
                           aether_task *task, aether_error *err);
void aether_row_plan_count(const aether_row_plan *p, aether_row_plan_stats *out);

/* CFFI END */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif /* AETHER_H */
