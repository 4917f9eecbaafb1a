/* Looking keys up in a map. */
#include <inttypes.h>

#include "core/error.h"
#include "core/failure.h"
#include "core/minmax.h"
#include "core/pool.h"
#include "core/task.h"
#include "keys/keys.h"

#define CHUNK 8192u
#define BLOCK 32u /* queries whose cache misses are under way together */

typedef struct {
    const aether_key_map *map;
    const aether_keys *queries;
    const uint64_t *hashes;
    int64_t *ids;
    aether_task *task;
    ae_failure failure;
} finding;

static uint64_t bucket_of(const aether_key_map *map, uint64_t hash) {
    return map->bits ? hash >> (64 - map->bits) : 0;
}

static int map_id_at(const aether_key_map *map, uint64_t place, int64_t *out, aether_error *err) {
    uint64_t id;
    if (map->id_bytes == 4)
        id = ((const uint32_t *)map->ids)[place];
    else
        id = ((const uint64_t *)map->ids)[place];
    if (id >= map->keys.n)
        return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)place, (int64_t)id,
                           "key %" PRIu64 " of %" PRIu64 " has the id %" PRIu64, place, map->keys.n, id);
    *out = (int64_t)id;
    return AETHER_OK;
}

/* Set `place` to the first place of [place, end) whose key is not before `wanted` among those of its hash. */
__attribute__((noinline)) static int bisect(const aether_key_map *map, uint64_t hash, ae_key wanted,
                                            uint64_t *place, uint64_t end, aether_error *err) {
    while (*place < end) {
        uint64_t middle = *place + (end - *place) / 2;
        ae_key key;
        if (map->hashes[middle] > hash) {
            end = middle;
            continue;
        }
        if (!ae_key_at(&map->keys, middle, &key))
            return ae_keys_bad_offsets(middle, err);
        if (ae_key_compare(key, wanted) < 0)
            *place = middle + 1;
        else
            end = middle;
    }
    return AETHER_OK;
}

/* Compare the query with the keys of its hash, from `place` on. */
static int match(const finding *f, uint64_t query, uint64_t place, uint64_t end, aether_error *err) {
    const aether_key_map *map = f->map;
    ae_key wanted, found;
    f->ids[query] = -1;
    if (!ae_key_at(f->queries, query, &wanted))
        return ae_error_at(err, AETHER_E_INVALID, (int64_t)query, 0,
                           "the offsets of query %" PRIu64 " are not within the keys", query);
    const uint64_t hash = f->hashes[query];
    for (bool is_last = false; place < end && map->hashes[place] == hash; place++) {
        if (!ae_key_at(&map->keys, place, &found))
            return ae_keys_bad_offsets(place, err);
        if (ae_key_equal(found, wanted))
            return map_id_at(map, place, &f->ids[query], err);
        if (!map->by_bytes)
            continue;
        if (is_last || place + 1 == end || map->hashes[place + 1] != hash)
            break;
        is_last = true;
        int rc = bisect(map, hash, wanted, &place, end, err);
        if (rc)
            return rc;
        place--; /* the loop goes on with it */
    }
    return AETHER_OK;
}

static int find_block(const finding *f, uint64_t first, uint32_t n, aether_error *err) {
    const aether_key_map *map = f->map;
    const uint64_t *hashes = f->hashes + first;
    uint64_t place[BLOCK], end[BLOCK];
    for (uint32_t i = 0; i < n; i++)
        __builtin_prefetch(&map->directory[bucket_of(map, hashes[i])]);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bucket = bucket_of(map, hashes[i]);
        end[i] = ae_min_u64(map->directory[bucket + 1], map->keys.n);
        place[i] = ae_min_u64(map->directory[bucket], end[i]);
        if (place[i] < end[i])
            __builtin_prefetch(&map->hashes[place[i]]);
    }
    for (uint32_t i = 0; i < n; i++) {
        /* A bucket has some eight hashes; in a damaged file it may have all of them. */
        uint64_t low = place[i], high = end[i];
        while (high - low > 16) {
            uint64_t middle = low + (high - low) / 2;
            if (map->hashes[middle] < hashes[i])
                low = middle + 1;
            else
                high = middle;
        }
        while (low < high && map->hashes[low] < hashes[i])
            low++;
        place[i] = low;
        if (low == end[i])
            continue;
        __builtin_prefetch((const char *)map->ids + low * map->id_bytes);
        if (map->keys.offsets)
            __builtin_prefetch(&map->keys.offsets[low]);
        else
            __builtin_prefetch((const char *)map->keys.bytes + low * map->keys.width);
    }
    for (uint32_t i = 0; i < n && map->keys.offsets; i++)
        if (place[i] < end[i] && map->keys.offsets[place[i]] < map->keys.size)
            __builtin_prefetch((const char *)map->keys.bytes + map->keys.offsets[place[i]]);
    for (uint32_t i = 0; i < n; i++) {
        int rc = match(f, first + i, place[i], end[i], err);
        if (rc)
            return rc;
    }
    return AETHER_OK;
}

static void find_chunk(void *ctx, uint64_t chunk, uint32_t worker) {
    finding *f = ctx;
    (void)worker;
    uint64_t end = ae_min_u64((chunk + 1) * CHUNK, f->queries->n);
    if (ae_failure_seen(&f->failure) || ae_task_cancelled(f->task))
        return;
    for (uint64_t first = chunk * CHUNK; first < end; first += BLOCK) {
        aether_error error;
        int rc = find_block(f, first, (uint32_t)ae_min_u64(BLOCK, end - first), &error);
        if (rc) {
            ae_failure_note(&f->failure, rc, &error);
            return;
        }
    }
    ae_task_add(f->task, end - chunk * CHUNK);
}

int aether_keys_find(const aether_key_map *map, const aether_keys *queries, const uint64_t *hashes,
                     int64_t *ids, aether_task *task, aether_error *err) {
    int rc = ae_keys_check(&map->keys, err);
    if (!rc)
        rc = ae_keys_check(queries, err);
    if (rc)
        return rc;
    if (map->bits > 63 || (map->id_bytes != 4 && map->id_bytes != 8) || !map->directory)
        return ae_error_set(err, AETHER_E_INVALID,
                            "a map of keys needs a directory, and ids of 4 or 8 bytes");
    finding f = {.map = map, .queries = queries, .hashes = hashes, .ids = ids, .task = task};
    ae_task_begin(task, queries->n);
    ae_pool_run(find_chunk, &f, (queries->n + CHUNK - 1) / CHUNK, queries->n <= CHUNK ? 1 : 0);
    rc = ae_failure_take(&f.failure, err);
    return rc ? rc : ae_task_check(task, "looking keys up", err);
}
