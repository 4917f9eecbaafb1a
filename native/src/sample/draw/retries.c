#include "sample/draw/retries.h"

/* Pieces that were read are kept while there is room: neighbouring lists share them. */
static uint64_t held(ae_value_cache *const *p, uint32_t n) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += p[i]->count;
    return total;
}

static void clear_value_caches(ae_value_cache *const *p, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        ae_value_cache_clear(p[i]);
}

void ae_retries_free(ae_retries *r) {
    ae_scratch_free(&r->waiting);
    ae_scratch_free(&r->order);
}

uint64_t ae_retries_memory(const ae_retries *r) {
    return r->waiting.bytes + r->order.bytes;
}

/* ---- the order ---- */

static uint32_t stretch_of(const ae_list *list, double scale) {
    const double at = (double)list->start * scale;
    return at < AE_STRETCHES ? (uint32_t)at : AE_STRETCHES - 1;
}

static uint32_t *ends_of(const ae_retries *r) {
    return r->order.data;
}

static uint32_t *nodes_of(const ae_retries *r) {
    return ends_of(r) + AE_STRETCHES;
}

/* Sort by counting: once over the lists to count, once to place. */
int ae_retries_sort(ae_retries *r, const ae_list *lists, uint64_t count, uint64_t num_edges,
                    aether_error *err) {
    uint32_t place[AE_STRETCHES + 1] = {0};
    const double scale = AE_STRETCHES / (double)(num_edges + 1);
    r->sorted = false;
    if (count > UINT32_MAX)
        return AETHER_OK;
    int rc = ae_scratch_reserve(&r->order, (AE_STRETCHES + count) * sizeof(uint32_t), 0, err);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < count; i++)
        place[stretch_of(&lists[i], scale) + 1]++;
    for (uint32_t i = 0; i < AE_STRETCHES; i++)
        ends_of(r)[i] = place[i + 1] += place[i];
    for (uint64_t i = 0; i < count; i++)
        nodes_of(r)[place[stretch_of(&lists[i], scale)]++] = (uint32_t)i;
    r->upto = AE_STRETCHES;
    r->sorted = true;
    return AETHER_OK;
}

/* ---- a round ---- */

static int try_waiting(ae_retries *r, ae_retries_try try, void *ctx, aether_error *err) {
    uint64_t *waiting = r->waiting.data, kept = 0;
    for (uint64_t i = 0; i < r->num_waiting; i++) {
        int rc = try(ctx, waiting[i], true, err);
        if (rc < 0)
            return rc;
        waiting[kept] = waiting[i];
        kept += rc == AE_WANTED;
    }
    r->num_waiting = kept;
    return AETHER_OK;
}

static int wait(ae_retries *r, uint64_t node, aether_error *err) {
    const uint64_t n = r->num_waiting;
    int rc = ae_scratch_reserve(&r->waiting, (n + 1) * sizeof(uint64_t), n * sizeof(uint64_t), err);
    if (!rc)
        ((uint64_t *)r->waiting.data)[r->num_waiting++] = node;
    return rc;
}

int ae_retries_round(ae_retries *r, uint64_t count, ae_value_cache *const *p, uint32_t num_caches,
                     uint64_t most, ae_retries_try try, void *ctx, aether_error *err) {
    const uint64_t end = r->sorted ? ends_of(r)[r->upto - 1] : count;
    int rc = try_waiting(r, try, ctx, err);
    if (!rc && !r->num_waiting && held(p, num_caches) >= most)
        clear_value_caches(p, num_caches);
    for (; !rc && r->next < end && (!r->num_waiting || held(p, num_caches) < most); r->next++) {
        const uint64_t node = r->sorted ? nodes_of(r)[r->next] : r->next;
        rc = try(ctx, node, false, err);
        if (rc == AE_WANTED)
            rc = wait(r, node, err);
    }
    if (!rc && (r->num_waiting || r->next < count))
        return AE_WANTED;
    r->next = r->num_waiting = 0;
    return rc;
}
