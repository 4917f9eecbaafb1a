/*
 * live/mend.h - what a commit does for sums that its changes have broken.
 *
 *   sums      | s0 | s1 | s2 | ... | s900 |     an edge is inserted at entry 70
 *   commit    | s0 | s1'| s2'| ... | s900'|     s1 and those behind are made anew, in a copy
 *
 * The additions have one order (live/sums.h), so that reads all weights from the change on. A commit does it
 * once for a list, and no more than its changes are worth: CREDIT entries for each of them, or SPIKE if that
 * is more; a list of a base that changes for the first time is read whatever it earns, as its draws would be
 * from then on. Lists that need more stay without the rest of their sums until a later commit that changes
 * them. Samplers then read their weights, and draw the same.
 */
#ifndef AE_LIVE_MEND_H
#define AE_LIVE_MEND_H

#include "live/writer.h"

/* Make broken sums anew, in a transaction that is about to be committed. */
void ae_mend(ae_writer *w);

#endif
