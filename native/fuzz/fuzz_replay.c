/*
 * fuzz_replay: any bytes as the commits of a live graph.
 *
 *   input  | u16 size | payload | u16 size | payload | ...     one frame each
 *
 * Whatever is replayed, the graph stays whole: readers see every list, and the frames behind the first
 * that is refused do not count. Frames that went through are the same graph when they are replayed
 * into another one.
 */
#include <stdlib.h>
#include <string.h>

#include "core/options.h"
#include "durable/replay.h"
#include "must.h"

enum { MAX_SIZE = 1 << 14, NODES = 8, RELATIONS = 2 };

static aether_live *make(void) {
    static const aether_live_relation relations[RELATIONS] = {
        {.num_src = NODES,
         .num_dst = NODES,
         .max_src = 100,
         .max_dst = 100,
         .layouts = AETHER_LIVE_CSC | AETHER_LIVE_CSR,
         .order = AETHER_ORDER_TIME,
         .columns = AETHER_LIVE_TIMES | AETHER_LIVE_WEIGHTS,
         .edge_id_bytes = 8},
        {.num_src = NODES,
         .num_dst = NODES,
         .max_src = 100,
         .max_dst = 100,
         .layouts = AETHER_LIVE_CSC,
         .order = AETHER_ORDER_ID},
    };
    const aether_live_options o = {
        .relations = relations, .num_relations = RELATIONS, .arena_bytes = 1 << 20};
    aether_live *g;
    MUST(aether_live_create(&o, &g, NULL) == AETHER_OK);
    return g;
}

static int take_note(void *user, uint64_t lsn, uint32_t kind, const void *bytes, uint64_t size) {
    uint8_t *sum = user;
    for (uint64_t i = 0; i < size; i++)
        *sum += ((const uint8_t *)bytes)[i];
    return lsn == 0 || kind == 77;
}

/* Replay the frames of the input into a graph; return how many were applied. */
static uint64_t replay(aether_live *g, const uint8_t *input, size_t size) {
    uint8_t sum = 0;
    ae_replay r = {.g = g, .note = take_note, .user = &sum, .from = 1};
    uint64_t lsn = 0;
    while (size >= 2) {
        size_t bytes = (size_t)input[0] | (size_t)input[1] << 8;
        bytes = bytes < size - 2 ? bytes : size - 2;
        uint8_t *payload = malloc(bytes + !bytes);
        MUST(payload);
        memcpy(payload, input + 2, bytes);
        const ae_log_commit frame = {.lsn = lsn + 1, .payload = payload, .size = (uint32_t)bytes};
        aether_error err = {0};
        const int rc = ae_replay_frame(&r, &frame, &err);
        free(payload);
        MUST(!rc || (err.code == rc && err.message[0]));
        MUST(!rc || rc == AETHER_E_CORRUPT || rc == AETHER_E_VERSION || rc == AETHER_E_CANCELLED ||
             rc == AETHER_E_NO_MEMORY);
        if (rc)
            break;
        lsn++;
        input += 2 + bytes;
        size -= 2 + bytes;
    }
    ae_replay_end(&r);
    return lsn;
}

/* Read every list through a snapshot; return a sum of what is in them. */
static uint64_t read_all(const aether_live *g) {
    static const uint32_t layouts[] = {AETHER_LIVE_CSC, AETHER_LIVE_CSR};
    aether_snapshot *s;
    uint64_t sum = 0;
    MUST(aether_snapshot_take(g, &s, NULL) == AETHER_OK);
    for (uint32_t r = 0; r < RELATIONS; r++)
        for (int i = 0; i < 2; i++) {
            aether_topology *t = aether_snapshot_topology(s, r, layouts[i]);
            aether_live_commit_info info;
            if (!t)
                continue;
            MUST(aether_snapshot_describe(s, r, &info, NULL) == AETHER_OK);
            const uint64_t nodes = layouts[i] == AETHER_LIVE_CSC ? info.num_dst : info.num_src;
            uint64_t edges = 0;
            for (int64_t v = 0; v < (int64_t)nodes; v++) {
                static int64_t ids[MAX_SIZE];
                int64_t degree;
                MUST(aether_topology_degrees(t, &v, 1, &degree, NULL, NULL) == AETHER_OK);
                MUST(degree <= MAX_SIZE);
                MUST(aether_topology_neighbors(t,
                                               AE_SIZED(aether_list_request, .nodes = &v, .n = 1,
                                                        .capacity = (uint64_t)degree, .neighbors = ids),
                                               NULL, NULL) == AETHER_OK);
                for (int64_t k = 0; k < degree; k++)
                    sum = sum * 31 + (uint64_t)ids[k];
                edges += (uint64_t)degree;
            }
            MUST(edges == info.num_edges);
            sum = sum * 31 + info.end_edge_ids;
        }
    aether_snapshot_release(s);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (size > MAX_SIZE)
        return 0;
    aether_live *g = make(), *again = make();
    const uint64_t applied = replay(g, input, size);
    MUST(replay(again, input, size) == applied);
    MUST(read_all(g) == read_all(again));
    aether_live_close(g);
    aether_live_close(again);
    return 0;
}
