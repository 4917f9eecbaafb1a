#include "sample/relabel/nodes.h"

/* Return the most nodes that there can be: repeated seeds hold a slot each beyond the distinct
 * keys. */
static uint64_t most_nodes(const ae_nodes *n, uint64_t bound) {
    return bound < n->num_keys + n->num_seeds ? bound : n->num_keys + n->num_seeds;
}

int ae_nodes_reserve_keys(ae_nodes *n, uint64_t bound, aether_error *err) {
    const uint64_t slots = most_nodes(n, bound);
    return ae_scratch_reserve(&n->keys, (slots + 1) * sizeof(uint64_t), n->num_nodes * sizeof(uint64_t), err);
}

int ae_nodes_reserve_map(ae_nodes *n, uint64_t bound, aether_task *task, aether_error *err) {
    const uint64_t slots = most_nodes(n, bound);
    return ae_idmap_reserve(&n->map, slots, n->num_keys, ae_nodes_keys(n), n->num_nodes, task, err);
}

int ae_nodes_reserve(ae_nodes *n, uint64_t bound, aether_task *task, aether_error *err) {
    int rc = ae_nodes_reserve_keys(n, bound, err);
    return rc ? rc : ae_nodes_reserve_map(n, bound, task, err);
}

#define TREES 128 /* edges whose trees are written before they are added */

/* Trees are written list by list, all 16 that the usual list has no more of, past its end, which the next
 * list overwrites: so lists cost no branch that cannot be predicted. */
void ae_nodes_add_trees(const uint64_t *keys, const uint64_t *first, uint32_t node_bits, uint64_t edge,
                        uint64_t n, uint64_t *ids, uint64_t *v) {
    const uint64_t mask = ~((UINT64_C(1) << node_bits) - 1);
    uint64_t trees[TREES + 16], node = *v;
    for (; n; edge += TREES, ids += TREES, n -= n < TREES ? n : TREES) {
        const uint64_t m = n < TREES ? n : TREES;
        while (first[node + 1] <= edge)
            node++;
        for (uint64_t i = 0; i < m; node += i < m) {
            const uint64_t stop = first[node + 1] - edge < m ? first[node + 1] - edge : m;
            const uint64_t tree = keys[node] & mask;
            do {
                for (uint64_t j = 0; j < 16; j++)
                    trees[i + j] = tree;
                i += 16;
            } while (i < stop);
            i = stop;
        }
        for (uint64_t i = 0; i < m; i++)
            ids[i] |= trees[i];
    }
    *v = node;
}

void ae_nodes_prefetch(const ae_nodes *nodes, const uint64_t *keys, uint64_t n) {
    const ae_idmap *m = &nodes->map;
    const char *slots = m->memory.data;
    if (m->kind == AE_IDMAP_DIRECT) {
        for (uint64_t i = 0; i < n; i++)
            __builtin_prefetch(slots + keys[i] * sizeof(uint32_t), 1);
        return;
    }
    uint64_t size = m->kind == AE_IDMAP_NARROW ? sizeof(uint64_t) : sizeof(ae_wide_slot);
    for (uint64_t i = 0; i < n; i++)
        __builtin_prefetch(slots + ae_idmap_home(keys[i], m->capacity) * size, 1);
}

/* Each key is written behind the known ones before it is known to be new; the next key
 * overwrites it if it was not. This spares a branch that cannot be predicted. */
#define RELABEL_LOOP(add)                                                                                    \
    do {                                                                                                     \
        for (uint64_t i = 0; i < n; i++) {                                                                   \
            known[fresh] = keys[i];                                                                          \
            rows[i] = add;                                                                                   \
        }                                                                                                    \
    } while (0)

void ae_nodes_relabel(ae_nodes *nodes, const uint64_t *restrict keys, uint64_t n, uint32_t *restrict rows) {
    const ae_idmap m = nodes->map;
    uint64_t *restrict known = ae_nodes_keys(nodes);
    uint32_t fresh = (uint32_t)nodes->num_nodes;
    if (m.kind == AE_IDMAP_DIRECT)
        RELABEL_LOOP(ae_idmap_add_direct(m.memory.data, m.base, keys[i], &fresh));
    else if (m.kind == AE_IDMAP_NARROW)
        RELABEL_LOOP(ae_idmap_add_narrow(m.memory.data, m.capacity, m.base, keys[i], &fresh));
    else
        RELABEL_LOOP(ae_idmap_add_wide(m.memory.data, m.capacity, m.base, keys[i], &fresh));
    nodes->num_nodes = fresh;
}
