/*
 * topology/stream.h - many ids through three stages, each a chunk behind the one before.
 *
 *   chunk c      ask     prefetch what fetching reads
 *   chunk c - 1  fetch   read the ids, and prefetch what using them reads
 *   chunk c - 2  use     look them up, or keep them
 *
 * So the cache misses of each stage are in flight while the others compute. A stage that is NULL is left out.
 *
 * Caveats: ae_stream_run is inlined with its stages, so `stages` is a constant. What a cancelled task is told
 * was cancelled is sampling.
 */
#ifndef AE_TOPOLOGY_STREAM_H
#define AE_TOPOLOGY_STREAM_H

#include "core/task.h"
#include "topology/topology.h"

#define AE_STREAM_CHUNK 128 /* ids: two chunks of their lines and of their map slots fit the L1 cache */

typedef struct ae_stream {
    int (*ask)(void *ctx, uint64_t at, uint64_t n, aether_error *err);
    int (*fetch)(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err);
    int (*use)(void *ctx, uint64_t at, uint64_t n, uint64_t *ids, aether_error *err);
} ae_stream;

/* Hand items [at, at + n) of `total` to the stages, chunk by chunk. Two buffers are enough: chunk c - 1 is
 * fetched into one while chunk c - 2 waits in the other, which chunk c takes over one step later. */
static inline __attribute__((always_inline)) int
ae_stream_run(const ae_stream *stages, uint64_t total, void *ctx, aether_task *task, aether_error *err) {
    uint64_t ids[2][AE_STREAM_CHUNK], n[3] = {0, 0, 0}; /* sizes of chunks c, c - 1, c - 2 */
    for (uint64_t at = 0, c = 0; at < total || n[0] || n[1]; at += n[0], c++) {
        int rc = ae_task_check(task, "sampling", err);
        n[2] = n[1];
        n[1] = n[0];
        n[0] = total - at < AE_STREAM_CHUNK ? total - at : AE_STREAM_CHUNK;
        if (!rc && stages->ask && n[0])
            rc = stages->ask(ctx, at, n[0], err);
        if (!rc && stages->fetch && n[1])
            rc = stages->fetch(ctx, at - n[1], n[1], ids[(c + 1) % 2], err);
        if (!rc && stages->use && n[2])
            rc = stages->use(ctx, at - n[1] - n[2], n[2], ids[c % 2], err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

/* Fetch the ids at n positions, of lists that are quick to reach, to an array of ids of 4 or 8 bytes. */
int ae_stream_ids(const aether_topology *t, const uint64_t *positions, uint64_t n, void *out,
                  uint32_t id_bytes, aether_task *task, aether_error *err);

#endif
