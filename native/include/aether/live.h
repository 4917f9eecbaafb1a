/*
 * aether/live.h - graphs and rows that change while others read them, in shared memory.
 *
 *   aether_live  (one writer)                          aether_table  (any number of writers)
 *     insert, delete -> commit 7 -> commit 8             put
 *                          |           |                  |
 *   aether_snapshot  7 ----+    8 -----+                 gather: each row as one put left it
 *     an aether_topology for each layout of each relation
 *                          |
 *   aether_sampler (aether.h), aether_sampler_retarget
 *
 * What to call, in which order (native/examples/live.c is a whole program)
 *
 *   1. aether_live_create, then, to keep it through a restart, aether_live_open_journal, which does the
 *      commits of the log again.
 *   2. As edges come: aether_live_insert and aether_live_delete, each a commit of its own, or several of
 *      them between aether_live_begin and aether_live_commit.
 *   3. To read: aether_snapshot_take once, aether_snapshot_topology for samplers and walks (aether.h; weights
 *      and times are AETHER_OWN_*). Then for each batch aether_snapshot_renew, and aether_sampler_retarget
 *      where nodes were added.
 *   4. Samplers and topologies go before their snapshot (aether_snapshot_release), snapshots before their
 *      graph (aether_live_close).
 *   5. Rows of its nodes: aether_table_create once, aether_table_put and aether_table_gather from any
 *      process that has it.
 *
 * Caveats: the rules of aether.h hold. Younger than aether.h: more of it changes from one minor version to
 * the next. One thread at a time changes a graph; a forked child reads only. A snapshot that is kept keeps
 * memory: aether_live_options.max_snapshot_age lets it expire.
 */
#ifndef AETHER_LIVE_H
#define AETHER_LIVE_H

#include "aether.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* CFFI BEGIN */

/* ---- Live graphs --------------------------------------------------------- */

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
    /* AETHER_TIMES_OF_EDGES, or 0; _NODES: `times` are by source. Lists of in-edges are in the order of those
     * of their neighbours. In lists of out-edges they order nothing, and are not read: inserted edges come
     * last, and those of the base have the time INT64_MIN. */
    uint32_t times_of;
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
 * changed since, not on how many there are; an expired snapshot is good again, and one that rests. Its
 * topologies then show that commit, so nobody may be using them, and samplers of them are retargeted, unless
 * only edges have changed. AETHER_E_UNSUPPORTED: another process took it (this one is its child).
 * AETHER_E_LIMIT: it rested, and all 256 are taken. AETHER_E_EXPIRED: as aether_snapshot_take(). */
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

/* Answer one question about the last commit, without a snapshot: in some 100 ns, from any thread. */

/* Return the length of the list of a node in AETHER_LIVE_CSC or AETHER_LIVE_CSR, or the negative code of an
 * error, for which `err` may be NULL. */
int64_t aether_live_degree(const aether_live *g, uint32_t relation, uint32_t layout, int64_t node,
                           aether_error *err);
/* Return that length, and copy the ids of the list to out[capacity] if there is room for all of them. */
int64_t aether_live_neighbors(const aether_live *g, uint32_t relation, uint32_t layout, int64_t node,
                              int64_t *out, uint64_t capacity, aether_error *err);
/* Return 1 if there is an edge from src to dst, 0 if not, or the negative code of an error, for which `err`
 * may be NULL. AETHER_E_LIMIT: more than 65,536 entries of lists by time would be read. */
int aether_live_has_edge(const aether_live *g, uint32_t relation, int64_t src, int64_t dst,
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

/* ---- Samplers of snapshots ----------------------------------------------- */

/* Let a sampler go on with other relations and numbers of nodes, say of the next
 * snapshot of a graph that grows: as many as it was made with, checked and borrowed in the same
 * way. The scratch memory stays, the sample is dropped, and what was borrowed before is not used
 * any more. After an error the sampler is as it was. */
int aether_sampler_retarget(aether_sampler *s, const aether_schema *schema, aether_error *err);
/* Let a group go on with other relations and numbers of nodes, as
 * aether_sampler_retarget() does. Samples that were not taken are dropped, and so is the one that
 * was taken last. */
int aether_group_retarget(aether_group *g, const aether_schema *schema, aether_error *err);

/* ---- Journals of live graphs --------------------------------------------- */

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

/* ---- Tables of live rows (src/slots/layout.h) ---------------------------- */

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
    /* The fields from here on are set by the library. */
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
/* n slots that were read from outside, without fences: slot i, at slots + i * stride, should be that of row
 * ids[i]. Its row goes to place i of `out`, as AETHER_MISSING_ERROR gathers it in the stored dtype. */
typedef struct aether_slots {
    uint64_t size; /* sizeof(aether_slots) */
    const int64_t *ids;
    uint64_t n;
    const void *slots;
    uint64_t stride;
    void *out;
    uint64_t out_size; /* bytes */
    uint8_t
        *whole; /* [n]: 1 if its number is even and its checksum right, so that its row is there; else 0 */
} aether_slots;

/* Take the rows out of slots of a table with these facts; *taken counts the whole ones. */
int aether_slots_take(const aether_table_info *info, const aether_slots *slots, uint64_t *taken,
                      aether_error *err);

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
    const aether_sample_counts *counts; /* of the sample, which are among the parts */
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

/* CFFI END */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
