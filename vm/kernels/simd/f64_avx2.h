/* simd_f64.h for AVX2 and FMA: 4 lanes, masks as all-ones lanes. AVX2 has no arithmetic
 * right shift of 64 bits and no conversion from 64-bit integers: both are composed. */
#include <immintrin.h>

typedef __m256d V;
typedef __m256i I;
typedef __m256i M;
enum { V_LANES = 4 };

FN V v_const(double c) { return _mm256_set1_pd(c); }
FN V v_splat(double c) { return _mm256_set1_pd(c); }
FN I i_set(int64_t c) { return _mm256_set1_epi64x(c); }
FN V v_of_bits(I a) { return _mm256_castsi256_pd(a); }
FN I i_of_bits(V a) { return _mm256_castpd_si256(a); }

FN V v_add(V a, V b) { return _mm256_add_pd(a, b); }
FN V v_sub(V a, V b) { return _mm256_sub_pd(a, b); }
FN V v_mul(V a, V b) { return _mm256_mul_pd(a, b); }
FN V v_div(V a, V b) { return _mm256_div_pd(a, b); }
FN V v_fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
FN V v_fms(V a, V b, V c) { return _mm256_fmsub_pd(a, b, c); }
FN V v_fnma(V a, V b, V c) { return _mm256_fnmadd_pd(a, b, c); }
FN V v_sqrt(V a) { return _mm256_sqrt_pd(a); }
FN V v_neg(V a) { return -a; }
FN V v_abs(V a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
FN V v_copysign(V a, V s) {
  V sign = _mm256_set1_pd(-0.0);
  return _mm256_or_pd(_mm256_and_pd(sign, s), _mm256_andnot_pd(sign, a));
}
FN V v_floor(V a) { return _mm256_round_pd(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
FN V v_ceil(V a) { return _mm256_round_pd(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
FN V v_trunc(V a) { return _mm256_round_pd(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
FN V v_rint(V a) { return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
FN V v_min(V a, V b) { return _mm256_min_pd(a, b); }
FN V v_max(V a, V b) { return _mm256_max_pd(a, b); }
FN V v_select(M m, V a, V b) { return _mm256_blendv_pd(b, a, v_of_bits(m)); }
FN M v_lt(V a, V b) { return i_of_bits(_mm256_cmp_pd(a, b, _CMP_LT_OQ)); }
FN M v_le(V a, V b) { return i_of_bits(_mm256_cmp_pd(a, b, _CMP_LE_OQ)); }
FN M v_eq(V a, V b) { return i_of_bits(_mm256_cmp_pd(a, b, _CMP_EQ_OQ)); }

FN I i_add(I a, I b) { return _mm256_add_epi64(a, b); }
FN I i_sub(I a, I b) { return _mm256_sub_epi64(a, b); }
FN I i_mulwide(I a, I b) { return _mm256_mul_epu32(a, b); }
FN I i_and(I a, I b) { return _mm256_and_si256(a, b); }
FN I i_or(I a, I b) { return _mm256_or_si256(a, b); }
FN I i_xor(I a, I b) { return _mm256_xor_si256(a, b); }
FN I i_shl(I a, int n) { return _mm256_slli_epi64(a, n); }
FN I i_shr(I a, int n) { return _mm256_srli_epi64(a, n); }
FN I i_sar(I a, int n) {
  I sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), a);
  return i_or(i_shr(a, n), i_shl(sign, 64 - n));
}
FN I i_shlv(I a, I n) { return _mm256_sllv_epi64(a, n); }
FN I i_shrv(I a, I n) { return _mm256_srlv_epi64(a, n); }
FN I i_select(M m, I a, I b) { return _mm256_blendv_epi8(b, a, m); }
FN M i_lt(I a, I b) { return _mm256_cmpgt_epi64(b, a); }
FN M i_eq(I a, I b) { return _mm256_cmpeq_epi64(a, b); }
FN M i_ult(I a, I b) {
  I flip = i_set(INT64_MIN);
  return i_lt(i_xor(a, flip), i_xor(b, flip));
}
/* exact for |a| < 2^51: the bits of 1.5 2^52 + a */
FN V v_from_int(I a) {
  V magic = v_const(0x1.8p52);
  return v_sub(v_of_bits(i_add(a, i_of_bits(magic))), magic);
}

FN M m_and(M a, M b) { return _mm256_and_si256(a, b); }
FN M m_or(M a, M b) { return _mm256_or_si256(a, b); }
FN M m_xor(M a, M b) { return _mm256_xor_si256(a, b); }
FN M m_not(M a) { return _mm256_xor_si256(a, i_set(-1)); }
FN int m_any(M a) { return _mm256_movemask_pd(v_of_bits(a)) != 0; }

FN I part_mask(int64_t n) {
  return _mm256_cmpgt_epi64(i_set(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
FN V v_load(const double *p) { return _mm256_loadu_pd(p); }
FN V v_load_part(const double *p, int64_t n) { return _mm256_maskload_pd(p, part_mask(n)); }
FN void v_store(double *p, V a) { _mm256_storeu_pd(p, a); }
FN void v_store_part(double *p, V a, int64_t n) { _mm256_maskstore_pd(p, part_mask(n), a); }
FN M m_load(const uint8_t *p) {
  int32_t four;
  memcpy(&four, p, sizeof four);
  I wide = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
  return _mm256_cmpgt_epi64(wide, _mm256_setzero_si256());
}
FN M m_load_part(const uint8_t *p, int64_t n) {
  uint8_t b[V_LANES] = {0};
  memcpy(b, p, (size_t)n);
  return m_load(b);
}
FN void m_store(uint8_t *p, M m) {
  __m128i low = _mm256_castsi256_si128(m), high = _mm256_extracti128_si256(m, 1);
  __m128i half = _mm_packs_epi32(low, high); /* each lane as two 16-bit ones */
  __m128i bytes = _mm_packs_epi16(_mm_packs_epi32(half, half), half);
  int32_t four = _mm_cvtsi128_si32(bytes) & 0x01010101;
  memcpy(p, &four, sizeof four);
}
FN void m_store_part(uint8_t *p, M m, int64_t n) {
  uint8_t b[V_LANES];
  m_store(b, m);
  memcpy(p, b, (size_t)n);
}
/* p[2i] = a[i], p[2i+1] = b[i] */
FN void v_store_pairs(double *p, V a, V b) {
  V even = _mm256_unpacklo_pd(a, b), odd = _mm256_unpackhi_pd(a, b);
  _mm256_storeu_pd(p, _mm256_permute2f128_pd(even, odd, 0x20));
  _mm256_storeu_pd(p + 4, _mm256_permute2f128_pd(even, odd, 0x31));
}
