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
    ae_relation *r;
    ae_exclusions exclusions; /* excluded positions in the rest of the list at work */
    uint64_t tree;            /* tree of the list at work, shifted to its bits in a key; 0 unless disjoint */
    const ae_idmap *map;      /* id map of the far ends */
    aether_error *err;
} walk;

static int reserve_induced(walk *w, uint64_t more) {
    ae_relation *r = w->r;
    uint64_t n = r->num_edges;
    int rc = ae_scratch_reserve(&r->positions, (n + more) * sizeof(uint64_t), n * sizeof(uint64_t), w->err);
    return rc ? rc
              : ae_scratch_reserve(&r->rows, (n + more) * sizeof(uint32_t), n * sizeof(uint32_t), w->err);
}

static bool skip_if_excluded(walk *w, uint64_t position) {
    if (!w->exclusions.count || *w->exclusions.positions != position)
        return false;
    w->exclusions.positions++;
    w->exclusions.count--;
    return true;
}

/* Keep of n entries from position `at` on those whose ids were sampled. */
static void keep_sampled(walk *w, uint64_t at, uint64_t *ids, uint64_t n) {
    ae_relation *r = w->r;
    uint64_t *positions = r->positions.data;
    uint32_t *rows = r->rows.data;
    for (uint64_t i = 0; i < n; i++)
        ae_idmap_prefetch(w->map, ids[i] |= w->tree);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t local = ae_idmap_find(w->map, ids[i]);
        positions[r->num_edges] = at + i;
        rows[r->num_edges] = local;
        r->num_edges += !skip_if_excluded(w, at + i) && local != AE_IDMAP_ABSENT;
    }
}

static int walk_list(const aether_sampler *s, walk *w, ae_list list) {
    const aether_topology *t = w->r->topology;
    uint64_t positions[BLOCK], ids[BLOCK];
    for (uint64_t at = 0; at < list.degree; at += BLOCK) {
        const uint64_t n = list.degree - at < BLOCK ? list.degree - at : BLOCK;
        for (uint64_t i = 0; i < n; i++)
            positions[i] = list.start + at + i;
        t->ops->prefetch(t, positions, n);
        int rc = at / BLOCK % LOOK == LOOK - 1 ? ae_sample_check(s, w->err) : AETHER_OK;
        if (!rc)
            rc = reserve_induced(w, n);
        if (!rc)
            rc = t->ops->fetch(t, positions, n, ids, w->err);
        if (rc)
            return rc;
        keep_sampled(w, list.start + at, ids, n);
    }
    return AETHER_OK;
}

static void enter_list(const aether_sampler *s, walk *w, uint64_t key, ae_list list) {
    w->tree = s->node_bits ? ae_key_tree(s, key) << s->node_bits : 0;
    w->exclusions = ae_exclusions_in(w->r->excluded, w->r->num_excluded, list);
}

/* Locate the lists of n nodes (at most BLOCK) together, so that their cache misses overlap. A disjoint sample
 * keeps the edges within the tree of the node, at times that the tree may see. */
static int walk_nodes(const aether_sampler *s, walk *w, const uint64_t *keys, uint64_t n, uint64_t *first) {
    const aether_topology *t = w->r->topology;
    uint64_t nodes[BLOCK] = {0}, first_entries[BLOCK], starts = 0;
    ae_list lists[BLOCK];
    for (uint64_t i = 0; i < n; i++)
        nodes[i] = ae_key_node(s, keys[i]);
    int rc = ae_sample_check(s, w->err);
    if (!rc)
        rc = t->ops->locate(t, nodes, n, lists, w->err);
    if (!rc)
        rc = ae_sample_cut(s, w->r, keys, lists, n, w->err);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < n; i++)
        if (lists[i].degree)
            first_entries[starts++] = lists[i].start;
    t->ops->prefetch(t, first_entries, starts);
    for (uint64_t i = 0; !rc && i < n; i++) {
        first[i] = w->r->num_edges;
        enter_list(s, w, keys[i], lists[i]);
        rc = walk_list(s, w, lists[i]);
    }
    return rc;
}

/* ---- lists that are slow to reach ---- */

typedef struct list_batch {
    const aether_sampler *s;
    walk *w;
    const uint64_t *keys;
    const ae_list *lists;
    uint64_t *first;
    uint64_t begun; /* lists whose first edge is known */
} list_batch;

static void begin_induced_lists(list_batch *g, uint64_t end) {
    while (g->begun < end)
        g->first[g->begun++] = g->w->r->num_edges;
}

static int keep_read(void *ctx, uint64_t list, uint64_t at, uint64_t *ids, uint64_t n, aether_error *err) {
    list_batch *g = ctx;
    walk *w = g->w;
    if (g->begun <= list) { /* this list's first entries */
        begin_induced_lists(g, list + 1);
        enter_list(g->s, w, g->keys[list], g->lists[list]);
    }
    (void)err; /* w->err is the same object */
    for (uint64_t i = 0; i < n; i += BLOCK) {
        const uint64_t some = n - i < BLOCK ? n - i : BLOCK;
        int rc = i / BLOCK % LOOK ? AETHER_OK : ae_sample_check(g->s, w->err);
        if (!rc)
            rc = reserve_induced(w, some);
        if (rc)
            return rc;
        keep_sampled(w, at + i, ids + i, some);
    }
    return AETHER_OK;
}

typedef struct list_cut {
    const aether_sampler *s;
    const walk *w;
    const uint64_t *keys;
    ae_list *lists;
} list_cut;

static int cut_list(void *ctx, uint64_t i, bool again, aether_error *err) {
    const list_cut *c = ctx;
    ae_list list = c->lists[i];
    (void)again;
    int rc = ae_sample_cut(c->s, c->w->r, &c->keys[i], &list, 1, err);
    if (!rc)
        c->lists[i] = list;
    return rc;
}

static int restrict_all(aether_sampler *s, const walk *w, const uint64_t *keys, ae_list *lists, uint64_t n) {
    list_cut c = {s, w, keys, lists};
    ae_staging *staging = &s->reader.staging;
    ae_value_cache *p[AE_RELATION_CACHES];
    const uint32_t num_caches = ae_relation_caches(w->r, p);
    int rc = ae_retries_sort(&w->r->retries, lists, n, w->r->topology->end_positions, w->err);
    if (rc)
        return rc;
    while ((rc = ae_retries_round(&w->r->retries, n, p, num_caches, ae_value_pages_most(staging), cut_list,
                                  &c, w->err)) == AE_WANTED)
        if ((rc = ae_relation_read(w->r, staging, s->task, w->err)))
            break;
    return rc;
}

static int walk_together(aether_sampler *s, walk *w, const uint64_t *keys, uint64_t n, uint64_t *first) {
    const aether_topology *t = w->r->topology;
    int rc = ae_scratch_reserve(&s->lists, n * sizeof(ae_list), 0, w->err);
    ae_list *lists = s->lists.data;
    for (uint64_t at = 0; !rc && at < n; at += BLOCK) {
        const uint64_t some = n - at < BLOCK ? n - at : BLOCK;
        uint64_t nodes[BLOCK] = {0};
        for (uint64_t i = 0; i < some; i++)
            nodes[i] = ae_key_node(s, keys[at + i]);
        rc = t->ops->locate(t, nodes, some, lists + at, w->err);
    }
    if (!rc)
        rc = restrict_all(s, w, keys, lists, n);
    list_batch g = {s, w, keys, lists, first, 0};
    if (!rc)
        rc = ae_list_reader_lists(&s->reader, t, lists, n, keep_read, &g, s->task, w->err);
    begin_induced_lists(&g, rc ? 0 : n);
    return rc;
}

static int walk_relation(aether_sampler *s, ae_relation *r, aether_error *err) {
    walk w = {.r = r, .map = &s->nodes[r->to].map, .err = err};
    const ae_nodes *from = &s->nodes[r->from];
    int rc = ae_scratch_reserve(&r->first, (from->num_nodes + 1) * sizeof(uint64_t), 0, err);
    if (rc)
        return rc;
    uint64_t *first = ae_relation_first(r);
    r->num_edges = r->num_known = r->num_layers = 0;
    r->num_expanded = from->num_nodes;
    const bool pays = ae_list_reader_pays(r->topology);
    const uint64_t block = pays ? TOGETHER : BLOCK;
    for (uint64_t v = 0; v < from->num_nodes; v += block) {
        const uint64_t n = from->num_nodes - v < block ? from->num_nodes - v : block;
        const uint64_t *keys = ae_nodes_keys(from) + v;
        rc = pays ? walk_together(s, &w, keys, n, first + v) : walk_nodes(s, &w, keys, n, first + v);
        if (rc)
            return rc;
    }
    first[from->num_nodes] = r->num_edges;
    return AETHER_OK;
}

int ae_sample_induced(aether_sampler *s, aether_error *err) {
    for (uint32_t r = 0; r < s->num_relations; r++) {
        int rc = walk_relation(s, &s->relations[r], err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}
