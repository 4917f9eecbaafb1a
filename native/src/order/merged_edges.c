#include "order/merged_edges.h"

#include <string.h>

#define FIRST_BITS 8

int ae_merged_edges_grow(ae_merged_edges *m, aether_error *err) {
    const uint32_t bits = m->bits ? m->bits + 1 : FIRST_BITS;
    const uint64_t slots = UINT64_C(1) << bits, room = slots / 2;
    int rc = ae_scratch_reserve(&m->pairs, room * sizeof(ae_merged_edge), m->n * sizeof(ae_merged_edge), err);
    if (!rc)
        rc = ae_scratch_reserve(&m->slots, slots * sizeof(uint32_t), 0, err);
    if (rc)
        return rc;
    m->bits = bits;
    m->room = room;
    uint32_t *at = m->slots.data;
    const ae_merged_edge *pairs = m->pairs.data;
    memset(at, 0xff, slots * sizeof *at);
    for (uint64_t i = 0; i < m->n; i++) {
        uint64_t s = ae_merged_slot(m, pairs[i].node);
        while (at[s] != AE_MERGED_EMPTY)
            s = (s + 1) & (slots - 1);
        at[s] = (uint32_t)i;
    }
    return AETHER_OK;
}

void ae_merged_edges_clear(ae_merged_edges *m) {
    if (m->n == 0)
        return;
    const uint64_t mask = (UINT64_C(1) << m->bits) - 1;
    uint32_t *slots = m->slots.data;
    const ae_merged_edge *pairs = m->pairs.data;
    /* The first walk that comes into the run of slots before a pair's goes on to the end of the run: so
     * it empties the pair's slot, too. */
    for (uint64_t i = 0; i < m->n; i++)
        for (uint64_t s = ae_merged_slot(m, pairs[i].node); slots[s] != AE_MERGED_EMPTY; s = (s + 1) & mask)
            slots[s] = AE_MERGED_EMPTY;
    m->n = 0;
}

void ae_merged_edges_free(ae_merged_edges *m) {
    ae_scratch_free(&m->pairs);
    ae_scratch_free(&m->slots);
    *m = (ae_merged_edges){0};
}
