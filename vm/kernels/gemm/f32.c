/* The f32 table: inputs f32, bf16, f16, fp8 and complex64, which is a real
 * product of twice the width and depth (vm/kernels/gemm/complex.inc). */
#include "vm/kernels/gemm/simd_f32.h"
#include "vm/kernels/gemm/acc.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/gemm/tile.inc"
#include "vm/kernels/gemm/round.inc"

/* Vectors of columns that a skinny product takes at once for 1, 2, 4, 6, 8 rows (0: twice 4), its
 * steps of k, and how many bytes ahead its columns are prefetched. */
#if defined TS_ISA_avx512
enum { WIDE1 = 8, WIDE2 = 4, WIDE4 = 4, WIDE6 = 4, WIDE8 = 3 };
#elif defined TS_ISA_avx2
enum { WIDE1 = 4, WIDE2 = 4, WIDE4 = 3, WIDE6 = 2, WIDE8 = 0 };
#else
enum { WIDE1 = 4, WIDE2 = 4, WIDE4 = 3, WIDE6 = 2, WIDE8 = 0 };
#endif
enum { PREFETCH_DOTS = 512 };
#include "vm/kernels/gemm/skinny_way.inc"

#define ELEM     float
#define FN(name) f32_##name
#include "vm/kernels/gemm/pack.inc"
#include "vm/kernels/gemm/first.inc"
#include "vm/kernels/gemm/skinny.inc"

#define ELEM     uint16_t
#define FN(name) bf16_##name
#include "vm/kernels/gemm/pack.inc"
#include "vm/kernels/gemm/first.inc"
#include "vm/kernels/gemm/skinny.inc"

#define ELEM     uint16_t
#define FN(name) f16_##name
#include "vm/kernels/gemm/pack.inc"
#include "vm/kernels/gemm/first.inc"
#include "vm/kernels/gemm/skinny.inc"

#define ELEM     uint8_t
#define FN(name) e4m3_##name
#include "vm/kernels/gemm/pack.inc"
#include "vm/kernels/gemm/first.inc"
#include "vm/kernels/gemm/skinny.inc"

#define ELEM     uint8_t
#define FN(name) e5m2_##name
#include "vm/kernels/gemm/pack.inc"
#include "vm/kernels/gemm/first.inc"
#include "vm/kernels/gemm/skinny.inc"

#include "vm/kernels/gemm/complex.inc"

/* ---- results are rounded as conversions are: once, to nearest even */
static void store_f32(void *dst, int64_t ds, const void *acc, int64_t n) {
  float *d = dst;
  const float *a = acc;
  for (int64_t j = 0; j < n; j++) d[j * ds] = a[j];
}

static void store_bf16(void *dst, int64_t ds, const void *acc, int64_t n) {
  uint16_t *d = dst;
  const float *a = acc;
  if (ds == 1) {
    for (int64_t j = 0; j < n; j++) d[j] = bf16_of_f32(a[j]);
  } else {
    for (int64_t j = 0; j < n; j++) d[j * ds] = bf16_of_f32(a[j]);
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
  for (; j < n; j++) d[j * ds] = f16_of_f32(a[j]);
}

static void store_e4m3(void *dst, int64_t ds, const void *acc, int64_t n) {
  uint8_t *d = dst;
  const float *a = acc;
  for (int64_t j = 0; j < n; j++) d[j * ds] = e4m3_of_f32(a[j]);
}

static void store_e5m2(void *dst, int64_t ds, const void *acc, int64_t n) {
  uint8_t *d = dst;
  const float *a = acc;
  for (int64_t j = 0; j < n; j++) d[j * ds] = e5m2_of_f32(a[j]);
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
    .round_mr = RM,
    .round_nr = RN,
    .round_transposed = TRANSPOSED_STAYS,
    .round = round_tile,
    .round_first = {[TS_GEMM_f32] = f32_first,
                    [TS_GEMM_bf16] = bf16_first,
                    [TS_GEMM_f16] = f16_first,
                    [TS_GEMM_e4m3] = e4m3_first,
                    [TS_GEMM_e5m2] = e5m2_first},
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
