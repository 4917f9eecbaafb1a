/*
 * live/journal.h - who is told of every change of a live graph, and decides whether it is committed.
 *
 *   begin                        may the graph be changed at all? Forget what was not committed
 *   insert, remove, add_nodes    about to be applied; arguments were checked
 *   commit                       keep it; readers see it only if that works
 *
 * `durable` keeps one that writes a log; the lists know only this table.
 *
 * Caveats: called by the writer's thread. What is refused undoes the transaction.
 */
#ifndef AE_LIVE_JOURNAL_H
#define AE_LIVE_JOURNAL_H

#include "aether/live.h"

typedef struct ae_journal ae_journal;

typedef struct ae_journal_ops {
    int (*begin)(ae_journal *j, aether_error *err);
    /* The first of the edges gets this id, unless it is there already. */
    int (*insert)(ae_journal *j, uint32_t relation, uint64_t first_edge_id, const aether_live_edges *edges,
                  aether_error *err);
    int (*remove)(ae_journal *j, uint32_t relation, const int64_t *src, const int64_t *dst,
                  const int64_t *edge_ids, uint64_t n, aether_error *err);
    int (*add_nodes)(ae_journal *j, uint32_t relation, uint64_t num_src, uint64_t num_dst, aether_error *err);
    /* *lsn becomes the number of the commit in the log; it stays where nothing was to be written. */
    int (*commit)(ae_journal *j, uint64_t *lsn, aether_error *err);
    void (*close)(ae_journal *j); /* with the graph; in a forked child, too */
} ae_journal_ops;

struct ae_journal {
    const ae_journal_ops *ops;
};

#endif
