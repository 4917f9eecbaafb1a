/*
 * sample/walk/walkers.h - walkers: the walks of a block, which go step by step together.
 *
 *   walker   0    1    2   ...        walks that still go on
 *   walk   [ 0    1    4   ... ]      number of the walk in the call
 *   node   [ 7    9    7   ... ]      where the walk stands
 *   list   [ .    .    .   ... ]      the list of that node
 *
 *   pending: walkers that have no next node yet, and the position each has drawn
 *
 * Caveats: the memory is the caller's, AE_WALKER_BYTES for each walker.
 */
#ifndef AE_SAMPLE_WALK_WALKERS_H
#define AE_SAMPLE_WALK_WALKERS_H

#include "core/failure.h"
#include "core/task.h"
#include "sample/walk/walk.h"
#include "topology/list_reader.h"

#define AE_WALK_NOWHERE UINT64_MAX
#define AE_WALKER_BYTES (13 * sizeof(uint64_t))

/* One call of aether_random_walk: its arguments, and what all threads share. */
typedef struct ae_walks {
    const aether_topology *t;
    const uint64_t *alias;
    const void *members;
    const int64_t *starts;
    int64_t *out;
    uint64_t num_walks, length, block, base;
    uint64_t number; /* of the first walk */
    ae_walk_rule rule;
    uint64_t restart;
    bool pad, plain;
    aether_task *task;
    ae_failure failure;
} ae_walks;

/* The walks of one block that still go on. */
typedef struct ae_walkers {
    uint64_t n;
    uint64_t *walk;   /* number of the walk in the call */
    uint64_t *stream; /* random stream of the walk */
    uint64_t *node;   /* where the walk stands; AE_WALK_NOWHERE once it jumps */
    ae_list *list;    /* list of `node`; no entries: a dead end */
    uint64_t *before; /* where the walk came from, or AE_WALK_NOWHERE */
    ae_list *behind;  /* list of `before` */
    uint64_t *draw;   /* draw of this step */
    uint64_t *next;
    ae_list_reader *reader; /* where fetching many at once pays, else NULL */
} ae_walkers;

typedef struct ae_pending {
    uint64_t n;
    uint32_t *walker, *asking;
    uint64_t *position, *id;
} ae_pending;

static inline void ae_walkers_make(uint64_t *memory, uint64_t capacity, ae_walkers *l, ae_pending *p) {
    *l = (ae_walkers){.walk = memory,
                      .stream = memory + capacity,
                      .node = memory + 2 * capacity,
                      .before = memory + 3 * capacity,
                      .draw = memory + 4 * capacity,
                      .next = memory + 5 * capacity,
                      .list = (ae_list *)(memory + 6 * capacity),
                      .behind = (ae_list *)(memory + 8 * capacity)};
    *p = (ae_pending){.position = memory + 10 * capacity,
                      .id = memory + 11 * capacity,
                      .walker = (uint32_t *)(memory + 12 * capacity),
                      .asking = (uint32_t *)(memory + 12 * capacity) + capacity};
}

/* Fetch the ids at n positions. */
static inline int ae_walkers_fetch(const ae_walks *w, const ae_walkers *l, const uint64_t *positions,
                                   uint64_t n, uint64_t *ids, aether_error *err) {
    if (l->reader)
        return ae_list_reader_fetch(l->reader, w->t, positions, n, ids, w->task, err);
    w->t->ops->prefetch(w->t, positions, n);
    return w->t->ops->fetch(w->t, positions, n, ids, err);
}

/* Fail because an alias table points outside a list: the mapped list has changed since. */
int ae_walk_bad_place(const ae_walkers *l, uint64_t i, uint64_t place, aether_error *err);

#endif
