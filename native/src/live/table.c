#include "live/table.h"

#include "core/error.h"

#define MAGIC UINT64_C(0x454C424154454741) /* "AGETABLE" */
#define PAGE  4096u

typedef struct header {
    uint64_t magic, name;
} header;

static header *header_of(const ae_table *t) {
    return (header *)(void *)t->memory.data;
}

static uint64_t size_for(uint64_t room) {
    return PAGE + (room * sizeof(ae_root) + PAGE - 1) / PAGE * PAGE;
}

static void open_table(const aether_live_relation *relation, ae_table *t) {
    t->layout = ae_layout_of(relation->columns, relation->edge_id_bytes);
    t->order = relation->order;
    t->roots = (ae_root *)(void *)(t->memory.data + PAGE);
}

int ae_table_create(const aether_live_relation *relation, uint64_t room, uint64_t name, bool huge,
                    ae_table *out, aether_error *err) {
    *out = (ae_table){0};
    const int rc = ae_shared_create("aether-live-table", size_for(room), &out->memory, err);
    if (rc)
        return rc;
    if (huge)
        ae_shared_want_huge(&out->memory);
    *header_of(out) = (header){MAGIC, name};
    open_table(relation, out);
    return AETHER_OK;
}

int ae_table_attach(int fd, const aether_live_relation *relation, uint64_t room, uint64_t name, ae_table *out,
                    aether_error *err) {
    *out = (ae_table){0};
    const int rc = ae_shared_attach(fd, false, "table", &out->memory, err);
    if (rc)
        return rc;
    const header *h = header_of(out);
    if (out->memory.size != size_for(room) || h->magic != MAGIC || h->name != name) {
        ae_table_close(out);
        return ae_error_set(err, AETHER_E_INVALID, "descriptor %d is not the table of this live graph", fd);
    }
    open_table(relation, out);
    return AETHER_OK;
}

void ae_table_close(ae_table *t) {
    ae_shared_close(&t->memory);
}
