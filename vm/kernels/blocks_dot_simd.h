/* Vectors of words and of floats as blocks_dot.c writes them, of AVX-512 and of AVX2. */
#ifndef TS_VM_KERNELS_BLOCKS_DOT_SIMD_H
#define TS_VM_KERNELS_BLOCKS_DOT_SIMD_H

#include <immintrin.h>
#include <stdint.h>

#if defined TS_ISA_avx512
enum { LANES = 16, TABLES = 1 /* a register holds 16 floats */ };
typedef __m512 F;
typedef __m512i I;
#define ZIP(how, a, b)  _mm512_unpack##how(a, b)
#define SPLAT(x)        _mm512_set1_ps(x)
#define WORD(x)         _mm512_set1_epi32(x)
#define BYTES(x)        _mm512_set1_epi8(x)
#define FOUR(x)         _mm512_broadcast_i32x4(x)
#define AND(a, b)       _mm512_and_si512(a, b)
#define OR(a, b)        _mm512_or_si512(a, b)
#define LESS(a, b)      _mm512_sub_epi8(a, b)
#define SHUFFLE(a, b)   _mm512_shuffle_epi8(a, b)
#define RIGHT(a, n)     _mm512_srli_epi32(a, (unsigned)(n))
#define LEFT(a, n)      _mm512_slli_epi32(a, (unsigned)(n))
#define SIGNED(a, n)    _mm512_srai_epi32(a, (unsigned)(n))
#define FLOAT(a)        _mm512_cvtepi32_ps(a)
#define MUL(a, b)       _mm512_mul_ps(a, b)
#define FMA(a, b, c)    _mm512_fmadd_ps(a, b, c)
#define FNMADD(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define LOAD(p)         _mm512_loadu_si512(p)
#define STORE(p, x)     _mm512_storeu_ps(p, x)
#define LOAD_F(p)       _mm512_loadu_ps(p)
#define IN_TABLE(t, a)  _mm512_permutexvar_ps(a, t) /* by the lowest four bits of each word */
/* f16 in the lower half of each word. */
static inline F half(I a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
/* 16 more where bytes have a bit of one's, 16 less where they have none. */
static inline I more_if(I a, I bytes, I one) {
  return _mm512_mask_add_epi8(a, _mm512_test_epi8_mask(bytes, one), a, BYTES(16));
}
static inline I less_unless(I a, I bytes, I one) {
  return _mm512_mask_sub_epi8(a, _mm512_testn_epi8_mask(bytes, one), a, BYTES(16));
}
static inline F halves(const uint16_t *at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)at));
}
#else
enum { LANES = 8, TABLES = 0 };
typedef __m256 F;
typedef __m256i I;
#define ZIP(how, a, b)  _mm256_unpack##how(a, b)
#define SPLAT(x)        _mm256_set1_ps(x)
#define WORD(x)         _mm256_set1_epi32(x)
#define BYTES(x)        _mm256_set1_epi8(x)
#define FOUR(x)         _mm256_broadcastsi128_si256(x)
#define AND(a, b)       _mm256_and_si256(a, b)
#define OR(a, b)        _mm256_or_si256(a, b)
#define LESS(a, b)      _mm256_sub_epi8(a, b)
#define SHUFFLE(a, b)   _mm256_shuffle_epi8(a, b)
#define RIGHT(a, n)     _mm256_srli_epi32(a, n)
#define LEFT(a, n)      _mm256_slli_epi32(a, n)
#define SIGNED(a, n)    _mm256_srai_epi32(a, n)
#define FLOAT(a)        _mm256_cvtepi32_ps(a)
#define MUL(a, b)       _mm256_mul_ps(a, b)
#define FMA(a, b, c)    _mm256_fmadd_ps(a, b, c)
#define FNMADD(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define LOAD(p)         _mm256_loadu_si256((const void *)(p))
#define STORE(p, x)     _mm256_storeu_ps(p, x)
#define LOAD_F(p)       _mm256_loadu_ps(p)
#define IN_TABLE(t, a)  ((void)(a), (t)) /* never */
static inline F half(I a) {
  I low = AND(a, WORD(0xffff));
  __m128i both =
      _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  return _mm256_cvtph_ps(both);
}
static inline I has(I bytes, I one) { return _mm256_cmpeq_epi8(AND(bytes, one), one); }
static inline I more_if(I a, I bytes, I one) { return OR(a, AND(has(bytes, one), BYTES(16))); }
static inline I less_unless(I a, I bytes, I one) {
  return LESS(a, _mm256_andnot_si256(has(bytes, one), BYTES(16)));
}
static inline F halves(const uint16_t *at) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const void *)at));
}
#endif

/* Byte j of each word at its top, nothing below. */
#define TOP_OF(j)                                                                              \
  FOUR(_mm_setr_epi8(-1, -1, -1, j, -1, -1, -1, 4 + (j), -1, -1, -1, 8 + (j), -1, -1, -1,      \
                     12 + (j)))
/* Byte j of each word in all its bytes. */
#define SAME_BYTE(j)                                                                           \
  FOUR(_mm_setr_epi8(j, j, j, j, 4 + (j), 4 + (j), 4 + (j), 4 + (j), 8 + (j), 8 + (j),         \
                     8 + (j), 8 + (j), 12 + (j), 12 + (j), 12 + (j), 12 + (j)))
#define TOP_BYTE(a, j) SHUFFLE(a, TOP_OF(j))
/* What a table of 16 bytes has for each byte. */
#define LOOK_UP(table, a) SHUFFLE(FOUR(_mm_loadu_si128((const void *)(table))), a)

#endif
