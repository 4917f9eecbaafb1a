/*
 * Induced subgraphs: every edge of the graph whose two ends were sampled, by
 * destination in local order, then in list order. The id map of the sample is
 * only searched, so nodes and their order stay. One thread does it, whatever
 * num_threads says.
 */
#include "core/error.h"
#include "sample/sampler.h"

#define BLOCK 256

typedef struct walk {
    aether_sampler *s;
    uint64_t positions[BLOCK];
    uint64_t ids[BLOCK];
    aether_error *err;
} walk;

static int reserve(walk *w, uint64_t more) {
    aether_sampler *s = w->s;
    uint64_t n = s->num_edges;
    int rc = ae_scratch_reserve(&s->positions, (n + more) * sizeof(uint64_t), n * sizeof(uint64_t), w->err);
    return rc ? rc
              : ae_scratch_reserve(&s->rows, (n + more) * sizeof(uint32_t), n * sizeof(uint32_t), w->err);
}

static void keep_sampled(walk *w, uint64_t n) {
    aether_sampler *s = w->s;
    uint64_t *positions = s->positions.data;
    uint32_t *rows = s->rows.data;
    for (uint64_t i = 0; i < n; i++)
        ae_idmap_prefetch(&s->map, w->ids[i]);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t local = ae_idmap_find(&s->map, w->ids[i]);
        positions[s->num_edges] = w->positions[i];
        rows[s->num_edges] = local;
        s->num_edges += local != AE_IDMAP_ABSENT;
    }
}

static int walk_list(walk *w, ae_list list) {
    const aether_topology *t = w->s->topology;
    for (uint64_t at = 0; at < list.degree; at += BLOCK) {
        uint64_t n = list.degree - at < BLOCK ? list.degree - at : BLOCK;
        for (uint64_t i = 0; i < n; i++)
            w->positions[i] = list.start + at + i;
        t->ops->prefetch(t, w->positions, n);
        int rc = reserve(w, n);
        if (!rc)
            rc = t->ops->fetch(t, w->positions, n, w->ids, w->err);
        if (rc)
            return rc;
        keep_sampled(w, n);
    }
    return AETHER_OK;
}

int ae_sample_induced(aether_sampler *s, aether_error *err) {
    walk w = {.s = s, .err = err};
    const aether_topology *t = s->topology;
    int rc = ae_scratch_reserve(&s->first, (s->num_nodes + 1) * sizeof(uint64_t), 0, err);
    if (rc)
        return rc;
    uint64_t *first = ae_sampler_first(s);
    s->num_edges = 0;
    s->num_expanded = s->num_nodes;
    for (uint64_t v = 0; v < s->num_nodes; v++) {
        first[v] = s->num_edges;
        ae_list list = {0};
        rc = t->ops->locate(t, ae_sampler_keys(s) + v, 1, &list, err);
        if (!rc)
            rc = walk_list(&w, list);
        if (rc)
            return rc;
    }
    first[s->num_nodes] = s->num_edges;
    return AETHER_OK;
}
