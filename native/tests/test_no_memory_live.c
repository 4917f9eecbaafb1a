/* Refuse the allocations of what changes: live graphs, their logs, tables of rows, datagrams
 * (refused_memory.h). */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "refused_memory.h"

enum { NODES = 700, HUB = 3 };

/* One thread, so that allocation n is the same in every run. */
static void prepare(void) {
    aether_set_num_threads(1, NULL);
}

/* ---- live graphs ------------------------------------------------------------------------ */

SWEEP(live_graphs, {
    enum { INSERTED = 3000 };
    static int64_t major[INSERTED], minor[INSERTED];
    const aether_live_relation relation = {.num_src = NODES,
                                           .num_dst = NODES,
                                           .layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR,
                                           .order = AETHER_ORDER_TIME,
                                           .edge_id_bytes = 4};
    const aether_live_options o = {.relations = &relation, .num_relations = 1, .arena_bytes = 8 << 20};
    const aether_live_edges edges = {.src = minor, .dst = major, .count = INSERTED};
    aether_live *g = NULL, *other = NULL;
    aether_snapshot *s = NULL;
    int32_t descriptors[6];
    uint64_t n;
    for (int64_t i = 0; i < INSERTED; i++)
        major[i] = i < INSERTED / 2 ? i % NODES : HUB; /* INSERTED / 2 times the same edge */
    MAKE(aether_live_create(&o, &g, err));
    USE(aether_live_insert(g, 0, &edges, NULL, &n, err));
    MAKE(aether_snapshot_take(g, &s, err));
    USE(aether_live_insert(g, 0, &edges, NULL, &n, err)); /* the snapshot holds what this retires */
    CHECK_EQ(n, INSERTED);
    USE(aether_live_delete(g, 0, minor, &major[INSERTED - 1], NULL, 1, &n, err));
    CHECK(n >= INSERTED);
    USE(aether_live_delete(g, 0, minor, major, NULL, NODES / 2, &n, err)); /* all from the list of node 0 */
    CHECK(n >= NODES);
    aether_live_descriptors(g, descriptors);
    MAKE(aether_live_attach(descriptors, 6, &other, err));
done:
    aether_snapshot_release(s);
    aether_live_close(other);
    aether_live_close(g);
    aether_live_has_huge_pages(); /* memory of its own, which malloc knows nothing of */
    return rc;
})

static void remove_files(const char *dir) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

SWEEP(journals, {
    enum { INSERTED = 3000 };
    static int64_t ids[INSERTED];
    static uint8_t note[100 << 10];
    const aether_live_relation relation = {.num_src = NODES,
                                           .num_dst = NODES,
                                           .layouts = AETHER_LIVE_CSC,
                                           .order = AETHER_ORDER_TIME,
                                           .edge_id_bytes = 4};
    const aether_live_options o = {.relations = &relation, .num_relations = 1, .arena_bytes = 8 << 20};
    const aether_journal_options journal = {.segment_size = 64 << 10, .durability = AETHER_BATCH};
    const aether_live_edges edges = {.src = ids, .dst = ids, .count = INSERTED};
    char dir[128];
    aether_live *g = NULL;
    aether_live_stats stats;
    uint64_t n;
    for (int64_t i = 0; i < INSERTED; i++)
        ids[i] = i % NODES;
    mkdir(test_path(dir, sizeof dir, "journal"), 0700);
    remove_files(dir);
    MAKE(aether_live_create(&o, &g, err));
    USE(aether_live_open_journal(g, dir, &journal, 1, NULL, NULL, NULL, err));
    USE(aether_live_insert(g, 0, &edges, NULL, &n, err));
    USE(aether_live_note(g, 1, note, sizeof note, err)); /* segments and frames of them */
    USE(aether_live_delete(g, 0, ids, ids, NULL, 1, &n, err));
    MAKE(aether_live_flush(g, err));
    MAKE(aether_live_release_journal(g, 2, err));
    aether_live_close(g);
    g = NULL;
    MAKE(aether_live_create(&o, &g, err));
    USE(aether_live_insert(g, 0, &edges, NULL, &n, err));
    MAKE(aether_live_replay(g, dir, journal.graph, 2, 100, NULL, NULL, &n, NULL, err));
    aether_live_close(g);
    g = NULL;
    MAKE(aether_live_create(&o, &g, err));
    USE(aether_live_insert(g, 0, &edges, NULL, &n, err));
    MAKE(aether_live_open_journal(g, dir, &journal, 2, NULL, NULL, NULL, err));
    aether_live_count(g, &stats);
    CHECK(stats.num_edges < INSERTED);
done:
    aether_live_close(g);
    return rc;
})

static int insert_plain(aether_live *g, int64_t src, int64_t dst, aether_error *err) {
    const int64_t edge = aether_live_insert_plain(g, 0, src, dst, err);
    return edge < 0 ? (int)edge : AETHER_OK;
}

static int ask(const aether_live *g, int64_t node, aether_error *err) {
    int64_t ids[16];
    const int64_t listed = aether_live_neighbors(g, 0, AETHER_LIVE_CSC, node, ids, 16, err);
    const int64_t degree = listed < 0 ? listed : aether_live_degree(g, 0, AETHER_LIVE_CSC, node, err);
    const int is_edge = degree < 0 ? (int)degree : aether_live_has_edge(g, 0, node, node, err);
    return is_edge < 0 ? is_edge : AETHER_OK;
}

SWEEP(transactions, {
    const aether_live_relation relation = {.num_src = NODES,
                                           .num_dst = NODES,
                                           .layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR,
                                           .order = AETHER_ORDER_ID,
                                           .edge_id_bytes = 4};
    const aether_live_options o = {.relations = &relation, .num_relations = 1, .arena_bytes = 8 << 20};
    aether_live *g = NULL;
    aether_snapshot *s = NULL;
    int64_t ids[NODES];
    uint8_t found[NODES];
    int64_t id;
    int inserted;
    for (int64_t i = 0; i < NODES; i++)
        ids[i] = i;
    MAKE(aether_live_create(&o, &g, err));
    MAKE(aether_live_begin(g, err));
    for (int64_t i = 0; i < 200; i++)
        USE(aether_live_insert_one(g, 0, HUB, i, 0, 0, &id, &inserted, err));
    USE(aether_live_skip_edge_ids(g, 0, 100, err));
    MAKE(aether_live_commit(g, err));
    USE(aether_live_add_nodes(g, 0, 5000, 5000, err));
    MAKE(aether_live_begin(g, err));
    USE(aether_live_insert_one(g, 0, NODES + 1000, HUB, 0, 0, &id, &inserted, err));
    USE(insert_plain(g, NODES + 2000, HUB, err));
    MAKE(aether_live_abort(g, err));
    MAKE(aether_snapshot_take(g, &s, err));
    USE(aether_live_add_nodes(g, 0, 1 << 16, 1 << 16, err));
    USE(aether_snapshot_renew(s, err)); /* which maps the roots of these */
    USE(aether_snapshot_has_edges(s, 0, ids, ids, NODES, found, NULL, err));
    CHECK(found[HUB] && !found[HUB + 1]);
    USE(ask(g, HUB, err));
done:
    aether_snapshot_release(s);
    aether_live_close(g);
    return rc;
})

/* A log that is read and cut without a graph; the copy of a damaged one that is kept goes with it. */
SWEEP(closed_journals, {
    const aether_live_relation relation = {
        .num_src = NODES, .num_dst = NODES, .layouts = AETHER_LIVE_CSC, .order = AETHER_ORDER_ID};
    const aether_live_options o = {.relations = &relation, .num_relations = 1, .arena_bytes = 8 << 20};
    const aether_journal_options journal = {.segment_size = 64 << 10, .durability = AETHER_UNSYNCED};
    static uint8_t note[40 << 10];
    char dir[128];
    aether_live *g = NULL;
    uint64_t last = 0;
    mkdir(test_path(dir, sizeof dir, "closed"), 0700);
    remove_files(dir);
    MAKE(aether_live_create(&o, &g, err));
    MAKE(aether_live_open_journal(g, dir, &journal, 1, NULL, NULL, NULL, err));
    for (int i = 0; i < 3; i++)
        MAKE(aether_live_note(g, 1, note, sizeof note, err));
    USE(aether_live_close_journal(g, err));
    USE(aether_journal_verify(dir, journal.graph, 1, &last, NULL, err));
    CHECK_EQ(last, 3);
    USE(aether_journal_truncate(dir, journal.graph, 1, &last, err));
done:
    aether_live_close(g);
    return rc;
})

/* ---- tables of live rows ---------------------------------------------------------------- */

/* Puts and gathers rows; `t` is closed. */
static int use_table(aether_table *t, aether_error *err) {
    static float rows[NODES][20];
    static int64_t ids[NODES];
    uint64_t written;
    int rc = 0;
    for (int64_t i = 0; i < NODES; i++)
        ids[i] = NODES - 1 - i;
    aether_table_use_huge_pages(t);
    USE(aether_table_put(t, ids, NODES, rows, sizeof rows, NULL, &written, NULL, err));
    USE(aether_table_gather(t, ids, NODES, rows, sizeof rows, NULL, NULL, err));
done:
    aether_table_close(t);
    return rc;
}

static const aether_table_info facts = {.num_rows = NODES, .num_dims = 1, .shape = {20}, .dtype = AETHER_F32};

SWEEP(tables_in_memory, {
    aether_table *t = NULL;
    aether_table *other = NULL;
    MAKE(aether_table_create(NULL, &facts, &t, err));
    MAKE(aether_table_attach(aether_table_descriptor(t), 1, &other, err));
    rc = use_table(other, err);
done:
    aether_table_close(t);
    return rc;
})

SWEEP(tables_in_files, {
    char path[128];
    aether_table *t = NULL;
    unlink(test_path(path, sizeof path, "table"));
    MAKE(aether_table_create(path, &facts, &t, err));
    aether_table_close(t);
    t = NULL;
    MAKE(aether_table_open(path, 1, &t, err));
    rc = use_table(t, err);
done:
    return rc;
})

/* ---- datagrams -------------------------------------------------------------------------- */

/* Return a receiver of a socket of its own, or NULL. */
static aether_receiver *receiver(int *fd, aether_error *err) {
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK_EQ(bind(*fd, (const struct sockaddr *)&address, sizeof address), 0);
    return aether_receiver_open(*fd, 12, err);
}

SWEEP(receivers, {
    int fd;
    aether_receiver *r = receiver(&fd, err);
    rc = r ? 0 : err->code;
    aether_receiver_close(r);
    close(fd);
    return rc;
})

/* Its first allocation alone: with that, it goes on to a real interface. */
TEST(attaching_receivers) {
    aether_error err = {0};
    int fd;
    aether_receiver *r = receiver(&fd, &err);
    REQUIRE(r);
    allocations = 0;
    refused_one = 0;
    counting = true;
    const int rc = aether_receiver_attach(r, "lo", 1, &err);
    counting = false;
    grant_all();
    CHECK_EQ(rc, AETHER_E_NO_MEMORY);
    CHECK(err.message[0]);
    aether_receiver_close(r);
    close(fd);
}

TEST_MAIN()
