#include "live/writer.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"

#define RECLAIM_UNITS (((uint64_t)64 << 10) / AE_UNIT)
#define FIRST_ROOM    1024u

int ae_writers_init(ae_writers *all, ae_graph *graph, uint64_t max_age, aether_error *err) {
    *all = (ae_writers){.graph = graph,
                        .max_age = max_age,
                        .reclaim_at = RECLAIM_UNITS,
                        .lists = calloc(graph->num_lists, sizeof *all->lists)};
    if (!all->lists)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a live graph");
    for (uint32_t i = 0; i < graph->num_lists; i++) {
        ae_lists *l = &graph->lists[i];
        all->lists[i] = (ae_writer){
            .table = &l->table, .arena = &l->arena, .base = l->table.lines ? &l->base : NULL, .all = all};
    }
    return AETHER_OK;
}

void ae_writers_free(ae_writers *all) {
    for (uint32_t i = 0; all->lists && i < all->graph->num_lists; i++) {
        free(all->lists[i].touched_in);
        free(all->lists[i].touched);
        free(all->lists[i].noted);
        free(all->lists[i].retired);
        ae_histories_free(&all->lists[i].histories);
    }
    free(all->lists);
    all->lists = NULL;
}

void ae_writer_begin(ae_writer *w, uint64_t commit) {
    w->commit = commit;
    w->stamp = ae_stamp_of(commit);
    w->num_touched = 0;
    w->num_noted = 0;
    w->num_unsummed = 0;
    w->mark = w->end_retired;
}

void ae_writer_set_apart(ae_writer *w, ae_apart *apart) {
    w->all->apart = true;
    *apart = (ae_apart){
        .own = *w->all, .all = w->all, .own_budget = *w->arena->budget / 2, .budget = w->arena->budget};
    apart->own.retired_units = 0;
    *apart->budget -= apart->own_budget;
    w->all = &apart->own;
    w->arena->budget = &apart->own_budget;
}

void ae_writer_rejoin(ae_writer *w, ae_apart *apart) {
    w->all = apart->all;
    w->arena->budget = apart->budget;
    *apart->budget += apart->own_budget;
    w->all->retired_units += apart->own.retired_units;
    w->all->apart = false;
}

/* ---- memory of the writer alone ---- */

static int no_memory(aether_error *err) {
    return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for the changes of a transaction");
}

static int reserve_touched(ae_writer *w, aether_error *err) {
    if (w->num_touched < w->room_touched)
        return AETHER_OK;
    const uint64_t room = w->room_touched ? 2 * w->room_touched : FIRST_ROOM;
    uint32_t *grown = realloc(w->touched, room * sizeof *grown);
    if (!grown)
        return no_memory(err);
    w->touched = grown;
    w->room_touched = room;
    return AETHER_OK;
}

static int reserve_retired(ae_writer *w, uint64_t more, aether_error *err) {
    if (w->room_retired - w->end_retired >= more)
        return AETHER_OK;
    const uint64_t waiting = w->end_retired - w->first_retired;
    if (w->first_retired >= more && w->first_retired > w->room_retired / 2) {
        memmove(w->retired, w->retired + w->first_retired, waiting * sizeof *w->retired);
        w->mark -= w->first_retired;
        w->first_retired = 0;
        w->end_retired = waiting;
        return AETHER_OK;
    }
    const uint64_t room = 2 * w->room_retired + more + FIRST_ROOM;
    ae_retired *grown = realloc(w->retired, room * sizeof *grown);
    if (!grown)
        return no_memory(err);
    w->retired = grown;
    w->room_retired = room;
    return AETHER_OK;
}

/* ---- huge pages of the table ---- */

/* Return the counters up to that of a huge page, or NULL. */
static uint32_t *counters_to(ae_writer *w, uint64_t page) {
    if (page < w->num_touched_in)
        return w->touched_in;
    const uint64_t n = 2 * w->num_touched_in + page + 1;
    uint32_t *grown = realloc(w->touched_in, n * sizeof *grown);
    if (!grown)
        return NULL;
    memset(grown + w->num_touched_in, 0, (n - w->num_touched_in) * sizeof *grown);
    w->touched_in = grown;
    w->num_touched_in = n;
    return grown;
}

/* Not before a quarter of its nodes have lists: nodes that are touched here and there should take a small
 * page each. */
void ae_writer_count_node(ae_writer *w, const ae_root *root) {
    const ae_shared memory = ae_table_mapping(w->table);
    const uint64_t page = (uint64_t)((const uint8_t *)root - memory.data) / AE_SHARED_HUGE;
    const uint32_t enough = AE_SHARED_HUGE / sizeof(ae_root) / 4;
    w->touched_nodes++;
    if (!w->arena->huge || (page + 1) * AE_SHARED_HUGE > memory.mapped)
        return;
    uint32_t *touched = counters_to(w, page);
    if (touched && ++touched[page] == enough)
        w->arena->huge = ae_shared_collapse(&memory, page * AE_SHARED_HUGE);
}

/* ---- blocks ---- */

void ae_writer_drop(ae_writer *w, ae_ref ref, uint64_t bytes, bool own) {
    if (own)
        ae_arena_free(w->arena, ref, ae_arena_units(bytes));
    else
        ae_writer_retire(w, ref, ae_arena_units(bytes));
}

void ae_writer_unretire(ae_writer *w) {
    while (w->end_retired > w->mark) {
        const uint32_t units = w->retired[--w->end_retired].units;
        w->retired_units -= units;
        w->all->retired_units -= units;
    }
}

#define AHEAD 16 /* blocks to prefetch: freeing one writes into it */

static void reclaim_lists(ae_writer *w, uint64_t oldest) {
    while (w->first_retired < w->end_retired && w->retired[w->first_retired].commit <= oldest) {
        const ae_retired r = w->retired[w->first_retired++];
        if (w->first_retired + AHEAD < w->end_retired)
            __builtin_prefetch(ae_arena_at(w->arena, w->retired[w->first_retired + AHEAD].ref), 1);
        ae_arena_free(w->arena, r.ref, r.units);
        w->retired_units -= r.units;
        w->all->retired_units -= r.units;
    }
    const uint64_t before = w->histories.units;
    ae_histories_reclaim(&w->histories, w->arena, oldest);
    w->retired_units -= before - w->histories.units;
    w->all->retired_units -= before - w->histories.units;
    w->mark = w->mark < w->first_retired ? w->first_retired : w->mark;
}

void ae_writers_reclaim(ae_writers *all, bool hard) {
    const ae_graph *g = all->graph;
    const uint64_t last = atomic_load_explicit(g->control.committed, memory_order_relaxed);
    if (hard)
        ae_pins_reap(&g->pins, last > AE_STAMP_REACH ? last - AE_STAMP_REACH : 0, last, all->max_age);
    ae_pins_publish(g->control.committed, g->control.fences);
    const uint64_t oldest = ae_pins_look(&g->pins, g->control.committed).oldest;
    for (uint32_t i = 0; i < g->num_lists; i++)
        reclaim_lists(&all->lists[i], oldest);
}

void ae_writers_reclaim_some(ae_writers *all) {
    if (all->retired_units < all->reclaim_at)
        return;
    ae_writers_reclaim(all, all->reclaim_at > RECLAIM_UNITS);
    all->reclaim_at = 2 * all->retired_units > RECLAIM_UNITS ? 2 * all->retired_units : RECLAIM_UNITS;
}

static int full(const ae_writer *w, uint64_t bytes, aether_error *err) {
    const ae_graph *g = w->all->graph;
    const ae_pins_seen seen = ae_pins_look(&g->pins, g->control.committed);
    const uint64_t arena_bytes = g->control.arena_bytes;
    if (seen.pid && w->all->retired_units)
        return ae_error_at(err, AETHER_E_NO_MEMORY, -1, (int64_t)bytes,
                           "arenas of %" PRIu64 " bytes have no room for a block of %" PRIu64 ": %" PRIu64
                           " bytes wait for readers, the oldest of which is process %" PRIu32
                           " at commit %" PRIu64 "; release snapshots sooner, or raise arena_bytes",
                           arena_bytes, bytes, w->all->retired_units * AE_UNIT, seen.pid, seen.oldest);
    if (*w->arena->budget >= bytes && w->arena->next * AE_UNIT + bytes > w->arena->memory.size)
        return ae_error_at(err, AETHER_E_NO_MEMORY, -1, (int64_t)bytes,
                           "the lists of a relation are full: they have %" PRIu64 " bytes, which is all %s",
                           w->arena->memory.size,
                           w->arena->memory.size == AE_ARENA_MAX_SIZE ? "that there can be"
                                                                      : "of arena_bytes: raise it");
    return ae_error_at(err, AETHER_E_NO_MEMORY, -1, (int64_t)bytes,
                       "arenas of %" PRIu64 " bytes have no room for a block of %" PRIu64
                       ": raise arena_bytes",
                       arena_bytes, bytes);
}

ae_ref ae_writer_alloc(ae_writer *w, uint64_t bytes, aether_error *err) {
    const uint32_t units = ae_arena_units(bytes);
    ae_ref ref = ae_arena_alloc(w->arena, units);
    if (!ref && !w->all->apart) {
        ae_writers_reclaim(w->all, true);
        ref = ae_arena_alloc(w->arena, units);
    }
    if (!ref)
        full(w, bytes, err);
    return ref;
}

/* ---- versions ---- */

static bool take_histories(ae_writer *w) {
    const uint64_t before = w->histories.units;
    const bool taken = ae_histories_reserve(&w->histories, w->arena);
    w->retired_units += w->histories.units - before;
    w->all->retired_units += w->histories.units - before;
    return taken;
}

static ae_ref new_history(ae_writer *w, aether_error *err) {
    ae_ref ref = ae_histories_new(&w->histories, w->commit);
    if (ref)
        return ref;
    if (!take_histories(w) && !w->all->apart) {
        ae_writers_reclaim(w->all, true);
        take_histories(w);
    }
    ref = ae_histories_new(&w->histories, w->commit);
    if (!ref)
        full(w, sizeof(ae_history), err);
    return ref;
}

int ae_writer_touch(ae_writer *w, uint32_t node, uint32_t drops, aether_error *err) {
    ae_root *root = ae_table_make_root(w->table, node);
    const uint64_t past = atomic_load_explicit(&root->past, memory_order_relaxed);
    int rc = reserve_retired(w, drops, err);
    if (!rc)
        rc = reserve_touched(w, err);
    if (rc || ae_past_stamp(past) == w->stamp)
        return rc;
    ae_ref ref = 0; /* no history: the list was empty before, or the base's */
    if (past) {
        ref = new_history(w, err);
        if (!ref)
            return AETHER_E_NO_MEMORY;
    } else {
        ae_writer_count_node(w, root);
        if (w->base) { /* before `past`, which says that there is a head */
            atomic_store_explicit(&root->head, AE_HEAD_BASE, memory_order_relaxed);
            ae_table_mark(w->table, node);
        }
    }
    ae_writer_keep(w, w->arena->memory.data, node, root,
                   atomic_load_explicit(&root->head, memory_order_relaxed), past, ref);
    return AETHER_OK;
}

static const ae_history *history_of(const ae_writer *w, const ae_root *root) {
    const ae_ref ref = ae_past_history(atomic_load_explicit(&root->past, memory_order_relaxed));
    return ref ? ae_arena_at(w->arena, ref) : NULL;
}

uint64_t ae_writer_saved(const ae_writer *w, const ae_root *root) {
    const ae_history *h = history_of(w, root);
    return h ? h->head : w->base ? AE_HEAD_BASE : 0;
}
