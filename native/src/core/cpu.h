/*
 * core/cpu.h - how many processors this process may use.
 *
 *   min( CPUs in the affinity mask,
 *        ceil(quota / period) of its cgroup and of every ancestor ), at least 1
 *
 * Caveats: read anew on every call (a few small files); cgroup v2 and v1 are
 * found through /proc/self/cgroup under /sys/fs/cgroup. Where they cannot be
 * read, affinity alone decides.
 */
#ifndef AE_CORE_CPU_H
#define AE_CORE_CPU_H

#include "aether.h"

/* Return how many processors this process may use. */
uint32_t ae_core_cpu_count(void);

/* Return the count with another root for /proc and /sys, and another affinity count; for tests. */
uint32_t ae_core_cpu_count_at(const char *root, uint32_t affinity);

#endif
