#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "format/container.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "format/format.h"
#include "format/hash.h"
#include "os/replace.h"

/* ---- the header -------------------------------------------------------------- */

/* Check the first 16 bytes, whose layout no version changes. */
static int check_preamble(const char *path, const ae_format_header *h, uint64_t size, aether_error *err) {
    if (size == 0)
        return ae_error_set(err, AETHER_E_FORMAT, "'%s' is empty, not an AetherGraph file", path);
    if (size < sizeof h->magic || memcmp(h->magic, AE_FORMAT_MAGIC, sizeof h->magic) != 0)
        return ae_error_set(err, AETHER_E_FORMAT, "'%s' is not an AetherGraph file", path);
    if (size < offsetof(ae_format_header, content))
        return ae_error_at(err, AETHER_E_TRUNCATED, (int64_t)size, sizeof *h,
                           "'%s' ends inside its header: it has %" PRIu64 " bytes", path, size);
    if (h->byte_order == __builtin_bswap32(AE_FORMAT_BYTE_ORDER))
        return ae_error_set(err, AETHER_E_FORMAT,
                            "'%s' was written on a big-endian machine; convert it there", path);
    if (h->byte_order != AE_FORMAT_BYTE_ORDER)
        return ae_error_set(err, AETHER_E_CORRUPT, "'%s' has a damaged header (byte order mark)", path);
    if (h->version > AE_FORMAT_VERSION)
        return ae_error_at(err, AETHER_E_VERSION, offsetof(ae_format_header, version), h->version,
                           "'%s' has format version %" PRIu32
                           ", this AetherGraph (%s) reads up to version %u: "
                           "upgrade AetherGraph to read it",
                           path, h->version, aether_version(), AE_FORMAT_VERSION);
    if (h->version == 0)
        return ae_error_set(err, AETHER_E_FORMAT, "'%s' has format version 0, which does not exist", path);
    return AETHER_OK;
}

static int check_size(const char *path, const ae_format_header *h, uint64_t size, aether_error *err) {
    if (size < h->file_size)
        return ae_error_at(err, AETHER_E_TRUNCATED, (int64_t)size, (int64_t)h->file_size,
                           "'%s' is truncated: it has %" PRIu64 " bytes and should have %" PRIu64, path, size,
                           h->file_size);
    if (size > h->file_size)
        return ae_error_at(err, AETHER_E_FORMAT, (int64_t)h->file_size, (int64_t)size,
                           "'%s' has %" PRIu64 " bytes after its end at %" PRIu64, path, size - h->file_size,
                           h->file_size);
    return AETHER_OK;
}

static int check_layout(const char *path, const ae_format_header *h, aether_error *err) {
    uint64_t unknown = h->required & ~(uint64_t)AE_FORMAT_COMPRESSED;
    if (unknown)
        return ae_error_at(err, AETHER_E_VERSION, offsetof(ae_format_header, required), (int64_t)unknown,
                           "'%s' uses features (0x%" PRIx64 ") that this AetherGraph (%s) does not know: "
                           "upgrade AetherGraph to read it",
                           path, unknown, aether_version());
    if (h->content < AETHER_CONTENT_GRAPH || h->content > AETHER_CONTENT_KEYS)
        return ae_error_at(err, AETHER_E_UNSUPPORTED, offsetof(ae_format_header, content), h->content,
                           "'%s' holds content of an unknown kind (%" PRIu32 ")", path, h->content);
    if (h->page != AE_FORMAT_PAGE || h->entry_size != sizeof(ae_format_entry))
        return ae_error_set(err, AETHER_E_FORMAT,
                            "'%s' has pages of %" PRIu32 " and entries of %" PRIu32 " bytes", path, h->page,
                            h->entry_size);
    if (h->num_sections > AE_FORMAT_MAX_SECTIONS ||
        h->table_size != (uint64_t)h->num_sections * h->entry_size || h->table_size > h->file_size ||
        h->table_offset != h->file_size - h->table_size || h->table_offset < sizeof *h ||
        h->table_offset % AE_FORMAT_PAGE != 0)
        return ae_error_set(err, AETHER_E_FORMAT,
                            "'%s' has a section table that does not fit: %" PRIu32
                            " sections at byte %" PRIu64,
                            path, h->num_sections, h->table_offset);
    return AETHER_OK;
}

static int read_header(const aether_file *file, ae_format_header *h, aether_error *err) {
    const char *path = file->path;
    uint64_t size = file->map.size;
    memset(h, 0, sizeof *h);
    int rc = ae_mapping_read(&file->map, path, h, size < sizeof *h ? size : sizeof *h, 0, err);
    rc = rc ? rc : check_preamble(path, h, size, err);
    if (rc)
        return rc;
    if (size < sizeof *h)
        return ae_error_at(err, AETHER_E_TRUNCATED, (int64_t)size, sizeof *h,
                           "'%s' ends inside its header: it has %" PRIu64 " bytes", path, size);
    if (ae_hash(h, AE_FORMAT_HEADER_HASHED) != h->checksum)
        return ae_error_set(err, AETHER_E_CORRUPT, "'%s' has a damaged header (checksum mismatch)", path);
    rc = check_size(path, h, size, err);
    return rc ? rc : check_layout(path, h, err);
}

/* ---- the section table --------------------------------------------------------- */

static int bad_section(const aether_file *file, uint32_t i, const ae_format_entry *e, const char *what,
                       aether_error *err) {
    return ae_error_at(err, AETHER_E_FORMAT, i, e->kind,
                       "'%s': section %" PRIu32 " (%s, owner %" PRIu32 ", offset %" PRIu64 ", size %" PRIu64
                       ") %s",
                       file->path, i, ae_format_kind_name(e->kind), e->owner, e->offset, e->size, what);
}

/* `end` is where the section before this one ended, with its padding. */
static int check_entry(const aether_file *file, uint32_t i, const ae_format_entry *e, uint64_t end,
                       uint64_t table_offset, aether_error *err) {
    if (e->kind == 0)
        return bad_section(file, i, e, "has no kind", err);
    if (e->offset != end)
        return bad_section(file, i, e, "does not begin where the one before it ends", err);
    if (e->size > table_offset - e->offset)
        return bad_section(file, i, e, "reaches beyond the file", err);
    if (!ae_format_dtype_fits(e->kind, e->dtype))
        return bad_section(file, i, e, "has an element type that its kind cannot have", err);
    if (ae_format_kind_known(e->kind) && e->size % aether_dtype_size(e->dtype) != 0)
        return bad_section(file, i, e, "does not hold a whole number of elements", err);
    return AETHER_OK;
}

static int compare_keys(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* (kind, owner) names a section, so no two may share it. */
static int check_unique(const aether_file *file, aether_error *err) {
    uint64_t *keys = malloc(file->num_sections * sizeof *keys + 1);
    if (!keys)
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening '%s'", file->path);
    for (uint32_t i = 0; i < file->num_sections; i++)
        keys[i] = (uint64_t)file->sections[i].kind << 32 | file->sections[i].owner;
    qsort(keys, file->num_sections, sizeof *keys, compare_keys);
    uint32_t i = 1;
    while (i < file->num_sections &&
           (keys[i] != keys[i - 1] || !ae_format_kind_known((uint32_t)(keys[i] >> 32))))
        i++;
    bool twice = i < file->num_sections;
    uint64_t key = twice ? keys[i] : 0;
    free(keys);
    if (twice)
        return ae_error_set(err, AETHER_E_FORMAT, "'%s' has two sections %s of owner %" PRIu32, file->path,
                            ae_format_kind_name((uint32_t)(key >> 32)), (uint32_t)key);
    return AETHER_OK;
}

static int take_entries(aether_file *file, const ae_format_header *h, const ae_format_entry *entries,
                        aether_error *err) {
    uint64_t end = sizeof *h;
    for (uint32_t i = 0; i < file->num_sections; i++) {
        const ae_format_entry *e = &entries[i];
        int rc = check_entry(file, i, e, end, h->table_offset, err);
        if (rc)
            return rc;
        file->sections[i] = (aether_section){e->kind, e->owner, e->dtype, 0, e->offset, e->size, e->checksum};
        end = ae_format_page_up(e->offset + e->size);
    }
    if (end != h->table_offset)
        return ae_error_set(err, AETHER_E_FORMAT, "'%s' has a gap before its section table", file->path);
    return check_unique(file, err);
}

static int load_table(aether_file *file, const ae_format_header *h, ae_format_entry *entries,
                      aether_error *err) {
    int rc = ae_mapping_read(&file->map, file->path, entries, h->table_size, h->table_offset, err);
    if (rc)
        return rc;
    if (ae_hash(entries, h->table_size) != h->table_checksum)
        return ae_error_set(err, AETHER_E_CORRUPT, "'%s' has a damaged section table (checksum mismatch)",
                            file->path);
    return take_entries(file, h, entries, err);
}

static int read_table(aether_file *file, const ae_format_header *h, aether_error *err) {
    ae_format_entry *entries = malloc(h->table_size + 1);
    file->sections = calloc((size_t)h->num_sections + 1, sizeof *file->sections);
    file->num_sections = h->num_sections;
    int rc = entries && file->sections
                 ? load_table(file, h, entries, err)
                 : ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening '%s'", file->path);
    free(entries);
    return rc;
}

/* ---- open and close ------------------------------------------------------------ */

static aether_file *new_file(const char *path, aether_error *err) {
    aether_file *file = calloc(1, sizeof *file);
    char *copy = strdup(path);
    if (!file || !copy) {
        free(file);
        free(copy);
        ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening '%s'", path);
        return NULL;
    }
    file->path = copy;
    file->map.fd = -1;
    return file;
}

static int open_container(aether_file *file, aether_error *err) {
    ae_format_header header = {.content = 0};
    int rc = ae_mapping_open(file->path, &file->map, err);
    rc = rc ? rc : read_header(file, &header, err);
    rc = rc ? rc : read_table(file, &header, err);
    rc = rc ? rc : ae_mapping_map(&file->map, file->path, err);
    file->map.constant = true; /* offsets found now must stay true */
    file->content = header.content;
    return rc;
}

static int open_raw(aether_file *file, aether_error *err) {
    int rc = ae_mapping_open(file->path, &file->map, err);
    file->map.constant = true; /* the caller's offsets and rows must stay true as well */
    return rc ? rc : ae_mapping_map(&file->map, file->path, err);
}

static int open_with(int (*work)(aether_file *, aether_error *), const char *path, aether_file **out,
                     aether_error *err) {
    if (!path || !*path || !out)
        return ae_error_set(err, AETHER_E_INVALID, "no path given");
    *out = NULL;
    if (ae_replace_is_temporary(path))
        return ae_error_set(
            err, AETHER_E_FORMAT,
            "'%s' is what a writer that did not finish has left: save again, which removes it", path);
    aether_file *file = new_file(path, err);
    if (!file)
        return AETHER_E_NO_MEMORY;
    int rc = work(file, err);
    if (rc)
        aether_file_close(file);
    else
        *out = file;
    return rc;
}

int aether_file_open(const char *path, aether_file **out, aether_error *err) {
    return open_with(open_container, path, out, err);
}

int aether_file_map_raw(const char *path, aether_file **out, aether_error *err) {
    return open_with(open_raw, path, out, err);
}

void aether_file_close(aether_file *file) {
    if (!file)
        return;
    ae_mapping_close(&file->map);
    free(file->sections);
    free(file->path);
    free(file);
}

/* ---- asking -------------------------------------------------------------------- */

uint32_t aether_file_content(const aether_file *file) {
    return file ? file->content : 0;
}

uint32_t aether_file_num_sections(const aether_file *file) {
    return file ? file->num_sections : 0;
}

uint64_t aether_file_size(const aether_file *file) {
    return file ? file->map.size : 0;
}

const void *aether_file_base(const aether_file *file) {
    return file ? file->map.data : NULL;
}

int32_t aether_file_descriptor(const aether_file *file) {
    return file ? file->map.fd : -1;
}

int aether_file_section(const aether_file *file, uint32_t i, aether_section *out, aether_error *err) {
    if (!file || !out)
        return ae_error_set(err, AETHER_E_INVALID, "no file given");
    if (i >= file->num_sections)
        return ae_error_at(err, AETHER_E_RANGE, 0, i,
                           "'%s' has %" PRIu32 " sections, asked for number %" PRIu32, file->path,
                           file->num_sections, i);
    *out = file->sections[i];
    return AETHER_OK;
}

const void *aether_file_data(const aether_file *file, uint32_t i) {
    if (!file || i >= file->num_sections)
        return NULL;
    return file->map.data + file->sections[i].offset;
}

int aether_file_check(const aether_file *file, aether_error *err) {
    if (!file)
        return ae_error_set(err, AETHER_E_INVALID, "no file given");
    return ae_mapping_check(&file->map, file->path, err);
}
