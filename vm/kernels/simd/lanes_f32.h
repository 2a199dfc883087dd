/* Lanes of one vector combined by halves, 8, 4, 2, 1: HALVES(name, op) makes the
 * function. Wants simd_f32.h. */
#ifndef TS_VM_KERNELS_LANES_F32_H
#define TS_VM_KERNELS_LANES_F32_H

#if defined TS_ISA_base
#define HALVES(name, op)                                                                       \
  FN T name(V v) { return v; }
#else
#if defined TS_ISA_avx512
#define TO_256(v, op) _mm256_##op##_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1))
#else
#define TO_256(v, op) v
#endif
#define HALVES(name, op)                                                                       \
  FN T name(V v) {                                                                             \
    __m256 a = TO_256(v, op);                                                                  \
    __m128 b = _mm_##op##_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));          \
    b = _mm_##op##_ps(b, _mm_movehl_ps(b, b));                                                 \
    return _mm_cvtss_f32(_mm_##op##_ss(b, _mm_movehdup_ps(b)));                                \
  }
#endif

#endif
