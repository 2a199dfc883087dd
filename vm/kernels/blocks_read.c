/* Blocks to f32. What a format has where stands at its function; sources: OCP Microscaling Formats
 * 1.0 (mxfp4), the block structures of the GGUF specification (all others). */
#include "vm/kernels/blocks_read.h"

#include <immintrin.h>

#include "vm/kernels/blocks.h"
#include "vm/kernels/simd/isa.h"

typedef uint8_t u8;

/* One function a format, of one block of `size` elements in `bytes` bytes. */
#define READER(name, size, bytes)                                                              \
  void TS_ISA(ts_blocks_##name)(int64_t n, void *dst, const void *src) {                       \
    const u8 *s = src;                                                                         \
    float *d = dst;                                                                            \
    for (; n >= (size); n -= (size), s += (bytes), d += (size)) name##_block(d, s);            \
  }

/* ---- mxfp4 (OCP MX): byte 0 of a block is the scale 2^(b - 127), 0xff NaN; then element 2i stands in
 * the low and 2i + 1 in the high half of byte 1 + i. */
static const float e2m1[16] = {0,     .5f,  1,  1.5f,  2,  3,  4,  6,
                               -0.0f, -.5f, -1, -1.5f, -2, -3, -4, -6};

static void mxfp4_block(float *d, const u8 *s) {
  uint32_t b = s[0];
  float scale = f32_of_bits(b == 0xff ? 0x7fc00000 : b ? b << 23 : 0x00400000);
#if defined TS_ISA_avx512
  __m512i byte = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(s + 1)));
  __m512 table = _mm512_loadu_ps(e2m1), by = _mm512_set1_ps(scale);
  __m512 even = _mm512_mul_ps(_mm512_permutexvar_ps(byte, table), by);
  __m512 odd = _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(byte, 4), table), by);
  const __m512i lo = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i hi = _mm512_add_epi32(lo, _mm512_set1_epi32(8));
  _mm512_storeu_ps(d, _mm512_permutex2var_ps(even, lo, odd));
  _mm512_storeu_ps(d + 16, _mm512_permutex2var_ps(even, hi, odd));
#else
  for (int i = 0; i < 16; i++) {
    d[2 * i] = e2m1[s[1 + i] & 15] * scale;
    d[2 * i + 1] = e2m1[s[1 + i] >> 4] * scale;
  }
#endif
}

/* ---- blocks of 32 with one scale d of f16, and in the forms _1 a minimum m of f16 behind it. Byte i
 * of the 4-bit codes holds element i below and i + 16 above; a fifth bit of element i is bit i of a
 * word in front of them. */
static void q4_0_block(float *d, const u8 *s) {
  float scale = ts_block_f16(s);
  for (int i = 0; i < 16; i++) {
    d[i] = scale * (float)((s[2 + i] & 15) - 8);
    d[i + 16] = scale * (float)((s[2 + i] >> 4) - 8);
  }
}

static void q4_1_block(float *d, const u8 *s) {
  float scale = ts_block_f16(s), least = ts_block_f16(s + 2);
  for (int i = 0; i < 16; i++) {
    d[i] = scale * (float)(s[4 + i] & 15) + least;
    d[i + 16] = scale * (float)(s[4 + i] >> 4) + least;
  }
}

static uint32_t word(const u8 *s) {
  uint32_t w;
  memcpy(&w, s, 4);
  return w;
}

static void q5_0_block(float *d, const u8 *s) {
  float scale = ts_block_f16(s);
  uint32_t high = word(s + 2);
  for (int i = 0; i < 16; i++) {
    int low = (s[6 + i] & 15) | (int)(high >> i & 1) << 4;
    int above = s[6 + i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
    d[i] = scale * (float)(low - 16);
    d[i + 16] = scale * (float)(above - 16);
  }
}

static void q5_1_block(float *d, const u8 *s) {
  float scale = ts_block_f16(s), least = ts_block_f16(s + 2);
  uint32_t high = word(s + 4);
  for (int i = 0; i < 16; i++) {
    int low = (s[8 + i] & 15) | (int)(high >> i & 1) << 4;
    int above = s[8 + i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
    d[i] = scale * (float)low + least;
    d[i + 16] = scale * (float)above + least;
  }
}

static void q8_0_block(float *d, const u8 *s) {
  float scale = ts_block_f16(s);
  for (int i = 0; i < 32; i++) d[i] = scale * (float)(signed char)s[2 + i];
}

static void iq4_nl_block(float *d, const u8 *s) {
  float scale = ts_block_f16(s);
  for (int i = 0; i < 16; i++) {
    d[i] = scale * (float)ts_block_iq4[s[2 + i] & 15];
    d[i + 16] = scale * (float)ts_block_iq4[s[2 + i] >> 4];
  }
}

/* ---- blocks of 256: f16 d, f16 m, then 8 scales and minima of 6 bits for 32 elements each. Of 64
 * elements 32 bytes hold the first 32 codes below and the others above. */
static void q4_k_block(float *d, const u8 *s) {
  float scale = ts_block_f16(s), least = ts_block_f16(s + 2);
  const u8 *code = s + 16;
  for (int j = 0; j < 8; j += 2, d += 64, code += 32) {
    float by = scale * (float)ts_block_scale(s + 4, j),
          less = least * (float)ts_block_min(s + 4, j);
    float by2 = scale * (float)ts_block_scale(s + 4, j + 1),
          less2 = least * (float)ts_block_min(s + 4, j + 1);
    for (int i = 0; i < 32; i++) {
      d[i] = by * (float)(code[i] & 15) - less;
      d[i + 32] = by2 * (float)(code[i] >> 4) - less2;
    }
  }
}

/* The fifth bit of element 32 j + i is bit j of byte i of 32. */
static void q5_k_block(float *d, const u8 *s) {
  float scale = ts_block_f16(s), least = ts_block_f16(s + 2);
  const u8 *high = s + 16, *code = s + 48;
  for (int j = 0; j < 8; j += 2, d += 64, code += 32) {
    float by = scale * (float)ts_block_scale(s + 4, j),
          less = least * (float)ts_block_min(s + 4, j);
    float by2 = scale * (float)ts_block_scale(s + 4, j + 1),
          less2 = least * (float)ts_block_min(s + 4, j + 1);
    for (int i = 0; i < 32; i++) {
      d[i] = by * (float)((code[i] & 15) | (high[i] >> j & 1) << 4) - less;
      d[i + 32] = by2 * (float)(code[i] >> 4 | (high[i] >> (j + 1) & 1) << 4) - less2;
    }
  }
}

/* Of each half, 128 elements, 64 bytes with 4 bits of a code and 32 bytes with the 2 above; then 16
 * scales of 8 bits for 16 elements each; then f16 d. Codes are from -32 on. */
static void q6_k_block(float *d, const u8 *s) {
  float scale = ts_block_f16(s + 208);
  for (int half = 0; half < 2; half++, d += 128) {
    const u8 *low = s + 64 * half, *high = s + 128 + 32 * half;
    const signed char *by = (const signed char *)s + 192 + 8 * half;
    for (int part = 0; part < 4; part++)
      for (int i = 0; i < 32; i++) {
        int four = low[i + part % 2 * 32] >> (part / 2 * 4) & 15;
        int code = (four | (high[i] >> (2 * part) & 3) << 4) - 32;
        d[32 * part + i] = scale * (float)by[2 * part + i / 16] * (float)code;
      }
  }
}

TS_BLOCK_FORMATS(READER)

/* The one format with numbers that are too large for f32. */
void TS_ISA(ts_blocks_mxfp4_wide)(int64_t n, void *dst, const void *src) {
  const u8 *s = src;
  double *d = dst;
  for (; n >= 32; n -= 32, s += 17, d += 32) {
    double scale = s[0] == 0xff ? __builtin_nan("") : __builtin_ldexp(1, s[0] - 127);
    for (int i = 0; i < 16; i++) {
      d[2 * i] = e2m1[s[1 + i] & 15] * scale;
      d[2 * i + 1] = e2m1[s[1 + i] >> 4] * scale;
    }
  }
}
