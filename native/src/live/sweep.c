#include "live/sweep.h"

#define LOOK_EVERY (AE_STAMP_REACH / 4) /* commits between two looks for snapshots that are too old */
#define PASS_EVERY (AE_STAMP_REACH / 2) /* commits from the beginning of a pass to that of the next */
#define KEPT       (2 * AE_STAMP_REACH) /* commits for which a stamp stays as it is */

/* Return how many roots there are to pass. Over a base they lie together, behind line 0. */
static uint64_t count_roots(const ae_graph *g, const ae_lists *l, uint64_t commit) {
    ae_counts counts;
    if (l->table.lines)
        return (l->table.num_lines + UINT64_C(1)) * AE_ROOTS_OF_LINE;
    if (!ae_control_counts(&g->control, l->relation, commit, &counts))
        return 0;
    return l->layout == AETHER_LIVE_CSC ? counts.num_dst : counts.num_src;
}

static void begin_sweep_lists(ae_sweep *s, const ae_graph *g, uint64_t commit) {
    s->next = s->written = 0;
    s->end = count_roots(g, &g->lists[s->lists], commit);
}

static void begin_pass(ae_sweep *s, const ae_graph *g, uint64_t commit) {
    uint64_t roots = 0;
    for (uint32_t i = 0; i < g->num_lists; i++)
        roots += count_roots(g, &g->lists[i], commit);
    s->share = (roots + g->num_lists) / AE_STAMP_REACH + 1;
    s->began = commit;
    s->lists = 0;
    begin_sweep_lists(s, g, commit);
}

/* Go on with the next lists; behind the last ones the pass ends. */
static void next_lists(ae_sweep *s, const ae_graph *g, uint64_t commit) {
    if (++s->lists < g->num_lists)
        begin_sweep_lists(s, g, commit);
    else
        s->share = 0;
}

/* Pass over the roots on pages that were never written. */
static void skip_unwritten(ae_sweep *s, const ae_table *t) {
    const uint64_t begin = t->roots_at;
    uint64_t end;
    const uint64_t data = ae_shared_written(&t->memory, begin + s->next * sizeof(ae_root), &end);
    const uint64_t first = data == UINT64_MAX ? s->end : data > begin ? (data - begin) / sizeof(ae_root) : 0;
    s->next = first > s->next ? first : s->next;
    s->written = end == UINT64_MAX ? s->end : (end - begin) / sizeof(ae_root);
}

/* Let a root follow that is older than KEPT commits. */
static void freshen(ae_root *root, uint64_t commit) {
    const uint64_t past = atomic_load_explicit(&root->past, memory_order_relaxed);
    const ae_stamp stamp = ae_stamp_of(commit - KEPT);
    if (past && ae_stamp_is_after(stamp, ae_past_stamp(past)))
        atomic_store_explicit(&root->past, ae_past(stamp ? stamp : ae_stamp_of(commit - KEPT - 1), 0),
                              memory_order_release);
}

void ae_sweep_some(ae_sweep *s, ae_writers *all, uint64_t commit) {
    const ae_graph *g = all->graph;
    if (commit - s->looked >= LOOK_EVERY) {
        ae_writers_reclaim(all, true);
        s->looked = commit;
    }
    if (!s->share && commit - s->began >= PASS_EVERY)
        begin_pass(s, g, commit);
    for (uint64_t left = s->share * (commit - s->last); left > 0 && s->share; left--) {
        const ae_table *t = &g->lists[s->lists].table;
        if (s->next < s->end && s->next >= s->written)
            skip_unwritten(s, t);
        if (s->next < s->end)
            freshen(&t->roots[s->next++], commit);
        else
            next_lists(s, g, commit);
    }
    s->last = commit;
}
