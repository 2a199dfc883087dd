/* The f64 table: inputs f64 and complex128, which is a real product of twice the
 * width and depth (vm/kernels/gemm/complex.inc). */
#include "vm/kernels/gemm/simd_f64.h"
#include "vm/kernels/gemm/acc.h"
#include "vm/kernels/gemm/tile.inc"
#include "vm/kernels/gemm/round.inc"

/* As in vm/kernels/gemm/f32.c. */
#if defined TS_ISA_avx512
enum { WIDE1 = 8, WIDE2 = 4, WIDE4 = 4, WIDE6 = 4, WIDE8 = 3 };
#elif defined TS_ISA_avx2
enum { WIDE1 = 8, WIDE2 = 4, WIDE4 = 3, WIDE6 = 2, WIDE8 = 0 };
#else
enum { WIDE1 = 4, WIDE2 = 4, WIDE4 = 3, WIDE6 = 2, WIDE8 = 0 };
#endif
enum { PREFETCH_DOTS = 512 };
#include "vm/kernels/gemm/skinny_way.inc"

#define ELEM     double
#define FN(name) f64_##name
#include "vm/kernels/gemm/pack.inc"
#include "vm/kernels/gemm/first.inc"
#include "vm/kernels/gemm/skinny.inc"

#include "vm/kernels/gemm/complex.inc"

static void store_f64(void *dst, int64_t ds, const void *acc, int64_t n) {
  double *d = dst;
  const double *a = acc;
  for (int64_t j = 0; j < n; j++) d[j * ds] = a[j];
}

static void store_c128(void *dst, int64_t ds, const void *acc, int64_t n) {
  double *d = dst;
  const double *a = acc;
  for (int64_t j = 0; j < n; j++) {
    d[2 * j * ds] = a[2 * j];
    d[2 * j * ds + 1] = a[2 * j + 1];
  }
}

#if defined TS_ISA_avx2
enum { KC = 512 };
#else
enum { KC = 256 };
#endif

const TsGemmAcc TS_ISA(ts_gemm_f64) = {
    .nbytes = 8,
    .mr = MR,
    .nr = NR,
    .kc = KC,
    .round_mr = RM,
    .round_nr = RN,
    .round_transposed = TRANSPOSED_STAYS,
    .round = round_tile,
    .round_first = {[TS_GEMM_f64] = f64_first},
    .tile = tile,
    .full = full,
    .pack_a = {[TS_GEMM_f64] = f64_pack, [TS_GEMM_c128] = complex_pack_a},
    .pack_b = {[TS_GEMM_f64] = f64_pack, [TS_GEMM_c128] = complex_pack_b},
    .skinny_rows = {[TS_GEMM_f64] = f64_rows},
    .skinny_dots = {[TS_GEMM_f64] = f64_dots},
    .store = {[TS_GEMM_f64] = store_f64, [TS_GEMM_c128] = store_c128},
    .bias = add_bias,
};
