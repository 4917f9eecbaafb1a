/*
 * live.c - a live graph: changes in a transaction, samples of a snapshot, and a log that outlives the
 * process.
 *
 *   make -C native install PREFIX=$HOME/.local
 *   export PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig
 *   cc native/examples/live.c $(pkg-config --cflags --libs aether) -o live
 *   ./live
 */
#define _XOPEN_SOURCE 700
#include <aether/live.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 5 };

static void check(int code, const aether_error *err) {
    if (code == AETHER_OK)
        return;
    fprintf(stderr, "error %d: %s\n", code, err->message);
    exit(1);
}

/* Notes are bytes of ours, in a commit of the graph: here, how far a source of edges was read. */
enum { OFFSET = 1 };

static int take_note(void *user, uint64_t lsn, uint32_t kind, const void *bytes, uint64_t size) {
    if (kind == OFFSET && size == sizeof(int64_t))
        memcpy(user, bytes, size);
    printf("replayed commit %" PRIu64 " with its note\n", lsn);
    return 0;
}

/* Open the graph as its log says that it was. */
static aether_live *open_graph(const char *directory, int64_t *offset, aether_error *err) {
    const aether_live_relation follows = {.num_src = NODES,
                                          .num_dst = NODES,
                                          .layouts = AETHER_LIVE_CSC,
                                          .order = AETHER_ORDER_TIME,
                                          .edge_id_bytes = 4};
    const aether_live_options options = {.relations = &follows, .num_relations = 1, .arena_bytes = 1 << 20};
    const aether_journal_options journal = {.graph = "one of our own", /* 16 bytes: better a uuid */
                                            .durability = AETHER_SYNC};
    aether_live *g = NULL;
    check(aether_live_create(&options, &g, err), err);
    check(aether_live_open_journal(g, directory, &journal, 1, take_note, offset, NULL, err), err);
    return g;
}

/* Draw all in-edges of node 0 and print them. */
static void sample(aether_sampler *sampler, const char *when) {
    enum { ROOM = 8 };
    const int64_t seed = 0, fanout = -1;
    const aether_sample_options options = {.fanouts = &fanout, .num_hops = 1, .num_threads = 1};
    uint64_t hop_nodes[2], hop_edges[1], num_nodes, num_edges;
    const aether_sample_counts counts = {.size = sizeof counts,
                                         .hop_nodes = hop_nodes,
                                         .hop_edges = hop_edges,
                                         .num_nodes = &num_nodes,
                                         .num_edges = &num_edges};
    int64_t node[ROOM], row[ROOM];
    aether_error err = {0};
    check(aether_sample(sampler, &seed, 1, &options, &counts, &err), &err);
    if (num_nodes > ROOM || num_edges > ROOM)
        exit(1);
    const aether_sample_arrays arrays = {.size = sizeof arrays,
                                         .num_nodes = num_nodes,
                                         .num_edges = num_edges,
                                         .node = node,
                                         .row = row,
                                         .item_bytes = 8};
    check(aether_sample_export(sampler, &arrays, &err), &err);
    printf("%s:", when);
    for (uint64_t i = 0; i < num_edges; i++)
        printf(" %" PRId64 " -> 0", node[row[i]]);
    printf("\n");
}

int main(void) {
    char directory[] = "/tmp/aether-live-XXXXXX", command[64];
    const int64_t src[] = {1, 2, 3}, dst[] = {0, 0, 4}, next = 3, late = 4, zero = 0;
    const aether_live_edges edges = {.src = src, .dst = dst, .count = 3};
    const aether_live_edges more = {.src = &late, .dst = &zero, .count = 1};
    int64_t offset = 0;
    uint64_t inserted;
    aether_live_stats stats;
    aether_error err = {0};
    if (!mkdtemp(directory))
        return 1;

    aether_live *g = open_graph(directory, &offset, &err);
    check(aether_live_begin(g, &err), &err); /* the edges and the offset, or neither */
    check(aether_live_insert(g, 0, &edges, NULL, &inserted, &err), &err);
    check(aether_live_note(g, OFFSET, &next, sizeof next, &err), &err);
    check(aether_live_commit(g, &err), &err); /* on disk */

    /* Readers, in any thread or process, see one commit until they go on to the next. */
    aether_snapshot *snapshot = NULL;
    aether_sampler *sampler = NULL;
    check(aether_snapshot_take(g, &snapshot, &err), &err);
    check(aether_sampler_create(aether_snapshot_topology(snapshot, 0, AETHER_LIVE_CSC), &sampler, &err),
          &err);
    check(aether_live_insert(g, 0, &more, NULL, &inserted, &err), &err); /* a commit of its own */
    sample(sampler, "as it was");
    check(aether_snapshot_renew(snapshot, &err), &err);
    sample(sampler, "as it is");
    aether_sampler_destroy(sampler);
    aether_snapshot_release(snapshot);
    aether_live_close(g);

    g = open_graph(directory, &offset, &err);
    aether_live_count(g, &stats);
    printf("%" PRIu64 " edges, go on reading at %" PRId64 "\n", stats.num_edges, offset);
    aether_live_close(g);

    snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command) != 0;
}
