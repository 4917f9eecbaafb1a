#include "cache/policy.h"

#include <string.h>

/* ---- queues -------------------------------------------------------------------------- */

static void append_frame(ae_cache_policy *p, ae_cache_queue *q, uint32_t frame) {
    p->nodes[frame].next = AE_CACHE_NONE;
    if (q->count++)
        p->nodes[q->newest].next = frame;
    else
        q->oldest = frame;
    q->newest = frame;
}

static uint32_t take_oldest(ae_cache_policy *p, ae_cache_queue *q) {
    uint32_t frame = q->oldest;
    q->oldest = p->nodes[frame].next;
    q->count--;
    return frame;
}

static unsigned found(const ae_cache_policy *p, uint32_t frame) {
    return atomic_load_explicit(&p->nodes[frame].found, memory_order_relaxed);
}

static void set_found(ae_cache_policy *p, uint32_t frame, unsigned n) {
    atomic_store_explicit(&p->nodes[frame].found, (unsigned char)n, memory_order_relaxed);
}

/* ---- keys ------------------------------------------------------------------------------ */

static uint64_t key_of_number(const ae_cache_policy *p, uint32_t number) {
    return number < p->num_frames ? p->nodes[number].key : p->ghosts[number - p->num_frames];
}

static uint64_t find_slot(const ae_cache_policy *p, uint64_t key) {
    const ae_cache_index *x = &p->index;
    uint32_t tag = ae_cache_tag(key);
    for (uint64_t i = ae_cache_home(x, tag); x->slots[i]; i = ae_cache_next(x, i))
        if (x->slots[i] >> 32 == tag && key_of_number(p, ae_cache_number(x->slots[i])) == key)
            return i;
    return x->num_slots;
}

static uint32_t number_of(const ae_cache_policy *p, uint64_t key) {
    uint64_t slot = find_slot(p, key);
    return slot == p->index.num_slots ? AE_CACHE_NONE : ae_cache_number(p->index.slots[slot]);
}

uint32_t ae_cache_policy_find(const ae_cache_policy *p, uint64_t key) {
    uint32_t number = number_of(p, key);
    return number < p->num_frames ? number : AE_CACHE_NONE;
}

/* ---- leaving ---------------------------------------------------------------------------- */

static void forget_frame(ae_cache_policy *p, uint32_t frame) {
    ae_cache_index_remove(&p->index, find_slot(p, p->nodes[frame].key));
    append_frame(p, &p->free, frame);
    p->evicted++;
}

static void add_ghost(ae_cache_policy *p, uint64_t key) {
    if (p->main_goal == 0)
        return;
    uint32_t place = (uint32_t)(p->num_ghosts % p->main_goal), number = p->num_frames + place;
    if (p->num_ghosts++ >= p->main_goal) {
        uint64_t slot = find_slot(p, p->ghosts[place]);
        if (slot != p->index.num_slots && ae_cache_number(p->index.slots[slot]) == number)
            ae_cache_index_remove(&p->index, slot);
    }
    p->ghosts[place] = key;
    ae_cache_index_add(&p->index, key, number);
}

static void evict_main(ae_cache_policy *p) {
    for (;;) {
        uint32_t frame = take_oldest(p, &p->main);
        unsigned n = found(p, frame);
        if (n == 0) {
            forget_frame(p, frame);
            return;
        }
        set_found(p, frame, n - 1);
        append_frame(p, &p->main, frame);
    }
}

static void evict_small(ae_cache_policy *p) {
    while (p->small.count) {
        uint32_t frame = take_oldest(p, &p->small);
        if (found(p, frame) <= 1) {
            forget_frame(p, frame);
            add_ghost(p, p->nodes[frame].key);
            return;
        }
        set_found(p, frame, 0);
        append_frame(p, &p->main, frame);
        if (p->main.count > p->main_goal)
            evict_main(p);
    }
}

static uint32_t free_frame(ae_cache_policy *p) {
    if (p->touched < p->num_frames)
        return p->touched++;
    while (p->free.count == 0) {
        if (p->small.count >= p->small_goal)
            evict_small(p);
        else
            evict_main(p);
    }
    return take_oldest(p, &p->free);
}

/* ---- coming ------------------------------------------------------------------------------ */

uint32_t ae_cache_policy_put(ae_cache_policy *p, uint64_t key) {
    if (p->shown == p->hot || ae_cache_policy_find(p, key) != AE_CACHE_NONE)
        return AE_CACHE_NONE;
    uint32_t frame = free_frame(p);
    uint64_t ghost = find_slot(p, key);
    bool returns = ghost != p->index.num_slots;
    if (returns)
        ae_cache_index_remove(&p->index, ghost);
    p->nodes[frame].key = key;
    set_found(p, frame, 0);
    append_frame(p, returns ? &p->main : &p->small, frame);
    ae_cache_index_add(&p->index, key, frame);
    p->inserted++;
    return frame;
}

static void set_goals(ae_cache_policy *p) {
    uint32_t frames = p->num_frames - p->hot;
    p->small_goal = frames / 10 ? frames / 10 : 1;
    p->main_goal = frames > p->small_goal ? frames - p->small_goal : 0;
    p->touched = p->hot;
}

uint32_t ae_cache_policy_pin(ae_cache_policy *p, uint64_t key) {
    if (p->touched > p->hot || p->hot == p->num_frames || number_of(p, key) != AE_CACHE_NONE)
        return AE_CACHE_NONE;
    uint32_t frame = p->hot++;
    p->nodes[frame].key = key;
    set_found(p, frame, AE_CACHE_OFTEN); /* at its most, so that finding the key writes nothing */
    ae_cache_index_add(&p->index, key, frame);
    set_goals(p);
    return frame;
}

void ae_cache_policy_begin(ae_cache_policy *p) {
    p->hot = 0;
    p->num_ghosts = p->inserted = p->evicted = 0;
    p->small = p->main = p->free = (ae_cache_queue){AE_CACHE_NONE, AE_CACHE_NONE, 0};
    p->shown = p->num_frames;
    set_goals(p);
}

void ae_cache_policy_reset(ae_cache_policy *p) {
    uint32_t hot = p->hot;
    memset(p->index.slots, 0, p->index.num_slots * sizeof *p->index.slots);
    ae_cache_policy_begin(p);
    for (uint32_t i = 0; i < hot; i++)
        ae_cache_policy_pin(p, p->nodes[i].key);
}

/* ---- lending ------------------------------------------------------------------------------ */

bool ae_cache_policy_lend(ae_cache_policy *p, uint32_t *used, uint32_t *num_used) {
    const ae_cache_queue *queues[] = {&p->small, &p->main};
    *num_used = 0;
    if (p->shown < p->num_frames)
        return false;
    for (int i = 0; i < 2; i++) {
        uint32_t frame = queues[i]->oldest;
        for (uint32_t k = 0; k < queues[i]->count; k++, frame = p->nodes[frame].next) {
            used[(*num_used)++] = frame;
            if (queues[i] == &p->main)
                set_found(p, frame, AE_CACHE_OFTEN);
        }
    }
    p->shown = p->hot;
    return true;
}

void ae_cache_policy_replace(ae_cache_policy *p, uint32_t frame, bool used, uint64_t key) {
    if (used) {
        ae_cache_index_remove(&p->index, find_slot(p, p->nodes[frame].key));
        p->evicted++;
    }
    uint64_t ghost = find_slot(p, key);
    if (ghost != p->index.num_slots)
        ae_cache_index_remove(&p->index, ghost);
    p->nodes[frame].key = key;
    set_found(p, frame, 0);
    ae_cache_index_add(&p->index, key, frame);
    p->inserted++;
}

bool ae_cache_policy_often(const ae_cache_policy *p, uint32_t frame) {
    return found(p, frame) > 1;
}

void ae_cache_policy_refill(ae_cache_policy *p, const uint32_t *frames, uint32_t num_used) {
    uint32_t lent = p->num_frames - p->hot;
    p->small = p->main = p->free = (ae_cache_queue){AE_CACHE_NONE, AE_CACHE_NONE, 0};
    for (uint32_t i = 0; i < lent; i++) {
        bool often = ae_cache_policy_often(p, frames[i]);
        append_frame(p, i >= num_used ? &p->free : often ? &p->main : &p->small, frames[i]);
        set_found(p, frames[i], 0);
    }
    p->touched = p->num_frames;
    p->shown = p->num_frames;
}
