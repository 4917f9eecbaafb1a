/*
 * core/dtype.h - names and sizes of element types.
 *
 *   AETHER_U8 .. AETHER_F64   1 .. 12, dense, so tables index by dtype
 *
 * Caveats: a dtype read from a file may be anything; ae_dtype_name and aether_dtype_size
 * accept any value (name "unknown", size 0).
 */
#ifndef AE_CORE_DTYPE_H
#define AE_CORE_DTYPE_H

#include "aether.h"

#define AE_DTYPE_COUNT 13 /* one past the largest */

/* Return the name that numpy gives the type: "uint8", "bfloat16", ... */
const char *ae_dtype_name(uint32_t dtype);

#endif
