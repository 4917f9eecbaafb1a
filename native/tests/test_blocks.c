/* Compressed ids: every id back, from whole blocks, one at a time, and through a topology. */
#include "block_ids.h"
#include "topology/topology.h"

static const uint64_t limits[] = {
    1, 2, 100, 70000, (uint64_t)1 << 31, UINT32_MAX, (uint64_t)1 << 40, INT64_MAX - 1};

#define FOR_EACH_CASE(kind, limit, id_bytes)                                                                 \
    for (uint32_t kind = 0; kind < ID_PATTERNS; kind++)                                                      \
        for (uint32_t l_ = 0; l_ < 8; l_++)                                                                  \
            for (uint64_t limit = limits[l_], id_bytes = limit <= UINT32_MAX ? 4 : 8; id_bytes <= 8;         \
                 id_bytes += 4)

TEST(ids_come_back) {
    uint64_t ids[AE_BLOCK], out[AE_BLOCK];
    uint32_t kinds = 0;
    FOR_EACH_CASE(pattern, limit, id_bytes) {
        for (uint32_t n = 1; n <= AE_BLOCK; n += n < 8 || n > 120 ? 1 : 13) {
            id_pattern(pattern, limit, n, n * 31 + pattern, ids);
            void *array = id_array(ids, n, (uint32_t)id_bytes);
            uint8_t room[AE_BLOCK_MAX(8)];
            uint64_t size = ae_block_encode(array, (uint32_t)id_bytes, n, room), wrong = 0;
            REQUIRE(size <= AE_BLOCK_MAX(id_bytes));
            uint8_t *bytes = malloc(size); /* its end is the end of what may be read */
            memcpy(bytes, room, size);
            ae_block b;
            REQUIRE(ae_block_open(bytes, size, size, (uint32_t)id_bytes, n, &b));
            kinds |= 1u << (b.kind * 3 + b.class_bits);
            ae_block_decode(&b, out);
            for (uint32_t i = 0; i < n; i++)
                wrong += out[i] != ids[i] || ae_block_at(&b, n - 1 - i) != ids[n - 1 - i];
            CHECK_EQ(wrong, 0);
            free(bytes);
            free(array);
        }
    }
    CHECK_EQ(kinds, 0x1F7); /* all kinds with 1, 2 and 4 widths, but no distances of one width: heights do */
}

static double bits_per_id(uint32_t pattern, uint64_t limit, uint64_t n) {
    uint64_t *ids = malloc(n * sizeof *ids);
    id_pattern(pattern, limit, n, 3, ids);
    id_blocks b = id_encode(ids, n, 4);
    double bits = 8.0 * (double)(b.size + b.index_size) / (double)n;
    id_release(&b);
    free(ids);
    return bits;
}

/* Random ids take what their range asks for; others less. */
TEST(sizes_are_what_the_ids_ask_for) {
    const uint64_t limit = (uint64_t)1 << 27;
    CHECK(bits_per_id(0, limit, 1 << 16) < 0.7);
    CHECK(bits_per_id(1, limit, 1 << 16) < 27.7);
    CHECK(bits_per_id(2, limit, 1 << 16) < 18.8); /* 18 bits: a thousandth of the range */
    CHECK(bits_per_id(3, limit, 1 << 16) < 21.8); /* a tenth of them far away */
    CHECK(bits_per_id(6, limit, 1 << 16) < 14.8); /* differences of 2048 */
    CHECK(bits_per_id(9, limit, 1 << 16) < 3.9);  /* 2 bits, classes of one, and 27 once */
}

static aether_lists whole_list(const uint64_t indptr[2], uint64_t limit, uint32_t id_bytes) {
    return (aether_lists){.num_major = 1,
                          .num_minor = limit,
                          .num_edges = indptr[1],
                          .indptr = indptr,
                          .id_bytes = id_bytes,
                          .edge_id_bytes = 8};
}

static aether_topology *open_blocks(const id_blocks *b, const aether_lists *lists, aether_error *err) {
    aether_blocks blocks = {b->bytes, b->size, b->index, b->index_size};
    aether_topology *t = NULL;
    int rc = aether_topology_create_compressed(lists, &blocks, &t, err);
    if (rc)
        TEST_FAIL("%d %s", rc, err->message);
    return t;
}

TEST_ONE_THREAD(a_topology_fetches_any_positions) {
    FOR_EACH_CASE(pattern, limit, id_bytes) {
        uint64_t n = 5000 + 77 * pattern, seed = pattern, wrong = 0;
        uint64_t indptr[2] = {0, n};
        uint64_t *ids = malloc(n * sizeof *ids), *positions = malloc(n * sizeof *ids);
        uint64_t *out = malloc(n * sizeof *ids);
        id_pattern(pattern, limit, n, 5, ids);
        id_blocks b = id_encode(ids, n, (uint32_t)id_bytes);
        aether_lists lists = whole_list(indptr, limit, (uint32_t)id_bytes);
        aether_error err;
        aether_topology *t = open_blocks(&b, &lists, &err);
        REQUIRE(t != NULL);
        for (uint64_t i = 0; i < n; i++)
            positions[i] =
                i % 50 < 25 ? test_random(&seed) % n : positions[i - 1] + (positions[i - 1] + 1 < n);
        t->ops->prefetch(t, positions, n);
        CHECK_OK(t->ops->fetch(t, positions, n, out, &err), err);
        for (uint64_t i = 0; i < n; i++)
            wrong += out[i] != ids[positions[i]];
        CHECK_OK(aether_topology_ids_from(t, 100, n - 200, out, 8, NULL, &err), err);
        wrong += memcmp(out, ids + 100, (n - 200) * sizeof *ids) != 0;
        CHECK_OK(aether_topology_ids(t, (int64_t *)positions, n, out, 8, NULL, &err), err);
        for (uint64_t i = 0; i < n; i++)
            wrong += out[i] != ids[positions[i]];
        CHECK_OK(t->ops->edge_ids(t, positions, n, out, &err), err);
        wrong += memcmp(out, positions, n * sizeof *out) != 0;
        CHECK_EQ(wrong, 0);
        aether_topology_destroy(t);
        id_release(&b);
        free(ids);
        free(positions);
        free(out);
    }
}

/* Several chunks of threads, put together without gaps. */
TEST(long_arrays_are_encoded_by_many_threads) {
    uint64_t n = 300001, indptr[2] = {0, n};
    uint64_t *ids = malloc(n * sizeof *ids);
    uint32_t *out = malloc(n * sizeof *out);
    aether_task task = {0};
    aether_error err;
    id_pattern(3, 1000000, n, 5, ids);
    id_blocks b = id_encode(ids, n, 4);
    aether_lists lists = whole_list(indptr, 1000000, 4);
    aether_topology *t = open_blocks(&b, &lists, &err);
    REQUIRE(t != NULL);
    CHECK_OK(aether_topology_ids_from(t, 0, n, out, 4, &task, &err), err);
    CHECK_EQ(task.done, n);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < n; i++)
        wrong += out[i] != ids[i];
    CHECK_EQ(wrong, 0);
    task.cancel = 1;
    CHECK_CODE(aether_topology_ids_from(t, 0, n, out, 4, &task, &err), AETHER_E_CANCELLED);
    CHECK_CODE(aether_topology_ids_from(t, 1, n, out, 4, NULL, &err), AETHER_E_RANGE);
    int64_t positions[] = {5, (int64_t)n, -1};
    CHECK_CODE(aether_topology_ids(t, positions, 3, out, 4, NULL, &err), AETHER_E_RANGE);
    CHECK_EQ(err.position, 1);
    CHECK_CODE(aether_topology_ids(t, positions + 2, 1, out, 4, NULL, &err), AETHER_E_RANGE);
    CHECK_EQ(err.value, -1);
    aether_topology_destroy(t);
    id_release(&b);
    free(ids);
    free(out);
}

/* Blocks decoded from a copy of their bytes, as a reader of pages has them. */
TEST(blocks_are_decoded_from_bytes_read_elsewhere) {
    uint64_t n = 9001, seed = 1, wrong = 0, ids[AE_BLOCK];
    uint64_t *all = malloc(n * sizeof *all);
    id_pattern(5, 1 << 20, n, 5, all);
    id_blocks b = id_encode(all, n, 4);
    for (uint32_t round = 0; round < 500; round++) {
        uint64_t first = test_random(&seed) % n, count = 1 + test_random(&seed) % (n - first), begin, end;
        ae_block_span(b.index, first, count, &begin, &end);
        uint8_t *bytes = malloc(end - begin);
        memcpy(bytes, b.bytes + begin, end - begin);
        for (uint64_t number = first / AE_BLOCK; number * AE_BLOCK < first + count; number++) {
            uint64_t from, to, at = number * AE_BLOCK, left = n - at;
            ae_block block;
            ae_block_range(b.index, number, &from, &to);
            REQUIRE(ae_block_open(bytes + from - begin, to - from, end - from, 4,
                                  left < AE_BLOCK ? (uint32_t)left : AE_BLOCK, &block));
            ae_block_decode(&block, ids);
            wrong += memcmp(ids, all + at, block.count * sizeof *ids) != 0;
        }
        free(bytes);
    }
    CHECK_EQ(wrong, 0);
    id_release(&b);
    free(all);
}

TEST(no_edges) {
    uint64_t indptr[2] = {0, 0}, none = 0;
    id_blocks b = id_encode(&none, 0, 4);
    aether_lists lists = whole_list(indptr, 5, 4);
    aether_error err;
    CHECK_EQ(b.size, 0);
    CHECK_EQ(b.index_size, 40);
    aether_topology *t = open_blocks(&b, &lists, &err);
    REQUIRE(t != NULL);
    CHECK_OK(aether_topology_ids_from(t, 0, 0, NULL, 4, NULL, &err), err);
    aether_topology_destroy(t);
    id_release(&b);
}

/* ---- damage ------------------------------------------------------------------------------- */

TEST(blocks_that_cannot_be_are_refused) {
    uint64_t ids[AE_BLOCK];
    uint8_t bytes[AE_BLOCK_MAX(8) + 1];
    ae_block b;
    id_pattern(3, 1 << 20, AE_BLOCK, 1, ids);
    uint64_t size = ae_block_encode(ids, 8, AE_BLOCK, bytes);
    CHECK(ae_block_open(bytes, size, size + 1, 8, AE_BLOCK, &b));
    for (uint64_t shorter = 0; shorter < size; shorter++)
        CHECK(!ae_block_open(bytes, shorter, size, 8, AE_BLOCK, &b));
    CHECK(!ae_block_open(bytes, size + 1, size + 1, 8, AE_BLOCK, &b)); /* bytes that nothing accounts for */
    CHECK(!ae_block_open(bytes, size, size - 1, 8, AE_BLOCK, &b));
    for (uint32_t head = 0; head < 256; head++) {
        uint8_t right = bytes[0];
        bytes[0] = (uint8_t)head;
        bool opened = ae_block_open(bytes, size, size, 8, AE_BLOCK, &b);
        CHECK(!opened || ((head & 3) < 3 && head < 12));
        bytes[0] = right;
    }
    for (uint32_t width = 65; width < 256; width++) {
        bytes[9] = (uint8_t)width;
        CHECK(!ae_block_open(bytes, size, size, 8, AE_BLOCK, &b));
    }
}

TEST_ONE_THREAD(random_damage_is_reported_or_gives_other_ids) {
    uint64_t n = 4000, indptr[2] = {0, n}, seed = 1;
    uint64_t *ids = malloc(n * sizeof *ids), *out = malloc(n * sizeof *out);
    uint32_t reported = 0;
    for (uint32_t round = 0; round < 3000; round++) {
        id_pattern(round % ID_PATTERNS, 1 << 20, n, round % 30, ids);
        id_blocks b = id_encode(ids, n, 4);
        aether_lists lists = whole_list(indptr, 1 << 20, 4);
        aether_error err;
        aether_topology *t = open_blocks(&b, &lists, &err);
        REQUIRE(t != NULL);
        for (uint64_t flips = 1 + test_random(&seed) % 20; flips; flips--) {
            bool in_index = test_random(&seed) % 3 == 0;
            uint8_t *bytes = in_index ? (uint8_t *)b.index : b.bytes;
            uint64_t size = in_index ? b.index_size : b.size;
            bytes[test_random(&seed) % size] = (uint8_t)test_random(&seed);
        }
        int rc = aether_topology_ids_from(t, 0, n, out, 8, NULL, &err);
        CHECK(rc == AETHER_OK || rc == AETHER_E_CORRUPT);
        reported += rc != AETHER_OK;
        for (uint64_t i = 0; i < n && !rc; i++)
            CHECK(out[i] < 1 << 20);
        aether_topology_destroy(t);
        id_release(&b);
    }
    CHECK(reported > 1000);
    free(ids);
    free(out);
}

TEST(damage_is_named) {
    uint64_t n = 1000, indptr[2] = {0, n}, ids[1000], out[1000];
    aether_error err;
    id_pattern(1, 500, n, 1, ids);
    id_blocks b = id_encode(ids, n, 4);
    aether_lists lists = whole_list(indptr, 500, 4);
    aether_blocks blocks = {b.bytes, b.size, b.index, b.index_size};
    aether_topology *t = open_blocks(&b, &lists, &err);
    REQUIRE(t != NULL);
    b.bytes[b.index[0].after[3]] = 0xFF;
    CHECK_CODE(aether_topology_ids_from(t, 0, n, out, 8, NULL, &err), AETHER_E_CORRUPT);
    CHECK_EQ(err.position, 3 * 128);
    CHECK_HAS(err.message, "block 3 of the compressed ids");
    aether_topology_destroy(t);
    blocks.index_size -= 40;
    CHECK_CODE(aether_topology_create_compressed(&lists, &blocks, &t, &err), AETHER_E_CORRUPT);
    blocks.index_size += 40;
    blocks.blocks_size--;
    CHECK_CODE(aether_topology_create_compressed(&lists, &blocks, &t, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "ends at");
    blocks.blocks_size++;
    lists.num_minor = 3; /* ids that are too large */
    b.bytes[b.index[0].after[3]] = 0;
    t = open_blocks(&b, &lists, &err);
    CHECK_CODE(aether_topology_ids_from(t, 0, n, out, 8, NULL, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "is not below 3");
    aether_topology_destroy(t);
    id_release(&b);
}

TEST(arguments_are_checked) {
    uint64_t ids[4] = {0}, used;
    uint16_t sizes[1];
    uint8_t out[600];
    aether_error err;
    CHECK_CODE(
        aether_encode_blocks(AE_SIZED(aether_encoding, ids, 4, out, sizeof out, sizes, 2), &used, NULL, &err),
        AETHER_E_INVALID);
    CHECK_CODE(aether_encode_blocks(AE_SIZED(aether_encoding, NULL, 4, out, sizeof out, sizes, 4), &used,
                                    NULL, &err),
               AETHER_E_INVALID);
    CHECK_CODE(
        aether_encode_blocks(AE_SIZED(aether_encoding, ids, 4, out, aether_encode_bound(4, 8) - 1, sizes, 8),
                             &used, NULL, &err),
        AETHER_E_INVALID);
    CHECK_HAS(err.message, "4 ids take up to");
    aether_task task = {.cancel = 1};
    CHECK_CODE(
        aether_encode_blocks(AE_SIZED(aether_encoding, ids, 4, out, aether_encode_bound(4, 8), sizes, 8),
                             &used, &task, &err),
        AETHER_E_CANCELLED);
    CHECK_OK(aether_encode_blocks(AE_SIZED(aether_encoding, NULL, 0, NULL, 0, NULL, 4), &used, NULL, &err),
             err);
    CHECK_EQ(used, 0);
}

TEST_MAIN()
