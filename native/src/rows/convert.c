#include "rows/convert.h"

#include <string.h>

#include "core/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- plain casts ------------------------------------------------------------ */

#define CAST(name, from, to)                                                                                 \
    static void name(void *out, const void *in, uint64_t n) {                                                \
        for (uint64_t i = 0; i < n; i++) {                                                                   \
            from x;                                                                                          \
            memcpy(&x, (const char *)in + i * sizeof x, sizeof x); /* rows may be unaligned */               \
            to y = (to)x;                                                                                    \
            memcpy((char *)out + i * sizeof y, &y, sizeof y);                                                \
        }                                                                                                    \
    }

CAST(u8_i16, uint8_t, int16_t)
CAST(u8_i32, uint8_t, int32_t)
CAST(u8_i64, uint8_t, int64_t)
CAST(u8_u32, uint8_t, uint32_t)
CAST(u8_u64, uint8_t, uint64_t)
CAST(u8_f32, uint8_t, float)
CAST(u8_f64, uint8_t, double)
CAST(i8_i16, int8_t, int16_t)
CAST(i8_i32, int8_t, int32_t)
CAST(i8_i64, int8_t, int64_t)
CAST(i8_f32, int8_t, float)
CAST(i8_f64, int8_t, double)
CAST(i16_i32, int16_t, int32_t)
CAST(i16_i64, int16_t, int64_t)
CAST(i16_f32, int16_t, float)
CAST(i16_f64, int16_t, double)
CAST(i32_i64, int32_t, int64_t)
CAST(i32_f32, int32_t, float)
CAST(i32_f64, int32_t, double)
CAST(f32_f64, float, double)

/* ---- bfloat16: the upper half of a float32 ---------------------------------- */

static void bf16_f32(void *out, const void *in, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, (const char *)in + i * 2, 2);
        uint32_t bits = (uint32_t)x << 16;
        memcpy((char *)out + i * 4, &bits, 4);
    }
}

static void bf16_f64(void *out, const void *in, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        float x;
        bf16_f32(&x, (const char *)in + i * 2, 1);
        double y = x;
        memcpy((char *)out + i * 8, &y, 8);
    }
}

/* ---- float16 ------------------------------------------------------------------ */

/* A denormal half is m * 2^-24: shift its highest bit to where the hidden one
 * of a float is. Integers only, so a flush-to-zero mode does not matter. */
static uint32_t denormal_to_f32(uint32_t mantissa) {
    uint32_t shift = (uint32_t)__builtin_clz(mantissa) - 21; /* brings bit 10 up */
    return ((113 - shift) << 23) | ((mantissa << shift & 0x3FF) << 13);
}

static uint32_t half_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3FF;
    if (exponent == 31) /* infinity, or a NaN made quiet as the hardware does */
        return sign | 0x7F800000 | mantissa << 13 | (mantissa ? 0x00400000 : 0);
    if (exponent)
        return sign | (exponent + 112) << 23 | mantissa << 13;
    return sign | (mantissa ? denormal_to_f32(mantissa) : 0);
}

void ae_rows_f16_to_f32_portable(void *out, const void *in, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, (const char *)in + i * 2, 2);
        uint32_t bits = half_to_f32(half);
        memcpy((char *)out + i * 4, &bits, 4);
    }
}

static void f16_f64_portable(void *out, const void *in, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        float x;
        ae_rows_f16_to_f32_portable(&x, (const char *)in + i * 2, 1);
        double y = (double)x;
        memcpy((char *)out + i * 8, &y, 8);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) static void f16_f32_f16c(void *out, const void *in, uint64_t n) {
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i half = _mm_loadu_si128((const __m128i *)((const char *)in + i * 2));
        _mm256_storeu_ps((float *)((char *)out + i * 4), _mm256_cvtph_ps(half));
    }
    ae_rows_f16_to_f32_portable((char *)out + i * 4, (const char *)in + i * 2, n - i);
}

__attribute__((target("avx,f16c"))) static void f16_f64_f16c(void *out, const void *in, uint64_t n) {
    uint64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        __m128i half = _mm_loadl_epi64((const __m128i *)((const char *)in + i * 2));
        _mm256_storeu_pd((double *)((char *)out + i * 8), _mm256_cvtps_pd(_mm_cvtph_ps(half)));
    }
    f16_f64_portable((char *)out + i * 8, (const char *)in + i * 2, n - i);
}
#endif

/* Chosen by processor, once per gather. */
static ae_convert_fn convert_f16(uint32_t to) {
#if defined(__x86_64__)
    if ((to == AETHER_F32 || to == AETHER_F64) && ae_core_has_f16c())
        return to == AETHER_F32 ? f16_f32_f16c : f16_f64_f16c;
#endif
    return to == AETHER_F32 ? ae_rows_f16_to_f32_portable : to == AETHER_F64 ? f16_f64_portable : NULL;
}

/* ---- the table ------------------------------------------------------------------ */

static const struct {
    uint8_t from, to;
    ae_convert_fn convert;
} table[] = {
    {AETHER_U8, AETHER_I16, u8_i16},     {AETHER_U8, AETHER_I32, u8_i32},
    {AETHER_U8, AETHER_I64, u8_i64},     {AETHER_U8, AETHER_U32, u8_u32},
    {AETHER_U8, AETHER_U64, u8_u64},     {AETHER_U8, AETHER_F32, u8_f32},
    {AETHER_U8, AETHER_F64, u8_f64},     {AETHER_I8, AETHER_I16, i8_i16},
    {AETHER_I8, AETHER_I32, i8_i32},     {AETHER_I8, AETHER_I64, i8_i64},
    {AETHER_I8, AETHER_F32, i8_f32},     {AETHER_I8, AETHER_F64, i8_f64},
    {AETHER_I16, AETHER_I32, i16_i32},   {AETHER_I16, AETHER_I64, i16_i64},
    {AETHER_I16, AETHER_F32, i16_f32},   {AETHER_I16, AETHER_F64, i16_f64},
    {AETHER_I32, AETHER_I64, i32_i64},   {AETHER_I32, AETHER_F32, i32_f32},
    {AETHER_I32, AETHER_F64, i32_f64},   {AETHER_F32, AETHER_F64, f32_f64},
    {AETHER_BF16, AETHER_F32, bf16_f32}, {AETHER_BF16, AETHER_F64, bf16_f64},
};

ae_convert_fn ae_rows_convert(uint32_t from, uint32_t to) {
    if (from == AETHER_F16)
        return convert_f16(to);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].from == from && table[i].to == to)
            return table[i].convert;
    return NULL;
}
