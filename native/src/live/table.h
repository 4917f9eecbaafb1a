/*
 * live/table.h - the lists of all nodes, versioned: one relation, grouped by one end.
 *
 *   header   4096 B: which list of which graph, bytes that its arena has taken
 *   root     u64 head = place:32, length:32    u64 past = history:32, stamp:32       by node
 *
 *   history  u64 head, u32 stamp, u32 next     in the arena: the version before
 *
 *   root of node 7   [ head of commit 9 | past: 9 --> { head of commit 4, 4 } --> { ..., 2 } ]
 *
 * A commit is the number of all that was changed together, in all tables of a graph. The first
 * change of a list in a commit saves the head in a history and puts the commit's stamp (live/stamp.h)
 * into `past`; only then it stores the new head. A reader of commit e loads `head`, then `past`: is the
 * stamp there after e, the head is in the histories. So whatever the moment, a reader finds the
 * list as it was.
 *
 * The table is sparse: opening one for two billion nodes takes milliseconds and no memory; a page
 * is taken when the first of its 256 nodes gets a list, and a huge page when many of its nodes have
 * one (live/writer.h). Mapped are the roots of the nodes that there are: with more of them the table is
 * mapped once more, twice as far, and who reads in the former mapping goes on.
 *
 * Over a base (live/base.h) most nodes never get a root, and readers ask for all of them. There roots come
 * in fours, a cache line, in the order in which they are first touched, and an index says where those of
 * four nodes are:
 *
 *   changed  a bit by node: its list was changed, by a commit or by what may become one
 *   index    u32 by node / 4: line of their roots; 0: none of them was ever changed
 *   roots    line 0 (always empty) | line 1: 4 roots | line 2 | ...
 *
 * Readers look at the bit first: it is one of few cache lines, and without it the list is the base's. Then
 * come the index and the root. A line stays where it is, so no more is needed than to load in this order.
 * Line 0 is there for them, as roots are prefetched that are not there yet.
 *
 * Caveats: only the writer's process can write the table. Nodes that are touched at random all over a large
 * table take a page each.
 */
#ifndef AE_LIVE_TABLE_H
#define AE_LIVE_TABLE_H

#include "live/arena.h"
#include "live/layout.h"
#include "live/pins.h"
#include "live/stamp.h"

typedef struct ae_root {
    ae_word head, past;
} ae_root;

typedef struct ae_history {
    uint64_t head;
    ae_stamp stamp;
    ae_ref next;
} ae_history;

#define AE_ROOTS_OF_LINE 4u

/* The beginning of a table, as it is mapped in one place. */
typedef struct ae_table_map {
    uint8_t *data;
    uint64_t mapped;
    struct ae_table_map *before; /* where less of it is */
} ae_table_map;

typedef struct ae_table {
    ae_shared memory; /* of it the part that was mapped first */
    ae_layout layout;
    uint32_t order;    /* AETHER_ORDER_* */
    uint64_t roots_at; /* bytes before the roots */
    ae_root
        *roots; /* of the writer, which maps them before it adds nodes; readers have those of their view */
    _Atomic(ae_table_map *) *last; /* what was mapped last; NULL: nothing since the first part */
    ae_word *changed;              /* bits of nodes; NULL: there is no base */
    _Atomic uint32_t *lines;       /* the index; NULL: roots are by node */
    uint32_t num_lines;            /* of roots, as the writer knows */
    uint32_t end_lines;            /* of the index's numbers: there is no room for more lines */
} ae_table;

/* Create an empty table for `room` nodes, of which there are `nodes`. `name` is a number that only this list
 * of this graph has. */
int ae_table_create(const aether_live_relation *relation, uint64_t room, uint64_t nodes, uint64_t name,
                    bool huge, ae_table *out, aether_error *err);
/* Map the table of another process. */
int ae_table_attach(int fd, const aether_live_relation *relation, uint64_t room, uint64_t name, ae_table *out,
                    aether_error *err);
void ae_table_close(ae_table *t);

/* Return the roots, mapped as far as the first `nodes` have some, of which there is room; NULL: there are no
 * addresses for them. Any thread may ask. */
ae_root *ae_table_reach(const ae_table *t, uint64_t nodes, aether_error *err);

/* Return the table as it was mapped last: there the writer writes. */
ae_shared ae_table_mapping(const ae_table *t);

/* Return where the writer notes how much the arena of the list has taken. */
ae_word *ae_table_taken(const ae_table *t);

/* Return the first node from `node` on whose root, or place in the index, lies on a page that was ever
 * written, and the end of such pages: reading the others would take memory for them. */
uint64_t ae_table_written(const ae_table *t, uint64_t node, uint64_t *end);

/* Return the line of the root of a node over a base; 0: there is none. */
static inline uint64_t ae_table_line(const ae_table *t, uint64_t node) {
    const uint32_t line = atomic_load_explicit(&t->lines[node / AE_ROOTS_OF_LINE], memory_order_acquire);
    return line < t->end_lines ? line : 0;
}

/* Return the end of the lines that a commit with so many nodes can have: they are numbered in the order in
 * which they are needed, so whatever leads behind it is of a later commit. */
static inline uint64_t ae_table_end_lines(uint64_t nodes) {
    return (nodes + AE_ROOTS_OF_LINE - 1) / AE_ROOTS_OF_LINE + 1; /* line 0 is nobody's */
}

/* Return the root of a node, for the writer, or NULL if there is none, as its list never changed. */
static inline ae_root *ae_table_root(const ae_table *t, uint64_t node) {
    if (!t->lines)
        return &t->roots[node];
    const uint64_t line = ae_table_line(t, node);
    return line ? &t->roots[line * AE_ROOTS_OF_LINE + node % AE_ROOTS_OF_LINE] : NULL;
}

/* Return the root of a node, which gets one. */
static inline ae_root *ae_table_make_root(ae_table *t, uint64_t node) {
    ae_root *root = ae_table_root(t, node);
    if (root)
        return root;
    atomic_store_explicit(&t->lines[node / AE_ROOTS_OF_LINE], ++t->num_lines, memory_order_release);
    return ae_table_root(t, node);
}

/* Let readers look at the root of a node, whose first change this is. The writer is one thread, so no bit is
 * lost; who reads the commit sees the bit, as it is published after it. */
static inline void ae_table_mark(const ae_table *t, uint64_t node) {
    ae_word *word = &t->changed[node / 64];
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) | UINT64_C(1) << node % 64,
                          memory_order_relaxed);
}

/* Return whether readers look at the root of a node. */
static inline bool ae_table_is_marked(const ae_table *t, uint64_t node) {
    return atomic_load_explicit(&t->changed[node / 64], memory_order_relaxed) >> node % 64 & 1;
}

/* Return the word that says which commit made a version and where those before are. 0: the list never
 * changed. */
static inline uint64_t ae_past(ae_stamp stamp, ae_ref history) {
    return (uint64_t)history << 32 | stamp;
}

static inline ae_stamp ae_past_stamp(uint64_t past) {
    return (ae_stamp)past;
}
static inline ae_ref ae_past_history(uint64_t past) {
    return (ae_ref)(past >> 32);
}

#endif
