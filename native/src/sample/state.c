#include "sample/state.h"

#include <inttypes.h>

#include "core/error.h"

/* ---- memory ---- */

void ae_sample_free_arrays(aether_sampler *s) {
    for (uint32_t t = 0; t < s->num_types; t++)
        ae_scratch_free(&s->nodes[t].keys);
    for (uint32_t i = 0; i < s->num_relations; i++) {
        ae_scratch_free(&s->relations[i].first);
        ae_scratch_free(&s->relations[i].positions);
        ae_scratch_free(&s->relations[i].rows);
        ae_scratch_free(&s->relations[i].ids);
        ae_scratch_free(&s->relations[i].layers);
        ae_scratch_free(&s->relations[i].known);
        ae_retries_free(&s->relations[i].retries);
        for (uint32_t j = 0; j < AE_RELATION_CACHES; j++)
            ae_value_cache_free(&s->relations[i].caches[j]);
    }
    ae_scratch_free(&s->lists);
    ae_scratch_free(&s->wholes);
    ae_scratch_free(&s->exclusions);
    ae_scratch_free(&s->drawable);
    ae_scratch_free(&s->bounds);
    ae_scratch_free(&s->neighbors);
    ae_staging_free(&s->staging);
    ae_list_reader_free(&s->reader);
    for (size_t i = 0; i < AE_POOL_MAX; i++)
        ae_scratch_free(&s->sets[i]);
}

uint64_t ae_sample_memory(const aether_sampler *s) {
    uint64_t total = s->lists.bytes + s->wholes.bytes + s->exclusions.bytes + s->drawable.bytes +
                     s->bounds.bytes + s->neighbors.bytes + ae_staging_memory(&s->staging) +
                     ae_list_reader_memory(&s->reader);
    for (uint32_t t = 0; t < s->num_types; t++)
        total += sizeof *s->nodes + s->nodes[t].map.memory.bytes + s->nodes[t].keys.bytes;
    for (uint32_t i = 0; i < s->num_relations; i++) {
        const ae_relation *r = &s->relations[i];
        total +=
            sizeof *r + r->first.bytes + r->positions.bytes + r->rows.bytes + r->ids.bytes + r->layers.bytes;
        total += r->known.bytes + ae_retries_memory(&r->retries);
        for (uint32_t j = 0; j < AE_RELATION_CACHES; j++)
            total += ae_value_cache_memory(&r->caches[j]);
    }
    for (size_t i = 0; i < AE_POOL_MAX; i++)
        total += s->sets[i].bytes;
    return total;
}

/* ---- dropping a sample ---- */

void ae_sample_forget_excluded(aether_sampler *s) {
    for (uint32_t i = 0; i < s->num_relations; i++) {
        s->relations[i].excluded = NULL;
        s->relations[i].num_excluded = 0;
    }
}

void ae_sample_clear(aether_sampler *s) {
    for (uint32_t t = 0; t < s->num_types; t++) {
        ae_nodes *n = &s->nodes[t];
        ae_idmap_restart(&n->map, n->num_nodes);
        n->num_nodes = n->num_seeds = n->begin = n->end = 0;
    }
    for (uint32_t i = 0; i < s->num_relations; i++) {
        s->relations[i].num_expanded = s->relations[i].num_edges = s->relations[i].num_known = 0;
        s->relations[i].num_layers = 0;
        s->relations[i].retries.next = s->relations[i].retries.num_waiting = 0;
    }
    ae_sample_forget_excluded(s);
}

void ae_sample_release(aether_sampler *s) {
    ae_sample_clear(s);
    ae_sample_free_arrays(s);
}

/* ---- seeds ---- */

static int choose_keys(aether_sampler *s, bool disjoint, aether_error *err) {
    uint64_t num_nodes = 0;
    for (uint32_t t = 0; t < s->num_types; t++) {
        num_nodes = s->nodes[t].num_ids > num_nodes ? s->nodes[t].num_ids : num_nodes;
        s->nodes[t].num_keys = s->nodes[t].num_ids;
    }
    s->node_bits = 0;
    if (!disjoint)
        return AETHER_OK;
    uint32_t bits = 1;
    while (bits < 63 && num_nodes > UINT64_C(1) << bits)
        bits++;
    if (s->num_trees > UINT64_C(1) << (63 - bits))
        return ae_error_set(err, AETHER_E_LIMIT,
                            "%" PRIu64 " disjoint seeds over %" PRIu64 " nodes: at most %" PRIu64
                            " seeds a batch; use a smaller batch",
                            s->num_trees, num_nodes, UINT64_C(1) << (63 - bits));
    s->node_bits = bits;
    for (uint32_t t = 0; t < s->num_types; t++)
        s->nodes[t].num_keys = s->num_trees << bits;
    return AETHER_OK;
}

/* Each seed is read once: if another thread of the caller overwrites the seeds, the number that
 * was checked is the number that is used. */
static int copy_seeds(const aether_sampler *s, ae_nodes *n, const int64_t *seeds, aether_error *err) {
    uint64_t *keys = ae_nodes_keys(n);
    for (uint64_t i = 0; i < n->num_seeds; i++) {
        uint64_t seed = (uint64_t)((const volatile int64_t *)seeds)[i];
        int rc = i % AE_TASK_TOUCHES ? AETHER_OK : ae_sample_check(s, err);
        if (rc)
            return rc;
        if (seed >= n->num_ids)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)seed,
                               "seeds[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64
                               " (the graph has %" PRIu64 " nodes)",
                               i, (int64_t)seed, (int64_t)n->num_ids - 1, n->num_ids);
        keys[i] = s->node_bits ? (n->first_tree + i) << s->node_bits | seed : seed;
    }
    return AETHER_OK;
}

/* Equal seeds keep a slot each and draw the same edges, being the same node under
 * the same key; as a source of other edges the first stands for all of them. */
static int add_seed_nodes(const aether_sampler *s, ae_nodes *n, aether_error *err) {
    const uint64_t *keys = ae_nodes_keys(n);
    for (uint64_t i = 0; i < n->num_seeds; i++) {
        int rc = i % AE_TASK_TOUCHES ? AETHER_OK : ae_sample_check(s, err);
        if (rc)
            return rc;
        ae_idmap_add(&n->map, keys[i], (uint32_t)i);
        n->num_nodes = i + 1;
    }
    n->end = n->num_seeds;
    return AETHER_OK;
}

/* Trees are numbered through the types, so the bounds of the types follow each other. Seeds that share their
 * nodes have the same bounds, which are kept once. */
static int copy_bounds(aether_sampler *s, const aether_seeds *seeds, uint32_t types, aether_error *err) {
    s->has_bounds = false;
    for (uint32_t t = 0; t < types; t++)
        s->has_bounds |= seeds[t].count && (seeds[t].since || seeds[t].until);
    if (!s->has_bounds)
        return AETHER_OK;
    int rc = ae_scratch_reserve(&s->bounds, 2 * s->num_trees * sizeof(int64_t), 0, err);
    if (rc)
        return rc;
    int64_t *const first = s->bounds.data, *bounds = first;
    for (uint32_t t = 0; t < types; t++)
        for (uint64_t i = 0; i < seeds[t].count; i++) {
            const int64_t since = seeds[t].since ? seeds[t].since[i] : INT64_MIN;
            const int64_t until = seeds[t].until ? seeds[t].until[i] : INT64_MAX;
            if (s->node_bits || bounds == first) {
                *bounds++ = since;
                *bounds++ = until;
            } else if (since != first[0] || until != first[1]) {
                return ae_error_set(err, AETHER_E_INVALID, "seeds of different times need a disjoint sample");
            }
        }
    return AETHER_OK;
}

int ae_sample_start(aether_sampler *s, const aether_seeds *seeds, bool disjoint, aether_error *err) {
    const uint32_t types = s->num_types;
    ae_sample_clear(s);
    s->num_trees = 0;
    for (uint32_t t = 0; t < types; t++) {
        s->nodes[t].num_seeds = seeds[t].count;
        s->nodes[t].first_tree = s->num_trees;
        s->num_trees += seeds[t].count;
    }
    int rc = choose_keys(s, disjoint, err);
    if (!rc)
        rc = copy_bounds(s, seeds, types, err);
    for (uint32_t i = 0; !rc && i < s->num_relations; i++) {
        rc = ae_scratch_reserve(&s->relations[i].first, sizeof(uint64_t), 0, err);
        if (!rc)
            ae_relation_first(&s->relations[i])[0] = 0;
    }
    for (uint32_t t = 0; !rc && t < types; t++) {
        rc = ae_nodes_reserve(&s->nodes[t], seeds[t].count, s->task, err);
        if (!rc)
            rc = copy_seeds(s, &s->nodes[t], seeds[t].ids, err);
        if (!rc)
            rc = add_seed_nodes(s, &s->nodes[t], err);
    }
    return rc;
}

/* ---- time ---- */

/* Times that stay in a file are looked up list by list. */
int ae_sample_cut(const aether_sampler *s, const ae_relation *r, const uint64_t *keys, ae_list *lists,
                  uint64_t n, aether_error *err) {
    int64_t since[AE_TIMES_MANY], until[AE_TIMES_MANY];
    const int64_t *bounds = s->bounds.data;
    const bool at_hand = ae_times_at_hand(&r->times);
    int rc = AETHER_OK;
    if (!s->has_bounds || !ae_times_given(&r->times))
        return AETHER_OK;
    for (uint64_t i = 0; i < n; i++) {
        const int64_t *own = bounds + (s->node_bits ? 2 * ae_key_tree(s, keys[i]) : 0);
        since[i] = own[0];
        until[i] = own[1];
    }
    if (at_hand)
        return ae_times_restrict_many(&r->times, r->topology, since, until, lists, n, err);
    for (uint64_t i = 0; !rc && i < n; i++)
        rc = ae_times_restrict(&r->times, r->topology, since[i], until[i], &lists[i], err);
    return rc;
}

/* ---- values in a file ---- */

int ae_relation_read(ae_relation *r, ae_staging *staging, aether_task *task, aether_error *err) {
    ae_value_cache *p[AE_RELATION_CACHES];
    const uint32_t n = ae_relation_caches(r, p);
    int rc = AETHER_OK;
    for (uint32_t i = 0; !rc && i < n; i++) {
        ae_fetch job;
        rc = ae_value_cache_read(&p[i], 1, &job, staging, task, err);
    }
    return rc;
}
