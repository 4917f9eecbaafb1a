/* The public functions of live graphs but those that change edges: opening, transactions, reading. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/task.h"
#include "live/handle.h"
#include "live/snapshot.h"
#include "os/membarrier.h"
#include "os/process.h"

/* ---- handles ---- */

static int new_handle(aether_live **out, aether_error *err) {
    *out = calloc(1, sizeof **out);
    return *out ? AETHER_OK : ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a live graph");
}

int aether_live_create(const aether_live_options *options, aether_live **out, aether_error *err) {
    aether_live *g;
    *out = NULL;
    int rc = new_handle(&g, err);
    if (rc)
        return rc;
    g->owner = ae_process_self();
    rc = ae_graph_create(options, &g->graph, err);
    if (!rc)
        rc = ae_transaction_init(&g->transaction, &g->graph, options->max_snapshot_age, err);
    if (rc) {
        aether_live_close(g);
        return rc;
    }
    *out = g;
    return AETHER_OK;
}

int aether_live_set_base(aether_live *g, uint32_t relation, uint32_t layout, const aether_live_base *base,
                         aether_error *err) {
    int rc = ae_graph_check_relation(&g->graph, relation, err);
    if (rc)
        return rc;
    ae_lists *lists = layout == AETHER_LIVE_CSC || layout == AETHER_LIVE_CSR
                          ? ae_graph_lists(&g->graph, relation, layout)
                          : NULL;
    if (!lists)
        return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)layout,
                           "relation %" PRIu32 " does not store layout %" PRIu32, relation, layout);
    if (ae_base_is_there(&lists->base))
        return ae_error_set(err, AETHER_E_INVALID, "relation %" PRIu32 " has its base already", relation);
    rc = ae_base_set(&lists->base, base, ae_control_relation(&g->graph.control, relation), layout, err);
    if (rc)
        return rc;
    g->graph.missing--;
    return AETHER_OK;
}

int aether_live_set_base_sums(aether_live *g, uint32_t relation, uint32_t layout,
                              const aether_weight_sums *sums, aether_error *err) {
    int rc = ae_graph_check_relation(&g->graph, relation, err);
    if (rc)
        return rc;
    const ae_lists *lists = layout == AETHER_LIVE_CSC || layout == AETHER_LIVE_CSR
                                ? ae_graph_lists(&g->graph, relation, layout)
                                : NULL;
    const aether_topology *base = lists ? lists->base.given.lists : NULL;
    if (!base || !lists->base.given.weights)
        return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)layout,
                           "relation %" PRIu32 " has no base with weights in layout %" PRIu32, relation,
                           layout);
    if (sums && sums->num_edges != base->num_edges)
        return ae_error_at(err, AETHER_E_INVALID, -1, (int64_t)sums->num_edges,
                           "the sums are of %" PRIu64 " weights, but the base has %" PRIu64 " edges",
                           sums->num_edges, base->num_edges);
    atomic_store_explicit(&ae_graph_lists(&g->graph, relation, layout)->base.sums, sums,
                          memory_order_release);
    return AETHER_OK;
}

int aether_live_has_membarrier(void) {
    return ae_membarrier_works() && ae_membarrier_register();
}

int aether_live_has_huge_pages(void) {
    ae_shared probe;
    if (ae_shared_create("aether-live-probe", AE_SHARED_HUGE, AE_SHARED_WHOLE, &probe, NULL) != AETHER_OK)
        return 0;
    const bool works = ae_shared_collapse(&probe, 0);
    ae_shared_close(&probe);
    return works;
}

int aether_live_retire(aether_live *g, aether_error *err) {
    const int rc = ae_live_check_writer(g, err);
    if (!rc)
        ae_control_retire(&g->graph.control);
    return rc;
}

int aether_live_is_retired(const aether_live *g) {
    return ae_control_is_retired(&g->graph.control);
}

uint64_t aether_live_last_commit(const aether_live *g) {
    return atomic_load_explicit(g->graph.control.committed, memory_order_acquire);
}

uint64_t aether_live_lsn(const aether_live *g) {
    const ae_control *c = &g->graph.control;
    ae_commit at = {0};
    for (uint32_t i = 0; i < AE_CONTROL_TRIES && !ae_control_at(c, aether_live_last_commit(g), &at); i++)
        continue;
    return at.lsn;
}

uint32_t aether_live_num_descriptors(const aether_live *g) {
    return g->graph.given.reserve ? 0 : 2 + 2 * g->graph.num_lists;
}

void aether_live_descriptors(const aether_live *g, int32_t *out) {
    if (!aether_live_num_descriptors(g))
        return;
    *out++ = g->graph.control.memory.fd;
    *out++ = g->graph.pins.fd;
    for (uint32_t i = 0; i < g->graph.num_lists; i++) {
        *out++ = g->graph.lists[i].table.memory.fd;
        *out++ = g->graph.lists[i].arena.memory.fd;
    }
}

int aether_live_attach(const int32_t *descriptors, uint32_t n, aether_live **out, aether_error *err) {
    aether_live *g;
    *out = NULL;
    int rc = new_handle(&g, err);
    if (!rc)
        rc = ae_graph_attach(descriptors, n, &g->graph, err);
    if (rc)
        aether_live_close(g);
    else
        *out = g;
    return rc;
}

void aether_live_close(aether_live *g) {
    if (!g)
        return;
    if (g->journal)
        g->journal->ops->close(g->journal);
    ae_transaction_free(&g->transaction);
    if (g->owner != ae_process_self())
        g->graph.given.release = NULL; /* a forked child's: the memory is its parent's to give back */
    ae_graph_close(&g->graph);
    free(g);
}

uint32_t aether_live_num_relations(const aether_live *g) {
    return g->graph.control.num_relations;
}

int aether_live_relation_at(const aether_live *g, uint32_t relation, aether_live_relation *out,
                            aether_error *err) {
    const int rc = ae_graph_check_relation(&g->graph, relation, err);
    if (!rc)
        *out = *ae_control_relation(&g->graph.control, relation);
    return rc;
}

/* ---- transactions ---- */

int ae_live_check_writer(const aether_live *g, aether_error *err) {
    if (g->owner == ae_process_self())
        return AETHER_OK;
    if (!g->owner)
        return ae_error_set(err, AETHER_E_UNSUPPORTED,
                            "an attached live graph is read-only: change it where it was created");
    return ae_error_at(err, AETHER_E_UNSUPPORTED, -1, (int64_t)ae_process_pid(g->owner),
                       "only process %" PRIu32 ", which created this live graph, can change it",
                       ae_process_pid(g->owner));
}

static int begin_live(aether_live *g, aether_error *err) {
    int rc = ae_graph_check_bases(&g->graph, err);
    if (!rc && g->log_is_closed)
        rc = ae_error_set(err, AETHER_E_INVALID,
                          "the log of this live graph has been closed: a change would not be in it");
    if (!rc && g->journal)
        rc = g->journal->ops->begin(g->journal, err);
    return rc ? rc : ae_transaction_begin(&g->transaction, err);
}

/* Readers see what is in the journal, and nothing else. */
static int commit_live(aether_live *g, aether_error *err) {
    const int rc = g->journal ? g->journal->ops->commit(g->journal, &g->transaction.lsn, err) : AETHER_OK;
    if (rc)
        ae_transaction_abort(&g->transaction);
    else
        ae_transaction_commit(&g->transaction);
    return rc;
}

int ae_live_begin_call(aether_live *g, bool *own, aether_error *err) {
    *own = !g->transaction.open;
    return *own ? begin_live(g, err) : AETHER_OK;
}

int ae_live_end_call(aether_live *g, bool own, int rc, aether_error *err) {
    if (rc)
        ae_transaction_abort(&g->transaction);
    else if (own)
        rc = commit_live(g, err);
    return rc;
}

int aether_live_begin(aether_live *g, aether_error *err) {
    int rc = ae_live_check_writer(g, err);
    if (!rc && g->transaction.open)
        rc = ae_error_set(err, AETHER_E_INVALID, "a transaction has begun already: commit or abort it");
    return rc ? rc : begin_live(g, err);
}

static int check_transaction(const aether_live *g, aether_error *err) {
    const int rc = ae_live_check_writer(g, err);
    if (!rc && !g->transaction.open)
        return ae_error_set(err, AETHER_E_INVALID, "no transaction has begun, or a failure has undone it");
    return rc;
}

int aether_live_commit(aether_live *g, aether_error *err) {
    const int rc = check_transaction(g, err);
    return rc ? rc : commit_live(g, err);
}

int aether_live_abort(aether_live *g, aether_error *err) {
    const int rc = check_transaction(g, err);
    if (!rc)
        ae_transaction_abort(&g->transaction);
    return rc;
}

int aether_live_reclaim(aether_live *g, aether_error *err) {
    const int rc = ae_live_check_writer(g, err);
    if (rc)
        return rc;
    ae_writers_reclaim(&g->transaction.writers, true);
    ae_transaction_put_usage(&g->transaction);
    return AETHER_OK;
}

int aether_live_reap(aether_live *g, aether_error *err) {
    const int rc = ae_live_check_writer(g, err);
    if (!rc)
        ae_pins_reap(&g->graph.pins, 0, UINT64_MAX, 0);
    return rc;
}

/* ---- reading ---- */

int aether_snapshot_take(const aether_live *g, aether_snapshot **out, aether_error *err) {
    *out = NULL;
    const int rc = ae_graph_check_shared(&g->graph, g->owner, err);
    return rc ? rc : ae_snapshot_create(&g->graph, out, err);
}

int ae_live_check_ids(const char *name, const int64_t *ids, uint64_t n, uint64_t count, aether_error *err) {
    bool bad = false;
    for (uint64_t i = 0; i < n; i++)
        bad |= (uint64_t)ids[i] >= count;
    for (uint64_t i = 0; bad && i < n; i++)
        if ((uint64_t)ids[i] >= count)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, ids[i],
                               "%s[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, name, i, ids[i],
                               (int64_t)count - 1);
    return AETHER_OK;
}

#define PAIRS 64 /* between two looks at the task */

int aether_snapshot_has_edges(const aether_snapshot *s, uint32_t relation, const int64_t *src,
                              const int64_t *dst, uint64_t n, uint8_t *out, aether_task *task,
                              aether_error *err) {
    int rc = ae_graph_check_relation(s->graph, relation, err);
    if (!rc)
        rc = ae_live_check_ids("src", src, n, s->counts[relation].num_src, err);
    if (!rc)
        rc = ae_live_check_ids("dst", dst, n, s->counts[relation].num_dst, err);
    const ae_view *csc = rc ? NULL : ae_snapshot_view(s, relation, AETHER_LIVE_CSC);
    const ae_view *csr = rc ? NULL : ae_snapshot_view(s, relation, AETHER_LIVE_CSR);
    ae_task_begin(task, n);
    for (uint64_t i = 0; !rc && i < n; i++) {
        bool found;
        if (i % PAIRS == 0)
            rc = ae_task_check(task, "looking for edges", err);
        if (!rc)
            rc =
                ae_view_has_edge(csc, csr, (uint32_t)src[i], (uint32_t)dst[i], UINT64_MAX, &found, task, err);
        if (!rc)
            out[i] = found;
    }
    if (!rc)
        ae_task_add(task, n);
    return rc;
}

/* Read the numbers of a relation as of the last commit. */
static bool last_counts(const ae_control *c, uint32_t r, ae_counts *out) {
    for (uint32_t i = 0; i < AE_CONTROL_TRIES; i++)
        if (ae_control_counts(c, r, atomic_load_explicit(c->committed, memory_order_acquire), out))
            return true;
    return false;
}

/* Add up the numbers of all relations, at one commit unless the writer is too fast for that. */
static bool add_counts(const ae_control *c, uint64_t epoch, bool any, aether_live_stats *out) {
    bool good = true;
    for (uint32_t r = 0; good && r < c->num_relations; r++) {
        ae_counts counts = {0};
        const ae_usage usage = ae_control_usage(c, r);
        good = ae_control_counts(c, r, epoch, &counts) || (any && last_counts(c, r, &counts));
        out->num_edges += good ? counts.num_edges : 0;
        good = good || any; /* damaged memory: count what can be counted */
        out->touched_nodes += usage.touched;
        out->used_bytes += usage.used;
        out->retired_bytes += usage.retired;
    }
    return good;
}

#define COUNT_TRIES 16

void aether_live_count(const aether_live *g, aether_live_stats *out) {
    const ae_control *c = &g->graph.control;
    uint32_t tries = 0;
    do
        *out = (aether_live_stats){.epoch = atomic_load_explicit(c->committed, memory_order_acquire)};
    while (!add_counts(c, out->epoch, ++tries == COUNT_TRIES, out));
    if (g->owner == ae_process_self()) {
        if (ae_control_is_retired(c)) /* nobody writes here any more, who would see to it */
            ae_pins_reap(&g->graph.pins, 0, UINT64_MAX, g->transaction.writers.max_age);
        ae_pins_publish(c->committed, c->fences); /* who reuses memory by it sees every pin */
    }
    const ae_pins_seen pins = ae_pins_look(&g->graph.pins, c->committed);
    const uint64_t now = ae_pins_now();
    out->arena_bytes = c->arena_bytes;
    out->snapshots = pins.count;
    out->oldest_epoch = pins.oldest;
    out->oldest_age = pins.count && now > pins.since ? now - pins.since : 0;
    out->oldest_pid = pins.pid;
}

int aether_live_count_relation(const aether_live *g, uint32_t relation, aether_live_relation_stats *out,
                               aether_error *err) {
    const ae_control *c = &g->graph.control;
    ae_counts counts;
    const int rc = ae_graph_check_relation(&g->graph, relation, err);
    if (rc)
        return rc;
    if (!last_counts(c, relation, &counts))
        return ae_error_at(err, AETHER_E_EXPIRED, -1, (int64_t)relation,
                           "the numbers of relation %" PRIu32 " cannot be read: the writer is too fast, or "
                           "the memory of the live graph is damaged",
                           relation);
    const ae_usage usage = ae_control_usage(c, relation);
    *out = (aether_live_relation_stats){.num_src = counts.num_src,
                                        .num_dst = counts.num_dst,
                                        .num_edges = counts.num_edges,
                                        .end_edge_ids = counts.next_edge_id,
                                        .touched_nodes = usage.touched,
                                        .used_bytes = usage.used,
                                        .retired_bytes = usage.retired};
    return AETHER_OK;
}
