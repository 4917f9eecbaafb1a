/*
 * live/control.h - the number of the last commit, and what belongs to it: one block for a whole graph.
 *
 *   header     4096 B: number of relations, `committed`, the last 64 commits
 *   recent     the relations of the last 4096 changes, by change modulo 4096        32 KiB
 *   relation   what it was created as                                64 B
 *              changes; touched, used, retired                       64 B
 *              numbers of its last changes, by change modulo 64      64 x 64 B
 *
 *   committed 12     relation 0   changes 3   [ 1: commit 1 | 2: commit 4 | 3: commit 12 ]
 *                    relation 1   changes 2   [ 1: commit 1 | 2: commit 9 ]
 *                    recent       [ 0, 1, 0, 1, 0 ]     commit 12: 5 changes
 *
 * All relations share `committed`, so one store publishes the lists of all of them at once. Numbers
 * (nodes, edges) are kept by relation, and written by the commits that change it: those of commit
 * 10 are the last ones up to 10. They are good as long as fewer than 63 changes of the relation
 * follow while they are read; the reader looks, and pins anew. A commit says how many changes of relations
 * there have been with it: who has read those up to an earlier commit reads the relations of the later ones.
 *
 * touched, used and retired are for statistics: they belong to no commit.
 *
 * Caveats: only the writer's process can write the block, and it may do so wrongly, or at any moment: what
 * does not change is copied once, when the block is opened, and checked; numbers of nodes are checked against
 * it, and no other file reads the block.
 */
#ifndef AE_LIVE_CONTROL_H
#define AE_LIVE_CONTROL_H

#include "live/pins.h"
#include "live/stamp.h"

#define AE_CONTROL_RELATIONS   4096u      /* at most */
#define AE_CONTROL_MAX_NODES   UINT32_MAX /* ids have 32 bits */
#define AE_CONTROL_LAST_COMMIT ((UINT64_C(1) << AE_COMMIT_BITS) - 2)
#define AE_CONTROL_TRIES       1000u /* of a reader, to read the numbers of a commit before they are gone */

/* Numbers of a relation that belong to a commit. */
typedef struct ae_counts {
    uint64_t num_src, num_dst;
    uint64_t num_edges;
    uint64_t next_edge_id;
} ae_counts;

/* Numbers of a relation's lists as they are now. */
typedef struct ae_usage {
    uint64_t touched; /* nodes that ever had a list */
    uint64_t used;    /* bytes of blocks in the arenas, those of old versions included */
    uint64_t retired; /* bytes of them that only old versions have */
} ae_usage;

/* What belongs to a commit of all relations. */
typedef struct ae_commit {
    uint64_t lsn;     /* its number in a log: that of the last commit there; 0: there is none */
    uint64_t changes; /* of relations, up to it */
} ae_commit;

typedef struct ae_control {
    ae_shared memory;
    ae_word *committed;
    aether_live_relation *relations; /* [num_relations], a copy that was checked */
    uint32_t num_relations;
    bool fences; /* the writer has no membarrier */
    uint64_t token;
    uint64_t arena_bytes;
    uint64_t first_commit; /* that the graph began with */
    uint64_t changes;      /* of relations; the writer's */
} ae_control;

/* Check what a relation is to be; `r` is its number. */
int ae_control_check(const aether_live_relation *o, uint32_t r, aether_error *err);

/* Create the block of a graph without edges but those of its base; options were checked. */
int ae_control_create(const aether_live_options *options, ae_control *out, aether_error *err);
/* Map the block of another process. */
int ae_control_attach(int fd, ae_control *out, aether_error *err);
void ae_control_close(ae_control *c);

/* Return what a relation was created as. */
static inline const aether_live_relation *ae_control_relation(const ae_control *c, uint32_t r) {
    return &c->relations[r];
}
/* Say, and ask, whether the graph goes on in other memory. */
void ae_control_retire(ae_control *c);
bool ae_control_is_retired(const ae_control *c);

/* Write the numbers of a relation that a commit has changed. */
void ae_control_put_counts(ae_control *c, uint32_t r, uint64_t commit, const ae_counts *counts);
/* Write the number that a commit has in a log, behind the numbers of its relations. */
void ae_control_put_lsn(ae_control *c, uint64_t commit, uint64_t lsn);
/* Publish a commit. */
void ae_control_commit(ae_control *c, uint64_t commit);

/* Read what belongs to a commit; return false if it is gone. */
bool ae_control_at(const ae_control *c, uint64_t commit, ae_commit *out);
/* Read the numbers of a relation at a commit; return false if they are gone, or cannot be. */
bool ae_control_counts(const ae_control *c, uint32_t r, uint64_t commit, ae_counts *out);
/* Return the relation that a change was of, or UINT32_MAX if that is gone. */
uint32_t ae_control_changed(const ae_control *c, uint64_t change);

void ae_control_put_usage(ae_control *c, uint32_t r, const ae_usage *usage);
ae_usage ae_control_usage(const ae_control *c, uint32_t r);

/* Return the nodes that a relation has room for at one end. */
static inline uint64_t ae_room_of(uint64_t max_nodes) {
    return max_nodes ? max_nodes : AE_CONTROL_MAX_NODES;
}

#endif
