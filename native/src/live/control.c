#include "live/control.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "os/membarrier.h"
#include "os/process.h"

#define MAGIC         UINT64_C(0x4C5254434C454741) /* "AGELCTRL" */
#define VERSION       7
#define PAGE          4096u
#define SLOTS         64u /* changes of a relation whose numbers are kept */
#define SLOT_WORDS    8u
#define RECENT        4096u /* changes whose relations are kept */
#define RELATION_BITS 12    /* of a word there: the change, the relation */
#define COUNT_WORDS   (sizeof(ae_counts) / sizeof(uint64_t))

typedef struct header {
    uint64_t magic;
    uint32_t version, num_relations, fences, pad;
    uint64_t token, arena_bytes;
    uint64_t first_commit;
    ae_word retired;  /* 1: the graph goes on elsewhere */
    uint64_t line[1]; /* what hardly ever changes is in a line of its own */
    ae_word committed;
    uint64_t rest[7];
    ae_word commits[SLOTS][4]; /* by number modulo SLOTS: number, what belongs to it */
} header;

typedef struct relation_block {
    aether_live_relation relation;
    ae_word changes;
    ae_word touched, used, retired;
    uint64_t line[4];
    ae_word slots[SLOTS][SLOT_WORDS]; /* commit, counts */
} relation_block;

_Static_assert(sizeof(aether_live_relation) == 64 && sizeof(relation_block) == 128 + SLOTS * 64,
               "blocks are whole lines");
_Static_assert(sizeof(header) <= PAGE, "the relations follow on the next page");
_Static_assert(AE_CONTROL_RELATIONS <= 1u << RELATION_BITS, "a relation is less than a change");
_Static_assert(COUNT_WORDS < SLOT_WORDS, "the numbers of a commit are one line");

static header *control_header(const ae_control *c) {
    return (header *)(void *)c->memory.data;
}

static relation_block *block_of(const ae_control *c, uint32_t r) {
    return (relation_block *)(void *)(c->memory.data + PAGE + RECENT * sizeof(ae_word)) + r;
}

static ae_word *recent_of(const ae_control *c, uint64_t change) {
    return (ae_word *)(void *)(c->memory.data + PAGE) + change % RECENT;
}

static uint64_t control_size(uint32_t num_relations) {
    return PAGE + RECENT * sizeof(ae_word) +
           (num_relations * sizeof(relation_block) + PAGE - 1) / PAGE * PAGE;
}

/* ---- what a relation can be ---- */

static int check_most(const char *name, uint64_t count, uint64_t most, uint32_t r, aether_error *err) {
    if (count <= most)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_LIMIT, r, (int64_t)count,
                       "%s = %" PRIu64 " of relation %" PRIu32 ": there can be %" PRIu64 " at most", name,
                       count, r, most);
}

static int check_base(const aether_live_relation *o, uint32_t r, aether_error *err) {
    const uint64_t most = o->edge_id_bytes == 4 ? UINT32_MAX - 1 : INT64_MAX;
    if (o->base_edges <= o->base_edge_ids && o->base_edge_ids <= most)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_INVALID, r, (int64_t)o->base_edge_ids,
                       "base_edge_ids = %" PRIu64 " of relation %" PRIu32 ": with base_edges = %" PRIu64
                       " it is from there to %" PRIu64,
                       o->base_edge_ids, r, o->base_edges, most);
}

int ae_control_check(const aether_live_relation *o, uint32_t r, aether_error *err) {
    int rc = check_most("max_src", o->max_src, AE_CONTROL_MAX_NODES, r, err);
    if (!rc)
        rc = check_most("max_dst", o->max_dst, AE_CONTROL_MAX_NODES, r, err);
    if (!rc)
        rc = check_most("num_src", o->num_src, ae_room_of(o->max_src), r, err);
    if (!rc)
        rc = check_most("num_dst", o->num_dst, ae_room_of(o->max_dst), r, err);
    if (rc)
        return rc;
    if (!o->layouts || o->layouts & ~(uint32_t)(AETHER_LIVE_CSC | AETHER_LIVE_CSR))
        return ae_error_at(err, AETHER_E_INVALID, r, (int64_t)o->layouts,
                           "layouts = %" PRIu32 " of relation %" PRIu32
                           ": they are AETHER_LIVE_CSC, AETHER_LIVE_CSR or both",
                           o->layouts, r);
    if (o->order != AETHER_ORDER_TIME && o->order != AETHER_ORDER_ID)
        return ae_error_at(err, AETHER_E_INVALID, r, (int64_t)o->order,
                           "order = %" PRIu32 " of relation %" PRIu32
                           ": it is AETHER_ORDER_TIME or AETHER_ORDER_ID",
                           o->order, r);
    if (o->columns & ~(uint32_t)(AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS))
        return ae_error_at(err, AETHER_E_INVALID, r, (int64_t)o->columns,
                           "columns = %" PRIu32 " of relation %" PRIu32
                           ": they are AETHER_LIVE_TIMES and AETHER_LIVE_WEIGHTS",
                           o->columns, r);
    if (o->order == AETHER_ORDER_ID && o->columns & AETHER_LIVE_TIMES)
        return ae_error_at(err, AETHER_E_INVALID, r, (int64_t)o->columns,
                           "lists in the order of ids have no times: use AETHER_ORDER_TIME for relation "
                           "%" PRIu32,
                           r);
    if (o->edge_id_bytes != 0 && o->edge_id_bytes != 4 && o->edge_id_bytes != 8)
        return ae_error_at(err, AETHER_E_INVALID, r, (int64_t)o->edge_id_bytes,
                           "edge_id_bytes = %" PRIu32 " of relation %" PRIu32
                           ": edge ids have 4 or 8 bytes, or 0: there are none",
                           o->edge_id_bytes, r);
    return check_base(o, r, err);
}

/* ---- the block ---- */

/* Set what is found through the header, each word of which is read once. */
static int open_control(ae_control *c, uint32_t num_relations, aether_error *err) {
    header *h = control_header(c);
    c->committed = &h->committed;
    c->num_relations = num_relations;
    c->fences = __atomic_load_n(&h->fences, __ATOMIC_RELAXED);
    c->token = __atomic_load_n(&h->token, __ATOMIC_RELAXED);
    c->arena_bytes = __atomic_load_n(&h->arena_bytes, __ATOMIC_RELAXED);
    c->first_commit = __atomic_load_n(&h->first_commit, __ATOMIC_RELAXED);
    c->relations = malloc(num_relations * sizeof *c->relations);
    if (!c->relations)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a live graph");
    for (uint32_t r = 0; r < num_relations; r++)
        memcpy(&c->relations[r], &block_of(c, r)->relation, sizeof *c->relations);
    return AETHER_OK;
}

int ae_control_create(const aether_live_options *options, ae_control *out, aether_error *err) {
    *out = (ae_control){0};
    int rc = ae_shared_create("aether-live-control", control_size(options->num_relations), AE_SHARED_WHOLE,
                              &out->memory, err);
    if (rc)
        return rc;
    const uint64_t first = options->first_commit ? options->first_commit : 1;
    header *h = control_header(out);
    h->magic = MAGIC;
    h->version = VERSION;
    h->num_relations = options->num_relations;
    h->fences = !ae_membarrier_works();
    h->token = ae_pins_now() ^ ae_process_self() << 20;
    h->arena_bytes = options->arena_bytes;
    h->first_commit = first;
    for (uint32_t r = 0; r < options->num_relations; r++)
        block_of(out, r)->relation = options->relations[r];
    rc = open_control(out, options->num_relations, err);
    if (rc)
        return rc; /* the caller closes it */
    for (uint32_t r = 0; r < options->num_relations; r++) {
        const aether_live_relation *relation = &options->relations[r];
        ae_control_put_counts(out, r, first,
                              &(ae_counts){.num_src = relation->num_src,
                                           .num_dst = relation->num_dst,
                                           .num_edges = relation->base_edges,
                                           .next_edge_id = relation->base_edge_ids});
    }
    ae_control_put_lsn(out, first, 0);
    ae_control_commit(out, first);
    return AETHER_OK;
}

/* Return the number of relations; 0: this is not the block of a graph. */
static uint32_t count_relations(const ae_control *c) {
    const header *h = control_header(c);
    if (c->memory.size < PAGE || h->magic != MAGIC || h->version != VERSION)
        return 0;
    const uint32_t n = __atomic_load_n(&h->num_relations, __ATOMIC_RELAXED);
    return n <= AE_CONTROL_RELATIONS && c->memory.size == control_size(n) ? n : 0;
}

int ae_control_attach(int fd, ae_control *out, aether_error *err) {
    *out = (ae_control){0};
    int rc = ae_shared_attach(fd, AE_SHARED_WHOLE, false, "control block", &out->memory, err);
    if (rc)
        return rc;
    const uint32_t n = count_relations(out);
    bool good = n > 0;
    rc = good ? open_control(out, n, err) : AETHER_OK;
    for (uint32_t r = 0; good && !rc && r < n; r++)
        good = ae_control_check(&out->relations[r], r, NULL) == AETHER_OK;
    if (!rc && !good)
        rc = ae_error_set(err, AETHER_E_INVALID,
                          "descriptor %d is not the control block of a live graph of this version", fd);
    if (rc)
        ae_control_close(out);
    return rc;
}

void ae_control_close(ae_control *c) {
    free(c->relations);
    c->relations = NULL;
    ae_shared_close(&c->memory);
}

void ae_control_retire(ae_control *c) {
    atomic_store_explicit(&control_header(c)->retired, 1, memory_order_release);
}

bool ae_control_is_retired(const ae_control *c) {
    return atomic_load_explicit(&control_header(c)->retired, memory_order_acquire);
}

/* ---- numbers ---- */

/* Release: whoever reads one of these words sees that `changes` is the number before, and so that
 * the slot of SLOTS changes ago is being replaced. Word by word, as they were changed: a wider load
 * would wait until all stores before have left the core. */
void ae_control_put_counts(ae_control *c, uint32_t r, uint64_t commit, const ae_counts *counts) {
    relation_block *b = block_of(c, r);
    const uint64_t change = atomic_load_explicit(&b->changes, memory_order_relaxed) + 1;
    const uint64_t *words = (const uint64_t *)counts;
    ae_word *slot = b->slots[change % SLOTS];
    atomic_store_explicit(&slot[0], commit, memory_order_release);
    for (uint32_t i = 0; i < COUNT_WORDS; i++)
        atomic_store_explicit(&slot[1 + i], words[i], memory_order_release);
    atomic_store_explicit(&b->changes, change, memory_order_release);
    atomic_store_explicit(recent_of(c, c->changes), c->changes << RELATION_BITS | r, memory_order_release);
    c->changes++;
}

void ae_control_commit(ae_control *c, uint64_t commit) {
    atomic_store_explicit(c->committed, commit, memory_order_release);
}

/* Return whether there is room for so many nodes: lists of more would be read behind the table. */
static bool counts_fit(const ae_control *c, uint32_t r, const ae_counts *counts) {
    const aether_live_relation *relation = ae_control_relation(c, r);
    return counts->num_src <= ae_room_of(relation->max_src) &&
           counts->num_dst <= ae_room_of(relation->max_dst);
}

/* A slot that is replaced meanwhile shows a later commit, so it is passed over; the look at `changes`
 * then tells that the one which was wanted may have been it. */
bool ae_control_counts(const ae_control *c, uint32_t r, uint64_t commit, ae_counts *out) {
    relation_block *b = block_of(c, r);
    uint64_t change = atomic_load_explicit(&b->changes, memory_order_acquire);
    for (uint32_t i = 0; i + 1 < SLOTS && change > 0; i++, change--) {
        ae_word *slot = b->slots[change % SLOTS];
        if (atomic_load_explicit(&slot[0], memory_order_acquire) > commit)
            continue;
        uint64_t *words = (uint64_t *)out;
        for (uint32_t k = 0; k < COUNT_WORDS; k++)
            words[k] = atomic_load_explicit(&slot[1 + k], memory_order_acquire);
        return atomic_load_explicit(&b->changes, memory_order_acquire) < change + SLOTS - 1 &&
               counts_fit(c, r, out);
    }
    return false;
}

uint32_t ae_control_changed(const ae_control *c, uint64_t change) {
    const uint64_t word = atomic_load_explicit(recent_of(c, change), memory_order_acquire);
    const uint32_t r = word & ((1u << RELATION_BITS) - 1);
    return word >> RELATION_BITS == change && r < c->num_relations ? r : UINT32_MAX;
}

/* A reader that sees the new numbers sees that the slot has no commit, or another one. */
void ae_control_put_lsn(ae_control *c, uint64_t commit, uint64_t lsn) {
    ae_word *slot = control_header(c)->commits[commit % SLOTS];
    /* Readers wait for the last commit's number: a writer that is killed here must not leave it away. */
    if (atomic_load_explicit(&slot[0], memory_order_relaxed) != commit)
        atomic_store_explicit(&slot[0], 0, memory_order_relaxed);
    atomic_store_explicit(&slot[1], lsn, memory_order_release);
    atomic_store_explicit(&slot[2], c->changes, memory_order_release);
    atomic_store_explicit(&slot[0], commit, memory_order_release);
}

bool ae_control_at(const ae_control *c, uint64_t commit, ae_commit *out) {
    ae_word *slot = control_header(c)->commits[commit % SLOTS];
    if (atomic_load_explicit(&slot[0], memory_order_acquire) != commit)
        return false;
    out->lsn = atomic_load_explicit(&slot[1], memory_order_acquire);
    out->changes = atomic_load_explicit(&slot[2], memory_order_acquire);
    return atomic_load_explicit(&slot[0], memory_order_relaxed) == commit;
}

void ae_control_put_usage(ae_control *c, uint32_t r, const ae_usage *usage) {
    relation_block *b = block_of(c, r);
    atomic_store_explicit(&b->touched, usage->touched, memory_order_relaxed);
    atomic_store_explicit(&b->used, usage->used, memory_order_relaxed);
    atomic_store_explicit(&b->retired, usage->retired, memory_order_relaxed);
}

ae_usage ae_control_usage(const ae_control *c, uint32_t r) {
    relation_block *b = block_of(c, r);
    return (ae_usage){.touched = atomic_load_explicit(&b->touched, memory_order_relaxed),
                      .used = atomic_load_explicit(&b->used, memory_order_relaxed),
                      .retired = atomic_load_explicit(&b->retired, memory_order_relaxed)};
}
