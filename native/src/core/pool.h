/*
 * core/pool.h - the process-wide thread pool.
 *
 *   ae_pool_run(fn, ctx, 5 chunks, 2 threads)
 *        caller  : chunk 0, 2, 4      (the calling thread takes part)
 *        worker 1: chunk 1, 3
 *
 * Chunks are handed out by an atomic counter; the call returns when all are
 * done. Workers start on first use and sleep in between.
 *
 * Caveats: one run uses the pool at a time; a run that finds it busy (another
 * thread, or a nested run) executes all its chunks on the calling thread, so
 * it never deadlocks. After fork() the child starts a new pool on first use.
 */
#ifndef AE_CORE_POOL_H
#define AE_CORE_POOL_H

#include "aether.h"

/* `worker` is in [0, num_threads): an index for per-thread scratch. */
typedef void (*ae_pool_fn)(void *ctx, uint64_t chunk, uint32_t worker);

/* Run fn for every chunk on num_threads threads (0: the default), and wait for all of them. Return
 * the number of threads that took part. */
uint32_t ae_pool_run(ae_pool_fn fn, void *ctx, uint64_t num_chunks, uint32_t num_threads);

/* Return the threads of a run that requests so many: 0 is the default, AE_POOL_MAX the most. */
uint32_t ae_pool_threads(uint32_t requested);

#define AE_POOL_MAX 256

#endif
