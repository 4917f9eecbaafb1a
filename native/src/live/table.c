#include "live/table.h"

#include <inttypes.h>

#include "core/error.h"
#include "os/membarrier.h"
#include "os/process.h"

#define MAGIC        UINT64_C(0x4556494C54454741) /* "AGETLIVE" */
#define VERSION      1
#define PAGE         4096u
#define COUNTS       64u /* commits whose numbers are kept */
#define COUNTS_WORDS 8u
#define ROOTS_AT     (2 * PAGE)

typedef struct header {
    uint64_t magic;
    uint32_t version, order, columns, edge_id_bytes, fences, pad;
    uint64_t room, token;
    uint64_t line[2]; /* what never changes is in a line of its own */
    ae_word committed;
} header;

static header *header_of(const ae_table *t) {
    return (header *)(void *)t->memory.data;
}

static uint64_t size_for(uint64_t room) {
    return (ROOTS_AT + room * sizeof(ae_root) + PAGE - 1) / PAGE * PAGE;
}

/* Set what is found through the header. */
static void open_table(ae_table *t) {
    header *h = header_of(t);
    t->layout = ae_layout_of(h->columns, h->edge_id_bytes);
    t->order = h->order;
    t->fences = h->fences;
    t->committed = &h->committed;
    t->roots = (ae_root *)(void *)(t->memory.data + ROOTS_AT);
}

int ae_table_create(const aether_live_options *options, ae_table *out, aether_error *err) {
    const uint64_t room = options->max_major ? options->max_major : AE_TABLE_MAX_NODES;
    *out = (ae_table){0};
    int rc = ae_shared_create("aether-live-table", size_for(room), &out->memory, err);
    if (rc)
        return rc;
    header *h = header_of(out);
    h->magic = MAGIC;
    h->version = VERSION;
    h->order = options->order;
    h->columns = options->columns;
    h->edge_id_bytes = options->edge_id_bytes;
    h->fences = !ae_membarrier_works();
    h->room = room;
    h->token = ae_pins_now() ^ ae_process_self() << 20;
    open_table(out);
    ae_table_commit(out, 1, &(ae_counts){.num_major = options->num_major, .num_minor = options->num_minor});
    return AETHER_OK;
}

static bool looks_right(const ae_table *t) {
    const header *h = header_of(t);
    return t->memory.size >= ROOTS_AT && h->magic == MAGIC && h->version == VERSION &&
           (h->order == AETHER_ORDER_TIME || h->order == AETHER_ORDER_ID) && h->room <= AE_TABLE_MAX_NODES &&
           t->memory.size == size_for(h->room);
}

int ae_table_attach(int fd, ae_table *out, aether_error *err) {
    *out = (ae_table){0};
    int rc = ae_shared_attach(fd, false, "table", &out->memory, err);
    if (rc)
        return rc;
    if (!looks_right(out)) {
        ae_table_close(out);
        return ae_error_set(err, AETHER_E_INVALID,
                            "descriptor %d is not the table of a live graph of this version", fd);
    }
    open_table(out);
    return AETHER_OK;
}

void ae_table_close(ae_table *t) {
    ae_shared_close(&t->memory);
}

uint64_t ae_table_token(const ae_table *t) {
    return header_of(t)->token;
}

uint64_t ae_table_room(const ae_table *t) {
    return header_of(t)->room;
}

/* ---- numbers ---- */

#define NUMBERS (sizeof(ae_counts) / sizeof(uint64_t))

_Static_assert(NUMBERS <= COUNTS_WORDS, "the numbers of a commit are one line");

static ae_word *counts_of(const ae_table *t, uint64_t epoch) {
    return (ae_word *)(void *)(t->memory.data + PAGE) + epoch % COUNTS * COUNTS_WORDS;
}

/* Release: whoever reads one of these numbers sees that the commit before is the last one, and so
 * that the numbers of COUNTS commits ago are being replaced. Word by word, as they were changed:
 * a wider load would wait until all stores before have left the core. */
void ae_table_commit(ae_table *t, uint64_t epoch, const ae_counts *counts) {
    const uint64_t *words = (const uint64_t *)counts;
    ae_word *out = counts_of(t, epoch);
    for (uint32_t i = 0; i < NUMBERS; i++)
        atomic_store_explicit(&out[i], words[i], memory_order_release);
    atomic_store_explicit(t->committed, epoch, memory_order_release);
}

bool ae_table_counts(const ae_table *t, uint64_t epoch, ae_counts *out) {
    uint64_t *words = (uint64_t *)out;
    ae_word *in = counts_of(t, epoch);
    for (uint32_t i = 0; i < NUMBERS; i++)
        words[i] = atomic_load_explicit(&in[i], memory_order_acquire);
    return atomic_load_explicit(t->committed, memory_order_acquire) < epoch + COUNTS - 1;
}
