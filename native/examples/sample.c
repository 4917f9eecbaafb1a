/*
 * sample.c - a graph in a file, from edges to batches: write it once, map it, sample, gather the rows of the
 * nodes.
 *
 *   make -C native install PREFIX=$HOME/.local
 *   export PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig
 *   cc native/examples/sample.c $(pkg-config --cflags --libs aether) -o sample
 *   ./sample
 */
#define _XOPEN_SOURCE 700
#include <aether/build.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if AETHER_VERSION_NUMBER < AETHER_MAKE_VERSION(0, 1, 0)
#error "this example needs aether 0.1"
#endif

enum { NODES = 5, EDGES = 8, HOPS = 2, DIMS = 2 };

/* Every function returns 0 or a negative code, and fills the error that it is given. */
static void check(int code, const aether_error *err) {
    if (code == AETHER_OK)
        return;
    fprintf(stderr, "error %d: %s\n", code, err->message);
    exit(1);
}

static void write_section(aether_writer *w, uint32_t kind, uint32_t dtype, const void *data, uint64_t size) {
    aether_error err = {0};
    check(aether_writer_begin(w, kind, 0, dtype, &err), &err);
    check(aether_writer_append(w, data, size, NULL, &err), &err);
    check(aether_writer_end(w, &err), &err);
}

/* Write lists and rows as a container. For Python it would also need a section META (FORMAT.md). */
static void write_graph(const char *path) {
    /* Messages flow from src to dst, so lists are grouped by dst: node 0 hears from 1, 2 and 3. */
    const int64_t src[] = {1, 2, 3, 2, 3, 4, 0, 4};
    const int64_t dst[] = {0, 0, 0, 1, 1, 2, 3, 3};
    const float x[NODES][DIMS] = {{0, 0.5f}, {1, 1.5f}, {2, 2.5f}, {3, 3.5f}, {4, 4.5f}};
    uint64_t indptr[NODES + 1];
    uint32_t indices[EDGES];
    aether_writer *w = NULL;
    aether_error err = {0};
    const aether_edge_list edges = {.size = sizeof edges,
                                    .major = dst,
                                    .minor = src,
                                    .num_edges = EDGES,
                                    .num_major = NODES,
                                    .num_minor = NODES};
    const aether_built_lists lists = {
        .size = sizeof lists, .indptr = indptr, .indices = indices, .id_bytes = 4};
    check(aether_build_lists(&edges, &lists, NULL, &err), &err);
    check(aether_writer_create(path, AETHER_CONTENT_GRAPH, &w, &err), &err);
    write_section(w, AETHER_SECTION_CSC_INDPTR, AETHER_U64, indptr, sizeof indptr);
    write_section(w, AETHER_SECTION_CSC_INDICES, AETHER_U32, indices, sizeof indices);
    write_section(w, AETHER_SECTION_ARRAY, AETHER_F32, x, sizeof x);
    check(aether_writer_commit(w, &err), &err); /* from now on the file is there, whole */
}

/* Return the mapped bytes of the section of a kind. */
static const void *map(const aether_file *file, uint32_t kind) {
    aether_section section;
    aether_error err = {0};
    for (uint32_t i = 0; i < aether_file_num_sections(file); i++) {
        check(aether_file_section(file, i, &section, &err), &err);
        if (section.kind == kind)
            return aether_file_data(file, i);
    }
    fprintf(stderr, "no section of kind %" PRIu32 "\n", kind);
    exit(1);
}

int main(void) {
    char folder[] = "/tmp/aether-sample-XXXXXX", path[64];
    aether_error err = {0};
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/graph", folder);
    write_graph(path);

    aether_file *file = NULL;
    check(aether_file_open(path, &file, &err), &err);
    const aether_lists lists = {.num_major = NODES,
                                .num_minor = NODES,
                                .num_edges = EDGES,
                                .indptr = map(file, AETHER_SECTION_CSC_INDPTR),
                                .indices = map(file, AETHER_SECTION_CSC_INDICES),
                                .id_bytes = 4};
    const aether_rows rows = {.data = map(file, AETHER_SECTION_ARRAY),
                              .num_rows = NODES,
                              .row_items = DIMS,
                              .stride = DIMS * sizeof(float),
                              .dtype = AETHER_F32};
    aether_topology *topology = NULL;
    aether_sampler *sampler = NULL;
    check(aether_topology_create(&lists, &topology, &err), &err);
    check(aether_sampler_create(topology, &sampler, &err), &err);

    /* For each batch. The key decides all draws: the same key gives the same sample, on any machine. */
    const int64_t seeds[] = {0}, fanouts[HOPS] = {2, 2};
    const aether_sample_options options = {.key = 7, .fanouts = fanouts, .num_hops = HOPS, .num_threads = 1};
    uint64_t hop_nodes[HOPS + 1], hop_edges[HOPS], num_nodes, num_edges;
    const aether_sample_counts counts = {.size = sizeof counts,
                                         .hop_nodes = hop_nodes,
                                         .hop_edges = hop_edges,
                                         .num_nodes = &num_nodes,
                                         .num_edges = &num_edges};
    aether_guard();
    check(aether_sample(sampler, seeds, 1, &options, &counts, &err), &err);

    int64_t *node = calloc(num_nodes, sizeof *node), *row = calloc(num_edges, sizeof *row);
    int64_t *col = calloc(num_edges, sizeof *col), *edge = calloc(num_edges, sizeof *edge);
    float *x = calloc(num_nodes * DIMS, sizeof *x);
    if (!node || !row || !col || !edge || !x)
        return 1;
    const aether_sample_arrays arrays = {.size = sizeof arrays,
                                         .num_nodes = num_nodes,
                                         .num_edges = num_edges,
                                         .node = node,
                                         .row = row,
                                         .col = col,
                                         .edge = edge,
                                         .item_bytes = 8};
    check(aether_sample_export(sampler, &arrays, &err), &err);
    const aether_row_request request = {.size = sizeof request,
                                        .ids = node,
                                        .n = num_nodes,
                                        .out = x,
                                        .out_size = num_nodes * DIMS * sizeof *x,
                                        .id_bytes = 8,
                                        .out_dtype = AETHER_F32};
    check(aether_gather(&rows, &request, NULL, &err), &err);
    check(aether_file_check(file, &err), &err); /* what was read was there */

    printf("%" PRIu64 " nodes, %" PRIu64 " edges, aether %s\n", num_nodes, num_edges, aether_version());
    for (uint64_t i = 0; i < num_edges; i++)
        printf("%" PRId64 " -> %" PRId64 " (edge %" PRId64 ")\n", node[row[i]], node[col[i]], edge[i]);
    for (uint64_t i = 0; i < num_nodes; i++)
        printf("row of %" PRId64 ": %g %g\n", node[i], x[i * DIMS], x[i * DIMS + 1]);

    free(node);
    free(row);
    free(col);
    free(edge);
    free(x);
    aether_sampler_destroy(sampler);
    aether_topology_destroy(topology);
    aether_file_close(file);
    return unlink(path) || rmdir(folder);
}
