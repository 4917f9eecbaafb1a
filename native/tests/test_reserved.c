/* Sections that are filled in their place, in turns: the file is that of appending one after the other. */
#include "format/hash.h"
#include "test.h"

#define SECTIONS 6

static const uint64_t sizes[SECTIONS] = {0, 8, 4096, AE_HASH_BLOCK, AE_HASH_BLOCK + 8, 3 * AE_HASH_BLOCK - 8};
static uint8_t *data;

static void make_data(void) {
    uint64_t state = 1;
    data = malloc(4 * AE_HASH_BLOCK);
    REQUIRE(data);
    for (uint64_t i = 0; i < 4 * AE_HASH_BLOCK; i++)
        data[i] = (uint8_t)test_random(&state);
}

static aether_writer *create(char path[256], const char *name) {
    aether_writer *w = NULL;
    aether_error err = {0};
    CHECK_OK(aether_writer_create(test_path(path, 256, name), AETHER_CONTENT_GRAPH, &w, &err), err);
    return w;
}

static void append(aether_writer *w, uint32_t i) {
    aether_error err = {0};
    CHECK_OK(aether_writer_begin(w, AETHER_SECTION_ARRAY, i, AETHER_U64, &err), err);
    CHECK_OK(aether_writer_append(w, data + i, sizes[i], NULL, &err), err);
    CHECK_OK(aether_writer_end(w, &err), err);
}

/* Sections 1, 3 and 5 are reserved, and filled by `step` bytes in turns. */
static void write_in_turns(const char *name, uint64_t step) {
    char path[256];
    aether_error err = {0};
    aether_writer *w = create(path, name);
    uint32_t places[SECTIONS];
    uint64_t done[SECTIONS] = {0};
    REQUIRE(w);
    for (uint32_t i = 0; i < SECTIONS; i++)
        if (i % 2)
            CHECK_OK(
                aether_writer_reserve(w, AETHER_SECTION_ARRAY, i, AETHER_U64, sizes[i], &places[i], &err),
                err);
        else
            append(w, i);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 1; i < SECTIONS; i += 2) {
            const uint64_t left = sizes[i] - done[i], n = left < step ? left : step;
            aether_task task = {0};
            CHECK_OK(aether_writer_put(w, places[i], data + i + done[i], n, &task, &err), err);
            CHECK_EQ(task.done, n);
            done[i] += n;
            more |= done[i] < sizes[i];
        }
    }
    CHECK_OK(aether_writer_commit(w, &err), err);
}

static uint8_t *read_file(const char *name, uint64_t *size) {
    char path[256];
    FILE *file = fopen(test_path(path, sizeof path, name), "rb");
    struct stat st = {0};
    uint8_t *bytes = NULL;
    if (file && fstat(fileno(file), &st) == 0 && (bytes = malloc((size_t)st.st_size)))
        *size = fread(bytes, 1, (size_t)st.st_size, file);
    if (file)
        fclose(file);
    return bytes;
}

TEST_ONE_THREAD(the_file_is_that_of_appending) {
    char path[256];
    aether_error err = {0};
    make_data();
    aether_writer *w = create(path, "appended.aeg");
    for (uint32_t i = 0; i < SECTIONS; i++)
        append(w, i);
    CHECK_OK(aether_writer_commit(w, &err), err);
    uint64_t size = 0, other_size = 0;
    uint8_t *expected = read_file("appended.aeg", &size);
    const uint64_t steps[] = {UINT64_MAX, 1000000, 4096, AE_HASH_BLOCK};
    for (uint32_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        write_in_turns("turns.aeg", steps[i]);
        uint8_t *found = read_file("turns.aeg", &other_size);
        CHECK_EQ(size, other_size);
        CHECK(expected && found && memcmp(expected, found, size) == 0);
        free(found);
    }
    free(expected);
    free(data);
}

TEST_ONE_THREAD(misuse_is_named) {
    char path[256];
    aether_error err = {0};
    uint64_t word[2] = {1, 2};
    uint32_t place = 0, other = 0;
    aether_writer *w = create(path, "misuse.aeg");
    CHECK_CODE(aether_writer_reserve(w, AETHER_SECTION_ARRAY, 0, AETHER_U64, 7, &place, &err),
               AETHER_E_INVALID);
    CHECK_CODE(aether_writer_reserve(w, 999, 0, AETHER_U64, 8, &place, &err), AETHER_E_INVALID);
    CHECK_CODE(aether_writer_reserve(w, AETHER_SECTION_ARRAY, 0, AETHER_U64, UINT64_MAX - 7, &place, &err),
               AETHER_E_LIMIT);
    CHECK_OK(aether_writer_reserve(w, AETHER_SECTION_ARRAY, 0, AETHER_U64, 8, &place, &err), err);
    CHECK_CODE(aether_writer_reserve(w, AETHER_SECTION_ARRAY, 0, AETHER_U64, 8, &other, &err),
               AETHER_E_INVALID); /* twice */
    CHECK_CODE(aether_writer_put(w, place + 1, word, 8, NULL, &err), AETHER_E_INVALID);
    CHECK_OK(aether_writer_begin(w, AETHER_SECTION_META, 0, AETHER_U8, &err), err);
    CHECK_CODE(aether_writer_reserve(w, AETHER_SECTION_ARRAY, 1, AETHER_U64, 8, &other, &err),
               AETHER_E_INVALID);
    CHECK_OK(aether_writer_put(w, place, word, 8, NULL, &err), err); /* beside one that was begun */
    CHECK_OK(aether_writer_end(w, &err), err);
    CHECK_CODE(aether_writer_put(w, place, word, 8, NULL, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "has place for 8 bytes");
    CHECK_CODE(aether_writer_commit(w, &err), AETHER_E_INVALID);
    CHECK(access(path, F_OK) != 0);
    w = create(path, "misuse.aeg");
    CHECK_OK(aether_writer_reserve(w, AETHER_SECTION_ARRAY, 0, AETHER_U64, 16, &place, &err), err);
    CHECK_OK(aether_writer_put(w, place, word, 8, NULL, &err), err);
    CHECK_CODE(aether_writer_commit(w, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "8 bytes were put into place for 16");
    w = create(path, "misuse.aeg");
    aether_task task = {.cancel = 1};
    CHECK_OK(aether_writer_reserve(w, AETHER_SECTION_ARRAY, 0, AETHER_U64, 8, &place, &err), err);
    CHECK_CODE(aether_writer_put(w, place, word, 8, &task, &err), AETHER_E_CANCELLED);
    CHECK_CODE(aether_writer_put(w, place, word, 8, NULL, &err), AETHER_E_CANCELLED);
    aether_writer_abort(w);
    CHECK(access(path, F_OK) != 0);
}

TEST_MAIN()
