/* Writes a sample with its rows as the bytes that a server sends: whoever answers requests then makes one
 * call for each. Sizes are known once the sample is drawn, and everything goes to its place at once. */
#include <inttypes.h>
#include <string.h>

#include "aether/live.h"
#include "core/error.h"
#include "core/options.h"
#include "sample/state.h"

#define HEAD 24u

/* ids of the part of nodes or edges that rows follow */
typedef struct named_ids {
    const int64_t *ids;
    uint64_t n;
} named_ids;

static uint64_t padded_part(uint64_t size) {
    return (size + 7) & ~UINT64_C(7);
}

static uint64_t row_bytes(const aether_versioned_rows *v) {
    return v->base.row_items * aether_dtype_size(v->base.dtype);
}

static int check_values(const aether_versioned_rows *v, aether_error *err) {
    if (!v || !aether_dtype_size(v->base.dtype) || v->base.dtype != v->added.dtype ||
        v->base.row_items != v->added.row_items)
        return ae_error_set(err, AETHER_E_INVALID, "rows of a sample that do not fit each other");
    return AETHER_OK;
}

/* Return the number of items of a part, and the bytes of one; `last` is the part of ids before it. */
static int measure_part(const aether_sampler *s, const aether_packing *p, const aether_part *part,
                        uint64_t *last, uint64_t *length, uint64_t *bytes, aether_error *err) {
    const int of_nodes = part->what >= AETHER_PART_NODES && part->what <= AETHER_PART_HOP_NODES;
    const int of_edges = part->what >= AETHER_PART_ROWS && part->what <= AETHER_PART_HOP_EDGES;
    *bytes = 8;
    if (part->what == AETHER_PART_VALUES) {
        int rc = check_values(part->values, err);
        if (rc)
            return rc;
        *length = *last;
        *bytes = row_bytes(part->values);
        return AETHER_OK;
    }
    if ((!of_nodes && !of_edges) || part->of >= (of_nodes ? s->num_types : s->num_relations))
        return ae_error_set(err, AETHER_E_INVALID, "a sample has no part %u of %u", part->what, part->of);
    if (part->what == AETHER_PART_TREES && !s->node_bits && s->nodes[part->of].num_nodes)
        return ae_error_set(err, AETHER_E_INVALID, "only a disjoint sample has a batch vector");
    if (part->what == AETHER_PART_HOP_NODES)
        *length = (uint64_t)p->num_hops + 1;
    else if (part->what == AETHER_PART_HOP_EDGES)
        *length = p->num_hops;
    else
        *length = of_nodes ? s->nodes[part->of].num_nodes : s->relations[part->of].num_edges;
    if (part->what == AETHER_PART_NODES || part->what == AETHER_PART_EDGES)
        *last = *length;
    return AETHER_OK;
}

static int packed_size(const aether_sampler *s, const aether_packing *p, uint64_t *size, aether_error *err) {
    uint64_t last = 0, length = 0, bytes = 0;
    *size = HEAD + 8 * (uint64_t)p->num_parts;
    for (uint32_t i = 0; i < p->num_parts; i++) {
        int rc = measure_part(s, p, &p->parts[i], &last, &length, &bytes, err);
        if (rc)
            return rc;
        *size += padded_part(length * bytes);
    }
    return AETHER_OK;
}

/* ---- rows ---- */

/* Rows on both sides of the last row of the base. */
static int put_both(const aether_versioned_rows *v, named_ids of, char *out, aether_error *err) {
    const uint64_t bytes = row_bytes(v), base = v->base.num_rows;
    for (uint64_t i = 0; i < of.n; i++) {
        const uint64_t id = (uint64_t)of.ids[i];
        if (id >= base && id - base >= v->added.num_rows)
            return ae_error_at(err, AETHER_E_RANGE, (int64_t)i, (int64_t)id,
                               "ids[%" PRIu64 "] = %" PRIu64 " is not in 0..%" PRIu64, i, id,
                               base + v->added.num_rows - 1);
        const char *row = id < base ? (const char *)v->base.data + id * v->base.stride
                                    : (const char *)v->added.data + (id - base) * v->added.stride;
        memcpy(out + i * bytes, row, bytes);
    }
    return AETHER_OK;
}

static int put_first_rows(const aether_sampler *s, const aether_versioned_rows *v, named_ids of, char *out,
                          aether_error *err) {
    uint64_t largest = 0;
    for (uint64_t i = 0; i < of.n; i++)
        largest = (uint64_t)of.ids[i] > largest ? (uint64_t)of.ids[i] : largest;
    if (v->base.num_rows && largest >= v->base.num_rows)
        return put_both(v, of, out, err);
    const aether_rows *rows = v->base.num_rows ? &v->base : &v->added;
    return aether_gather(rows,
                         AE_SIZED(aether_row_request, of.ids, of.n, out, of.n * row_bytes(v), 8, rows->dtype),
                         s->task, err);
}

/* Find the version of row ids[i] that a commit sees; 0: none. A version is complete before it is linked, and
 * links lead to earlier ones. Once versions are used again, as those of a snapshot that was held too long,
 * they may lead anywhere: to a later version, or in a circle. */
static int find_version(const aether_versioned_rows *v, named_ids of, uint64_t i, uint64_t *found,
                        aether_error *err) {
    const int64_t id = of.ids[i];
    uint64_t slot = __atomic_load_n(&v->slots[id], __ATOMIC_ACQUIRE), last = UINT64_MAX, steps = 0;
    while (slot && slot < v->num_versions) {
        const uint64_t commit = __atomic_load_n(&v->commits[slot], __ATOMIC_ACQUIRE);
        if (commit <= v->commit)
            break;
        if (commit > last || steps++ == v->num_versions)
            return ae_error_at(err, AETHER_E_EXPIRED, (int64_t)i, id,
                               "versions of row %" PRId64 " that commit %" PRIu64 " needs are in use again",
                               id, v->commit);
        last = commit;
        slot = __atomic_load_n(&v->before[slot], __ATOMIC_ACQUIRE);
    }
    *found = slot;
    return slot < v->num_versions ? AETHER_OK
                                  : ae_error_at(err, AETHER_E_CORRUPT, (int64_t)i, id,
                                                "row %" PRId64 " has a version that does not exist", id);
}

static int put_versions(const aether_versioned_rows *v, named_ids of, char *out, aether_error *err) {
    const uint64_t bytes = row_bytes(v);
    for (uint64_t i = 0; i < of.n; i++) {
        uint64_t slot = 0;
        const int rc = find_version(v, of, i, &slot, err);
        if (rc)
            return rc;
        if (slot)
            memcpy(out + i * bytes, (const char *)v->versions + slot * bytes, bytes);
    }
    return AETHER_OK;
}

static int put_values(const aether_sampler *s, const aether_versioned_rows *v, named_ids of, char *out,
                      aether_error *err) {
    if (!of.n || !row_bytes(v))
        return AETHER_OK;
    int rc = put_first_rows(s, v, of, out, err);
    return rc || !v->slots ? rc : put_versions(v, of, out, err);
}

/* ---- parts ---- */

static int put_part(const aether_sampler *s, const aether_packing *p, const aether_part *part, uint64_t n,
                    named_ids of, void *out, aether_error *err) {
    const uint64_t hops = p->num_hops;
    switch (part->what) {
    case AETHER_PART_NODES:
        return aether_sample_export_nodes(
            s, part->of, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = n, .node = out), err);
    case AETHER_PART_TREES:
        return aether_sample_export_nodes(
            s, part->of, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = n, .batch = out), err);
    case AETHER_PART_HOP_NODES:
        memcpy(out, p->counts->hop_nodes + part->of * (hops + 1), 8 * n);
        return AETHER_OK;
    case AETHER_PART_ROWS:
        return aether_sample_export_edges(
            s, part->of, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = n, .row = out), err);
    case AETHER_PART_COLS:
        return aether_sample_export_edges(
            s, part->of, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = n, .col = out), err);
    case AETHER_PART_EDGES:
        return aether_sample_export_edges(
            s, part->of, AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_edges = n, .edge = out), err);
    case AETHER_PART_HOP_EDGES:
        memcpy(out, p->counts->hop_edges + part->of * hops, 8 * n);
        return AETHER_OK;
    default:
        return put_values(s, part->values, of, out, err);
    }
}

static int put_parts(const aether_sampler *s, uint64_t key, const aether_packing *p, char *out,
                     aether_error *err) {
    const uint32_t tail[2] = {p->num_parts, 0};
    uint64_t at = HEAD + 8 * (uint64_t)p->num_parts, last = 0, length = 0, bytes = 0;
    named_ids of = {NULL, 0};
    memcpy(out, &key, 8);
    memcpy(out + 8, &p->commit, 8);
    memcpy(out + 16, tail, 8);
    for (uint32_t i = 0; i < p->num_parts; i++) {
        const aether_part *part = &p->parts[i];
        int rc = measure_part(s, p, part, &last, &length, &bytes, err);
        if (!rc)
            rc = put_part(s, p, part, length, of, out + at, err);
        if (rc)
            return rc;
        if (part->what == AETHER_PART_NODES || part->what == AETHER_PART_EDGES)
            of = (named_ids){(const int64_t *)(out + at), length};
        memcpy(out + HEAD + 8 * (uint64_t)i, &length, 8);
        const uint64_t size = length * bytes;
        memset(out + at + size, 0, padded_part(size) - size);
        at += padded_part(size);
    }
    return AETHER_OK;
}

int aether_sample_pack(const aether_sampler *s, uint64_t key, const aether_packing *packing, void *out,
                       uint64_t size, aether_error *err) {
    uint64_t needed;
    int rc = ae_options_check(packing->counts, sizeof *packing->counts, "aether_sample_counts", err);
    if (!rc)
        rc = packed_size(s, packing, &needed, err);
    if (rc)
        return rc;
    if (size != needed)
        return ae_error_set(err, AETHER_E_INVALID, "room for %" PRIu64 " bytes, the sample takes %" PRIu64,
                            size, needed);
    return put_parts(s, key, packing, out, err);
}

int aether_sample_packed(aether_sampler *s, const aether_seeds *seeds, const aether_sample_options *options,
                         const aether_packing *packing, void *out, uint64_t room, uint64_t *size,
                         aether_error *err) {
    int rc = aether_sample_typed(s, seeds, options, packing->counts, err);
    if (!rc)
        rc = packed_size(s, packing, size, err);
    if (rc || *size > room)
        return rc;
    return put_parts(s, options->key, packing, out, err);
}
