/*
 * topology/list_reader.h - reading the ids of many positions or lists by one fetch_many.
 *
 *   positions [ 900 12 90000 ... ]  ->  ids, as 64-bit numbers
 *   lists     [ .... | .. | ........ ]  ->  visit(list 0, ids) visit(list 1, ids) ...
 *             \_ AE_LIST_READER_MOST ids at a time _/
 *
 * For topologies whose lists are slow to reach (ops->fetch_many): callers that would
 * fetch a few positions at a time collect them instead.
 *
 * Caveats: an ae_list_reader serves one caller at a time, and is all zeros at first.
 */
#ifndef AE_TOPOLOGY_LIST_READER_H
#define AE_TOPOLOGY_LIST_READER_H

#include "topology/staging.h"
#include "topology/topology.h"

#define AE_LIST_READER_MOST   (UINT64_C(1) << 18)
#define AE_LIST_READER_WINDOW (1u << 20) /* bytes; see ae_staging */

typedef struct ae_list_reader {
    ae_staging staging;
    ae_scratch positions, ids; /* of ae_list_reader_lists */
} ae_list_reader;

void ae_list_reader_free(ae_list_reader *r);
uint64_t ae_list_reader_memory(const ae_list_reader *r);

/* Return whether collecting positions for one fetch_many pays for this topology. */
static inline bool ae_list_reader_pays(const aether_topology *t) {
    return t->ops->fetch_many != NULL;
}

/* Read the ids at n positions; `ids` must not overlap `positions`. */
int ae_list_reader_fetch(ae_list_reader *r, const aether_topology *t, const uint64_t *positions, uint64_t n,
                         uint64_t *ids, aether_task *task, aether_error *err);

/* Visit n ids of list number `list`, from position `at` on; parts of a list come in order. The
 * visitor may overwrite the ids. */
typedef int (*ae_list_visitor)(void *ctx, uint64_t list, uint64_t at, uint64_t *ids, uint64_t n,
                               aether_error *err);

/* Visit all entries of n lists, in order; a list without entries is not visited. Of any topology: lists that
 * are quick to reach are fetched chunk by chunk, and `r` is not used. */
int ae_list_reader_lists(ae_list_reader *r, const aether_topology *t, const ae_list *lists, uint64_t n,
                         ae_list_visitor visit, void *ctx, aether_task *task, aether_error *err);

#endif
