#include "cache/schedule.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"

#define NONE ((uint32_t)AE_CACHE_POSITIONS)

/* State of a lent frame. */
typedef struct holder {
    uint32_t next;   /* in its queue */
    uint32_t use;    /* the position that finds it next, or NONE */
    uint32_t after;  /* the next use of its key after that, or NONE */
    uint32_t filler; /* the position that it was kept for, or NONE */
} holder;

typedef struct queue {
    uint32_t oldest, newest;
} queue;

typedef struct schedule {
    const ae_cache_loan *loan;
    const ae_cache_wishes *wishes;
    ae_cache_step *steps;
    holder *holders;
    queue *waiting;  /* one per list, and two for frames that wait for no list: found before, never found */
    uint64_t *taken; /* a bit for each queue that is not empty */
} schedule;

static holder *holder_of(const schedule *s, uint32_t frame) {
    return &s->holders[frame - s->loan->first];
}

static ae_cache_step make_step(unsigned what, uint32_t value) {
    return (ae_cache_step){what, value & NONE};
}

static uint64_t list_begin(const schedule *s, uint64_t list) {
    return list ? s->wishes->ends[list - 1] : 0;
}

/* Return num_lists for NONE, the queue of keys that are not used again. */
static uint64_t wish_list_of(const schedule *s, uint32_t position) {
    uint64_t low = 0, high = s->wishes->num_lists;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (s->wishes->ends[middle] > position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ---- queues ------------------------------------------------------------------------- */

static void append_waiting(schedule *s, uint64_t list, uint32_t frame) {
    queue *q = &s->waiting[list];
    holder_of(s, frame)->next = NONE;
    if (q->oldest == NONE)
        q->oldest = frame;
    else
        holder_of(s, q->newest)->next = frame;
    q->newest = frame;
    s->taken[list / 64] |= UINT64_C(1) << list % 64;
}

static void clear_waiting(schedule *s, uint64_t list) {
    s->waiting[list] = (queue){NONE, NONE};
    s->taken[list / 64] &= ~(UINT64_C(1) << list % 64);
}

static uint32_t pop_waiting(schedule *s, uint64_t list) {
    uint32_t frame = s->waiting[list].oldest;
    s->waiting[list].oldest = holder_of(s, frame)->next;
    if (s->waiting[list].oldest == NONE)
        clear_waiting(s, list);
    return frame;
}

/* Return the last queue that has a frame, which is used farthest ahead; -1: none has. */
static int64_t farthest(const schedule *s) {
    for (int64_t word = (int64_t)((s->wishes->num_lists + 1) / 64); word >= 0; word--)
        if (s->taken[word])
            return word * 64 + 63 - __builtin_clzll(s->taken[word]);
    return -1;
}

/* ---- uses of a key ------------------------------------------------------------------- */

/* Chain the first positions of one key in each list; its other positions refer to these. `where`
 * is the frame that holds the key. */
static void link_uses(schedule *s, uint64_t from, uint64_t to, uint32_t where) {
    const ae_cache_wishes *w = s->wishes;
    uint64_t mask = (UINT64_C(1) << w->shift) - 1;
    uint32_t first = (uint32_t)(w->sorted[from] & mask), leader = first;
    uint64_t list_end = w->ends[wish_list_of(s, leader)];
    s->steps[first] = make_step(AE_STEP_OPEN, NONE);
    for (uint64_t i = from + 1; i < to; i++) {
        uint32_t position = (uint32_t)(w->sorted[i] & mask);
        if (position < list_end) {
            s->steps[position] = make_step(AE_STEP_AGAIN, leader);
            continue;
        }
        s->steps[leader].value = position & NONE;
        s->steps[position] = make_step(AE_STEP_OPEN, NONE);
        leader = position;
        list_end = w->ends[wish_list_of(s, leader)];
    }
    if (where >= s->loan->first && where != AE_CACHE_NO_FRAME)
        holder_of(s, where)->use = first;
    if (where < s->loan->first)
        for (uint64_t i = from; i < to; i++)
            s->steps[w->sorted[i] & mask] = make_step(AE_STEP_FOUND, where);
}

static void link_all(schedule *s) {
    const ae_cache_wishes *w = s->wishes;
    for (uint64_t from = 0, to; from < w->num_positions; from = to) {
        uint64_t key = w->sorted[from] >> w->shift;
        for (to = from + 1; to < w->num_positions && w->sorted[to] >> w->shift == key; to++)
            ;
        link_uses(s, from, to, ae_cache_loan_find(s->loan, key));
    }
}

/* ---- deciding ------------------------------------------------------------------------- */

/* Put a frame into the queue of its next use; `found` tells whether its key was found before. */
static void wait_for_use(schedule *s, uint32_t frame, uint32_t use, bool found) {
    holder *h = holder_of(s, frame);
    h->use = use;
    if (use != NONE) {
        h->after = s->steps[use].value;
        s->steps[use] = make_step(AE_STEP_FOUND, frame);
    }
    append_waiting(s, wish_list_of(s, use) + (use == NONE && !found), frame);
}

/* The order decides what leaves first: empty frames, then the oldest. */
static void fill_queues(schedule *s) {
    const ae_cache_loan *loan = s->loan;
    for (uint32_t frame = loan->first; frame < loan->end; frame++)
        if (loan->last[frame - loan->first] == 0)
            append_waiting(s, s->wishes->num_lists + 1, frame);
    for (uint32_t i = 0; i < loan->num_used; i++) {
        uint32_t frame = loan->order[i];
        wait_for_use(s, frame, holder_of(s, frame)->use, ae_cache_loan_often(loan, frame));
    }
}

/* A key was read at `position`, in a list that begins at `begin`: keep it if it is used again
 * before the key that is used farthest ahead. */
static void decide_keeping(schedule *s, uint32_t position, uint64_t begin) {
    uint32_t use = s->steps[position].value;
    int64_t from = farthest(s);
    s->steps[position] = make_step(AE_STEP_PASSED, 0);
    if (from < 0 || (from < (int64_t)s->wishes->num_lists && (uint64_t)from <= wish_list_of(s, use)))
        return;
    uint32_t frame = pop_waiting(s, (uint64_t)from);
    holder *h = holder_of(s, frame);
    if (h->use != NONE)
        s->steps[h->use] = make_step(AE_STEP_OPEN, h->after);
    if (h->filler != NONE && h->filler >= begin)
        s->steps[h->filler] = make_step(AE_STEP_PASSED, 0);
    h->filler = position;
    s->steps[position] = make_step(AE_STEP_KEPT, frame);
    wait_for_use(s, frame, use, false);
}

/* Return how many keys are read. */
static uint64_t decide_list(schedule *s, uint64_t list) {
    uint64_t begin = list_begin(s, list), end = s->wishes->ends[list], read = 0;
    clear_waiting(s, list); /* all that wait in it are found below */
    for (uint64_t i = begin; i < end; i++) {
        ae_cache_step found = s->steps[i];
        if (found.what == AE_STEP_FOUND && found.value >= s->loan->first)
            wait_for_use(s, found.value, holder_of(s, found.value)->after, true);
    }
    for (uint64_t i = begin; i < end; i++)
        if (s->steps[i].what == AE_STEP_OPEN) {
            decide_keeping(s, (uint32_t)i, begin);
            read++;
        }
    for (uint64_t i = begin; i < end; i++)
        if (s->steps[i].what == AE_STEP_AGAIN)
            s->steps[i] = s->steps[s->steps[i].value];
    return read;
}

/* ---- the whole -------------------------------------------------------------------------- */

int ae_cache_schedule(const ae_cache_loan *loan, const ae_cache_wishes *wishes, ae_cache_step *steps,
                      uint64_t *num_read, aether_error *err) {
    uint64_t frames = loan->end - loan->first, lists = wishes->num_lists;
    if (wishes->num_positions >= AE_CACHE_POSITIONS || loan->end >= AE_CACHE_POSITIONS)
        return ae_error_at(err, AETHER_E_LIMIT, 0, (int64_t)wishes->num_positions,
                           "%" PRIu64 " rows with a cache of %" PRIu32
                           " frames are more than can be planned: at most %" PRIu64 " of either",
                           wishes->num_positions, loan->end, AE_CACHE_POSITIONS - 1);
    schedule s = {.loan = loan, .wishes = wishes, .steps = steps};
    s.holders = calloc(frames + 1, sizeof *s.holders);
    s.waiting = calloc(lists + 2, sizeof *s.waiting);
    s.taken = calloc((lists + 1) / 64 + 1, sizeof *s.taken);
    int rc = AETHER_OK;
    *num_read = 0;
    if (!s.holders || !s.waiting || !s.taken) {
        rc = ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory planning %" PRIu64 " rows",
                          wishes->num_positions);
    } else {
        for (uint64_t i = 0; i < frames; i++)
            s.holders[i] = (holder){NONE, NONE, NONE, NONE};
        for (uint64_t i = 0; i < lists + 2; i++)
            s.waiting[i] = (queue){NONE, NONE};
        link_all(&s);
        fill_queues(&s);
        for (uint64_t i = 0; i < lists; i++)
            *num_read += decide_list(&s, i);
    }
    free(s.holders);
    free(s.waiting);
    free(s.taken);
    return rc;
}
