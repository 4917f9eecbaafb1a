/*
 * sample/rounds.h - a hop whose weights or times stay in a file: its lists and draws, in retry rounds.
 *
 *   round   find lists, as many as ask for so much   ->  read the value pages that they ask for
 *   round   find those lists again, and others       ->  ...
 *   ...     count the edges of all
 *   round   draw                                     ->  ...
 *
 * Nodes are tried in the order of the file, see sample/draw/retries.h.
 *
 * Caveats: for hops of relations that are `in_rounds`, after ae_hop_begin, if there are lists.
 */
#ifndef AE_SAMPLE_ROUNDS_H
#define AE_SAMPLE_ROUNDS_H

#include "sample/hop.h"

/* Find the lists and count their edges, then draw positions; about `most` value pages are held at a time.
 * AE_WANTED: read the value pages that were asked for (ae_relation_read), then call again. AETHER_OK:
 * h->stage says what comes next. */
int ae_rounds_next(ae_hop *h, uint64_t most, ae_scratch *set, aether_error *err);

/* Do all rounds of one sample. */
int ae_rounds_run(ae_hop *h, aether_error *err);

#endif
