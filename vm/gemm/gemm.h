/* Batched matrix product C[b] = A[b] B[b] on the CPU, in the canonical order of
 * the numerics contract: each element is one chain acc = fma(a[k], b[k], acc) for
 * k ascending from +0.0. Bits do not depend on threads, blocks, strides or CPU.
 *
 * Accumulate types: f32 for f32, bf16, f16, fp8; f64; i32 for integers, i64 if the
 * inputs or the result are i64 (both wrap); complex in its own parts, where
 * re adds ar*br, then -ai*bi, and im adds ar*bi, then ai*br. The result type is the
 * accumulate type, the input type, or another float (integer) type of its kind;
 * rounding is to nearest even, once. fp8_e4m3 saturates at 448. */
#ifndef TS_VM_GEMM_H
#define TS_VM_GEMM_H

#include <stddef.h>

#include "lib/dtype.h"
#include "vm/kernels/gemm/gemm.h"

/* Fills one packed panel from a matrix that exists only as a rule, as im2col's:
 *     dst[k*width + i] = X[i0 + i, k0 + k],  i < n, k < nk;  zero for n <= i < width
 * in the accumulate type, where i counts rows of A or columns of B. Called from any
 * thread, several times for the same elements. */
typedef void TsGemmFill(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                        int64_t k0, int64_t nk);

/* Called once for each finished piece of a row, columns [col, col + ncols), with
 * the accumulators after the bias; what it leaves there is rounded and stored. */
typedef void TsGemmFinish(void *arg, void *acc, int64_t batch, int64_t row, int64_t col,
                          int64_t ncols);

typedef struct TsGemm {
  TsGemmType in, out; /* of A and B; of C */
  int64_t batch, m, n, k;
  /* Strides count elements and may be zero or negative (not zero for C). The
   * batch arrays hold the offset of each matrix; NULL means zeros. */
  const void *a;
  int64_t a_rs, a_cs; /* m, k */
  const void *b;
  int64_t b_rs, b_cs; /* k, n */
  void *c;
  int64_t c_rs, c_cs; /* m, n */
  const int64_t *a_batch, *b_batch, *c_batch;
  TsGemmFill *fill_a, *fill_b; /* or NULL; not for complex */
  void *fill_a_arg, *fill_b_arg;
  const void *bias; /* [n] in the accumulate type (complex: in C's), or NULL */
  int64_t bias_stride;
  TsGemmFinish *finish; /* or NULL */
  void *finish_arg;
  bool
      resume; /* chains go on from what C holds: it has the accumulate type, and rows or columns
                  of elements side by side; no bias, no finish */
  bool alone; /* the caller's thread only, which may be one of several that multiply */
} TsGemm;

/* The matrices' type of a dtype that has products. */
static inline TsGemmType ts_gemm_type(TsDtype d) {
  static const TsGemmType type[TS_DT_COUNT] = {
      [TS_DT_f32] = TS_GEMM_f32,        [TS_DT_f64] = TS_GEMM_f64,
      [TS_DT_bf16] = TS_GEMM_bf16,      [TS_DT_f16] = TS_GEMM_f16,
      [TS_DT_fp8_e4m3] = TS_GEMM_e4m3,  [TS_DT_fp8_e5m2] = TS_GEMM_e5m2,
      [TS_DT_i8] = TS_GEMM_i8,          [TS_DT_u8] = TS_GEMM_u8,
      [TS_DT_i16] = TS_GEMM_i16,        [TS_DT_i32] = TS_GEMM_i32,
      [TS_DT_i64] = TS_GEMM_i64,        [TS_DT_complex64] = TS_GEMM_c64,
      [TS_DT_complex128] = TS_GEMM_c128};
  return type[d];
}

/* 0, -1 when out of memory (C is then untouched), or -2 for a pair of types that
 * has no product, or a C that cannot be gone on from. C must not overlap A or B. */
int ts_gemm(const TsGemm *g, const TsGemmKernels *k);

#endif
