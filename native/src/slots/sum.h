/*
 * slots/sum.h - the checksums of slots, several at a time.
 *
 *   crc32c of    row (u64)   data   |   version (u64)   seq (u32)
 *                begun before the lock is taken   ended under it
 *
 * The processor's instruction has a result after three cycles and takes 8 bytes in each: four rows side by
 * side take little longer than one.
 */
#ifndef AE_SLOTS_SUM_H
#define AE_SLOTS_SUM_H

#include <stdint.h>

#define AE_SLOT_SUMS 4u /* rows side by side */

/* Set sums[i] to the checksum of rows[i] and the row_bytes at data[i], for n of at most AE_SLOT_SUMS rows. */
void ae_slot_sums_begin(const uint64_t *rows, const uint8_t *const *data, uint32_t n, uint64_t row_bytes,
                        uint32_t *sums);

/* Return a checksum that was begun, with version and seq. */
uint32_t ae_slot_sum_end(uint32_t sum, uint64_t version, uint32_t seq);

#endif
