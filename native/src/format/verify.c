/*
 * aether_file_verify: read every section and compare its checksum.
 *
 *   sections   |   0   |     1      | 2 | ...
 *   blocks     |.|.|.|.|.|.|.|.|.|.|.|.|       one chunk of the pool each
 *   hashes     h h h h h h h h h h h h h       then one checksum per section
 *
 * Blocks are read with pread, not through the mapping: read errors carry their
 * reason, and the process does not grow by the size of the file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/pool.h"
#include "core/task.h"
#include "format/container.h"
#include "format/format.h"
#include "format/hash.h"

#define READ_SIZE ((uint64_t)256 << 10) /* fits a core's cache */

typedef struct {
    const aether_file *file;
    aether_task *task;
    uint64_t *first;  /* first block of each section; one more: their number */
    uint64_t *hashes; /* one per block */
    uint8_t *buffers; /* READ_SIZE per thread */
    atomic_bool stop;
    atomic_bool failed;
    aether_error error; /* of the first failure */
} verification;

/* ---- one block, on any thread ---------------------------------------------------- */

static uint32_t section_of(const verification *v, uint64_t block) {
    uint32_t low = 0, high = v->file->num_sections; /* first[low] <= block < first[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (v->first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int hash_range(const verification *v, uint64_t offset, uint64_t size, uint8_t *buffer, uint64_t *hash,
                      aether_error *err) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    while (size > 0) {
        uint64_t step = size < READ_SIZE ? size : READ_SIZE;
        int rc = ae_mapping_read(&v->file->map, v->file->path, buffer, step, offset, err);
        if (rc)
            return rc;
        XXH3_64bits_update(&state, buffer, step);
        offset += step;
        size -= step;
    }
    *hash = XXH3_64bits_digest(&state);
    return AETHER_OK;
}

static void fail_verification(verification *v, const aether_error *error) {
    atomic_store(&v->stop, true);
    if (!atomic_exchange(&v->failed, true))
        v->error = *error; /* read after the pool is done */
}

static void verify_block(void *context, uint64_t block, uint32_t worker) {
    verification *v = context;
    if (atomic_load_explicit(&v->stop, memory_order_relaxed))
        return;
    if (ae_task_cancelled(v->task)) {
        atomic_store(&v->stop, true);
        return;
    }
    uint32_t i = section_of(v, block);
    const aether_section *section = &v->file->sections[i];
    uint64_t skip = (block - v->first[i]) * AE_HASH_BLOCK;
    uint64_t size = section->size - skip < AE_HASH_BLOCK ? section->size - skip : AE_HASH_BLOCK;
    aether_error error;
    if (hash_range(v, section->offset + skip, size, v->buffers + worker * READ_SIZE, &v->hashes[block],
                   &error))
        fail_verification(v, &error);
    ae_task_add(v->task, size);
}

/* ---- the outcome --------------------------------------------------------------- */

static int compare_section(const verification *v, uint32_t i, aether_error *err) {
    const aether_section *s = &v->file->sections[i];
    uint64_t blocks = v->first[i + 1] - v->first[i];
    uint64_t found = ae_hash(v->hashes + v->first[i], blocks * sizeof *v->hashes);
    if (found == s->checksum)
        return AETHER_OK;
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)s->offset, i,
                       "'%s': section %" PRIu32 " (%s, owner %" PRIu32 ") is damaged: its %" PRIu64
                       " bytes from %" PRIu64 " have checksum %016" PRIx64 ", not %016" PRIx64,
                       v->file->path, i, ae_format_kind_name(s->kind), s->owner, s->size, s->offset, found,
                       s->checksum);
}

/* Padding must be zeros, so that every byte of a file is accounted for. */
static int check_padding(const verification *v, uint32_t i, aether_error *err) {
    const aether_section *s = &v->file->sections[i];
    uint64_t end = s->offset + s->size, size = ae_format_page_up(end) - end;
    int rc = ae_mapping_read(&v->file->map, v->file->path, v->buffers, size, end, err);
    for (uint64_t k = 0; !rc && k < size; k++)
        if (v->buffers[k])
            rc = ae_error_at(err, AETHER_E_CORRUPT, (int64_t)(end + k), v->buffers[k],
                             "'%s': the padding after section %" PRIu32 " (%s) is damaged at byte %" PRIu64,
                             v->file->path, i, ae_format_kind_name(s->kind), end + k);
    return rc;
}

static int conclude(const verification *v, aether_error *err) {
    if (ae_task_cancelled(v->task))
        return ae_error_set(err, AETHER_E_CANCELLED, "verification of '%s' was cancelled", v->file->path);
    if (atomic_load(&v->failed)) {
        if (err)
            *err = v->error;
        return v->error.code;
    }
    int rc = aether_file_check(v->file,
                               err); /* a file that was modified since it was opened is reported as that */
    for (uint32_t i = 0; !rc && i < v->file->num_sections; i++) {
        rc = compare_section(v, i, err);
        rc = rc ? rc : check_padding(v, i, err);
    }
    return rc;
}

/* ---- the plan ------------------------------------------------------------------ */

static uint64_t count_blocks(verification *v) {
    const aether_file *file = v->file;
    uint64_t blocks = 0, bytes = 0;
    for (uint32_t i = 0; i < file->num_sections; i++) {
        v->first[i] = blocks;
        blocks += ae_hash_num_blocks(file->sections[i].size);
        bytes += file->sections[i].size;
    }
    v->first[file->num_sections] = blocks;
    ae_task_begin(v->task, bytes);
    return blocks;
}

static int verify(verification *v, aether_error *err) {
    const aether_file *file = v->file;
    v->first = malloc(((size_t)file->num_sections + 1) * sizeof *v->first);
    uint64_t blocks = v->first ? count_blocks(v) : 0;
    v->hashes = malloc(blocks * sizeof *v->hashes + 1);
    uint32_t threads = ae_pool_threads(0); /* may change meanwhile: asked once */
    v->buffers = malloc(threads * READ_SIZE);
    if (!v->first || !v->hashes || !v->buffers)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory verifying '%s'", file->path);
    ae_pool_run(verify_block, v, blocks, threads);
    return conclude(v, err);
}

int aether_file_verify(const aether_file *file, aether_task *task, aether_error *err) {
    if (!file)
        return ae_error_set(err, AETHER_E_INVALID, "no file given");
    aether_guard();
    verification v = {.file = file, .task = task};
    int rc = verify(&v, err);
    free(v.first);
    free(v.hashes);
    free(v.buffers);
    return rc;
}
