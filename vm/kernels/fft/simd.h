/* Vectors of the Fourier kernels: type, fused multiply-add, shuffles. A row of work
 * memory is VECS vectors of real parts, then VECS of imaginary parts. */
#ifndef TS_VM_KERNELS_FFT_SIMD_H
#define TS_VM_KERNELS_FFT_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "vm/kernels/fft/fft.h"
#include "vm/kernels/simd/isa.h"

#if defined TS_ISA_avx512
#define VBYTES 64
#include <immintrin.h>
#elif defined TS_ISA_avx2
#define VBYTES 32
#include <immintrin.h>
#else
#define VBYTES 16
#endif

#if FFT_F64
typedef double real;
typedef int64_t word;
#else
typedef float real;
typedef int32_t word;
#endif

enum {
  W = VBYTES / (int)sizeof(real),
  LANES = 64 / (int)sizeof(real),
  VECS = LANES / W,
  ROW = 2 * LANES /* reals of a row */
};

typedef real vec __attribute__((vector_size(VBYTES)));
typedef real loose __attribute__((vector_size(VBYTES), aligned(sizeof(real)), may_alias));

typedef struct cvec {
  vec re, im;
} cvec;

#define INLINE static inline __attribute__((always_inline, unused))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

INLINE vec get(const real *p) { return *(const loose *)p; }
INLINE void put(real *p, vec v) { *(loose *)p = v; }
INLINE vec all(real x) { return x - (vec){0}; }

#if defined TS_ISA_avx512 && FFT_F64
INLINE vec fma3(vec a, vec b, vec c) { return _mm512_fmadd_pd(a, b, c); }
#elif defined TS_ISA_avx512
INLINE vec fma3(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined TS_ISA_avx2 && FFT_F64
INLINE vec fma3(vec a, vec b, vec c) { return _mm256_fmadd_pd(a, b, c); }
#elif defined TS_ISA_avx2
INLINE vec fma3(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
#else
/* The C library's function, one element at a time, behind one call. */
static __attribute__((noinline)) vec fma3(vec a, vec b, vec c) {
  for (int i = 0; i < W; i++)
    a[i] = FFT_F64 ? (real)__builtin_fma(a[i], b[i], c[i])
                   : (real)__builtin_fmaf((float)a[i], (float)b[i], (float)c[i]);
  return a;
}
#endif

INLINE real fma1(real a, real b, real c) {
#if FFT_F64
  return __builtin_fma(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

INLINE cvec cmul(cvec a, vec wr, vec wi) {
  return (cvec){fma3(a.re, wr, -(a.im * wi)), fma3(a.re, wi, a.im * wr)};
}

/* Halves of the two vectors woven element by element, and unwoven. */
#if FFT_F64 && VBYTES == 16
#define LOW  0, 2
#define HIGH 1, 3
#define EVEN 0, 2
#define ODD  1, 3
#define BACK 1, 0
#elif VBYTES / (FFT_F64 + 1) == 16
#define LOW  0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define EVEN 0, 2, 4, 6
#define ODD  1, 3, 5, 7
#define BACK 3, 2, 1, 0
#elif VBYTES / (FFT_F64 + 1) == 32
#define LOW  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD  1, 3, 5, 7, 9, 11, 13, 15
#define BACK 7, 6, 5, 4, 3, 2, 1, 0
#else
#define LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD  1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define BACK 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#endif
INLINE vec low(vec a, vec b) { return __builtin_shufflevector(a, b, LOW); }
INLINE vec high(vec a, vec b) { return __builtin_shufflevector(a, b, HIGH); }
INLINE vec even(vec a, vec b) { return __builtin_shufflevector(a, b, EVEN); }
INLINE vec odd(vec a, vec b) { return __builtin_shufflevector(a, b, ODD); }
INLINE vec back(vec a) { return __builtin_shufflevector(a, a, BACK); }

/* W complex numbers of a line. */
INLINE cvec get_line(const real *p) {
  vec a = get(p), b = get(p + W);
  return (cvec){even(a, b), odd(a, b)};
}
INLINE void put_line(real *p, cvec v) {
  put(p, low(v.re, v.im));
  put(p + W, high(v.re, v.im));
}

/* W vectors of W, transposed in place: log2(W) perfect shuffles. */
INLINE void transpose_vecs(vec *v) {
  UNROLL for (int stage = 1; stage < W; stage *= 2) {
    vec u[W];
    UNROLL for (int i = 0; i < W / 2; i++) {
      u[2 * i] = low(v[i], v[i + W / 2]);
      u[2 * i + 1] = high(v[i], v[i + W / 2]);
    }
    UNROLL for (int i = 0; i < W; i++) v[i] = u[i];
  }
}

#endif
