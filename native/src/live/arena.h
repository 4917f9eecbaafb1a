/*
 * live/arena.h - blocks of shared memory, named by 31 bits.
 *
 *   data   | header, 4 KiB | block | slab of one class | block ... | not carved yet       |
 *   ref    0               256                                         up to 2^31 - 1 units
 *                                                           ^ next                 size ^
 *   free[class] -> block -> block -> ...   the first 16 bytes of a free block name the next four
 *
 * Blocks are measured in units of 16 bytes. Sizes are rounded up to classes: every unit up to 8,
 * then 8 classes per doubling. Blocks of a class up to 1 KiB are carved from slabs of 4 KiB, so
 * that those of a power of two never straddle more cache lines than they must. No pointer lies in
 * the arena: every process maps it where it likes.
 *
 * Memory is taken from the system piece by piece, from the start on, and counts against a budget that the
 * arenas of a graph share. What an arena has taken stays with it. How far that is stands where readers see
 * it: behind it is nothing to read, and in memory of a user's perhaps no memory. With `huge`, an arena of
 * some size takes huge pages: an edge is put, or read, where nothing was for long, and the way to its page is
 * then half of the cost.
 *
 * Caveats: one thread of one process allocates and frees; all others only read. A block that is
 * freed may be handed out again at once: who may still read it is live/writer.h's business. Free
 * blocks are cut and joined only when nothing else is left: a full arena sorts its free blocks,
 * which takes some 100 ns for each.
 */
#ifndef AE_LIVE_ARENA_H
#define AE_LIVE_ARENA_H

#include "live/pins.h"
#include "os/shared.h"

#define AE_UNIT           16u
#define AE_ARENA_CLASSES  232 /* up to 2^31 units */
#define AE_ARENA_MAX_SIZE (((uint64_t)1 << 31) * AE_UNIT)

typedef uint32_t ae_ref; /* units from the start of the arena; 0: none */

typedef struct ae_slab {
    ae_ref next, end; /* carve from next up to end */
} ae_slab;

typedef struct ae_arena {
    ae_shared memory;
    uint64_t next;      /* units that were carved */
    uint64_t committed; /* bytes that the system has given */
    ae_word *taken;     /* the same for readers, in the table of the lists; NULL: nobody asks */
    uint64_t *budget;   /* bytes that it and others may still take */
    bool locked;        /* what is taken stays in RAM */
    bool huge;          /* take huge pages, as long as there are some */
    uint64_t used;      /* units in blocks that are handed out */
    bool worn;          /* blocks were freed since free neighbours were joined */
    ae_ref free[AE_ARENA_CLASSES];
    ae_slab slabs[AE_ARENA_CLASSES];
} ae_arena;

/* Create an arena of `size` bytes, a multiple of 4096, of which as many are used as the budget allows.
 * `name` is a number that the table of the lists has, too. `given`: memory for it; NULL: shared memory. */
int ae_arena_create(uint64_t size, uint64_t name, const aether_live_memory *given, uint64_t *budget,
                    ae_arena *out, aether_error *err);
/* Map the arena of another process for reading; it must have the name. */
int ae_arena_attach(int fd, uint64_t name, ae_arena *out, aether_error *err);
void ae_arena_close(ae_arena *a);

static inline void *ae_arena_at(const ae_arena *a, ae_ref ref) {
    return a->memory.data + (uint64_t)ref * AE_UNIT;
}

/* Return the bytes from its start that it has taken: every block that a commit has lies there from before it
 * was published. Never more than are mapped, whatever the word says. */
static inline uint64_t ae_arena_taken(const ae_arena *a) {
    const uint64_t taken = atomic_load_explicit(a->taken, memory_order_acquire);
    return taken < a->memory.size ? taken : a->memory.size;
}

/* Return the units of a block that holds `bytes`. */
static inline uint32_t ae_arena_units(uint64_t bytes) {
    return (uint32_t)((bytes + AE_UNIT - 1) / AE_UNIT);
}

/* Allocate a block of `units` (at least 1). Its content is anything. Returns 0 if the arena is
 * full, the budget used up, or the system has no more memory. */
ae_ref ae_arena_alloc(ae_arena *a, uint32_t units);
/* Free a block of ae_arena_alloc() of as many units. */
void ae_arena_free(ae_arena *a, ae_ref ref, uint32_t units);

/* What a free block has: the block that was freed before it, the one before that, ... */
typedef struct ae_freed {
    ae_ref before[4];
} ae_freed;

_Static_assert(sizeof(ae_freed) == AE_UNIT, "any block can be free");

/* Take a free block of a class; 0: there is none. */
static inline ae_ref ae_arena_pop(ae_arena *a, uint32_t class) {
    const ae_ref ref = a->free[class];
    if (ref) {
        const ae_freed *freed = ae_arena_at(a, ref);
        a->free[class] = freed->before[0];
        const uint8_t *coming = ae_arena_at(a, freed->before[3]); /* it was not used for long */
        __builtin_prefetch(coming, 1);
        __builtin_prefetch(coming + 64, 1);
    }
    return ref;
}

static inline void ae_arena_push(ae_arena *a, uint32_t class, ae_ref ref) {
    const ae_ref last = a->free[class];
    const ae_freed none = {{0}}, *freed = last ? ae_arena_at(a, last) : &none;
    *(ae_freed *)ae_arena_at(a, ref) =
        (ae_freed){{last, freed->before[0], freed->before[1], freed->before[2]}};
    a->free[class] = ref;
}

#endif
