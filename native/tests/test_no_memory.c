/* Refuse the allocations of files, building, lists, sampling and reading (refused_memory.h). */
#include "block_ids.h"
#include "io_file.h"
#include "refused_memory.h"

/* ---- a graph in memory and in files ----------------------------------------------------- */

enum { NODES = 700, EDGES = 20000, HUB = 3, HUB_EDGES = 6000, WIDTH = 100, HOPS = 2, SEEDS = 40 };

static uint64_t indptr[NODES + 1];
static uint32_t indices[EDGES];
static float weights[EDGES], features[NODES * WIDTH];
static int64_t times[EDGES], src[EDGES], dst[EDGES], seeds[SEEDS];
static char graph_path[128], lists_path[128], rows_path[128], out_path[128];
static aether_topology *ram;
static aether_io *lists_io;
static aether_weight_sums *sums;
static uint64_t indptr_at, indices_at, weights_at, times_at, blocks_at, index_at;
static id_blocks blocks;

static aether_lists lists_of(void) {
    return (aether_lists){NODES, NODES, EDGES, indptr, indices, NULL, 4, 8};
}

static uint64_t put(FILE *f, const void *data, uint64_t size) {
    uint64_t at = ((uint64_t)ftell(f) + 4095) & ~(uint64_t)4095;
    if (fseek(f, (long)at, SEEK_SET) || fwrite(data, 1, size, f) != size)
        abort();
    return at;
}

static void write_graph_file(void) {
    aether_error err = {0};
    aether_writer *w = NULL;
    REQUIRE_OK(aether_writer_create(graph_path, AETHER_CONTENT_GRAPH, &w, &err), err);
    CHECK_OK(aether_writer_begin(w, AETHER_SECTION_META, 0, AETHER_U8, &err), err);
    CHECK_OK(aether_writer_append(w, "{}", 2, NULL, &err), err);
    CHECK_OK(aether_writer_end(w, &err), err);
    CHECK_OK(aether_writer_begin(w, AETHER_SECTION_CSC_INDICES, 0, AETHER_U32, &err), err);
    CHECK_OK(aether_writer_append(w, indices, sizeof indices, NULL, &err), err);
    CHECK_OK(aether_writer_end(w, &err), err);
    CHECK_OK(aether_writer_commit(w, &err), err);
}

static void release(void) {
    aether_weight_sums_destroy(sums);
    aether_topology_destroy(ram);
    aether_io_close(lists_io);
    id_release(&blocks);
}

/* One thread, so that allocation n is the same in every run. */
static void prepare(void) {
    static bool prepared;
    if (prepared)
        return;
    prepared = true;
    aether_error err = {0};
    uint64_t state = 5;
    aether_set_num_threads(1, NULL);
    for (uint64_t e = 0; e < EDGES; e++) {
        src[e] = (int64_t)(test_random(&state) % NODES);
        dst[e] = e < HUB_EDGES ? HUB : (int64_t)(test_random(&state) % NODES);
        weights[e] = (float)(1 + test_random(&state) % 3);
    }
    CHECK_OK(aether_build_lists(AE_SIZED(aether_edge_list, dst, src, EDGES, NODES, NODES),
                                AE_SIZED(aether_built_lists, indptr, indices, NULL, 4, 0), NULL, &err),
             err);
    for (uint64_t v = 0; v < NODES; v++)
        for (uint64_t p = indptr[v]; p < indptr[v + 1]; p++)
            times[p] = (int64_t)(p - indptr[v]);
    for (uint64_t i = 0; i < SEEDS; i++)
        seeds[i] = (int64_t)(i * 17 % NODES);
    seeds[1] = HUB;
    test_path(graph_path, sizeof graph_path, "graph");
    test_path(lists_path, sizeof lists_path, "lists");
    test_path(rows_path, sizeof rows_path, "rows");
    test_path(out_path, sizeof out_path, "out");
    FILE *f = fopen(lists_path, "wb"), *rows = fopen(rows_path, "wb");
    if (!f || !rows)
        abort();
    indptr_at = put(f, indptr, sizeof indptr);
    indices_at = put(f, indices, sizeof indices);
    weights_at = put(f, weights, sizeof weights);
    times_at = put(f, times, sizeof times);
    static uint64_t wide[EDGES];
    for (uint64_t e = 0; e < EDGES; e++)
        wide[e] = indices[e];
    blocks = id_encode(wide, EDGES, 4);
    blocks_at = put(f, blocks.bytes, blocks.size);
    index_at = put(f, blocks.index, blocks.index_size);
    put(rows, features, sizeof features);
    fclose(f);
    fclose(rows);
    write_graph_file();
    const aether_lists l = lists_of();
    CHECK_OK(aether_topology_create(&l, &ram, &err), err);
    CHECK_OK(aether_io_open(lists_path, NULL, &lists_io, &err), err);
    CHECK_OK(aether_weight_sums_create(ram, weights, AETHER_F32, &sums, NULL, &err), err);
    atexit(release);
}

static int open_paged(aether_topology **out, aether_error *err) {
    aether_lists l = lists_of();
    l.indptr = NULL;
    l.indices = NULL;
    return aether_topology_create_paged(&l, AE_SIZED(aether_lists_in_file, lists_io, indptr_at, indices_at),
                                        NULL, out, err);
}

/* ---- files ------------------------------------------------------------------------------ */

SWEEP(file, {
    aether_file *file = NULL;
    MAKE(aether_file_open(graph_path, &file, err));
    USE(aether_file_verify(file, NULL, err));
done:
    aether_file_close(file);
    return rc;
})

SWEEP(raw_file, {
    aether_file *file = NULL;
    MAKE(aether_file_map_raw(rows_path, &file, err));
done:
    aether_file_close(file);
    return rc;
})

SWEEP(buffer, {
    void *data = aether_buffer_alloc(1 << 20, err);
    if (!data)
        return err->code;
    aether_buffer_free(data, 1 << 20);
    const int fd = open(rows_path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    data = aether_buffer_map(fd, 0, 4096, err);
    close(fd);
    if (!data)
        return err->code;
    aether_buffer_free(data, 4096);
    return rc;
})

/* Whatever fails, the old file is there and no temporary beside it. */
SWEEP(writer, {
    aether_writer *w = NULL;
    MAKE(aether_writer_create(out_path, AETHER_CONTENT_FEATURES, &w, err));
    for (uint32_t i = 0; i < 20; i++) {
        MAKE(aether_writer_begin(w, AETHER_SECTION_ARRAY, i, AETHER_U32, err));
        MAKE(aether_writer_append(w, indices, 4096, NULL, err));
        MAKE(aether_writer_end(w, err));
    }
    rc = aether_writer_commit(w, err);
    w = NULL;
done:
    if (w)
        aether_writer_abort(w);
    return rc;
})

SWEEP(writer_of_places, {
    aether_writer *w = NULL;
    uint32_t section[20];
    MAKE(aether_writer_create(out_path, AETHER_CONTENT_FEATURES, &w, err));
    for (uint32_t i = 0; i < 20; i++)
        MAKE(aether_writer_reserve(w, AETHER_SECTION_ARRAY, i, AETHER_U32, 4096, &section[i], err));
    for (uint32_t i = 0; i < 20; i++)
        MAKE(aether_writer_put(w, section[i], indices, 4096, NULL, err));
    rc = aether_writer_commit(w, err);
    w = NULL;
done:
    if (w)
        aether_writer_abort(w);
    return rc;
})

SWEEP(replace, {
    aether_replace *r = NULL;
    MAKE(aether_replace_begin(out_path, &r, err));
    MAKE(aether_replace_write(r, indices, sizeof indices, 0, err));
    rc = aether_replace_commit(r, err);
    r = NULL;
done:
    aether_replace_abort(r);
    return rc;
})

/* ---- building --------------------------------------------------------------------------- */

SWEEP(build, {
    static uint64_t offsets[NODES + 1];
    static uint32_t ids[EDGES];
    static uint32_t order[EDGES];
    rc = aether_build_lists(AE_SIZED(aether_edge_list, dst, src, EDGES, NODES, NODES),
                            AE_SIZED(aether_built_lists, offsets, ids, order, 4, 4), NULL, err);
    return rc;
})

SWEEP(records, {
    static uint8_t packed[EDGES * 12];
    static uint8_t parted[EDGES * 12];
    static uint64_t counts[8];
    static uint64_t ends[NODES + 1];
    static uint32_t order[EDGES];
    const aether_column column = {.data = weights, .bytes = 4};
    const aether_field major = {.offset = 0, .dtype = AETHER_U32};
    rc = aether_records_pack(AE_SIZED(aether_record_columns, dst, src, EDGES, &column, 1, 4), packed,
                             sizeof packed, err);
    if (!rc)
        rc = aether_records_partition(AE_SIZED(aether_records, packed, EDGES, 12),
                                      AE_SIZED(aether_partition, 0, 8, major, 7), counts, parted, NULL, err);
    return rc ? rc
              : aether_records_order(AE_SIZED(aether_records, packed, EDGES, 12, 4),
                                     AE_SIZED(aether_record_order, 0, NODES, NULL, NULL, 1), ends, order,
                                     err);
})

/* ---- orders of nodes -------------------------------------------------------------------- */

SWEEP(orders, {
    static uint64_t degrees[NODES];
    static uint64_t places[NODES + 1];
    static uint32_t nodes[NODES];
    static uint32_t ranks[NODES];
    static uint32_t neighbors[2 * EDGES];
    static uint32_t order[NODES];
    static uint32_t community[NODES];
    const aether_rabbit_options options = {.file = -1, .num_threads = 1};
    uint64_t balance = 0, count = 0;
    memset(degrees, 0, sizeof degrees);
    rc = aether_order_degrees(AE_SIZED(aether_order_part, ram, 0, 0, NODES), degrees, &balance, NULL, err);
    if (!rc)
        rc = aether_order_ranks(degrees, NODES, nodes, ranks, places, err);
    if (!rc)
        rc = aether_order_fill(AE_SIZED(aether_order_part, ram, 0, 0, NODES), 1, ranks,
                               AE_SIZED(aether_order_lists, places, neighbors, 2 * EDGES), NULL, err);
    if (!rc)
        rc = aether_order_rabbit(places, neighbors, NODES, &options,
                                 AE_SIZED(aether_rabbit_order, order, community, &count), NULL, err);
    if (!rc)
        rc = aether_order_bfs(places, neighbors, NODES, order, NULL, err);
    return rc ? rc : aether_order_gorder(places, neighbors, NODES, 5, order, NULL, err);
})

/* ---- topologies ------------------------------------------------------------------------- */

SWEEP(topology, {
    static int64_t found[EDGES];
    static int64_t edges[EDGES];
    static uint64_t pairs[EDGES];
    static uint64_t positions[EDGES];
    const int64_t hub[] = {HUB, HUB};
    const int64_t ends[] = {5, 9};
    uint64_t hits;
    aether_topology *t = NULL;
    const aether_lists l = lists_of();
    MAKE(aether_topology_create(&l, &t, err));
    USE(aether_topology_ids_from(t, 0, EDGES, found, 8, NULL, err));
    USE(aether_topology_ids(t, ends, 2, found, 8, NULL, err));
    USE(aether_topology_neighbors(t,
                                  AE_SIZED(aether_list_request, .nodes = hub, .n = 1, .capacity = EDGES,
                                           .neighbors = found, .edges = edges),
                                  NULL, err));
    USE(aether_find_edges(t, AE_SIZED(aether_edge_search, hub, ends, 2, pairs, positions, EDGES), &hits, NULL,
                          err));
done:
    aether_topology_destroy(t);
    return rc;
})

SWEEP(paged, {
    static int64_t found[EDGES];
    static int64_t edges[EDGES];
    static uint64_t pairs[EDGES];
    static uint64_t positions[EDGES];
    const int64_t hub[] = {HUB, HUB};
    const int64_t ends[] = {5, 9};
    uint64_t hits;
    aether_topology *t = NULL;
    MAKE(open_paged(&t, err));
    MAKE(aether_topology_keep_pages(t, 1 << 16, err));
    USE(aether_topology_ids_from(t, 0, EDGES, found, 8, NULL, err));
    USE(aether_topology_ids(t, ends, 2, found, 8, NULL, err));
    USE(aether_topology_neighbors(t,
                                  AE_SIZED(aether_list_request, .nodes = hub, .n = 1, .capacity = EDGES,
                                           .neighbors = found, .edges = edges),
                                  NULL, err));
    USE(aether_find_edges(t, AE_SIZED(aether_edge_search, hub, ends, 2, pairs, positions, EDGES), &hits, NULL,
                          err));
done:
    aether_topology_destroy(t);
    return rc;
})

SWEEP(columns_of_lists, {
    static uint32_t ids[EDGES];
    const aether_entry_column column = {AETHER_READ_NEIGHBORS, 4, ids};
    aether_topology *t = NULL;
    aether_list_place at = {0, 0};
    uint64_t count;
    MAKE(open_paged(&t, err));
    USE(aether_topology_read(t, AE_SIZED(aether_entry_columns, &column, 1, EDGES), &at, &count, NULL, err));
    CHECK_EQ(count, EDGES);
done:
    aether_topology_destroy(t);
    return rc;
})

/* Lists that are asked for: those of `ram`. */
static int answer(void *user, uint32_t what, const uint64_t *in, uint64_t n, uint64_t *out,
                  aether_error *err) {
    (void)user, (void)err;
    for (uint64_t i = 0; i < n; i++)
        if (what == AETHER_ASK_LISTS) {
            out[2 * i] = indptr[in[i]];
            out[2 * i + 1] = indptr[in[i] + 1] - indptr[in[i]];
        } else if (what == AETHER_ASK_WEIGHTS) {
            const double weight = weights[in[i]];
            memcpy(out + i, &weight, sizeof weight);
        } else {
            out[i] = what == AETHER_ASK_IDS ? indices[in[i]] : in[i];
        }
    return AETHER_OK;
}

SWEEP(weight_sums, {
    aether_weight_sums *own = NULL;
    rc = aether_weight_sums_create(ram, weights, AETHER_F32, &own, NULL, err);
    aether_weight_sums_destroy(own);
    return rc;
})

SWEEP(tables_of_walks, {
    static uint64_t alias[EDGES];
    static uint32_t members[EDGES];
    rc = aether_alias_build(ram, weights, AETHER_F32, alias, EDGES, NULL, err);
    return rc ? rc : aether_members_build(ram, members, EDGES, NULL, err);
})

/* ---- sampling --------------------------------------------------------------------------- */

static const int64_t fanouts[HOPS] = {12, 7};
static uint64_t hop_nodes[HOPS + 1], hop_edges[HOPS], totals[2];

/* Sample with these flags and values, one sample or a group, and export what was drawn. */
static int sample(const aether_topology *t, uint32_t flags, bool weighted, bool timed, const aether_values *w,
                  const aether_values *at, aether_error *err) {
    static int64_t node[EDGES * 2], row[EDGES * 2], col[EDGES * 2], edge[EDGES * 2];
    static int64_t until[SEEDS];
    int rc = 0;
    aether_sampler *s = NULL;
    const uint64_t num_nodes = NODES;
    aether_topology_facts facts;
    USE(aether_topology_describe(t, &facts, err));
    const bool own = weighted && facts.own_values;
    const aether_relation relation = {.topology = t,
                                      .weights = weighted && !own ? weights : NULL,
                                      .weight_dtype = AETHER_F32,
                                      .sums = weighted && !own ? sums : NULL,
                                      .own_values = own ? AETHER_OWN_WEIGHTS : 0,
                                      .times = timed ? times : NULL,
                                      .time_dtype = AETHER_I64,
                                      .times_of = timed ? AETHER_TIMES_OF_EDGES : 0,
                                      .weights_in_file = w,
                                      .times_in_file = at};
    const aether_seeds of = {.ids = seeds, .count = SEEDS, .until = timed ? until : NULL};
    const uint64_t some[] = {1, 5, 800};
    const aether_excluded excluded = {some, 3};
    static char bytes[EDGES * 512]; /* trees of all seeds hold most nodes, each with a row */
    const aether_versioned_rows rows = {.base = {features, NODES, WIDTH, WIDTH * 4, AETHER_F32, 0},
                                        .added = {NULL, 0, WIDTH, WIDTH * 4, AETHER_F32, 0}};
    const aether_part parts[] = {
        {AETHER_PART_NODES, 0, NULL}, {AETHER_PART_VALUES, 0, &rows}, {AETHER_PART_EDGES, 0, NULL}};
    const aether_packing packing = {parts, 3, HOPS, 1,
                                    AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, totals, totals + 1)};
    uint64_t size = 0;
    const aether_sample_options options = {.key = 3,
                                           .fanouts = fanouts,
                                           .num_hops = HOPS,
                                           .flags = flags,
                                           .num_threads = 1,
                                           .exclude = &excluded};
    for (int i = 0; i < SEEDS; i++)
        until[i] = 50 + i;
    MAKE(aether_sampler_create_typed(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &s, err));
    USE(aether_sample_typed(s, &of, &options,
                            AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, totals, totals + 1), err));
    USE(aether_sample_export(s,
                             AE_SIZED(aether_sample_arrays, .item_bytes = 8, .num_nodes = totals[0],
                                      .num_edges = totals[1], .node = node, .row = row, .col = col,
                                      .edge = edge),
                             err));
    MAKE(aether_sampler_retarget(s, AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), err));
    USE(aether_sample_packed(s, &of, &options, &packing, bytes, sizeof bytes, &size, err));
    CHECK(size <= sizeof bytes);
    USE(aether_sample_pack(s, 3, &packing, bytes, size, err));
done:
    aether_sampler_destroy(s);
    return rc;
}

SWEEP(sample, {
    rc = sample(ram, 0, false, false, NULL, NULL, err);
    return rc;
})
SWEEP(sample_with_replacement, {
    rc = sample(ram, AETHER_SAMPLE_REPLACE, false, false, NULL, NULL, err);
    return rc;
})
SWEEP(sample_disjoint, {
    rc = sample(ram, AETHER_SAMPLE_DISJOINT, false, false, NULL, NULL, err);
    return rc;
})
SWEEP(sample_induced, {
    rc = sample(ram, AETHER_SAMPLE_INDUCED, false, false, NULL, NULL, err);
    return rc;
})
SWEEP(sample_layered, {
    rc = sample(ram, AETHER_SAMPLE_LAYERED, false, false, NULL, NULL, err);
    return rc;
})
SWEEP(sample_weighted, {
    rc = sample(ram, 0, true, false, NULL, NULL, err);
    return rc;
})
SWEEP(sample_in_time, {
    rc = sample(ram, AETHER_SAMPLE_DISJOINT, false, true, NULL, NULL, err);
    return rc;
})

SWEEP(sample_of_pages, {
    aether_topology *t = NULL;
    MAKE(open_paged(&t, err));
    MAKE(aether_topology_keep_pages(t, 1 << 16, err));
    rc = sample(t, 0, false, false, NULL, NULL, err);
done:
    aether_topology_destroy(t);
    return rc;
})

SWEEP(sample_of_asked_lists, {
    const aether_asked_lists facts = {
        .num_major = NODES, .num_minor = NODES, .num_edges = EDGES, .edge_ids_are_positions = 1};
    aether_topology *t = NULL;
    uint64_t numbers[2] = {0, 1}, answers[2];
    MAKE(aether_topology_create_asked(&facts, answer, NULL, &t, err));
    USE(aether_topology_answer(t, AETHER_ASK_IDS, numbers, 2, answers, err));
    rc = sample(t, 0, false, false, NULL, NULL, err);
done:
    aether_topology_destroy(t);
    return rc;
})

SWEEP(weighted_sample_of_asked_lists, {
    const aether_asked_lists facts = {.num_major = NODES,
                                      .num_minor = NODES,
                                      .num_edges = EDGES,
                                      .edge_ids_are_positions = 1,
                                      .own_values = AETHER_OWN_WEIGHTS};
    aether_topology *t = NULL;
    MAKE(aether_topology_create_asked(&facts, answer, NULL, &t, err));
    rc = sample(t, 0, true, false, NULL, NULL, err);
done:
    aether_topology_destroy(t);
    return rc;
})

SWEEP(sample_of_one_type, {
    const aether_sample_options options = {.key = 3, .fanouts = fanouts, .num_hops = HOPS, .num_threads = 1};
    aether_sampler *s = NULL;
    MAKE(aether_sampler_create(ram, &s, err));
    USE(aether_sample(s, seeds, SEEDS, &options,
                      AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, totals, totals + 1), err));
done:
    aether_sampler_destroy(s);
    return rc;
})

SWEEP(sample_of_compressed_lists, {
    const aether_lists l = {NODES, NODES, EDGES, indptr, NULL, NULL, 4, 8};
    const aether_blocks own = {blocks.bytes, blocks.size, blocks.index, blocks.index_size};
    aether_topology *t = NULL;
    MAKE(aether_topology_create_compressed(&l, &own, &t, err));
    rc = sample(t, AETHER_SAMPLE_INDUCED, false, false, NULL, NULL, err);
done:
    aether_topology_destroy(t);
    return rc;
})

SWEEP(sample_of_compressed_pages, {
    const aether_lists l = {NODES, NODES, EDGES, NULL, NULL, NULL, 4, 8};
    const aether_blocks own = {NULL, blocks.size, NULL, blocks.index_size};
    aether_topology *t = NULL;
    MAKE(aether_topology_create_paged(
        &l, AE_SIZED(aether_lists_in_file, lists_io, indptr_at, blocks_at, &own, index_at), NULL, &t, err));
    rc = sample(t, 0, false, false, NULL, NULL, err);
done:
    aether_topology_destroy(t);
    return rc;
})

SWEEP(sample_of_values_in_a_file, {
    aether_topology *t = NULL;
    aether_values *w = NULL;
    aether_values *at = NULL;
    MAKE(open_paged(&t, err));
    MAKE(aether_values_open(lists_io, weights_at, EDGES, 4, &w, err));
    MAKE(aether_values_open(lists_io, times_at, EDGES, 8, &at, err));
    rc = sample(t, AETHER_SAMPLE_DISJOINT, true, true, w, at, err);
done:
    aether_values_close(w);
    aether_values_close(at);
    aether_topology_destroy(t);
    return rc;
})

SWEEP(times_in_a_file, {
    aether_values *at = NULL;
    MAKE(aether_values_open(lists_io, times_at, EDGES, 8, &at, err));
    const aether_relation relation = {
        .topology = ram, .time_dtype = AETHER_I64, .times_of = AETHER_TIMES_OF_EDGES, .times_in_file = at};
    USE(aether_check_times(&relation, NULL, err));
done:
    aether_values_close(at);
    return rc;
})

SWEEP(values, {
    static uint64_t positions[EDGES / 4];
    static float found[EDGES / 4];
    aether_values *w = NULL;
    aether_staging *staging = NULL;
    for (uint64_t i = 0; i < EDGES / 4; i++)
        positions[i] = i * 4;
    MAKE(aether_values_open(lists_io, weights_at, EDGES, 4, &w, err));
    MAKE(aether_values_keep_pages(w, 1 << 16, err));
    MAKE(aether_staging_create(0, 1 << 20, &staging, err));
    aether_staging_learn(staging, 1);
    for (int i = 0; i < 3; i++)
        USE(aether_values_gather(w, AE_SIZED(aether_value_request, positions, EDGES / 4, found, sizeof found),
                                 staging, NULL, err));
    CHECK_EQ(found[7], weights[28]);
done:
    aether_staging_destroy(staging);
    aether_values_close(w);
    return rc;
})

SWEEP(contexts, {
    enum { BUDGET = 300 };
    static int32_t types[SEEDS * BUDGET], from[SEEDS * BUDGET], depths[SEEDS * BUDGET], by[SEEDS * BUDGET];
    static int64_t ids[SEEDS * BUDGET], lengths[SEEDS];
    static uint32_t type[SEEDS];
    const uint64_t num_nodes = NODES;
    const int64_t all = -1;
    const aether_relation relation = {.topology = ram};
    const aether_context_seeds of = {type, seeds, NULL, SEEDS};
    const aether_context_options options = {.key = 1, .fanouts = &all, .budget = BUDGET, .num_threads = 1};
    const aether_context_rows rows = {types, ids, from, depths, by, lengths};
    rc = aether_sample_contexts(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &of, &options, &rows,
                                err);
    return rc;
})

SWEEP(group, {
    const uint64_t num_nodes = NODES;
    const aether_group_options room = {.capacity = 3, .num_threads = 1};
    aether_topology *t = NULL;
    aether_group *g = NULL;
    aether_sampler *s;
    aether_seeds of[3];
    aether_sample_options options[3];
    uint32_t failed;
    for (uint32_t i = 0; i < 3; i++) {
        of[i] = (aether_seeds){.ids = seeds + i, .count = SEEDS - 3};
        options[i] =
            (aether_sample_options){.key = i, .fanouts = fanouts, .num_hops = HOPS, .num_threads = 1};
    }
    MAKE(open_paged(&t, err));
    const aether_relation relation = {.topology = t};
    MAKE(aether_group_create(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &room, &g, err));
    USE(aether_group_sample(g, of, options, 3, &failed, NULL, err));
    for (uint32_t i = 0; i < 3; i++)
        MAKE(aether_group_take(g, i, AE_SIZED(aether_sample_counts, hop_nodes, hop_edges, totals, totals + 1),
                               &s, NULL, err));
    MAKE(aether_group_retarget(g, AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), err));
    rc = aether_group_sample(g, of, options, 3, &failed, NULL, err);
done:
    aether_group_destroy(g);
    aether_topology_destroy(t);
    return rc;
})

SWEEP(values_of_a_group, {
    static float found[3][EDGES];
    void *const out[3] = {found[0], found[1], found[2]};
    const uint64_t room[3] = {EDGES, EDGES, EDGES};
    const uint64_t num_nodes = NODES;
    const aether_group_options options = {.capacity = 3, .num_threads = 1};
    aether_topology *t = NULL;
    aether_values *w = NULL;
    aether_group *g = NULL;
    aether_seeds of[3];
    aether_sample_options each[3];
    uint64_t counts[3], hashes[3];
    uint32_t failed;
    for (uint32_t i = 0; i < 3; i++) {
        of[i] = (aether_seeds){.ids = seeds + i, .count = SEEDS - 3};
        each[i] = (aether_sample_options){.key = i, .fanouts = fanouts, .num_hops = HOPS, .num_threads = 1};
    }
    MAKE(open_paged(&t, err));
    MAKE(aether_values_open(lists_io, weights_at, EDGES, 4, &w, err));
    const aether_relation relation = {.topology = t};
    MAKE(aether_group_create(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &options, &g, err));
    MAKE(aether_group_sample(g, of, each, 3, &failed, NULL, err));
    MAKE(aether_group_edges(g, 0, counts, hashes, err));
    USE(aether_group_gather(g, 0, w, out, room, NULL, err));
done:
    aether_group_destroy(g);
    aether_values_close(w);
    aether_topology_destroy(t);
    return rc;
})

SWEEP(hgt, {
    const uint64_t num_nodes = NODES;
    const int64_t counts[] = {30, 20};
    const aether_relation relation = {.topology = ram};
    const aether_seeds of = {.ids = seeds, .count = SEEDS};
    const aether_hgt_options options = {.key = 1, .num_samples = counts, .num_hops = 2, .max_neighbors = 50};
    aether_sampler *s = NULL;
    MAKE(aether_sampler_create_typed(AE_SIZED(aether_schema, &relation, &num_nodes, 1, 1), &s, err));
    USE(aether_sample_hgt(s, &of, &options,
                          AE_SIZED(aether_sample_counts, hop_nodes, NULL, totals, totals + 1), err));
done:
    aether_sampler_destroy(s);
    return rc;
})

SWEEP(walks_of_pages, {
    static int64_t out[SEEDS * 8];
    const aether_walk_options plain = {.key = 1, .length = 6, .p = 1, .q = 1, .num_threads = 1};
    const aether_walk_options second = {.key = 1, .length = 6, .p = 0.5, .q = 2, .num_threads = 1};
    aether_topology *t = NULL;
    MAKE(open_paged(&t, err));
    USE(aether_random_walk(t, seeds, SEEDS, &plain, out, NULL, err));
    USE(aether_random_walk(t, seeds, SEEDS, &second, out, NULL, err));
    USE(aether_fanout(t, seeds, SEEDS,
                      AE_SIZED(aether_fanout_options, .key = 1, .k = 7, .flags = 0, .num_threads = 1), out,
                      NULL, err));
done:
    aether_topology_destroy(t);
    return rc;
})

/* ---- reading ---------------------------------------------------------------------------- */

SWEEP(io, {
    static uint8_t data[3][5000];
    aether_io *io = NULL;
    aether_io_request requests[3];
    for (uint64_t i = 0; i < 3; i++)
        requests[i] = (aether_io_request){.offset = i * 20011, .length = 4999, .buffer = data[i]};
    MAKE(aether_io_open(lists_path, NULL, &io, err));
    USE(aether_io_read(io, requests, 3, NULL, err));
done:
    aether_io_close(io);
    return rc;
})

SWEEP(probe, {
    rc = aether_io_probe(AETHER_IO_PREAD, err);
    return rc;
})

SWEEP(rows, {
    static float out[SEEDS * WIDTH];
    static uint64_t ids[SEEDS];
    const int64_t hot[] = {HUB, 5};
    const uint64_t ends[] = {SEEDS / 2, SEEDS};
    const aether_row_options options = {.num_rows = NODES,
                                        .row_items = WIDTH,
                                        .memory = 1 << 20,
                                        .hot = hot,
                                        .num_hot = 2,
                                        .hot_percent = 50,
                                        .dtype = AETHER_F32};
    aether_row_file *f = NULL;
    aether_row_plan *p = NULL;
    for (uint64_t i = 0; i < SEEDS; i++)
        ids[i] = (uint64_t)seeds[i];
    MAKE(aether_row_open(rows_path, &options, NULL, &f, err));
    USE(aether_row_gather(f, AE_SIZED(aether_row_request, seeds, SEEDS, out, sizeof out, 8, AETHER_F32), NULL,
                          err));
    MAKE(aether_row_plan_create(f, ids, ends, 2, &p, err));
    USE(aether_row_plan_gather(p, out, sizeof out / 2, AETHER_F32, NULL, err));
done:
    aether_row_plan_destroy(p);
    aether_row_close(f);
    return rc;
})

TEST_MAIN()
