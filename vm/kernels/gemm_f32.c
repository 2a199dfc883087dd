/* The f32 table: inputs f32, bf16, f16, fp8 and complex64, which is a real
 * product of twice the width and depth (gemm_complex.inc). */
#include "vm/kernels/gemm_simd_f32.h"
#include "vm/kernels/gemm_acc.h"
#include "vm/kernels/isa.h"
#include "vm/kernels/gemm_tile.inc"

/* Vectors of columns that a skinny product takes at once for 1, 2, 4, 8 rows, its
 * steps of k, and how many bytes ahead its columns are prefetched. */
#if defined TS_ISA_avx512
enum { WIDE1 = 8, WIDE2 = 4, WIDE4 = 4, WIDE8 = 3 };
#elif defined TS_ISA_avx2
enum { WIDE1 = 8, WIDE2 = 4, WIDE4 = 3, WIDE8 = 1 };
#else
enum { WIDE1 = 4, WIDE2 = 4, WIDE4 = 3, WIDE8 = 1 };
#endif
enum { NEAR_BYTES = 4 << 20, NEAR_STEPS = 64, FAR_STEPS = 8, GROUP_STEPS = 16 };
enum { AHEAD_DOTS = 512 };

#define ELEM float
#define FN(name) f32_##name
#include "vm/kernels/gemm_pack.inc"
#include "vm/kernels/gemm_skinny.inc"

#define ELEM uint16_t
#define FN(name) bf16_##name
#include "vm/kernels/gemm_pack.inc"
#include "vm/kernels/gemm_skinny.inc"

#define ELEM uint16_t
#define FN(name) f16_##name
#include "vm/kernels/gemm_pack.inc"
#include "vm/kernels/gemm_skinny.inc"

#define ELEM uint8_t
#define FN(name) e4m3_##name
#include "vm/kernels/gemm_pack.inc"
#include "vm/kernels/gemm_skinny.inc"

#define ELEM uint8_t
#define FN(name) e5m2_##name
#include "vm/kernels/gemm_pack.inc"
#include "vm/kernels/gemm_skinny.inc"

#include "vm/kernels/gemm_complex.inc"

/* ---- rounding of results, to nearest, ties to even ---- */

/* To a float with MB mantissa bits and smallest normal exponent EMIN, as the
 * integer `exponent and mantissa` of the narrow format without its sign; beyond
 * its range the integer is larger than the format's greatest. */
static inline uint32_t round_narrow(uint32_t mag, int mb, int emin) {
  int shift = 23 - mb;
  if (mag < (uint32_t)(emin + 127) << 23) {
    /* Adding 2^(emin + shift) leaves the ulp of the denormals in the last place. */
    float magic = f32_of_bits((uint32_t)(emin + shift + 127) << 23);
    return bits_of_f32(f32_of_bits(mag) + magic) - bits_of_f32(magic);
  }
  uint32_t odd = (mag >> shift) & 1, bias = (uint32_t)(emin + 126) << mb;
  return ((mag + (1u << (shift - 1)) - 1 + odd) >> shift) - bias;
}

static inline uint16_t to_bf16(float f) {
  uint32_t u = bits_of_f32(f);
  if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)((u >> 16) | 0x40);
  return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static inline uint16_t to_f16(float f) {
  uint32_t u = bits_of_f32(f), mag = u & 0x7fffffff, sign = (u >> 16) & 0x8000;
  if (mag > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  uint32_t r = mag >= 0x7f800000 ? 0x7c00 : round_narrow(mag, 10, -14);
  return (uint16_t)(sign | (r > 0x7c00 ? 0x7c00 : r));
}

static inline uint8_t to_e5m2(float f) {
  uint32_t u = bits_of_f32(f), mag = u & 0x7fffffff, sign = (u >> 24) & 0x80;
  if (mag > 0x7f800000) return (uint8_t)(sign | 0x7e);
  uint32_t r = mag >= 0x7f800000 ? 0x7c : round_narrow(mag, 2, -14);
  return (uint8_t)(sign | (r > 0x7c ? 0x7c : r));
}

/* The format has no infinity: beyond 448 (after rounding) it is NaN. */
static inline uint8_t to_e4m3(float f) {
  uint32_t u = bits_of_f32(f), mag = u & 0x7fffffff, sign = (u >> 24) & 0x80;
  uint32_t r = mag >= 0x7f800000 ? 0x7f : round_narrow(mag, 3, -6);
  return (uint8_t)(sign | (r > 0x7f ? 0x7f : r));
}

static void store_f32(void *dst, int64_t ds, const void *acc, int64_t n) {
  float *d = dst;
  const float *a = acc;
  for (int64_t j = 0; j < n; j++) d[j * ds] = a[j];
}

static void store_bf16(void *dst, int64_t ds, const void *acc, int64_t n) {
  uint16_t *d = dst;
  const float *a = acc;
  if (ds == 1) {
    for (int64_t j = 0; j < n; j++) d[j] = to_bf16(a[j]);
  } else {
    for (int64_t j = 0; j < n; j++) d[j * ds] = to_bf16(a[j]);
  }
}

static void store_f16(void *dst, int64_t ds, const void *acc, int64_t n) {
  uint16_t *d = dst;
  const float *a = acc;
  int64_t j = 0;
#if defined TS_ISA_avx512
  for (; ds == 1 && j + 16 <= n; j += 16) {
    __m256i h = _mm512_cvtps_ph(_mm512_loadu_ps(a + j), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256((void *)(d + j), h);
  }
#elif defined TS_ISA_avx2
  for (; ds == 1 && j + 8 <= n; j += 8) {
    __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(a + j), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((void *)(d + j), h);
  }
#endif
  for (; j < n; j++) d[j * ds] = to_f16(a[j]);
}

static void store_e4m3(void *dst, int64_t ds, const void *acc, int64_t n) {
  uint8_t *d = dst;
  const float *a = acc;
  for (int64_t j = 0; j < n; j++) d[j * ds] = to_e4m3(a[j]);
}

static void store_e5m2(void *dst, int64_t ds, const void *acc, int64_t n) {
  uint8_t *d = dst;
  const float *a = acc;
  for (int64_t j = 0; j < n; j++) d[j * ds] = to_e5m2(a[j]);
}

static void store_c64(void *dst, int64_t ds, const void *acc, int64_t n) {
  float *d = dst;
  const float *a = acc;
  for (int64_t j = 0; j < n; j++) {
    d[2 * j * ds] = a[2 * j];
    d[2 * j * ds + 1] = a[2 * j + 1];
  }
}

const TsGemmAcc TS_ISA(ts_gemm_f32) = {
    .nbytes = 4,
    .mr = MR,
    .nr = NR,
    .kc = 512,
    .tile = tile,
    .full = full,
    .pack_a = {[TS_GEMM_f32] = f32_pack,
               [TS_GEMM_bf16] = bf16_pack,
               [TS_GEMM_f16] = f16_pack,
               [TS_GEMM_e4m3] = e4m3_pack,
               [TS_GEMM_e5m2] = e5m2_pack,
               [TS_GEMM_c64] = complex_pack_a},
    .pack_b = {[TS_GEMM_f32] = f32_pack,
               [TS_GEMM_bf16] = bf16_pack,
               [TS_GEMM_f16] = f16_pack,
               [TS_GEMM_e4m3] = e4m3_pack,
               [TS_GEMM_e5m2] = e5m2_pack,
               [TS_GEMM_c64] = complex_pack_b},
    .skinny_rows = {[TS_GEMM_f32] = f32_rows,
                    [TS_GEMM_bf16] = bf16_rows,
                    [TS_GEMM_f16] = f16_rows,
                    [TS_GEMM_e4m3] = e4m3_rows,
                    [TS_GEMM_e5m2] = e5m2_rows},
    .skinny_dots = {[TS_GEMM_f32] = f32_dots,
                    [TS_GEMM_bf16] = bf16_dots,
                    [TS_GEMM_f16] = f16_dots,
                    [TS_GEMM_e4m3] = e4m3_dots,
                    [TS_GEMM_e5m2] = e5m2_dots},
    .store = {[TS_GEMM_f32] = store_f32,
              [TS_GEMM_bf16] = store_bf16,
              [TS_GEMM_f16] = store_f16,
              [TS_GEMM_e4m3] = store_e4m3,
              [TS_GEMM_e5m2] = store_e5m2,
              [TS_GEMM_c64] = store_c64},
    .bias = add_bias,
};
