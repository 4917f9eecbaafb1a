#include "live/arena.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/minmax.h"

#define MAGIC        UINT64_C(0x414E455241454741) /* "AGEARENA" */
#define PER_DOUBLING 8
#define SLAB_UNITS   256                   /* 4 KiB */
#define SMALL_UNITS  64                    /* blocks up to this are carved from slabs */
#define FIRST_BYTES  ((uint64_t)16 << 10)  /* taken from the system first; then as much again, */
#define MOST_BYTES   ((uint64_t)256 << 10) /* up to this, which takes some 30 us */
#define HUGE_PARTS   8 /* of the budget that is left: a huge page is one of them at most */

/* ---- classes ---- */

/* Return the smallest class whose blocks have `units` or more. */
static uint32_t class_above(uint32_t units) {
    if (units <= PER_DOUBLING)
        return units ? units - 1 : 0;
    const uint32_t shift =
        28 - (uint32_t)__builtin_clz(units - 1); /* 2^(shift + 3) < units <= 2^(shift + 4) */
    const uint32_t step = ((units - 1) >> shift) - PER_DOUBLING + 1;
    return PER_DOUBLING * (shift + 1) + step - 1;
}

static uint32_t class_units(uint32_t class) {
    const uint32_t doublings = class / PER_DOUBLING;
    if (doublings == 0)
        return class + 1;
    return (PER_DOUBLING + class % PER_DOUBLING + 1) << (doublings - 1);
}

/* Return the largest class whose blocks have `units` or fewer. */
static uint32_t class_below(uint32_t units) {
    const uint32_t class = class_above(units);
    return class_units(class) == units ? class : class - 1;
}

/* ---- free blocks ---- */

/* Hand a stretch of units over to the free lists, in blocks as large as they come. */
static void push_rest(ae_arena *a, ae_ref ref, uint32_t units) {
    while (units) {
        const uint32_t class = class_below(units);
        ae_arena_push(a, class, ref);
        ref += class_units(class);
        units -= class_units(class);
    }
}

/* Cut a larger free block. */
static ae_ref cut_block(ae_arena *a, uint32_t class) {
    for (uint32_t larger = class + 1; larger < AE_ARENA_CLASSES; larger++) {
        const ae_ref ref = ae_arena_pop(a, larger);
        if (ref) {
            push_rest(a, ref + class_units(class), class_units(larger) - class_units(class));
            return ref;
        }
    }
    return 0;
}

/* ---- joining ---- */

typedef struct stretch {
    ae_ref ref;
    uint32_t units;
} stretch;

static int by_ref(const void *a, const void *b) {
    const stretch *x = a, *y = b;
    return x->ref < y->ref ? -1 : x->ref > y->ref;
}

static uint64_t count_free(const ae_arena *a) {
    uint64_t n = 0;
    for (uint32_t class = 0; class < AE_ARENA_CLASSES; class ++)
        for (ae_ref ref = a->free[class]; ref; ref = ((const ae_freed *)ae_arena_at(a, ref))->before[0])
            n++;
    return n;
}

/* Make one block of free neighbours, everywhere; what is left of slabs is free, too. */
static void join_free_blocks(ae_arena *a) {
    for (uint32_t class = 0; class < AE_ARENA_CLASSES; class ++) {
        push_rest(a, a->slabs[class].next, a->slabs[class].end - a->slabs[class].next);
        a->slabs[class] = (ae_slab){0};
    }
    const uint64_t n = count_free(a);
    stretch *all = malloc((n + 1) * sizeof *all);
    uint64_t end = 0;
    a->worn = false;
    if (!all)
        return;
    for (uint32_t class = 0; class < AE_ARENA_CLASSES; class ++)
        for (ae_ref ref; (ref = ae_arena_pop(a, class));)
            all[end++] = (stretch){ref, class_units(class)};
    qsort(all, n, sizeof *all, by_ref);
    for (uint64_t i = 0, next; i < n; i = next) {
        uint32_t units = all[i].units;
        for (next = i + 1; next < n && all[next].ref == all[i].ref + units; next++)
            units += all[next].units;
        push_rest(a, all[i].ref, units);
    }
    free(all);
}

/* ---- memory that was never used ---- */

/* Take the next huge page, if that is no great part of what is left for all. */
static bool commit_huge(ae_arena *a) {
    if (!a->huge || !a->committed || a->committed % AE_SHARED_HUGE ||
        *a->budget < HUGE_PARTS * AE_SHARED_HUGE || a->memory.size - a->committed < AE_SHARED_HUGE)
        return false;
    /* Its first 2 MiB were taken in small pieces. */
    if (a->committed == AE_SHARED_HUGE)
        ae_shared_collapse(&a->memory, 0);
    /* Do not make the system search again if it has no huge page. */
    a->huge = ae_shared_collapse(&a->memory, a->committed);
    return a->huge;
}

/* Take memory up to the end of a unit. Small graphs take little: many relations share a budget. */
static bool commit_units(ae_arena *a, uint64_t units) {
    const uint64_t end = units * AE_UNIT;
    if (end > a->committed && end - a->committed > *a->budget)
        return false;
    while (end > a->committed) {
        uint64_t part = a->committed < FIRST_BYTES ? FIRST_BYTES : ae_min_u64(a->committed, MOST_BYTES);
        part = ae_min_u64(ae_min_u64(part, *a->budget), a->memory.size - a->committed);
        const bool taken = commit_huge(a);
        if (taken)
            part = AE_SHARED_HUGE;
        if ((!taken && ae_shared_commit(&a->memory, a->committed, part, NULL)) ||
            (a->locked && ae_shared_lock(&a->memory, a->committed, part, NULL)))
            return false;
        a->committed += part;
        if (a->taken)
            atomic_store_explicit(a->taken, a->committed, memory_order_release);
        *a->budget -= part;
    }
    return true;
}

static ae_ref carve(ae_arena *a, uint64_t units) {
    const uint64_t ref = a->next;
    if (units > a->memory.size / AE_UNIT - ref || !commit_units(a, ref + units))
        return 0;
    a->next = ref + units;
    return (ae_ref)ref;
}

static ae_ref carve_from_slab(ae_arena *a, uint32_t class) {
    ae_slab *slab = &a->slabs[class];
    const uint32_t units = class_units(class);
    if (slab->end - slab->next < units) {
        const ae_ref fresh = carve(a, SLAB_UNITS);
        if (!fresh)
            return 0;
        push_rest(a, slab->next, slab->end - slab->next);
        *slab = (ae_slab){fresh, fresh + SLAB_UNITS};
    }
    const ae_ref ref = slab->next;
    slab->next += units;
    return ref;
}

/* ---- */

typedef struct header {
    uint64_t magic, name;
} header;

int ae_arena_create(uint64_t size, uint64_t name, const aether_live_memory *given, uint64_t *budget,
                    ae_arena *out, aether_error *err) {
    /* The header's slab is never handed out: ref 0 means none. */
    *out = (ae_arena){.next = SLAB_UNITS, .budget = budget};
    if (given) /* nobody attaches, so nobody looks for a header */
        return ae_shared_reserve(given, size, &out->memory, err);
    const int rc = ae_shared_create("aether-live-arena", size, AE_SHARED_WHOLE, &out->memory, err);
    if (rc)
        return rc;
    *(header *)(void *)out->memory.data = (header){MAGIC, name};
    return AETHER_OK;
}

int ae_arena_attach(int fd, uint64_t name, ae_arena *out, aether_error *err) {
    *out = (ae_arena){0};
    const int rc = ae_shared_attach(fd, AE_SHARED_WHOLE, false, "arena", &out->memory, err);
    if (rc)
        return rc;
    const header *h = (const header *)(const void *)out->memory.data;
    if (h->magic == MAGIC && h->name == name)
        return AETHER_OK;
    ae_arena_close(out);
    return ae_error_set(err, AETHER_E_INVALID, "descriptor %d is not the arena of this live graph", fd);
}

void ae_arena_close(ae_arena *a) {
    ae_shared_close(&a->memory);
}

ae_ref ae_arena_alloc(ae_arena *a, uint32_t units) {
    const uint32_t class = class_above(units);
    ae_ref ref = ae_arena_pop(a, class);
    if (!ref)
        ref = units <= SMALL_UNITS ? carve_from_slab(a, class) : carve(a, class_units(class));
    if (!ref)
        ref = cut_block(a, class);
    if (!ref && a->worn) {
        join_free_blocks(a);
        ref = ae_arena_pop(a, class);
        ref = ref ? ref : cut_block(a, class);
    }
    if (ref)
        a->used += class_units(class);
    return ref;
}

void ae_arena_free(ae_arena *a, ae_ref ref, uint32_t units) {
    const uint32_t class = class_above(units);
    a->used -= class_units(class);
    a->worn = true;
    ae_arena_push(a, class, ref);
}
