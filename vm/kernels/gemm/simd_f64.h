/* The vector vocabulary of the f64 matrix kernels; see vm/kernels/gemm/simd_f32.h. */
#ifndef TS_VM_KERNELS_GEMM_SIMD_F64_H
#define TS_VM_KERNELS_GEMM_SIMD_F64_H

#include <stdint.h>
#ifndef TS_ISA_base
#include <immintrin.h>
#endif

typedef double T;

static inline double f64_one(const double *p) { return *p; }

#if defined TS_ISA_avx512

enum { LANES = 8, MR = 12, NV = 2 };
typedef __m512d V;

static inline __mmask8 first(int n) { return (__mmask8)_bzhi_u32(0xff, (unsigned)n); }
static inline V v_zero(void) { return _mm512_setzero_pd(); }
static inline V v_set1(T x) { return _mm512_set1_pd(x); }
static inline V v_load(const T *p) { return _mm512_loadu_pd(p); }
static inline V v_part(const T *p, int n) { return _mm512_maskz_loadu_pd(first(n), p); }
static inline void v_store(T *p, V v) { _mm512_storeu_pd(p, v); }
static inline V v_fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }

static inline void v_store_part(T *p, V v, int n) {
  if (n == 8) {
    v_store(p, v);
    return;
  }
  __m256d h = _mm512_castpd512_pd256(v);
  if (n & 4) {
    _mm256_storeu_pd(p, h);
    h = _mm512_extractf64x4_pd(v, 1);
    p += 4;
  }
  __m128d q = _mm256_castpd256_pd128(h);
  if (n & 2) {
    _mm_storeu_pd(p, q);
    q = _mm256_extractf128_pd(h, 1);
    p += 2;
  }
  if (n & 1) _mm_store_sd(p, q);
}

static inline __attribute__((always_inline)) void v_transpose(V r[LANES]) {
  V s[LANES];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
    s[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    V a = _mm512_shuffle_f64x2(s[i], s[i + 2], 0x88);
    V b = _mm512_shuffle_f64x2(s[i], s[i + 2], 0xdd);
    V c = _mm512_shuffle_f64x2(s[i + 4], s[i + 6], 0x88);
    V d = _mm512_shuffle_f64x2(s[i + 4], s[i + 6], 0xdd);
    r[i] = _mm512_shuffle_f64x2(a, c, 0x88);
    r[i + 4] = _mm512_shuffle_f64x2(a, c, 0xdd);
    r[i + 2] = _mm512_shuffle_f64x2(b, d, 0x88);
    r[i + 6] = _mm512_shuffle_f64x2(b, d, 0xdd);
  }
}

#elif defined TS_ISA_avx2

enum { LANES = 4, MR = 6, NV = 2 };
typedef __m256d V;

static const int64_t first_table[8] = {-1, -1, -1, -1};
static inline __m256i first(int n) {
  return _mm256_loadu_si256((const void *)(first_table + 4 - n));
}
static inline V v_zero(void) { return _mm256_setzero_pd(); }
static inline V v_set1(T x) { return _mm256_set1_pd(x); }
static inline V v_load(const T *p) { return _mm256_loadu_pd(p); }
static inline V v_part(const T *p, int n) { return _mm256_maskload_pd(p, first(n)); }
static inline void v_store(T *p, V v) { _mm256_storeu_pd(p, v); }
static inline V v_fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }

static inline void v_store_part(T *p, V v, int n) {
  __m128d q = _mm256_castpd256_pd128(v);
  if (n == 4) {
    v_store(p, v);
    return;
  }
  if (n & 2) {
    _mm_storeu_pd(p, q);
    q = _mm256_extractf128_pd(v, 1);
    p += 2;
  }
  if (n & 1) _mm_store_sd(p, q);
}

static inline __attribute__((always_inline)) void v_transpose(V r[LANES]) {
  V a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
  V c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
  r[0] = _mm256_permute2f128_pd(a, c, 0x20);
  r[1] = _mm256_permute2f128_pd(b, d, 0x20);
  r[2] = _mm256_permute2f128_pd(a, c, 0x31);
  r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}

#else

enum { LANES = 1, MR = 4, NV = 4 };
typedef double V;

static inline V v_zero(void) { return 0; }
static inline V v_set1(T x) { return x; }
static inline V v_load(const T *p) { return *p; }
static inline V v_part(const T *p, int n) { return n ? *p : 0; }
static inline void v_store(T *p, V v) { *p = v; }
static inline void v_store_part(T *p, V v, int n) {
  if (n) *p = v;
}
static inline V v_fma(V a, V b, V c) { return __builtin_fma(a, b, c); }
static inline void v_transpose(V r[LANES]) { (void)r; }

#endif

static inline V f64_load(const T *p) { return v_load(p); }
static inline V f64_part(const T *p, int n) { return v_part(p, n); }

#endif
