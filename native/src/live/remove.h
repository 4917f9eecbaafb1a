/*
 * live/remove.h - taking entries out of a list, inside a transaction.
 *
 *   block        copied without the entries
 *   leaves       the same, from the last to the first; small neighbours are joined
 *   extent       made anew around the entries: long pieces are extents, short ones copied
 *   few left     a large list becomes small again
 */
#ifndef AE_LIVE_REMOVE_H
#define AE_LIVE_REMOVE_H

#include "live/edit.h"

/* Remove n entries, by index in the list, ascending; up to all of its blocks are dropped. */
int ae_remove(ae_edit *e, const uint32_t *doomed, uint32_t n, aether_error *err);

#endif
