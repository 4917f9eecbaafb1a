/* The handle of a sampler: what it is made of, checked, and given to the state of its samples. */
#include <inttypes.h>
#include <stdlib.h>

#include "aether/live.h"
#include "core/error.h"
#include "core/options.h"
#include "sample/draw/weight_sums.h"
#include "sample/hgt.h"
#include "sample/state.h"

/* ---- making one ---- */

static int check_own_values(const aether_relation *r, uint32_t i, aether_error *err) {
    const bool weights = r->own_values & AETHER_OWN_WEIGHTS, times = r->own_values & AETHER_OWN_TIMES;
    if (r->own_values & ~(uint32_t)(AETHER_OWN_WEIGHTS | AETHER_OWN_TIMES) || (weights && r->weights) ||
        (times && r->times))
        return ae_error_set(err, AETHER_E_INVALID,
                            "edge type %u: weights and times are arrays, or the graph's own", i);
    if ((weights && !r->topology->ops->weights) || (times && !r->topology->ops->times))
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "edge type %u: the graph keeps no %s of its own", i,
                            weights && !r->topology->ops->weights ? "weights" : "times");
    return AETHER_OK;
}

static int check_sampled_relation(const aether_relation *r, uint32_t i, const uint64_t *num_nodes,
                                  uint32_t num_types, aether_error *err) {
    if (r->from >= num_types || r->to >= num_types)
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u: %u -> %u are not below %u node types", i,
                            r->from, r->to, num_types);
    const aether_topology *t = r->topology;
    if (t->num_major != num_nodes[r->from] || t->num_minor != num_nodes[r->to])
        return ae_error_set(err, AETHER_E_INVALID,
                            "edge type %u: lists of %" PRIu64 " nodes with ids below %" PRIu64
                            " do not fit node types of %" PRIu64 " and %" PRIu64 " nodes",
                            i, t->num_major, t->num_minor, num_nodes[r->from], num_nodes[r->to]);
    int rc = check_own_values(r, i, err);
    if (rc)
        return rc;
    if (r->weights && r->weight_dtype != AETHER_F32 && r->weight_dtype != AETHER_F64)
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u: weights are float32 or float64", i);
    if (r->sums && (!r->weights || r->sums->num_edges != t->num_edges))
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u: the sums are not those of its weights", i);
    if (r->sums && !ae_topology_is_dense(t))
        return ae_topology_need_dense(t, "sums of weights", err);
    const bool in_file = r->weights_in_file || r->times_in_file || r->ids_in_file;
    if (in_file && (!t->edge_ids_are_positions || !ae_list_reader_pays(r->topology)))
        return ae_error_set(err, AETHER_E_INVALID,
                            "edge type %u: values in a file go with lists in a file, in their order", i);
    if ((r->weights_in_file && (!r->weights || r->weights_in_file->count != t->num_edges)) ||
        (r->ids_in_file && r->ids_in_file->count != t->num_edges) ||
        (r->times_in_file &&
         (!r->times ||
          r->times_in_file->count != (r->times_of == AETHER_TIMES_OF_NODES ? t->num_minor : t->num_edges))))
        return ae_error_set(err, AETHER_E_INVALID, "edge type %u: values in a file are not as many", i);
    if (!ae_times_known(r))
        return ae_error_set(err, AETHER_E_INVALID,
                            "edge type %u: times are int64 or float64, of edges or nodes", i);
    return AETHER_OK;
}

int ae_schema_check(const aether_schema *schema, aether_error *err) {
    int rc = ae_options_check(schema, sizeof *schema, "aether_schema", err);
    for (uint32_t i = 0; !rc && i < schema->num_relations; i++)
        rc = check_sampled_relation(&schema->relations[i], i, schema->num_nodes, schema->num_types, err);
    return rc;
}

static void set_caches(ae_relation *r, const aether_relation *from) {
    const aether_values *values[AE_RELATION_CACHES] = {from->weights_in_file, from->times_in_file,
                                                       r->times.by == AE_TIMES_BY_NODE ? from->ids_in_file
                                                                                       : NULL};
    r->in_rounds = false;
    for (uint32_t i = 0; i < AE_RELATION_CACHES; i++) {
        ae_value_cache_free(&r->caches[i]); /* of other values, or of other lists */
        r->caches[i].values = values[i];
        r->in_rounds |= values[i] != NULL;
    }
    r->weights.cache = values[0] ? &r->caches[0] : NULL;
    r->times.cache = values[1] ? &r->caches[1] : NULL;
    r->times.ids = values[2] ? &r->caches[2] : NULL;
}

/* The scratch memory of the relations and node types stays. */
static void set_relations(aether_sampler *s, const aether_relation *relations, const uint64_t *num_nodes) {
    for (uint32_t t = 0; t < s->num_types; t++)
        s->nodes[t].num_ids = num_nodes[t];
    for (uint32_t i = 0; i < s->num_relations; i++) {
        const aether_relation *from = &relations[i];
        ae_relation *r = &s->relations[i];
        r->topology = from->topology;
        r->weights = (ae_weights){.values = from->weights,
                                  .is_double = from->weight_dtype == AETHER_F64,
                                  .sums = from->sums,
                                  .own = from->own_values & AETHER_OWN_WEIGHTS};
        r->times = ae_times_of(from);
        r->from = from->from;
        r->to = from->to;
        set_caches(r, from);
    }
}

int aether_sampler_create_typed(const aether_schema *schema, aether_sampler **out, aether_error *err) {
    int rc = ae_schema_check(schema, err);
    if (rc)
        return rc;
    aether_sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->nodes = calloc((size_t)schema->num_types + 1, sizeof *s->nodes);
        s->relations = calloc((size_t)schema->num_relations + 1, sizeof *s->relations);
    }
    if (!s || !s->nodes || !s->relations) {
        aether_sampler_destroy(s);
        return ae_error_set(err, AETHER_E_NO_MEMORY, "no memory for a sampler");
    }
    s->num_types = schema->num_types;
    s->num_relations = schema->num_relations;
    set_relations(s, schema->relations, schema->num_nodes);
    *out = s;
    return AETHER_OK;
}

int aether_sampler_create(const aether_topology *t, aether_sampler **out, aether_error *err) {
    const aether_relation relation = {.topology = t};
    if (t->num_major != t->num_minor)
        return ae_error_set(err, AETHER_E_INVALID,
                            "sampling several hops needs as many sources as destinations, not %" PRIu64
                            " and %" PRIu64,
                            t->num_minor, t->num_major);
    return aether_sampler_create_typed(AE_SIZED(aether_schema, &relation, &t->num_major, 1, 1), out, err);
}

void aether_sampler_destroy(aether_sampler *s) {
    if (!s)
        return;
    ae_sample_free_arrays(s);
    for (uint32_t t = 0; t < s->num_types; t++)
        ae_idmap_free(&s->nodes[t].map);
    ae_hgt_free(s->hgt, s->num_types);
    free(s->nodes);
    free(s->relations);
    free(s);
}

uint64_t aether_sampler_memory(const aether_sampler *s) {
    return sizeof *s + ae_sample_memory(s) + ae_hgt_memory(s->hgt, s->num_types);
}

int aether_sampler_retarget(aether_sampler *s, const aether_schema *schema, aether_error *err) {
    int rc = ae_options_check(schema, sizeof *schema, "aether_schema", err);
    if (rc)
        return rc;
    if (schema->num_relations != s->num_relations || schema->num_types != s->num_types)
        return ae_error_set(err, AETHER_E_INVALID,
                            "a sampler of %u edge types and %u node types cannot go on with %u and %u: make "
                            "another",
                            s->num_relations, s->num_types, schema->num_relations, schema->num_types);
    rc = ae_schema_check(schema, err);
    if (rc)
        return rc;
    ae_sample_clear(s);
    set_relations(s, schema->relations, schema->num_nodes);
    return AETHER_OK;
}
