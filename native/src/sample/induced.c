/*
 * Induced subgraphs: every edge of the graph whose two ends were sampled, by
 * destination in local order, then in list order. In a disjoint sample both ends
 * belong to one tree, and the edge lies in the tree's time. The id map of the sample
 * is only searched, so nodes and their order stay. One thread does all of it, whatever
 * num_threads says.
 */
#include "sample/induced.h"

#include "core/error.h"

#define BLOCK    AE_TIMES_MANY
#define LOOK     64    /* blocks of a list between two looks at the task */
#define TOGETHER 65536 /* lists that are read at once, where they are slow to reach */

typedef struct walk {
    const aether_sampler *s;
    ae_relation *r;
    const ae_nodes *to;       /* far ends */
    const uint64_t *keys;     /* keys of the nodes whose lists are read together */
    ae_list *lists;           /* these lists */
    uint64_t *first;          /* first edge of each node */
    uint64_t begun;           /* lists whose first edge is known */
    ae_exclusions exclusions; /* excluded positions in the rest of the list at work */
    uint64_t tree;            /* tree of the list at work, shifted to its bits in a key; 0 unless disjoint */
} walk;

static int reserve_induced(const walk *w, uint64_t more, aether_error *err) {
    ae_relation *r = w->r;
    uint64_t n = r->num_edges;
    int rc = ae_scratch_reserve(&r->positions, (n + more) * sizeof(uint64_t), n * sizeof(uint64_t), err);
    return rc ? rc : ae_scratch_reserve(&r->rows, (n + more) * sizeof(uint32_t), n * sizeof(uint32_t), err);
}

/* Keep of n entries from position `at` on those whose ids were sampled. Each is written behind the known
 * edges before it is known to be one, which spares a branch that cannot be predicted. */
static void keep_sampled(walk *w, uint64_t at, uint64_t *ids, uint64_t n) {
    ae_relation *r = w->r;
    ae_exclusions exclusions = w->exclusions;
    uint64_t *positions = r->positions.data, kept = r->num_edges;
    uint32_t *rows = r->rows.data;
    for (uint64_t i = 0; w->tree && i < n; i++)
        ids[i] |= w->tree;
    ae_nodes_prefetch(w->to, ids, n);
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t local = ae_idmap_find(&w->to->map, ids[i]);
        const bool skipped = exclusions.count && *exclusions.positions == at + i;
        if (skipped)
            exclusions = (ae_exclusions){exclusions.positions + 1, exclusions.count - 1};
        positions[kept] = at + i;
        rows[kept] = local;
        kept += !skipped && local != AE_IDMAP_ABSENT;
    }
    r->num_edges = kept;
    w->exclusions = exclusions;
}

static void begin_induced_lists(walk *w, uint64_t end) {
    while (w->begun < end)
        w->first[w->begun++] = w->r->num_edges;
}

static int keep_part(void *ctx, uint64_t list, uint64_t at, uint64_t *ids, uint64_t n, aether_error *err) {
    walk *w = ctx;
    if (w->begun <= list) { /* this list's first entries */
        begin_induced_lists(w, list + 1);
        w->tree = w->s->node_bits ? ae_key_tree(w->s, w->keys[list]) << w->s->node_bits : 0;
        w->exclusions = ae_exclusions_in(w->r->excluded, w->r->num_excluded, w->lists[list]);
    }
    for (uint64_t i = 0; i < n; i += BLOCK) {
        const uint64_t some = n - i < BLOCK ? n - i : BLOCK;
        int rc = i / BLOCK % LOOK == LOOK - 1 ? ae_sample_check(w->s, err) : AETHER_OK;
        if (!rc)
            rc = reserve_induced(w, some, err);
        if (rc)
            return rc;
        keep_sampled(w, at + i, ids + i, some);
    }
    return AETHER_OK;
}

/* Locate lists [at, at + n), at most BLOCK. A disjoint sample has the entries at times that the tree of the
 * node may see. */
static int locate_induced(const walk *w, uint64_t at, uint64_t n, aether_error *err) {
    const aether_topology *t = w->r->topology;
    uint64_t nodes[BLOCK] = {0};
    int rc = ae_sample_check(w->s, err);
    for (uint64_t i = 0; i < n; i++)
        nodes[i] = ae_key_node(w->s, w->keys[at + i]);
    if (!rc)
        rc = t->ops->locate(t, nodes, n, w->lists + at, err);
    return rc || w->r->in_rounds ? rc : ae_sample_cut(w->s, w->r, w->keys + at, w->lists + at, n, err);
}

/* ---- times in a file ---- */

static int cut_list(void *ctx, uint64_t i, bool again, aether_error *err) {
    const walk *w = ctx;
    ae_list list = w->lists[i];
    (void)again;
    int rc = ae_sample_cut(w->s, w->r, &w->keys[i], &list, 1, err);
    if (!rc)
        w->lists[i] = list;
    return rc;
}

static int cut_in_rounds(aether_sampler *s, walk *w, uint64_t n, aether_error *err) {
    ae_staging *staging = &s->reader.staging;
    ae_value_cache *p[AE_RELATION_CACHES];
    const uint32_t num_caches = ae_relation_caches(w->r, p);
    int rc = ae_retries_sort(&w->r->retries, w->lists, n, w->r->topology->end_positions, err);
    if (rc)
        return rc;
    while ((rc = ae_retries_round(&w->r->retries, n, p, num_caches, ae_value_pages_most(staging), cut_list, w,
                                  err)) == AE_WANTED)
        if ((rc = ae_relation_read(w->r, staging, s->task, err)))
            break;
    return rc;
}

/* ---- the call ---- */

static int walk_lists(aether_sampler *s, walk *w, uint64_t n, aether_error *err) {
    int rc = ae_scratch_reserve(&s->lists, n * sizeof(ae_list), 0, err);
    w->lists = s->lists.data;
    w->begun = 0;
    for (uint64_t at = 0; !rc && at < n; at += BLOCK)
        rc = locate_induced(w, at, n - at < BLOCK ? n - at : BLOCK, err);
    if (!rc && w->r->in_rounds)
        rc = cut_in_rounds(s, w, n, err);
    if (!rc)
        rc = ae_list_reader_lists(&s->reader, w->r->topology, w->lists, n, keep_part, w, s->task, err);
    begin_induced_lists(w, rc ? 0 : n);
    return rc;
}

static int walk_relation(aether_sampler *s, ae_relation *r, aether_error *err) {
    walk w = {.s = s, .r = r, .to = &s->nodes[r->to]};
    const ae_nodes *from = &s->nodes[r->from];
    int rc = ae_scratch_reserve(&r->first, (from->num_nodes + 1) * sizeof(uint64_t), 0, err);
    if (rc)
        return rc;
    r->num_edges = r->num_known = r->num_layers = 0;
    r->num_expanded = from->num_nodes;
    const uint64_t block = ae_list_reader_pays(r->topology) ? TOGETHER : BLOCK;
    for (uint64_t v = 0; !rc && v < from->num_nodes; v += block) {
        w.keys = ae_nodes_keys(from) + v;
        w.first = ae_relation_first(r) + v;
        rc = walk_lists(s, &w, from->num_nodes - v < block ? from->num_nodes - v : block, err);
    }
    if (!rc)
        ae_relation_first(r)[from->num_nodes] = r->num_edges;
    return rc;
}

int ae_sample_induced(aether_sampler *s, aether_error *err) {
    for (uint32_t r = 0; r < s->num_relations; r++) {
        int rc = walk_relation(s, &s->relations[r], err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}
