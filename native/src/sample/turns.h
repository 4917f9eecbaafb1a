/*
 * sample/turns.h - retry rounds, for nodes that need numbers of a file.
 *
 *   turn 0   try 0 1 2 3 4 ...  until enough is asked for        waiting: 1 4
 *            read what 1 and 4 asked for
 *   turn 1   try 1 4                                             waiting: 4
 *            read what 4 asked for next                          (a search in a long list)
 *   turn 2   try 4, then the next nodes ...
 *
 * Caveats: nodes are tried in order but finish in any.
 */
#ifndef AE_SAMPLE_TURNS_H
#define AE_SAMPLE_TURNS_H

#include "sample/pieces.h"

typedef struct ae_turns {
    uint64_t next, num_waiting;
    ae_scratch waiting; /* u64 */
} ae_turns;

/* Try one node; `again` says that it was tried before. AE_WANTED: it has to be tried once more. */
typedef int (*ae_turns_try)(void *ctx, uint64_t node, bool again, aether_error *err);

/* Take one turn over nodes 0..count-1. AE_WANTED: read what p[] asks for, then take the next turn.
 * AETHER_OK: all nodes are done, and the next turn begins anew. About `most` pieces are held at a
 * time. */
int ae_turns_take(ae_turns *t, uint64_t count, ae_pieces *const *p, uint32_t num_pieces, uint64_t most,
                  ae_turns_try try, void *ctx, aether_error *err);

#endif
