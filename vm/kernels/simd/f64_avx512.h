/* simd_f64.h for AVX-512 (F, BW, DQ, VL): 8 lanes, masks in mask registers. */
#include <immintrin.h>

typedef __m512d V;
typedef __m512i I;
typedef __mmask8 M;
enum { V_LANES = 8 };

FN V v_const(double c) { return _mm512_set1_pd(c); }
FN V v_splat(double c) { return _mm512_set1_pd(c); }
FN I i_set(int64_t c) { return _mm512_set1_epi64(c); }
FN V v_of_bits(I a) { return _mm512_castsi512_pd(a); }
FN I i_of_bits(V a) { return _mm512_castpd_si512(a); }

FN V v_add(V a, V b) { return _mm512_add_pd(a, b); }
FN V v_sub(V a, V b) { return _mm512_sub_pd(a, b); }
FN V v_mul(V a, V b) { return _mm512_mul_pd(a, b); }
FN V v_div(V a, V b) { return _mm512_div_pd(a, b); }
FN V v_fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
FN V v_fms(V a, V b, V c) { return _mm512_fmsub_pd(a, b, c); }
FN V v_fnma(V a, V b, V c) { return _mm512_fnmadd_pd(a, b, c); }
FN V v_sqrt(V a) { return _mm512_sqrt_pd(a); }
FN V v_neg(V a) { return -a; }
FN V v_abs(V a) { return _mm512_abs_pd(a); }
FN V v_copysign(V a, V s) {
  I sign = i_set(INT64_MIN); /* 0xca: bits of the third where the first is 0, else the second */
  return v_of_bits(_mm512_ternarylogic_epi64(sign, i_of_bits(s), i_of_bits(a), 0xca));
}
FN V v_floor(V a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
FN V v_ceil(V a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
FN V v_trunc(V a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
FN V v_rint(V a) {
  return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
FN V v_from_int(I a) { return _mm512_cvtepi64_pd(a); }
#define V_SCALE
#define v_scale_down v_scale
FN V v_scale(V a, V n) { return _mm512_scalef_pd(a, n); }
FN V v_min(V a, V b) { return _mm512_min_pd(a, b); }
FN V v_max(V a, V b) { return _mm512_max_pd(a, b); }
FN V v_select(M m, V a, V b) { return _mm512_mask_blend_pd(m, b, a); }
FN M v_lt(V a, V b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
FN M v_le(V a, V b) { return _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ); }
FN M v_eq(V a, V b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }

FN I i_add(I a, I b) { return _mm512_add_epi64(a, b); }
FN I i_sub(I a, I b) { return _mm512_sub_epi64(a, b); }
FN I i_mulwide(I a, I b) { return _mm512_mul_epu32(a, b); }
FN I i_and(I a, I b) { return _mm512_and_si512(a, b); }
FN I i_or(I a, I b) { return _mm512_or_si512(a, b); }
FN I i_xor(I a, I b) { return _mm512_xor_si512(a, b); }
FN I i_shl(I a, unsigned n) { return _mm512_slli_epi64(a, n); }
FN I i_shr(I a, unsigned n) { return _mm512_srli_epi64(a, n); }
FN I i_sar(I a, unsigned n) { return _mm512_srai_epi64(a, n); }
FN I i_shlv(I a, I n) { return _mm512_sllv_epi64(a, n); }
FN I i_shrv(I a, I n) { return _mm512_srlv_epi64(a, n); }
FN I i_select(M m, I a, I b) { return _mm512_mask_blend_epi64(m, b, a); }
FN M i_lt(I a, I b) { return _mm512_cmplt_epi64_mask(a, b); }
FN M i_eq(I a, I b) { return _mm512_cmpeq_epi64_mask(a, b); }
FN M i_ult(I a, I b) { return _mm512_cmplt_epu64_mask(a, b); }

FN M m_and(M a, M b) { return (M)(a & b); }
FN M m_or(M a, M b) { return (M)(a | b); }
FN M m_xor(M a, M b) { return (M)(a ^ b); }
FN M m_not(M a) { return (M)~a; }
FN int m_any(M a) { return a != 0; }

FN M part_mask(int64_t n) { return (M)((1u << n) - 1); }
FN V v_load(const double *p) { return _mm512_loadu_pd(p); }
FN V v_load_part(const double *p, int64_t n) { return _mm512_maskz_loadu_pd(part_mask(n), p); }
FN void v_store(double *p, V a) { _mm512_storeu_pd(p, a); }
FN void v_store_part(double *p, V a, int64_t n) { _mm512_mask_storeu_pd(p, part_mask(n), a); }
FN M m_load(const uint8_t *p) {
  __m128i b = _mm_loadl_epi64((const __m128i *)p);
  return (M)_mm_test_epi8_mask(b, b);
}
FN M m_load_part(const uint8_t *p, int64_t n) {
  __m128i b = _mm_maskz_loadu_epi8(part_mask(n), p);
  return (M)_mm_test_epi8_mask(b, b);
}
FN void m_store(uint8_t *p, M m) { _mm_storel_epi64((__m128i *)p, _mm_maskz_set1_epi8(m, 1)); }
FN void m_store_part(uint8_t *p, M m, int64_t n) {
  _mm_mask_storeu_epi8(p, part_mask(n), _mm_maskz_set1_epi8(m, 1));
}
/* p[2i] = a[i], p[2i+1] = b[i] */
FN void v_store_pairs(double *p, V a, V b) {
  I low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  I high = i_add(low, i_set(4));
  _mm512_storeu_pd(p, _mm512_permutex2var_pd(a, low, b));
  _mm512_storeu_pd(p + 8, _mm512_permutex2var_pd(a, high, b));
}
