/*
 * aether.h - graphs in memory and in files: samples of them, walks, and rows.
 *
 * Purpose
 *   What every program needs: errors, tasks, files, topologies, samplers, export, walks, rows. What only
 *   some need is beside it, in tiers that include this header:
 *
 *     aether/build.h         lists from edges, packed records, maps of keys, orders of nodes
 *     aether/io.h            what is larger than memory: reads, page caches, rows of a file
 *     aether/live.h          graphs and rows that change while they are read, and their journals
 *     aether/experimental.h  what may change in any release; it says how to switch it on
 *     aether/topology.h      a topology of your own; experimental, too
 *
 *   Their functions are all that the library exports. The text between the two CFFI markers of each tier
 *   is read verbatim by native/build_cffi.py, so it holds plain declarations and integer #defines only.
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
 *                                                               | node ids
 *                                              aether_gather -> caller's rows
 *
 *                    aether_topology [, alias and member tables]
 *                                    |
 *                    aether_random_walk, aether_fanout -> caller's arrays
 *
 * What to call, in which order (native/examples/sample.c is a whole program)
 *
 *   1. A graph in a file ("Container files")
 *        aether_file_open, aether_file_section and aether_file_data give the arrays for step 2.
 *        Call aether_guard before reading them and aether_file_check after.
 *      Writing one ("Writing files"): aether_writer_create; for each section aether_writer_begin,
 *      _append, _end; then aether_writer_commit.
 *   2. Neighbour samples of a graph in memory, or mapped
 *        aether_build_lists          edge list -> indptr, indices (aether/build.h)
 *        aether_topology_create      the arrays as a graph ("Topologies")
 *        aether_sampler_create       scratch memory of one thread ("Sampling: one node type")
 *        for each batch:
 *          aether_sample             counts; the sample stays in the sampler
 *          aether_sample_export      nodes and edges into arrays of those lengths
 *          aether_gather             rows of the nodes ("Gathering rows")
 *        aether_sampler_destroy, aether_topology_destroy
 *   3. Several node types, weights or times ("Sampling: several node types", "Export of typed samples")
 *        aether_sampler_create_typed, then for each batch aether_sample_typed,
 *        aether_sample_export_typed, or aether_sample_export_nodes per node type and
 *        aether_sample_export_edges per relation.
 *        aether_weight_sums_create first makes draws from long weighted lists cheap;
 *        aether_check_times first, for every relation with times.
 *   4. Many batches at once, of a graph larger than memory (aether/io.h): aether_group_create,
 *      aether_group_sample, then aether_group_take for each of them ("Sampling: many batches at once").
 *   5. Random walks: aether_topology_create, then aether_random_walk ("Random walks").
 *
 * Rules, of all tiers
 *   - Functions return 0 or a negative AETHER_E_* code and fill `err` (may be
 *     NULL). They never abort, and call back through aether_task.poll, aether_note_fn,
 *     aether_ask_fn and aether_live_memory alone.
 *   - Where the length of a result depends on a file, a plan or a sample, the function takes
 *     the length of the array to fill as well, and returns AETHER_E_INVALID if the two differ.
 *     No length is taken where the arguments decide it (as n does), or the counts of node types,
 *     edge types and hops that the caller made the handle with.
 *   - Memory passed in is borrowed for the call, unless the function says that
 *     the handle keeps borrowing it; the caller then keeps it alive.
 *   - A struct whose first field is `size` is set to zeros, and that field to its sizeof: a later version
 *     may have more fields at its end, which then are zero.
 *   - Handles made by open/create are released by close/destroy, which accept
 *     NULL. A handle is used by one thread at a time, except aether_file,
 *     aether_topology, aether_weight_sums, aether_io, aether_values and
 *     aether_row_file, which may be shared; aether_live and aether_snapshot by their
 *     readers.
 *   - After fork() a child may go on using its handles: mappings are private or
 *     read-only, and the thread pool starts anew. Exceptions: aether_writer,
 *     aether_replace and aether_row_plan belong to the process that made them; the
 *     child can only abort or destroy them.
 *   - A topology groups edges by one end: the list of a `major` node holds the `minor` ids of
 *     its edges (CSC: major = destination, minor = source). An edge's position is its index
 *     over all lists, one after the other. Its edge id is the position, unless the topology
 *     has edge_ids.
 *   - `task` may be NULL everywhere. "`task` counts X" says the unit of done and total.
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
 * minor version may change any declaration, a new patch version only those of
 * aether/experimental.h. */
#define AETHER_VERSION_MAJOR 0
#define AETHER_VERSION_MINOR 1
#define AETHER_VERSION_PATCH 0

/* ---- Errors -------------------------------------------------------------- */

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
#define AETHER_E_EXPIRED      (-14)
#define AETHER_E_DISK_FULL    (-15)
#define AETHER_E_TORN         (-16)
#define AETHER_E_MISSING_ROW  (-17)

/* Details of a failed call, in memory of the caller. */
typedef struct aether_error {
    int32_t code;      /* AETHER_E_* */
    int32_t os_errno;  /* errno, or 0 */
    int64_t position;  /* index or byte offset of the offending value, or -1 */
    int64_t value;     /* the offending value, if `position` is not -1 */
    char message[488]; /* UTF-8 text, NUL-terminated */
} aether_error;

/* One row of the error table. */
typedef struct aether_error_entry {
    int32_t code;
    const char *name; /* of AETHER_E_<name> */
    const char *text; /* one line */
} aether_error_entry;

/* Return row i of the table of all error codes, or NULL past its end. */
const aether_error_entry *aether_error_table(uint32_t i);

/* ---- Library ------------------------------------------------------------- */

/* Return the version of the library, "major.minor.patch". */
const char *aether_version(void);
/* Return compiler, architecture, sanitizers and CPU dispatch in one line of text. */
const char *aether_build_info(void);

/* Return how many threads the pool uses: the number set last, else AETHERGRAPH_NUM_THREADS, else
 * the cores that this process may use (affinity and cgroup quota). */
int aether_get_num_threads(void);
/* Set how many threads the pool uses: 1 to 256, or 0 for the default. */
int aether_set_num_threads(int n, aether_error *err);

/* State that a long call shares with its caller, who sets it to zeros first. While the call runs,
 * another thread may read `done` and `total` (bytes or items) and set `cancel` to 1. If the
 * process's main thread makes the call, it asks `poll` (may be NULL) about every 50 ms in that
 * thread; a result other than 0 sets `cancel`. `poll` may call this library, and read what the call
 * reads. */
typedef struct aether_task {
    volatile int32_t cancel;
    int32_t reserved;
    volatile uint64_t done;
    volatile uint64_t total;
    int32_t (*poll)(void);
    volatile uint64_t next_poll; /* private to the library */
} aether_task;

/* ---- Element types ------------------------------------------------------- */

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

/* Return the bytes of one element, or 0 if `dtype` is unknown. */
uint32_t aether_dtype_size(uint32_t dtype);

/* ---- Memory -------------------------------------------------------------- */

/* Allocate `size` bytes of zeros, in huge pages where the system grants them. NULL with err on
 * failure. */
void *aether_buffer_alloc(uint64_t size, aether_error *err);
/* Map `size` bytes of shared memory from `offset` on, a multiple of the page size, for reading and writing.
 * The descriptor may be closed afterwards. NULL with err on failure. */
void *aether_buffer_map(int32_t fd, uint64_t offset, uint64_t size, aether_error *err);
/* Free a buffer of these two; `size` is the size it was made with. NULL is fine. */
void aether_buffer_free(void *data, uint64_t size);

/* Return memory to the system that was freed, but is kept for later allocations. */
void aether_trim(void);

/* Copy `size` bytes with all threads; the ranges must not overlap. `task` counts bytes. */
int aether_copy(void *dst, const void *src, uint64_t size, aether_task *task, aether_error *err);

/* ---- Container files (FORMAT.md) ----------------------------------------- */

#define AETHER_CONTENT_GRAPH    1
#define AETHER_CONTENT_FEATURES 2
#define AETHER_CONTENT_KEYS     3

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
#define AETHER_SECTION_KEY_HASHES   16 /* u64[num_keys], ascending: hash by position */
#define AETHER_SECTION_KEY_BUCKETS  17 /* u64[2^bits + 1]: first position by upper bits of the hash */
#define AETHER_SECTION_KEY_IDS      18 /* u32|u64[num_keys]: id by position */
#define AETHER_SECTION_KEY_PLACES   19 /* u32|u64[num_keys]: position by id */
#define AETHER_SECTION_KEY_OFFSETS  20 /* u64[num_keys + 1]: where keys of any length begin */
#define AETHER_SECTION_KEY_BYTES    21 /* u8[]: the keys by position */

/* One section of a container file. */
typedef struct aether_section {
    uint32_t kind;     /* AETHER_SECTION_* */
    uint32_t owner;    /* index of the edge type, node type or array it belongs to */
    uint32_t dtype;    /* AETHER_U8.. */
    uint32_t reserved; /* 0 */
    uint64_t offset;   /* bytes from the file's start, a multiple of 4096 */
    uint64_t size;     /* bytes */
    uint64_t checksum; /* XXH3-64 of the XXH3-64s of its 4 MiB blocks (FORMAT.md) */
} aether_section;

/* A file that is mapped read-only. May be shared by threads. */
typedef struct aether_file aether_file;

/* Map the container at `path`, and check its header, section table and sizes. Checksums of
 * sections are left to aether_file_verify(). Errors: AETHER_E_NOT_FOUND, _IO, _FORMAT, _VERSION,
 * _TRUNCATED, _CORRUPT. */
int aether_file_open(const char *path, aether_file **out, aether_error *err);
/* Unmap and close the file; pointers into it end here. NULL is fine. */
void aether_file_close(aether_file *file);
/* Return AETHER_CONTENT_*; 0 for a file of aether_file_map_raw(). */
uint32_t aether_file_content(const aether_file *file);
/* Return the number of sections. */
uint32_t aether_file_num_sections(const aether_file *file);
/* Return the file's size in bytes when it was opened. */
uint64_t aether_file_size(const aether_file *file);
/* Describe section i. AETHER_E_RANGE: there is no section i. */
int aether_file_section(const aether_file *file, uint32_t i, aether_section *out, aether_error *err);
/* Return the mapped bytes of section i, or NULL if i is out of range. */
const void *aether_file_data(const aether_file *file, uint32_t i);
/* Read every section and compare checksums. AETHER_E_CORRUPT names the first bad section.
 * `task` counts bytes. */
int aether_file_verify(const aether_file *file, aether_task *task, aether_error *err);
/* Return AETHER_E_FILE_CHANGED if a page of the mapping could not be read any more, the file
 * shrank, or it was written to since it was opened; else AETHER_OK. */
int aether_file_check(const aether_file *file, aether_error *err);

/* Put the signal handler that guards mappings in place again if another library has replaced it
 * (torch does in every worker process). Call this before reading mapped memory, and
 * aether_file_check() after. Cheap. */
void aether_guard(void);

/* Map any regular file read-only, under the guard of aether_guard(); features in .npy files, say.
 * The file has content 0 and no sections. */
int aether_file_map_raw(const char *path, aether_file **out, aether_error *err);
/* Return the first byte of the mapping; NULL if the file is empty. */
const void *aether_file_base(const aether_file *file);
/* Return the descriptor of a file, open for reading; it stays the file's. -1 for NULL. */
int32_t aether_file_descriptor(const aether_file *file);

/* ---- Writing files ------------------------------------------------------- */

/* A container that is being written beside `path` and replaces it on commit. A crash at any
 * moment leaves the old file or the new one. Readers and writers refuse a path that has the name
 * of a temporary (src/os/replace.h). After a failed append, put or end only commit and abort make
 * sense: both clean up. */
typedef struct aether_writer aether_writer;

/* Begin a container with `content` AETHER_CONTENT_*. Removes the temporaries that killed writers
 * of `path` left. */
int aether_writer_create(const char *path, uint32_t content, aether_writer **out, aether_error *err);
/* Begin a section; the arguments are those of aether_section. */
int aether_writer_begin(aether_writer *w, uint32_t kind, uint32_t owner, uint32_t dtype, aether_error *err);
/* Append bytes to the section. Adds `size` to task->done and leaves task->total to the caller. */
int aether_writer_append(aether_writer *w, const void *data, uint64_t size, aether_task *task,
                         aether_error *err);
/* End the section. */
int aether_writer_end(aether_writer *w, aether_error *err);
/* Reserve the place of a section of `size` bytes, between two others; *section is its number for put. */
int aether_writer_reserve(aether_writer *w, uint32_t kind, uint32_t owner, uint32_t dtype, uint64_t size,
                          uint32_t *section, aether_error *err);
/* Fill a reserved section on from what it has; several can be filled in turns. Commit needs all of them
 * full. `task` as for append. */
int aether_writer_put(aether_writer *w, uint32_t section, const void *data, uint64_t size, aether_task *task,
                      aether_error *err);
/* Write the section table and fsync: what is left for commit is the rename. No section may follow.
 * Once more does nothing. */
int aether_writer_finish(aether_writer *w, aether_error *err);
/* Finish, and rename over `path`. Releases w, also on failure. */
int aether_writer_commit(aether_writer *w, aether_error *err);
/* Remove the temporary and release w. NULL is fine. */
void aether_writer_abort(aether_writer *w);

/* ---- Topologies ---------------------------------------------------------- */

/* Arrays of compressed lists (CSC or CSR). */
typedef struct aether_lists {
    uint64_t num_major; /* lists */
    uint64_t num_minor; /* ids are below this */
    uint64_t num_edges;
    const uint64_t *indptr; /* borrowed for the topology's life */
    const void *indices;    /* borrowed for the topology's life */
    const void *edge_ids;   /* by position, of edge_id_bytes; NULL: the position itself. Handed out
                               unchecked; borrowed for the topology's life */
    uint32_t id_bytes;      /* 4 or 8 */
    uint32_t edge_id_bytes; /* 4 or 8 */
} aether_lists;

/* A graph, or one edge type of a graph, to sample from. May be shared by threads. */
typedef struct aether_topology aether_topology;

/* Make a topology of arrays in memory. Checks indptr[0] and indptr[num_major]; every other list
 * and id is checked when it is used. */
int aether_topology_create(const aether_lists *lists, aether_topology **out, aether_error *err);
/* Release a topology; no handle may still borrow it. NULL is fine. */
void aether_topology_destroy(aether_topology *t);
/* Return the bytes that the topology holds, without those that it borrows. */
uint64_t aether_topology_memory(const aether_topology *t);

/* Ids compressed in blocks of 128 (FORMAT.md, src/topology/blocks.h). */
typedef struct aether_blocks {
    const void *blocks; /* borrowed for the topology's life */
    uint64_t blocks_size;
    const void *index; /* aligned to 8 bytes; borrowed for the topology's life */
    uint64_t index_size;
} aether_blocks;

/* Make a topology whose ids are compressed blocks in memory. lists->indices is NULL, and
 * lists->id_bytes is the width of the ids before they were encoded. AETHER_E_CORRUPT: the size of
 * the index does not fit the number of edges. Blocks are checked when they are used. */
int aether_topology_create_compressed(const aether_lists *lists, const aether_blocks *blocks,
                                      aether_topology **out, aether_error *err);

/* Copy the ids at n positions, with all threads, as id_bytes (4|8) each. Every id is checked:
 * AETHER_E_CORRUPT names the first position whose id is too large or lies in a damaged block.
 * AETHER_E_RANGE: a position is not below num_edges. AETHER_E_LIMIT: id_bytes is 4 and ids may be
 * 2^32 or more. `task` counts ids. */
int aether_topology_ids(const aether_topology *t, const int64_t *positions, uint64_t n, void *out,
                        uint32_t id_bytes, aether_task *task, aether_error *err);
/* Copy the ids at the n positions from `begin` on, as aether_topology_ids() does. */
int aether_topology_ids_from(const aether_topology *t, uint64_t begin, uint64_t n, void *out,
                             uint32_t id_bytes, aether_task *task, aether_error *err);

/* Copy the degrees of n nodes to out[n]. nodes NULL: those of 0..n-1. AETHER_E_RANGE names the
 * first bad node. Sets task->total to n; `done` stays 0. */
int aether_topology_degrees(const aether_topology *t, const int64_t *nodes, uint64_t n, int64_t *out,
                            aether_task *task, aether_error *err);

/* Values that a topology keeps itself, beside its edges: a snapshot of a live graph does. Draws by weights of
 * its own are those of the same edges in arrays with sums. */
#define AETHER_OWN_WEIGHTS 1
#define AETHER_OWN_TIMES   2

/* Lists of n nodes, one after the other, and where they are copied: the columns that are not NULL. Weights
 * and times are those that the topology keeps itself. */
typedef struct aether_list_request {
    uint64_t size;        /* sizeof(aether_list_request) */
    const int64_t *nodes; /* NULL: those of 0..n-1 */
    uint64_t n;
    uint64_t capacity; /* length of each column: the sum of the degrees, or more */
    int64_t *neighbors;
    int64_t *edges; /* edge ids */
    double *weights;
    int64_t *times;
} aether_list_request;

/* Copy lists. AETHER_E_UNSUPPORTED: the topology keeps no such values. After an error the columns hold some
 * of the lists. `task` counts entries. */
int aether_topology_neighbors(const aether_topology *t, const aether_list_request *request, aether_task *task,
                              aether_error *err);

/* A column of entries, and where aether_topology_read() copies it: ids as items of item_bytes (4|8),
 * weights as float or double, times as int64. */
#define AETHER_READ_NEIGHBORS 0
#define AETHER_READ_EDGE_IDS  1
#define AETHER_READ_WEIGHTS   2
#define AETHER_READ_TIMES     3
typedef struct aether_entry_column {
    uint32_t what; /* AETHER_READ_* */
    uint32_t item_bytes;
    void *out;
} aether_entry_column;

/* Columns to read, each with room for `capacity` entries. */
typedef struct aether_entry_columns {
    uint64_t size; /* sizeof(aether_entry_columns) */
    const aether_entry_column *columns;
    uint64_t num_columns;
    uint64_t capacity;
} aether_entry_columns;

/* Entry `entry` of the list of `node`; {0, 0} is the first of all. */
typedef struct aether_list_place {
    uint64_t node, entry;
} aether_list_place;

/* Copy where the lists first .. first + n - 1 end, counted on from `before`, to out[n]. `task` counts
 * lists. */
int aether_topology_ends(const aether_topology *t, uint64_t first, uint64_t n, uint64_t before, uint64_t *out,
                         aether_task *task, aether_error *err);
/* Copy some columns of the entries of all lists, list after list from `at` on, as many as there is room for
 * or all that are left: *count. `at` moves on; after an error it stays. AETHER_E_UNSUPPORTED: the topology
 * keeps no such values itself. AETHER_E_LIMIT: item_bytes is 4 and ids may be 2^32 or more. One thread.
 * `task` counts entries. */
int aether_topology_read(const aether_topology *t, const aether_entry_columns *columns, aether_list_place *at,
                         uint64_t *count, aether_task *task, aether_error *err);

/* Edges by their ends, n pairs in ascending order of (major, minor), which may repeat, and where their
 * positions go: hit h is pairs[h] at positions[h], ordered by major, then by position. */
typedef struct aether_edge_search {
    uint64_t size; /* sizeof(aether_edge_search) */
    const int64_t *major, *minor;
    uint64_t n;
    uint64_t *pairs, *positions;
    uint64_t capacity; /* length of the last two: hits beyond it are only counted */
} aether_edge_search;

/* Find where the list of major[i] holds minor[i]; *num_hits counts all hits. Each list is read once. `task`
 * counts pairs. */
int aether_find_edges(const aether_topology *t, const aether_edge_search *search, uint64_t *num_hits,
                      aether_task *task, aether_error *err);

/* Copy the edge ids at n positions that the topology made, such as those of aether_find_edges();
 * `out` may be `positions`. */
int aether_topology_edge_ids(const aether_topology *t, const int64_t *positions, uint64_t n, int64_t *out,
                             aether_error *err);

/* ---- Sampling: options --------------------------------------------------- */

#define AETHER_SAMPLE_REPLACE  1
#define AETHER_SAMPLE_DISJOINT 2
#define AETHER_SAMPLE_INDUCED  4
#define AETHER_SAMPLE_LATEST   8  /* the last of the edges in time, not random ones; where there are times */
#define AETHER_SAMPLE_LAYERED  16 /* every hop expands all nodes so far, not only those of the hop before */

#define AETHER_TIMES_OF_EDGES 1
#define AETHER_TIMES_OF_NODES 2

/* Edges that a sample must not hold, by position in the lists of one relation:
 * ascending, distinct. A node draws as if its list did not have them. */
typedef struct aether_excluded {
    const uint64_t *positions;
    uint64_t count;
} aether_excluded;

/* Settings of one sample. */
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

/* Where the counts of a sample are written. */
typedef struct aether_sample_counts {
    uint64_t size;       /* sizeof(aether_sample_counts) */
    uint64_t *hop_nodes; /* [types][num_hops + 1]: new nodes per hop (hop 0: the seeds, duplicates kept) */
    uint64_t *hop_edges; /* [relations][num_hops]: edges per hop (induced: zeros) */
    uint64_t *num_nodes; /* [types]: of all hops */
    uint64_t *num_edges; /* [relations] */
} aether_sample_counts;

/* Arrays that a sample, or a type or relation of it, is copied to, all of items of item_bytes: int64 (8) or
 * int32 (4). NULL skips one. num_nodes and num_edges are their lengths, and have to be what was sampled (else
 * AETHER_E_INVALID). AETHER_E_LIMIT: int32 takes a graph of fewer than 2^31 nodes and edges,
 * and a sample of fewer nodes; larger edge ids are cut to their low 32 bits. */
typedef struct aether_sample_arrays {
    uint64_t size;       /* sizeof(aether_sample_arrays) */
    uint64_t num_nodes;  /* length of the first two */
    uint64_t num_edges;  /* length of the others */
    void *node;          /* ids */
    void *batch;         /* seed slot; disjoint samples only */
    void *row;           /* local node at the far end: the source; of type `to` */
    void *col;           /* local node whose list it is in: the destination; of type `from`. Non-decreasing
                            (layered: within each hop) */
    void *edge;          /* edge ids */
    uint32_t item_bytes; /* 8 or 4 */
    uint32_t reserved;
} aether_sample_arrays;

/* ---- Sampling: one node type --------------------------------------------- */

/* Scratch memory of a sampler, and its last sample. One thread at a time. */
typedef struct aether_sampler aether_sampler;

/* Make a sampler of `t`, which must outlive it and have as many lists as ids. The scratch memory
 * grows to what the largest sample so far took and stays that large until destroy. */
int aether_sampler_create(const aether_topology *t, aether_sampler **out, aether_error *err);
/* Release a sampler and its sample. NULL is fine. */
void aether_sampler_destroy(aether_sampler *s);
/* Return the bytes of scratch memory held. */
uint64_t aether_sampler_memory(const aether_sampler *s);

/* Sample the neighbours of the seeds, hop by hop; the result stays in `s` until the next call.
 * Seeds that are the same node have a slot each, with equal edges into each slot; where the node
 * is a source, the first slot is named. (Disjoint: every slot draws its own.)
 * Without replacement every set of `fanout` neighbours of a node is as likely as
 * any other, but the order within the set is not random: whoever cuts an answer
 * short does not get a fair smaller sample. */
int aether_sample(aether_sampler *s, const int64_t *seeds, uint64_t num_seeds,
                  const aether_sample_options *options, const aether_sample_counts *counts,
                  aether_error *err);

/* Copy the last sample out, into the arrays that are not NULL. */
int aether_sample_export(const aether_sampler *s, const aether_sample_arrays *arrays, aether_error *err);

/* ---- Sampling: several node types, weights, times ------------------------ */

/* Numbers that stay in a file (src/topology/paged/values.h); see aether_values_open(). May be shared by
 * threads, except while aether_values_share_pages() runs. */
typedef struct aether_values aether_values;

/* Sums of the weights of long lists (src/sample/draw/weight_sums.h). May be shared by threads. */
typedef struct aether_weight_sums aether_weight_sums;

/* One edge type of a sampler, with what its draws depend on. Arrays are borrowed for the
 * sampler's life. */
typedef struct aether_relation {
    const aether_topology *topology; /* a list for each node of type `from`... */
    uint32_t from, to;               /* ...that holds nodes of type `to` */
    const void *weights;             /* F32 or F64 by edge id, finite; NULL: all alike */
    uint32_t weight_dtype;
    uint32_t time_dtype; /* I64 or F64 */
    const void *times;   /* by edge id, or by node of type `to`; NULL: always visible */
    uint32_t times_of;   /* AETHER_TIMES_OF_EDGES or _NODES */
    uint32_t own_values; /* AETHER_OWN_*: asked of the topology, in place of the array, which is NULL */
    const aether_weight_sums *sums; /* of these weights; NULL: every weight of a list is read */
    /* Set where the weights, the times and (for times of nodes) the entries of the lists are to be
     * read from their file; NULL: from the arrays. Edge ids are positions then. */
    const aether_values *weights_in_file, *times_in_file, *ids_in_file;
} aether_relation;

/* Node types of num_nodes[num_types] nodes, and edge types between them. What the relations point to has to
 * outlive the sampler; the arrays here are borrowed for the call. */
typedef struct aether_schema {
    uint64_t size; /* sizeof(aether_schema) */
    const aether_relation *relations;
    const uint64_t *num_nodes;
    uint32_t num_relations;
    uint32_t num_types;
} aether_schema;

/* Make the sums of the weights of long lists, 16 bytes per 64 edges: a draw from such a list then
 * reads one block of weights instead of all. The draws differ from those without sums. Reads all
 * weights (F32 or F64, by edge id) and borrows nothing. AETHER_E_INVALID names an edge whose
 * weight is negative or not finite; AETHER_E_UNSUPPORTED: positions are not 0 .. num_edges - 1, as
 * for all tables by position. `task` counts edges. */
int aether_weight_sums_create(const aether_topology *t, const void *weights, uint32_t dtype,
                              aether_weight_sums **out, aether_task *task, aether_error *err);
/* Release the sums; no sampler may still use them. NULL is fine. */
void aether_weight_sums_destroy(aether_weight_sums *sums);
/* Return the bytes that the sums take. */
uint64_t aether_weight_sums_memory(const aether_weight_sums *sums);

/* Seeds of one node type, each with the time that it may see. A seed with bounds sees edges with
 * since <= time <= until, in every hop of its tree; seeds of different bounds need a disjoint sample.
 * F64 times are compared through aether_time_of_double(), which has to be applied to their bounds. */
typedef struct aether_seeds {
    const int64_t *ids;
    uint64_t count;
    const int64_t *since; /* NULL: from the beginning */
    const int64_t *until; /* NULL: to the end */
} aether_seeds;

/* Map n times to int64 numbers of the same order, for the bounds of aether_seeds. */
void aether_time_of_double(const double *times, uint64_t n, int64_t *out);

/* Check that every list of a relation is sorted by time, as sampling in time needs.
 * AETHER_E_INVALID with the first node (position) whose list is not, or holds NaN. `task` counts
 * lists. */
int aether_check_times(const aether_relation *relation, aether_task *task, aether_error *err);

/* Make a sampler over node types and edge types. In every hop the relations take their turns in order; each
 * expands the nodes of its type `from` that the hop before has added. */
int aether_sampler_create_typed(const aether_schema *schema, aether_sampler **out, aether_error *err);

/* Sample from seeds[types] of every node type, with options->fanouts[relations][hops]; the result stays in
 * `s` until the next call. In a disjoint sample seeds are numbered through the types in order. Equal seeds
 * and the order of draws are as aether_sample() says. After an error the sample is empty. */
int aether_sample_typed(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                        const aether_sample_counts *counts, aether_error *err);

/* ---- Export of typed samples --------------------------------------------- */

/* Copy the nodes of one type of the last sample out: `node` and `batch` of the arrays. */
int aether_sample_export_nodes(const aether_sampler *s, uint32_t type, const aether_sample_arrays *arrays,
                               aether_error *err);
/* Copy the edges of one relation of the last sample out: `row`, `col` and `edge` of the arrays. */
int aether_sample_export_edges(const aether_sampler *s, uint32_t relation, const aether_sample_arrays *arrays,
                               aether_error *err);
/* Copy the last sample out whole, as int64; num_nodes and num_edges are those of all types (else
 * AETHER_E_INVALID), the types and relations follow each other:
 *   node[num_nodes] ids; batch[num_nodes] seed slots (disjoint only), NULL skips them;
 *   edges[3 * num_edges], for each relation its rows, its cols and its edge ids. */
int aether_sample_export_typed(const aether_sampler *s, uint64_t num_nodes, uint64_t num_edges, int64_t *node,
                               int64_t *batch, int64_t *edges, aether_error *err);
/* Copy a layered sample out as one array of `count` numbers. First come the nodes of each type.
 * Then for each relation: the rows, the edge ids, and for every hop where, among the edges of the
 * hop, those of each node begin, and the end of the last one. These offsets are one for every node
 * of type `from` so far, and one more. AETHER_E_INVALID: `count` is not the length of all. */
int aether_sample_export_layers(const aether_sampler *s, int64_t *out, uint64_t count, aether_error *err);

/* ---- Sampling: many batches at once -------------------------------------- */

/* Samplers that work layer by layer, so that all their samples read a page of a file once. Each
 * sample is the one that aether_sample_typed() makes. One thread at a time. */
typedef struct aether_group aether_group;

typedef struct aether_group_options {
    uint32_t capacity;     /* samples at once: 1 to 4095 */
    uint32_t num_threads;  /* 0: the pool's; 1: the calling thread only */
    uint64_t window_bytes; /* of each of the four buffers that are read into; 0: the default */
    uint64_t value_bytes; /* about, of weights and times in a file while draws look at them; 0: the default */
} aether_group_options;

/* Make a group. Relations and node types are given, and borrowed, as by
 * aether_sampler_create_typed(). */
int aether_group_create(const aether_schema *schema, const aether_group_options *options, aether_group **out,
                        aether_error *err);
/* Release a group and every sample of it. NULL is fine. */
void aether_group_destroy(aether_group *g);
/* Return the bytes that the group holds now. */
uint64_t aether_group_memory(const aether_group *g);

/* Make n samples, from seeds[n][types] and options[n], which share fanouts and flags (and differ
 * in key and exclude). Samples that were made before and not taken are dropped. After an error no
 * sample is made; if the input of one was at fault, `failed` is its number. The positions of
 * `exclude` are read until their sample has been taken. Adds the entries that are read from files to
 * task->done, and leaves task->total. */
int aether_group_sample(aether_group *g, const aether_seeds *seeds, const aether_sample_options *options,
                        uint32_t n, uint32_t *failed, aether_task *task, aether_error *err);

/* Count and hash the edges of a relation in each of the n samples of the last
 * aether_group_sample(): counts[n], and hashes[n] by aether_hash_ids() of the edge ids in the order
 * of export. A sample that was taken counts 0. AETHER_E_UNSUPPORTED: the edges are not known yet
 * (induced samples), or edge ids are not positions. */
int aether_group_edges(const aether_group *g, uint32_t relation, uint64_t *counts, uint64_t *hashes,
                       aether_error *err);
/* Gather the values of the edges that aether_group_edges() counts, by edge id: those of sample i to
 * out[i], which has room for out_items[i] of them. Each page of the file is read once for all
 * samples. */
int aether_group_gather(aether_group *g, uint32_t relation, const aether_values *values, void *const *out,
                        const uint64_t *out_items, aether_task *task, aether_error *err);

/* Complete sample i and hand it out, once. The counts are those of aether_sample_typed(). `out` is
 * for the export functions only, until another sample is taken or made, or
 * aether_group_release() is called; `task` is looked at until then. */
int aether_group_take(aether_group *g, uint32_t i, const aether_sample_counts *counts, aether_sampler **out,
                      aether_task *task, aether_error *err);
/* Give back the memory of the sample that was taken last. */
void aether_group_release(aether_group *g);

/* ---- Sampling: HGT ------------------------------------------------------- */

/* Settings of HGT sampling (Hu, Dong, Wang and Sun, "Heterogeneous Graph Transformer", WWW 2020;
 * src/sample/hgt.h). */
typedef struct aether_hgt_options {
    uint64_t key;               /* the sample is a pure function of key, seeds and graph */
    const int64_t *num_samples; /* [types][hops], not negative */
    uint32_t num_hops;
    uint32_t max_neighbors; /* of a longer list only so many, at random, are seen in a hop; 0: all */
    aether_task *task;      /* looked at by the call and by the export of its result; NULL: none */
} aether_hgt_options;

/* Sample by HGT on a sampler of aether_sampler_create_typed(). Each hop draws num_samples nodes of
 * every type from those next to what was sampled before, in proportion to the square of the sum of
 * 1 / degree over the edges to the node. The edges are all those among the sampled nodes; counts->hop_edges
 * stays as it is. seeds[types] have no bounds. Nodes of a hop come in the order of their draws. */
int aether_sample_hgt(aether_sampler *s, const aether_seeds *seeds, const aether_hgt_options *options,
                      const aether_sample_counts *counts, aether_error *err);

/* ---- Sampling: contexts of rows ------------------------------------------ */

/* Settings of context sampling (src/sample/context.h). */
typedef struct aether_context_options {
    uint64_t key;           /* a context is a pure function of key, seed, time and graph */
    const int64_t *fanouts; /* [relations]; below 0: the list is taken whole; 0: it is not followed */
    uint32_t budget;        /* most rows of a context, its seed included: 1 to 2^24 */
    uint32_t flags;         /* AETHER_SAMPLE_LATEST or 0 */
    uint32_t num_threads;   /* 0: the pool's; 1: the calling thread only */
    uint32_t reserved;
    aether_task *task; /* counts seeds; NULL: none */
} aether_context_options;

/* Seeds of contexts. */
typedef struct aether_context_seeds {
    const uint32_t *types; /* node type of each */
    const int64_t *ids;
    const int64_t *until; /* latest time that each may see, as in aether_seeds; NULL: no bounds */
    uint64_t count;
} aether_context_seeds;

/* Where contexts are written: [seeds][budget], -1 behind the last row of each. */
typedef struct aether_context_rows {
    int32_t *types;     /* node type */
    int64_t *ids;       /* node */
    int32_t *from;      /* place in the context of the row that it was reached from; -1: the seed */
    int32_t *depths;    /* steps from the seed */
    int32_t *relations; /* relation that it was reached by; -1: the seed */
    int64_t *lengths;   /* [seeds]: rows */
} aether_context_rows;

/* Collect the rows around each seed in breadth-first order: the lists of the relations that lead from
 * the type of a row are followed in order, and a row that is there already is not taken again. Of
 * a list with more than its fanout of visible entries the fanout are taken: with AETHER_SAMPLE_LATEST the
 * last ones, the last first; else random ones in random order. Lists that are taken whole come in their
 * order. Times bound what is visible where relations have them; weights play no part. AETHER_E_RANGE
 * names the first seed that is no node. */
int aether_sample_contexts(const aether_schema *schema, const aether_context_seeds *seeds,
                           const aether_context_options *options, const aether_context_rows *out,
                           aether_error *err);

/* ---- Random walks -------------------------------------------------------- */

/* Build the table for drawing from each list by weight in constant time (src/sample/walk/alias.h):
 * table[num_edges] by position, from weights[num_edges] by edge id, f32 or f64. AETHER_E_INVALID
 * names an edge whose weight is negative or not finite. `task` counts edges. */
int aether_alias_build(const aether_topology *t, const void *weights, uint32_t dtype, uint64_t *table,
                       uint64_t num_edges, aether_task *task, aether_error *err);

/* Build the table that tells quickly whether an edge exists (src/sample/walk/members.h):
 * members[num_edges] of the topology's id_bytes. `task` counts edges. */
int aether_members_build(const aether_topology *t, void *members, uint64_t num_edges, aether_task *task,
                         aether_error *err);

#define AETHER_WALK_PAD 1 /* after a dead end: -1 instead of the last node */

/* Settings of random walks. */
typedef struct aether_walk_options {
    uint64_t key;          /* walk i is a pure function of key, first + i, starts[i] and graph */
    uint64_t length;       /* steps */
    double p, q;           /* node2vec's return and in-out parameters; both 1: first order */
    double restart;        /* chance of going back to the start, at each step */
    const uint64_t *alias; /* of this topology; NULL: all edges weigh the same */
    const void *members;   /* of this topology; NULL: lists are searched (only if q is not 1) */
    uint32_t flags;        /* AETHER_WALK_* */
    uint32_t num_threads;  /* 0: the pool's; 1: the calling thread only */
    uint64_t first;        /* number of the first walk, where a call makes some of many */
} aether_walk_options;

/* Walk along the lists from each of n starts: out[n][length + 1], the start first.
 * A walk at a node without a list (or with weights of zero only) ends there: the
 * rest of its row repeats that node; with `restart` it goes back to its start.
 * AETHER_E_RANGE names the first start that is no node. `task` counts walks. */
int aether_random_walk(const aether_topology *t, const int64_t *starts, uint64_t n,
                       const aether_walk_options *options, int64_t *out, aether_task *task,
                       aether_error *err);

/* Settings of a fanout. */
typedef struct aether_fanout_options {
    uint64_t size;        /* sizeof(aether_fanout_options) */
    uint64_t key;         /* the draws are a pure function of key, nodes and graph */
    uint64_t k;           /* neighbours of each node */
    uint32_t flags;       /* AETHER_SAMPLE_REPLACE or 0 */
    uint32_t num_threads; /* 0: the pool's; 1: the calling thread only */
} aether_fanout_options;

/* Draw k neighbours of each of n nodes, out[n][k]: without replacement (a shorter list is
 * taken whole, -1 fills its row), or with it. The draws are those of a disjoint sample's first hop with that
 * key. `task` counts nodes. */
int aether_fanout(const aether_topology *t, const int64_t *nodes, uint64_t n,
                  const aether_fanout_options *options, int64_t *out, aether_task *task, aether_error *err);

/* ---- Random numbers and hashes ------------------------------------------- */

/* Draw from the generator behind sampling (src/core/rng.h), for oracles and tests: out[i] is draw
 * i of the stream (key, hop, edge type, node, seed). */
void aether_rng_draws(uint64_t key, uint32_t hop, uint32_t relation, uint64_t node, uint64_t seed, uint64_t n,
                      uint64_t *out);
/* Hash n ids, their order and their number, for keys. Equal on every platform. */
uint64_t aether_hash_ids(const int64_t *ids, uint64_t n);
/* Hash n ids and their number, whatever the order, for keys. Equal on every platform. */
uint64_t aether_hash_id_set(const int64_t *ids, uint64_t n);

/* ---- Gathering rows ------------------------------------------------------ */

/* A table in memory, or mapped. */
typedef struct aether_rows {
    const void *data; /* row 0; borrowed for the call */
    uint64_t num_rows;
    uint64_t row_items; /* elements per row */
    uint64_t stride;    /* bytes from row to row */
    uint32_t dtype;
    uint32_t reserved;
} aether_rows;

/* Rows that are asked for, and where they go: row ids[i] to out[i] for n ids, converted to out_dtype: the
 * rows' own dtype, or a wider one (f16|bf16 -> f32|f64, f32 -> f64, u8|i8|i16|i32 -> wider int, f32, f64).
 * All are exact but i32 -> f32, which rounds beyond 2^24. AETHER_E_INVALID: out_size is not the bytes of n
 * rows of out_dtype. */
typedef struct aether_row_request {
    uint64_t size; /* sizeof(aether_row_request) */
    const void *ids;
    uint64_t n;
    void *out;
    uint64_t out_size;  /* bytes */
    uint32_t id_bytes;  /* 4 unsigned | 8 signed */
    uint32_t out_dtype; /* AETHER_U8.. */
} aether_row_request;

/* Gather rows of a table. AETHER_E_RANGE names id and position. `task` counts ids. */
int aether_gather(const aether_rows *rows, const aether_row_request *request, aether_task *task,
                  aether_error *err);

/* Rows of lists of ids, combined into one for each list: list i, ids[bounds[i]] .. ids[bounds[i + 1] - 1],
 * into row places[i] of out, or row i. What out has there is the first of what is combined. */
typedef struct aether_row_lists {
    uint64_t size; /* sizeof(aether_row_lists) */
    const int64_t *ids;
    const uint64_t *bounds; /* [n + 1] */
    const int64_t *places;  /* [n], ascending; NULL: 0 .. n - 1 */
    const void *weights;    /* [num_ids], of out_dtype: factors of the rows; NULL: none */
    uint64_t num_ids;
    uint64_t n;
    void *out;
    uint64_t num_out;   /* rows */
    uint64_t out_size;  /* bytes */
    uint32_t out_dtype; /* AETHER_F32 | AETHER_F64, as aether_gather() widens */
    uint32_t how;       /* AETHER_SUM | AETHER_MAX */
} aether_row_lists;

#define AETHER_SUM 0
#define AETHER_MAX 1 /* with NaN it is NaN */

/* Add up the rows of each list in its order, or take their maximum. AETHER_E_RANGE names the first id that
 * is no row, or a place. `task` counts ids. */
int aether_aggregate(const aether_rows *rows, const aether_row_lists *lists, aether_task *task,
                     aether_error *err);

/* CFFI END */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
