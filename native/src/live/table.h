/*
 * live/table.h - the lists of all nodes, versioned: what every process knows of a live graph.
 *
 *   header   4096 B: options, `committed`
 *   counts   64 x 64 B: numbers of the last commits, by commit number modulo 64
 *   root     u64 head = place:32, length:32    u64 past = history:32, epoch:32       by node
 *
 *   history  u64 head, u32 epoch, u32 next     in the arena: the version before
 *
 *   root of node 7   [ head of commit 9 | past: 9 --> { head of commit 4, 4 } --> { ..., 2 } ]
 *
 * A commit is the number of all that was changed together. The first change of a list in a commit
 * saves the head in a history and puts the commit's number into `past`; only then it stores the
 * new head. A reader of commit e loads `head`, then `past`: is the number there above e, the head
 * is in the histories. So whatever the moment, a reader finds the list as it was.
 *
 * The table is sparse: opening one for two billion nodes takes milliseconds and no memory; a page
 * is taken when the first of its 256 nodes gets a list. Counts of commit e are good as long as
 * fewer than 63 commits follow while they are read; the reader looks, and pins anew.
 *
 * To come: graphs of several relations share `committed` and pins, and have a table and an arena
 * each; over a graph file, roots are of the nodes that have changed.
 *
 * Caveats: only the writer's process can write the table. Commit numbers in roots have 32 bits:
 * the graph refuses changes (AETHER_E_LIMIT) when they run out. Nodes that are touched at random
 * all over a large table take a page each.
 */
#ifndef AE_LIVE_TABLE_H
#define AE_LIVE_TABLE_H

#include "live/arena.h"
#include "live/layout.h"
#include "live/pins.h"

#define AE_TABLE_MAX_NODES  UINT32_MAX /* ids have 32 bits */
#define AE_TABLE_LAST_EPOCH (UINT32_MAX - 1)

typedef struct ae_root {
    ae_word head, past;
} ae_root;

typedef struct ae_history {
    uint64_t head;
    uint32_t epoch;
    ae_ref next;
} ae_history;

/* Numbers that belong to a commit; uint64_t all of them. */
typedef struct ae_counts {
    uint64_t num_major, num_minor;
    uint64_t num_edges;
    uint64_t next_edge_id;
    uint64_t touched; /* nodes that ever had a list */
    uint64_t used;    /* bytes of blocks in the arena, those of old versions included */
    uint64_t retired; /* bytes of them that only old versions have */
} ae_counts;

typedef struct ae_table {
    ae_shared memory;
    ae_layout layout;
    uint32_t order; /* AETHER_ORDER_* */
    bool fences;    /* the writer has no membarrier */
    ae_word *committed;
    ae_root *roots;
} ae_table;

/* Create the table of a graph without edges, at commit 1; options were checked. */
int ae_table_create(const aether_live_options *options, ae_table *out, aether_error *err);
/* Map the table of another process. */
int ae_table_attach(int fd, ae_table *out, aether_error *err);
void ae_table_close(ae_table *t);
/* Return the number that the graph's arena has, too. */
uint64_t ae_table_token(const ae_table *t);
/* Return the nodes that the table has room for. */
uint64_t ae_table_room(const ae_table *t);

/* Publish a commit with its numbers. */
void ae_table_commit(ae_table *t, uint64_t epoch, const ae_counts *counts);
/* Read the numbers of a commit; return false if they are gone. */
bool ae_table_counts(const ae_table *t, uint64_t epoch, ae_counts *out);

static inline uint64_t ae_past(uint32_t epoch, ae_ref history) {
    return (uint64_t)history << 32 | epoch;
}

#endif
