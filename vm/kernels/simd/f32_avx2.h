/* simd_f32.h for AVX2 and FMA: 8 lanes, masks as all-ones lanes. */
#include <immintrin.h>

typedef __m256 V;
typedef __m256i I;
typedef __m256i M;
enum { V_LANES = 8 };

FN V v_const(double c) { return _mm256_set1_ps((float)c); }
FN V v_splat(float c) { return _mm256_set1_ps(c); }
FN I i_set(int32_t c) { return _mm256_set1_epi32(c); }
FN V v_of_bits(I a) { return _mm256_castsi256_ps(a); }
FN I i_of_bits(V a) { return _mm256_castps_si256(a); }

FN V v_add(V a, V b) { return _mm256_add_ps(a, b); }
FN V v_sub(V a, V b) { return _mm256_sub_ps(a, b); }
FN V v_mul(V a, V b) { return _mm256_mul_ps(a, b); }
FN V v_div(V a, V b) { return _mm256_div_ps(a, b); }
FN V v_fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
FN V v_fms(V a, V b, V c) { return _mm256_fmsub_ps(a, b, c); }
FN V v_fnma(V a, V b, V c) { return _mm256_fnmadd_ps(a, b, c); }
FN V v_sqrt(V a) { return _mm256_sqrt_ps(a); }
FN V v_neg(V a) { return -a; }
FN V v_abs(V a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
FN V v_copysign(V a, V s) {
  V sign = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_and_ps(sign, s), _mm256_andnot_ps(sign, a));
}
FN V v_floor(V a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
FN V v_ceil(V a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
FN V v_trunc(V a) { return _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
FN V v_rint(V a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
FN V v_from_int(I a) { return _mm256_cvtepi32_ps(a); }
FN V v_min(V a, V b) { return _mm256_min_ps(a, b); }
FN V v_max(V a, V b) { return _mm256_max_ps(a, b); }
FN V v_select(M m, V a, V b) { return _mm256_blendv_ps(b, a, v_of_bits(m)); }
FN M v_lt(V a, V b) { return i_of_bits(_mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
FN M v_le(V a, V b) { return i_of_bits(_mm256_cmp_ps(a, b, _CMP_LE_OQ)); }
FN M v_eq(V a, V b) { return i_of_bits(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }

FN I i_add(I a, I b) { return _mm256_add_epi32(a, b); }
FN I i_sub(I a, I b) { return _mm256_sub_epi32(a, b); }
FN I i_mul(I a, I b) { return _mm256_mullo_epi32(a, b); }
FN I i_mulhi(I a, I b) {
  I even = _mm256_srli_epi64(_mm256_mul_epu32(a, b), 32);
  I odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  return _mm256_blend_epi32(even, odd, 0xaa);
}
FN I i_and(I a, I b) { return _mm256_and_si256(a, b); }
FN I i_or(I a, I b) { return _mm256_or_si256(a, b); }
FN I i_xor(I a, I b) { return _mm256_xor_si256(a, b); }
FN I i_shl(I a, int n) { return _mm256_slli_epi32(a, n); }
FN I i_shr(I a, int n) { return _mm256_srli_epi32(a, n); }
FN I i_sar(I a, int n) { return _mm256_srai_epi32(a, n); }
FN I i_shlv(I a, I n) { return _mm256_sllv_epi32(a, n); }
FN I i_shrv(I a, I n) { return _mm256_srlv_epi32(a, n); }
FN I i_select(M m, I a, I b) { return _mm256_blendv_epi8(b, a, m); }
FN V v_look(const float *table, I i) {
  V eighth[4], by_8 = v_of_bits(i_shl(i, 28)), by_16 = v_of_bits(i_shl(i, 27));
  for (int k = 0; k < 4; k++)
    eighth[k] = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8 * k), i);
  return _mm256_blendv_ps(_mm256_blendv_ps(eighth[0], eighth[1], by_8),
                          _mm256_blendv_ps(eighth[2], eighth[3], by_8), by_16);
}
/* Eight numbers side by side are loaded and turned: half of what eight v_look take. */
#define V_LOOK_ROW
FN void v_look_row(V out[8], const float row[32][8], I i) {
  __m256i at = i_shl(_mm256_and_si256(i, i_set(31)), 5); /* bytes */
  __m128i half[2] = {_mm256_castsi256_si128(at), _mm256_extracti128_si256(at, 1)};
  const char *of[8];
  for (int k = 0; k < 8; k += 2) {
    __m128i h = half[k / 4];
    uint64_t two = (uint64_t)(k % 4 ? _mm_extract_epi64(h, 1) : _mm_cvtsi128_si64(h));
    __asm__("" : "+r"(two)); /* else gcc takes four numbers out of the vector one by one */
    of[k] = (const char *)row + (uint32_t)two;
    of[k + 1] = (const char *)row + (two >> 32);
  }
  for (int side = 0; side < 2; side++) {
    V r[4];
    for (int k = 0; k < 4; k++) {
      const float *low = (const float *)(const void *)of[k] + 4 * side;
      const float *high = (const float *)(const void *)of[k + 4] + 4 * side;
      r[k] = _mm256_castps128_ps256(_mm_load_ps(low));
      r[k] = _mm256_insertf128_ps(r[k], _mm_load_ps(high), 1);
    }
    V a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]);
    V c = _mm256_unpacklo_ps(r[2], r[3]), d = _mm256_unpackhi_ps(r[2], r[3]);
    out[4 * side] = _mm256_shuffle_ps(a, c, 0x44);
    out[4 * side + 1] = _mm256_shuffle_ps(a, c, 0xee);
    out[4 * side + 2] = _mm256_shuffle_ps(b, d, 0x44);
    out[4 * side + 3] = _mm256_shuffle_ps(b, d, 0xee);
  }
}
FN M i_lt(I a, I b) { return _mm256_cmpgt_epi32(b, a); }
FN M i_eq(I a, I b) { return _mm256_cmpeq_epi32(a, b); }
FN M i_ult(I a, I b) {
  I flip = i_set(INT32_MIN);
  return i_lt(i_xor(a, flip), i_xor(b, flip));
}

FN M m_and(M a, M b) { return _mm256_and_si256(a, b); }
FN M m_or(M a, M b) { return _mm256_or_si256(a, b); }
FN M m_xor(M a, M b) { return _mm256_xor_si256(a, b); }
FN M m_not(M a) { return _mm256_xor_si256(a, i_set(-1)); }
FN int m_any(M a) { return _mm256_movemask_ps(v_of_bits(a)) != 0; }

FN I part_mask(int64_t n) {
  return _mm256_cmpgt_epi32(i_set((int32_t)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
FN V v_load(const float *p) { return _mm256_loadu_ps(p); }
FN V v_load_part(const float *p, int64_t n) { return _mm256_maskload_ps(p, part_mask(n)); }
FN void v_store(float *p, V a) { _mm256_storeu_ps(p, a); }
FN void v_store_part(float *p, V a, int64_t n) { _mm256_maskstore_ps(p, part_mask(n), a); }
FN M m_load(const uint8_t *p) {
  I wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
  return _mm256_cmpgt_epi32(wide, _mm256_setzero_si256());
}
FN M m_load_part(const uint8_t *p, int64_t n) {
  uint8_t b[V_LANES] = {0};
  memcpy(b, p, (size_t)n);
  return m_load(b);
}
FN void m_store(uint8_t *p, M m) {
  __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
  __m128i bytes = _mm_packs_epi16(half, half);
  _mm_storel_epi64((__m128i *)p, _mm_and_si128(bytes, _mm_set1_epi8(1)));
}
FN void m_store_part(uint8_t *p, M m, int64_t n) {
  uint8_t b[V_LANES];
  m_store(b, m);
  memcpy(p, b, (size_t)n);
}
/* p[2i] = a[i], p[2i+1] = b[i] */
FN void v_store_pairs(float *p, V a, V b) {
  V even = _mm256_unpacklo_ps(a, b), odd = _mm256_unpackhi_ps(a, b);
  _mm256_storeu_ps(p, _mm256_permute2f128_ps(even, odd, 0x20));
  _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(even, odd, 0x31));
}
