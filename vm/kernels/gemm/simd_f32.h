/* The vector vocabulary of the f32 matrix kernels: LANES numbers of type T in a
 * V, loads that widen the narrow float types, a LANES x LANES transpose. The
 * portable form has one lane. Part loads fill with zeros and touch no byte
 * beyond the n-th element. */
#ifndef TS_VM_KERNELS_GEMM_SIMD_F32_H
#define TS_VM_KERNELS_GEMM_SIMD_F32_H

#ifndef TS_ISA_base
#include <immintrin.h>
#endif

#include "lib/convert_bits.h"

typedef float T;

/* ---- one element to f32, exact ---- */

static inline float f32_one(const float *p) { return *p; }
static inline float bf16_one(const uint16_t *p) { return f32_of_bf16(*p); }
static inline float f16_one(const uint16_t *p) { return f32_of_f16(*p); }
static inline float e5m2_one(const uint8_t *p) { return f32_of_e5m2(*p); }
static inline float e4m3_one(const uint8_t *p) { return f32_of_e4m3(*p); }

#ifndef TS_ISA_base

/* The lowest n < 8 lanes, in pieces of 4, 2, 1: masked stores are slow on AMD
 * (20 cycles each on Zen 4). */
static inline void store_few(float *p, __m256 v, int n) {
  __m128 q = _mm256_castps256_ps128(v);
  if (n & 4) {
    _mm_storeu_ps(p, q);
    q = _mm256_extractf128_ps(v, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi((void *)p, q);
    q = _mm_movehl_ps(q, q);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, q);
}

#endif
#if defined TS_ISA_avx512

enum { LANES = 16, MR = 12, NV = 2 };
typedef __m512 V;

static inline __mmask16 first(int n) { return (__mmask16)_bzhi_u32(0xffff, (unsigned)n); }
static inline V v_zero(void) { return _mm512_setzero_ps(); }
static inline V v_set1(T x) { return _mm512_set1_ps(x); }
static inline V v_load(const T *p) { return _mm512_loadu_ps(p); }
static inline V v_part(const T *p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
static inline void v_store(T *p, V v) { _mm512_storeu_ps(p, v); }
static inline void v_store_part(T *p, V v, int n) {
  if (n == 16) {
    v_store(p, v);
    return;
  }
  __m256 h = _mm512_castps512_ps256(v);
  if (n & 8) {
    _mm256_storeu_ps(p, h);
    h = _mm512_extractf32x8_ps(v, 1);
    p += 8;
  }
  store_few(p, h, n & 7);
}
static inline V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }

static inline __m512 wide_bf16(__m256i h) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
static inline __m512 wide_e5m2(__m128i b) {
  return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(b), 8));
}
static inline __m512 wide_e4m3(__m128i b) {
  __m512i u = _mm512_cvtepu8_epi32(b), mag = _mm512_and_si512(u, _mm512_set1_epi32(0x7f));
  __m512i sign = _mm512_slli_epi32(_mm512_xor_si512(u, mag), 24);
  __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(mag, 20));
  x = _mm512_mul_ps(x, _mm512_set1_ps(0x1p120f));
  __mmask16 nan = _mm512_cmpeq_epi32_mask(mag, _mm512_set1_epi32(0x7f));
  x = _mm512_mask_mov_ps(x, nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(x), sign));
}

static inline V bf16_load(const uint16_t *p) {
  return wide_bf16(_mm256_loadu_si256((const void *)p));
}
static inline V bf16_part(const uint16_t *p, int n) {
  return wide_bf16(_mm256_maskz_loadu_epi16(first(n), p));
}
static inline V f16_load(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
static inline V f16_part(const uint16_t *p, int n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
}
static inline V e5m2_load(const uint8_t *p) {
  return wide_e5m2(_mm_loadu_si128((const void *)p));
}
static inline V e5m2_part(const uint8_t *p, int n) {
  return wide_e5m2(_mm_maskz_loadu_epi8(first(n), p));
}
static inline V e4m3_load(const uint8_t *p) {
  return wide_e4m3(_mm_loadu_si128((const void *)p));
}
static inline V e4m3_part(const uint8_t *p, int n) {
  return wide_e4m3(_mm_maskz_loadu_epi8(first(n), p));
}

/* Pairs, then quads inside the 128-bit lanes, then the lanes themselves. */
static inline __attribute__((always_inline)) void v_transpose(V r[LANES]) {
  V s[LANES];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(s[i], s[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    V a = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    V b = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    V c = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    V d = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    r[i] = _mm512_shuffle_f32x4(a, c, 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
    r[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
}

/* r[s] = element s of each of 16 rows, s < 8: half of v_transpose of loaded rows, a quarter of
 * whose shuffles, of which this machine does one a cycle, are loads of 256 bits into their place
 * instead. Of 128 bits they take longer than the shuffles. */
#define HALF f32_half
static inline __attribute__((always_inline)) __m512 two_halves(const float *x, const float *y) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(x)), _mm256_loadu_ps(y), 1);
}
/* The lower half of x, the upper one of y. */
static inline V v_join(V x, V y) { return _mm512_mask_blend_ps(0xff00, x, y); }
static inline __attribute__((always_inline)) void f32_half(V r[8], const float *x,
                                                           const int64_t at[LANES]) {
  V w[2][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    V low = two_halves(x + at[i], x + at[4 + i]),
      high = two_halves(x + at[8 + i], x + at[12 + i]);
    w[0][i] = _mm512_shuffle_f32x4(low, high, 0x88);
    w[1][i] = _mm512_shuffle_f32x4(low, high, 0xdd);
  }
#pragma GCC unroll 2
  for (int q = 0; q < 2; q++) {
    V a = _mm512_unpacklo_ps(w[q][0], w[q][1]), b = _mm512_unpackhi_ps(w[q][0], w[q][1]);
    V c = _mm512_unpacklo_ps(w[q][2], w[q][3]), d = _mm512_unpackhi_ps(w[q][2], w[q][3]);
    r[4 * q] = _mm512_shuffle_ps(a, c, 0x44);
    r[4 * q + 1] = _mm512_shuffle_ps(a, c, 0xee);
    r[4 * q + 2] = _mm512_shuffle_ps(b, d, 0x44);
    r[4 * q + 3] = _mm512_shuffle_ps(b, d, 0xee);
  }
}

#elif defined TS_ISA_avx2

enum { LANES = 8, MR = 6, NV = 2 };
typedef __m256 V;

static const int32_t first_table[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
static inline __m256i first(int n) {
  return _mm256_loadu_si256((const void *)(first_table + 8 - n));
}
static inline V v_zero(void) { return _mm256_setzero_ps(); }
static inline V v_set1(T x) { return _mm256_set1_ps(x); }
static inline V v_load(const T *p) { return _mm256_loadu_ps(p); }
static inline V v_part(const T *p, int n) { return _mm256_maskload_ps(p, first(n)); }
static inline void v_store(T *p, V v) { _mm256_storeu_ps(p, v); }
static inline void v_store_part(T *p, V v, int n) {
  if (n == 8)
    v_store(p, v);
  else
    store_few(p, v, n);
}
static inline V v_fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }

/* n < 8 elements of `size` bytes, zero filled. */
static inline __m128i some(const void *p, int n, int size) {
  char buf[16] = {0};
  memcpy(buf, p, (size_t)(n * size));
  return _mm_loadu_si128((const void *)buf);
}
static inline __m256 wide_bf16(__m128i h) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
static inline __m256 wide_e5m2(__m128i b) {
  return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(b), 8));
}
static inline __m256 wide_e4m3(__m128i b) {
  __m256i u = _mm256_cvtepu8_epi32(b), mag = _mm256_and_si256(u, _mm256_set1_epi32(0x7f));
  __m256i sign = _mm256_slli_epi32(_mm256_xor_si256(u, mag), 24);
  __m256 x = _mm256_castsi256_ps(_mm256_slli_epi32(mag, 20));
  x = _mm256_mul_ps(x, _mm256_set1_ps(0x1p120f));
  __m256i nan = _mm256_cmpeq_epi32(mag, _mm256_set1_epi32(0x7f));
  x = _mm256_or_ps(x,
                   _mm256_castsi256_ps(_mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000))));
  return _mm256_or_ps(x, _mm256_castsi256_ps(sign));
}

static inline V bf16_load(const uint16_t *p) {
  return wide_bf16(_mm_loadu_si128((const void *)p));
}
static inline V bf16_part(const uint16_t *p, int n) { return wide_bf16(some(p, n, 2)); }
static inline V f16_load(const uint16_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}
static inline V f16_part(const uint16_t *p, int n) { return _mm256_cvtph_ps(some(p, n, 2)); }
static inline V e5m2_load(const uint8_t *p) {
  return wide_e5m2(_mm_loadl_epi64((const void *)p));
}
static inline V e5m2_part(const uint8_t *p, int n) { return wide_e5m2(some(p, n, 1)); }
static inline V e4m3_load(const uint8_t *p) {
  return wide_e4m3(_mm_loadl_epi64((const void *)p));
}
static inline V e4m3_part(const uint8_t *p, int n) { return wide_e4m3(some(p, n, 1)); }

static inline __attribute__((always_inline)) void v_transpose(V r[LANES]) {
  V s[LANES];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    V a = r[i], b = r[i + 4];
    r[i] = _mm256_permute2f128_ps(a, b, 0x20);
    r[i + 4] = _mm256_permute2f128_ps(a, b, 0x31);
  }
}

#else

enum { LANES = 1, MR = 4, NV = 4 };
typedef float V;

static inline V v_zero(void) { return 0; }
static inline V v_set1(T x) { return x; }
static inline V v_load(const T *p) { return *p; }
static inline V v_part(const T *p, int n) { return n ? *p : 0; }
static inline void v_store(T *p, V v) { *p = v; }
static inline void v_store_part(T *p, V v, int n) {
  if (n) *p = v;
}
static inline V v_fma(V a, V b, V c) { return __builtin_fmaf(a, b, c); }
static inline V bf16_load(const uint16_t *p) { return bf16_one(p); }
static inline V bf16_part(const uint16_t *p, int n) { return n ? bf16_one(p) : 0; }
static inline V f16_load(const uint16_t *p) { return f16_one(p); }
static inline V f16_part(const uint16_t *p, int n) { return n ? f16_one(p) : 0; }
static inline V e5m2_load(const uint8_t *p) { return e5m2_one(p); }
static inline V e5m2_part(const uint8_t *p, int n) { return n ? e5m2_one(p) : 0; }
static inline V e4m3_load(const uint8_t *p) { return e4m3_one(p); }
static inline V e4m3_part(const uint8_t *p, int n) { return n ? e4m3_one(p) : 0; }
static inline void v_transpose(V r[LANES]) { (void)r; }

#endif

static inline V f32_load(const T *p) { return v_load(p); }
static inline V f32_part(const T *p, int n) { return v_part(p, n); }

#endif
