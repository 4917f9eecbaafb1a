/*
 * rows/convert.h - widening conversions of element arrays.
 *
 *   from \ to   i16 i32 i64 u32 u64 f32 f64
 *   u8           x   x   x   x   x   x   x
 *   i8           x   x   x           x   x
 *   i16              x   x           x   x
 *   i32                  x           x   x
 *   f16, bf16                        x   x
 *   f32                                  x
 *
 * f16 uses the processor's F16C instructions where it has them, with results
 * equal bit by bit to the portable code: denormals are exact whatever the
 * thread's floating-point mode, signalling NaNs become quiet and keep their
 * payload.
 *
 * Caveats: i32 -> f32 rounds to nearest beyond 2^24, as numpy does; bf16 ->
 * f32 is the identity on the upper half, so a signalling NaN stays one.
 */
#ifndef AE_ROWS_CONVERT_H
#define AE_ROWS_CONVERT_H

#include "aether.h"

/* Convert n items from `in` to `out`; neither needs to be aligned. */
typedef void (*ae_convert_fn)(void *out, const void *in, uint64_t n);

/* Return the function that converts `from` to `to`, or NULL if the table above has none. */
ae_convert_fn ae_rows_convert(uint32_t from, uint32_t to);

/* Convert f16 to f32 without F16C; for tests. */
void ae_rows_f16_to_f32_portable(void *out, const void *in, uint64_t n);

#endif
