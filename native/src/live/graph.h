/*
 * live/graph.h - all the shared memory of a live graph, as one process has it mapped.
 *
 *   control   committed, relations               descriptor 0
 *   pins                                                    1
 *   lists     table, arena | table, arena ...               2, 3 | 4, 5 ...
 *             relation 0 CSC  0 CSR   (those that are stored, by relation)
 *
 * Caveats: the table and the arena of a list name the graph and the list, so descriptors that were
 * mixed up are refused; the pins are anybody's.
 */
#ifndef AE_LIVE_GRAPH_H
#define AE_LIVE_GRAPH_H

#include "live/base.h"
#include "live/control.h"
#include "live/table.h"

/* The lists of a relation in one layout. */
typedef struct ae_lists {
    ae_table table;
    ae_arena arena;
    ae_base base; /* as this process has it; the table says whether there must be one */
    uint32_t relation, layout;
} ae_lists;

typedef struct ae_graph {
    ae_control control;
    ae_shared pins;
    uint64_t budget;          /* bytes that the arenas may still take; the writer's */
    aether_live_memory given; /* memory of the arenas; reserve NULL: they are shared */
    uint32_t num_lists;
    uint32_t missing; /* lists whose base is not known yet */
    ae_lists *lists;
    ae_lists **by_layout; /* [2 * num_relations]; NULL: not stored */
} ae_graph;

/* Create the memory of a graph without edges. Arenas refer to `g`: do not move it. */
int ae_graph_create(const aether_live_options *options, ae_graph *g, aether_error *err);
int ae_graph_attach(const int32_t *descriptors, uint32_t n, ae_graph *g, aether_error *err);
void ae_graph_close(ae_graph *g);

/* Return the lists of a relation in AETHER_LIVE_CSC or AETHER_LIVE_CSR, or NULL. */
static inline ae_lists *ae_graph_lists(const ae_graph *g, uint32_t relation, uint32_t layout) {
    return g->by_layout[2 * relation + (layout - 1)];
}

/* Fail with AETHER_E_INVALID while the base of a relation is not known. */
int ae_graph_check_bases(const ae_graph *g, aether_error *err);

/* Fail with AETHER_E_UNSUPPORTED if the arena is a user's memory, of `owner`, which this process does not
 * share: a forked child has a copy that stays behind. */
int ae_graph_check_shared(const ae_graph *g, uint64_t owner, aether_error *err);

/* Fail with AETHER_E_RANGE unless there is such a relation. */
int ae_graph_check_relation(const ae_graph *g, uint32_t relation, aether_error *err);

#endif
