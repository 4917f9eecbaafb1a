#include "live/table.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/minmax.h"

#define MAGIC UINT64_C(0x454C424154454741) /* "AGETABLE" */
#define PAGE  4096u

typedef struct header {
    uint64_t magic, name;
    ae_word taken; /* bytes of the arena */
} header;

static header *table_header(const ae_table *t) {
    return (header *)(void *)t->memory.data;
}

static uint64_t whole_pages(uint64_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Return the bytes of the bits of changed nodes: there are some over a base. */
static uint64_t changed_bytes(const aether_live_relation *relation, uint64_t room) {
    return relation->base_edges ? whole_pages((room + 63) / 64 * sizeof(uint64_t)) : 0;
}

/* Return the entries of the index. */
static uint64_t count_lines(uint64_t room) {
    return (room + AE_ROOTS_OF_LINE - 1) / AE_ROOTS_OF_LINE;
}

/* Return the bytes of the index of lines, which is there, too. */
static uint64_t index_bytes(const aether_live_relation *relation, uint64_t room) {
    return relation->base_edges ? whole_pages(count_lines(room) * sizeof(uint32_t)) : 0;
}

/* Return the bytes before the roots. */
static uint64_t bytes_before_roots(const aether_live_relation *relation, uint64_t room) {
    return PAGE + changed_bytes(relation, room) + index_bytes(relation, room);
}

/* Return the bytes with the roots of `nodes`. What is not small ends with a huge page. */
static uint64_t bytes_to(uint64_t roots_at, bool has_base, uint64_t nodes) {
    const uint64_t unused = has_base ? 2 * AE_ROOTS_OF_LINE : 0; /* line 0; the last is whole */
    const uint64_t size = roots_at + (nodes + unused) * sizeof(ae_root);
    const uint64_t step = size < AE_SHARED_HUGE ? PAGE : AE_SHARED_HUGE;
    return (size + step - 1) / step * step;
}

static uint64_t table_size(const aether_live_relation *relation, uint64_t room) {
    return bytes_to(bytes_before_roots(relation, room), relation->base_edges, room);
}

static int open_table(const aether_live_relation *relation, uint64_t room, ae_table *t, aether_error *err) {
    const uint64_t changed = changed_bytes(relation, room), index = index_bytes(relation, room);
    t->layout = ae_layout_of(relation->columns, relation->edge_id_bytes);
    t->order = relation->order;
    t->changed = changed ? (ae_word *)(void *)(t->memory.data + PAGE) : NULL;
    t->lines = index ? (_Atomic uint32_t *)(void *)(t->memory.data + PAGE + changed) : NULL;
    t->end_lines = index ? (uint32_t)ae_table_end_lines(room) : 0;
    t->roots_at = bytes_before_roots(relation, room);
    t->roots = (ae_root *)(void *)(t->memory.data + t->roots_at);
    t->last = calloc(1, sizeof *t->last);
    return t->last ? AETHER_OK : ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a live graph");
}

int ae_table_create(const aether_live_relation *relation, uint64_t room, uint64_t nodes, uint64_t name,
                    bool huge, ae_table *out, aether_error *err) {
    const uint64_t mapped = bytes_to(bytes_before_roots(relation, room), relation->base_edges, nodes);
    *out = (ae_table){0};
    const int rc =
        ae_shared_create("aether-live-table", table_size(relation, room), mapped, &out->memory, err);
    if (rc)
        return rc;
    if (huge)
        ae_shared_want_huge(&out->memory);
    table_header(out)->magic = MAGIC;
    table_header(out)->name = name;
    return open_table(relation, room, out, err);
}

int ae_table_attach(int fd, const aether_live_relation *relation, uint64_t room, uint64_t name, ae_table *out,
                    aether_error *err) {
    *out = (ae_table){0};
    const int rc =
        ae_shared_attach(fd, bytes_before_roots(relation, room), false, "table", &out->memory, err);
    if (rc)
        return rc;
    const header *h = table_header(out);
    if (out->memory.size != table_size(relation, room) || h->magic != MAGIC || h->name != name) {
        ae_table_close(out);
        return ae_error_set(err, AETHER_E_INVALID, "descriptor %d is not the table of this live graph", fd);
    }
    return open_table(relation, room, out, err);
}

ae_root *ae_table_reach(const ae_table *t, uint64_t nodes, aether_error *err) {
    const uint64_t needed = bytes_to(t->roots_at, t->lines, nodes);
    ae_table_map *last = atomic_load_explicit(t->last, memory_order_acquire);
    for (;;) {
        const uint64_t mapped = last ? last->mapped : t->memory.mapped;
        uint8_t *data = last ? last->data : t->memory.data;
        if (mapped >= needed)
            return (ae_root *)(void *)(data + t->roots_at);
        ae_table_map *more = malloc(sizeof *more);
        if (!more) {
            ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for the lists of more nodes");
            return NULL;
        }
        /* A step of ours, or the end of the table. */
        const uint64_t twice = ae_min_u64(bytes_to(2 * mapped, false, 0), t->memory.size);
        *more = (ae_table_map){.mapped = twice > needed ? twice : needed, .before = last};
        if (ae_shared_extend(&t->memory, more->mapped, &more->data, err)) {
            free(more);
            return NULL;
        }
        if (atomic_compare_exchange_strong(t->last, &last, more))
            return (ae_root *)(void *)(more->data + t->roots_at);
        ae_shared_unmap(more->data, more->mapped); /* another thread was faster */
        free(more);
    }
}

ae_shared ae_table_mapping(const ae_table *t) {
    const ae_table_map *last = atomic_load_explicit(t->last, memory_order_acquire);
    ae_shared memory = t->memory;
    if (last) {
        memory.data = last->data;
        memory.mapped = last->mapped;
    }
    return memory;
}

ae_word *ae_table_taken(const ae_table *t) {
    return &table_header(t)->taken;
}

void ae_table_close(ae_table *t) {
    ae_table_map *map = t->last ? atomic_load_explicit(t->last, memory_order_relaxed) : NULL;
    while (map) {
        ae_table_map *before = map->before;
        ae_shared_unmap(map->data, map->mapped);
        free(map);
        map = before;
    }
    free(t->last);
    t->last = NULL;
    ae_shared_close(&t->memory);
}

uint64_t ae_table_written(const ae_table *t, uint64_t node, uint64_t *end) {
    const uint64_t bytes = t->lines ? sizeof *t->lines / AE_ROOTS_OF_LINE : sizeof(ae_root); /* of a node */
    const uint64_t begin = t->lines ? (uint64_t)((const uint8_t *)t->lines - t->memory.data) : t->roots_at;
    const uint64_t data = ae_shared_written(&t->memory, begin + node * bytes, end);
    *end = *end == UINT64_MAX ? UINT64_MAX : (*end - begin + bytes - 1) / bytes;
    if (data == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t first = data > begin ? (data - begin) / bytes : 0;
    return first > node ? first : node;
}
