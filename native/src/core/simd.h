/*
 * core/simd.h - what this processor offers beyond the baseline we compile for.
 *
 *   caller: if (ae_core_has_f16c()) use the function compiled with
 *           __attribute__((target("avx,f16c"))), else the portable one
 *
 * Caveats: the answer is kept per source file that asks; the first question
 * costs some 10 us in a virtual machine, which traps it.
 */
#ifndef AE_CORE_SIMD_H
#define AE_CORE_SIMD_H

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* gcc's "sse4.2" has the instructions of CRC-32C in it, which newer clangs name apart. */
#if defined(__clang__)
#define AE_CORE_CRC32C __attribute__((target("sse4.2,crc32")))
#else
#define AE_CORE_CRC32C __attribute__((target("sse4.2")))
#endif

static inline bool ae_core_probe_f16c(void) {
    unsigned a, b, c = 0, d;
    /* "avx" also says that the system saves the wide registers; "f16c" itself
     * is not a name that every compiler's __builtin_cpu_supports knows. */
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static inline bool ae_core_probe_popcnt(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("popcnt");
}

static inline bool ae_core_probe_crc32c(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}

static inline bool ae_core_probe_deposit(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") && !__builtin_cpu_is("znver2");
}
#else
static inline bool ae_core_probe_f16c(void) {
    return false;
}

static inline bool ae_core_probe_popcnt(void) {
    return false;
}

static inline bool ae_core_probe_crc32c(void) {
    return false;
}

static inline bool ae_core_probe_deposit(void) {
    return false;
}
#endif

/* Ask once; `known` is 0 before, then 1 for no and 2 for yes. */
static inline bool ae_core_ask(atomic_int *known, bool (*probe)(void)) {
    int answer = atomic_load_explicit(known, memory_order_relaxed);
    if (!answer) {
        answer = probe() ? 2 : 1;
        atomic_store_explicit(known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

/* Return whether the processor converts between float16 and float32. */
static inline bool ae_core_has_f16c(void) {
    static atomic_int known;
    return ae_core_ask(&known, ae_core_probe_f16c);
}

/* Return whether the processor counts the ones of a word. */
static inline bool ae_core_has_popcnt(void) {
    static atomic_int known;
    return ae_core_ask(&known, ae_core_probe_popcnt);
}

/* Return whether the processor computes CRC-32C. */
static inline bool ae_core_has_crc32c(void) {
    static atomic_int known;
    return ae_core_ask(&known, ae_core_probe_crc32c);
}

/* Return whether the processor has popcnt, bmi, bmi2 and a fast pdep: AMD's first processors with
 * pdep take hundreds of steps for one. */
static inline bool ae_core_has_deposit(void) {
    static atomic_int known;
    return ae_core_ask(&known, ae_core_probe_deposit);
}

#endif
