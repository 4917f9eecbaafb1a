#include "sample/relabel/idmap.h"

#include <string.h>

#include "core/error.h"
#include "core/minmax.h"
#include "core/task.h"

/* DIRECT wins while its table is at most this many times the hashed one: one
 * access, no probing. Beyond, memory would follow the graph and not the batch. */
#define DIRECT_FACTOR 2

#define WIPE_BYTES (UINT64_C(64) << 20) /* between two looks at the task */

static uint64_t slot_bytes(ae_idmap_kind kind) {
    return kind == AE_IDMAP_DIRECT   ? sizeof(uint32_t)
           : kind == AE_IDMAP_NARROW ? sizeof(uint64_t)
                                     : sizeof(ae_wide_slot);
}

/* At most a third full: a second probe costs a mispredicted branch, which is
 * dearer here than the memory (12 to 13 ns an edge instead of 17 to 20). */
static uint64_t hashed_capacity(uint64_t bound) {
    return 3 * bound + 16;
}

static ae_idmap_kind choose_kind(uint64_t bound, uint64_t num_keys) {
    ae_idmap_kind hashed = num_keys <= UINT32_MAX ? AE_IDMAP_NARROW : AE_IDMAP_WIDE;
    uint64_t hashed_size = hashed_capacity(bound) * slot_bytes(hashed);
    return num_keys / DIRECT_FACTOR <= hashed_size / sizeof(uint32_t) ? AE_IDMAP_DIRECT : hashed;
}

void ae_idmap_restart(ae_idmap *m, uint64_t count) {
    if ((uint64_t)m->base + count >= UINT32_MAX)
        m->base = UINT32_MAX; /* used up: reserve clears */
    else
        m->base += (uint32_t)count;
}

static int wipe(const ae_scratch *memory, aether_task *task, aether_error *err) {
    for (uint64_t at = 0; at < memory->bytes; at += WIPE_BYTES) {
        int rc = ae_task_check(task, "sampling", err);
        if (rc)
            return rc;
        memset((char *)memory->data + at, 0, ae_min_u64(WIPE_BYTES, memory->bytes - at));
    }
    return AETHER_OK;
}

static int clear_map(ae_idmap *m, uint64_t bytes, aether_task *task, aether_error *err) {
    if (bytes <= m->memory.bytes) {
        int rc = wipe(&m->memory, task, err);
        if (rc)
            return rc;
    } else {
        int rc = ae_scratch_reserve(&m->memory, bytes, 0, err);
        if (rc)
            return rc;
    }
    m->base = 1;
    return AETHER_OK;
}

/* A table that fits is kept, of whatever kind: changing it clears it. */
static bool map_fits(const ae_idmap *m, uint64_t bound, uint64_t entries, uint64_t num_keys) {
    if (m->kind == AE_IDMAP_NONE || (uint64_t)m->base + bound >= UINT32_MAX)
        return false;
    if (m->kind == AE_IDMAP_DIRECT)
        return m->capacity >= num_keys;
    if (m->kind == AE_IDMAP_NARROW && num_keys > UINT32_MAX)
        return false;
    return m->capacity >= hashed_capacity(entries);
}

static int put_back(ae_idmap *m, const uint64_t *keys, uint64_t count, aether_task *task, aether_error *err) {
    const uint64_t ahead = 16;
    for (uint64_t i = 0; i < count; i++) {
        int rc = i % AE_TASK_TOUCHES ? AETHER_OK : ae_task_check(task, "sampling", err);
        if (rc)
            return rc;
        if (i + ahead < count)
            ae_idmap_prefetch(m, keys[i + ahead]);
        ae_idmap_add(m, keys[i], (uint32_t)i);
    }
    return AETHER_OK;
}

int ae_idmap_reserve(ae_idmap *m, uint64_t bound, uint64_t num_keys, const uint64_t *keys, uint64_t count,
                     aether_task *task, aether_error *err) {
    uint64_t entries = bound < num_keys ? bound : num_keys;
    if (bound >= UINT32_MAX - 1)
        return ae_error_set(err, AETHER_E_LIMIT, "a sample holds at most 2^32 - 3 nodes");
    if (map_fits(m, bound, entries, num_keys))
        return AETHER_OK;
    ae_idmap_kind kind = choose_kind(entries, num_keys);
    /* An eighth more, so that slightly larger batches do not clear it again. */
    uint64_t capacity = kind == AE_IDMAP_DIRECT ? num_keys : hashed_capacity(entries + entries / 8);
    m->kind = AE_IDMAP_NONE; /* half cleared is not usable */
    int rc = clear_map(m, capacity * slot_bytes(kind), task, err);
    if (rc)
        return rc;
    m->kind = kind;
    m->capacity = capacity;
    return put_back(m, keys, count, task, err);
}

void ae_idmap_free(ae_idmap *m) {
    ae_scratch_free(&m->memory);
    *m = (ae_idmap){0};
}

uint32_t ae_idmap_add(ae_idmap *m, uint64_t key, uint32_t fresh) {
    if (m->kind == AE_IDMAP_DIRECT)
        return ae_idmap_add_direct(m->memory.data, m->base, key, &fresh);
    if (m->kind == AE_IDMAP_NARROW)
        return ae_idmap_add_narrow(m->memory.data, m->capacity, m->base, key, &fresh);
    return ae_idmap_add_wide(m->memory.data, m->capacity, m->base, key, &fresh);
}

static uint32_t find_narrow(const ae_idmap *m, uint64_t key) {
    const uint64_t *slots = m->memory.data;
    for (uint64_t i = ae_idmap_home(key, m->capacity);; i = ae_idmap_next(i, m->capacity)) {
        if ((uint32_t)slots[i] < m->base)
            return AE_IDMAP_ABSENT;
        if (slots[i] >> 32 == key)
            return (uint32_t)slots[i] - m->base;
    }
}

static uint32_t find_wide(const ae_idmap *m, uint64_t key) {
    const ae_wide_slot *slots = m->memory.data;
    for (uint64_t i = ae_idmap_home(key, m->capacity);; i = ae_idmap_next(i, m->capacity)) {
        if (slots[i].value < m->base)
            return AE_IDMAP_ABSENT;
        if (slots[i].key == key)
            return (uint32_t)(slots[i].value - m->base);
    }
}

uint32_t ae_idmap_find(const ae_idmap *m, uint64_t key) {
    if (m->kind == AE_IDMAP_NARROW)
        return find_narrow(m, key);
    if (m->kind == AE_IDMAP_WIDE)
        return find_wide(m, key);
    uint32_t value = ((const uint32_t *)m->memory.data)[key];
    return value >= m->base ? value - m->base : AE_IDMAP_ABSENT;
}

void ae_idmap_prefetch(const ae_idmap *m, uint64_t key) {
    uint64_t slot = m->kind == AE_IDMAP_DIRECT ? key : ae_idmap_home(key, m->capacity);
    __builtin_prefetch((const char *)m->memory.data + slot * slot_bytes(m->kind), 1);
}
