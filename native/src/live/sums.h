/*
 * live/sums.h - running sums of the weights of long lists, kept while lists change.
 *
 *   small    | groups of the block       | s0 | s1 |       16 B behind each 64 entries, from 128 on
 *   large    directory: ref, blocks -->  | s0 | s1 | s2 | ... | room |
 *
 *   s1 = what entries 0 .. 127 add up to as doubles, one after the other: bit for bit what
 *        sample/draw/weight_sums.h makes of the same list in arrays
 *
 *   an entry behind the last           s_n is written when 64 are full                no copy
 *   one among the last, unsummed ones  the same
 *   one before, or one removed         sums behind it are left out: `blocks` says how many are good
 *   commit                             live/mend.h makes those anew, in a copy
 *
 * Versions of a list share sums as far as they are equal: what `blocks` or the length of some version lets
 * its readers see is never written again.
 *
 * Caveats: for those who write. Sums never make a change fail: without memory a list has none. Where the base
 * is read from a disk, lists with extents of it have sums up to the first extent.
 */
#ifndef AE_LIVE_SUMS_H
#define AE_LIVE_SUMS_H

#include "live/blocks.h"

/* Write the sums of a small list of n entries, of which those before `from` are there. */
void ae_sums_of_small(const ae_layout *l, uint8_t *groups, uint32_t room, uint32_t from, uint32_t n);
/* ... where those before `from` are in another block, for `old_room` entries. */
void ae_sums_copy_small(const ae_layout *l, uint8_t *groups, uint32_t room, const uint8_t *old,
                        uint32_t old_room, uint32_t from, uint32_t n);

/* Begin the sums of a list that becomes large; `groups` are those of its small block. The directory is not a
 * list's yet. */
void ae_sums_begin(ae_writer *w, ae_directory *d, const uint8_t *groups, uint32_t n);
/* Return whether ae_sums_append() will need the directory to be the transaction's. */
bool ae_sums_are_full(const ae_writer *w, uint64_t head);
/* Write the sum behind the last entry of a large list of 64 i entries, which has just become as long. */
void ae_sums_append(ae_writer *w, uint32_t node, uint64_t head);
/* Note that a large list of `length` entries becomes, or became, another from entry `from` on, by so many
 * `changes` of an entry: they pay for mending it. The directory is the transaction's. */
void ae_sums_break(ae_writer *w, uint32_t node, uint64_t head, uint32_t from, uint32_t length,
                   uint32_t changes);
/* Give a directory of the transaction a block of sums that is the transaction's, with room for `blocks`. The
 * first `kept` sums are copied. Return false without memory. */
bool ae_sums_own(ae_writer *w, ae_directory *d, uint32_t kept, uint32_t blocks);
/* Return how many sums of a directory are good. */
uint32_t ae_sums_known(const ae_writer *w, ae_directory *d);
/* Write the sums of blocks [from, to) of a list; return the first that could not be made, for an extent that
 * is far. */
uint32_t ae_sums_make(const ae_writer *w, ae_directory *d, uint32_t from, uint32_t to);
/* Let go of the sums of a directory: those of the transaction, or with `all` those of older versions, too. */
void ae_sums_drop(ae_writer *w, ae_directory *d, bool all);

#endif
