/*
 * fuzz_attach: a live graph and a table of live rows whose memory their creator writes to, by a stray store
 * or to do harm, while another process opens and reads them. No crash, no hang, nothing outside the memory
 * that was mapped.
 *
 *   input  | which | store | store | ...           store  | where | word: 3 | value: 8 |
 *
 *   which  bit 0   a graph whose lists lie over a base's
 *   where  bits 0-1  control block, roots, arena, table of rows; bit 2  before the reader opens it, else
 * after bit 3     xor, else the value as it is
 *
 * The creator's own handles are not used in between, and each store is undone: the next input finds what was
 * there.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <string.h>

#include "../tests/live_damage.h"
#include "must.h"
#include "slots/table.h"

enum { NODES = LIVE_DAMAGE_NODES, ROWS = 32, ITEMS = 5, STORE = 12, MOST_STORES = 16 };

static aether_live *graphs[2]; /* the second over the base */
static aether_table *rows;
static aether_live_base base;

typedef struct store {
    uint64_t *word, before, after;
    bool early;
} store;

/* ---- what there is to read ---- */

/* Make a graph with a hub, whose list is large, and short lists. */
static aether_live *make_graph(uint64_t base_edges) {
    const aether_live_relation relation = live_damage_relation(base_edges);
    const aether_live_options options = {.relations = &relation, .num_relations = 1, .arena_bytes = 2 << 20};
    aether_live *g;
    MUST(aether_live_create(&options, &g, NULL) == AETHER_OK);
    if (base_edges)
        MUST(aether_live_set_base(g, 0, AETHER_LIVE_CSC, &base, NULL) == AETHER_OK);
    for (int64_t i = 0; i < 20000; i++)
        MUST(aether_live_insert_one(g, 0, i % NODES, i % 32 ? 7 : i / 32 % NODES, 0, 0, NULL, NULL, NULL) ==
             AETHER_OK);
    return g;
}

static void start(void) {
    const aether_table_info info = {.num_rows = ROWS, .num_dims = 1, .shape = {ITEMS}, .dtype = AETHER_F32};
    MUST(aether_set_num_threads(1, NULL) == AETHER_OK);
    base = live_damage_base();
    MUST(base.lists);
    graphs[0] = make_graph(0);
    graphs[1] = make_graph(NODES * LIVE_DAMAGE_DEGREE);
    MUST(aether_table_create(NULL, &info, &rows, NULL) == AETHER_OK);
    for (int64_t row = 0; row < ROWS; row += 2) {
        const float values[ITEMS] = {(float)row};
        uint64_t written;
        MUST(aether_table_put(rows, &row, 1, values, sizeof values, NULL, &written, NULL, NULL) == AETHER_OK);
    }
}

/* ---- stores ---- */

static uint32_t read_stores(aether_live *g, const uint8_t *input, size_t size, store *out) {
    live_stretch all[LIVE_DAMAGE_STRETCHES + 1];
    uint32_t n = 0;
    live_stretches(g, all);
    all[LIVE_DAMAGE_STRETCHES] = (live_stretch){rows->memory.data, rows->memory.size};
    for (; size >= STORE && n < MOST_STORES; input += STORE, size -= STORE, n++) {
        const live_stretch *part = &all[input[0] & 3];
        const uint64_t place = input[1] | (uint64_t)input[2] << 8 | (uint64_t)input[3] << 16;
        uint64_t value;
        memcpy(&value, input + 4, sizeof value);
        out[n].word = (uint64_t *)(void *)part->at + place % (part->size / sizeof value);
        out[n].early = input[0] & 4;
        out[n].after = value;
        if (input[0] & 8)
            out[n].after ^= *out[n].word;
    }
    return n;
}

static void apply(store *stores, uint32_t n, bool early) {
    for (uint32_t i = 0; i < n; i++)
        if (stores[i].early == early) {
            stores[i].before = *stores[i].word;
            __atomic_store_n(stores[i].word, stores[i].after, __ATOMIC_RELAXED);
        }
}

/* Undo stores, the last first. */
static void undo(const store *stores, uint32_t n, bool early) {
    while (n-- > 0)
        if (stores[n].early == early)
            __atomic_store_n(stores[n].word, stores[n].before, __ATOMIC_RELAXED);
}

static void read_rows(aether_table *t) {
    for (int64_t row = 0; row < ROWS; row++)
        for (uint32_t check = 0; check < 2; check++) {
            float out[ITEMS];
            const aether_table_gather_options options = {.missing = AETHER_MISSING_ZERO, .flags = check};
            aether_table_gather(t, &row, 1, out, sizeof out, &options, NULL, NULL);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static bool started;
    if (!started)
        start();
    started = true;
    if (!size)
        return 0;
    const bool over_base = input[0] & 1;
    aether_live *g = graphs[over_base], *reader = NULL;
    aether_table *reader_of_rows = NULL;
    store stores[MOST_STORES];
    const uint32_t n = read_stores(g, input + 1, size - 1, stores);
    apply(stores, n, true);
    const bool has_graph = live_attach_again(g, &reader, NULL) == AETHER_OK;
    const bool has_rows =
        aether_table_attach(aether_table_descriptor(rows), 0, &reader_of_rows, NULL) == AETHER_OK;
    if (has_graph && over_base)
        aether_live_set_base(reader, 0, AETHER_LIVE_CSC, &base, NULL);
    apply(stores, n, false);
    if (has_graph)
        live_read(reader);
    if (has_rows)
        read_rows(reader_of_rows);
    undo(stores, n, false);
    undo(stores, n, true);
    aether_table_close(reader_of_rows);
    aether_live_close(reader);
    return 0;
}
