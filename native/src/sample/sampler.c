#include "sample/sampler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

int aether_sampler_create(const aether_topology *t, aether_sampler **out, aether_error *err) {
    if (t->lists.num_major != t->lists.num_minor)
        return ae_error_set(err, AETHER_E_INVALID,
                            "sampling several hops needs as many sources as destinations, not %" PRIu64
                            " and %" PRIu64,
                            t->lists.num_minor, t->lists.num_major);
    aether_sampler *s = calloc(1, sizeof *s);
    if (!s)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a sampler");
    s->topology = t;
    *out = s;
    return AETHER_OK;
}

void aether_sampler_destroy(aether_sampler *s) {
    if (!s)
        return;
    ae_idmap_free(&s->map);
    ae_scratch *all[] = {&s->keys, &s->first, &s->lists, &s->positions, &s->rows, &s->neighbors};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ae_scratch_free(all[i]);
    for (size_t i = 0; i < AE_POOL_MAX; i++)
        ae_scratch_free(&s->sets[i]);
    free(s);
}

uint64_t aether_sampler_memory(const aether_sampler *s) {
    uint64_t total = sizeof *s + s->map.memory.bytes + s->keys.bytes + s->first.bytes + s->lists.bytes +
                     s->positions.bytes + s->rows.bytes + s->neighbors.bytes;
    for (size_t i = 0; i < AE_POOL_MAX; i++)
        total += s->sets[i].bytes;
    return total;
}

int ae_sampler_reserve_nodes(aether_sampler *s, uint64_t bound, aether_error *err) {
    uint64_t num_keys = ae_sampler_num_keys(s);
    /* Repeated seeds hold a node slot each beyond the distinct keys. */
    uint64_t slots = bound < num_keys + s->num_seeds ? bound : num_keys + s->num_seeds;
    int rc =
        ae_scratch_reserve(&s->keys, (slots + 1) * sizeof(uint64_t), s->num_nodes * sizeof(uint64_t), err);
    if (rc)
        return rc;
    return ae_idmap_reserve(&s->map, slots, num_keys, ae_sampler_keys(s), s->num_nodes, err);
}

/* ---- settings ---- */

static int check_options(const aether_sample_options *o, ae_sample_plan *plan, aether_error *err) {
    const uint32_t known = AETHER_SAMPLE_REPLACE | AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_INDUCED;
    if (o->flags & ~known)
        return ae_error_set(err, AETHER_E_INVALID, "unknown sampling flags 0x%x", o->flags & ~known);
    for (uint32_t h = 0; h < o->num_hops; h++)
        if (o->fanouts[h] < -1)
            return ae_error_at(err, AETHER_E_INVALID, h, o->fanouts[h],
                               "fanouts[%u] = %" PRId64 " is neither -1 (all) nor a count", h, o->fanouts[h]);
    *plan = (ae_sample_plan){.key = o->key,
                             .fanouts = o->fanouts,
                             .num_hops = o->num_hops,
                             .num_threads = ae_pool_threads(o->num_threads),
                             .replace = o->flags & AETHER_SAMPLE_REPLACE,
                             .disjoint = o->flags & AETHER_SAMPLE_DISJOINT,
                             .induced = o->flags & AETHER_SAMPLE_INDUCED};
    if (plan->disjoint && plan->induced)
        return ae_error_set(err, AETHER_E_INVALID, "an induced subgraph cannot be disjoint");
    return AETHER_OK;
}

static int choose_keys(aether_sampler *s, bool disjoint, uint64_t num_seeds, aether_error *err) {
    uint64_t num_nodes = s->topology->lists.num_minor;
    s->node_bits = 0;
    if (!disjoint)
        return AETHER_OK;
    uint32_t bits = 1;
    while (bits < 63 && num_nodes > UINT64_C(1) << bits)
        bits++;
    if (num_seeds > UINT64_C(1) << (63 - bits))
        return ae_error_set(err, AETHER_E_LIMIT,
                            "%" PRIu64 " disjoint seeds over %" PRIu64 " nodes: at most %" PRIu64
                            " seeds a batch; use a smaller batch",
                            num_seeds, num_nodes, UINT64_C(1) << (63 - bits));
    s->node_bits = bits;
    return AETHER_OK;
}

/* ---- seeds ---- */

/* A node per seed, in order. Each seed is read once: whatever another thread of
 * the caller's writes there, what was checked is what is used. */
static int copy_seeds(aether_sampler *s, const int64_t *seeds, uint64_t n, aether_error *err) {
    uint64_t *keys = ae_sampler_keys(s), num_nodes = s->topology->lists.num_major;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t seed = (uint64_t)((const volatile int64_t *)seeds)[i];
        if (seed >= num_nodes)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)seed,
                               "seeds[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64
                               " (the graph has %" PRIu64 " nodes)",
                               i, (int64_t)seed, (int64_t)num_nodes - 1, num_nodes);
        keys[i] = s->node_bits ? i << s->node_bits | seed : seed;
    }
    return AETHER_OK;
}

/* Equal seeds keep a slot each and draw the same edges, being the same node under
 * the same key; as a source of other edges the first stands for all of them. */
static void add_seeds(aether_sampler *s, uint64_t n) {
    const uint64_t *keys = ae_sampler_keys(s);
    for (uint64_t i = 0; i < n; i++)
        ae_idmap_add(&s->map, keys[i], (uint32_t)i);
    s->num_nodes = n;
}

static int start(aether_sampler *s, const ae_sample_plan *plan, const int64_t *seeds, uint64_t n,
                 aether_error *err) {
    ae_idmap_restart(&s->map, s->num_nodes);
    s->num_nodes = s->num_expanded = s->num_edges = 0;
    s->num_seeds = n;
    int rc = choose_keys(s, plan->disjoint, n, err);
    if (!rc)
        rc = ae_scratch_reserve(&s->first, sizeof(uint64_t), 0, err);
    if (!rc)
        rc = ae_sampler_reserve_nodes(s, n, err);
    if (!rc)
        rc = copy_seeds(s, seeds, n, err);
    if (rc)
        return rc;
    ae_sampler_first(s)[0] = 0;
    add_seeds(s, n);
    return AETHER_OK;
}

/* ---- the call ---- */

static int run_hops(aether_sampler *s, const ae_sample_plan *plan, uint64_t *hop_nodes, uint64_t *hop_edges,
                    aether_error *err) {
    uint64_t begin = 0;
    hop_nodes[0] = s->num_nodes;
    for (uint32_t h = 0; h < plan->num_hops; h++) {
        uint64_t end = s->num_nodes, edges = s->num_edges;
        int rc = ae_sample_hop(s, plan, h, begin, end, err);
        if (rc)
            return rc;
        hop_nodes[h + 1] = s->num_nodes - end;
        hop_edges[h] = plan->induced ? 0 : s->num_edges - edges;
        begin = end;
    }
    return AETHER_OK;
}

int aether_sample(aether_sampler *s, const int64_t *seeds, uint64_t num_seeds,
                  const aether_sample_options *options, uint64_t *hop_nodes, uint64_t *hop_edges,
                  uint64_t *totals, aether_error *err) {
    ae_sample_plan plan;
    int rc = check_options(options, &plan, err);
    if (!rc)
        rc = start(s, &plan, seeds, num_seeds, err);
    if (!rc)
        rc = run_hops(s, &plan, hop_nodes, hop_edges, err);
    if (!rc && plan.induced)
        rc = ae_sample_induced(s, err);
    if (rc) { /* an empty result, not half of one */
        s->num_expanded = s->num_edges = 0;
        ae_idmap_restart(&s->map, s->num_nodes);
        s->num_nodes = 0;
        return rc;
    }
    totals[0] = s->num_nodes;
    totals[1] = s->num_edges;
    return AETHER_OK;
}
