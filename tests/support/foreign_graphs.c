/*
 * A topology of one's own for tests: lists that it was given, under positions and edge ids that
 * are its own, so that nothing can take one for the other.
 *
 *   position   bit 62 | node << 24 | k        entry k of the list of the node
 *   edge id    num_edges - 1 - place          counted back from the last place in the lists
 *   weight, time  by place, where they are given; else the operations are not there
 *
 * Caveats: lists have fewer than 2^24 entries; the arrays are borrowed from Python.
 */
#include <aether/topology.h>
#include <stdlib.h>

#define BIT (UINT64_C(1) << 62)

typedef struct foreign {
    aether_topology base; /* first: samplers know no more than this */
    ae_topology_ops ops;
    const uint64_t *indptr, *indices;
    const double *weights;
    const int64_t *times;
} foreign;

static const foreign *of(const aether_topology *t) {
    return (const foreign *)(const void *)t;
}

static uint64_t place(const foreign *f, uint64_t position) {
    return f->indptr[(position & ~BIT) >> 24] + (position & 0xFFFFFF);
}

static int locate(const aether_topology *t, const uint64_t *nodes, uint64_t n, ae_list *out,
                  aether_error *err) {
    const foreign *f = of(t);
    (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = (ae_list){BIT | nodes[i] << 24, f->indptr[nodes[i] + 1] - f->indptr[nodes[i]]};
    return AETHER_OK;
}

static void prefetch(const aether_topology *t, const uint64_t *positions, uint64_t n) {
    (void)t, (void)positions, (void)n;
}

static int fetch(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *ids,
                 aether_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = of(t)->indices[place(of(t), positions[i])];
        if (ids[i] >= t->num_minor) {
            *err = (aether_error){AETHER_E_CORRUPT, 0, (int64_t)positions[i], (int64_t)ids[i],
                                  "the foreign graph holds a node that it does not have"};
            return AETHER_E_CORRUPT;
        }
    }
    return AETHER_OK;
}

static int edge_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, uint64_t *out,
                    aether_error *err) {
    (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = t->num_edges - 1 - place(of(t), positions[i]);
    return AETHER_OK;
}

static int weights(const aether_topology *t, const uint64_t *positions, uint64_t n, double *out,
                   aether_error *err) {
    (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = of(t)->weights[place(of(t), positions[i])];
    return AETHER_OK;
}

static int times(const aether_topology *t, const uint64_t *positions, uint64_t n, int64_t *out,
                 aether_error *err) {
    (void)err;
    for (uint64_t i = 0; i < n; i++)
        out[i] = of(t)->times[place(of(t), positions[i])];
    return AETHER_OK;
}

static uint64_t memory(const aether_topology *t) {
    (void)t;
    return sizeof(foreign);
}

static void destroy(aether_topology *t) {
    free(t);
}

aether_topology *foreign_create(uint64_t num_nodes, const uint64_t *indptr, const uint64_t *indices,
                                const double *own_weights, const int64_t *own_times) {
    foreign *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->ops = (ae_topology_ops){.locate = locate,
                               .prefetch = prefetch,
                               .fetch = fetch,
                               .edge_ids = edge_ids,
                               .weights = own_weights ? weights : NULL,
                               .times = own_times ? times : NULL,
                               .memory = memory,
                               .destroy = destroy};
    f->base = (aether_topology){.ops = &f->ops,
                                .num_major = num_nodes,
                                .num_minor = num_nodes,
                                .num_edges = indptr[num_nodes],
                                .end_positions = BIT | (num_nodes + 1) << 24,
                                .end_edge_ids = indptr[num_nodes],
                                .id_bytes = 8};
    f->indptr = indptr;
    f->indices = indices;
    f->weights = own_weights;
    f->times = own_times;
    return &f->base;
}

void foreign_destroy(aether_topology *t) {
    if (t)
        t->ops->destroy(t);
}

/* Break what adopting has to notice: 0 no operation `fetch`, 1 id_bytes, 2 end_positions, 3 nodes
 * at both ends; 4 breaks nothing: the last 5 edge ids are those of edges that are gone. */
void foreign_break(aether_topology *t, int what) {
    foreign *f = (foreign *)(void *)t;
    if (what == 0)
        f->ops.fetch = NULL;
    else if (what == 1)
        t->id_bytes = 3;
    else if (what == 2)
        t->end_positions = t->num_edges - 1;
    else if (what == 3)
        t->num_minor++;
    else
        t->end_edge_ids += 5;
}
