#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CPUS  65536
#define PATH_ROOM 4096

/* CPUs in this thread's affinity mask. Machines with more than CPU_SETSIZE
 * processors need a larger mask, so it grows until the kernel accepts it. */
static uint32_t affinity_count(void) {
    for (int cpus = 1024; cpus <= MAX_CPUS; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            break;
        size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        int failed = sched_getaffinity(0, size, set);
        int count = failed ? 0 : CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (count > 0)
            return (uint32_t)count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

static bool read_line(const char *path, char *line, int size) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fgets(line, size, file) != NULL;
    fclose(file);
    return got;
}

static uint32_t quota_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return UINT32_MAX; /* no limit */
    long long cpus = quota / period + (quota % period != 0);
    return cpus < UINT32_MAX ? (uint32_t)cpus : UINT32_MAX;
}

/* Parse the number at *text and move past it; 0 if there is none ("max"). */
static long long take_number(char **text) {
    char *end;
    long long number = strtoll(*text, &end, 10);
    *text = end;
    return number;
}

/* cpu.max holds "quota period" or "max period". */
static uint32_t quota_v2(const char *dir) {
    char path[PATH_ROOM + 64], line[128], *text = line;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    if (!read_line(path, line, sizeof line))
        return UINT32_MAX;
    long long quota = take_number(&text);
    return quota_cpus(quota, take_number(&text));
}

static uint32_t quota_v1(const char *dir) {
    char path[PATH_ROOM + 64], line[128], *text = line;
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
    if (!read_line(path, line, sizeof line))
        return UINT32_MAX;
    long long quota = take_number(&text);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
    if (!read_line(path, line, sizeof line))
        return UINT32_MAX;
    text = line;
    return quota_cpus(quota, take_number(&text));
}

/* Return the smallest limit of mount/group and its ancestors up to the mount. In a container the
 * group's path may not exist below the mount: the walk then ends at the mount itself, which is
 * the container's own group. */
static uint32_t quota_along(const char *mount, const char *group, uint32_t (*quota)(const char *)) {
    char dir[PATH_ROOM];
    int length = snprintf(dir, sizeof dir, "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof dir)
        return quota(mount);
    uint32_t least = UINT32_MAX;
    for (size_t base = strlen(mount);;) {
        uint32_t here = quota(dir);
        if (here < least)
            least = here;
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= base || !slash || slash < dir + base)
            return least;
        *slash = '\0';
    }
}

/* Return whether `cpu` is one of the comma-separated controllers. */
static bool has_cpu(const char *controllers) {
    for (const char *name = controllers; *name;) {
        size_t length = strcspn(name, ",");
        if (length == 3 && memcmp(name, "cpu", 3) == 0)
            return true;
        name += length + (name[length] == ',');
    }
    return false;
}

/* One line of /proc/self/cgroup: "id:controllers:path", controllers empty in v2. */
static uint32_t quota_of_line(const char *root, char *line) {
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return UINT32_MAX;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    controllers++;
    char mount[PATH_ROOM];
    if (*controllers == '\0') {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        return quota_along(mount, group, quota_v2);
    }
    if (!has_cpu(controllers))
        return UINT32_MAX;
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu", root);
    uint32_t by_link = quota_along(mount, group, quota_v1);
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, controllers);
    uint32_t by_name = quota_along(mount, group, quota_v1);
    return by_link < by_name ? by_link : by_name;
}

static uint32_t cgroup_count(const char *root) {
    char path[PATH_ROOM], line[PATH_ROOM];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return UINT32_MAX;
    uint32_t least = UINT32_MAX;
    while (fgets(line, sizeof line, file)) {
        uint32_t here = quota_of_line(root, line);
        if (here < least)
            least = here;
    }
    fclose(file);
    return least;
}

uint32_t ae_core_cpu_count_at(const char *root, uint32_t affinity) {
    uint32_t quota = cgroup_count(root);
    uint32_t count = affinity < quota ? affinity : quota;
    return count ? count : 1;
}

uint32_t ae_core_cpu_count(void) {
    return ae_core_cpu_count_at("", affinity_count());
}
