/*
 * live/snapshot.h - one commit of a live graph as topologies.
 *
 *   snapshot   pin, commit
 *              views     one aether_topology for each list store (relation x layout)
 *              counts    of each relation at the commit
 *
 *   renewed    changes 811 --> 815: relations 3, 7, 3 and 9 have changed, so 3, 7 and 9 are read
 *
 *   node --locate--> root: head, past --(histories)--> head at the pinned commit
 *                      position  BIT | place | 0 ... length - 1
 *   position --fetch--> small: group of the block    large: directory -> leaf -> group
 *
 * The sampler, groups and walks see an aether_topology (topology/topology.h) and need nothing else.
 * A snapshot holds a pin, so nothing that it shows is reused. Should the writer let the pin
 * expire, or the process that pinned be another one that has let go, every call fails with
 * AETHER_E_EXPIRED: each operation looks at the pin after it has read.
 *
 * Caveats: a snapshot borrows the mappings of its aether_live, and its views are the snapshot's:
 * destroying one does nothing. A change that is not committed is not seen, by the writer's own
 * snapshots neither.
 */
#ifndef AE_LIVE_SNAPSHOT_H
#define AE_LIVE_SNAPSHOT_H

#include "live/graph.h"
#include "topology/topology.h"

/* The commit that all views of a snapshot show. */
typedef struct ae_moment {
    const ae_pin *pin; /* of a snapshot that rests: one that nobody holds */
    uint64_t commit;   /* 0: none, as it could not be read */
    ae_stamp stamp;
} ae_moment;

/* The lists of a relation in one layout. */
typedef struct ae_view {
    aether_topology base;
    ae_topology_ops ops; /* those of the columns that there are */
    const ae_table *table;
    ae_root *roots; /* of the nodes of the commit */
    const ae_arena *arena;
    const ae_base *below; /* NULL: there is none */
    const uint32_t *near; /* ids of the base by position, where they are an array in memory, else NULL */
    const ae_moment *now;
    uint64_t end;     /* of the arena at the last change, in bytes: positions lead nowhere behind it */
    uint64_t longest; /* entries that a list can have */
} ae_view;

struct aether_snapshot {
    const ae_graph *graph;
    ae_pin *pin;    /* NULL: it rests */
    uint64_t owner; /* process that has the pin, or had it last */
    ae_moment now;
    ae_commit at;      /* what belongs to that commit */
    ae_counts *counts; /* [num_relations], behind the views */
    uint32_t *order;   /* [num_relations]: in which they are all read, behind the counts */
    ae_view views[];   /* of the graph's lists */
};

/* Return the operations of a view over a base; columns are those of its relation. */
ae_topology_ops ae_view_ops_over(const ae_view *v);

/* Pin the last commit of a graph. */
int ae_snapshot_create(const ae_graph *graph, aether_snapshot **out, aether_error *err);

/* Return the view of a relation's lists in a layout; NULL: not stored. */
const ae_view *ae_snapshot_view(const aether_snapshot *s, uint32_t relation, uint32_t layout);

/* Pin a later commit, as the numbers of *commit were gone before they could be read; `tries` counts those.
 * After AE_CONTROL_TRIES of them AETHER_E_EXPIRED. */
int ae_snapshot_pin_later(const ae_control *c, ae_pin *pin, uint32_t tries, uint64_t *commit,
                          aether_error *err);

/* Make the view of lists that shows what `now` says, and show a commit with these numbers. */
void ae_view_init(ae_view *v, const ae_lists *lists, const ae_moment *now);
int ae_view_show(ae_view *v, uint32_t layout, const ae_counts *counts, aether_error *err);

/* Find whether there is an edge from src to dst, which exist, in the shorter one of their lists; NULL: not
 * stored. `most`: entries of a list by time that are read. AETHER_E_LIMIT: there are more. The task is looked
 * at within long lists. */
int ae_view_has_edge(const ae_view *csc, const ae_view *csr, uint32_t src, uint32_t dst, uint64_t most,
                     bool *found, aether_task *task, aether_error *err);

#endif
