/*
 * os/scratch.h - arrays that grow and are reused from call to call.
 *
 *   data [ used ........ | room ]   bytes = size of the mapping
 *
 * Backed by aether_buffer_alloc (huge pages: such arrays are walked at random).
 * Growth doubles, so a caller that repeats itself soon stops allocating.
 *
 * Caveats: growing may move the data; take pointers after the last reserve.
 * Nothing shrinks before ae_scratch_free.
 */
#ifndef AE_OS_SCRATCH_H
#define AE_OS_SCRATCH_H

#include "aether.h"

typedef struct ae_scratch {
    void *data;
    uint64_t bytes;
} ae_scratch;

/* Grow to at least `bytes`; the first `keep` bytes survive. New memory is zero only
 * if the mapping is new and keep is 0. */
int ae_scratch_reserve(ae_scratch *s, uint64_t bytes, uint64_t keep, aether_error *err);
void ae_scratch_free(ae_scratch *s);

#endif
