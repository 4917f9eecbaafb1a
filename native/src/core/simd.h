/*
 * core/simd.h - what this processor offers beyond the baseline we compile for.
 *
 *   caller: if (ae_core_has_f16c()) use the function compiled with
 *           __attribute__((target("avx,f16c"))), else the portable one
 *
 * Caveats: asks the processor on every call (some 100 cycles, more in a
 * virtual machine): ask once per array, not once per row.
 */
#ifndef AE_CORE_SIMD_H
#define AE_CORE_SIMD_H

#include <stdbool.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Conversions between float16 and float32. */
static inline bool ae_core_has_f16c(void) {
#if defined(__x86_64__)
    unsigned a, b, c = 0, d;
    /* "avx" also says that the system saves the wide registers; "f16c" itself
     * is not a name that every compiler's __builtin_cpu_supports knows. */
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
#else
    return false;
#endif
}

#endif
