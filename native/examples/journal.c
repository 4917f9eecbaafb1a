/*
 * journal.c - a live graph that survives the end of its process: commit, forget everything, replay.
 *
 *   make -C native install PREFIX=$HOME/.local
 *   export PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig
 *   cc native/examples/journal.c $(pkg-config --cflags --libs aether) -o journal
 *   ./journal
 */
#define _XOPEN_SOURCE 700
#include <aether.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    const aether_live_relation follows = {.num_src = 5,
                                          .num_dst = 5,
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

int main(void) {
    char directory[] = "/tmp/aether-journal-XXXXXX", command[64];
    const int64_t src[] = {1, 2, 3}, dst[] = {0, 0, 4}, next = 3;
    const aether_live_edges edges = {.src = src, .dst = dst, .count = 3};
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
    aether_live_close(g);

    g = open_graph(directory, &offset, &err);
    aether_live_count(g, &stats);
    printf("%" PRIu64 " edges, go on reading at %" PRId64 "\n", stats.num_edges, offset);
    aether_live_close(g);

    snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command) != 0;
}
