/* Lanes of one vector combined by halves, 4, 2, 1: HALVES(name, op) makes the function.
 * Wants simd_f64.h. */
#ifndef TS_VM_KERNELS_LANES_F64_H
#define TS_VM_KERNELS_LANES_F64_H

#if defined TS_ISA_base
#define HALVES(name, op)                                                                       \
  FN T name(V v) { return v; }
#else
#if defined TS_ISA_avx512
#define TO_256(v, op) _mm256_##op##_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1))
#else
#define TO_256(v, op) v
#endif
#define HALVES(name, op)                                                                       \
  FN T name(V v) {                                                                             \
    __m256d a = TO_256(v, op);                                                                 \
    __m128d b = _mm_##op##_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));         \
    return _mm_cvtsd_f64(_mm_##op##_sd(b, _mm_unpackhi_pd(b, b)));                             \
  }
#endif

#endif
