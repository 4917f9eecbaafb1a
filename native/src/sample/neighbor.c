#include "sample/neighbor.h"

#include <inttypes.h>

#include "core/error.h"
#include "core/options.h"
#include "sample/induced.h"
#include "sample/rounds.h"

/* ---- settings ---- */

static int check_sample_options(const aether_sampler *s, const aether_sample_options *o, ae_sample_plan *plan,
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

/* ---- the call ---- */

int ae_sample_begin(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                    ae_sample_plan *plan, aether_error *err) {
    int rc = check_sample_options(s, options, plan, err);
    s->task = options->task;
    if (!rc)
        rc = ae_sample_start(s, seeds, plan->disjoint, err);
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
    ae_sample_forget_excluded(s);
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
    for (uint32_t hop = 0; hop < plan->num_hops; hop++) {
        for (uint32_t i = 0; i < s->num_relations; i++) {
            ae_hop h;
            int rc = ae_hop_begin(s, plan, hop, i, &h, err);
            if (!rc && h.lists && h.r->in_rounds)
                rc = ae_rounds_run(&h, err);
            if (!rc && h.lists)
                rc = ae_hop_run(&h, err);
            ae_hop_end(&h);
            if (rc)
                return rc;
            hop_edges[(uint64_t)i * plan->num_hops + hop] = plan->induced ? 0 : h.num_edges;
        }
        ae_sample_advance(s, plan, hop, hop_nodes);
    }
    return AETHER_OK;
}

int aether_sample_typed(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                        const aether_sample_counts *counts, aether_error *err) {
    ae_sample_plan plan;
    int rc = ae_options_check(counts, sizeof *counts, "aether_sample_counts", err);
    if (!rc)
        rc = ae_sample_begin(s, seeds, options, &plan, err);
    if (!rc)
        rc = run_hops(s, &plan, counts->hop_nodes, counts->hop_edges, err);
    if (!rc)
        rc = ae_sample_finish(s, &plan, counts->num_nodes, counts->num_edges, err);
    if (rc) /* an empty result, not half of one */
        ae_sample_clear(s);
    return rc;
}

int aether_sample(aether_sampler *s, const int64_t *seeds, uint64_t num_seeds,
                  const aether_sample_options *options, const aether_sample_counts *counts,
                  aether_error *err) {
    const aether_seeds all = {.ids = seeds, .count = num_seeds};
    if (s->num_types != 1 || s->num_relations != 1)
        return ae_error_set(err, AETHER_E_INVALID, "a typed sampler needs aether_sample_typed");
    return aether_sample_typed(s, &all, options, counts, err);
}
