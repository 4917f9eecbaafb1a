/*
 * core/options.h - structs of the caller's that begin with their size.
 *
 *   caller, compiled against    | size | field | field |
 *   an older header             | size | field |           size is less than the library needs: refused
 *   a newer one                 | size | field | field | later field |   must be zero here
 *
 * A field is added at the end; the function that reads it then accepts the former size, too, and takes the
 * field for zero. Results (counts, hits) may be written to such a struct, within its size.
 *
 * Caveats: `size` is all that is known of the memory, so a struct of random bytes is not always noticed.
 */
#ifndef AE_CORE_OPTIONS_H
#define AE_CORE_OPTIONS_H

#include "aether.h"

/* Check the size that a struct of the given type begins with; `known` is that of this library. */
int ae_options_check(const void *options, uint64_t known, const char *type, aether_error *err);

/* A struct of that type with its size and the given fields, as an argument of a call. */
#define AE_SIZED(type, ...) (&(type){.size = sizeof(type), __VA_ARGS__})

#endif
