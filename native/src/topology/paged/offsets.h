/*
 * topology/paged/offsets.h - ascending 64-bit offsets (an indptr), compressed in RAM.
 *
 *   values   | 0  2  2  5 .. | 90 91 .. | ..      blocks of 128 consecutive values
 *              |               |
 *   index    [base, place]   [base, place]         16 bytes a block: its first value and,
 *              |               |                   in `place`, where its codes are and l
 *   codes    [low l bits of (value - base), 128 times][high parts, unary: 16 to 48 bytes]
 *
 * Elias-Fano (Elias, "Efficient storage and retrieval by content and address of
 * static files", 1974; Fano, "On the number of bits required to implement an
 * associative memory", 1971), each block by itself with an l of its own, as in
 * Ottaviano and Venturini, "Partitioned Elias-Fano indexes" (SIGIR 2014). So a
 * block of 128 values that spans s takes at most 128 (2 + log2(1 + s / 128)) bits, a
 * long list costs bits in its own block only, and the high parts of any block fit in
 * 48 bytes: every access reads one index entry and at most 48 + 16 bytes of codes.
 *
 * Caveats: append and finish are one thread's; a finished one is immutable and may be
 * shared. Pairs are not checked: i + 1 < count is the caller's to see to.
 */
#ifndef AE_TOPOLOGY_PAGED_OFFSETS_H
#define AE_TOPOLOGY_PAGED_OFFSETS_H

#include "aether/io.h"

typedef struct ae_offsets ae_offsets;

/* Begin `count` values, which will be appended in order; none is above `last`. */
int ae_offsets_create(uint64_t count, uint64_t last, ae_offsets **out, aether_error *err);

/* Append n values. AETHER_E_CORRUPT names the position of a value that descends or is above
 * `last`. AETHER_E_INVALID: more values than were announced. */
int ae_offsets_append(ae_offsets *o, const uint64_t *values, uint64_t n, aether_error *err);
int ae_offsets_finish(ae_offsets *o, aether_error *err); /* AETHER_E_INVALID: values are missing */
void ae_offsets_destroy(ae_offsets *o);                  /* NULL is fine */
uint64_t ae_offsets_memory(const ae_offsets *o);         /* bytes held */
uint64_t ae_offsets_count(const ae_offsets *o);

/* Return values i and i + 1. */
void ae_offsets_pair(const ae_offsets *o, uint64_t i, uint64_t *begin, uint64_t *end);

/* Return values i and i + 1 for n indices in any order, prefetching ahead. */
void ae_offsets_pairs(const ae_offsets *o, const uint64_t *indices, uint64_t n, uint64_t *begin,
                      uint64_t *end);

/* Decode without instructions that only some processors have; for tests. */
void ae_offsets_use_portable(ae_offsets *o);

/* Read the indptr of `count` (at least 1) values at byte `offset` of a file. AETHER_E_CORRUPT:
 * values descend, or the last is not below 2^63. The caller compares the last value with the
 * number of edges. Takes 4 MiB beside the result. `task` counts bytes. */
int ae_offsets_read(aether_io *io, uint64_t offset, uint64_t count, aether_task *task, ae_offsets **out,
                    aether_error *err);

#endif
