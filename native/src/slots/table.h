/*
 * slots/table.h - a table of live rows, mapped.
 *
 *              file                                memory that processes share
 *   read       mapped read-only, guarded           one mapping,
 *   write      a second mapping, writable          writable or not
 *
 * A file can be cut by anybody, so reads go through a mapping that survives it (os/sigbus.h) and are checked
 * afterwards; a sealed memfd cannot.
 *
 * The system rarely has huge pages for shared memory by itself. Asked for, they are taken one by one, before
 * the first row in each is written.
 *
 * Caveats: a write to a file that is cut at that very moment ends the process.
 */
#ifndef AE_SLOTS_TABLE_H
#define AE_SLOTS_TABLE_H

#include <stdbool.h>

#include "os/mapping.h"
#include "os/shared.h"
#include "slots/layout.h"

struct aether_table {
    aether_table_info info;
    ae_table_header *header; /* as it is read; NULL: nothing is mapped */
    uint8_t *writable;       /* the first byte as it is written, or NULL */
    ae_mapping file;         /* fd -1: shared memory */
    ae_shared memory;
    atomic_bool *is_huge; /* by huge page of shared memory: asked for; NULL: none is wanted */
    uint64_t num_huge;
    char *name; /* for messages */
};

/* Put what a row is in into a huge page, if that is wanted and has not been tried. */
void ae_table_take_huge(aether_table *t, uint64_t row);

/* Fill `err` with the first of n ids that is no row. */
int ae_table_refuse_ids(const aether_table *t, const int64_t *ids, uint64_t n, aether_error *err);

#if defined(__x86_64__)
#define AE_SLOT_PREFETCHW(at) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(at)))
#else
#define AE_SLOT_PREFETCHW(at) __builtin_prefetch(at, 1, 3)
#endif

static inline const ae_slot *ae_table_slot(const aether_table *t, uint64_t row) {
    return (const ae_slot *)(const void *)((const uint8_t *)t->header + AE_TABLE_HEADER +
                                           row * t->info.stride);
}

static inline ae_slot *ae_table_slot_writable(const aether_table *t, uint64_t row) {
    return (ae_slot *)(void *)(t->writable + AE_TABLE_HEADER + row * t->info.stride);
}

/* Ask for the cache lines of a slot, to read it or to write it. Inline, since the compiler drops calls of
 * functions that do nothing but this. */
static inline __attribute__((always_inline)) void ae_slot_prefetch(const ae_slot *slot, uint64_t bytes,
                                                                   bool writing) {
    const char *at = (const char *)slot;
    const uint64_t end = bytes < 2048 ? bytes : 2048; /* beyond, the hardware follows by itself */
    for (uint64_t i = 0; i < end; i += 64)
        if (writing)
            AE_SLOT_PREFETCHW(at + i);
        else
            __builtin_prefetch(at + i, 0, 2);
}

#endif
