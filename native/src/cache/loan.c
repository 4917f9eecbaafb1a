#include "cache/loan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/internal.h"
#include "core/error.h"
#include "core/minmax.h"

static uint32_t num_lent(const ae_cache_loan *loan) {
    return loan->end - loan->first;
}

static uint32_t *last_of(const ae_cache_loan *loan, uint32_t frame) {
    return &loan->last[frame - loan->first];
}

int ae_cache_loan_begin(ae_cache *c, ae_cache_loan *out, aether_error *err) {
    const ae_cache_policy *p = &c->policy;
    uint64_t room = p->num_frames - p->hot;
    *out = (ae_cache_loan){.cache = c, .first = p->hot, .end = p->hot, .process = getpid()};
    out->order = malloc((room + 1) * sizeof *out->order);
    out->last = calloc(room + 1, sizeof *out->last);
    if (!out->order || !out->last) {
        free(out->order);
        free(out->last);
        *out = (ae_cache_loan){.cache = c, .process = out->process};
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory planning for a cache");
    }
    ae_cache_lock_all(c);
    if (ae_cache_policy_lend(&c->policy, out->order, &out->num_used))
        out->end = p->num_frames;
    ae_cache_unlock_alone(&c->lock);
    for (uint32_t i = 0; i < out->num_used; i++)
        *last_of(out, out->order[i]) = i + 1;
    return AETHER_OK;
}

/* Write to `order` the frames that hold something, by their last use, then the others; return
 * how many hold something. Without memory for counting, frames are in order of their numbers. */
static uint32_t sort_used(const ae_cache_loan *loan) {
    uint32_t latest = 0, used = 0;
    for (uint32_t i = 0; i < num_lent(loan); i++)
        latest = loan->last[i] > latest ? loan->last[i] : latest;
    for (uint32_t i = 0; i < num_lent(loan); i++)
        used += loan->last[i] != 0;
    uint32_t *starts = calloc((size_t)latest + 2, sizeof *starts), others = used, next = 0;
    for (uint32_t i = 0; starts && i < num_lent(loan); i++)
        starts[loan->last[i] + 1] += loan->last[i] != 0;
    for (uint32_t t = 1; starts && t <= latest + 1; t++)
        starts[t] += starts[t - 1];
    for (uint32_t i = 0; i < num_lent(loan); i++) {
        uint32_t *place = !loan->last[i] ? &others : starts ? &starts[loan->last[i]] : &next;
        loan->order[(*place)++] = loan->first + i;
    }
    free(starts);
    return used;
}

void ae_cache_loan_end(ae_cache_loan *loan) {
    if (num_lent(loan) && !ae_cache_loan_inherited(loan)) {
        uint32_t used = sort_used(loan);
        ae_cache_lock_all(loan->cache);
        ae_cache_policy_refill(&loan->cache->policy, loan->order, used);
        ae_cache_unlock_alone(&loan->cache->lock);
    }
    free(loan->order);
    free(loan->last);
    *loan = (ae_cache_loan){.cache = loan->cache, .process = loan->process};
}

bool ae_cache_loan_inherited(const ae_cache_loan *loan) {
    return loan->process != getpid();
}

uint32_t ae_cache_loan_find(const ae_cache_loan *loan, uint64_t key) {
    ae_cache *c = loan->cache;
    ae_cache_lock_shared(&c->lock);
    uint32_t frame = ae_cache_policy_find(&c->policy, key);
    ae_cache_unlock_shared(&c->lock);
    return frame < loan->end ? frame : AE_CACHE_NO_FRAME;
}

const void *ae_cache_loan_frame(const ae_cache_loan *loan, uint32_t frame) {
    return ae_cache_frame_at(loan->cache, frame);
}

bool ae_cache_loan_often(const ae_cache_loan *loan, uint32_t frame) {
    return ae_cache_policy_often(&loan->cache->policy, frame);
}

/* Later than every use before the loan. */
static uint32_t moment(const ae_cache_loan *loan, uint32_t time) {
    return loan->num_used + 1 + time;
}

void ae_cache_loan_use(ae_cache_loan *loan, uint32_t frame, uint32_t time) {
    if (frame < loan->first)
        return;
    *last_of(loan, frame) = moment(loan, time);
    atomic_store_explicit(&loan->cache->policy.nodes[frame].found, AE_CACHE_OFTEN, memory_order_relaxed);
}

void ae_cache_loan_put(ae_cache_loan *loan, const uint64_t *keys, const uint32_t *frames,
                       const void *const *data, uint64_t n, uint32_t time) {
    ae_cache *c = loan->cache;
    ae_cache_lock_all(c);
    for (uint64_t i = 0; i < n; i++) {
        ae_cache_policy_replace(&c->policy, frames[i], *last_of(loan, frames[i]) != 0, keys[i]);
        memcpy(ae_cache_frame_at(c, frames[i]), data[i], c->frame_bytes);
        *last_of(loan, frames[i]) = moment(loan, time);
    }
    ae_cache_unlock_alone(&c->lock);
}
