#include "sample/sampler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "sample/hgt.h"
#include "sample/sums.h"

/* ---- making one ---- */

static int check_own_values(const aether_relation *r, uint32_t i, aether_error *err) {
    const bool weights = r->own_values & AETHER_OWN_WEIGHTS, times = r->own_values & AETHER_OWN_TIMES;
    if (r->own_values & ~(uint32_t)(AETHER_OWN_WEIGHTS | AETHER_OWN_TIMES) || (weights && r->weights) ||
        (times && r->times))
        return ae_error_set(err, AETHER_E_INVALID,
                            "edge type %u: weights and times are arrays, or the graph's own", i);
    if ((weights && !r->topology->ops->weights) || (times && !r->topology->ops->times))
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "edge type %u: the graph keeps no %s of its own", i,
                            weights && !r->topology->ops->weights ? "weights" : "times");
    return AETHER_OK;
}

static int check_relation(const aether_relation *r, uint32_t i, const uint64_t *num_nodes, uint32_t num_types,
                          aether_error *err) {
    if (r->from >= num_types || r->to >= num_types)
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u: %u -> %u are not below %u node types", i,
                            r->from, r->to, num_types);
    const aether_topology *t = r->topology;
    if (t->num_major != num_nodes[r->from] || t->num_minor != num_nodes[r->to])
        return ae_error_set(err, AETHER_E_INVALID,
                            "edge type %u: lists of %" PRIu64 " nodes with ids below %" PRIu64
                            " do not fit node types of %" PRIu64 " and %" PRIu64 " nodes",
                            i, t->num_major, t->num_minor, num_nodes[r->from], num_nodes[r->to]);
    int rc = check_own_values(r, i, err);
    if (rc)
        return rc;
    if (r->weights && r->weight_dtype != AETHER_F32 && r->weight_dtype != AETHER_F64)
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u: weights are float32 or float64", i);
    if (r->sums && (!r->weights || r->sums->num_edges != t->num_edges))
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u: the sums are not those of its weights", i);
    if (r->sums && !ae_topology_is_dense(t))
        return ae_topology_need_dense(t, "sums of weights", err);
    const bool in_file = r->weights_in_file || r->times_in_file || r->ids_in_file;
    if (in_file && (!t->edge_ids_are_positions || !ae_reads_pay(r->topology)))
        return ae_error_set(err, AETHER_E_INVALID,
                            "edge type %u: values in a file go with lists in a file, in their order", i);
    if ((r->weights_in_file && (!r->weights || r->weights_in_file->count != t->num_edges)) ||
        (r->ids_in_file && r->ids_in_file->count != t->num_edges) ||
        (r->times_in_file &&
         (!r->times ||
          r->times_in_file->count != (r->times_of == AETHER_TIMES_OF_NODES ? t->num_minor : t->num_edges))))
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u: values in a file are not as many", i);
    if (!ae_times_known(r))
        return ae_error_set(err, AETHER_E_INVALID,
                            "edge type %u: times are int64 or float64, of edges or nodes", i);
    return AETHER_OK;
}

static int check_relations(const aether_relation *relations, uint32_t num_relations,
                           const uint64_t *num_nodes, uint32_t num_types, aether_error *err) {
    int rc = AETHER_OK;
    for (uint32_t i = 0; !rc && i < num_relations; i++)
        rc = check_relation(&relations[i], i, num_nodes, num_types, err);
    return rc;
}

static void set_pieces(ae_relation *r, const aether_relation *from) {
    const aether_values *values[AE_RELATION_PIECES] = {from->weights_in_file, from->times_in_file,
                                                       r->times.by == AE_TIMES_BY_NODE ? from->ids_in_file
                                                                                       : NULL};
    r->in_turns = false;
    for (uint32_t i = 0; i < AE_RELATION_PIECES; i++) {
        ae_pieces_free(&r->pieces[i]); /* of other values, or of other lists */
        r->pieces[i].values = values[i];
        r->in_turns |= values[i] != NULL;
    }
    r->weights.pieces = values[0] ? &r->pieces[0] : NULL;
    r->times.pieces = values[1] ? &r->pieces[1] : NULL;
    r->times.ids = values[2] ? &r->pieces[2] : NULL;
}

/* The scratch memory of the relations and node types stays. */
static void set_relations(aether_sampler *s, const aether_relation *relations, const uint64_t *num_nodes) {
    for (uint32_t t = 0; t < s->num_types; t++)
        s->nodes[t].num_ids = num_nodes[t];
    for (uint32_t i = 0; i < s->num_relations; i++) {
        const aether_relation *from = &relations[i];
        ae_relation *r = &s->relations[i];
        r->topology = from->topology;
        r->weights = (ae_weights){.values = from->weights,
                                  .is_double = from->weight_dtype == AETHER_F64,
                                  .sums = from->sums,
                                  .own = from->own_values & AETHER_OWN_WEIGHTS};
        r->times = ae_times_of(from);
        r->from = from->from;
        r->to = from->to;
        set_pieces(r, from);
    }
}

int ae_relation_read(ae_relation *r, ae_staging *staging, aether_task *task, aether_error *err) {
    ae_pieces *p[AE_RELATION_PIECES];
    const uint32_t n = ae_relation_pieces(r, p);
    int rc = AETHER_OK;
    for (uint32_t i = 0; !rc && i < n; i++) {
        ae_fetch job;
        rc = ae_pieces_read(&p[i], 1, &job, staging, task, err);
    }
    return rc;
}

int aether_sampler_create_typed(const aether_relation *relations, uint32_t num_relations,
                                const uint64_t *num_nodes, uint32_t num_types, aether_sampler **out,
                                aether_error *err) {
    int rc = check_relations(relations, num_relations, num_nodes, num_types, err);
    if (rc)
        return rc;
    aether_sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->nodes = calloc((size_t)num_types + 1, sizeof *s->nodes);
        s->relations = calloc((size_t)num_relations + 1, sizeof *s->relations);
    }
    if (!s || !s->nodes || !s->relations) {
        aether_sampler_destroy(s);
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a sampler");
    }
    s->num_types = num_types;
    s->num_relations = num_relations;
    set_relations(s, relations, num_nodes);
    *out = s;
    return AETHER_OK;
}

int aether_sampler_create(const aether_topology *t, aether_sampler **out, aether_error *err) {
    const aether_relation relation = {.topology = t};
    if (t->num_major != t->num_minor)
        return ae_error_set(err, AETHER_E_INVALID,
                            "sampling several hops needs as many sources as destinations, not %" PRIu64
                            " and %" PRIu64,
                            t->num_minor, t->num_major);
    return aether_sampler_create_typed(&relation, 1, &t->num_major, 1, out, err);
}

/* The id maps stay: a group lends them to other samples, and a released sample may be made
 * again. */
static void free_arrays(aether_sampler *s) {
    for (uint32_t t = 0; t < s->num_types; t++)
        ae_scratch_free(&s->nodes[t].keys);
    for (uint32_t i = 0; i < s->num_relations; i++) {
        ae_scratch_free(&s->relations[i].first);
        ae_scratch_free(&s->relations[i].positions);
        ae_scratch_free(&s->relations[i].rows);
        ae_scratch_free(&s->relations[i].ids);
        ae_scratch_free(&s->relations[i].layers);
        ae_turns_free(&s->relations[i].turns);
        for (uint32_t j = 0; j < AE_RELATION_PIECES; j++)
            ae_pieces_free(&s->relations[i].pieces[j]);
    }
    ae_scratch_free(&s->lists);
    ae_scratch_free(&s->wholes);
    ae_scratch_free(&s->holes);
    ae_scratch_free(&s->drawable);
    ae_scratch_free(&s->bounds);
    ae_scratch_free(&s->neighbors);
    ae_staging_free(&s->staging);
    ae_reads_free(&s->reads);
    for (size_t i = 0; i < AE_POOL_MAX; i++)
        ae_scratch_free(&s->sets[i]);
}

void aether_sampler_destroy(aether_sampler *s) {
    if (!s)
        return;
    free_arrays(s);
    for (uint32_t t = 0; t < s->num_types; t++)
        ae_idmap_free(&s->nodes[t].map);
    ae_hgt_free(s->hgt, s->num_types);
    free(s->nodes);
    free(s->relations);
    free(s);
}

uint64_t aether_sampler_memory(const aether_sampler *s) {
    uint64_t total = sizeof *s + s->lists.bytes + s->wholes.bytes + s->holes.bytes + s->drawable.bytes +
                     s->bounds.bytes + s->neighbors.bytes + ae_staging_memory(&s->staging) +
                     ae_reads_memory(&s->reads);
    for (uint32_t t = 0; t < s->num_types; t++)
        total += sizeof *s->nodes + s->nodes[t].map.memory.bytes + s->nodes[t].keys.bytes;
    for (uint32_t i = 0; i < s->num_relations; i++) {
        const ae_relation *r = &s->relations[i];
        total +=
            sizeof *r + r->first.bytes + r->positions.bytes + r->rows.bytes + r->ids.bytes + r->layers.bytes;
        total += ae_turns_memory(&r->turns);
        for (uint32_t j = 0; j < AE_RELATION_PIECES; j++)
            total += ae_pieces_memory(&r->pieces[j]);
    }
    for (size_t i = 0; i < AE_POOL_MAX; i++)
        total += s->sets[i].bytes;
    return total + ae_hgt_memory(s->hgt, s->num_types);
}

/* Return the most nodes that a sample can have: repeated seeds hold a slot each beyond the
 * distinct keys. */
static uint64_t most_nodes(const aether_sampler *s, const ae_nodes *n, uint64_t bound, uint64_t *num_keys) {
    *num_keys = s->node_bits ? s->num_trees << s->node_bits : n->num_ids;
    return bound < *num_keys + n->num_seeds ? bound : *num_keys + n->num_seeds;
}

int ae_nodes_reserve_keys(const aether_sampler *s, ae_nodes *n, uint64_t bound, aether_error *err) {
    uint64_t num_keys, slots = most_nodes(s, n, bound, &num_keys);
    return ae_scratch_reserve(&n->keys, (slots + 1) * sizeof(uint64_t), n->num_nodes * sizeof(uint64_t), err);
}

int ae_nodes_reserve_map(const aether_sampler *s, ae_nodes *n, uint64_t bound, aether_error *err) {
    uint64_t num_keys, slots = most_nodes(s, n, bound, &num_keys);
    return ae_idmap_reserve(&n->map, slots, num_keys, ae_nodes_keys(n), n->num_nodes, s->task, err);
}

int ae_nodes_reserve(const aether_sampler *s, ae_nodes *n, uint64_t bound, aether_error *err) {
    int rc = ae_nodes_reserve_keys(s, n, bound, err);
    return rc ? rc : ae_nodes_reserve_map(s, n, bound, err);
}

/* ---- settings ---- */

static int check_options(const aether_sampler *s, const aether_sample_options *o, ae_sample_plan *plan,
                         aether_error *err) {
    const uint32_t known = AETHER_SAMPLE_REPLACE | AETHER_SAMPLE_DISJOINT | AETHER_SAMPLE_INDUCED |
                           AETHER_SAMPLE_LATEST | AETHER_SAMPLE_LAYERED;
    if (o->flags & ~known)
        return ae_error_set(err, AETHER_E_INVALID, "unknown sampling flags 0x%x", o->flags & ~known);
    for (uint64_t h = 0; h < (uint64_t)o->num_hops * s->num_relations; h++)
        if (o->fanouts[h] < -1)
            return ae_error_at(err, AETHER_E_INVALID, (int64_t)h, o->fanouts[h],
                               "fanouts[%" PRIu64 "] = %" PRId64 " is neither -1 (all) nor a count", h,
                               o->fanouts[h]);
    *plan = (ae_sample_plan){.key = o->key,
                             .fanouts = o->fanouts,
                             .num_hops = o->num_hops,
                             .num_threads = ae_pool_threads(o->num_threads),
                             .replace = o->flags & AETHER_SAMPLE_REPLACE,
                             .disjoint = o->flags & AETHER_SAMPLE_DISJOINT,
                             .induced = o->flags & AETHER_SAMPLE_INDUCED,
                             .latest = o->flags & AETHER_SAMPLE_LATEST,
                             .layered = o->flags & AETHER_SAMPLE_LAYERED};
    return AETHER_OK;
}

/* Excluded positions stay in the caller's memory, which is read until the sample ends. */
static int set_excluded(aether_sampler *s, const aether_excluded *exclude, aether_error *err) {
    for (uint32_t i = 0; i < s->num_relations; i++) {
        ae_relation *r = &s->relations[i];
        r->excluded = exclude ? exclude[i].positions : NULL;
        r->num_excluded = exclude ? exclude[i].count : 0;
        for (uint64_t j = 0; j < r->num_excluded; j++)
            if (r->excluded[j] >= r->topology->end_positions || (j && r->excluded[j] <= r->excluded[j - 1]))
                return ae_error_at(err, AETHER_E_INVALID, (int64_t)j, (int64_t)r->excluded[j],
                                   "edge type %u: excluded[%" PRIu64 "] = %" PRIu64
                                   " must ascend and be below %" PRIu64,
                                   i, j, r->excluded[j], r->topology->end_positions);
    }
    return AETHER_OK;
}

static int choose_keys(aether_sampler *s, bool disjoint, aether_error *err) {
    uint64_t num_nodes = 0;
    for (uint32_t t = 0; t < s->num_types; t++)
        num_nodes = s->nodes[t].num_ids > num_nodes ? s->nodes[t].num_ids : num_nodes;
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
    return AETHER_OK;
}

/* ---- seeds ---- */

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
static int add_seeds(const aether_sampler *s, ae_nodes *n, aether_error *err) {
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

/* Trees are numbered through the types, so the bounds of the types follow each other. */
static int copy_bounds(aether_sampler *s, const aether_seeds *seeds, uint32_t types, aether_error *err) {
    s->has_bounds = false;
    for (uint32_t t = 0; t < types; t++)
        s->has_bounds |= seeds[t].count && (seeds[t].since || seeds[t].until);
    if (!s->has_bounds)
        return AETHER_OK;
    if (!s->node_bits)
        return ae_error_set(err, AETHER_E_INVALID, "sampling in time needs a disjoint sample");
    int rc = ae_scratch_reserve(&s->bounds, 2 * s->num_trees * sizeof(int64_t), 0, err);
    if (rc)
        return rc;
    int64_t *bounds = s->bounds.data;
    for (uint32_t t = 0; t < types; t++)
        for (uint64_t i = 0; i < seeds[t].count; i++) {
            *bounds++ = seeds[t].since ? seeds[t].since[i] : INT64_MIN;
            *bounds++ = seeds[t].until ? seeds[t].until[i] : INT64_MAX;
        }
    return AETHER_OK;
}

/* The excluded positions may be freed by the caller after the call. */
static void forget_excluded(aether_sampler *s) {
    for (uint32_t i = 0; i < s->num_relations; i++) {
        s->relations[i].excluded = NULL;
        s->relations[i].num_excluded = 0;
    }
}

static void clear(aether_sampler *s) {
    for (uint32_t t = 0; t < s->num_types; t++) {
        ae_nodes *n = &s->nodes[t];
        ae_idmap_restart(&n->map, n->num_nodes);
        n->num_nodes = n->num_seeds = n->begin = n->end = 0;
    }
    for (uint32_t i = 0; i < s->num_relations; i++) {
        s->relations[i].num_expanded = s->relations[i].num_edges = 0;
        s->relations[i].num_layers = 0;
        s->relations[i].turns.next = s->relations[i].turns.num_waiting = 0;
    }
    forget_excluded(s);
}

static int start(aether_sampler *s, const ae_sample_plan *plan, const aether_seeds *seeds,
                 aether_error *err) {
    const uint32_t types = s->num_types;
    clear(s);
    s->num_trees = 0;
    for (uint32_t t = 0; t < types; t++) {
        s->nodes[t].num_seeds = seeds[t].count;
        s->nodes[t].first_tree = s->num_trees;
        s->num_trees += seeds[t].count;
    }
    int rc = choose_keys(s, plan->disjoint, err);
    if (!rc)
        rc = copy_bounds(s, seeds, types, err);
    for (uint32_t i = 0; !rc && i < s->num_relations; i++) {
        rc = ae_scratch_reserve(&s->relations[i].first, sizeof(uint64_t), 0, err);
        if (!rc)
            ae_relation_first(&s->relations[i])[0] = 0;
    }
    for (uint32_t t = 0; !rc && t < types; t++) {
        rc = ae_nodes_reserve(s, &s->nodes[t], seeds[t].count, err);
        if (!rc)
            rc = copy_seeds(s, &s->nodes[t], seeds[t].ids, err);
        if (!rc)
            rc = add_seeds(s, &s->nodes[t], err);
    }
    return rc;
}

void ae_sample_clear(aether_sampler *s) {
    clear(s);
}

void ae_sampler_release(aether_sampler *s) {
    clear(s);
    free_arrays(s);
}

int aether_sampler_retarget(aether_sampler *s, const aether_relation *relations, uint32_t num_relations,
                            const uint64_t *num_nodes, uint32_t num_types, aether_error *err) {
    if (num_relations != s->num_relations || num_types != s->num_types)
        return ae_error_set(err, AETHER_E_INVALID,
                            "a sampler of %u edge types and %u node types cannot go on with %u and %u: make "
                            "another",
                            s->num_relations, s->num_types, num_relations, num_types);
    int rc = check_relations(relations, num_relations, num_nodes, num_types, err);
    if (rc)
        return rc;
    clear(s);
    set_relations(s, relations, num_nodes);
    return AETHER_OK;
}

int ae_sample_start(aether_sampler *s, const aether_seeds *seeds, aether_error *err) {
    const ae_sample_plan plan = {0};
    return start(s, &plan, seeds, err);
}

/* ---- the call ---- */

int ae_sample_begin(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                    ae_sample_plan *plan, aether_error *err) {
    int rc = check_options(s, options, plan, err);
    s->task = options->task;
    if (!rc)
        rc = start(s, plan, seeds, err);
    return rc ? rc : set_excluded(s, options->exclude, err);
}

void ae_sample_advance(aether_sampler *s, const ae_sample_plan *plan, uint32_t hop, uint64_t *hop_nodes) {
    const uint64_t columns = (uint64_t)plan->num_hops + 1;
    for (uint32_t t = 0; t < s->num_types; t++) {
        ae_nodes *n = &s->nodes[t];
        hop_nodes[t * columns + hop + 1] = n->num_nodes - n->end;
        n->begin = plan->layered ? 0 : n->end;
        n->end = n->num_nodes;
    }
}

int ae_sample_finish(aether_sampler *s, const ae_sample_plan *plan, uint64_t *num_nodes, uint64_t *num_edges,
                     aether_error *err) {
    int rc = plan->induced ? ae_sample_induced(s, err) : AETHER_OK;
    if (rc)
        return rc;
    forget_excluded(s);
    for (uint32_t t = 0; t < s->num_types; t++)
        num_nodes[t] = s->nodes[t].num_nodes;
    for (uint32_t i = 0; i < s->num_relations; i++)
        num_edges[i] = s->relations[i].num_edges;
    return AETHER_OK;
}

static int run_hops(aether_sampler *s, const ae_sample_plan *plan, uint64_t *hop_nodes, uint64_t *hop_edges,
                    aether_error *err) {
    const uint64_t columns = (uint64_t)plan->num_hops + 1;
    for (uint32_t t = 0; t < s->num_types; t++)
        hop_nodes[t * columns] = s->nodes[t].num_nodes;
    for (uint32_t h = 0; h < plan->num_hops; h++) {
        for (uint32_t i = 0; i < s->num_relations; i++) {
            uint64_t before = s->relations[i].num_edges;
            int rc = ae_sample_hop(s, plan, h, i, err);
            if (rc)
                return rc;
            hop_edges[(uint64_t)i * plan->num_hops + h] =
                plan->induced ? 0 : s->relations[i].num_edges - before;
        }
        ae_sample_advance(s, plan, h, hop_nodes);
    }
    return AETHER_OK;
}

int aether_sample_typed(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                        uint64_t *hop_nodes, uint64_t *hop_edges, uint64_t *num_nodes, uint64_t *num_edges,
                        aether_error *err) {
    ae_sample_plan plan;
    int rc = ae_sample_begin(s, seeds, options, &plan, err);
    if (!rc)
        rc = run_hops(s, &plan, hop_nodes, hop_edges, err);
    if (!rc)
        rc = ae_sample_finish(s, &plan, num_nodes, num_edges, err);
    if (rc) /* an empty result, not half of one */
        clear(s);
    return rc;
}

int aether_sample(aether_sampler *s, const int64_t *seeds, uint64_t num_seeds,
                  const aether_sample_options *options, uint64_t *hop_nodes, uint64_t *hop_edges,
                  uint64_t *totals, aether_error *err) {
    const aether_seeds all = {.ids = seeds, .count = num_seeds};
    if (s->num_types != 1 || s->num_relations != 1)
        return ae_error_set(err, AETHER_E_INVALID, "a typed sampler needs aether_sample_typed");
    return aether_sample_typed(s, &all, options, hop_nodes, hop_edges, totals, totals + 1, err);
}
