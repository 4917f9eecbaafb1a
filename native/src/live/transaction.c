#include "live/transaction.h"

#include "core/error.h"
#include "live/edit.h"

int ae_transaction_begin(ae_writer *w, aether_error *err) {
    if (w->epoch > AE_TABLE_LAST_EPOCH)
        return ae_error_set(
            err, AETHER_E_LIMIT,
            "the graph has had 2^32 commits, the most there can be: copy it into a new one, and "
            "put more changes into a commit");
    w->open = true;
    w->num_touched = 0;
    w->mark = w->end_retired;
    return AETHER_OK;
}

void ae_transaction_commit(ae_writer *w) {
    w->counts.used = w->arena->used * AE_UNIT;
    w->counts.retired = w->retired_units * AE_UNIT;
    ae_table_commit(w->table, w->epoch++, &w->counts);
    w->open = false;
    ae_writer_reclaim_some(w);
}

void ae_transaction_abort(ae_writer *w) {
    const uint64_t touched = w->counts.touched; /* their roots know that they were touched */
    for (uint64_t i = w->mark; i < w->end_retired; i++)
        w->retired_units -= w->retired[i].units;
    w->end_retired = w->mark;
    for (uint64_t i = 0; i < w->num_touched; i++) {
        ae_root *root = &w->table->roots[w->touched[i]];
        const ae_ref history = (ae_ref)(atomic_load_explicit(&root->past, memory_order_relaxed) >> 32);
        const uint64_t saved = ae_writer_saved(w, root);
        ae_edit_discard(w, atomic_load_explicit(&root->head, memory_order_relaxed), saved);
        atomic_store_explicit(&root->head, saved, memory_order_release);
        if (history)
            ae_writer_drop(w, history, sizeof(ae_history), false);
    }
    ae_table_counts(w->table, w->epoch - 1, &w->counts);
    w->counts.touched = touched;
    ae_transaction_commit(w);
}
