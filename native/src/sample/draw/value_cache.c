#include "sample/draw/value_cache.h"

#include "core/error.h"

void ae_value_cache_free(ae_value_cache *c) {
    ae_idmap_free(&c->map);
    ae_scratch_free(&c->asked);
    ae_scratch_free(&c->data);
    c->map = (ae_idmap){0};
    c->count = c->read = c->room = 0;
}

uint64_t ae_value_cache_memory(const ae_value_cache *c) {
    return c->map.memory.bytes + c->asked.bytes + c->data.bytes;
}

void ae_value_cache_clear(ae_value_cache *c) {
    if (c->count)
        ae_idmap_restart(&c->map, c->count);
    c->count = c->read = 0;
}

static int reserve_page(ae_value_cache *c, aether_error *err) {
    const uint64_t bound = c->count + 1;
    const uint64_t pages = (c->values->count >> c->values->shift) + 1;
    if (bound <= c->room)
        return AETHER_OK;
    int rc = ae_scratch_reserve(&c->data, bound * AE_VALUE_PAGE_BYTES, c->count * AE_VALUE_PAGE_BYTES, err);
    const uint64_t room = c->data.bytes / AE_VALUE_PAGE_BYTES;
    if (!rc)
        rc = ae_scratch_reserve(&c->asked, (room + 1) * sizeof(uint64_t), c->count * sizeof(uint64_t), err);
    if (!rc)
        rc = ae_idmap_reserve(&c->map, room + 1, pages, c->asked.data, c->count, NULL, err);
    if (!rc)
        c->room = room; /* set last: where memory is refused, only one of the three may have grown */
    return rc;
}

static int place_page(ae_value_cache *c, uint64_t page, uint64_t *place, aether_error *err) {
    int rc = reserve_page(c, err);
    if (rc)
        return rc;
    *place = ae_idmap_add(&c->map, page, (uint32_t)c->count);
    if (*place == c->count)
        ((uint64_t *)c->asked.data)[c->count++] = page;
    return AETHER_OK;
}

int ae_value_cache_find(ae_value_cache *c, uint64_t at, const void **out, aether_error *err) {
    const uint32_t shift = c->values->shift;
    uint64_t place;
    int rc = place_page(c, at >> shift, &place, err);
    if (rc)
        return rc;
    const uint64_t inside = (at & ((UINT64_C(1) << shift) - 1)) << (AE_VALUE_PAGE_SHIFT - shift);
    *out = (const char *)c->data.data + place * AE_VALUE_PAGE_BYTES + inside;
    return place < c->read ? AETHER_OK : AE_WANTED;
}

int ae_value_cache_ask(ae_value_cache *c, uint64_t at, uint64_t n, aether_error *err) {
    const uint32_t shift = c->values->shift;
    int rc = AETHER_OK;
    for (uint64_t page = at >> shift; !rc && n && page <= (at + n - 1) >> shift; page++) {
        uint64_t place;
        rc = place_page(c, page, &place, err);
    }
    return rc;
}

int ae_value_cache_read(ae_value_cache *const *c, uint32_t n, ae_fetch *jobs, ae_staging *staging,
                        aether_task *task, aether_error *err) {
    uint32_t asking = 0;
    for (uint32_t i = 0; i < n; i++)
        if (ae_value_cache_wanted(c[i]))
            jobs[asking++] = ae_value_cache_job(c[i]);
    if (!asking)
        return AETHER_OK;
    int rc = ae_values_read(c[0]->values, jobs, asking, staging, task, err);
    for (uint32_t i = 0; !rc && i < n; i++)
        c[i]->read = c[i]->count;
    return rc;
}
