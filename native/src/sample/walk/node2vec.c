/* node2vec's draws by rejection. The coin alone decides most proposals; for the others the list
 * of the node before is searched. A walker that used up its attempts weighs all its neighbours
 * instead. */
#include "sample/walk/node2vec.h"

#include <string.h>

#include "sample/walk/alias.h"
#include "sample/walk/members.h"
#include "topology/visit_lists.h"

/* ---- proposals ---- */

/* Search the member table, or scan the list if there is none. */
static int has_edge(const ae_walks *w, ae_list list, uint64_t id, bool *found, aether_error *err) {
    uint64_t positions[AE_VISIT_POSITIONS], ids[AE_VISIT_POSITIONS];
    *found = w->members && ae_members_has(w->members, w->t->id_bytes, list, id);
    for (uint64_t done = 0; done < list.degree && !w->members && !*found;) {
        uint64_t n = ae_visit_positions(list, done, positions);
        int rc = w->t->ops->fetch(w->t, positions, n, ids, err);
        if (!rc && done && done % AE_TASK_ITEMS == 0)
            rc = ae_task_check(w->task, "walking", err);
        if (rc)
            return rc;
        for (uint64_t i = 0; i < n; i++)
            *found |= ids[i] == id;
        done += n;
    }
    return AETHER_OK;
}

typedef enum verdict { REJECT, TAKE, ASK } verdict;

/* Judge by the coin alone; ASK if the answer depends on whether the edge exists. */
static inline verdict judge(const ae_walk_rule *rule, uint64_t before, uint64_t id, uint64_t coin) {
    if (before == AE_WALK_NOWHERE)
        return TAKE;
    if (id == before)
        return coin < rule->back ? TAKE : REJECT;
    bool near = coin < rule->near, far = coin < rule->far;
    return near && far ? TAKE : near || far ? ASK : REJECT;
}

/* ---- does the edge exist? ---- */

typedef struct question {
    const ae_walkers *l;
    const ae_pending *p;
    uint64_t *found; /* one per asking walker */
} question;

static int look_for(void *ctx, uint64_t asker, uint64_t at, uint64_t *ids, uint64_t n, aether_error *err) {
    const question *q = ctx;
    const uint64_t id = q->l->next[q->p->asking[asker]];
    (void)at, (void)err;
    for (uint64_t i = 0; i < n; i++)
        q->found[asker] |= ids[i] == id;
    return AETHER_OK;
}

/* Lists that are slow to reach are read together: found[k] tells whether asking walker k's
 * proposal is in the list behind it. `found` may overwrite the proposals' ids. */
static int read_behind(const ae_walks *w, const ae_walkers *l, const ae_pending *p, uint64_t num_asking,
                       uint64_t *found, aether_error *err) {
    question q = {l, p, found};
    ae_scratch lists = {0};
    memset(found, 0, num_asking * sizeof *found);
    int rc = ae_scratch_reserve(&lists, num_asking * sizeof(ae_list), 0, err);
    for (uint64_t k = 0; !rc && k < num_asking; k++)
        ((ae_list *)lists.data)[k] = l->behind[p->asking[k]];
    if (!rc)
        rc = ae_list_reader_lists(l->reader, w->t, lists.data, num_asking, look_for, &q, w->task, err);
    ae_scratch_free(&lists);
    return rc;
}

static int settle_attempt(const ae_walks *w, ae_walkers *l, uint64_t attempt, ae_pending *p,
                          aether_error *err) {
    const bool take_near = w->rule.near > w->rule.far;
    uint64_t kept = 0, num_asking = 0;
    for (uint64_t k = 0; k < p->n; k++) {
        uint32_t i = p->walker[k];
        uint64_t coin = ae_walk_coin(ae_walk_draw(l->draw[i], 2 * attempt + 1));
        verdict v = judge(&w->rule, l->before[i], p->id[k], coin);
        l->next[i] = p->id[k];
        if (v == ASK) {
            p->asking[num_asking++] = i;
            if (w->members)
                ae_members_prefetch(w->members, w->t->id_bytes, l->behind[i], p->id[k]);
        }
        p->walker[kept] = i;
        kept += v == REJECT;
    }
    const bool together = l->reader && !w->members;
    int rc = together ? read_behind(w, l, p, num_asking, p->id, err) : AETHER_OK;
    for (uint64_t k = 0; !rc && k < num_asking; k++) {
        uint32_t i = p->asking[k];
        bool found = p->id[k];
        if (!together)
            rc = has_edge(w, l->behind[i], l->next[i], &found, err);
        p->walker[kept] = i;
        kept += found != take_near;
    }
    p->n = kept;
    return rc;
}

/* ---- node2vec without luck: weigh every neighbour ---- */

/* Running sum of weights; the search ends when it passes `stop`. */
typedef struct tally {
    unsigned __int128 sum, stop;
} tally;

/* Add place `place` of walker i's list, of which `part` / 2^32 counts. next[i] becomes the last
 * neighbour whose weight is above 0. */
static int add_place(const ae_walks *w, ae_walkers *l, uint64_t i, uint64_t place, uint32_t part, tally *sum,
                     aether_error *err) {
    uint64_t position = l->list[i].start + place, id, share = w->rule.back;
    if (place >= l->list[i].degree)
        return ae_walk_bad_place(l, i, place, err);
    if (part == 0 || sum->sum > sum->stop)
        return AETHER_OK;
    int rc = w->t->ops->fetch(w->t, &position, 1, &id, err);
    if (!rc && id != l->before[i]) {
        bool near = false;
        rc = has_edge(w, l->behind[i], id, &near, err);
        share = near ? w->rule.near : w->rule.far;
    }
    if (rc)
        return rc;
    sum->sum += (unsigned __int128)share * part;
    l->next[i] = id;
    return AETHER_OK;
}

static int add_up_places(const ae_walks *w, ae_walkers *l, uint64_t i, tally *sum, aether_error *err) {
    int rc = AETHER_OK;
    for (uint64_t place = 0; place < l->list[i].degree && !rc; place++) {
        rc = ae_task_check(w->task, "walking", err); /* each place may take the scan of a list */
        if (rc)
            return rc;
        if (!w->alias) {
            rc = add_place(w, l, i, place, 1, sum, err);
            continue;
        }
        uint64_t entry = w->alias[l->list[i].start + place];
        uint32_t own = (uint32_t)entry;
        rc = add_place(w, l, i, place, own, sum, err);
        if (!rc)
            rc = add_place(w, l, i, entry >> 32, UINT32_MAX - own, sum, err);
    }
    return rc;
}

static int choose_exactly(const ae_walks *w, ae_walkers *l, uint64_t i, aether_error *err) {
    tally all = {0, ~(unsigned __int128)0}, part = {0, 0};
    int rc = add_up_places(w, l, i, &all, err);
    if (rc)
        return rc;
    double coin = (double)ae_walk_coin(ae_walk_draw(l->draw[i], AE_WALK_EXACT)) * 0x1p-53;
    part.stop = (unsigned __int128)((double)all.sum * coin);
    return add_up_places(w, l, i, &part, err);
}

static int give_up(const ae_walks *w, ae_walkers *l, uint64_t attempts, ae_pending *p, aether_error *err) {
    uint64_t kept = 0;
    for (uint64_t k = 0; k < p->n; k++) {
        uint32_t i = p->walker[k];
        if (attempts < AE_WALK_ATTEMPTS + l->list[i].degree) {
            p->walker[kept++] = i;
            continue;
        }
        int rc = choose_exactly(w, l, i, err);
        if (rc)
            return rc;
    }
    p->n = kept;
    return AETHER_OK;
}

int ae_node2vec_settle(const ae_walks *w, ae_walkers *l, uint64_t attempt, ae_pending *p, aether_error *err) {
    int rc = settle_attempt(w, l, attempt, p, err);
    return rc || attempt < AE_WALK_ATTEMPTS ? rc : give_up(w, l, attempt, p, err);
}
