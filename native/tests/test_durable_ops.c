/* Operations as bytes: what is encoded is decoded, and what is no operation is refused. */
#include "durable/ops.h"
#include "test.h"

enum { MOST = 300, ROOM = 1 << 14, OPS = 12 };

static int64_t src[MOST], dst[MOST], times[MOST], edge_ids[MOST];
static float weights[MOST];
static uint8_t note[MOST];

/* What op i of a payload is made of. */
typedef struct plan {
    uint32_t kind, flags, of;
    uint64_t n, number; /* number: first edge id, lsn, nodes */
} plan;

static void fill_columns(uint64_t *state) {
    for (int i = 0; i < MOST; i++) {
        src[i] = (int64_t)(test_random(state) & UINT32_MAX);
        dst[i] = (int64_t)(test_random(state) & UINT32_MAX);
        times[i] = (int64_t)test_random(state);
        edge_ids[i] = (int64_t)(test_random(state) >> 1);
        weights[i] = (float)(test_random(state) % 1000) / 7;
        note[i] = (uint8_t)test_random(state);
    }
}

static plan random_plan(uint64_t *state) {
    plan p = {.kind = 1 + (uint32_t)(test_random(state) % 5),
              .flags = (uint32_t)(test_random(state) % 2),
              .of = (uint32_t)test_random(state),
              .n = test_random(state) % (test_random(state) % 2 ? 4 : MOST),
              .number = test_random(state)};
    if (p.kind == AE_OP_EDGES)
        p.flags = (uint32_t)(test_random(state) % 4);
    if (p.kind == AE_OP_NODES)
        p.flags = 0;
    if (p.kind == AE_OP_PART)
        p.of = 0;
    return p;
}

static uint64_t put(const plan *p, uint8_t *at) {
    switch (p->kind) {
    case AE_OP_PART:
        ae_op_put_part(at, p->number, p->flags & AE_OP_LAST);
        return AE_OP_HEADER_BYTES;
    case AE_OP_EDGES:
        ae_op_put_edges(at, p->of, p->flags, p->number, src, dst, times, weights, p->n);
        return ae_op_edges_bytes(p->n, p->flags);
    case AE_OP_DELETE:
        ae_op_put_delete(at, p->of, p->flags, src, dst, edge_ids, p->n);
        return ae_op_delete_bytes(p->n, p->flags);
    case AE_OP_NODES:
        ae_op_put_nodes(at, p->of, p->number, p->n);
        return ae_op_nodes_bytes();
    default:
        ae_op_put_note(at, p->of, p->flags & AE_OP_GOES_ON, note, p->n);
        return ae_op_note_bytes(p->n);
    }
}

static uint64_t wrong_ids(const uint32_t *got, const int64_t *expected, uint64_t n) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < n; i++)
        wrong += got[i] != (uint64_t)expected[i];
    return wrong;
}

static void check(const ae_op *op, const plan *p) {
    CHECK_EQ(op->kind, p->kind);
    CHECK_EQ(op->flags, p->flags);
    CHECK_EQ(op->of, p->of);
    switch (p->kind) {
    case AE_OP_PART:
        CHECK_EQ(op->count, p->number);
        break;
    case AE_OP_EDGES:
        CHECK_EQ(op->count, p->n);
        CHECK_EQ(op->first_edge_id, p->number);
        CHECK_EQ(wrong_ids(op->src, src, p->n) + wrong_ids(op->dst, dst, p->n), 0);
        CHECK(!op->times == !(p->flags & AE_OP_TIMES) && !op->weights == !(p->flags & AE_OP_WEIGHTS));
        CHECK(!op->times || memcmp(op->times, times, p->n * sizeof *times) == 0);
        CHECK(!op->weights || memcmp(op->weights, weights, p->n * sizeof *weights) == 0);
        break;
    case AE_OP_DELETE:
        CHECK_EQ(op->count, p->n);
        CHECK_EQ(wrong_ids(op->src, src, p->n) + wrong_ids(op->dst, dst, p->n), 0);
        CHECK(!op->edge_ids == !(p->flags & AE_OP_EDGE_IDS));
        CHECK(!op->edge_ids || memcmp(op->edge_ids, edge_ids, p->n * sizeof *edge_ids) == 0);
        break;
    case AE_OP_NODES:
        CHECK_EQ(op->num_src, p->number);
        CHECK_EQ(op->num_dst, p->n);
        break;
    default:
        CHECK_EQ(op->count, p->n);
        CHECK(memcmp(op->bytes, note, p->n) == 0);
    }
}

TEST(what_is_encoded_is_decoded) {
    static _Alignas(8) uint8_t payload[OPS * ROOM];
    uint64_t state = 1;
    for (int round = 0; round < 300; round++) {
        plan plans[OPS];
        uint64_t size = 0, at = 0;
        memset(payload, 0xAA, sizeof payload); /* padding is written, too */
        fill_columns(&state);
        for (int i = 0; i < OPS; i++) {
            plans[i] = random_plan(&state);
            size += put(&plans[i], payload + size);
        }
        for (int i = 0; i < OPS; i++) {
            ae_op op;
            aether_error err = {0};
            REQUIRE_OK(ae_op_decode(payload, size, &at, &op, &err), err);
            check(&op, &plans[i]);
        }
        CHECK_EQ(at, size);
    }
}

TEST(one_edge_is_cheap) {
    CHECK_EQ(ae_op_edges_bytes(1, 0), 32);
    CHECK(ae_op_edges_bytes(1, AE_OP_TIMES | AE_OP_WEIGHTS) <= 64);
    CHECK_EQ(ae_op_edges_bytes(1000, 0), 24 + 8 * 1000);
}

TEST(as_many_as_fit_and_not_one_more) {
    for (uint64_t room = 0; room < 400; room++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            const uint64_t edges = ae_op_edges_fit(room, flags);
            CHECK(!edges || ae_op_edges_bytes(edges, flags) <= room);
            CHECK(ae_op_edges_bytes(edges + 1, flags) > room);
            const uint64_t pairs = ae_op_delete_fit(room, flags & 1);
            CHECK(!pairs || ae_op_delete_bytes(pairs, flags & 1) <= room);
            CHECK(ae_op_delete_bytes(pairs + 1, flags & 1) > room);
            const uint64_t bytes = ae_op_note_fit(room);
            CHECK(!bytes || ae_op_note_bytes(bytes) <= room);
            CHECK(ae_op_note_bytes(bytes + 1) > room);
        }
}

/* The payload has the size that is said and no byte more, so that sanitizers see what is read beyond. */
TEST(what_is_cut_off_is_refused) {
    uint64_t state = 2;
    static _Alignas(8) uint8_t whole[ROOM];
    for (int round = 0; round < 60; round++) {
        fill_columns(&state);
        const plan p = random_plan(&state);
        const uint64_t size = put(&p, whole);
        for (uint64_t cut = 0; cut < size; cut++) {
            uint8_t *part = malloc(cut + !cut);
            uint64_t at = 0;
            ae_op op;
            aether_error err = {0};
            memcpy(part, whole, cut);
            CHECK_CODE(ae_op_decode(part, cut, &at, &op, &err), AETHER_E_CORRUPT);
            CHECK_EQ(err.position, 0);
            CHECK_EQ(at, 0);
            free(part);
        }
    }
}

static int decode(const uint8_t *payload, uint64_t size, aether_error *err) {
    uint64_t at = 0;
    ae_op op;
    return ae_op_decode(payload, size, &at, &op, err);
}

TEST(what_is_no_op_is_refused) {
    _Alignas(8) uint8_t payload[64];
    const int64_t id = 5;
    const float weight = 1;
    aether_error err = {0};
    ae_op_put_edges(payload, 0, AE_OP_WEIGHTS, 0, &id, &id, NULL, &weight, 1);
    const uint64_t size = ae_op_edges_bytes(1, AE_OP_WEIGHTS);
    CHECK_OK(decode(payload, size, &err), err);
    payload[size - 1] = 1; /* padding */
    CHECK_CODE(decode(payload, size, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "zeros");
    payload[size - 1] = 0;
    payload[2] = 1; /* header */
    CHECK_CODE(decode(payload, size, &err), AETHER_E_CORRUPT);
    payload[2] = 0;
    payload[1] = 4;
    CHECK_CODE(decode(payload, size, &err), AETHER_E_VERSION);
    CHECK_HAS(err.message, "flags 4");
    payload[1] = AE_OP_WEIGHTS;
    payload[0] = 6;
    CHECK_CODE(decode(payload, size, &err), AETHER_E_VERSION);
    CHECK_HAS(err.message, "kind 6");
    payload[0] = 0;
    CHECK_CODE(decode(payload, size, &err), AETHER_E_VERSION);
    for (int kind = AE_OP_PART; kind <= AE_OP_NOTE; kind++) /* counts whose bytes overflow */
        for (int high = 3; high < 8; high++) {
            memset(payload, 0, sizeof payload);
            payload[0] = (uint8_t)kind;
            payload[8 + high] = 0x80;
            const int rc = decode(payload, sizeof payload, &err);
            CHECK(rc == (kind == AE_OP_PART ? AETHER_OK : AETHER_E_CORRUPT));
        }
}

TEST_MAIN()
