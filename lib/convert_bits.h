/* Scalar definitions of the conversions between f32 and the narrower floats, and
 * of the float to integer conversions. They are free of branches, so that loops
 * over them become vector code; vm/kernels/convert.c builds all pairs from them for arrays,
 * ir/tile/run/ops.c for tiles. */
#ifndef TS_LIB_CONVERT_BITS_H
#define TS_LIB_CONVERT_BITS_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_f32(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}

static inline float f32_of_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

/* ---- widening: exact. Where the source is an IEEE format with m mantissa bits
 * and bias 15, its exponent and mantissa in f32's place are 2^112 too small; the
 * product also normalises denormals. NaN keeps its payload and becomes quiet, as
 * vcvtph2ps does. */

static inline float widen_ieee(uint32_t magnitude, uint32_t sign, uint32_t mantissa) {
  uint32_t finite = bits_of_f32(f32_of_bits(magnitude) * 0x1p112f);
  uint32_t special = 0x7f800000 | mantissa | (mantissa ? 0x00400000u : 0);
  return f32_of_bits((magnitude >= 0x0f800000 ? special : finite) | sign);
}

static inline float f32_of_f16(uint16_t h) {
  uint32_t u = h;
  return widen_ieee((u & 0x7fff) << 13, (u & 0x8000) << 16, (u & 0x3ff) << 13);
}

static inline float f32_of_e5m2(uint8_t b) {
  uint32_t u = b;
  return widen_ieee((u & 0x7f) << 21, (u & 0x80) << 24, (u & 3) << 21);
}

static inline float f32_of_e4m3(uint8_t b) {
  uint32_t u = b, a = u & 0x7f;
  uint32_t finite = bits_of_f32(f32_of_bits(a << 20) * 0x1p120f);
  return f32_of_bits((a == 0x7f ? 0x7fc00000 : finite) | (u & 0x80) << 24);
}

static inline float f32_of_bf16(uint16_t h) { return f32_of_bits((uint32_t)h << 16); }

/* ---- narrowing: one rounding to nearest even. Normal results add half an ulp
 * less one, plus the last kept bit, and shift. Denormal results let the adder
 * round: adding 2^23 times their ulp leaves them in the low bits. Every NaN
 * becomes the one positive quiet NaN. */

static inline uint32_t narrow_normal(uint32_t a, int shift, int bias, int mantissa) {
  uint32_t half = (1u << (shift - 1)) - 1;
  return ((a + half + (a >> shift & 1)) >> shift) - ((uint32_t)bias << mantissa);
}

static inline uint32_t narrow_tiny(uint32_t a, float magic) {
  return bits_of_f32(f32_of_bits(a) + magic) - bits_of_f32(magic);
}

static inline uint16_t f16_of_f32(float x) {
  uint32_t u = bits_of_f32(x), a = u & 0x7fffffff;
  uint32_t normal = narrow_normal(a, 13, 112, 10), tiny = narrow_tiny(a, 0.5f);
  uint32_t r = a < 0x38800000 ? tiny : normal < 0x7c00 ? normal : 0x7c00;
  return (uint16_t)(a > 0x7f800000 ? 0x7e00 : r | (u >> 16 & 0x8000));
}

static inline uint8_t e5m2_of_f32(float x) {
  uint32_t u = bits_of_f32(x), a = u & 0x7fffffff;
  uint32_t normal = narrow_normal(a, 21, 112, 2), tiny = narrow_tiny(a, 128.0f);
  uint32_t r = a < 0x38800000 ? tiny : normal < 0x7c ? normal : 0x7c;
  return (uint8_t)(a > 0x7f800000 ? 0x7e : r | (u >> 24 & 0x80));
}

/* The format has no infinity: beyond its greatest number stands 448, for infinity too,
 * as the conversions of GPUs have it. */
static inline uint8_t e4m3_of_f32(float x) {
  uint32_t u = bits_of_f32(x), a = u & 0x7fffffff;
  uint32_t normal = narrow_normal(a, 20, 120, 3), tiny = narrow_tiny(a, 16384.0f);
  uint32_t r = a < 0x3c800000 ? tiny : normal < 0x7e ? normal : 0x7e;
  return (uint8_t)(a > 0x7f800000 ? 0x7f : r | (u >> 24 & 0x80));
}

static inline uint16_t bf16_of_f32(float x) {
  uint32_t u = bits_of_f32(x);
  uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : r);
}

/* f64 to 13 bits of significand rounded to odd, as f32: an inexact result has its
 * last bit set, so that it stays on its side of every midpoint of a narrower type (11
 * bits at most), and rounding it again equals rounding x once. f32 holds all 13 bits
 * down to 2^-137, below which every narrower result is 0. */
static inline float f32_odd_of_f64(double x) {
  const uint64_t last = (uint64_t)1 << 40, rest = last - 1;
  uint64_t u;
  memcpy(&u, &x, 8);
  u = (u & ~rest) | (((u & rest) + rest) & last);
  memcpy(&x, &u, 8);
  return (float)x;
}

/* i64 to f64 with at least 42 bits and then rounded to odd, for the same purpose.
 * It is exact below 2^53. */
static inline double f64_odd_of_i64(int64_t x) {
  uint64_t u = (uint64_t)x;
  uint64_t sticky = (u & ~(uint64_t)0x7ff) | (u & 0x7ff ? 0x800u : 0);
  int large = x >= (int64_t)1 << 53 || x <= -((int64_t)1 << 53);
  return (double)(int64_t)(large ? sticky : u);
}

/* ---- float to integer: towards zero, saturating, 0 for NaN. */

static inline int32_t small_of_f32(float x, float lo, float hi) {
  float t = x < hi ? x : hi;
  t = t > lo ? t : lo;
  return (int32_t)(x == x ? t : 0.0f);
}

static inline int32_t i32_of_f32(float x) {
  return x >= 0x1p31f ? INT32_MAX : x >= -0x1p31f ? (int32_t)x : x == x ? INT32_MIN : 0;
}

static inline int32_t i32_of_f64(double x, double lo, double hi) {
  double t = x < hi ? x : hi;
  t = t > lo ? t : lo;
  return (int32_t)(x == x ? t : 0.0);
}

/* The instruction gives INT64_MIN for what does not fit. AVX-512 has it for vectors,
 * from the plain expression; scalar code is faster if it tests the result. */
static inline int64_t i64_of_f64(double x) {
#if defined TS_ISA_avx512
  return x >= 0x1p63 ? INT64_MAX : x >= -0x1p63 ? (int64_t)x : x == x ? INT64_MIN : 0;
#else
  int64_t r = _mm_cvttsd_si64(_mm_set_sd(x));
  if (__builtin_expect(r != INT64_MIN, 1)) return r;
  return x >= 0 ? INT64_MAX : x == x ? INT64_MIN : 0;
#endif
}

static inline int64_t i64_of_f32(float x) {
#if defined TS_ISA_avx512
  return x >= 0x1p63f ? INT64_MAX : x >= -0x1p63f ? (int64_t)x : x == x ? INT64_MIN : 0;
#else
  int64_t r = _mm_cvttss_si64(_mm_set_ss(x));
  if (__builtin_expect(r != INT64_MIN, 1)) return r;
  return x >= 0 ? INT64_MAX : x == x ? INT64_MIN : 0;
#endif
}

#endif
