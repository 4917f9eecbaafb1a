#include "sample/draw/turns.h"

/* Pieces that were read are kept while there is room: neighbouring lists share them. */
static uint64_t held(ae_value_cache *const *p, uint32_t n) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += p[i]->count;
    return total;
}

static void clear(ae_value_cache *const *p, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        ae_value_cache_clear(p[i]);
}

void ae_turns_free(ae_turns *t) {
    ae_scratch_free(&t->waiting);
    ae_scratch_free(&t->order);
}

uint64_t ae_turns_memory(const ae_turns *t) {
    return t->waiting.bytes + t->order.bytes;
}

/* ---- the order ---- */

static uint32_t stretch_of(const ae_list *list, double scale) {
    const double at = (double)list->start * scale;
    return at < AE_STRETCHES ? (uint32_t)at : AE_STRETCHES - 1;
}

static uint32_t *ends_of(const ae_turns *t) {
    return t->order.data;
}

static uint32_t *nodes_of(const ae_turns *t) {
    return ends_of(t) + AE_STRETCHES;
}

/* Sort by counting: once over the lists to count, once to place. */
int ae_turns_sort(ae_turns *t, const ae_list *lists, uint64_t count, uint64_t num_edges, aether_error *err) {
    uint32_t place[AE_STRETCHES + 1] = {0};
    const double scale = AE_STRETCHES / (double)(num_edges + 1);
    t->sorted = false;
    if (count > UINT32_MAX)
        return AETHER_OK;
    int rc = ae_scratch_reserve(&t->order, (AE_STRETCHES + count) * sizeof(uint32_t), 0, err);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < count; i++)
        place[stretch_of(&lists[i], scale) + 1]++;
    for (uint32_t i = 0; i < AE_STRETCHES; i++)
        ends_of(t)[i] = place[i + 1] += place[i];
    for (uint64_t i = 0; i < count; i++)
        nodes_of(t)[place[stretch_of(&lists[i], scale)]++] = (uint32_t)i;
    t->upto = AE_STRETCHES;
    t->sorted = true;
    return AETHER_OK;
}

/* ---- a turn ---- */

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

int ae_turns_take(ae_turns *t, uint64_t count, ae_value_cache *const *p, uint32_t num_caches, uint64_t most,
                  ae_turns_try try, void *ctx, aether_error *err) {
    const uint64_t end = t->sorted ? ends_of(t)[t->upto - 1] : count;
    int rc = try_waiting(t, try, ctx, err);
    if (!rc && !t->num_waiting && held(p, num_caches) >= most)
        clear(p, num_caches);
    for (; !rc && t->next < end && (!t->num_waiting || held(p, num_caches) < most); t->next++) {
        const uint64_t node = t->sorted ? nodes_of(t)[t->next] : t->next;
        rc = try(ctx, node, false, err);
        if (rc == AE_WANTED)
            rc = wait(t, node, err);
    }
    if (!rc && (t->num_waiting || t->next < count))
        return AE_WANTED;
    t->next = t->num_waiting = 0;
    return rc;
}
