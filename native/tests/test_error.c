/* The error table, the error setters, element types and the CPU count. */
#include <errno.h>

#include "core/cpu.h"
#include "core/dtype.h"
#include "core/error.h"
#include "test.h"

TEST_ONE_THREAD(table_rows_are_distinct_and_complete) {
    uint32_t count = 0;
    while (aether_error_table(count))
        count++;
    CHECK_EQ(count, -AETHER_E_MISSING_ROW); /* the last code */
    for (uint32_t i = 0; i < count; i++) {
        const aether_error_entry *row = aether_error_table(i);
        CHECK(row->code < 0 && row->code >= AETHER_E_MISSING_ROW);
        CHECK(row->name[0] && row->text[0]);
        for (uint32_t j = 0; j < i; j++)
            CHECK(aether_error_table(j)->code != row->code);
    }
    CHECK(!aether_error_table(count) && !aether_error_table(UINT32_MAX));
}

TEST_ONE_THREAD(set_fills_and_returns_the_code) {
    aether_error err = {.code = 7, .os_errno = 7, .position = 7, .value = 7, .message = "old"};
    CHECK_EQ(ae_error_set(&err, AETHER_E_INVALID, "no %s", "seeds"), AETHER_E_INVALID);
    CHECK_EQ(err.code, AETHER_E_INVALID);
    CHECK_EQ(err.os_errno, 0);
    CHECK_EQ(err.position, -1);
    CHECK_STR(err.message, "no seeds");
    ae_error_clear(&err);
    CHECK_EQ(err.code, AETHER_OK);
    CHECK_STR(err.message, "");
}

TEST_ONE_THREAD(at_names_position_and_value) {
    aether_error err;
    CHECK_EQ(ae_error_at(&err, AETHER_E_RANGE, 3, -9, "node id %d", -9), AETHER_E_RANGE);
    CHECK_EQ(err.position, 3);
    CHECK_EQ(err.value, -9);
    CHECK_STR(err.message, "node id -9");
}

TEST_ONE_THREAD(os_maps_errno) {
    aether_error err;
    CHECK_EQ(ae_error_os(&err, ENOENT, "cannot open a.bin"), AETHER_E_NOT_FOUND);
    CHECK_STR(err.message, "cannot open a.bin: No such file or directory");
    CHECK_EQ(err.os_errno, ENOENT);
    CHECK_EQ(ae_error_os(&err, ENOMEM, "x"), AETHER_E_NO_MEMORY);
    CHECK_EQ(ae_error_os(&err, EACCES, "x"), AETHER_E_IO);
    CHECK_EQ(ae_error_os(&err, ELOOP, "cannot open a.bin"), AETHER_E_IO);
    CHECK_STR(err.message, "cannot open a.bin: it is a symbolic link: put the file itself there");
}

TEST_ONE_THREAD(null_error_is_accepted) {
    CHECK_EQ(ae_error_set(NULL, AETHER_E_IO, "x"), AETHER_E_IO);
    CHECK_EQ(ae_error_at(NULL, AETHER_E_IO, 0, 0, "x"), AETHER_E_IO);
    CHECK_EQ(ae_error_os(NULL, EIO, "x"), AETHER_E_IO);
    CHECK_EQ(ae_error_os(NULL, ENOSPC, "x"), AETHER_E_DISK_FULL);
    CHECK_EQ(ae_error_os(NULL, EDQUOT, "x"), AETHER_E_DISK_FULL);
    ae_error_clear(NULL);
}

/* Long messages end in whole characters, and OS errors keep their reason. */
TEST_ONE_THREAD(long_messages_are_cut_between_characters) {
    /* An e with an accent, the sign of the euro, a globe. */
    static const char *const characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x8C\x8D"};
    char text[1024];
    for (unsigned i = 0; i < 12; i++) {
        const char *character = characters[i % 3];
        const size_t shift = i / 3, bytes = strlen(character);
        memset(text, 'a', shift);
        for (size_t at = shift; at + bytes < sizeof text; at += bytes)
            memcpy(text + at, character, bytes + 1);
        aether_error err;
        ae_error_set(&err, AETHER_E_INVALID, "%s", text);
        size_t length = strlen(err.message);
        CHECK_EQ((length - shift) % bytes, 0);
        CHECK(length > sizeof err.message - 1 - bytes);
        ae_error_os(&err, EIO, "%s", text);
        char expected[64];
        snprintf(expected, sizeof expected, ": %s", strerror(EIO)); /* C libraries word it differently */
        const char *reason = strstr(err.message, expected);
        REQUIRE(reason != NULL);
        CHECK_EQ((size_t)(reason - err.message - (ptrdiff_t)shift) % bytes, 0);
    }
    memset(text, 0x80, sizeof text - 1); /* not UTF-8 at all */
    text[sizeof text - 1] = '\0';
    aether_error err;
    ae_error_set(&err, AETHER_E_INVALID, "%s", text);
    CHECK_EQ(strlen(err.message), sizeof err.message - 1);
}

TEST_ONE_THREAD(dtype_sizes_and_names) {
    static const uint32_t sizes[] = {0, 1, 1, 1, 2, 4, 8, 4, 8, 2, 2, 4, 8, 0, 0};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        CHECK_EQ(aether_dtype_size(i), sizes[i]);
    CHECK_EQ(aether_dtype_size(UINT32_MAX), 0);
    CHECK_STR(ae_dtype_name(AETHER_BF16), "bfloat16");
    CHECK_STR(ae_dtype_name(0), "unknown");
    CHECK_STR(ae_dtype_name(UINT32_MAX), "unknown");
}

static void put(const char *name, const char *text) {
    char path[512], command[600];
    test_path(path, sizeof path, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    snprintf(command, sizeof command, "mkdir -p '%s'", path);
    REQUIRE(system(command) == 0);
    *slash = '/';
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL);
    fputs(text, file);
    fclose(file);
}

static uint32_t count_at(const char *name, uint32_t affinity) {
    char root[256];
    return ae_core_cpu_count_at(test_path(root, sizeof root, name), affinity);
}

TEST_ONE_THREAD(cpu_count_honours_cgroup_v2) {
    put("v2/proc/self/cgroup", "0::/a/b\n");
    put("v2/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK_EQ(count_at("v2", 64), 64);
    put("v2/sys/fs/cgroup/a/cpu.max", "250000 100000\n"); /* the parent limits: 2.5 -> 3 */
    CHECK_EQ(count_at("v2", 64), 3);
    CHECK_EQ(count_at("v2", 2), 2);
    put("v2/sys/fs/cgroup/a/b/cpu.max", "1000 100000\n");
    CHECK_EQ(count_at("v2", 64), 1);
}

TEST_ONE_THREAD(cpu_count_in_a_container_reads_the_mount) {
    put("c/proc/self/cgroup", "0::/docker/deadbeef\n");
    put("c/sys/fs/cgroup/cpu.max", "400000 100000\n");
    CHECK_EQ(count_at("c", 64), 4);
}

TEST_ONE_THREAD(cpu_count_honours_cgroup_v1) {
    put("v1/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/x\n3:cpuset:/\n");
    put("v1/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
    put("v1/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(count_at("v1", 64), 64);
    put("v1/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "150000\n");
    CHECK_EQ(count_at("v1", 64), 2);
}

TEST_ONE_THREAD(cpu_count_survives_odd_files) {
    CHECK_EQ(count_at("missing", 5), 5);
    put("odd/proc/self/cgroup", "\n:\n0:\n0::\n::::\n0::/../..\n");
    put("odd/sys/fs/cgroup/cpu.max", "junk\n");
    CHECK_EQ(count_at("odd", 5), 5);
    CHECK_EQ(count_at("odd", 0), 1);
    CHECK(ae_core_cpu_count() >= 1);
}

TEST_MAIN()
