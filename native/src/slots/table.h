/*
 * slots/table.h - a table of live rows, mapped.
 *
 *              file                                memory that processes share
 *   read       mapped read-only, guarded           one mapping,
 *   write      a second mapping, guarded, too      writable or not
 *
 * A file can be cut by anybody, and a disk can be full where the file has a hole: both mappings survive that
 * (os/sigbus.h), and are checked afterwards. A sealed memfd cannot be cut.
 *
 * The system rarely has huge pages for shared memory by itself. Asked for, they are taken one by one, before
 * the first row in each is written.
 *
 * Caveats: what was stored into a page that is gone is lost. The put that did so, and all later ones through
 * this handle, fail.
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
    ae_sigbus_slot *guard;   /* of `writable`, if it is a mapping of a file */
    ae_mapping file;         /* fd -1: shared memory */
    ae_shared memory;
    atomic_bool *is_huge; /* by huge page of shared memory: asked for; NULL: none is wanted */
    uint64_t num_huge;
    char *name; /* for messages */
};

/* Put what a row is in into a huge page, if that is wanted and has not been tried. */
void ae_table_take_huge(aether_table *t, uint64_t row);

/* Return whether what was stored may have gone nowhere. The fence is for pages that another thread lost: this
 * one stores into their zeros without a fault. */
static inline bool ae_table_lost_stores(const aether_table *t) {
    if (!t->guard)
        return false;
    AE_SLOT_FENCE(memory_order_seq_cst);
    return ae_sigbus_damage(t->guard) >= 0;
}

/* Return AETHER_E_FILE_CHANGED or _DISK_FULL if the file was cut, or stores may have gone nowhere. `err`
 * names ids[i], from which on a put may have written nothing. */
int ae_table_check_stores(const aether_table *t, const int64_t *ids, uint64_t i, aether_error *err);

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
