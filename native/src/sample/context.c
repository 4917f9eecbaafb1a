/* The call: its arguments are checked, and blocks of seeds handed to threads. */
#include "sample/context.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/failure.h"
#include "core/pool.h"
#include "core/task.h"
#include "sample/state.h"

#define BLOCK_SLOTS (1u << 16) /* slots of the tables of a block: they stay in the L2 cache */
#define WIDE_SLOTS  (1u << 22) /* ... where a round of all contexts is read at once */

typedef struct run {
    ae_contexts w;
    ae_context_block *blocks; /* one per thread */
    ae_failure failure;
} run;

static int check_context_options(const aether_context_options *o, aether_error *err) {
    if (o->budget < 1 || o->budget > AE_CONTEXT_MOST)
        return ae_error_set(err, AETHER_E_INVALID, "a budget of %u rows is not in 1..%u", o->budget,
                            AE_CONTEXT_MOST);
    if (o->flags & ~(uint32_t)AETHER_SAMPLE_LATEST)
        return ae_error_set(err, AETHER_E_INVALID, "contexts take no flags but AETHER_SAMPLE_LATEST");
    return AETHER_OK;
}

static int check_seeds(const aether_context_seeds *s, const uint64_t *num_nodes, uint32_t num_types,
                       aether_error *err) {
    for (uint64_t i = 0; i < s->count; i++) {
        if (s->types[i] >= num_types)
            return ae_error_at(err, AETHER_E_INVALID, (int64_t)i, s->types[i],
                               "the type %u of seed %" PRIu64 " is not below %u", s->types[i], i, num_types);
        if ((uint64_t)s->ids[i] >= num_nodes[s->types[i]])
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, s->ids[i],
                               "seeds[%" PRIu64 "] = %" PRId64 " is not in 0..%" PRId64, i, s->ids[i],
                               (int64_t)num_nodes[s->types[i]] - 1);
    }
    return AETHER_OK;
}

/* Group the relations that are followed by the type that they lead from. */
static void group_relations(ae_contexts *w) {
    uint32_t n = 0;
    for (uint32_t type = 0; type < w->num_types; type++) {
        w->first_followed[type] = n;
        for (uint32_t r = 0; r < w->num_relations; r++) {
            int64_t fanout = w->options->fanouts[r];
            if (w->relations[r].from != type || !fanout)
                continue;
            w->followed[n++] = r;
            w->widths[type] += fanout < 0 ? 1 : (uint64_t)fanout;
        }
    }
    w->first_followed[w->num_types] = n;
}

static bool reads_pay(const ae_contexts *w) {
    for (uint32_t r = 0; r < w->num_relations; r++)
        if (ae_list_reader_pays(w->relations[r].topology))
            return true;
    return false;
}

static void choose_sizes(ae_contexts *w, uint32_t threads) {
    w->slots = 4;
    while (w->slots < 2 * (uint64_t)w->options->budget)
        w->slots *= 2;
    const uint64_t all = reads_pay(w) ? WIDE_SLOTS : BLOCK_SLOTS;
    uint64_t each = (w->seeds->count + threads - 1) / threads;
    w->block = all / w->slots ? all / w->slots : 1;
    w->block = each < w->block ? each : w->block;
}

static void run_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    run *r = ctx;
    aether_error error = {0};
    if (ae_failure_seen(&r->failure))
        return;
    const uint64_t first = chunk * r->w.block, rest = r->w.seeds->count - first;
    const uint64_t count = rest < r->w.block ? rest : r->w.block;
    int rc = ae_context_block_run(&r->w, &r->blocks[worker], first, count, &error);
    if (rc)
        ae_failure_note(&r->failure, rc, &error);
    ae_task_add(r->w.options->task, count);
}

static int run_blocks(ae_contexts *w, aether_error *err) {
    const uint32_t threads = ae_pool_threads(w->options->num_threads);
    choose_sizes(w, threads);
    run r = {.w = *w, .blocks = calloc(threads, sizeof *r.blocks)};
    if (!r.blocks)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory for contexts");
    ae_task_begin(w->options->task, w->seeds->count);
    ae_pool_run(run_chunk, &r, (w->seeds->count + w->block - 1) / w->block, threads);
    for (uint32_t i = 0; i < threads; i++)
        ae_context_block_free(&r.blocks[i]);
    free(r.blocks);
    return ae_failure_take(&r.failure, err);
}

int aether_sample_contexts(const aether_schema *schema, const aether_context_seeds *seeds,
                           const aether_context_options *options, const aether_context_rows *out,
                           aether_error *err) {
    int rc = ae_schema_check(schema, err);
    if (!rc)
        rc = check_context_options(options, err);
    if (!rc)
        rc = check_seeds(seeds, schema->num_nodes, schema->num_types, err);
    if (rc || !seeds->count)
        return rc;
    ae_contexts w = {.relations = schema->relations,
                     .num_relations = schema->num_relations,
                     .num_types = schema->num_types,
                     .seeds = seeds,
                     .options = options,
                     .out = out,
                     .followed = calloc((size_t)schema->num_relations + 1, sizeof *w.followed),
                     .first_followed = calloc((size_t)schema->num_types + 1, sizeof *w.first_followed),
                     .widths = calloc((size_t)schema->num_types + 1, sizeof *w.widths)};
    if (w.followed && w.first_followed && w.widths) {
        group_relations(&w);
        rc = run_blocks(&w, err);
    } else {
        rc = ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory for contexts");
    }
    free(w.followed);
    free(w.first_followed);
    free(w.widths);
    return rc;
}
