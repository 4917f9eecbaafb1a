#include "sample/frontier.h"

#include <string.h>

#include "core/error.h"
#include "core/failure.h"
#include "core/pool.h"

#define BLOCK       AE_TIMES_MANY /* nodes located at a time */
#define TASK_BLOCKS 4             /* ... per parallel task */
#define WORTHWHILE  4096          /* below this many nodes waking threads does not pay */
#define FAR_BLOCK   4096          /* ... where asking costs more than the answer, and keys are not nodes */

typedef struct preparation {
    const aether_sampler *s;
    const ae_relation *r;
    const ae_sample_plan *plan;
    int64_t fanout;
    const uint64_t *keys;
    uint64_t count;
    ae_frontier f;
    bool located; /* all lists are there before the blocks begin */
    ae_failure failure;
} preparation;

static int locate_frontier(const preparation *p, uint64_t at, uint64_t n, aether_error *err) {
    const aether_topology *t = p->r->topology;
    if (!p->s->node_bits)
        return t->ops->locate(t, p->keys + at, n, p->f.lists + at, err);
    uint64_t nodes[FAR_BLOCK];
    for (uint64_t i = 0; i < n; i++)
        nodes[i] = ae_key_node(p->s, p->keys[at + i]);
    return t->ops->locate(t, nodes, n, p->f.lists + at, err);
}

/* Locate the lists of all nodes: of a far topology in one question, which it can put to many at once. */
static int locate_all(const preparation *p, uint64_t count, aether_error *err) {
    const bool is_far = p->r->topology->is_far;
    const uint64_t most = !is_far ? BLOCK : p->s->node_bits ? FAR_BLOCK : count;
    int rc = AETHER_OK;
    for (uint64_t at = 0; !rc && at < count; at += most)
        rc = locate_frontier(p, at, count - at < most ? count - at : most, err);
    return rc;
}

int ae_frontier_restrict(const aether_sampler *s, const ae_relation *r, uint64_t key, ae_list *list,
                         aether_error *err) {
    if (!s->has_bounds || !ae_times_given(&r->times))
        return AETHER_OK;
    const int64_t *own = (const int64_t *)s->bounds.data + 2 * ae_key_tree(s, key);
    return ae_times_restrict(&r->times, r->topology, own[0], own[1], list, err);
}

/* AETHER_SAMPLE_LATEST: keep only the `fanout` last entries of a list that was cut by time. */
static void keep_latest(const preparation *p, ae_list *list, ae_exclusions *exclusions) {
    uint64_t wanted = (uint64_t)p->fanout, size = list->degree - exclusions->count;
    if (!p->plan->latest || p->fanout < 0 || wanted >= size || !p->s->has_bounds ||
        !ae_times_given(&p->r->times))
        return;
    uint64_t end = list->start + list->degree, from = end;
    if (wanted) {
        from = list->start + (size - wanted);
        ae_exclusions_skip(*exclusions, &from, 1);
    }
    *list = (ae_list){from, end - from};
    *exclusions = ae_exclusions_in(exclusions->positions, exclusions->count, *list);
}

/* What follows the cut by time. */
static void finish_node(const preparation *p, uint64_t i) {
    ae_list *list = &p->f.lists[i];
    ae_exclusions exclusions = {0};
    if (p->f.exclusions)
        exclusions = ae_exclusions_in(p->r->excluded, p->r->num_excluded, *list);
    keep_latest(p, list, &exclusions);
    if (p->f.exclusions)
        p->f.exclusions[i] = exclusions;
}

/* finish_node for n lists; without exclusions in one loop. */
static void finish_many(const preparation *p, uint64_t at, uint64_t n) {
    if (p->f.exclusions || p->fanout < 0) {
        for (uint64_t i = at; i < at + n; i++)
            finish_node(p, i);
        return;
    }
    const uint64_t wanted = (uint64_t)p->fanout;
    for (uint64_t i = at; p->plan->latest && i < at + n; i++) {
        ae_list *list = &p->f.lists[i];
        const uint64_t early = list->degree > wanted ? list->degree - wanted : 0;
        *list = (ae_list){list->start + early, list->degree - early};
    }
}

static int prepare_node(const preparation *p, uint64_t i, aether_error *err) {
    if (p->f.wholes)
        p->f.wholes[i] = p->f.lists[i];
    int rc = ae_frontier_restrict(p->s, p->r, p->keys[i], &p->f.lists[i], err);
    if (!rc)
        finish_node(p, i);
    return rc;
}

/* Cut the lists of a block together. */
static int prepare_together(const preparation *p, uint64_t at, uint64_t n, aether_error *err) {
    int64_t since[BLOCK], until[BLOCK];
    const int64_t *bounds = p->s->bounds.data;
    if (p->f.wholes)
        memcpy(p->f.wholes + at, p->f.lists + at, n * sizeof(ae_list));
    for (uint64_t i = 0; i < n; i++) {
        const int64_t *own = bounds + 2 * ae_key_tree(p->s, p->keys[at + i]);
        since[i] = own[0];
        until[i] = own[1];
    }
    int rc = ae_times_restrict_many(&p->r->times, p->r->topology, since, until, p->f.lists + at, n, err);
    if (!rc)
        finish_many(p, at, n);
    return rc;
}

/* The first loop prefetches for all lists of the block, so that their cache misses overlap. */
static int count_drawable(const preparation *p, uint64_t at, uint64_t n, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t i = at; i < at + n; i++) {
        ae_weighted_list list = ae_frontier_weighted(&p->f, p->r, i);
        ae_weighted_prefetch(&list);
    }
    for (uint64_t i = at; !rc && i < at + n; i++) {
        ae_weighted_list list = ae_frontier_weighted(&p->f, p->r, i);
        rc = ae_weighted_count(&list, &p->f.drawable[i], err);
    }
    return rc;
}

static int prepare_block(const preparation *p, uint64_t at, uint64_t n, aether_error *err) {
    const bool plain = !p->f.exclusions && !(p->s->has_bounds && ae_times_given(&p->r->times));
    const bool together = p->s->has_bounds && ae_times_at_hand(&p->r->times);
    int rc = p->located ? AETHER_OK : locate_frontier(p, at, n, err);
    if (!rc && together)
        rc = prepare_together(p, at, n, err);
    for (uint64_t i = 0; !rc && !plain && !together && i < n; i++)
        rc = prepare_node(p, at + i, err);
    return rc || !p->f.drawable ? rc : count_drawable(p, at, n, err);
}

static void prepare_task(void *ctx, uint64_t task, uint32_t worker) {
    (void)worker;
    preparation *p = ctx;
    const uint64_t begin = task * TASK_BLOCKS * BLOCK;
    const uint64_t end = begin + TASK_BLOCKS * BLOCK < p->count ? begin + TASK_BLOCKS * BLOCK : p->count;
    for (uint64_t at = begin; at < end && !ae_failure_seen(&p->failure); at += BLOCK) {
        aether_error error = {0};
        int rc = ae_sample_check(p->s, &error);
        if (!rc)
            rc = prepare_block(p, at, end - at < BLOCK ? end - at : BLOCK, &error);
        if (rc)
            ae_failure_note(&p->failure, rc, &error);
    }
}

static int reserve_frontier(aether_sampler *s, const ae_relation *r, uint64_t count, ae_frontier *f,
                            aether_error *err) {
    int rc = ae_scratch_reserve(&s->lists, count * sizeof(ae_list), 0, err);
    f->lists = s->lists.data;
    if (!rc && (r->weights.sums || r->weights.own) && ae_times_given(&r->times) && s->has_bounds) {
        rc = ae_scratch_reserve(&s->wholes, count * sizeof(ae_list), 0, err);
        f->wholes = s->wholes.data;
    }
    if (!rc && r->num_excluded) {
        rc = ae_scratch_reserve(&s->exclusions, count * sizeof(ae_exclusions), 0, err);
        f->exclusions = s->exclusions.data;
    }
    if (!rc && ae_weights_given(&r->weights)) {
        rc = ae_scratch_reserve(&s->drawable, count * sizeof(uint64_t), 0, err);
        f->drawable = s->drawable.data;
    }
    return rc;
}

int ae_frontier_begin(aether_sampler *s, const ae_relation *r, int64_t fanout, uint64_t begin, uint64_t count,
                      ae_frontier *out, aether_error *err) {
    *out = (ae_frontier){0};
    if (fanout == 0 || count == 0)
        return AETHER_OK;
    int rc = reserve_frontier(s, r, count, out, err);
    const preparation p = {.s = s, .r = r, .keys = ae_nodes_keys(&s->nodes[r->from]) + begin, .f = *out};
    return rc ? rc : locate_all(&p, count, err);
}

int ae_frontier_node(const aether_sampler *s, const ae_relation *r, const ae_sample_plan *plan,
                     int64_t fanout, uint64_t begin, uint64_t i, const ae_frontier *f, aether_error *err) {
    const preparation p = {.s = s,
                           .r = r,
                           .plan = plan,
                           .fanout = fanout,
                           .keys = ae_nodes_keys(&s->nodes[r->from]) + begin,
                           .f = *f};
    int rc = locate_frontier(&p, i, 1, err);
    if (!rc)
        rc = prepare_node(&p, i, err);
    return rc || !f->drawable ? rc : count_drawable(&p, i, 1, err);
}

int ae_frontier_prepare(aether_sampler *s, ae_relation *r, const ae_sample_plan *plan, int64_t fanout,
                        uint64_t begin, uint64_t count, ae_frontier *out, aether_error *err) {
    *out = (ae_frontier){0};
    if (fanout == 0 || count == 0)
        return AETHER_OK;
    int rc = reserve_frontier(s, r, count, out, err);
    if (rc)
        return rc;
    preparation p = {.s = s,
                     .r = r,
                     .plan = plan,
                     .fanout = fanout,
                     .keys = ae_nodes_keys(&s->nodes[r->from]) + begin,
                     .count = count,
                     .f = *out};
    p.located = r->topology->is_far;
    rc = p.located ? locate_all(&p, count, err) : AETHER_OK;
    if (!rc && p.located && r->weights.own)
        rc = ae_weights_know(&r->weights, r->topology, p.f.lists, count, &r->known, err);
    if (rc)
        return rc;
    const uint64_t tasks = (count + TASK_BLOCKS * BLOCK - 1) / (TASK_BLOCKS * BLOCK);
    if (plan->num_threads > 1 && count >= WORTHWHILE)
        ae_pool_run(prepare_task, &p, tasks, plan->num_threads);
    else
        for (uint64_t task = 0; task < tasks; task++)
            prepare_task(&p, task, 0);
    return ae_failure_take(&p.failure, err);
}
