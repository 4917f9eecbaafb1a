/* Container files: round trips, refusals, damage, truncation, verification. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "core/dtype.h"
#include "format/format.h"
#include "format/hash.h"
#include "test.h"

/* ---- helpers ---------------------------------------------------------------- */

typedef struct {
    uint8_t *data;
    size_t size;
} bytes;

static bytes read_file(const char *path) {
    bytes b = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return b;
    fseek(file, 0, SEEK_END);
    b.size = (size_t)ftell(file);
    rewind(file);
    b.data = malloc(b.size + 1);
    if (fread(b.data, 1, b.size, file) != b.size)
        abort();
    fclose(file);
    return b;
}

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

static int add_section(aether_writer *w, uint32_t kind, uint32_t owner, uint32_t dtype, const void *data,
                       uint64_t size, aether_error *err) {
    int rc = aether_writer_begin(w, kind, owner, dtype, err);
    rc = rc ? rc : aether_writer_append(w, data, size, NULL, err);
    return rc ? rc : aether_writer_end(w, err);
}

static const char meta_text[] = "{\"node_types\": []}";
static const uint64_t indptr[] = {0, 2, 3, 3};
static const uint32_t indices[] = {1, 2, 0};

/* META, CSC and an empty section. */
static int write_sample(const char *path, aether_error *err) {
    aether_writer *w;
    int rc = aether_writer_create(path, AETHER_CONTENT_GRAPH, &w, err);
    if (rc)
        return rc;
    rc = add_section(w, AETHER_SECTION_META, 0, AETHER_U8, meta_text, strlen(meta_text), err);
    rc = rc ? rc : add_section(w, AETHER_SECTION_CSC_INDPTR, 0, AETHER_U64, indptr, sizeof indptr, err);
    rc = rc ? rc : add_section(w, AETHER_SECTION_CSC_INDICES, 0, AETHER_U32, indices, sizeof indices, err);
    rc = rc ? rc : add_section(w, AETHER_SECTION_ARRAY, 7, AETHER_BF16, "", 0, err);
    if (!rc)
        return aether_writer_commit(w, err);
    aether_writer_abort(w);
    return rc;
}

/* The sample as bytes, and its header and table within them. */
typedef struct {
    bytes file;
    ae_format_header *header;
    ae_format_entry *entries;
    char path[256];
} image;

static bool make_image(image *im, const char *name) {
    aether_error err;
    test_path(im->path, sizeof im->path, name);
    if (write_sample(im->path, &err) != AETHER_OK)
        return false;
    im->file = read_file(im->path);
    im->header = (ae_format_header *)im->file.data;
    im->entries = (ae_format_entry *)(im->file.data + im->header->table_offset);
    return true;
}

/* Put the image on disk, with checksums that fit what it says by now. */
static void store_image(image *im) {
    uint64_t table = (uint64_t)((uint8_t *)im->entries - im->file.data);
    uint64_t table_size = im->file.size - table;
    im->header->table_checksum = ae_hash(im->entries, table_size);
    im->header->checksum = ae_hash(im->header, AE_FORMAT_HEADER_HASHED);
    write_file(im->path, im->file.data, im->file.size);
}

static int open_code(const char *path, aether_error *err) {
    aether_file *file;
    memset(err, 0, sizeof *err);
    int rc = aether_file_open(path, &file, err);
    CHECK((file != NULL) == (rc == AETHER_OK));
    CHECK_EQ(err->code, rc);
    aether_file_close(file);
    return rc;
}

/* ---- round trips ------------------------------------------------------------- */

TEST(round_trip) {
    char path[256];
    aether_error err;
    aether_file *file;
    REQUIRE_OK(write_sample(test_path(path, sizeof path, "a.bin"), &err), err);
    REQUIRE_OK(aether_file_open(path, &file, &err), err);
    CHECK_EQ(aether_file_content(file), AETHER_CONTENT_GRAPH);
    CHECK_EQ(aether_file_num_sections(file), 4);
    CHECK_EQ(aether_file_size(file), 4 * 4096 + 4 * 64);
    static const aether_section expected[] = {
        {AETHER_SECTION_META, 0, AETHER_U8, 0, 4096, sizeof meta_text - 1, 0},
        {AETHER_SECTION_CSC_INDPTR, 0, AETHER_U64, 0, 8192, sizeof indptr, 0},
        {AETHER_SECTION_CSC_INDICES, 0, AETHER_U32, 0, 12288, sizeof indices, 0},
        {AETHER_SECTION_ARRAY, 7, AETHER_BF16, 0, 16384, 0, 0},
    };
    for (uint32_t i = 0; i < 4; i++) {
        aether_section s;
        CHECK_OK(aether_file_section(file, i, &s, &err), err);
        s.checksum = 0;
        CHECK(memcmp(&s, &expected[i], sizeof s) == 0);
        CHECK(aether_file_data(file, i) == (const char *)aether_file_base(file) + s.offset);
    }
    CHECK(memcmp(aether_file_data(file, 0), meta_text, strlen(meta_text)) == 0);
    CHECK(memcmp(aether_file_data(file, 1), indptr, sizeof indptr) == 0);
    CHECK(memcmp(aether_file_data(file, 2), indices, sizeof indices) == 0);
    CHECK_OK(aether_file_verify(file, NULL, &err), err);
    CHECK_OK(aether_file_check(file, &err), err);
    aether_section s;
    CHECK_CODE(aether_file_section(file, 4, &s, &err), AETHER_E_RANGE);
    CHECK_EQ(err.value, 4);
    CHECK(aether_file_data(file, 4) == NULL);
    aether_file_close(file);
}

TEST(no_sections) {
    char path[256];
    aether_error err;
    aether_writer *w;
    aether_file *file;
    test_path(path, sizeof path, "none.bin");
    REQUIRE_OK(aether_writer_create(path, AETHER_CONTENT_FEATURES, &w, &err), err);
    REQUIRE_OK(aether_writer_commit(w, &err), err);
    REQUIRE_OK(aether_file_open(path, &file, &err), err);
    CHECK_EQ(aether_file_num_sections(file), 0);
    CHECK_EQ(aether_file_size(file), 4096);
    CHECK_OK(aether_file_verify(file, NULL, &err), err);
    aether_file_close(file);
}

/* Sizes around the block and page limits, appended in pieces of odd sizes. */
TEST(section_sizes_and_append_sizes) {
    static const uint64_t sizes[] = {0,
                                     1,
                                     4095,
                                     4096,
                                     4097,
                                     AE_HASH_BLOCK - 1,
                                     AE_HASH_BLOCK,
                                     AE_HASH_BLOCK + 1,
                                     2 * AE_HASH_BLOCK,
                                     2 * AE_HASH_BLOCK + 12345};
    static const uint64_t steps[] = {UINT64_MAX, 1000003, 4096, AE_HASH_BLOCK + 7};
    const uint64_t most = 2 * AE_HASH_BLOCK + 12345;
    uint8_t *data = malloc(most);
    uint64_t state = 1;
    for (uint64_t i = 0; i < most; i++)
        data[i] = (uint8_t)test_random(&state);
    uint64_t checksums[10];
    for (unsigned k = 0; k < 4; k++) {
        char path[256];
        aether_error err;
        aether_writer *w;
        aether_file *file;
        REQUIRE_OK(aether_writer_create(test_path(path, sizeof path, "sizes.bin"), 2, &w, &err), err);
        for (uint32_t i = 0; i < 10; i++) {
            REQUIRE_OK(aether_writer_begin(w, AETHER_SECTION_ARRAY, i, AETHER_U8, &err), err);
            for (uint64_t at = 0, n; at < sizes[i]; at += n) {
                n = sizes[i] - at < steps[k] ? sizes[i] - at : steps[k];
                REQUIRE_OK(aether_writer_append(w, data + at, n, NULL, &err), err);
            }
            REQUIRE_OK(aether_writer_end(w, &err), err);
        }
        REQUIRE_OK(aether_writer_commit(w, &err), err);
        REQUIRE_OK(aether_file_open(path, &file, &err), err);
        CHECK_OK(aether_file_verify(file, NULL, &err), err);
        for (uint32_t i = 0; i < 10; i++) {
            aether_section s;
            CHECK_OK(aether_file_section(file, i, &s, &err), err);
            CHECK_EQ(s.size, sizes[i]);
            CHECK(memcmp(aether_file_data(file, i), data, sizes[i]) == 0);
            if (k == 0)
                checksums[i] = s.checksum;
            CHECK_EQ(s.checksum, checksums[i]);
        }
        aether_file_close(file);
    }
    free(data);
}

/* The definition in FORMAT.md, written down a second time. */
TEST(checksum_is_as_documented) {
    uint64_t size = 2 * AE_HASH_BLOCK + 100, hashes[3];
    uint8_t *data = calloc(1, size);
    data[5] = 1;
    for (int i = 0; i < 3; i++)
        hashes[i] = XXH3_64bits(data + (uint64_t)i * AE_HASH_BLOCK, i < 2 ? AE_HASH_BLOCK : 100);
    char path[256];
    aether_error err;
    aether_writer *w;
    aether_file *file;
    aether_section s;
    REQUIRE_OK(aether_writer_create(test_path(path, sizeof path, "sum.bin"), 2, &w, &err), err);
    REQUIRE_OK(add_section(w, AETHER_SECTION_ARRAY, 0, AETHER_F32, data, size, &err), err);
    REQUIRE_OK(add_section(w, AETHER_SECTION_ARRAY, 1, AETHER_F32, data, 0, &err), err);
    REQUIRE_OK(aether_writer_commit(w, &err), err);
    REQUIRE_OK(aether_file_open(path, &file, &err), err);
    CHECK_OK(aether_file_section(file, 0, &s, &err), err);
    CHECK_EQ(s.checksum, XXH3_64bits(hashes, sizeof hashes));
    CHECK_OK(aether_file_section(file, 1, &s, &err), err);
    CHECK_EQ(s.checksum, 0x2D06800538D394C2u);
    aether_file_close(file);
    free(data);
}

TEST(many_sections) {
    enum { COUNT = 3000 };
    char path[256];
    aether_error err;
    aether_writer *w;
    aether_file *file;
    REQUIRE_OK(aether_writer_create(test_path(path, sizeof path, "many.bin"), 1, &w, &err), err);
    for (uint32_t i = 0; i < COUNT; i++)
        REQUIRE_OK(
            add_section(w, AETHER_SECTION_NODE_TIME, i, AETHER_I64, &(int64_t){i}, i % 3 ? 8 : 0, &err), err);
    REQUIRE_OK(aether_writer_commit(w, &err), err);
    REQUIRE_OK(aether_file_open(path, &file, &err), err);
    CHECK_EQ(aether_file_num_sections(file), COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        if (i % 3)
            CHECK_EQ(*(const int64_t *)aether_file_data(file, i), i);
    CHECK_OK(aether_file_verify(file, NULL, &err), err);
    aether_file_close(file);
}

TEST(a_file_outlives_its_name) {
    char path[256], other[256];
    aether_error err;
    aether_file *file;
    REQUIRE_OK(write_sample(test_path(path, sizeof path, "gone.bin"), &err), err);
    REQUIRE_OK(aether_file_open(path, &file, &err), err);
    REQUIRE(rename(path, test_path(other, sizeof other, "moved.bin")) == 0 && unlink(other) == 0);
    CHECK(memcmp(aether_file_data(file, 1), indptr, sizeof indptr) == 0);
    CHECK_OK(aether_file_check(file, &err), err);
    CHECK_OK(aether_file_verify(file, NULL, &err), err);
    aether_file_close(file);
}

/* A nanosecond is enough: a file may be written to twice in a second. */
TEST(a_file_that_is_written_to_is_noticed) {
    char path[128];
    struct stat st;
    aether_file *file;
    aether_error err;
    test_path(path, sizeof path, "written.aeg");
    REQUIRE_OK(write_sample(path, &err), err);
    REQUIRE_OK(aether_file_open(path, &file, &err), err);
    CHECK_OK(aether_file_check(file, &err), err);
    REQUIRE(stat(path, &st) == 0);
    const struct timespec times[2] = {st.st_atim, {st.st_mtim.tv_sec, st.st_mtim.tv_nsec ^ 1}};
    REQUIRE(utimensat(AT_FDCWD, path, times, 0) == 0);
    CHECK_CODE(aether_file_check(file, &err), AETHER_E_FILE_CHANGED);
    CHECK_HAS(err.message, "was written to");
    aether_file_close(file);
}

/* ---- the golden file ----------------------------------------------------------- */

/* One section of every kind and two arrays, all values fixed. */
static int write_golden(const char *path, aether_error *err) {
    static const char meta[] =
        "{\"arrays\":[{\"dtype\":\"bfloat16\",\"name\":\"x\",\"of\":\"node\",\"shape\":[3,2],\"type\":0},"
        "{\"dtype\":\"int8\",\"name\":\"y\",\"of\":\"edge\",\"shape\":[4],\"type\":0}],"
        "\"edge_types\":[{\"destination\":0,\"name\":\"to\",\"num_edges\":4,\"source\":0}],"
        "\"node_types\":[{\"name\":\"node\",\"num_nodes\":3}],\"version\":1}";
    static const uint64_t csc_indptr[] = {0, 1, 3, 4}, csr_indptr[] = {0, 2, 3, 4};
    static const uint32_t csc_indices[] = {2, 0, 1, 0}, csr_indices[] = {1, 2, 1, 0};
    static const uint32_t csr_edge_ids[] = {1, 3, 2, 0};
    static const uint64_t edge_order[] = {3, 0, 2, 1};
    static const float weights[] = {0.5f, 1.0f, 2.0f, -4.0f};
    static const int64_t edge_times[] = {10, 20, 30, -40};
    static const double node_times[] = {0.25, -1.0, 1e300};
    static const uint16_t x[] = {0x3F80, 0x4000, 0x4040, 0xBF80, 0x0000, 0x7F80};
    static const int8_t y[] = {1, -2, 3, -128};
    static const struct {
        uint32_t kind, owner, dtype;
        const void *data;
        uint64_t size;
    } parts[] = {
        {AETHER_SECTION_META, 0, AETHER_U8, meta, sizeof meta - 1},
        {AETHER_SECTION_CSC_INDPTR, 0, AETHER_U64, csc_indptr, sizeof csc_indptr},
        {AETHER_SECTION_CSC_INDICES, 0, AETHER_U32, csc_indices, sizeof csc_indices},
        {AETHER_SECTION_CSR_INDPTR, 0, AETHER_U64, csr_indptr, sizeof csr_indptr},
        {AETHER_SECTION_CSR_INDICES, 0, AETHER_U32, csr_indices, sizeof csr_indices},
        {AETHER_SECTION_CSR_EDGE_IDS, 0, AETHER_U32, csr_edge_ids, sizeof csr_edge_ids},
        {AETHER_SECTION_EDGE_ORDER, 0, AETHER_U64, edge_order, sizeof edge_order},
        {AETHER_SECTION_EDGE_WEIGHT, 0, AETHER_F32, weights, sizeof weights},
        {AETHER_SECTION_EDGE_TIME, 0, AETHER_I64, edge_times, sizeof edge_times},
        {AETHER_SECTION_NODE_TIME, 0, AETHER_F64, node_times, sizeof node_times},
        {AETHER_SECTION_ARRAY, 0, AETHER_BF16, x, sizeof x},
        {AETHER_SECTION_ARRAY, 1, AETHER_I8, y, sizeof y},
    };
    aether_writer *w;
    int rc = aether_writer_create(path, AETHER_CONTENT_GRAPH, &w, err);
    if (rc)
        return rc;
    for (unsigned i = 0; !rc && i < sizeof parts / sizeof parts[0]; i++)
        rc = add_section(w, parts[i].kind, parts[i].owner, parts[i].dtype, parts[i].data, parts[i].size, err);
    if (!rc)
        return aether_writer_commit(w, err);
    aether_writer_abort(w);
    return rc;
}

/* Version 1 files stay readable, and writing them stays the same to the byte.
 * After a deliberate change of the format: a new version, a new golden file
 * (AETHER_WRITE_GOLDEN=1 writes it), and the old one goes on being read here. */
TEST(golden_file_of_version_1) {
    const char *golden = TEST_DATA "/graph-v1.aeg";
    char path[256];
    aether_error err;
    aether_file *file;
    if (getenv("AETHER_WRITE_GOLDEN"))
        REQUIRE_OK(write_golden(golden, &err), err);
    REQUIRE_OK(aether_file_open(golden, &file, &err), err);
    CHECK_EQ(aether_file_num_sections(file), 12);
    CHECK_OK(aether_file_verify(file, NULL, &err), err);
    CHECK_EQ(((const uint32_t *)aether_file_data(file, 5))[1], 3);
    aether_file_close(file);
    REQUIRE_OK(write_golden(test_path(path, sizeof path, "golden"), &err), err);
    bytes expected = read_file(golden), written = read_file(path);
    CHECK_EQ(written.size, expected.size);
    CHECK(written.size == expected.size && memcmp(written.data, expected.data, expected.size) == 0);
    free(expected.data);
    free(written.data);
}

/* ---- things that are not files of ours ---------------------------------------- */

TEST(missing_and_special_files) {
    char path[256];
    aether_error err;
    CHECK_CODE(open_code(test_path(path, sizeof path, "missing.bin"), &err), AETHER_E_NOT_FOUND);
    CHECK_HAS(err.message, "missing.bin");
    CHECK_EQ(err.os_errno, ENOENT);
    CHECK_CODE(open_code(test_dir(), &err), AETHER_E_IO);
    CHECK_EQ(err.os_errno, EISDIR);
    CHECK(mkfifo(test_path(path, sizeof path, "pipe"), 0600) == 0);
    CHECK_CODE(open_code(path, &err), AETHER_E_IO);
    CHECK_HAS(err.message, "a pipe, not a regular file");
    CHECK_CODE(open_code("/dev/null", &err), AETHER_E_IO);
    CHECK_HAS(err.message, "a device");
    CHECK_CODE(open_code(test_path(path, sizeof path, "missing.bin/x"), &err), AETHER_E_NOT_FOUND);
    write_file(test_path(path, sizeof path, "secret"), "x", 1);
    chmod(path, 0);
    if (geteuid() != 0) {
        CHECK_CODE(open_code(path, &err), AETHER_E_IO);
        CHECK_EQ(err.os_errno, EACCES);
    }
}

TEST(foreign_files) {
    static const struct {
        const char *text;
        size_t size;
    } files[] = {{"", 0}, {"A", 1}, {"AETHERG", 7}, {"\x93NUMPY\x01\x00", 8}, {"PAR1............", 16}};
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[256];
        aether_error err;
        write_file(test_path(path, sizeof path, "foreign"), files[i].text, files[i].size);
        CHECK_CODE(open_code(path, &err), AETHER_E_FORMAT);
        CHECK_HAS(err.message, files[i].size ? "is not an AetherGraph file" : "is empty");
    }
}

TEST(null_arguments) {
    aether_error err;
    aether_file *file;
    aether_writer *w;
    CHECK_CODE(aether_file_open(NULL, &file, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_file_open("", &file, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_file_open("x", NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_file_open("/no/such", &file, NULL), AETHER_E_NOT_FOUND);
    CHECK_CODE(aether_file_verify(NULL, NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_file_check(NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_file_section(NULL, 0, NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_create(NULL, 1, &w, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_create("/tmp/x", 99, &w, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_begin(NULL, 1, 0, 1, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_append(NULL, "", 0, NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_end(NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_finish(NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_commit(NULL, &err), AETHER_E_INVALID);
    aether_writer_abort(NULL);
    aether_file_close(NULL);
    CHECK(!aether_file_content(NULL) && !aether_file_num_sections(NULL) && !aether_file_size(NULL));
    CHECK(!aether_file_data(NULL, 0) && !aether_file_base(NULL) && aether_file_descriptor(NULL) == -1);
}

TEST(raw_mappings) {
    char path[256];
    aether_error err;
    aether_file *file;
    write_file(test_path(path, sizeof path, "raw"), "hello", 5);
    REQUIRE_OK(aether_file_map_raw(path, &file, &err), err);
    CHECK_EQ(aether_file_size(file), 5);
    CHECK(memcmp(aether_file_base(file), "hello", 5) == 0);
    CHECK_EQ(aether_file_num_sections(file), 0);
    CHECK_EQ(aether_file_content(file), 0);
    CHECK_OK(aether_file_check(file, &err), err);
    CHECK_OK(aether_file_verify(file, NULL, &err), err);
    aether_file_close(file);
    write_file(path, "", 0);
    REQUIRE_OK(aether_file_map_raw(path, &file, &err), err);
    CHECK_EQ(aether_file_size(file), 0);
    CHECK_OK(aether_file_check(file, &err), err);
    aether_file_close(file);
    CHECK_CODE(aether_file_map_raw(test_dir(), &file, &err), AETHER_E_IO);
    CHECK(file == NULL);
}

TEST(advice_never_changes_data) {
    char path[256];
    aether_error err;
    aether_file *file;
    static uint8_t data[5 * 4096 + 7];
    memset(data, 0x5A, sizeof data);
    write_file(test_path(path, sizeof path, "advice"), data, sizeof data);
    REQUIRE_OK(aether_file_map_raw(path, &file, &err), err);
    const uint8_t *base = aether_file_base(file);
    uint8_t *memory = aether_buffer_alloc(sizeof data, &err);
    REQUIRE(memory != NULL);
    memcpy(memory, data, sizeof data);
    for (int advice = -1; advice < 7; advice++) {
        aether_advise(base, sizeof data, advice);
        aether_advise(base + 5000, 6000, advice);
        aether_advise(base + 3, 1, advice);
        aether_advise(base, UINT64_MAX, advice);
        aether_advise(memory, sizeof data, advice);
        aether_advise(NULL, 4096, advice);
        aether_advise(base, 0, advice);
        CHECK(memcmp(base, data, sizeof data) == 0);
        CHECK(memcmp(memory, data, sizeof data) == 0);
    }
    aether_buffer_free(memory, sizeof data);
    aether_file_close(file);
}

TEST(discarding_keeps_size_and_surroundings) {
    char path[256];
    static uint8_t data[5 * 4096 + 7], found[sizeof data + 1];
    memset(data, 0x5A, sizeof data);
    write_file(test_path(path, sizeof path, "discard"), data, sizeof data);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    aether_file_discard(fd, 0, 0);
    aether_file_discard(fd, UINT64_MAX, 1);
    aether_file_discard(fd, 1, UINT64_MAX);
    aether_file_discard(-1, 0, 4096);
    CHECK_EQ(pread(fd, found, sizeof found, 0), (ssize_t)sizeof data);
    CHECK(memcmp(found, data, sizeof data) == 0);
    aether_file_discard(fd, 4000, 9000);
    CHECK_EQ(pread(fd, found, sizeof found, 0), (ssize_t)sizeof data);
    CHECK(memcmp(found, data, 4000) == 0);
    CHECK(memcmp(found + 13000, data + 13000, sizeof data - 13000) == 0);
    CHECK(found[8000] == 0 || found[8000] == 0x5A); /* a hole, where there can be one */
    close(fd);
}

/* ---- damage -------------------------------------------------------------------- */

/* Does the file open, verify, and hold the sample's data? */
static int open_and_verify(const char *path, aether_error *err) {
    aether_file *file;
    int rc = aether_file_open(path, &file, err);
    if (rc)
        return rc;
    rc = aether_file_verify(file, NULL, err);
    if (!rc)
        CHECK(memcmp(aether_file_data(file, 1), indptr, sizeof indptr) == 0 &&
              memcmp(aether_file_data(file, 2), indices, sizeof indices) == 0);
    aether_file_close(file);
    return rc;
}

/* Every byte of the file is covered: whichever changes, open or verify says so. */
TEST(any_flipped_byte_is_found) {
    image im;
    REQUIRE(make_image(&im, "flip.bin"));
    int fd = open(im.path, O_RDWR);
    REQUIRE(fd >= 0);
    unsigned silent = 0;
    for (size_t at = 0; at < im.file.size; at += at < 256 || at + 300 > im.file.size ? 1 : 7) {
        aether_error err = {0};
        uint8_t flipped = im.file.data[at] ^ (uint8_t)(1u << at % 8);
        REQUIRE(pwrite(fd, &flipped, 1, (off_t)at) == 1);
        int rc = open_and_verify(im.path, &err);
        silent += rc == AETHER_OK;
        CHECK(rc == AETHER_OK || (err.code == rc && err.message[0]));
        if (at >= 4096 && at < im.header->table_offset)
            CHECK_EQ(rc, AETHER_E_CORRUPT);
        REQUIRE(pwrite(fd, im.file.data + at, 1, (off_t)at) == 1);
    }
    CHECK_EQ(silent, 0);
    close(fd);
    free(im.file.data);
}

TEST(verify_names_the_damaged_section) {
    image im;
    aether_error err;
    aether_file *file;
    REQUIRE(make_image(&im, "named.bin"));
    im.file.data[12288] ^= 1; /* CSC_INDICES */
    write_file(im.path, im.file.data, im.file.size);
    REQUIRE_OK(aether_file_open(im.path, &file, &err), err);
    CHECK_CODE(aether_file_verify(file, NULL, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "section 2 (csc_indices, owner 0) is damaged");
    CHECK_EQ(err.position, 12288);
    CHECK_EQ(err.value, 2);
    aether_file_close(file);
    im.file.data[12288] ^= 1;
    im.file.data[12288 + sizeof indices] = 9;
    write_file(im.path, im.file.data, im.file.size);
    REQUIRE_OK(aether_file_open(im.path, &file, &err), err);
    CHECK_CODE(aether_file_verify(file, NULL, &err), AETHER_E_CORRUPT);
    CHECK_HAS(err.message, "padding after section 2");
    aether_file_close(file);
    free(im.file.data);
}

TEST_ONE_THREAD(any_truncation_is_found) {
    image im;
    REQUIRE(make_image(&im, "short.bin"));
    for (size_t size = im.file.size - 1; size != SIZE_MAX; size -= size > 300 && size % 64 > 1 ? 3 : 1) {
        aether_error err;
        REQUIRE(truncate(im.path, (off_t)size) == 0);
        int rc = open_code(im.path, &err);
        CHECK_EQ(rc, size < 8 ? AETHER_E_FORMAT : AETHER_E_TRUNCATED);
        if (size >= 4096) {
            CHECK_EQ(err.position, size);
            CHECK_EQ(err.value, im.file.size);
        }
    }
    free(im.file.data);
}

TEST(trailing_bytes_are_refused) {
    image im;
    aether_error err;
    REQUIRE(make_image(&im, "long.bin"));
    im.file.data = realloc(im.file.data, im.file.size + 1);
    im.file.data[im.file.size] = 0;
    write_file(im.path, im.file.data, im.file.size + 1);
    CHECK_CODE(open_code(im.path, &err), AETHER_E_FORMAT);
    CHECK_HAS(err.message, "1 bytes after its end");
    free(im.file.data);
}

TEST(random_damage_never_crashes) {
    image im;
    uint64_t state = 42;
    REQUIRE(make_image(&im, "random.bin"));
    uint8_t *copy = malloc(im.file.size);
    for (int round = 0; round < 2000; round++) {
        aether_error err;
        memcpy(copy, im.file.data, im.file.size);
        for (int n = (int)(test_random(&state) % 8); n >= 0; n--) {
            /* mostly in the header and the table, where it matters */
            size_t at = test_random(&state) % 3 ? test_random(&state) % 80
                                                : im.file.size - 1 - test_random(&state) % 256;
            copy[at] = test_random(&state) % 2 ? 0xFF : (uint8_t)test_random(&state);
        }
        ae_format_header *h = (ae_format_header *)copy;
        if (round % 2) /* checksums that fit, so that the checks behind them are reached */
            h->table_checksum =
                ae_hash(copy + im.header->table_offset, im.file.size - im.header->table_offset);
        if (round % 4)
            h->checksum = ae_hash(h, AE_FORMAT_HEADER_HASHED);
        write_file(im.path, copy, im.file.size);
        aether_file *file;
        if (aether_file_open(im.path, &file, &err) == AETHER_OK) {
            for (uint32_t i = 0; i < aether_file_num_sections(file); i++) {
                aether_section s;
                CHECK_OK(aether_file_section(file, i, &s, &err), err);
                CHECK(s.offset <= aether_file_size(file) && s.size <= aether_file_size(file) - s.offset);
            }
            aether_file_verify(file, NULL, &err);
            aether_file_close(file);
        }
    }
    free(copy);
    free(im.file.data);
}

/* ---- headers and tables that lie, with checksums that fit ------------------------- */

#define EXPECT_REFUSED(change, expected, text)                                                               \
    do {                                                                                                     \
        image im;                                                                                            \
        aether_error err;                                                                                    \
        REQUIRE(make_image(&im, "lie.bin"));                                                                 \
        change;                                                                                              \
        store_image(&im);                                                                                    \
        CHECK_CODE(open_code(im.path, &err), expected);                                                      \
        CHECK_HAS(err.message, text);                                                                        \
        free(im.file.data);                                                                                  \
    } while (0)

TEST(newer_versions_are_refused_with_both_versions) {
    EXPECT_REFUSED(im.header->version = 2, AETHER_E_VERSION, "format version 2");
    EXPECT_REFUSED(im.header->version = 2, AETHER_E_VERSION, "reads up to version 1: upgrade");
    EXPECT_REFUSED(im.header->version = UINT32_MAX, AETHER_E_VERSION, "4294967295");
    EXPECT_REFUSED(im.header->version = 0, AETHER_E_FORMAT, "version 0");
    EXPECT_REFUSED(im.header->required = 2, AETHER_E_VERSION, "features (0x2)");
    EXPECT_REFUSED(im.header->required = 5, AETHER_E_VERSION, "features (0x4)");
}

/* What follows the first 16 bytes may look like anything in a later version. */
TEST(newer_versions_are_recognised_before_all_else) {
    image im;
    aether_error err;
    REQUIRE(make_image(&im, "later.bin"));
    im.header->version = 3;
    memset(im.file.data + 16, 0xEE, 4080);
    write_file(im.path, im.file.data, 20);
    CHECK_CODE(open_code(im.path, &err), AETHER_E_VERSION);
    free(im.file.data);
}

/* A version that knows no compressed lists says so, and opens all other files. */
TEST(compressed_lists_are_a_feature_that_readers_must_know) {
    image im;
    aether_error err;
    aether_writer *w;
    REQUIRE(make_image(&im, "plain.bin"));
    CHECK_EQ(im.header->required, 0);
    REQUIRE_OK(aether_writer_create(im.path, AETHER_CONTENT_GRAPH, &w, &err), err);
    CHECK_OK(add_section(w, AETHER_SECTION_CSC_BLOCKS, 0, AETHER_U8, "x", 1, &err), err);
    CHECK_OK(add_section(w, AETHER_SECTION_ARRAY, 0, AETHER_U8, "x", 1, &err), err);
    REQUIRE_OK(aether_writer_commit(w, &err), err);
    free(im.file.data);
    im.file = read_file(im.path);
    CHECK_EQ(((const ae_format_header *)im.file.data)->required, AE_FORMAT_COMPRESSED);
    free(im.file.data);
}

TEST(optional_features_and_unknown_kinds_are_skipped) {
    image im;
    aether_error err;
    aether_file *file;
    REQUIRE(make_image(&im, "forward.bin"));
    im.header->optional = UINT64_MAX;
    im.entries[0].kind = 4711;
    im.entries[0].dtype = 99;
    store_image(&im);
    REQUIRE_OK(aether_file_open(im.path, &file, &err), err);
    CHECK_EQ(aether_file_num_sections(file), 4);
    aether_section s;
    CHECK_OK(aether_file_section(file, 0, &s, &err), err);
    CHECK_EQ(s.kind, 4711);
    CHECK_OK(aether_file_verify(file, NULL, &err), err);
    aether_file_close(file);
    free(im.file.data);
}

TEST(foreign_byte_order_is_named) {
    EXPECT_REFUSED(im.header->byte_order = 0x04030201, AETHER_E_FORMAT, "big-endian");
    EXPECT_REFUSED(im.header->byte_order = 0x01020305, AETHER_E_CORRUPT, "byte order");
}

TEST(header_fields_are_checked) {
    EXPECT_REFUSED(im.header->content = 77, AETHER_E_UNSUPPORTED, "unknown kind (77)");
    EXPECT_REFUSED(im.header->page = 512, AETHER_E_FORMAT, "pages of 512");
    EXPECT_REFUSED(im.header->entry_size = 32, AETHER_E_FORMAT, "entries of 32");
    EXPECT_REFUSED(im.header->num_sections = 5, AETHER_E_FORMAT, "does not fit");
    EXPECT_REFUSED(im.header->num_sections = UINT32_MAX, AETHER_E_FORMAT, "does not fit");
    EXPECT_REFUSED(im.header->num_sections = 0, AETHER_E_FORMAT, "does not fit");
    EXPECT_REFUSED(im.header->table_offset = 0, AETHER_E_FORMAT, "does not fit");
    EXPECT_REFUSED(im.header->table_offset += 64, AETHER_E_FORMAT, "does not fit");
    EXPECT_REFUSED(im.header->table_offset = UINT64_MAX - 255, AETHER_E_FORMAT, "does not fit");
    EXPECT_REFUSED(im.header->table_size = UINT64_MAX, AETHER_E_FORMAT, "does not fit");
    EXPECT_REFUSED(im.header->file_size = UINT64_MAX, AETHER_E_TRUNCATED, "should have 18446744073709551615");
    EXPECT_REFUSED(im.header->file_size = 0, AETHER_E_FORMAT, "after its end");
}

TEST(entries_are_checked) {
    EXPECT_REFUSED(im.entries[1].kind = 0, AETHER_E_FORMAT, "has no kind");
    EXPECT_REFUSED(im.entries[1].offset += 1, AETHER_E_FORMAT, "does not begin");
    EXPECT_REFUSED(im.entries[1].offset += 4096, AETHER_E_FORMAT, "does not begin");
    EXPECT_REFUSED(im.entries[1].offset = 0, AETHER_E_FORMAT, "does not begin");
    EXPECT_REFUSED(im.entries[1].offset = UINT64_MAX - 4095, AETHER_E_FORMAT, "does not begin");
    EXPECT_REFUSED(im.entries[1].size = UINT64_MAX, AETHER_E_FORMAT, "beyond");
    EXPECT_REFUSED(im.entries[1].size = UINT64_MAX - 8191, AETHER_E_FORMAT, "beyond");
    EXPECT_REFUSED(im.entries[1].size = 1 << 20, AETHER_E_FORMAT, "beyond");
    EXPECT_REFUSED(im.entries[1].size = 8192, AETHER_E_FORMAT, "does not begin"); /* overlaps the next */
    EXPECT_REFUSED(im.entries[3].size = 4096, AETHER_E_FORMAT, "beyond");
    EXPECT_REFUSED(im.entries[2].size = 13, AETHER_E_FORMAT, "whole number");
    EXPECT_REFUSED(im.entries[2].dtype = 0, AETHER_E_FORMAT, "element type");
    EXPECT_REFUSED(im.entries[2].dtype = 13, AETHER_E_FORMAT, "element type");
    EXPECT_REFUSED(im.entries[2].dtype = UINT32_MAX, AETHER_E_FORMAT, "element type");
    EXPECT_REFUSED(im.entries[2].dtype = AETHER_F32, AETHER_E_FORMAT, "element type");
    EXPECT_REFUSED((im.entries[2].kind = AETHER_SECTION_CSC_INDPTR, im.entries[2].dtype = AETHER_U64,
                    im.entries[2].size = 8),
                   AETHER_E_FORMAT, "two sections csc_indptr of owner 0");
}

/* ---- the writer's own checks ------------------------------------------------------- */

TEST(writer_refuses_misuse) {
    char path[256];
    aether_error err;
    aether_writer *w;
    REQUIRE_OK(aether_writer_create(test_path(path, sizeof path, "misuse.bin"), 1, &w, &err), err);
    CHECK_CODE(aether_writer_end(w, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_append(w, "x", 1, NULL, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_begin(w, 0, 0, AETHER_U8, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_begin(w, 999, 0, AETHER_U8, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_begin(w, AETHER_SECTION_META, 0, AETHER_F32, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "section meta cannot hold dtype float32");
    CHECK_CODE(aether_writer_begin(w, AETHER_SECTION_ARRAY, 0, 0, &err), AETHER_E_INVALID);
    REQUIRE_OK(aether_writer_begin(w, AETHER_SECTION_META, 0, AETHER_U8, &err), err);
    CHECK_CODE(aether_writer_begin(w, AETHER_SECTION_ARRAY, 0, AETHER_U8, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_append(w, NULL, 1, NULL, &err), AETHER_E_INVALID);
    CHECK_OK(aether_writer_append(w, NULL, 0, NULL, &err), err);
    CHECK_OK(aether_writer_end(w, &err), err);
    CHECK_CODE(aether_writer_begin(w, AETHER_SECTION_META, 0, AETHER_U8, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "was written before");
    REQUIRE_OK(aether_writer_begin(w, AETHER_SECTION_ARRAY, 0, AETHER_F64, &err), err);
    CHECK_OK(aether_writer_append(w, "1234567", 7, NULL, &err), err);
    CHECK_CODE(aether_writer_end(w, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "no whole number of float64");
    CHECK_CODE(aether_writer_commit(w, &err), AETHER_E_INVALID);
    CHECK(access(path, F_OK) != 0);
    REQUIRE_OK(aether_writer_create(path, 1, &w, &err), err);
    REQUIRE_OK(aether_writer_begin(w, AETHER_SECTION_META, 0, AETHER_U8, &err), err);
    CHECK_CODE(aether_writer_commit(w, &err), AETHER_E_INVALID); /* a section is open */
    CHECK(access(path, F_OK) != 0);
}

TEST(finished_before_it_is_committed) {
    char path[256];
    aether_error err;
    aether_writer *w;
    aether_file *file;
    REQUIRE_OK(aether_writer_create(test_path(path, sizeof path, "finished.bin"), 2, &w, &err), err);
    REQUIRE_OK(aether_writer_begin(w, AETHER_SECTION_ARRAY, 0, AETHER_U8, &err), err);
    REQUIRE_OK(aether_writer_append(w, "1234567", 7, NULL, &err), err);
    REQUIRE_OK(aether_writer_end(w, &err), err);
    REQUIRE_OK(aether_writer_finish(w, &err), err);
    REQUIRE_OK(aether_writer_finish(w, &err), err);
    CHECK(access(path, F_OK) != 0);
    CHECK_CODE(aether_writer_begin(w, AETHER_SECTION_META, 0, AETHER_U8, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "is finished");
    REQUIRE_OK(aether_writer_commit(w, &err), err);
    REQUIRE_OK(aether_file_open(path, &file, &err), err);
    CHECK_OK(aether_file_verify(file, NULL, &err), err);
    aether_file_close(file);
    unlink(path);

    REQUIRE_OK(aether_writer_create(path, 2, &w, &err), err);
    REQUIRE_OK(aether_writer_finish(w, &err), err);
    aether_writer_abort(w);
    CHECK(access(path, F_OK) != 0);
}

/* ---- progress and cancelling -------------------------------------------------------- */

TEST(tasks_report_and_cancel) {
    const uint64_t size = 5 * AE_HASH_BLOCK + 1;
    uint8_t *data = calloc(1, size);
    char path[256];
    aether_error err;
    aether_writer *w;
    aether_file *file;
    aether_task task = {.total = size};
    REQUIRE_OK(aether_writer_create(test_path(path, sizeof path, "task.bin"), 2, &w, &err), err);
    REQUIRE_OK(aether_writer_begin(w, AETHER_SECTION_ARRAY, 0, AETHER_U8, &err), err);
    REQUIRE_OK(aether_writer_append(w, data, size, &task, &err), err);
    CHECK_EQ(task.done, size);
    CHECK_EQ(task.total, size);
    REQUIRE_OK(aether_writer_end(w, &err), err);
    REQUIRE_OK(aether_writer_commit(w, &err), err);

    REQUIRE_OK(aether_file_open(path, &file, &err), err);
    task = (aether_task){0};
    CHECK_OK(aether_file_verify(file, &task, &err), err);
    CHECK_EQ(task.done, size);
    CHECK_EQ(task.total, size);
    task = (aether_task){.cancel = 1};
    CHECK_CODE(aether_file_verify(file, &task, &err), AETHER_E_CANCELLED);
    CHECK_EQ(task.done, 0);
    aether_file_close(file);

    REQUIRE_OK(aether_writer_create(path, 2, &w, &err), err);
    REQUIRE_OK(aether_writer_begin(w, AETHER_SECTION_ARRAY, 0, AETHER_U8, &err), err);
    CHECK_CODE(aether_writer_append(w, data, size, &task, &err), AETHER_E_CANCELLED);
    CHECK_CODE(aether_writer_append(w, data, size, NULL, &err), AETHER_E_CANCELLED);
    CHECK_HAS(err.message, "failed before");
    CHECK_CODE(aether_writer_commit(w, &err), AETHER_E_CANCELLED);
    REQUIRE_OK(aether_file_open(path, &file, &err), err); /* the old file */
    CHECK_OK(aether_file_verify(file, NULL, &err), err);
    aether_file_close(file);
    free(data);
}

TEST_MAIN()
