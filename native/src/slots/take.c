/*
 * Rows out of slots that were read from outside, where no fence has kept the order of what was written: the
 * checksum decides, which has the number of the row in it.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "aether/live.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/options.h"
#include "slots/layout.h"
#include "slots/scale.h"
#include "slots/sum.h"

/* What the head of a slot says, before anybody knows whether it is true. */
typedef struct head {
    uint32_t seq, sum;
    uint64_t version;
} head;

/* Rows whose checksums are compared together. */
typedef struct group {
    uint64_t rows[AE_SLOT_SUMS], places[AE_SLOT_SUMS];
    const uint8_t *data[AE_SLOT_SUMS];
    head heads[AE_SLOT_SUMS];
    uint32_t n;
} group;

typedef struct taking {
    const aether_table_info *info;
    uint8_t *out, *whole;
    uint64_t out_bytes, taken;
} taking;

static void end_group(taking *t, group *g) {
    uint32_t sums[AE_SLOT_SUMS];
    ae_slot_sums_begin(g->rows, g->data, g->n, t->info->row_bytes, sums);
    for (uint32_t k = 0; k < g->n; k++) {
        const head *h = &g->heads[k];
        if (ae_slot_sum_end(sums[k], h->version, h->seq) != h->sum)
            continue;
        uint8_t *out = t->out + g->places[k] * t->out_bytes;
        if (t->info->flags & AETHER_TABLE_SCALED)
            ae_slot_scale(g->data[k], t->info->row_items, out);
        else
            memcpy(out, g->data[k], t->out_bytes);
        t->whole[g->places[k]] = 1;
        t->taken++;
    }
    g->n = 0;
}

static int check_slots(const aether_table_info *info, uint64_t n, uint64_t stride, uint64_t out_bytes,
                       uint64_t out_size, aether_error *err) {
    uint64_t needed, items = 1;
    const uint64_t factor = info->flags & AETHER_TABLE_SCALED ? sizeof(float) : 0;
    bool over = info->num_dims > AETHER_TABLE_DIMS;
    for (uint32_t i = 0; !over && i < info->num_dims; i++)
        over = __builtin_mul_overflow(items, info->shape[i], &items);
    if (over || items != info->row_items || !aether_dtype_size(info->dtype) ||
        info->row_bytes != items * aether_dtype_size(info->dtype) + factor ||
        stride < AE_SLOT_HEAD + info->row_bytes)
        return ae_error_set(err, AETHER_E_INVALID, "the description of the slots contradicts itself");
    if (__builtin_mul_overflow(n, out_bytes, &needed) || needed != out_size)
        return ae_error_set(err, AETHER_E_INVALID,
                            "%" PRIu64 " rows of %" PRIu64 " bytes are not the %" PRIu64 " bytes given", n,
                            out_bytes, out_size);
    return AETHER_OK;
}

int aether_slots_take(const aether_table_info *info, const aether_slots *slots, uint64_t *taken,
                      aether_error *err) {
    *taken = 0;
    int rc = ae_options_check(slots, sizeof *slots, "aether_slots", err);
    if (rc)
        return rc;
    const aether_slots *s = slots;
    taking t = {.info = info, .out = s->out, .whole = s->whole};
    group g = {.n = 0};
    if (!info || (s->n && (!s->ids || !s->slots || !s->out || !s->whole)))
        return ae_error_set(err, AETHER_E_INVALID, "info, ids, slots, out and whole are needed");
    t.out_bytes = info->flags & AETHER_TABLE_SCALED ? info->row_items * sizeof(float) : info->row_bytes;
    rc = check_slots(info, s->n, s->stride, t.out_bytes, s->out_size, err);
    if (rc)
        return rc;
    memset(s->whole, 0, s->n);
    for (uint64_t i = 0; i < s->n; i++) {
        const uint8_t *slot = (const uint8_t *)s->slots + i * s->stride;
        memcpy(&g.heads[g.n], slot, sizeof(head));
        if (g.heads[g.n].seq % 2 || !g.heads[g.n].seq)
            continue;
        g.rows[g.n] = (uint64_t)s->ids[i];
        g.places[g.n] = i;
        g.data[g.n] = slot + AE_SLOT_HEAD;
        if (++g.n == AE_SLOT_SUMS)
            end_group(&t, &g);
    }
    end_group(&t, &g);
    *taken = t.taken;
    return AETHER_OK;
}
