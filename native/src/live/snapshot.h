/*
 * live/snapshot.h - one commit of a live graph as a topology.
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
 * Caveats: a snapshot borrows the mappings of its aether_live. A change that is not committed is
 * not seen, by the writer's own snapshots neither.
 */
#ifndef AE_LIVE_SNAPSHOT_H
#define AE_LIVE_SNAPSHOT_H

#include "live/table.h"
#include "topology/topology.h"

typedef struct ae_snapshot {
    aether_topology base;
    ae_topology_ops ops; /* those of the columns that there are */
    const ae_table *table;
    const ae_arena *arena;
    ae_pin *pin;
    uint64_t epoch;
    ae_counts counts;
} ae_snapshot;

/* Pin the last commit of a graph. */
int ae_snapshot_create(const ae_table *table, const ae_arena *arena, const ae_shared *pins, ae_snapshot **out,
                       aether_error *err);
/* Return the snapshot behind a topology, or NULL if it is none. */
const ae_snapshot *ae_snapshot_of(const aether_topology *t);

/* Find whether the list of `node` holds `id`. */
int ae_snapshot_has_edge(const ae_snapshot *s, uint64_t node, uint32_t id, bool *found, aether_error *err);

#endif
