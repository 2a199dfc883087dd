/* In-register transposes for vm/kernels/copy_transpose.c. TILE_<bytes>(d, dr, s, sc, nt) takes
 * a square of elements, whose rows in s lie sc bytes apart, to its transpose in d,
 * rows dr bytes apart; with nt it stores past the caches and d is aligned. SIDE_<bytes>
 * is the number of elements of a side.
 *
 * The network: of n = 2^k rows, one stage makes rows 2i and 2i + 1 by interleaving the
 * low and the high halves of rows i and i + n/2; k stages transpose. Unpack
 * instructions do so within 16 bytes; wider vectors then exchange 16-byte lanes. */
#ifndef TS_VM_KERNELS_COPY_TILES_H
#define TS_VM_KERNELS_COPY_TILES_H

#include "vm/kernels/copy_element.h"

#define STAGE(V, n, to, from, lo, hi)                                                          \
  for (int q = 0; q < (n) / 2; q++) {                                                          \
    V x = (from)[q], y = (from)[q + (n) / 2];                                                  \
    (to)[2 * q] = lo(x, y);                                                                    \
    (to)[2 * q + 1] = hi(x, y);                                                                \
  }

INLINE void store16(char *d, __m128i x, int nt) {
  if (nt)
    _mm_stream_si128((void *)d, x);
  else
    _mm_storeu_si128((void *)d, x);
}

#define SIDE_1 16
INLINE void TILE_1(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m128i a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = _mm_loadu_si128((const void *)(s + i * sc));
  STAGE(__m128i, 16, b, a, _mm_unpacklo_epi8, _mm_unpackhi_epi8)
  STAGE(__m128i, 16, a, b, _mm_unpacklo_epi8, _mm_unpackhi_epi8)
  STAGE(__m128i, 16, b, a, _mm_unpacklo_epi8, _mm_unpackhi_epi8)
  STAGE(__m128i, 16, a, b, _mm_unpacklo_epi8, _mm_unpackhi_epi8)
  for (int i = 0; i < 16; i++) store16(d + i * dr, a[i], nt);
}

#define SIDE_2 8
INLINE void TILE_2(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m128i a[8], b[8];
  for (int i = 0; i < 8; i++) a[i] = _mm_loadu_si128((const void *)(s + i * sc));
  STAGE(__m128i, 8, b, a, _mm_unpacklo_epi16, _mm_unpackhi_epi16)
  STAGE(__m128i, 8, a, b, _mm_unpacklo_epi16, _mm_unpackhi_epi16)
  STAGE(__m128i, 8, b, a, _mm_unpacklo_epi16, _mm_unpackhi_epi16)
  for (int i = 0; i < 8; i++) store16(d + i * dr, b[i], nt);
}

#if defined TS_ISA_avx512
/* Lane k of row g becomes lane g of row k. */
INLINE void lanes4(__m512i o[4], __m512i x, __m512i y, __m512i z, __m512i w) {
  __m512i a = _mm512_shuffle_i64x2(x, y, 0x44), b = _mm512_shuffle_i64x2(x, y, 0xee);
  __m512i c = _mm512_shuffle_i64x2(z, w, 0x44), e = _mm512_shuffle_i64x2(z, w, 0xee);
  o[0] = _mm512_shuffle_i64x2(a, c, 0x88);
  o[1] = _mm512_shuffle_i64x2(a, c, 0xdd);
  o[2] = _mm512_shuffle_i64x2(b, e, 0x88);
  o[3] = _mm512_shuffle_i64x2(b, e, 0xdd);
}

INLINE void store64(char *d, __m512i x, int nt) {
  if (nt)
    _mm512_stream_si512((void *)d, x);
  else
    _mm512_storeu_si512((void *)d, x);
}

#define SIDE_4 16
INLINE void TILE_4(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m512i a[16], b[4], o[4];
  for (int g = 0; g < 16; g += 4) {
    for (int i = 0; i < 4; i++) a[g + i] = _mm512_loadu_si512((const void *)(s + (g + i) * sc));
    STAGE(__m512i, 4, b, a + g, _mm512_unpacklo_epi32, _mm512_unpackhi_epi32)
    STAGE(__m512i, 4, a + g, b, _mm512_unpacklo_epi32, _mm512_unpackhi_epi32)
  }
  for (int i = 0; i < 4; i++) {
    lanes4(o, a[i], a[4 + i], a[8 + i], a[12 + i]);
    for (int k = 0; k < 4; k++) store64(d + (4 * k + i) * dr, o[k], nt);
  }
}

#define SIDE_8 8
INLINE void TILE_8(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m512i a[8], b[8], o[4];
  for (int i = 0; i < 8; i++) a[i] = _mm512_loadu_si512((const void *)(s + i * sc));
  for (int g = 0; g < 8; g += 2)
    STAGE(__m512i, 2, b + g, a + g, _mm512_unpacklo_epi64, _mm512_unpackhi_epi64)
  for (int i = 0; i < 2; i++) {
    lanes4(o, b[i], b[2 + i], b[4 + i], b[6 + i]);
    for (int k = 0; k < 4; k++) store64(d + (2 * k + i) * dr, o[k], nt);
  }
}

#define SIDE_16 4
INLINE void TILE_16(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m512i a[4], o[4];
  for (int i = 0; i < 4; i++) a[i] = _mm512_loadu_si512((const void *)(s + i * sc));
  lanes4(o, a[0], a[1], a[2], a[3]);
  for (int i = 0; i < 4; i++) store64(d + i * dr, o[i], nt);
}

/* Small elements, whole lines of d: 16 bytes of every quarter of the rows are the lanes of a
 * vector, so that unpacking, which stays in its lane, makes columns. */
INLINE __m512i quarters(const char *s, int64_t sc) {
  __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const void *)s));
  x = _mm512_mask_broadcast_i32x4(x, 0x00f0, _mm_loadu_si128((const void *)(s + sc)));
  x = _mm512_mask_broadcast_i32x4(x, 0x0f00, _mm_loadu_si128((const void *)(s + 2 * sc)));
  return _mm512_mask_broadcast_i32x4(x, 0xf000, _mm_loadu_si128((const void *)(s + 3 * sc)));
}

/* 64 rows of 16 elements */
INLINE void LINES_1(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = quarters(s + i * sc, 16 * sc);
  STAGE(__m512i, 16, b, a, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8)
  STAGE(__m512i, 16, a, b, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8)
  STAGE(__m512i, 16, b, a, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8)
  STAGE(__m512i, 16, a, b, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8)
  for (int i = 0; i < 16; i++) store64(d + i * dr, a[i], nt);
}

/* 32 rows of 8 elements */
INLINE void LINES_2(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m512i a[8], b[8];
  for (int i = 0; i < 8; i++) a[i] = quarters(s + i * sc, 8 * sc);
  STAGE(__m512i, 8, b, a, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16)
  STAGE(__m512i, 8, a, b, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16)
  STAGE(__m512i, 8, b, a, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16)
  for (int i = 0; i < 8; i++) store64(d + i * dr, b[i], nt);
}

#elif defined TS_ISA_avx2
INLINE void store32(char *d, __m256i x, int nt) {
  if (nt)
    _mm256_stream_si256((void *)d, x);
  else
    _mm256_storeu_si256((void *)d, x);
}

#define SIDE_4 8
INLINE void TILE_4(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m256i a[8], b[4];
  for (int g = 0; g < 8; g += 4) {
    for (int i = 0; i < 4; i++) a[g + i] = _mm256_loadu_si256((const void *)(s + (g + i) * sc));
    STAGE(__m256i, 4, b, a + g, _mm256_unpacklo_epi32, _mm256_unpackhi_epi32)
    STAGE(__m256i, 4, a + g, b, _mm256_unpacklo_epi32, _mm256_unpackhi_epi32)
  }
  for (int i = 0; i < 4; i++) {
    store32(d + i * dr, _mm256_permute2x128_si256(a[i], a[4 + i], 0x20), nt);
    store32(d + (4 + i) * dr, _mm256_permute2x128_si256(a[i], a[4 + i], 0x31), nt);
  }
}

#define SIDE_8 4
INLINE void TILE_8(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m256i a[4], b[4];
  for (int i = 0; i < 4; i++) a[i] = _mm256_loadu_si256((const void *)(s + i * sc));
  for (int g = 0; g < 4; g += 2)
    STAGE(__m256i, 2, b + g, a + g, _mm256_unpacklo_epi64, _mm256_unpackhi_epi64)
  for (int i = 0; i < 2; i++) {
    store32(d + i * dr, _mm256_permute2x128_si256(b[i], b[2 + i], 0x20), nt);
    store32(d + (2 + i) * dr, _mm256_permute2x128_si256(b[i], b[2 + i], 0x31), nt);
  }
}

#else
#define SIDE_4 4
INLINE void TILE_4(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m128i a[4], b[4];
  for (int i = 0; i < 4; i++) a[i] = _mm_loadu_si128((const void *)(s + i * sc));
  STAGE(__m128i, 4, b, a, _mm_unpacklo_epi32, _mm_unpackhi_epi32)
  STAGE(__m128i, 4, a, b, _mm_unpacklo_epi32, _mm_unpackhi_epi32)
  for (int i = 0; i < 4; i++) store16(d + i * dr, a[i], nt);
}

#define SIDE_8 2
INLINE void TILE_8(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  __m128i a[2], b[2];
  for (int i = 0; i < 2; i++) a[i] = _mm_loadu_si128((const void *)(s + i * sc));
  STAGE(__m128i, 2, b, a, _mm_unpacklo_epi64, _mm_unpackhi_epi64)
  for (int i = 0; i < 2; i++) store16(d + i * dr, b[i], nt);
}
#endif

#if !defined TS_ISA_avx512
#define SIDE_16 1
INLINE void TILE_16(char *d, int64_t dr, const char *s, int64_t sc, int nt) {
  (void)dr, (void)sc;
  store16(d, _mm_loadu_si128((const void *)s), nt);
}
#endif

#endif
