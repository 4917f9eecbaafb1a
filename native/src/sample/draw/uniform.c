#include "sample/draw/uniform.h"

#include "core/rng.h"
#include "sample/draw/position_set.h"

static void draw_with_replacement(ae_list list, uint64_t k, uint64_t stream, uint64_t *out) {
    for (uint64_t i = 0; i < k; i++)
        out[i] = list.start + ae_rng_bounded(ae_rng_draw(stream, i), list.degree);
}

/* degree <= 64: the chosen set is one word. */
static void draw_distinct_word(ae_list list, uint64_t k, uint64_t stream, uint64_t *out) {
    uint64_t chosen = 0;
    for (uint64_t i = 0; i < k; i++) {
        uint64_t j = list.degree - k + i;
        uint64_t t = ae_rng_bounded(ae_rng_draw(stream, i), j + 1);
        t = (chosen >> t) & 1 ? j : t;
        chosen |= UINT64_C(1) << t;
        out[i] = list.start + t;
    }
}

static bool holds(const uint64_t *values, uint64_t n, uint64_t x) {
    bool found = false;
    for (uint64_t i = 0; i < n; i++)
        found |= values[i] == x;
    return found;
}

/* k <= 64: a 256-bit filter says "surely new" nearly always, else a scan decides. */
static void draw_distinct_few(ae_list list, uint64_t k, uint64_t stream, uint64_t *out) {
    uint64_t filter[4] = {0};
    for (uint64_t i = 0; i < k; i++) {
        uint64_t j = list.degree - k + i;
        uint64_t t = ae_rng_bounded(ae_rng_draw(stream, i), j + 1);
        if ((filter[(t >> 6) & 3] >> (t & 63)) & 1 && holds(out, i, list.start + t))
            t = j;
        filter[(t >> 6) & 3] |= UINT64_C(1) << (t & 63);
        out[i] = list.start + t;
    }
}

static int draw_distinct_many(ae_list list, uint64_t k, uint64_t stream, ae_scratch *set, uint64_t *out,
                              aether_error *err) {
    ae_position_set seen;
    int rc = ae_position_set_start(&seen, k, set, err);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < k; i++) {
        uint64_t j = list.degree - k + i;
        uint64_t t = ae_rng_bounded(ae_rng_draw(stream, i), j + 1);
        if (ae_position_set_add(&seen, t)) {
            t = j; /* j is larger than all before it, so it is new */
            ae_position_set_add(&seen, t);
        }
        out[i] = list.start + t;
    }
    return AETHER_OK;
}

int ae_uniform_draw(ae_list list, uint64_t count, bool replace, uint64_t stream, ae_scratch *set,
                    uint64_t *out, aether_error *err) {
    if (replace)
        draw_with_replacement(list, count, stream, out);
    else if (list.degree <= 64)
        draw_distinct_word(list, count, stream, out);
    else if (count <= 64)
        draw_distinct_few(list, count, stream, out);
    else
        return draw_distinct_many(list, count, stream, set, out, err);
    return AETHER_OK;
}
