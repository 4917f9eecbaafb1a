#include "live/table.h"

#include "core/error.h"

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

/* A table that is not small ends with a huge page. */
static uint64_t table_size(const aether_live_relation *relation, uint64_t room) {
    const uint64_t unused = relation->base_edges ? 2 * AE_ROOTS_OF_LINE : 0; /* line 0; the last is whole */
    const uint64_t size = PAGE + changed_bytes(relation, room) + index_bytes(relation, room) +
                          (room + unused) * sizeof(ae_root);
    const uint64_t step = size < AE_SHARED_HUGE ? PAGE : AE_SHARED_HUGE;
    return (size + step - 1) / step * step;
}

static void open_table(const aether_live_relation *relation, uint64_t room, ae_table *t) {
    const uint64_t changed = changed_bytes(relation, room), index = index_bytes(relation, room);
    t->layout = ae_layout_of(relation->columns, relation->edge_id_bytes);
    t->order = relation->order;
    t->changed = changed ? (ae_word *)(void *)(t->memory.data + PAGE) : NULL;
    t->lines = index ? (_Atomic uint32_t *)(void *)(t->memory.data + PAGE + changed) : NULL;
    t->end_lines = index ? (uint32_t)count_lines(room) + 1 : 0; /* line 0 is nobody's */
    t->roots = (ae_root *)(void *)(t->memory.data + PAGE + changed + index);
}

int ae_table_create(const aether_live_relation *relation, uint64_t room, uint64_t name, bool huge,
                    ae_table *out, aether_error *err) {
    *out = (ae_table){0};
    const int rc = ae_shared_create("aether-live-table", table_size(relation, room), &out->memory, err);
    if (rc)
        return rc;
    if (huge)
        ae_shared_want_huge(&out->memory);
    table_header(out)->magic = MAGIC;
    table_header(out)->name = name;
    open_table(relation, room, out);
    return AETHER_OK;
}

int ae_table_attach(int fd, const aether_live_relation *relation, uint64_t room, uint64_t name, ae_table *out,
                    aether_error *err) {
    *out = (ae_table){0};
    const int rc = ae_shared_attach(fd, false, "table", &out->memory, err);
    if (rc)
        return rc;
    const header *h = table_header(out);
    if (out->memory.size != table_size(relation, room) || h->magic != MAGIC || h->name != name) {
        ae_table_close(out);
        return ae_error_set(err, AETHER_E_INVALID, "descriptor %d is not the table of this live graph", fd);
    }
    open_table(relation, room, out);
    return AETHER_OK;
}

ae_word *ae_table_taken(const ae_table *t) {
    return &table_header(t)->taken;
}

void ae_table_close(ae_table *t) {
    ae_shared_close(&t->memory);
}

uint64_t ae_table_written(const ae_table *t, uint64_t node, uint64_t *end) {
    const uint8_t *entries = t->lines ? (const uint8_t *)t->lines : (const uint8_t *)t->roots;
    const uint64_t bytes = t->lines ? sizeof *t->lines / AE_ROOTS_OF_LINE : sizeof(ae_root); /* of a node */
    const uint64_t begin = (uint64_t)(entries - t->memory.data);
    const uint64_t data = ae_shared_written(&t->memory, begin + node * bytes, end);
    *end = *end == UINT64_MAX ? UINT64_MAX : (*end - begin + bytes - 1) / bytes;
    if (data == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t first = data > begin ? (data - begin) / bytes : 0;
    return first > node ? first : node;
}
