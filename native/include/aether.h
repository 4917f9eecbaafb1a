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
 *   aether_live ----------------> aether_snapshot: an aether_topology for each layout of each relation
 *
 *   aether_io ------------------> ranges of a file in the caller's buffers
 *   aether_row_file ------------> rows of a file, through a cache, in the caller's buffers
 *
 * What to call, in which order (native/examples/sample.c is a whole program)
 *
 *   1. Neighbour samples of a graph in memory
 *        aether_build_lists          edge list -> indptr, indices ("Building lists")
 *        aether_topology_create      the arrays as a graph ("Topologies")
 *        aether_sampler_create       scratch memory of one thread ("Sampling: one node type")
 *        for each batch:
 *          aether_sample             counts; the sample stays in the sampler
 *          aether_sample_export      nodes and edges into arrays of those lengths
 *        aether_sampler_destroy, aether_topology_destroy
 *   2. Several node types, weights or times ("Sampling: several node types", "Export")
 *        aether_sampler_create_typed, then for each batch aether_sample_typed,
 *        aether_sample_export_typed, or aether_sample_export_nodes per node type and
 *        aether_sample_export_edges per relation.
 *        aether_weight_sums_create first makes draws from long weighted lists cheap;
 *        aether_check_times first, for every relation with times.
 *   3. A graph in a file ("Container files")
 *        aether_file_open, aether_file_section and aether_file_data give the arrays for step 1.
 *        Call aether_guard before reading them and aether_file_check after.
 *   4. A graph larger than memory ("Reading ranges of a file", "Topologies in a file")
 *        aether_io_open, then aether_topology_create_paged in place of aether_topology_create.
 *        Many batches at once: aether_group_create, aether_group_sample, then aether_group_take
 *        for each of them ("Sampling: many batches at once").
 *   5. Features of the sampled nodes
 *        in memory or mapped: aether_gather ("Gathering rows");
 *        in a file: aether_row_open once, aether_row_gather per batch ("Rows of a file").
 *   6. Random walks: aether_topology_create, then aether_random_walk ("Random walks").
 *   7. A graph that changes meanwhile ("Live graphs", experimental): aether_live_create once,
 *      aether_live_insert as edges come; aether_snapshot_take once, then for each batch
 *      aether_snapshot_renew, aether_sampler_retarget, and step 2 on aether_snapshot_topology.
 *      aether_live_open_journal, before the first insert, keeps all of it through a restart.
 *   8. Writing a container: aether_writer_create; for each section aether_writer_begin, _append,
 *      _end; then aether_writer_commit ("Writing files").
 *
 * Rules
 *   - Functions return 0 or a negative AETHER_E_* code and fill `err` (may be
 *     NULL). They never abort, and call back through aether_task.poll, aether_note_fn,
 *     aether_ask_fn and aether_live_memory alone.
 *   - Where the length of a result depends on a file, a plan or a sample, the function takes
 *     the length of the array to fill as well, and returns AETHER_E_INVALID if the two differ.
 *     No length is taken where the arguments decide it (as n does), or the counts of node types,
 *     edge types and hops that the caller made the handle with.
 *   - Memory passed in is borrowed for the call, unless the function says that
 *     the handle keeps borrowing it; the caller then keeps it alive.
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
 * minor version may change any declaration, a new patch version none. */
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
/* Free a buffer of aether_buffer_alloc(); `size` is the size it was allocated with. NULL is fine. */
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

/* Give the system a hint about a range of a mapping: random access (1), sequential (2), will need
 * (3), drop from the system's page cache what is clean and unused (4). Never fails. */
void aether_advise(const void *data, uint64_t size, int32_t advice);

/* Free the disk space of a range of an open file: whole blocks become holes, which read as zeros,
 * and the file keeps its size. A hint: nothing happens on file systems without holes. */
void aether_file_discard(int32_t fd, uint64_t offset, uint64_t size);

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

/* ---- Keys (src/keys/keys.h) ---------------------------------------------- */

/* Keys one after the other: key i is bytes offsets[i] to offsets[i + 1]; with offsets NULL it is the
 * `width` bytes at i * width. */
typedef struct aether_keys {
    const void *bytes;
    uint64_t size;           /* of bytes */
    const uint64_t *offsets; /* [n + 1], or NULL */
    uint64_t n;
    uint32_t width; /* 0 with offsets */
    uint32_t reserved;
} aether_keys;

/* A map from keys to ids; the arrays go by position, in ascending order of hashes. Positions of one hash are
 * in the order of aether_keys_order, or (by_bytes 0, in files from before that) in any. */
typedef struct aether_key_map {
    aether_keys keys;
    const uint64_t *hashes;    /* [n] */
    const uint64_t *directory; /* [2^bits + 1]: the first position by the upper bits of a hash */
    const void *ids;           /* [n], of id_bytes */
    uint32_t bits;
    uint32_t id_bytes; /* 4 or 8 */
    uint32_t by_bytes; /* 1: keys of one hash are in order */
    uint32_t reserved;
} aether_key_map;

/* Hash n keys with XXH3-64. AETHER_E_CORRUPT: offsets are not within the keys. */
int aether_keys_hash(const aether_keys *keys, uint64_t *hashes, aether_error *err);
/* Put places of one hash in the order of their keys: shorter ones first, then by bytes, equal ones by place.
 * order[n] are places in ascending order of hashes, and hashes[i] is that of key order[i]. However many keys
 * were made to have one hash, this takes n log n comparisons. AETHER_E_RANGE: there is no such place. */
int aether_keys_order(const aether_keys *keys, const uint64_t *hashes, uint64_t *order, aether_error *err);
/* Set first[i] to the first position of a key equal to key i; keys are as aether_keys_order has put them. */
int aether_keys_first(const aether_keys *keys, const uint64_t *hashes, uint64_t *first, aether_error *err);
/* Copy the keys at n places to `out` of `size` bytes; out_offsets[n + 1] (NULL for keys of one width)
 * say where. AETHER_E_RANGE: there is no such place. */
int aether_keys_gather(const aether_keys *keys, const uint64_t *places, uint64_t n,
                       const uint64_t *out_offsets, void *out, uint64_t size, aether_error *err);
/* Set ids[i] to the id of query i, whose hash is hashes[i]; -1: the map does not have it.
 * AETHER_E_CORRUPT: the map contradicts itself. `task` counts queries. */
int aether_keys_find(const aether_key_map *map, const aether_keys *queries, const uint64_t *hashes,
                     int64_t *ids, aether_task *task, aether_error *err);

/* ---- Datagrams (src/net/datagram.h; experimental) ------------------------ */

#define AETHER_DATAGRAM_MOST 65507 /* bytes that UDP carries in one */

/* What a datagram says before its rows. */
typedef struct aether_datagram {
    uint64_t sequence; /* its number in the stream */
    uint64_t offset;   /* of its rows, where they were put */
    uint32_t stream;
    uint32_t rows;
} aether_datagram;

typedef struct aether_receiver_stats {
    uint64_t by_socket; /* datagrams that came by the socket */
    uint64_t by_xdp;    /* frames that came by AF_XDP */
    uint64_t refused;   /* of both: damaged, or none of ours */
} aether_receiver_stats;

/* Takes datagrams from a socket, and from the queues of a network interface. One thread. */
typedef struct aether_receiver aether_receiver;

/* Write a datagram of `out_size` bytes: 24 and those of the rows. AETHER_E_LIMIT: too many. */
int aether_datagram_pack(const aether_datagram *head, const void *rows, uint64_t size, void *out,
                         uint64_t out_size, aether_error *err);
/* Receive from a bound UDP socket, which stays the caller's and must outlive the receiver. Rows have
 * `row_bytes`. */
aether_receiver *aether_receiver_open(int fd, uint32_t row_bytes, aether_error *err);
/* Also take the datagrams for the socket's address from the first queues of an interface, by AF_XDP
 * (src/net/xdp_program.h). Errors: AETHER_E_NOT_FOUND: no such interface; AETHER_E_IO: the system
 * refuses, os_errno says why (EPERM: needs root). The receiver goes on with its socket then. */
int aether_receiver_attach(aether_receiver *r, const char *interface, uint32_t queues, aether_error *err);
/* Wait until a datagram is there: 1, or 0 after so many milliseconds or a signal. */
int aether_receiver_wait(aether_receiver *r, int32_t milliseconds, aether_error *err);
/* Take the datagrams that are there, without waiting: their rows into a room of `size` bytes, heads[most].
 * Stops when fewer than 65,536 bytes are left there. */
int aether_receiver_take(aether_receiver *r, void *room, uint64_t size, aether_datagram *heads, uint32_t most,
                         uint32_t *count, aether_error *err);
void aether_receiver_stats_read(const aether_receiver *r, aether_receiver_stats *out);
void aether_receiver_close(aether_receiver *r);

/* ---- Tables of live rows (src/slots/layout.h; experimental) --------------- */

#define AETHER_TABLE_DIMS    8
#define AETHER_TABLE_SCALED  1 /* rows of int8 with a factor, a float, in front; gathered as float32 */
#define AETHER_TABLE_CHECK   1 /* of a gather: checksums, too */
#define AETHER_MISSING_ERROR 0
#define AETHER_MISSING_ZERO  1
#define AETHER_MISSING_NAN   2

/* Facts of a table, which never change. */
typedef struct aether_table_info {
    uint64_t num_rows;
    uint64_t shape[AETHER_TABLE_DIMS]; /* of a row */
    uint64_t tick;                     /* nanoseconds that a version counts; 0: versions are no times */
    uint32_t num_dims;
    uint32_t dtype;
    uint32_t flags; /* AETHER_TABLE_SCALED */
    uint32_t reserved;
    /* What follows is set by the library. */
    uint64_t row_items;
    uint64_t row_bytes;     /* as rows are put: elements, and the factor of scaled ones */
    uint64_t stride;        /* bytes from slot to slot */
    uint8_t generation[16]; /* random: no other table has it */
} aether_table_info;

/* How rows are gathered; zeros: as they are stored, AETHER_MISSING_ERROR. */
typedef struct aether_table_gather_options {
    uint32_t dtype;   /* of the result; 0: the stored one */
    uint32_t missing; /* AETHER_MISSING_*, for rows that nobody has written yet */
    uint32_t flags;   /* AETHER_TABLE_CHECK */
    uint32_t reserved;
} aether_table_gather_options;

/* Rows that change while they are read: any number of writers and readers, threads and processes. Readers
 * take no lock, and get each row as one put left it. */
typedef struct aether_table aether_table;

/* Create a table without rows written, in a new file or (path NULL) in memory that processes share. */
int aether_table_create(const char *path, const aether_table_info *info, aether_table **out,
                        aether_error *err);
/* Open the table in a file. Errors: AETHER_E_NOT_FOUND, _IO, _FORMAT, _VERSION, _TRUNCATED, _CORRUPT. */
int aether_table_open(const char *path, uint32_t writable, aether_table **out, aether_error *err);
/* Open the table behind a descriptor, which is duplicated: that of a file, or of shared memory. */
int aether_table_attach(int32_t fd, uint32_t writable, aether_table **out, aether_error *err);
/* Let puts take huge pages of shared memory, which random rows are much faster in; a page is then taken whole
 * with the first row in it. Before the first put. */
void aether_table_use_huge_pages(aether_table *t);
/* Unmap; the rows stay. NULL is fine. */
void aether_table_close(aether_table *t);
void aether_table_describe(const aether_table *t, aether_table_info *out);
/* Return the descriptor of the file or memory; it stays the table's. */
int32_t aether_table_descriptor(const aether_table *t);
/* Return the first slot; num_rows of them follow each other, for readers from outside. */
const void *aether_table_slots(const aether_table *t);
/* Return AETHER_E_FILE_CHANGED if the table's file was cut. */
int aether_table_check(const aether_table *t, aether_error *err);

/* Write n rows of `size` bytes in all, one after the other. A row whose version is older than the one that is
 * there is left alone. `versions` NULL: the time now, or one more than before. *written counts rows. Nothing
 * is written if an id or version is bad. AETHER_E_FILE_CHANGED, _DISK_FULL: the file was cut, or has a hole
 * that the disk has no room for; some rows may be written, and one left torn, and no later put of this handle
 * is taken. AETHER_E_TORN: one living process, such as a stopped one, has kept a row from others for seconds;
 * those before it are written. `task` counts rows. */
int aether_table_put(aether_table *t, const int64_t *ids, uint64_t n, const void *rows, uint64_t size,
                     const int64_t *versions, uint64_t *written, aether_task *task, aether_error *err);
/* Read n rows. Errors name the first row: AETHER_E_RANGE; _MISSING_ROW; _TORN: its writer has died, or has
 * had it in work for seconds, as one that is stopped; _CORRUPT: its checksum is wrong. `options` may be NULL.
 * `task` counts rows. */
int aether_table_gather(const aether_table *t, const int64_t *ids, uint64_t n, void *out, uint64_t out_size,
                        const aether_table_gather_options *options, aether_task *task, aether_error *err);
/* Read the versions of n rows; -1: never written. Errors: AETHER_E_RANGE, _TORN. `task` counts rows. */
int aether_table_versions(const aether_table *t, const int64_t *ids, uint64_t n, int64_t *versions,
                          aether_task *task, aether_error *err);
/* Take rows out of n slots that were read from outside, without fences: slot i, at slots + i * stride, should
 * be that of row ids[i]. whole[i] is 1 if its number is even and its checksum right, and the row then in
 * `out`, as AETHER_MISSING_ERROR gathers it in the stored dtype; else 0. *taken counts the whole ones. `info`
 * is that of the table. */
int aether_slots_take(const aether_table_info *info, const int64_t *ids, uint64_t n, const void *slots,
                      uint64_t stride, void *out, uint64_t out_size, uint8_t *whole, uint64_t *taken,
                      aether_error *err);

/* ---- Memory that others read, by UCX (src/rdma/ucx.h; experimental) ------- */

/* Return AETHER_OK if memory can be read by RDMA here, else AETHER_E_UNSUPPORTED: what is missing. */
int aether_rdma_problem(aether_error *err);
/* Return the version of UCX, major << 16 | minor; both sides need the same. 0: there is none. */
uint32_t aether_rdma_version(void);

/* Memory of this process that others read. One thread at a time, but for aether_rdma_target_wake(). */
typedef struct aether_rdma_target aether_rdma_target;

int aether_rdma_target_create(aether_rdma_target **out, aether_error *err);
void aether_rdma_target_destroy(aether_rdma_target *t);
/* Return the address that readers connect to. */
const void *aether_rdma_target_address(const aether_rdma_target *t, uint64_t *size);
/* Let whoever has the key read memory, which must stay until the target is destroyed. The key is the
 * target's. */
int aether_rdma_target_add(aether_rdma_target *t, const void *data, uint64_t size, const void **key,
                           uint64_t *key_size, aether_error *err);
/* Let readers connect, for so many milliseconds at most; to be called again and again. */
int aether_rdma_target_serve(aether_rdma_target *t, int32_t milliseconds, aether_error *err);
/* End the wait of aether_rdma_target_serve() in another thread. */
void aether_rdma_target_wake(aether_rdma_target *t);

/* Reads the memory behind a key. One thread at a time; of no use to a forked child. */
typedef struct aether_rdma_reader aether_rdma_reader;

/* `address` and `key` as the target has them, for `size` bytes at address `base` there. Errors:
 * AETHER_E_UNSUPPORTED: no transport between the two reads memory. */
int aether_rdma_reader_create(const void *address, const void *key, uint64_t base, uint64_t size,
                              aether_rdma_reader **out, aether_error *err);
void aether_rdma_reader_destroy(aether_rdma_reader *r);
/* Register the memory to read into, of this machine or of its GPU, which stays the caller's, until the next
 * call or the end. */
int aether_rdma_reader_land(aether_rdma_reader *r, void *memory, uint64_t size, aether_error *err);
/* Read n pieces of `bytes`, at offsets[i] from the base, to i * stride of the memory to read into. Errors:
 * AETHER_E_RANGE: beyond the size; AETHER_E_IO: the connection has ended, or has not answered in time, and is
 * of no use any more. */
int aether_rdma_read(aether_rdma_reader *r, const uint64_t *offsets, uint64_t n, uint64_t bytes,
                     uint64_t stride, uint32_t milliseconds, aether_task *task, aether_error *err);

/* ---- Building lists ------------------------------------------------------ */

/* Sort an edge list into compressed lists, by a stable counting sort.
 *   major[E], minor[E]  ids to group by / to store (CSC: major = dst, minor = src)
 *   indptr[num_major+1], indices[E] of id_bytes (4|8), order[E] of order_bytes
 *   (4|8; may be NULL): input row at each output position.
 * AETHER_E_RANGE names the first bad id: position is the row, value the id.
 * err->message says whether it was major or minor. `task` counts row visits, 3 per edge. */
int aether_build_lists(const int64_t *major, const int64_t *minor, uint64_t num_edges, uint64_t num_major,
                       uint64_t num_minor, uint64_t *indptr, void *indices, uint32_t id_bytes, void *order,
                       uint32_t order_bytes, aether_task *task, aether_error *err);

/* Parse lines of num_columns plain integers (1 to 18 digits), between single delimiters, into
 * out[num_columns][room]; num_rows gets the number of lines. Empty lines are skipped.
 * AETHER_E_FORMAT: a line of any other form, or more than `room` lines; position is the byte
 * at which that line begins. */
int aether_parse_integers(const char *text, uint64_t size, char delimiter, uint32_t num_columns,
                          uint64_t room, int64_t *out, uint64_t *num_rows, aether_error *err);

/* Find the smallest and the largest of n ids; both are -1 if n is 0. */
int aether_id_bounds(const int64_t *ids, uint64_t n, int64_t *min, int64_t *max, aether_error *err);

/* Check that indptr ascends from 0 to num_edges and that every index is below num_minor. With
 * indices NULL, indptr alone is checked. AETHER_E_CORRUPT names the first bad list or position.
 * `task` counts lists and edges. */
int aether_check_lists(const uint64_t *indptr, uint64_t num_major, const void *indices, uint32_t id_bytes,
                       uint64_t num_edges, uint64_t num_minor, aether_task *task, aether_error *err);

/* Add to *sum a keyed hash of n edges that does not depend on their order. Edge i is at position
 * begin + i. It goes from the list that holds this position to minor[i] (`transposed`: the other
 * way) and has the id edge_ids[i]. Without indptr or minor (NULL) that end counts as 0; without
 * edge_ids the id is the position. Other edges give another sum, except with a chance of about
 * 1 in 2^64 for edges that were made without knowing the key. `task` counts edges. */
int aether_hash_edges(const uint64_t *indptr, uint64_t num_major, const void *minor, uint32_t id_bytes,
                      const void *edge_ids, uint32_t edge_id_bytes, uint64_t begin, uint64_t n,
                      uint32_t transposed, uint64_t key, uint64_t *sum, aether_task *task, aether_error *err);

/* ---- Edges as records ---------------------------------------------------- */

/* One column of values beside the ids of a record. A record is the major and the minor id
 * (id_bytes each, 4|8), then the columns, without gaps. */
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

/* Pack n rows of columns into records, which take exactly `size` bytes (else AETHER_E_INVALID).
 * AETHER_E_RANGE: an id does not fit id_bytes; position is the row, value the id. */
int aether_records_pack(const int64_t *major, const int64_t *minor, uint64_t n, uint32_t id_bytes,
                        const aether_column *columns, uint32_t num_columns, void *records, uint64_t size,
                        aether_error *err);

/* Checksum items of item_bytes each, numbered from `first` on. A checksum is the sum modulo 2^64
 * of a hash of each item and its number, so the checksums of pieces add up to that of the whole.
 * With counts NULL, sums[0] is the checksum of all n items; else sums[num_parts] has those of the
 * counts[i] items from begins[i] on. Guards against accidents only: there is no key.
 * AETHER_E_RANGE: a part is not within the items. */
int aether_hash_items(const void *items, uint64_t n, uint32_t item_bytes, uint64_t first,
                      const uint64_t *begins, const uint64_t *counts, uint64_t num_parts, uint64_t *sums,
                      aether_error *err);

#define AETHER_MAX_PARTS 65536

/* Partition records by a key, in a stable way: a record goes to part (key - low) >> shift of
 * num_parts (at most AETHER_MAX_PARTS). `out` gets the parts one after the other,
 * counts[num_parts] their sizes. AETHER_E_RANGE: a key belongs to no part. `task` counts record
 * visits, 2 per record. */
int aether_records_partition(const void *records, uint64_t n, uint32_t record_bytes, aether_field field,
                             uint64_t low, uint32_t shift, uint64_t num_parts, uint64_t *counts, void *out,
                             aether_task *task, aether_error *err);

/* Order the records (fewer than 2^32 - 1) of the lists low .. low + num_lists - 1:
 *   ends[num_lists]  where each list ends, order[n]  the record at each place.
 * Records of a list stay in input order, or are sorted stably by `row` (may be NULL), then by
 * `time` (may be NULL). `unique` keeps the first of equal minor ids, before times are looked at;
 * order then has as many entries as the last end says. */
int aether_records_order(const void *records, uint64_t n, uint32_t record_bytes, uint32_t id_bytes,
                         uint64_t low, uint64_t num_lists, const aether_field *row, const aether_field *time,
                         uint32_t unique, uint64_t *ends, uint32_t *order, aether_error *err);

/* ---- Ranks ------------------------------------------------------------------ */

/* A set of numbers below `end`, and the place of each among those that it has, ascending: for edge ids
 * of which some were deleted. `blocks` are aether_ranks_words(end) words of the caller's, zeros at first
 * (1 1/3 bits for each number). mark, as often as needed; then count, once; then of. */
uint64_t aether_ranks_words(uint64_t end);
/* Add n numbers. AETHER_E_RANGE: one is not below `end`, or was added before; names the first. */
int aether_ranks_mark(uint64_t *blocks, uint64_t end, const int64_t *ids, uint64_t n, aether_error *err);
/* Return how many numbers there are. */
uint64_t aether_ranks_count(uint64_t *blocks, uint64_t end);
/* Copy how many numbers of the set are below each of n ids; `out` may be `ids`. AETHER_E_RANGE: one is
 * not below `end`; names the first. */
int aether_ranks_of(const uint64_t *blocks, uint64_t end, const int64_t *ids, uint64_t n, int64_t *out,
                    aether_error *err);
/* Set out[ids[i]] = first + i for n ids, in an array of `end` items of item_bytes (4|8): the inverse of
 * an order, some of it at a time. AETHER_E_RANGE: an id is not below `end`; names the first. */
int aether_put_places(const int64_t *ids, uint64_t n, uint64_t first, void *out, uint32_t item_bytes,
                      uint64_t end, aether_error *err);

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

/* Copy row ids[i] to out[i] for n ids, converted to out_dtype: the rows' own dtype, or a wider
 * one (f16|bf16 -> f32|f64, f32 -> f64, u8|i8|i16|i32 -> wider int, f32, f64). All are exact but
 * i32 -> f32, which rounds beyond 2^24.
 * ids are of id_bytes (4 unsigned | 8 signed). AETHER_E_RANGE names id and position.
 * AETHER_E_INVALID: out_size is not the bytes of n rows of out_dtype. `task` counts ids. */
int aether_gather(const aether_rows *rows, const void *ids, uint32_t id_bytes, uint64_t n, void *out,
                  uint64_t out_size, uint32_t out_dtype, aether_task *task, aether_error *err);

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

#define AETHER_ASK_LISTS   0 /* of nodes: two numbers for each, first position and degree */
#define AETHER_ASK_IDS     1 /* at positions */
#define AETHER_ASK_EDGES   2 /* edge ids at positions */
#define AETHER_ASK_WEIGHTS 3 /* of the edges at positions: doubles, finite and not negative */
#define AETHER_ASK_TIMES   4 /* of the edges at positions: int64, ascending in every list */

/* Answer a question of n numbers: fill `out`, and return AETHER_OK, or a code with `err` filled. It is
 * called from any thread, from several at once. */
typedef int (*aether_ask_fn)(void *user, uint32_t what, const uint64_t *in, uint64_t n, uint64_t *out,
                             aether_error *err);

/* Experimental. Facts of lists that are elsewhere. */
typedef struct aether_asked_lists {
    uint64_t num_major; /* lists */
    uint64_t num_minor; /* ids in them are below it */
    uint64_t num_edges; /* entries of all lists */
    uint32_t edge_ids_are_positions;
    uint32_t own_values;    /* AETHER_OWN_*: what else can be asked for */
    uint64_t end_positions; /* positions are below it; 0: num_edges, as they are dense */
    uint64_t end_edge_ids;  /* edge ids are below it; 0: num_edges */
} aether_asked_lists;

/* Experimental. Make a topology that asks for its lists: those of up to 4096 nodes, and the ids of all
 * positions of a hop, in one question each. Answers are checked: AETHER_E_CORRUPT. */
int aether_topology_create_asked(const aether_asked_lists *lists, aether_ask_fn answer, void *user,
                                 aether_topology **out, aether_error *err);
/* Experimental. Answer such a question, AETHER_ASK_*, from the lists of a topology: what the other side of an
 * aether_ask_fn does. Numbers may come from anywhere: AETHER_E_RANGE names the first bad one.
 * AETHER_E_UNSUPPORTED: the topology keeps no such values itself. */
int aether_topology_answer(const aether_topology *t, uint32_t what, const uint64_t *in, uint64_t n,
                           uint64_t *out, aether_error *err);

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

/* Return the most bytes that aether_encode_blocks() may need for n ids of id_bytes (4|8). */
uint64_t aether_encode_bound(uint64_t n, uint32_t id_bytes);
/* Encode n ids of id_bytes (4|8) into blocks, with all threads. The blocks take the first `used`
 * bytes of `out`, whose `room` is at least aether_encode_bound(); sizes[ceil(n / 128)] gets the
 * bytes of each. Another call may go on behind them if n is a multiple of 128. `task` counts ids. */
int aether_encode_blocks(const void *ids, uint32_t id_bytes, uint64_t n, void *out, uint64_t room,
                         uint16_t *sizes, uint64_t *used, aether_task *task, aether_error *err);

/* Copy the ids at n positions, with all threads, as id_bytes (4|8) each. positions NULL: those
 * from `begin` on. Every id is checked: AETHER_E_CORRUPT names the first position whose id is too
 * large or lies in a damaged block. AETHER_E_RANGE: a position is not below num_edges.
 * AETHER_E_LIMIT: id_bytes is 4 and ids may be 2^32 or more. `task` counts ids. */
int aether_topology_ids(const aether_topology *t, const int64_t *positions, uint64_t begin, uint64_t n,
                        void *out, uint32_t id_bytes, aether_task *task, aether_error *err);

/* Copy the degrees of n nodes to out[n]. nodes NULL: those of 0..n-1. AETHER_E_RANGE names the
 * first bad node. Sets task->total to n; `done` stays 0. */
int aether_topology_degrees(const aether_topology *t, const int64_t *nodes, uint64_t n, int64_t *out,
                            aether_task *task, aether_error *err);
/* Copy the lists of n nodes (nodes NULL: of 0..n-1), one after the other: ids into `neighbors`,
 * edge ids into `edges` (either may be NULL). `capacity` is the length of both and at least the
 * sum of the degrees. After an error they hold some of the lists. `task` counts entries. */
int aether_topology_neighbors(const aether_topology *t, const int64_t *nodes, uint64_t n, int64_t *neighbors,
                              int64_t *edges, uint64_t capacity, aether_task *task, aether_error *err);

/* Copy the values that a topology keeps itself beside the entries of the lists of n nodes (nodes NULL: of
 * 0..n-1), as aether_topology_neighbors() copies ids. `which`: AETHER_OWN_WEIGHTS, `out` is double
 * [capacity]; AETHER_OWN_TIMES: int64_t. AETHER_E_UNSUPPORTED: it keeps none. `task` counts entries. */
int aether_topology_own_values(const aether_topology *t, uint32_t which, const int64_t *nodes, uint64_t n,
                               void *out, uint64_t capacity, aether_task *task, aether_error *err);

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

/* Entry `entry` of the list of `node`; {0, 0} is the first of all. */
typedef struct aether_list_place {
    uint64_t node, entry;
} aether_list_place;

/* Copy where the lists first .. first + n - 1 end, counted on from `before`, to out[n]. `task` counts
 * lists. */
int aether_topology_ends(const aether_topology *t, uint64_t first, uint64_t n, uint64_t before, uint64_t *out,
                         aether_task *task, aether_error *err);
/* Copy some columns of the entries of all lists, list after list from `at` on, `capacity` entries or all
 * that are left: *count. `at` moves on; after an error it stays. AETHER_E_UNSUPPORTED: the topology keeps
 * no such values itself. AETHER_E_LIMIT: item_bytes is 4 and ids may be 2^32 or more. One thread. `task`
 * counts entries. */
int aether_topology_read(const aether_topology *t, const aether_entry_column *columns, uint32_t num_columns,
                         aether_list_place *at, uint64_t capacity, uint64_t *count, aether_task *task,
                         aether_error *err);

/* Find the positions of edges by their ends: where the list of major[i] holds minor[i], for n
 * pairs in ascending order of (major, minor); pairs may repeat. Hit h is pairs[h] at
 * positions[h]; hits are ordered by major, then by position. num_hits counts all of them, but at
 * most `capacity` are written. Each list is read once. `task` counts pairs. */
int aether_find_edges(const aether_topology *t, const int64_t *major, const int64_t *minor, uint64_t n,
                      uint64_t *pairs, uint64_t *positions, uint64_t capacity, uint64_t *num_hits,
                      aether_task *task, aether_error *err);

/* Copy the edge ids at n positions that the topology made, such as those of aether_find_edges();
 * `out` may be `positions`. */
int aether_topology_edge_ids(const aether_topology *t, const int64_t *positions, uint64_t n, int64_t *out,
                             aether_error *err);

/* Values that a topology may keep itself, beside its edges, as none that this header makes does. */
#define AETHER_OWN_WEIGHTS 1
#define AETHER_OWN_TIMES   2

/* Experimental. Facts of a topology; they hold for its life. */
typedef struct aether_topology_facts {
    uint64_t num_major; /* lists */
    uint64_t num_minor; /* ids are below it */
    uint64_t num_edges;
    uint64_t end_positions; /* positions are below it */
    uint64_t end_edge_ids;  /* edge ids are below it */
    uint32_t id_bytes;      /* 4 or 8 */
    uint32_t edge_ids_are_positions;
    uint32_t own_values; /* AETHER_OWN_* */
    uint32_t reserved;
} aether_topology_facts;

/* Experimental. Copy the facts of a topology, also of one's own (topology.h), and check that it
 * has the operations that it needs and that its facts agree. AETHER_E_INVALID names what is
 * wrong, and what it should be. */
int aether_topology_describe(const aether_topology *t, aether_topology_facts *out, aether_error *err);

/* ---- Orders of nodes ----------------------------------------------------- */

/* What orders are made from, the undirected lists of a graph by rank, is made in three steps
 * (src/order/undirected.h), each from the topologies of one layout of all edge types:
 *   degrees  for each topology; nodes of its lists are numbered from first_major on, the others from
 *            first_minor on, n in all (fewer than 2^32 - 1). degrees[n] and *balance are added to.
 *   ranks    once: nodes[n] by ascending degree, then by id; ranks[n] its inverse; places[n + 1] for `fill`.
 *            Where *balance is 0, both directions are stored: halve the degrees before, and fill with both =
 * 0. fill     for each topology: neighbors[capacity], the sum of the degrees; in the end list r is
 *            neighbors[places[r] .. places[r + 1] - 1].
 * `task` counts edges. AETHER_E_LIMIT: too many nodes. */
int aether_order_degrees(const aether_topology *t, uint64_t first_major, uint64_t first_minor, uint64_t n,
                         uint64_t *degrees, uint64_t *balance, aether_task *task, aether_error *err);
int aether_order_ranks(const uint64_t *degrees, uint64_t n, uint32_t *nodes, uint32_t *ranks,
                       uint64_t *places, aether_error *err);
int aether_order_fill(const aether_topology *t, uint64_t first_major, uint64_t first_minor, uint64_t n,
                      uint32_t both, const uint32_t *ranks, uint64_t *places, uint32_t *neighbors,
                      uint64_t capacity, aether_task *task, aether_error *err);
/* Sort the entries of each list. `task` counts entries. */
int aether_order_sort(const uint64_t *places, uint32_t *neighbors, uint64_t n, aether_task *task,
                      aether_error *err);

/* Each of the following makes order[n], the rank at each new place, from such lists. AETHER_E_CORRUPT: they
 * are no lists of n ranks. `task` counts nodes. */

typedef struct aether_rabbit_options {
    uint64_t memory;      /* bytes of edges that are kept in memory, if there is a file for the others */
    int32_t file;         /* an open file, read and written from its start; -1: none */
    uint32_t num_threads; /* 0: the pool's; the result depends on it if it is not 1 */
    uint32_t mapped;      /* not 0: the lists are shared mappings of files, whose pages are let go of */
    uint32_t reserved;
} aether_rabbit_options;

/* Rabbit Order (src/order/rabbit.h): community[n] is the number of each rank's community, by the places of
 * the communities in the order. */
int aether_order_rabbit(const uint64_t *places, const uint32_t *neighbors, uint64_t n,
                        const aether_rabbit_options *o, uint32_t *order, uint32_t *community,
                        uint64_t *num_communities, aether_task *task, aether_error *err);
/* Reverse Cuthill-McKee; the lists are sorted. */
int aether_order_bfs(const uint64_t *places, const uint32_t *neighbors, uint64_t n, uint32_t *order,
                     aether_task *task, aether_error *err);
/* Gorder, with a window of so many nodes; the result depends on the order of the lists' entries. */
int aether_order_gorder(const uint64_t *places, const uint32_t *neighbors, uint64_t n, uint32_t window,
                        uint32_t *order, aether_task *task, aether_error *err);

/* ---- Live graphs (experimental) ------------------------------------------ */

/* Lists by time, or in the order of arrival where edges have no times; parallel edges are kept. */
#define AETHER_ORDER_TIME 1
/* Lists by id; an edge is there once. */
#define AETHER_ORDER_ID 2

#define AETHER_LIVE_TIMES   1 /* int64 by edge; F64 times go through aether_time_of_double() */
#define AETHER_LIVE_WEIGHTS 2 /* float32 by edge */

#define AETHER_LIVE_CSC 1 /* lists of in-edges: by destination, of sources */
#define AETHER_LIVE_CSR 2 /* lists of out-edges: by source, of destinations */

/* What is stored stays in RAM (mlock). RLIMIT_MEMLOCK must allow arena_bytes and 16 bytes for each node
 * that there is room for: set max_src and max_dst. */
#define AETHER_LIVE_LOCKED 1
/* Huge pages, where the system has them for shared memory. Nodes far apart then take 2 MiB each. */
#define AETHER_LIVE_HUGE 2

/* Edges of one kind, between two kinds of nodes. */
typedef struct aether_live_relation {
    uint64_t num_src, num_dst; /* nodes at both ends, fewer than 2^32 */
    uint64_t max_src, max_dst; /* room for aether_live_add_nodes(); 0: 2^32 - 1, which costs nothing */
    uint32_t layouts;          /* AETHER_LIVE_CSC | AETHER_LIVE_CSR */
    uint32_t order;            /* AETHER_ORDER_* */
    uint32_t columns;          /* AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS */
    uint32_t edge_id_bytes;    /* 4, 8, or 0: edges have no ids */
    uint64_t base_edges;       /* edges that there are in the base (aether_live_set_base); 0: no base */
    uint64_t base_edge_ids;    /* the first edge that is inserted gets this id; 0 without a base */
} aether_live_relation;

/* Memory for the edges of a live graph in place of shared memory, which is the default: from NUMA nodes, a
 * device, a pool that counts. `context` goes to each call. The calls come from the thread that creates,
 * changes or closes the graph, and must not come back to it. The struct is copied; context and functions must
 * stay until the graph is closed. Only the process that created the graph can read it then. */
typedef struct aether_live_memory {
    void *context;
    /* Reserve `size` bytes, a multiple of 4096, at a multiple of 4096. Reading them must be harmless from now
     * on, writing once they are committed. Called once for each layout of each relation, for arena_bytes (32
     * GiB at most) every time. NULL: refused, AETHER_E_NO_MEMORY. */
    void *(*reserve)(void *context, uint64_t size);
    /* Take memory for bytes [offset, offset + size) of what was reserved at `data`; their content is
     * anything. Called in ascending order, once for each byte, and again for those that could then not be
     * locked (AETHER_LIVE_LOCKED), arena_bytes in total at most. Return 0; else it is refused, and the change
     * that needs it fails with AETHER_E_NO_MEMORY and is undone. NULL: there is nothing to do. */
    int (*commit)(void *context, void *data, uint64_t offset, uint64_t size);
    /* Take back what was reserved; in the process that did it. */
    void (*release)(void *context, void *data, uint64_t size);
} aether_live_memory;

/* What a live graph is made for. */
typedef struct aether_live_options {
    const aether_live_relation *relations;
    uint32_t num_relations; /* 4096 at most */
    uint32_t flags;         /* AETHER_LIVE_LOCKED | AETHER_LIVE_HUGE */
    /* For the edges of all lists together, a multiple of 256 KiB; one layout of one relation takes 32 GiB
     * at most. Memory is taken as edges come; what a list has taken stays with it. */
    uint64_t arena_bytes;
    uint64_t max_snapshot_age;        /* nanoseconds after which a snapshot may expire; 0: none does */
    uint64_t first_commit;            /* number of the commit that the graph begins with; 0: 1 */
    const aether_live_memory *memory; /* where edges are stored; NULL: in shared memory */
} aether_live_options;

/* Lists that a relation begins with: those of a graph file, say. They are read where they are, and what
 * changes is kept apart, list by list. */
typedef struct aether_live_base {
    /* Lists of 32-bit ids: ascending in AETHER_ORDER_ID, each id once; else in the order of `times`. Nobody
     * checks that. */
    const aether_topology *lists;
    /* All by the edge ids of `lists`: the edge id here, u32 or u64 (NULL: the same), time and weight. */
    const void *edge_ids;
    uint32_t edge_id_bytes;
    uint32_t reserved; /* 0 */
    const int64_t *times;
    const float *weights;
    int64_t last_time; /* no time is after it; INT64_MAX: not known, so that inserting reads times */
} aether_live_base;

/* Edges to insert: src[count], dst[count], and the columns that the relation has (else NULL). */
typedef struct aether_live_edges {
    const int64_t *src, *dst;
    const int64_t *times;
    const float *weights;
    uint64_t count;
} aether_live_edges;

/* Sums of the weights of long lists (src/sample/draw/weight_sums.h). May be shared by threads. */
typedef struct aether_weight_sums aether_weight_sums;

/* A graph that changes while others read it: one process writes, in one thread at a time; any number of
 * threads and processes take snapshots. It lives in shared memory (src/live/control.h) and is gone
 * when the last process has closed it. */
typedef struct aether_live aether_live;

/* Return 1 if the writer can fence for all readers here (membarrier(2)), 0 if each snapshot costs a
 * fence. */
int aether_live_has_membarrier(void);
/* Return 1 if the system puts memory of live graphs that has filled into huge pages (AETHER_LIVE_HUGE), 0 if
 * it has none or does not (kernels before 6.1). Takes one for the moment. */
int aether_live_has_huge_pages(void);
/* Create a graph without edges but those of its base. AETHER_E_INVALID, AETHER_E_LIMIT name the option at
 * fault; err->position is the relation, if it is one's. */
int aether_live_create(const aether_live_options *options, aether_live **out, aether_error *err);
/* Say where the lists of a relation's base are, in one of its layouts; the graph goes on borrowing them.
 * Relations with base_edges need it before anything else, in every process: also after
 * aether_live_attach(). AETHER_E_INVALID: the lists are not those of the relation. */
int aether_live_set_base(aether_live *g, uint32_t relation, uint32_t layout, const aether_live_base *base,
                         aether_error *err);
/* Say what the weights of a base's long lists add up to, for draws from lists that have not changed: without
 * it they read the list. `sums` are of the lists and weights of the base (aether_weight_sums_create), and are
 * borrowed as long as the graph; other threads may draw meanwhile. In every process. NULL: none any more.
 * AETHER_E_INVALID: there is no such base, or it has another number of edges. */
int aether_live_set_base_sums(aether_live *g, uint32_t relation, uint32_t layout,
                              const aether_weight_sums *sums, aether_error *err);
/* Say that the graph goes on in another one, which its readers should take; and ask whether that was said.
 * The graph stays readable. */
int aether_live_retire(aether_live *g, aether_error *err);
int aether_live_is_retired(const aether_live *g);
/* Return the number of the last commit, which a snapshot taken now would have. From any thread. */
uint64_t aether_live_last_commit(const aether_live *g);
/* Return the number of descriptors of the graph's memory: two, and two for each layout of each
 * relation. 0: its edges are in memory of its own (aether_live_memory), which others cannot open. */
uint32_t aether_live_num_descriptors(const aether_live *g);
/* Copy the descriptors to out[num_descriptors], for other processes. They stay the graph's. */
void aether_live_descriptors(const aether_live *g, int32_t *out);
/* Open a graph of another process by copies of its n descriptors, for reading. */
int aether_live_attach(const int32_t *descriptors, uint32_t n, aether_live **out, aether_error *err);
/* Close the handle; no snapshot of it may still be used. An open transaction is never seen. NULL is
 * fine. */
void aether_live_close(aether_live *g);

uint32_t aether_live_num_relations(const aether_live *g);
/* Copy what a relation was created as. AETHER_E_RANGE: there is none of that number; so say all
 * functions that take one. */
int aether_live_relation_at(const aether_live *g, uint32_t relation, aether_live_relation *out,
                            aether_error *err);

/* Begin a transaction: what is changed until the commit, in whichever relations, is seen at once, or
 * never. A call outside of one is a transaction of its own. A forked child can read through the handle
 * that it inherited, but not write (AETHER_E_UNSUPPORTED). */
int aether_live_begin(aether_live *g, aether_error *err);
int aether_live_commit(aether_live *g, aether_error *err);
int aether_live_abort(aether_live *g, aether_error *err);

/* Insert edges. An edge gets the next edge id of its relation, the same in both layouts: the number of
 * edges that were inserted before it, whatever became of them. In lists by id an edge that is there
 * already stays as it is. edge_ids[count] (may be NULL) gets the id of each, -1 for one that was there
 * if edges have no ids. Everything is checked before anything is inserted: AETHER_E_RANGE names the
 * first bad node. AETHER_E_NO_MEMORY: the arenas are full; the message names the oldest reader. Such
 * a failure undoes the whole transaction. */
int aether_live_insert(aether_live *g, uint32_t relation, const aether_live_edges *edges, int64_t *edge_ids,
                       uint64_t *inserted, aether_error *err);
/* Insert one edge, as aether_live_insert() does, with less ado. Time and weight are ignored where the
 * relation has none. `edge_id` and `inserted` (0 or 1) may be NULL. */
int aether_live_insert_one(aether_live *g, uint32_t relation, int64_t src, int64_t dst, int64_t time,
                           float weight, int64_t *edge_id, int *inserted, aether_error *err);
/* Insert one edge, as aether_live_insert_one() does, of a relation without times and weights. Returns its id,
 * or that of the edge which is there already (0 if edges have no ids), or the negative code of an error. */
int64_t aether_live_insert_plain(aether_live *g, uint32_t relation, int64_t src, int64_t dst,
                                 aether_error *err);
/* Delete, for each of n pairs, all edges from src[i] to dst[i], or only the one of edge_ids[i] (may
 * be NULL). Pairs without an edge are left out of `deleted`. Lists by time are read whole, short ones once
 * for each pair. Fails as aether_live_insert() does. */
int aether_live_delete(aether_live *g, uint32_t relation, const int64_t *src, const int64_t *dst,
                       const int64_t *edge_ids, uint64_t n, uint64_t *deleted, aether_error *err);
/* Give up the next `count` edge ids of a relation, as if that many edges had been inserted and deleted: to
 * build a graph again whose edges keep their ids. AETHER_E_UNSUPPORTED: the graph has a journal. */
int aether_live_skip_edge_ids(aether_live *g, uint32_t relation, uint64_t count, aether_error *err);
/* Add nodes without edges behind the last, at either end of a relation. */
int aether_live_add_nodes(aether_live *g, uint32_t relation, uint64_t num_src, uint64_t num_dst,
                          aether_error *err);

/* Reuse now what no snapshot needs any more, free the snapshots of processes that have ended, and let
 * overdue ones expire, also inside of a transaction. All this happens by itself when there is need. */
int aether_live_reclaim(aether_live *g, aether_error *err);
/* Free the snapshots of processes that have ended. Those of others stay, overdue or not. */
int aether_live_reap(aether_live *g, aether_error *err);

/* One commit of a live graph, all relations of it, which stays as it is. It keeps old versions from
 * being reused until it is released, and must not outlive its aether_live. It expires by age
 * (max_snapshot_age), or when 2^28 commits have come behind it; every use of it then fails with
 * AETHER_E_EXPIRED. */
typedef struct aether_snapshot aether_snapshot;

/* Take a snapshot of the last commit, from any thread. AETHER_E_LIMIT: all 256 are taken; names the
 * processes that have them. AETHER_E_EXPIRED: a thousand commits in a row were replaced by 63 others of one
 * relation before they could be read, which damaged memory makes likelier than a fast writer. */
int aether_snapshot_take(const aether_live *g, aether_snapshot **out, aether_error *err);
/* Go on to the last commit, without allocating anything, in a time that depends on how many relations have
 * changed since, not on how many there are; an expired snapshot is good again, and one that rests. Its topologies then show that commit, so nobody may be using them, and samplers of them are
 * retargeted, unless only edges have changed. AETHER_E_UNSUPPORTED: another process took it (this one is its
 * child). AETHER_E_LIMIT: it rested, and all 256 are taken. AETHER_E_EXPIRED: as aether_snapshot_take(). */
int aether_snapshot_renew(aether_snapshot *s, aether_error *err);
/* Keep nothing from being reused until aether_snapshot_renew(), in this process or in a child: for whoever
 * needs a snapshot again and again. Until then every use of it fails with AETHER_E_EXPIRED, and its
 * aether_live may be closed: it is then only to be released. */
void aether_snapshot_rest(aether_snapshot *s);
/* Let go of a snapshot and its topologies. NULL is fine. */
void aether_snapshot_release(aether_snapshot *s);

/* Return the lists of a relation in one layout, for samplers, groups, walks and the functions of
 * topologies; NULL: they are not stored. Weights and times are their own (AETHER_OWN_*). They belong
 * to the snapshot: aether_topology_destroy() leaves them alone. */
aether_topology *aether_snapshot_topology(const aether_snapshot *s, uint32_t relation, uint32_t layout);

/* What a snapshot shows of a relation. */
typedef struct aether_live_commit_info {
    uint64_t epoch; /* number of the commit, ascending; the same for all relations */
    uint64_t num_src, num_dst;
    uint64_t num_edges;
    uint64_t end_edge_ids; /* edges that were ever inserted */
    uint64_t lsn;          /* number in the journal of the last commit that it has; 0: it has none */
} aether_live_commit_info;

int aether_snapshot_describe(const aether_snapshot *s, uint32_t relation, aether_live_commit_info *out,
                             aether_error *err);
/* Find for each of n pairs whether there is an edge from src[i] to dst[i]. Where both layouts are stored, the
 * shorter list is asked. Lists by time are read whole. `task` counts pairs. */
int aether_snapshot_has_edges(const aether_snapshot *s, uint32_t relation, const int64_t *src,
                              const int64_t *dst, uint64_t n, uint8_t *out, aether_task *task,
                              aether_error *err);

/* Find the nodes whose list in one layout may differ between commit `since` and the snapshot's: those that
 * were changed by commits after `since`, ascending. *count is their number, of which at most `capacity` are
 * written to `nodes`. AETHER_E_RANGE: `since` is after the snapshot. AETHER_E_UNSUPPORTED: the layout is not
 * stored, or `since` is before the commit that the graph began with, for which 0 stands, or 2^28 commits and
 * more before the snapshot. `task` counts nodes. */
int aether_snapshot_changed(const aether_snapshot *s, uint32_t relation, uint32_t layout, uint64_t since,
                            int64_t *nodes, uint64_t capacity, uint64_t *count, aether_task *task,
                            aether_error *err);

/* Numbers of a live graph, as of its last commit. */
typedef struct aether_live_stats {
    uint64_t epoch;
    uint64_t num_edges;     /* of all relations, each once */
    uint64_t touched_nodes; /* that ever had an edge in their list, in either layout */
    uint64_t arena_bytes;
    uint64_t used_bytes;    /* of the arenas, older versions included */
    uint64_t retired_bytes; /* of those, what only older versions have */
    uint64_t snapshots;     /* of all processes, without expired ones */
    uint64_t oldest_epoch;  /* that is still read */
    uint64_t oldest_age;    /* of its snapshot, in nanoseconds */
    uint32_t oldest_pid;    /* of its process; 0: there are no snapshots */
    uint32_t reserved;
} aether_live_stats;

/* Numbers of one relation. */
typedef struct aether_live_relation_stats {
    uint64_t num_src, num_dst;
    uint64_t num_edges;
    uint64_t end_edge_ids;
    uint64_t touched_nodes, used_bytes, retired_bytes; /* of its lists */
} aether_live_relation_stats;

/* Count what a live graph holds, from any thread or process. */
void aether_live_count(const aether_live *g, aether_live_stats *out);
int aether_live_count_relation(const aether_live *g, uint32_t relation, aether_live_relation_stats *out,
                               aether_error *err);

/* ---- Journals of live graphs (experimental) ------------------------------- */

/* AETHER_SYNC: a commit is on disk before readers see it and the call returns. AETHER_BATCH: readers see it
 * at once; it is on disk some milliseconds later. AETHER_UNSYNCED: it is on disk after a flush, or when the
 * system writes it; a crash of the process loses nothing, one of the machine may. */
#define AETHER_SYNC     1
#define AETHER_BATCH    2
#define AETHER_UNSYNCED 3

typedef struct aether_journal_options {
    uint8_t graph[16];     /* uuid of the graph; the log of another one is refused */
    uint64_t segment_size; /* bytes of a file of the log, a multiple of 4096, 8192 to 1 GiB; 0: 64 MiB */
    uint32_t durability;   /* AETHER_SYNC, _BATCH or _UNSYNCED */
    uint32_t interval_ms;  /* AETHER_BATCH: from a commit to its sync; 0: 10 */
} aether_journal_options;

/* Take a note of a commit that is replayed; the bytes are on 8 bytes and last for the call. A result
 * other than 0 ends the replay with AETHER_E_CANCELLED. */
typedef int (*aether_note_fn)(void *user, uint64_t lsn, uint32_t kind, const void *bytes, uint64_t size);

/* Keep a log of the graph's commits in a directory, which exists (FORMAT.md, "Logs"). First the commits
 * with numbers from `from` (1 or more) on that are there already are done again, each seen by readers
 * as it is done, and their notes handed to `note` (may be NULL); `g` has to be the graph after commit
 * from - 1: as it was created, for 1. From then on every commit is written before readers see it. One
 * that cannot be written is undone. After a failed write or sync, or AETHER_E_DISK_FULL, the graph stays
 * readable and refuses changes; what was committed before can be read again from the log.
 * Errors: AETHER_E_CORRUPT, _TRUNCATED, _FORMAT, _VERSION: the log is damaged, or a commit, whose number
 * the message has, does not fit the graph; AETHER_E_INVALID: another graph's log, one that another
 * process (or this one) has open, or `from` is in the midst of a transaction. Then `g` may show a
 * part of the commits: close it. `task` counts commits. */
int aether_live_open_journal(aether_live *g, const char *directory, const aether_journal_options *options,
                             uint64_t from, aether_note_fn note, void *user, aether_task *task,
                             aether_error *err);
/* Do commits of a log again, from number `from` up to `until`, without keeping it: `g` stays without a
 * journal, and nothing is written, so that another process may have the log open meanwhile. For a graph as it
 * was. *last becomes the number of the last commit that was done, from - 1 if there is none up to `until`; a
 * later call goes on behind it. Commits that were given up (aether_live_release_journal) are
 * AETHER_E_CORRUPT. All else is as with aether_live_open_journal(). */
int aether_live_replay(aether_live *g, const char *directory, const uint8_t *graph, uint64_t from,
                       uint64_t until, aether_note_fn note, void *user, uint64_t *last, aether_task *task,
                       aether_error *err);
/* Write bytes of the caller's into the log: a part of the open transaction, or one of its own. A replay
 * hands them out, in order, before their transaction is seen. */
int aether_live_note(aether_live *g, uint32_t kind, const void *bytes, uint64_t size, aether_error *err);
/* Wait until all commits so far are on disk. From any thread of the process, also while another one calls
 * aether_live_close_journal(), which waits for it. */
int aether_live_flush(aether_live *g, aether_error *err);
/* Give up the commits below `lsn`, which are saved elsewhere: later replays are from `lsn` or more. */
int aether_live_release_journal(aether_live *g, uint64_t lsn, aether_error *err);
/* Wait until all commits so far are on disk, and let another graph open the log, also where waiting fails.
 * Changes from then on are refused, until the graph has a log again. */
int aether_live_close_journal(aether_live *g, aether_error *err);
/* Look for damage in a log that no graph has open: read all commits from number `from` on, without a graph
 * and without writing. *last becomes the number of the last commit before the end or the damage. Errors are
 * those of aether_live_open_journal(). `graph` is a uuid, 16 bytes. `task` counts commits. */
int aether_journal_verify(const char *directory, const uint8_t *graph, uint64_t from, uint64_t *last,
                          aether_task *task, aether_error *err);
/* Let a damaged log end before the first commit that is damaged, so that it can be opened. The files that
 * change or go are kept as they were, under names with ".cut-" and a number at the end. A log without damage
 * stays as it is. */
int aether_journal_truncate(const char *directory, const uint8_t *graph, uint64_t from, uint64_t *last,
                            aether_error *err);
/* Return the number in the journal of the last commit; 0: it has none. Numbers ascend; a large transaction
 * takes several. From any thread, also of a process that attached the graph; 0, too, where the memory of the
 * graph is damaged, which aether_snapshot_take() reports as AETHER_E_CORRUPT. */
uint64_t aether_live_lsn(const aether_live *g);
/* Return the same, or the number of the commit after it that was written and could not be synced: it was
 * undone, and may be found when the log is opened again. A copy of the graph as it is counts as of that
 * number, so that nobody does that commit again. From the thread that writes. */
uint64_t aether_live_written_lsn(const aether_live *g);

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
 *   hop_nodes[num_hops+1]  new nodes per hop (hop 0: the seeds, duplicates kept)
 *   hop_edges[num_hops]    edges per hop (induced: zeros; totals has their number)
 *   totals[2]              nodes, edges
 * Seeds that are the same node have a slot each, with equal edges into each slot; where the node
 * is a source, the first slot is named. (Disjoint: every slot draws its own.)
 * Without replacement every set of `fanout` neighbours of a node is as likely as
 * any other, but the order within the set is not random: whoever cuts an answer
 * short does not get a fair smaller sample. */
int aether_sample(aether_sampler *s, const int64_t *seeds, uint64_t num_seeds,
                  const aether_sample_options *options, uint64_t *hop_nodes, uint64_t *hop_edges,
                  uint64_t *totals, aether_error *err);

/* Copy the last sample out, as int64 (out_bytes 8) or int32 (4). num_nodes and num_edges are the
 * lengths of the arrays, and those of the sample (else AETHER_E_INVALID):
 *   node[num_nodes] ids; row[num_edges] local source; col[num_edges] local destination,
 *   non-decreasing (layered: within each hop);
 *   edge[num_edges] edge ids; batch[num_nodes] seed slot (disjoint only). NULL skips one.
 * AETHER_E_LIMIT: int32 takes a graph of fewer than 2^31 nodes and edges, and a sample of fewer
 * nodes. Larger values in edge_ids are cut to their low 32 bits. */
int aether_sample_export(const aether_sampler *s, uint32_t out_bytes, uint64_t num_nodes, uint64_t num_edges,
                         void *node, void *row, void *col, void *edge, void *batch, aether_error *err);

/* ---- Sampling: several node types, weights, times ------------------------ */

/* Numbers that stay in a file (src/topology/paged/values.h); see aether_values_open(). May be shared by
 * threads, except while aether_values_share_pages() runs. */
typedef struct aether_values aether_values;

/* Values that a topology keeps itself, beside its edges: a snapshot of a live graph does. Draws by weights of
 * its own are those of the same edges in arrays with sums. */
#define AETHER_OWN_WEIGHTS 1
#define AETHER_OWN_TIMES   2

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
 * since <= time <= until, in every hop of its tree; bounds need a disjoint sample. F64 times are
 * compared through aether_time_of_double(), which has to be applied to their bounds. */
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

/* Make a sampler over node types of num_nodes[num_types] nodes and num_relations edge types.
 * Topologies, weights, sums, times and values must outlive it. In every hop the relations take
 * their turns in order; each expands the nodes of its type `from` that the hop before has added. */
int aether_sampler_create_typed(const aether_relation *relations, uint32_t num_relations,
                                const uint64_t *num_nodes, uint32_t num_types, aether_sampler **out,
                                aether_error *err);

/* Experimental. Let a sampler go on with other relations and numbers of nodes, say of the next
 * snapshot of a graph that grows: as many as it was made with, checked and borrowed in the same
 * way. The scratch memory stays, the sample is dropped, and what was borrowed before is not used
 * any more. After an error the sampler is as it was. */
int aether_sampler_retarget(aether_sampler *s, const aether_relation *relations, uint32_t num_relations,
                            const uint64_t *num_nodes, uint32_t num_types, aether_error *err);

/* Sample from seeds of every node type; the result stays in `s` until the next call.
 *   options->fanouts[relations][hops], seeds[types],
 *   hop_nodes[types][hops+1]  new nodes per hop (hop 0: the seeds, duplicates kept)
 *   hop_edges[relations][hops]  edges per hop (induced: zeros)
 *   num_nodes[types], num_edges[relations]  totals
 * In a disjoint sample seeds are numbered through the types in order. Equal seeds and the order
 * of draws are as aether_sample() says. After an error the sample is empty. */
int aether_sample_typed(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                        uint64_t *hop_nodes, uint64_t *hop_edges, uint64_t *num_nodes, uint64_t *num_edges,
                        aether_error *err);

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
int aether_group_create(const aether_relation *relations, uint32_t num_relations, const uint64_t *num_nodes,
                        uint32_t num_types, const aether_group_options *options, aether_group **out,
                        aether_error *err);
/* Experimental. Let a group go on with other relations and numbers of nodes, as
 * aether_sampler_retarget() does. Samples that were not taken are dropped, and so is the one that
 * was taken last. */
int aether_group_retarget(aether_group *g, const aether_relation *relations, uint32_t num_relations,
                          const uint64_t *num_nodes, uint32_t num_types, aether_error *err);
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
int aether_group_take(aether_group *g, uint32_t i, uint64_t *hop_nodes, uint64_t *hop_edges,
                      uint64_t *num_nodes, uint64_t *num_edges, aether_sampler **out, aether_task *task,
                      aether_error *err);
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
 * 1 / degree over the edges to the node. The edges are all those among the sampled nodes.
 *   seeds[types] have no bounds; hop_nodes[types][hops+1], num_nodes[types], num_edges[relations]
 * Nodes of a hop come in the order of their draws. */
int aether_sample_hgt(aether_sampler *s, const aether_seeds *seeds, const aether_hgt_options *options,
                      uint64_t *hop_nodes, uint64_t *num_nodes, uint64_t *num_edges, aether_error *err);

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
int aether_sample_contexts(const aether_relation *relations, uint32_t num_relations,
                           const uint64_t *num_nodes, uint32_t num_types, const aether_context_seeds *seeds,
                           const aether_context_options *options, const aether_context_rows *out,
                           aether_error *err);

/* ---- Export of typed samples --------------------------------------------- */

/* Copy the `count` nodes of one type of the last sample out, as int64 (out_bytes 8) or int32 (4):
 * node[count] ids, batch[count] seed slot (disjoint only). NULL skips one. AETHER_E_INVALID:
 * `count` is not their number. AETHER_E_LIMIT: int32 is too narrow, as for aether_sample_export(). */
int aether_sample_export_nodes(const aether_sampler *s, uint32_t type, uint32_t out_bytes, uint64_t count,
                               void *node, void *batch, aether_error *err);
/* Copy the `count` edges of one relation of the last sample out, as int64 (out_bytes 8) or int32
 * (4): row[count] local node of type `to`, col[count] local node of type `from`, non-decreasing
 * (layered: within each hop), edge[count] edge ids. NULL skips one. AETHER_E_INVALID: `count` is
 * not their number. AETHER_E_LIMIT: int32 is too narrow, as for aether_sample_export(). */
int aether_sample_export_edges(const aether_sampler *s, uint32_t relation, uint32_t out_bytes, uint64_t count,
                               void *row, void *col, void *edge, aether_error *err);
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

/* ---- Samples in bytes ---------------------------------------------------- */

#define AETHER_PART_NODES     1 /* ids of the nodes of a type */
#define AETHER_PART_TREES     2 /* seed slot of each node of a type; disjoint samples only */
#define AETHER_PART_HOP_NODES 3 /* new nodes per hop */
#define AETHER_PART_ROWS      4 /* local node of type `to` of each edge of a relation */
#define AETHER_PART_COLS      5 /* local node of type `from` */
#define AETHER_PART_EDGES     6 /* ids of the edges */
#define AETHER_PART_HOP_EDGES 7 /* edges per hop */
#define AETHER_PART_VALUES    8 /* rows, by the ids that the part of nodes or of edges before it has */

/* Rows that are added to and changed while others read them: row i is that of the last version that is
 * not of a later commit; without one that of `base`, and behind its rows those of `added`. */
typedef struct aether_versioned_rows {
    aether_rows base;
    aether_rows added;       /* of the same dtype and size */
    const uint32_t *slots;   /* [rows]: the last version of each, 0: none. NULL: rows were never changed */
    const uint32_t *before;  /* [num_versions]: the version before; 0: none */
    const uint64_t *commits; /* [num_versions] */
    const void *versions;    /* [num_versions] rows, one behind the other */
    uint64_t num_versions;
    uint64_t commit; /* the commit that is read */
} aether_versioned_rows;

/* Array of a sample in bytes. */
typedef struct aether_part {
    uint32_t what;                       /* AETHER_PART_* */
    uint32_t of;                         /* number of the node type, or of the relation; of values unused */
    const aether_versioned_rows *values; /* of AETHER_PART_VALUES */
} aether_part;

/* Form of a sample in bytes:
 *   u64 key | u64 commit | u32 parts n | u32 0 | u64 lengths[n] | part, zeros up to 8 bytes | ...
 * The numbers of samples are int64; rows are as they are stored. */
typedef struct aether_packing {
    const aether_part *parts;
    uint32_t num_parts;
    uint32_t num_hops;
    uint64_t commit;
    /* Room for counts, which are filled as aether_sample_typed() fills them. */
    uint64_t *hop_nodes, *hop_edges, *num_nodes, *num_edges;
} aether_packing;

/* Sample as aether_sample_typed() does, and write the result with its rows to out, of `room` bytes, which
 * is aligned to 8. Sets *size to the bytes that it takes; if those are more than `room`, nothing is
 * written, and aether_sample_pack() can write them. */
int aether_sample_packed(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                         const aether_packing *packing, void *out, uint64_t room, uint64_t *size,
                         aether_error *err);
/* Write the last sample, drawn with `key`, to out. AETHER_E_INVALID: `size` is not the bytes that it
 * takes, or there is no such part. AETHER_E_RANGE: a row does not exist; names id and position.
 * AETHER_E_CORRUPT: a version does not exist. */
int aether_sample_pack(const aether_sampler *s, uint64_t key, const aether_packing *packing, void *out,
                       uint64_t size, aether_error *err);

/* ---- Random numbers and hashes ------------------------------------------- */

/* Draw from the generator behind sampling (src/core/rng.h), for oracles and tests: out[i] is draw
 * i of the stream (key, hop, edge type, node, seed). */
void aether_rng_draws(uint64_t key, uint32_t hop, uint32_t relation, uint64_t node, uint64_t seed, uint64_t n,
                      uint64_t *out);
/* Hash n ids, their order and their number, for keys. Equal on every platform. */
uint64_t aether_hash_ids(const int64_t *ids, uint64_t n);
/* Hash n ids and their number, whatever the order, for keys. Equal on every platform. */
uint64_t aether_hash_id_set(const int64_t *ids, uint64_t n);

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

/* Draw k neighbours of each of n nodes, out[n][k]: without replacement (a shorter list is
 * taken whole, -1 fills its row), or with it (AETHER_SAMPLE_REPLACE). The draws are
 * those of a disjoint sample's first hop with that key. `task` counts nodes. */
int aether_fanout(const aether_topology *t, const int64_t *nodes, uint64_t n, uint64_t k, uint64_t key,
                  uint32_t flags, uint32_t num_threads, int64_t *out, aether_task *task, aether_error *err);

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

/* Make a topology whose ids stay in a file and are read page by page when they are asked for. The
 * offsets (uint64, at byte indptr_at of the file) are read now and kept compressed; the ids begin
 * at byte indices_at. `lists` gives counts and widths: its indptr is not used, its indices may be
 * NULL, or mapped from the same file, which makes reads of entries near each other cheaper.
 * Borrows `io`. AETHER_E_CORRUPT: offsets descend or do not end at num_edges. `task` counts bytes. */
int aether_topology_create_paged(const aether_lists *lists, aether_io *io, uint64_t indptr_at,
                                 uint64_t indices_at, aether_task *task, aether_topology **out,
                                 aether_error *err);

/* Make a topology whose compressed ids stay in a file and are read block by block when they are
 * asked for. The offsets (at byte indptr_at) and the index of the blocks (at index_at) are read
 * now; the blocks begin at byte blocks_at. `blocks` gives the sizes of blocks and index; its
 * pointers may be NULL, or mapped from the same file. `lists` and `io` are as for
 * aether_topology_create_paged(). AETHER_E_CORRUPT: offsets or index cannot be right. Blocks are
 * checked when they are used. `task` counts bytes. */
int aether_topology_create_paged_blocks(const aether_lists *lists, const aether_blocks *blocks, aether_io *io,
                                        uint64_t indptr_at, uint64_t blocks_at, uint64_t index_at,
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

/* Gather the values at positions[n] into `out`, in that order; out_size is their bytes. Each page
 * is read once. Positions so many and so far apart that sorting them takes more than the staging's
 * span_bytes are gathered in parts, each of which reads its pages once. AETHER_E_FILE_CHANGED: the
 * file was written to or became shorter. */
int aether_values_gather(const aether_values *values, const uint64_t *positions, uint64_t n, void *out,
                         uint64_t out_size, aether_staging *staging, aether_task *task, aether_error *err);

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

/* Gather row ids[i] into out[i] for n ids; ids, out_size, out_dtype and their errors are as for
 * aether_gather(). AETHER_E_FILE_CHANGED: the file was written to or became shorter;
 * AETHER_E_IO: a read failed. `task` counts ids. */
int aether_row_gather(aether_row_file *f, const void *ids, uint32_t id_bytes, uint64_t n, void *out,
                      uint64_t out_size, uint32_t out_dtype, aether_task *task, aether_error *err);
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

/* Gather the rows of the next list; out_size and out_dtype are as for aether_gather(). After a
 * failure there is no next list. */
int aether_row_plan_gather(aether_row_plan *p, void *out, uint64_t out_size, uint32_t out_dtype,
                           aether_task *task, aether_error *err);
/* Copy the totals of the plan. */
void aether_row_plan_count(const aether_row_plan *p, aether_row_plan_stats *out);

/* CFFI END */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif /* AETHER_H */
