/* Attention's row kernels in f32. */
#include "vm/kernels/attention.h"
#include "vm/kernels/isa.h"
#include "vm/kernels/simd_f32.h"

#include "lib/elem/elem_f32.inc"

#define exports(name) TS_ISA(ts_attention_##name##_f32)

/* Lanes combined by halves: 8, 4, 2, 1. */
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

#include "vm/kernels/attention.inc"
