#include "sample/rounds.h"

typedef struct attempt {
    ae_hop *h;
    ae_scratch *set;
} attempt;

static int try_list(void *ctx, uint64_t i, bool again, aether_error *err) {
    (void)again;
    return ae_hop_find_lists(((attempt *)ctx)->h, i, 1, err);
}

/* A retried node may use only its own room in `positions`: the nodes behind it may be planned
 * already. */
static int try_draws(void *ctx, uint64_t i, bool again, aether_error *err) {
    const attempt *t = ctx;
    const uint64_t *first = ae_hop_first(t->h);
    const uint64_t at = first[i] - t->h->first_edge, count = first[i + 1] - first[i];
    (void)again;
    return count ? ae_hop_plan_node(t->h, i, count, ae_hop_positions(t->h) + at, count, t->set, err)
                 : AETHER_OK;
}

int ae_rounds_next(ae_hop *h, uint64_t most, ae_scratch *set, aether_error *err) {
    ae_value_cache *p[AE_RELATION_CACHES];
    const uint32_t n = ae_relation_caches(h->r, p);
    const bool of_lists = h->stage == AE_HOP_LISTS;
    attempt t = {h, set};
    int rc = ae_retries_round(&h->r->retries, h->count, p, n, most, of_lists ? try_list : try_draws, &t, err);
    if (!rc && of_lists)
        rc = ae_hop_count_edges(h, err);
    if (!rc)
        h->stage++;
    return rc;
}

int ae_rounds_run(ae_hop *h, aether_error *err) {
    aether_sampler *s = h->s;
    int rc = AETHER_OK;
    while (!rc && h->stage != AE_HOP_PLANNED) {
        rc = ae_rounds_next(h, ae_value_pages_most(&s->staging), &s->sets[0], err);
        if (rc == AE_WANTED)
            rc = ae_relation_read(h->r, &s->staging, s->task, err);
    }
    return rc;
}
