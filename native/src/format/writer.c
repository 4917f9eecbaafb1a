/*
 * aether_writer: sections one after the other, then table and header, then the
 * atomic replacement.
 *
 *   append  ->  block, 4 MiB  ->  hash + one write     (large input: without a copy)
 *   end     ->  last block, checksum over the hashes, padding
 *   finish  ->  table, header, aether_replace_sync
 *   commit  ->  aether_replace_commit
 *
 *   reserve ->  place for a section whose size is known; put fills it while others are written
 *
 * The header is written last, and a temporary is refused by its name: what a crash
 * leaves is never mistaken for a file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "core/task.h"
#include "format/format.h"
#include "format/hash.h"
#include "os/replace.h"

/* A section that is filled from its front, in its place. Its hashes need no block of memory. */
typedef struct reserved_section {
    uint32_t entry;
    uint64_t filled;
    XXH3_state_t *block, *hashes; /* over the block in work; over the hashes of those before */
} reserved_section;

struct aether_writer {
    aether_replace *file;
    char *path;
    uint32_t content;
    int failed;           /* the code of the first failure; nothing works after it */
    bool in_section;      /* between begin and end */
    bool finished;        /* the table is written: nothing but commit and abort may follow */
    uint64_t offset;      /* in the file, of the next block */
    uint8_t *block;       /* AE_HASH_BLOCK bytes */
    uint64_t filled;      /* bytes of `block` in use */
    XXH3_state_t *hashes; /* over the hashes of the section's blocks */
    ae_format_entry *entries;
    uint32_t num_entries, room;
    reserved_section *reserved;
    uint32_t num_reserved;
};

/* ---- create and release ---------------------------------------------------------- */

static void release_writer(aether_writer *w) {
    aether_replace_abort(w->file);
    aether_buffer_free(w->block, AE_HASH_BLOCK);
    XXH3_freeState(w->hashes);
    for (uint32_t i = 0; i < w->num_reserved; i++) {
        XXH3_freeState(w->reserved[i].block);
        XXH3_freeState(w->reserved[i].hashes);
    }
    free(w->reserved);
    free(w->entries);
    free(w->path);
    free(w);
}

static int create_writer(aether_writer *w, const char *path, aether_error *err) {
    w->path = strdup(path);
    w->hashes = XXH3_createState();
    w->block = aether_buffer_alloc(AE_HASH_BLOCK, NULL);
    if (!w->path || !w->hashes || !w->block)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory writing '%s'", path);
    w->offset = sizeof(ae_format_header);
    return aether_replace_begin(path, &w->file, err);
}

int aether_writer_create(const char *path, uint32_t content, aether_writer **out, aether_error *err) {
    if (!path || !*path || !out)
        return ae_error_set(err, AETHER_E_INVALID, "no path given");
    *out = NULL;
    if (content < AETHER_CONTENT_GRAPH || content > AETHER_CONTENT_KEYS)
        return ae_error_at(err, AETHER_E_INVALID, 0, content, "unknown kind of content: %" PRIu32, content);
    aether_writer *w = calloc(1, sizeof *w);
    if (!w)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory writing '%s'", path);
    w->content = content;
    int rc = create_writer(w, path, err);
    if (rc)
        release_writer(w);
    else
        *out = w;
    return rc;
}

void aether_writer_abort(aether_writer *w) {
    if (w)
        release_writer(w);
}

/* ---- states ---------------------------------------------------------------------- */

static int fail_writer(aether_writer *w, int rc) {
    if (rc && !w->failed)
        w->failed = rc;
    return rc;
}

/* Check the order of calls: begin needs in_section false, append and end true. */
static int check_state(const aether_writer *w, bool in_section, aether_error *err) {
    if (!w)
        return ae_error_set(err, AETHER_E_INVALID, "no writer given");
    if (w->failed)
        return ae_error_set(err, w->failed, "writing '%s' has failed before", w->path);
    if (w->finished)
        return ae_error_set(err, AETHER_E_INVALID, "'%s' is finished: it takes no more sections", w->path);
    if (w->in_section != in_section)
        return ae_error_set(err, AETHER_E_INVALID, "'%s': %s", w->path,
                            in_section ? "no section was begun" : "the section before was not ended");
    return AETHER_OK;
}

/* ---- sections ---------------------------------------------------------------------- */

static int check_new_entry(const aether_writer *w, uint32_t kind, uint32_t owner, uint32_t dtype,
                           aether_error *err) {
    if (!ae_format_kind_known(kind))
        return ae_error_at(err, AETHER_E_INVALID, 0, kind, "unknown kind of section: %" PRIu32, kind);
    if (!ae_format_dtype_fits(kind, dtype))
        return ae_error_at(err, AETHER_E_INVALID, 0, dtype, "section %s cannot hold dtype %s (%" PRIu32 ")",
                           ae_format_kind_name(kind), ae_dtype_name(dtype), dtype);
    if (w->num_entries == AE_FORMAT_MAX_SECTIONS)
        return ae_error_set(err, AETHER_E_LIMIT, "'%s': more than %u sections", w->path,
                            AE_FORMAT_MAX_SECTIONS);
    for (uint32_t i = 0; i < w->num_entries; i++)
        if (w->entries[i].kind == kind && w->entries[i].owner == owner)
            return ae_error_at(err, AETHER_E_INVALID, i, owner,
                               "section %s of owner %" PRIu32 " was written before",
                               ae_format_kind_name(kind), owner);
    return AETHER_OK;
}

static int grow_entries(aether_writer *w, aether_error *err) {
    if (w->num_entries < w->room)
        return AETHER_OK;
    uint32_t room = w->room ? 2 * w->room : 16;
    ae_format_entry *entries = realloc(w->entries, room * sizeof *entries);
    if (!entries)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory writing '%s'", w->path);
    w->entries = entries;
    w->room = room;
    return AETHER_OK;
}

static int check_whole_items(const ae_format_entry *entry, aether_error *err) {
    if (entry->size % aether_dtype_size(entry->dtype) == 0)
        return AETHER_OK;
    return ae_error_set(err, AETHER_E_INVALID,
                        "section %s: %" PRIu64 " bytes are no whole number of %s elements",
                        ae_format_kind_name(entry->kind), entry->size, ae_dtype_name(entry->dtype));
}

int aether_writer_begin(aether_writer *w, uint32_t kind, uint32_t owner, uint32_t dtype, aether_error *err) {
    int rc = check_state(w, false, err);
    rc = rc ? rc : check_new_entry(w, kind, owner, dtype, err);
    rc = rc ? rc : grow_entries(w, err);
    if (rc)
        return rc;
    w->entries[w->num_entries] =
        (ae_format_entry){.kind = kind, .owner = owner, .dtype = dtype, .offset = w->offset};
    XXH3_64bits_reset(w->hashes);
    w->in_section = true;
    return AETHER_OK;
}

/* Hash and write one block of the section: 4 MiB, or less if it is the last. */
static int put_block(aether_writer *w, const void *data, uint64_t size, aether_error *err) {
    uint64_t hash = ae_hash(data, size);
    XXH3_64bits_update(w->hashes, &hash, sizeof hash);
    int rc = aether_replace_write(w->file, data, size, w->offset, err);
    w->offset += size;
    return rc;
}

static int take_bytes(aether_writer *w, const uint8_t *data, uint64_t size, uint64_t *taken,
                      aether_error *err) {
    if (w->filled == 0 && size >= AE_HASH_BLOCK) {
        *taken = AE_HASH_BLOCK;
        return put_block(w, data, AE_HASH_BLOCK, err);
    }
    uint64_t free_bytes = AE_HASH_BLOCK - w->filled;
    *taken = size < free_bytes ? size : free_bytes;
    memcpy(w->block + w->filled, data, *taken);
    w->filled += *taken;
    if (w->filled < AE_HASH_BLOCK)
        return AETHER_OK;
    w->filled = 0;
    return put_block(w, w->block, AE_HASH_BLOCK, err);
}

int aether_writer_append(aether_writer *w, const void *data, uint64_t size, aether_task *task,
                         aether_error *err) {
    int rc = check_state(w, true, err);
    if (rc)
        return rc;
    if (!data && size)
        return ae_error_set(err, AETHER_E_INVALID, "no data given");
    aether_guard(); /* the data may be mapped */
    const uint8_t *from = data;
    while (size > 0) {
        if (ae_task_cancelled(task))
            return fail_writer(w,
                               ae_error_set(err, AETHER_E_CANCELLED, "writing '%s' was cancelled", w->path));
        uint64_t taken;
        rc = take_bytes(w, from, size, &taken, err);
        if (rc)
            return fail_writer(w, rc);
        from += taken;
        size -= taken;
        ae_task_add(task, taken);
    }
    return AETHER_OK;
}

int aether_writer_end(aether_writer *w, aether_error *err) {
    int rc = check_state(w, true, err);
    if (rc)
        return rc;
    if (w->filled)
        rc = put_block(w, w->block, w->filled, err);
    w->filled = 0;
    if (rc)
        return fail_writer(w, rc);
    ae_format_entry *entry = &w->entries[w->num_entries];
    entry->size = w->offset - entry->offset;
    rc = check_whole_items(entry, err);
    if (rc)
        return fail_writer(w, rc);
    entry->checksum = XXH3_64bits_digest(w->hashes);
    w->offset = ae_format_page_up(w->offset); /* the gap reads as zeros */
    w->num_entries++;
    w->in_section = false;
    return AETHER_OK;
}

/* ---- sections in their place ------------------------------------------------------- */

static int grow_reserved(aether_writer *w, aether_error *err) {
    reserved_section *all = realloc(w->reserved, (w->num_reserved + 1) * sizeof *all);
    if (all) {
        w->reserved = all;
        reserved_section *r = &all[w->num_reserved];
        *r = (reserved_section){w->num_entries, 0, XXH3_createState(), XXH3_createState()};
        if (r->block && r->hashes) {
            XXH3_64bits_reset(r->block);
            XXH3_64bits_reset(r->hashes);
            return AETHER_OK;
        }
        XXH3_freeState(r->block);
        XXH3_freeState(r->hashes);
    }
    return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory writing '%s'", w->path);
}

int aether_writer_reserve(aether_writer *w, uint32_t kind, uint32_t owner, uint32_t dtype, uint64_t size,
                          uint32_t *section, aether_error *err) {
    const ae_format_entry entry = {
        .kind = kind, .owner = owner, .dtype = dtype, .offset = w ? w->offset : 0, .size = size};
    int rc = check_state(w, false, err);
    rc = rc ? rc : check_new_entry(w, kind, owner, dtype, err);
    rc = rc ? rc : check_whole_items(&entry, err);
    if (!rc && size > (uint64_t)INT64_MAX - w->offset - AE_FORMAT_PAGE)
        rc = ae_error_set(err, AETHER_E_LIMIT, "section %s: no file has %" PRIu64 " bytes",
                          ae_format_kind_name(kind), size);
    rc = rc ? rc : grow_entries(w, err);
    rc = rc ? rc : grow_reserved(w, err);
    if (rc)
        return rc;
    *section = w->num_reserved++;
    w->entries[w->num_entries++] = entry;
    w->offset = ae_format_page_up(w->offset + size);
    return AETHER_OK;
}

static void end_block(reserved_section *r) {
    const uint64_t hash = XXH3_64bits_digest(r->block);
    XXH3_64bits_update(r->hashes, &hash, sizeof hash);
    XXH3_64bits_reset(r->block);
}

int aether_writer_put(aether_writer *w, uint32_t section, const void *data, uint64_t size, aether_task *task,
                      aether_error *err) {
    int rc = check_state(w, w && w->in_section, err);
    if (rc)
        return rc;
    if (section >= w->num_reserved || (!data && size))
        return ae_error_set(err, AETHER_E_INVALID, "'%s': section %" PRIu32 " was not reserved, or no data",
                            w->path, section);
    reserved_section *r = &w->reserved[section];
    const ae_format_entry *entry = &w->entries[r->entry];
    if (size > entry->size - r->filled)
        return fail_writer(w, ae_error_set(err, AETHER_E_INVALID,
                                           "section %s has place for %" PRIu64 " bytes, %" PRIu64 " are more",
                                           ae_format_kind_name(entry->kind), entry->size, r->filled + size));
    aether_guard(); /* the data may be mapped */
    for (const uint8_t *from = data; size;) {
        const uint64_t left = AE_HASH_BLOCK - r->filled % AE_HASH_BLOCK, n = size < left ? size : left;
        if (ae_task_cancelled(task))
            return fail_writer(w,
                               ae_error_set(err, AETHER_E_CANCELLED, "writing '%s' was cancelled", w->path));
        XXH3_64bits_update(r->block, from, n);
        rc = aether_replace_write(w->file, from, n, entry->offset + r->filled, err);
        if (rc)
            return fail_writer(w, rc);
        r->filled += n;
        from += n;
        size -= n;
        if (r->filled % AE_HASH_BLOCK == 0)
            end_block(r);
        ae_task_add(task, n);
    }
    return AETHER_OK;
}

static int end_reserved(aether_writer *w, aether_error *err) {
    for (uint32_t i = 0; i < w->num_reserved; i++) {
        reserved_section *r = &w->reserved[i];
        ae_format_entry *entry = &w->entries[r->entry];
        if (r->filled != entry->size)
            return ae_error_set(err, AETHER_E_INVALID,
                                "section %s: %" PRIu64 " bytes were put into place for %" PRIu64,
                                ae_format_kind_name(entry->kind), r->filled, entry->size);
        if (r->filled % AE_HASH_BLOCK)
            end_block(r);
        entry->checksum = XXH3_64bits_digest(r->hashes);
    }
    return AETHER_OK;
}

/* ---- commit ------------------------------------------------------------------------ */

static int write_table_and_header(const aether_writer *w, aether_error *err) {
    uint64_t table_size = w->num_entries * sizeof *w->entries;
    const void *table = w->entries ? (const void *)w->entries : "";
    ae_format_header header = {
        .magic = AE_FORMAT_MAGIC,
        .byte_order = AE_FORMAT_BYTE_ORDER,
        .version = AE_FORMAT_VERSION,
        .content = w->content,
        .page = AE_FORMAT_PAGE,
        .file_size = w->offset + table_size,
        .table_offset = w->offset,
        .table_size = table_size,
        .num_sections = w->num_entries,
        .entry_size = sizeof *w->entries,
        .table_checksum = ae_hash(table, table_size),
    };
    for (uint32_t i = 0; i < w->num_entries; i++)
        header.required |= ae_format_required(w->entries[i].kind);
    header.checksum = ae_hash(&header, AE_FORMAT_HEADER_HASHED);
    int rc = aether_replace_write(w->file, table, table_size, w->offset, err);
    return rc ? rc : aether_replace_write(w->file, &header, sizeof header, 0, err);
}

int aether_writer_finish(aether_writer *w, aether_error *err) {
    if (w && w->finished)
        return AETHER_OK;
    int rc = check_state(w, false, err);
    rc = rc ? rc : end_reserved(w, err);
    rc = rc ? rc : write_table_and_header(w, err);
    rc = rc ? rc : aether_replace_sync(w->file, err);
    if (!rc)
        w->finished = true;
    return w ? fail_writer(w, rc) : rc;
}

int aether_writer_commit(aether_writer *w, aether_error *err) {
    int rc = aether_writer_finish(w, err);
    if (!rc) {
        rc = aether_replace_commit(w->file, err);
        w->file = NULL; /* released, either way */
    }
    if (w)
        release_writer(w);
    return rc;
}
