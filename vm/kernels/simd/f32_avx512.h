/* simd_f32.h for AVX-512 (F, BW, DQ, VL): 16 lanes, masks in mask registers. */
#include <immintrin.h>

typedef __m512 V;
typedef __m512i I;
typedef __mmask16 M;
enum { V_LANES = 16 };

FN V v_const(double c) { return _mm512_set1_ps((float)c); }
FN V v_splat(float c) { return _mm512_set1_ps(c); }
FN I i_set(int32_t c) { return _mm512_set1_epi32(c); }
FN V v_of_bits(I a) { return _mm512_castsi512_ps(a); }
FN I i_of_bits(V a) { return _mm512_castps_si512(a); }

FN V v_add(V a, V b) { return _mm512_add_ps(a, b); }
FN V v_sub(V a, V b) { return _mm512_sub_ps(a, b); }
FN V v_mul(V a, V b) { return _mm512_mul_ps(a, b); }
FN V v_div(V a, V b) { return _mm512_div_ps(a, b); }
FN V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
FN V v_fms(V a, V b, V c) { return _mm512_fmsub_ps(a, b, c); }
FN V v_fnma(V a, V b, V c) { return _mm512_fnmadd_ps(a, b, c); }
FN V v_sqrt(V a) { return _mm512_sqrt_ps(a); }
FN V v_neg(V a) { return -a; }
FN V v_abs(V a) { return _mm512_abs_ps(a); }
FN V v_copysign(V a, V s) {
  I sign = i_set(INT32_MIN); /* 0xca: bits of the third where the first is 0, else the second */
  return v_of_bits(_mm512_ternarylogic_epi32(sign, i_of_bits(s), i_of_bits(a), 0xca));
}
FN V v_floor(V a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
FN V v_ceil(V a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
FN V v_trunc(V a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
FN V v_rint(V a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
FN V v_from_int(I a) { return _mm512_cvtepi32_ps(a); }
#define V_SCALE
#define v_scale_down v_scale
FN V v_scale(V a, V n) { return _mm512_scalef_ps(a, n); }
FN V v_min(V a, V b) { return _mm512_min_ps(a, b); }
FN V v_max(V a, V b) { return _mm512_max_ps(a, b); }
FN V v_select(M m, V a, V b) { return _mm512_mask_blend_ps(m, b, a); }
FN M v_lt(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
FN M v_le(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
FN M v_eq(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }

FN I i_add(I a, I b) { return _mm512_add_epi32(a, b); }
FN I i_sub(I a, I b) { return _mm512_sub_epi32(a, b); }
FN I i_mul(I a, I b) { return _mm512_mullo_epi32(a, b); }
FN I i_mulhi(I a, I b) {
  I even = _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32);
  I odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
  return _mm512_mask_blend_epi32(0xaaaa, even, odd);
}
FN I i_and(I a, I b) { return _mm512_and_si512(a, b); }
FN I i_or(I a, I b) { return _mm512_or_si512(a, b); }
FN I i_xor(I a, I b) { return _mm512_xor_si512(a, b); }
FN I i_shl(I a, unsigned n) { return _mm512_slli_epi32(a, n); }
FN I i_shr(I a, unsigned n) { return _mm512_srli_epi32(a, n); }
FN I i_sar(I a, unsigned n) { return _mm512_srai_epi32(a, n); }
FN I i_shlv(I a, I n) { return _mm512_sllv_epi32(a, n); }
FN I i_shrv(I a, I n) { return _mm512_srlv_epi32(a, n); }
FN I i_select(M m, I a, I b) { return _mm512_mask_blend_epi32(m, b, a); }
FN V v_look(const float *table, I i) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(table), i, _mm512_loadu_ps(table + 16));
}
FN M i_lt(I a, I b) { return _mm512_cmplt_epi32_mask(a, b); }
FN M i_eq(I a, I b) { return _mm512_cmpeq_epi32_mask(a, b); }
FN M i_ult(I a, I b) { return _mm512_cmplt_epu32_mask(a, b); }

FN M m_and(M a, M b) { return (M)(a & b); }
FN M m_or(M a, M b) { return (M)(a | b); }
FN M m_xor(M a, M b) { return (M)(a ^ b); }
FN M m_not(M a) { return (M)~a; }
FN int m_any(M a) { return a != 0; }

FN M part_mask(int64_t n) { return (M)((1u << n) - 1); }
FN V v_load(const float *p) { return _mm512_loadu_ps(p); }
FN V v_load_part(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(part_mask(n), p); }
FN void v_store(float *p, V a) { _mm512_storeu_ps(p, a); }
FN void v_store_part(float *p, V a, int64_t n) { _mm512_mask_storeu_ps(p, part_mask(n), a); }
FN M m_load(const uint8_t *p) {
  __m128i b = _mm_loadu_si128((const __m128i *)p);
  return _mm_test_epi8_mask(b, b);
}
FN M m_load_part(const uint8_t *p, int64_t n) {
  __m128i b = _mm_maskz_loadu_epi8(part_mask(n), p);
  return _mm_test_epi8_mask(b, b);
}
FN void m_store(uint8_t *p, M m) { _mm_storeu_si128((__m128i *)p, _mm_maskz_set1_epi8(m, 1)); }
FN void m_store_part(uint8_t *p, M m, int64_t n) {
  _mm_mask_storeu_epi8(p, part_mask(n), _mm_maskz_set1_epi8(m, 1));
}
/* p[2i] = a[i], p[2i+1] = b[i] */
FN void v_store_pairs(float *p, V a, V b) {
  I low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  I high = i_add(low, i_set(8));
  _mm512_storeu_ps(p, _mm512_permutex2var_ps(a, low, b));
  _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(a, high, b));
}
