#include "live/graph.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "os/membarrier.h"
#include "os/process.h"

#define ARENA_STEP ((uint64_t)256 << 10)
#define CONTROL    0 /* descriptors */
#define PINS       1
#define FIRST_LIST 2

/* ---- options ---- */

static uint32_t count_layouts(const aether_live_relation *r) {
    return (uint32_t)__builtin_popcount(r->layouts);
}

static int check_arenas(const aether_live_options *o, uint64_t num_lists, aether_error *err) {
    if (o->arena_bytes < ARENA_STEP || o->arena_bytes % ARENA_STEP)
        return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)o->arena_bytes,
                           "arena_bytes = %" PRIu64 ": make it a multiple of %" PRIu64, o->arena_bytes,
                           ARENA_STEP);
    if (o->arena_bytes > num_lists * AE_ARENA_MAX_SIZE)
        return ae_error_at(err, AETHER_E_LIMIT, -1, (int64_t)o->arena_bytes,
                           "arena_bytes = %" PRIu64 ": each of %" PRIu64 " layouts can take %" PRIu64
                           " bytes",
                           o->arena_bytes, num_lists, AE_ARENA_MAX_SIZE);
    return AETHER_OK;
}

static int check_live_options(const aether_live_options *o, aether_error *err) {
    uint64_t num_lists = 0;
    if (o->num_relations == 0 || o->num_relations > AE_CONTROL_RELATIONS)
        return ae_error_at(err, o->num_relations ? AETHER_E_LIMIT : AETHER_E_INVALID, -1,
                           (int64_t)o->num_relations,
                           "num_relations = %" PRIu32 ": there can be 1 to %" PRIu32, o->num_relations,
                           AE_CONTROL_RELATIONS);
    if (o->flags & ~(uint32_t)(AETHER_LIVE_LOCKED | AETHER_LIVE_HUGE))
        return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)o->flags,
                           "flags = %" PRIu32 ": they are AETHER_LIVE_LOCKED and AETHER_LIVE_HUGE", o->flags);
    if (o->first_commit > AE_CONTROL_LAST_COMMIT)
        return ae_error_at(err, AETHER_E_LIMIT, -1, (int64_t)o->first_commit,
                           "first_commit = %" PRIu64 ": commits have 48-bit numbers", o->first_commit);
    if (o->memory && (!o->memory->reserve || !o->memory->release))
        return ae_error_set(err, AETHER_E_INVALID, "memory needs the functions reserve and release");
    for (uint32_t r = 0; r < o->num_relations; r++) {
        const int rc = ae_control_check(&o->relations[r], r, err);
        if (rc)
            return rc;
        num_lists += count_layouts(&o->relations[r]);
    }
    return check_arenas(o, num_lists, err);
}

/* ---- lists ---- */

/* Make room for what the control block says. */
static int make_lists(ae_graph *g, aether_error *err) {
    const uint32_t n = g->control.num_relations;
    for (uint32_t r = 0; r < n; r++)
        g->num_lists += count_layouts(ae_control_relation(&g->control, r));
    g->lists = calloc(g->num_lists, sizeof *g->lists);
    g->by_layout = calloc(2 * (size_t)n, sizeof(ae_lists *));
    if (!g->lists || !g->by_layout)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a live graph");
    ae_lists *next = g->lists;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t layout = AETHER_LIVE_CSC; layout <= AETHER_LIVE_CSR; layout++)
            if (ae_control_relation(&g->control, r)->layouts & layout) {
                next->relation = r;
                next->layout = layout;
                g->missing += ae_control_relation(&g->control, r)->base_edges != 0;
                g->by_layout[2 * r + (layout - 1)] = next++;
            }
    return AETHER_OK;
}

static uint64_t room_of(const ae_graph *g, const ae_lists *l) {
    const aether_live_relation *r = ae_control_relation(&g->control, l->relation);
    return ae_room_of(l->layout == AETHER_LIVE_CSC ? r->max_dst : r->max_src);
}

/* Return the number that table and arena of list i have in common. */
static uint64_t lists_token(const ae_graph *g, uint32_t i) {
    return g->control.token + i;
}

static int create_list(ae_graph *g, uint32_t i, const aether_live_options *o, aether_error *err) {
    ae_lists *l = &g->lists[i];
    const uint64_t size = o->arena_bytes < AE_ARENA_MAX_SIZE ? o->arena_bytes : AE_ARENA_MAX_SIZE;
    const bool huge = o->flags & AETHER_LIVE_HUGE;
    const aether_live_memory *given = g->given.reserve ? &g->given : NULL;
    const aether_live_relation *r = &o->relations[l->relation];
    const uint64_t nodes = l->layout == AETHER_LIVE_CSC ? r->num_dst : r->num_src;
    int rc = ae_table_create(r, room_of(g, l), nodes, lists_token(g, i), huge, &l->table, err);
    if (!rc)
        rc = ae_arena_create(size, lists_token(g, i), given, &g->budget, &l->arena, err);
    if (!rc && huge)
        ae_shared_want_huge(&l->arena.memory);
    l->arena.taken = rc ? NULL : ae_table_taken(&l->table);
    l->arena.huge = huge;
    l->arena.locked = o->flags & AETHER_LIVE_LOCKED;
    if (!rc && l->arena.locked)
        rc = ae_shared_lock(&l->table.memory, 0, l->table.memory.mapped, err);
    if (!rc)
        rc = ae_shared_seal(&l->table.memory, false, err);
    return rc ? rc : ae_shared_seal(&l->arena.memory, false, err);
}

/* ---- the graph ---- */

int ae_graph_create(const aether_live_options *options, ae_graph *g, aether_error *err) {
    *g = (ae_graph){.budget = options->arena_bytes,
                    .given = options->memory ? *options->memory : (aether_live_memory){0}};
    int rc = check_live_options(options, err);
    if (rc)
        return rc;
    ae_membarrier_register();
    rc = ae_control_create(options, &g->control, err);
    if (!rc && options->flags & AETHER_LIVE_LOCKED)
        rc = ae_shared_lock(&g->control.memory, 0, g->control.memory.size, err);
    if (!rc)
        rc = ae_pins_create(&g->pins, err);
    if (!rc)
        rc = make_lists(g, err);
    for (uint32_t i = 0; !rc && i < g->num_lists; i++)
        rc = create_list(g, i, options, err);
    if (!rc)
        rc = ae_shared_seal(&g->control.memory, false, err);
    if (rc)
        ae_graph_close(g);
    return rc;
}

static int attach_list(const int32_t *descriptors, ae_graph *g, uint32_t i, aether_error *err) {
    ae_lists *l = &g->lists[i];
    const aether_live_relation *r = ae_control_relation(&g->control, l->relation);
    int rc = ae_table_attach(descriptors[0], r, room_of(g, l), lists_token(g, i), &l->table, err);
    if (!rc)
        rc = ae_arena_attach(descriptors[1], lists_token(g, i), &l->arena, err);
    l->arena.taken = rc ? NULL : ae_table_taken(&l->table);
    return rc;
}

int ae_graph_attach(const int32_t *descriptors, uint32_t n, ae_graph *g, aether_error *err) {
    *g = (ae_graph){0};
    if (n < FIRST_LIST)
        return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)n,
                           "a live graph has more than %" PRIu32 " descriptors: pass them all", n);
    int rc = ae_control_attach(descriptors[CONTROL], &g->control, err);
    if (!rc)
        rc = ae_pins_attach(descriptors[PINS], &g->pins, err);
    if (!rc)
        rc = make_lists(g, err);
    if (!rc && n != FIRST_LIST + 2 * g->num_lists)
        rc = ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)n,
                         "this live graph has %" PRIu32 " descriptors, not %" PRIu32 ": pass them all",
                         FIRST_LIST + 2 * g->num_lists, n);
    for (uint32_t i = 0; !rc && i < g->num_lists; i++)
        rc = attach_list(descriptors + FIRST_LIST + 2 * i, g, i, err);
    if (rc)
        ae_graph_close(g);
    return rc;
}

void ae_graph_close(ae_graph *g) {
    for (uint32_t i = 0; g->lists && i < g->num_lists; i++) {
        ae_arena_close(&g->lists[i].arena);
        ae_table_close(&g->lists[i].table);
    }
    free(g->by_layout);
    free(g->lists);
    ae_shared_close(&g->pins);
    ae_control_close(&g->control);
    *g = (ae_graph){0};
}

int ae_graph_check_bases(const ae_graph *g, aether_error *err) {
    for (uint32_t i = 0; g->missing && i < g->num_lists; i++)
        if (g->lists[i].table.lines && !ae_base_is_there(&g->lists[i].base))
            return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)g->lists[i].relation,
                               "relation %" PRIu32 " is over a base: call aether_live_set_base() first",
                               g->lists[i].relation);
    return AETHER_OK;
}

int ae_graph_check_shared(const ae_graph *g, uint64_t owner, aether_error *err) {
    if (!g->given.reserve || owner == ae_process_self())
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_UNSUPPORTED, -1, (int64_t)ae_process_pid(owner),
                       "the edges of this live graph are in memory that process %" PRIu32
                       " does not share: read it there, or create it without memory of its own",
                       ae_process_pid(owner));
}

int ae_graph_check_relation(const ae_graph *g, uint32_t relation, aether_error *err) {
    if (relation < g->control.num_relations)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_RANGE, -1, (int64_t)relation,
                       "relation %" PRIu32 " is not in 0..%" PRIu32 " of this live graph", relation,
                       g->control.num_relations - 1);
}
