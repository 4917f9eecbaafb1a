#include "live/transaction.h"

#include <stdlib.h>

#include "core/error.h"
#include "live/edit.h"
#include "live/mend.h"

int ae_transaction_init(ae_transaction *t, ae_graph *graph, uint64_t max_age, aether_error *err) {
    const uint32_t n = graph->control.num_relations;
    const uint64_t last = atomic_load_explicit(graph->control.committed, memory_order_relaxed);
    *t = (ae_transaction){.control = &graph->control,
                          .commit = ae_stamp_next_commit(last),
                          .sweep = ae_sweep_from(last),
                          .relations = calloc(n, sizeof *t->relations),
                          .opened = calloc(n, sizeof *t->opened)};
    if (!t->relations || !t->opened)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a live graph");
    const int rc = ae_writers_init(&t->writers, graph, max_age, err);
    for (uint32_t r = 0; !rc && r < n; r++) {
        ae_changing *c = &t->relations[r];
        c->csc = ae_writer_of(&t->writers, ae_graph_lists(graph, r, AETHER_LIVE_CSC));
        c->csr = ae_writer_of(&t->writers, ae_graph_lists(graph, r, AETHER_LIVE_CSR));
        ae_control_counts(t->control, r, last, &c->counts);
    }
    return rc;
}

void ae_transaction_free(ae_transaction *t) {
    ae_writers_free(&t->writers);
    free(t->relations);
    free(t->opened);
}

int ae_transaction_begin(ae_transaction *t, aether_error *err) {
    if (t->commit > AE_CONTROL_LAST_COMMIT)
        return ae_error_set(err, AETHER_E_LIMIT,
                            "the graph has had 2^48 commits, the most there can be: insert its edges into a "
                            "new one");
    t->open = true;
    t->num_opened = 0;
    return AETHER_OK;
}

ae_changing *ae_transaction_open(ae_transaction *t, uint32_t relation) {
    ae_changing *c = &t->relations[relation];
    if (c->commit == t->commit)
        return c;
    c->commit = t->commit;
    t->opened[t->num_opened++] = relation;
    if (c->csc)
        ae_writer_begin(c->csc, t->commit);
    if (c->csr)
        ae_writer_begin(c->csr, t->commit);
    return c;
}

static void add_usage(ae_usage *sum, const ae_writer *w) {
    if (!w)
        return;
    sum->touched += w->touched_nodes;
    sum->used += ae_writer_used(w) * AE_UNIT;
    sum->retired += ae_writer_waiting(w) * AE_UNIT;
}

static void put_usage(ae_transaction *t, uint32_t relation) {
    ae_usage sum = {0};
    add_usage(&sum, t->relations[relation].csc);
    add_usage(&sum, t->relations[relation].csr);
    ae_control_put_usage(t->control, relation, &sum);
}

void ae_transaction_put_usage(ae_transaction *t) {
    for (uint32_t r = 0; r < t->control->num_relations; r++)
        put_usage(t, r);
}

void ae_transaction_commit(ae_transaction *t) {
    for (uint32_t i = 0; i < t->num_opened; i++) {
        const ae_changing *c = &t->relations[t->opened[i]];
        if (c->csc)
            ae_mend(c->csc);
        if (c->csr)
            ae_mend(c->csr);
    }
    for (uint32_t i = 0; i < t->num_opened; i++) {
        const uint32_t r = t->opened[i];
        ae_control_put_counts(t->control, r, t->commit, &t->relations[r].counts);
        put_usage(t, r);
    }
    ae_control_put_lsn(t->control, t->commit, t->lsn);
    ae_control_commit(t->control, t->commit);
    t->open = false;
    ae_writers_reclaim_some(&t->writers);
    ae_sweep_some(&t->sweep, &t->writers, t->commit);
    t->commit = ae_stamp_next_commit(t->commit);
}

static void undo_lists(ae_writer *w) {
    if (!w)
        return;
    ae_writer_unretire(w);
    for (uint64_t i = 0; i < w->num_touched; i++) {
        ae_root *root = ae_table_root(w->table, w->touched[i]);
        const uint64_t saved = ae_writer_saved(w, root);
        ae_edit_discard(w, atomic_load_explicit(&root->head, memory_order_relaxed), saved);
        atomic_store_explicit(&root->head, saved, memory_order_release);
    }
    w->num_noted = 0;
}

void ae_transaction_abort(ae_transaction *t) {
    for (uint32_t i = 0; i < t->num_opened; i++) {
        ae_changing *c = &t->relations[t->opened[i]];
        undo_lists(c->csc);
        undo_lists(c->csr);
        ae_control_counts(t->control, t->opened[i], t->commit - 1, &c->counts);
    }
    ae_transaction_commit(t);
}
