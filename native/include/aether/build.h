/*
 * aether/build.h - from edges, records and keys as they come to the arrays of a graph.
 *
 *   edges in memory --------> aether_build_lists -----------------------------> indptr, indices
 *   more edges than memory -> aether_records_pack -> _partition -> files of yours
 *                             each of them -> aether_records_order -----------> indptr, indices
 *   text -------------------> aether_parse_integers -> edges
 *   indices ----------------> aether_encode_blocks ---------------------------> blocks, half of it or less
 *   keys of any length -----> aether_keys_hash -> _order -> _first -----------> ids; aether_keys_find asks
 *   topologies -------------> aether_order_degrees -> _ranks -> _fill
 *                             -> aether_order_rabbit, _bfs or _gorder --------> a new order of the nodes
 *
 * What comes out goes to aether_topology_create, or by aether_writer_append to a file (aether.h, FORMAT.md).
 * native/examples/sample.c is a whole program.
 *
 * Caveats: the rules of aether.h hold. Nothing here keeps what it is given: no handles, all memory is the
 * caller's.
 */
#ifndef AETHER_BUILD_H
#define AETHER_BUILD_H

#include "aether.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* CFFI BEGIN */

/* ---- Building lists ------------------------------------------------------ */

/* Edges: major[num_edges] are the ids to group by, minor those to store (CSC: major = dst, minor = src). */
typedef struct aether_edge_list {
    uint64_t size; /* sizeof(aether_edge_list) */
    const int64_t *major, *minor;
    uint64_t num_edges;
    uint64_t num_major; /* ids are below these */
    uint64_t num_minor;
} aether_edge_list;

/* Where lists are built: indptr[num_major + 1], indices[num_edges] of id_bytes (4|8), and in order[num_edges]
 * of order_bytes (4|8; may be NULL) the input row at each output position. */
typedef struct aether_built_lists {
    uint64_t size; /* sizeof(aether_built_lists) */
    uint64_t *indptr;
    void *indices;
    void *order;
    uint32_t id_bytes;
    uint32_t order_bytes; /* of no matter without `order` */
} aether_built_lists;

/* Sort an edge list into compressed lists, by a stable counting sort. AETHER_E_RANGE names the first bad id:
 * position is the row, value the id; err->message says whether it was major or minor. `task` counts row
 * visits, 3 per edge. */
int aether_build_lists(const aether_edge_list *edges, const aether_built_lists *out, aether_task *task,
                       aether_error *err);

/* Columns of integers, out[num_columns][room]. */
typedef struct aether_integer_columns {
    uint64_t size; /* sizeof(aether_integer_columns) */
    int64_t *out;
    uint64_t room; /* lines */
    uint32_t num_columns;
    char delimiter;
    char reserved[3];
} aether_integer_columns;

/* Parse lines of num_columns plain integers (1 to 18 digits), between single delimiters; num_rows gets the
 * number of lines. Empty lines are skipped. AETHER_E_FORMAT: a line of any other form, or more than `room`
 * lines; position is the byte at which that line begins. */
int aether_parse_integers(const char *text, uint64_t text_size, const aether_integer_columns *columns,
                          uint64_t *num_rows, aether_error *err);

/* Find the smallest and the largest of n ids; both are -1 if n is 0. */
int aether_id_bounds(const int64_t *ids, uint64_t n, int64_t *min, int64_t *max, aether_error *err);

/* Check that indptr ascends from 0 to num_edges and that every index is below num_minor. With
 * indices NULL, indptr alone is checked. AETHER_E_CORRUPT names the first bad list or position.
 * `task` counts lists and edges. */
int aether_check_lists(const aether_lists *lists, aether_task *task, aether_error *err);

/* The n edges from position `begin` on. Edge i of them goes from the list that holds its position to
 * minor[i], and has the id edge_ids[i]. Without indptr or minor (NULL) that end counts as 0; without edge_ids
 * the id is the position. */
typedef struct aether_edge_run {
    uint64_t size;          /* sizeof(aether_edge_run) */
    const uint64_t *indptr; /* [num_major + 1], of all lists */
    uint64_t num_major;
    const void *minor;
    const void *edge_ids;
    uint32_t id_bytes;      /* of minor: 4|8 */
    uint32_t edge_id_bytes; /* 4|8 */
    uint64_t begin;
    uint64_t n;
} aether_edge_run;

/* Add to *sum a keyed hash of edges that does not depend on their order (`transposed`: they go the other
 * way). Other edges give another sum, except with a chance of about 1 in 2^64 for edges that were made
 * without knowing the key. `task` counts edges. */
int aether_hash_edges(const aether_edge_run *edges, uint32_t transposed, uint64_t key, uint64_t *sum,
                      aether_task *task, aether_error *err);

/* ---- Compressed ids (FORMAT.md, src/topology/blocks.h) ------------------- */

/* Return the most bytes that aether_encode_blocks() may need for n ids of id_bytes (4|8). */
uint64_t aether_encode_bound(uint64_t n, uint32_t id_bytes);
/* Ids to encode, and where their blocks go: their bytes to `out`, whose `room` is at least
 * aether_encode_bound(), the size of each to sizes[ceil(n / 128)]. */
typedef struct aether_encoding {
    uint64_t size; /* sizeof(aether_encoding) */
    const void *ids;
    uint64_t n;
    void *out;
    uint64_t room;
    uint16_t *sizes;
    uint32_t id_bytes; /* 4|8 */
    uint32_t reserved;
} aether_encoding;

/* Encode ids into blocks, with all threads. The blocks take the first `used` bytes of `out`. Another call may
 * go on behind them if n is a multiple of 128. `task` counts ids. */
int aether_encode_blocks(const aether_encoding *encoding, uint64_t *used, aether_task *task,
                         aether_error *err);

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

/* Rows to pack: ids and columns[num_columns]. */
typedef struct aether_record_columns {
    uint64_t size; /* sizeof(aether_record_columns) */
    const int64_t *major, *minor;
    uint64_t n;
    const aether_column *columns;
    uint32_t num_columns;
    uint32_t id_bytes;
} aether_record_columns;

/* Records, one after the other. */
typedef struct aether_records {
    uint64_t size; /* sizeof(aether_records) */
    const void *data;
    uint64_t n;
    uint32_t record_bytes;
    uint32_t id_bytes; /* for aether_records_order() */
} aether_records;

/* Pack rows into records, which take exactly `records_size` bytes (else AETHER_E_INVALID).
 * AETHER_E_RANGE: an id does not fit id_bytes; position is the row, value the id. */
int aether_records_pack(const aether_record_columns *rows, void *records, uint64_t records_size,
                        aether_error *err);

/* Items of item_bytes each, numbered from `first` on. */
typedef struct aether_items {
    uint64_t size; /* sizeof(aether_items) */
    const void *data;
    uint64_t n;
    uint64_t first;
    uint32_t item_bytes;
    uint32_t reserved;
} aether_items;

/* Checksum items. A checksum is the sum modulo 2^64
 * of a hash of each item and its number, so the checksums of pieces add up to that of the whole.
 * With counts NULL, sums[0] is the checksum of all n items; else sums[num_parts] has those of the
 * counts[i] items from begins[i] on. Guards against accidents only: there is no key.
 * AETHER_E_RANGE: a part is not within the items. */
int aether_hash_items(const aether_items *items, const uint64_t *begins, const uint64_t *counts,
                      uint64_t num_parts, uint64_t *sums, aether_error *err);

#define AETHER_MAX_PARTS 65536

/* How records are partitioned: a record goes to part (key - low) >> shift of num_parts (at most
 * AETHER_MAX_PARTS). */
typedef struct aether_partition {
    uint64_t size; /* sizeof(aether_partition) */
    uint64_t low;
    uint64_t num_parts;
    aether_field key;
    uint32_t shift;
    uint32_t reserved;
} aether_partition;

/* Partition records, in a stable way. `out` gets the parts one after the other, counts[num_parts] their
 * sizes. AETHER_E_RANGE: a key belongs to no part. `task` counts record visits, 2 per record. */
int aether_records_partition(const aether_records *records, const aether_partition *partition,
                             uint64_t *counts, void *out, aether_task *task, aether_error *err);

/* How records are ordered: by the lists low .. low + num_lists - 1. Records of a list stay in input order, or
 * are sorted stably by `row` (may be NULL), then by `time` (may be NULL). */
typedef struct aether_record_order {
    uint64_t size; /* sizeof(aether_record_order) */
    uint64_t low;
    uint64_t num_lists;
    const aether_field *row;
    const aether_field *time;
    uint32_t unique; /* 1: the first of equal minor ids is kept, before times are looked at */
    uint32_t reserved;
} aether_record_order;

/* Order records (fewer than 2^32 - 1): ends[num_lists] gets where each list ends, order[n] the record at each
 * place. With `unique`, order has as many entries as the last end says. */
int aether_records_order(const aether_records *records, const aether_record_order *how, uint64_t *ends,
                         uint32_t *order, aether_error *err);

/* ---- Ranks --------------------------------------------------------------- */

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

/* ---- Orders of nodes ----------------------------------------------------- */

/* One topology of a graph whose nodes are put in order: nodes of its lists are numbered from first_major on,
 * the others from first_minor on, n in all (fewer than 2^32 - 1). */
typedef struct aether_order_part {
    uint64_t size; /* sizeof(aether_order_part) */
    const aether_topology *topology;
    uint64_t first_major;
    uint64_t first_minor;
    uint64_t n;
} aether_order_part;

/* Undirected lists by rank: list r is neighbors[places[r] .. places[r + 1] - 1] once all are filled. */
typedef struct aether_order_lists {
    uint64_t size;       /* sizeof(aether_order_lists) */
    uint64_t *places;    /* [n + 1] */
    uint32_t *neighbors; /* [capacity] */
    uint64_t capacity;   /* the sum of the degrees */
} aether_order_lists;

/* What orders are made from, the undirected lists of a graph by rank, is made in three steps
 * (src/order/undirected.h), each from the topologies of one layout of all edge types:
 *   degrees  for each topology: degrees[n] and *balance are added to.
 *   ranks    once: nodes[n] by ascending degree, then by id; ranks[n] its inverse; places[n + 1] for `fill`.
 *            Where *balance is 0, both directions are stored: halve the degrees before, and fill with `both`
 *            set to 0.
 *   fill     for each topology.
 * `task` counts edges. AETHER_E_LIMIT: too many nodes. */
int aether_order_degrees(const aether_order_part *part, uint64_t *degrees, uint64_t *balance,
                         aether_task *task, aether_error *err);
int aether_order_ranks(const uint64_t *degrees, uint64_t n, uint32_t *nodes, uint32_t *ranks,
                       uint64_t *places, aether_error *err);
int aether_order_fill(const aether_order_part *part, uint32_t both, const uint32_t *ranks,
                      const aether_order_lists *lists, aether_task *task, aether_error *err);
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

/* Where Rabbit Order is written. */
typedef struct aether_rabbit_order {
    uint64_t size; /* sizeof(aether_rabbit_order) */
    uint32_t *order;
    uint32_t *community; /* [n]: the number of each rank's community, by their places in the order */
    uint64_t *num_communities;
} aether_rabbit_order;

/* Rabbit Order (src/order/rabbit.h). */
int aether_order_rabbit(const uint64_t *places, const uint32_t *neighbors, uint64_t n,
                        const aether_rabbit_options *options, const aether_rabbit_order *out,
                        aether_task *task, aether_error *err);
/* Reverse Cuthill-McKee; the lists are sorted. */
int aether_order_bfs(const uint64_t *places, const uint32_t *neighbors, uint64_t n, uint32_t *order,
                     aether_task *task, aether_error *err);
/* Gorder, with a window of so many nodes; the result depends on the order of the lists' entries. */
int aether_order_gorder(const uint64_t *places, const uint32_t *neighbors, uint64_t n, uint32_t window,
                        uint32_t *order, aether_task *task, aether_error *err);

/* CFFI END */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
