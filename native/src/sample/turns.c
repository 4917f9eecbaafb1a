#include "sample/turns.h"

/* Pieces that were read are kept while there is room: neighbouring lists share them. */
static uint64_t held(ae_pieces *const *p, uint32_t n) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += p[i]->count;
    return total;
}

static void clear(ae_pieces *const *p, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        ae_pieces_clear(p[i]);
}

static int try_waiting(ae_turns *t, ae_turns_try try, void *ctx, aether_error *err) {
    uint64_t *waiting = t->waiting.data, kept = 0;
    for (uint64_t i = 0; i < t->num_waiting; i++) {
        int rc = try(ctx, waiting[i], true, err);
        if (rc < 0)
            return rc;
        waiting[kept] = waiting[i];
        kept += rc == AE_WANTED;
    }
    t->num_waiting = kept;
    return AETHER_OK;
}

static int wait(ae_turns *t, uint64_t node, aether_error *err) {
    const uint64_t n = t->num_waiting;
    int rc = ae_scratch_reserve(&t->waiting, (n + 1) * sizeof(uint64_t), n * sizeof(uint64_t), err);
    if (!rc)
        ((uint64_t *)t->waiting.data)[t->num_waiting++] = node;
    return rc;
}

int ae_turns_take(ae_turns *t, uint64_t count, ae_pieces *const *p, uint32_t num_pieces, uint64_t most,
                  ae_turns_try try, void *ctx, aether_error *err) {
    int rc = try_waiting(t, try, ctx, err);
    if (!rc && !t->num_waiting && held(p, num_pieces) >= most)
        clear(p, num_pieces);
    for (; !rc && t->next < count && (!t->num_waiting || held(p, num_pieces) < most); t->next++) {
        rc = try(ctx, t->next, false, err);
        if (rc == AE_WANTED)
            rc = wait(t, t->next, err);
    }
    if (!rc && t->num_waiting)
        return AE_WANTED;
    t->next = t->num_waiting = 0;
    return rc;
}
