#include "aether.h"
#include "core/simd.h"

#define TEXT(number)     #number
#define DOTTED(a, b, c)  TEXT(a) "." TEXT(b) "." TEXT(c)
#define VERSION(a, b, c) DOTTED(a, b, c) /* expands its arguments first */

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZER ", address sanitizer"
#elif defined(__SANITIZE_THREAD__)
#define SANITIZER ", thread sanitizer"
#else
#define SANITIZER ""
#endif

#if defined(__OPTIMIZE__)
#define OPTIMIZED ""
#else
#define OPTIMIZED ", not optimized"
#endif

#if defined(__x86_64__)
#define ARCH "x86-64"
#elif defined(__aarch64__)
#define ARCH "aarch64"
#else
#define ARCH "other"
#endif

const char *aether_version(void) {
    return VERSION(AETHER_VERSION_MAJOR, AETHER_VERSION_MINOR, AETHER_VERSION_PATCH);
}

/* The compiled-in part is known here; processor features are found at run time, so there is one
 * constant text for each outcome. */
const char *aether_build_info(void) {
    return ae_core_has_f16c() ? COMPILER ", " ARCH OPTIMIZED SANITIZER ", dispatch: f16c"
                              : COMPILER ", " ARCH OPTIMIZED SANITIZER ", dispatch: none";
}
