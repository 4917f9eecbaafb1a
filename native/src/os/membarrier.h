/*
 * os/membarrier.h - a fence that one thread executes for all.
 *
 *   reader   store A; (compiler barrier); load B        cheap, as often as needed
 *   writer   store B; ae_membarrier();    load A        1 us, seldom
 *
 * At least one of the two sees what the other has stored, as if both had a full fence. Readers
 * may be threads of any process that has registered (membarrier(2), GLOBAL_EXPEDITED).
 *
 * Caveats: a process that could not register needs full fences of its own, and so does everybody
 * if the writer's kernel lacks the call.
 */
#ifndef AE_OS_MEMBARRIER_H
#define AE_OS_MEMBARRIER_H

#include <stdbool.h>

/* Register this process, once; return whether ae_membarrier() of others reaches its threads. */
bool ae_membarrier_register(void);
/* Return whether ae_membarrier() works here. */
bool ae_membarrier_works(void);
/* Execute a full fence in every running thread of all registered processes, and in this one. */
void ae_membarrier(void);

/* Let the two questions above be answered with no, for tests. */
void ae_membarrier_disable(bool value);

#endif
