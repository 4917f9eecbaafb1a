/* Keys: hashing, equal ones, gathering, and finding in maps, good and damaged. */
#include "format/hash.h"
#include "keys/keys.h"
#include "test.h"

enum { N = 40000, BITS = 10 };

/* Keys of 1 to 9 bytes, a number in decimal; or, of one width, its 8 bytes. */
typedef struct {
    char bytes[N * 10];
    uint64_t offsets[N + 1], hashes[N];
    aether_keys keys;
} some_keys;

static some_keys *make_keys(bool fixed) {
    some_keys *made = calloc(1, sizeof *made);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t at = made->offsets[i], number = i * 7919;
        if (fixed)
            memcpy(made->bytes + i * 8, &number, 8);
        else
            made->offsets[i + 1] = at + (uint64_t)snprintf(made->bytes + at, 10, "%" PRIu64, number);
    }
    made->keys = (aether_keys){.bytes = made->bytes,
                               .size = fixed ? N * 8 : made->offsets[N],
                               .offsets = fixed ? NULL : made->offsets,
                               .n = N,
                               .width = fixed ? 8 : 0};
    aether_error err;
    CHECK_OK(aether_keys_hash(&made->keys, made->hashes, &err), err);
    return made;
}

static const uint64_t *sorting; /* hashes that by_hash compares */

static int by_hash(const void *a, const void *b) {
    uint64_t x = sorting[*(const uint64_t *)a], y = sorting[*(const uint64_t *)b];
    return x < y ? -1 : x > y;
}

typedef struct {
    some_keys *of, sorted;
    uint64_t order[N], directory[(1 << BITS) + 1];
    uint32_t ids[N];
    aether_key_map map;
} some_map;

static some_map *make_map(bool fixed) {
    some_map *made = calloc(1, sizeof *made);
    some_keys *from = made->of = make_keys(fixed), *to = &made->sorted;
    for (uint64_t i = 0; i < N; i++)
        made->order[i] = i;
    sorting = from->hashes;
    qsort(made->order, N, 8, by_hash);
    uint64_t bucket = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t id = made->order[i];
        made->ids[i] = (uint32_t)id;
        to->hashes[i] = from->hashes[id];
        for (; bucket <= to->hashes[i] >> (64 - BITS); bucket++)
            made->directory[bucket] = i;
        to->offsets[i + 1] = to->offsets[i] + from->offsets[id + 1] - from->offsets[id];
    }
    for (; bucket <= 1 << BITS; bucket++)
        made->directory[bucket] = N;
    aether_error err;
    CHECK_OK(aether_keys_gather(&from->keys, made->order, N, fixed ? NULL : to->offsets, to->bytes,
                                from->keys.size, &err),
             err);
    to->keys = from->keys;
    to->keys.bytes = to->bytes;
    to->keys.offsets = fixed ? NULL : to->offsets;
    made->map = (aether_key_map){.keys = to->keys,
                                 .hashes = to->hashes,
                                 .directory = made->directory,
                                 .ids = made->ids,
                                 .bits = BITS,
                                 .id_bytes = 4};
    return made;
}

static void free_map(some_map *map) {
    free(map->of);
    free(map);
}

TEST(hashes_are_those_of_the_bytes) {
    for (int fixed = 0; fixed < 2; fixed++) {
        some_keys *made = make_keys(fixed);
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < N; i++) {
            ae_key key;
            wrong += !ae_key_at(&made->keys, i, &key) || made->hashes[i] != ae_hash(key.data, key.size);
        }
        CHECK_EQ(wrong, 0);
        free(made);
    }
}

TEST(every_key_is_found_and_no_other) {
    static int64_t ids[N];
    for (int fixed = 0; fixed < 2; fixed++) {
        some_map *made = make_map(fixed);
        aether_error err;
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            CHECK_OK(aether_set_num_threads(threads, &err), err);
            CHECK_OK(aether_keys_find(&made->map, &made->of->keys, made->of->hashes, ids, NULL, &err), err);
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < N; i++)
                wrong += ids[i] != (int64_t)i;
            CHECK_EQ(wrong, 0);
        }
        /* Another key with the hash of one that is there: only the bytes tell. */
        aether_keys other = {.bytes = "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8", .size = 8, .n = 1, .width = 8};
        CHECK_OK(aether_keys_find(&made->map, &other, made->of->hashes, ids, NULL, &err), err);
        CHECK_EQ(ids[0], -1);
        free_map(made);
    }
}

TEST(keys_of_one_hash_are_told_apart) {
    aether_keys keys = {.bytes = "bbaaaacc", .size = 8, .n = 4, .width = 2};
    uint64_t hashes[] = {5, 5, 5, 6}, first[4], directory[] = {0, 4}, wanted[] = {5, 5, 6};
    aether_error err;
    CHECK_OK(aether_keys_first(&keys, hashes, first, &err), err);
    CHECK_EQ(first[1], 1);
    CHECK_EQ(first[2], 1);
    CHECK_EQ(first[3], 3);
    uint64_t ids[] = {2, 0, 1, 3};
    aether_key_map map = {
        .keys = keys, .hashes = hashes, .directory = directory, .ids = ids, .bits = 0, .id_bytes = 8};
    aether_keys queries = {.bytes = "bbddcc", .size = 6, .n = 3, .width = 2};
    int64_t found[3];
    CHECK_OK(aether_keys_find(&map, &queries, wanted, found, NULL, &err), err);
    CHECK_EQ(found[0], 2);
    CHECK_EQ(found[1], -1);
    CHECK_EQ(found[2], 3);
    uint64_t falling[] = {5, 4, 5, 6};
    CHECK_EQ(aether_keys_first(&keys, falling, first, &err), AETHER_E_INVALID);
}

/* All keys have one hash, and each is there twice: in order they are found, in few steps, as others are. */
TEST(any_number_of_keys_may_have_one_hash) {
    static uint64_t order[2 * N], hashes[2 * N], first[2 * N], offsets[2 * N + 1], places[2 * N + 1];
    static uint32_t ids[N];
    static int64_t found[N];
    static char bytes[2 * N * 10], sorted[2 * N * 10];
    for (int fixed = 0; fixed < 2; fixed++) {
        some_keys *made = make_keys(fixed);
        const uint64_t size = made->keys.size;
        uint64_t at = 0, wrong = 0, seed = 1;
        aether_error err;
        aether_keys twice = made->keys;
        twice.bytes = bytes, twice.size = 2 * size, twice.n = 2 * N;
        memcpy(bytes, made->bytes, size);
        memcpy(bytes + size, made->bytes, size);
        for (uint64_t i = 0; !fixed && i <= 2 * N; i++)
            offsets[i] = i < N ? made->offsets[i] : size + made->offsets[i - N];
        twice.offsets = fixed ? NULL : offsets;
        memset(hashes, 0, sizeof hashes);
        for (uint64_t i = 0; i < 2 * N; i++) {
            uint64_t other = test_random(&seed) % (i + 1);
            order[i] = order[other];
            order[other] = i;
        }
        CHECK_OK(aether_keys_order(&twice, hashes, order, &err), err);
        for (uint64_t i = 0; i < 2 * N; i += 2)
            wrong += order[i] >= N || order[i + 1] != order[i] + N;
        CHECK_EQ(wrong, 0);
        for (uint64_t i = 0; i < 2 * N; i++) {
            places[i] = at;
            at += fixed ? 8 : offsets[order[i] + 1] - offsets[order[i]];
        }
        places[2 * N] = at;
        CHECK_OK(aether_keys_gather(&twice, order, 2 * N, fixed ? NULL : places, sorted, at, &err), err);
        twice.bytes = sorted;
        twice.offsets = fixed ? NULL : places;
        CHECK_OK(aether_keys_first(&twice, hashes, first, &err), err);
        for (uint64_t i = 0; i < 2 * N; i++)
            wrong += first[i] != i - i % 2;
        CHECK_EQ(wrong, 0);

        /* A map of the first of each. */
        for (uint64_t i = at = 0; i < N; i++) {
            ids[i] = (uint32_t)order[2 * i];
            order[i] = 2 * i;
            offsets[i] = at;
            at += fixed ? 8 : places[2 * i + 1] - places[2 * i];
        }
        offsets[N] = at;
        CHECK_OK(aether_keys_gather(&twice, order, N, fixed ? NULL : offsets, bytes, at, &err), err);
        const uint64_t directory[] = {0, N};
        aether_key_map map = {.keys = made->keys, .hashes = hashes, .directory = directory, .ids = ids};
        map.keys.bytes = bytes;
        map.keys.offsets = fixed ? NULL : offsets;
        map.id_bytes = 4;
        map.by_bytes = 1;
        CHECK_OK(aether_keys_find(&map, &made->keys, hashes, found, NULL, &err), err);
        for (uint64_t i = 0; i < N; i++)
            wrong += found[i] != (int64_t)i;
        aether_keys other = {.bytes = "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8", .size = 8, .n = 1, .width = 8};
        CHECK_OK(aether_keys_find(&map, &other, hashes, found, NULL, &err), err);
        CHECK_EQ(found[0], -1);
        CHECK_EQ(wrong, 0);
        free(made);
    }
    aether_keys keys = {.bytes = "aabb", .size = 4, .n = 2, .width = 2};
    uint64_t outside[] = {0, 2}, falling[] = {1, 0};
    aether_error err;
    CHECK_EQ(aether_keys_order(&keys, hashes, outside, &err), AETHER_E_RANGE);
    CHECK_EQ(aether_keys_order(&keys, falling, outside, &err), AETHER_E_INVALID);
}

TEST(gather_checks_places_and_offsets) {
    uint64_t offsets[] = {0, 2, 1, 9}, places[] = {0}, out_offsets[] = {0, 2}, hashes[3];
    aether_keys keys = {.bytes = "abcd", .size = 4, .offsets = offsets, .n = 3};
    char out[8];
    aether_error err;
    CHECK_OK(aether_keys_gather(&keys, places, 1, out_offsets, out, 2, &err), err);
    CHECK(memcmp(out, "ab", 2) == 0);
    CHECK_EQ(aether_keys_gather(&keys, places, 1, out_offsets, out, 1, &err), AETHER_E_CORRUPT);
    places[0] = 1;
    CHECK_EQ(aether_keys_gather(&keys, places, 1, out_offsets, out, 2, &err), AETHER_E_CORRUPT);
    places[0] = 2;
    CHECK_EQ(aether_keys_gather(&keys, places, 1, out_offsets, out, 2, &err), AETHER_E_CORRUPT);
    places[0] = 3;
    CHECK_EQ(aether_keys_gather(&keys, places, 1, out_offsets, out, 2, &err), AETHER_E_RANGE);
    CHECK_EQ(aether_keys_hash(&keys, hashes, &err), AETHER_E_CORRUPT);
}

/* Whatever a damaged map holds, finding ends with a result or a named error. */
TEST(keys_without_bytes) {
    const uint64_t offsets[3] = {0}, places[2] = {1, 0}, directory[2] = {0, 1}, out_offsets[3] = {0};
    const uint32_t ids[1] = {0};
    const aether_keys keys = {.offsets = offsets, .n = 2};
    uint64_t hashes[2], first[2];
    int64_t found[2];
    char nothing;
    aether_error err;
    CHECK_OK(aether_keys_hash(&keys, hashes, &err), err);
    CHECK_OK(aether_keys_first(&keys, hashes, first, &err), err);
    CHECK(first[0] == 0 && first[1] == 0);
    CHECK_OK(aether_keys_gather(&keys, places, 2, out_offsets, &nothing, 0, &err), err);
    const aether_key_map map = {.keys = {.offsets = offsets, .n = 1},
                                .hashes = hashes,
                                .directory = directory,
                                .ids = ids,
                                .id_bytes = 4};
    CHECK_OK(aether_keys_find(&map, &keys, hashes, found, NULL, &err), err);
    CHECK(found[0] == 0 && found[1] == 0);
}

TEST(damaged_maps_are_survived) {
    static int64_t ids[N];
    uint64_t seed = 3;
    for (int round = 0; round < 16; round++) {
        some_map *made = make_map(round % 2);
        aether_error err;
        for (int i = 0; i < 2000; i++) {
            uint64_t value = test_random(&seed) >> (test_random(&seed) % 64);
            if (round % 8 < 2)
                made->directory[test_random(&seed) % (1 << BITS)] = value;
            else if (round % 8 < 4)
                made->ids[test_random(&seed) % N] = (uint32_t)value;
            else if (round % 8 < 6)
                made->sorted.offsets[test_random(&seed) % N] = value;
            else
                made->sorted.hashes[test_random(&seed) % N] = value;
        }
        int rc = aether_keys_find(&made->map, &made->of->keys, made->of->hashes, ids, NULL, &err);
        CHECK(rc == AETHER_OK || rc == AETHER_E_CORRUPT);
        uint64_t wrong = 0;
        for (uint64_t i = 0; !rc && i < N; i++)
            wrong += ids[i] < -1 || ids[i] >= N;
        CHECK_EQ(wrong, 0);
        free_map(made);
    }
}

TEST_MAIN()
