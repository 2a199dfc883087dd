/* Kernels of the matrix product, one table for each accumulate type. The driver
 * vm/gemm/gemm.c does the blocking and the threads; a kernel is single threaded.
 * Every element is one chain acc = fma(a[k], b[k], acc), k ascending from +0.0
 * (integers: wrapping multiply and add), whatever kernel computes it. */
#ifndef TS_VM_KERNELS_GEMM_H
#define TS_VM_KERNELS_GEMM_H

#include <stdbool.h>
#include <stdint.h>

/* Element types of a product's operands and of its result. */
typedef enum TsGemmType {
  TS_GEMM_f32,
  TS_GEMM_f64,
  TS_GEMM_bf16,
  TS_GEMM_f16,
  TS_GEMM_e4m3,
  TS_GEMM_e5m2,
  TS_GEMM_i8,
  TS_GEMM_u8,
  TS_GEMM_i16,
  TS_GEMM_i32,
  TS_GEMM_i64,
  TS_GEMM_c64,
  TS_GEMM_c128,
  TS_GEMM_COUNT
} TsGemmType;

/* One tile: c[i*crs + j] for i < rows, j < cols. The chains go on from the
 * values in c if resume, else from zero. a[i*ars + k*acs], b[k*brs + j]. */
typedef void TsGemmTile(int rows, int cols, int64_t nk, const void *a, int64_t ars, int64_t acs,
                        const void *b, int64_t brs, void *c, int64_t crs, bool resume);

/* A tile of a round: rows of A where they lie (a[i*ars + k*acs]) or packed, against a panel of
 * B, [k][round_nr]. rows <= round_mr, cols <= round_nr. */
typedef void TsGemmRound(int rows, int cols, int64_t nk, const void *a, int64_t ars,
                         int64_t acs, const void *b, void *c, int64_t crs, bool resume);

/* A full tile whose B lies at b[k*ldb + j]; it leaves the panel packed behind. ars or acs is
 * 1. */
typedef void TsGemmFirst(int64_t nk, const void *a, int64_t ars, int64_t acs, const void *b,
                         int64_t ldb, void *panel, void *c, int64_t crs, bool resume);

/* Packs one panel: dst[k*width + i] = src[i*is + k*ks] widened to the accumulate
 * type, i < n; zeros for n <= i < width. width is the table's mr or nr. */
typedef void TsGemmPack(void *dst, int width, const void *src, int64_t is, int64_t ks,
                        int64_t n, int64_t nk);

/* Few rows against a B that stays where it is: c[i*crs + j], i < rows, j < n. a is
 * packed in groups of width = ts_gemm_skinny_width(rows) rows, each [k][width], zero
 * padded. skinny_rows takes b[k*ld + j] and at most TS_GEMM_SKINNY rows,
 * skinny_dots b[j*ld + k] and at most 8. */
typedef void TsGemmSkinny(int rows, int64_t n, int64_t nk, const void *a, const void *b,
                          int64_t ld, void *c, int64_t crs, bool resume);

/* Rounds n accumulators to the result type, dst[j*ds] = acc[j]. */
typedef void TsGemmStore(void *dst, int64_t ds, const void *acc, int64_t n);

typedef struct TsGemmAcc {
  int nbytes;       /* of one accumulator; a complex one is two of them */
  int mr, nr;       /* rows and columns of a full tile; nr is even */
  int kc;           /* steps of k in one packed block, even */
  TsGemmTile *tile; /* any rows <= mr, cols <= nr, strides of a and b */
  TsGemmTile *full; /* mr x nr with packed panels: ars = 1, acs = mr, brs = nr */
  int round_mr, round_nr;
  bool round_transposed; /* rows of A that lie side by side are best read where they lie */
  TsGemmRound *round;
  TsGemmFirst *round_first[TS_GEMM_COUNT]; /* by operand type; NULL: pack it first */
  TsGemmPack *pack_a[TS_GEMM_COUNT], *pack_b[TS_GEMM_COUNT]; /* by operand type */
  TsGemmSkinny *skinny_rows[TS_GEMM_COUNT]; /* by operand type; NULL: pack it */
  TsGemmSkinny *skinny_dots[TS_GEMM_COUNT];
  TsGemmStore *store[TS_GEMM_COUNT]; /* by result type */
  /* acc[j] += bias[j*stride], for n columns of `parts` numbers each */
  void (*bias)(void *acc, const void *bias, int64_t stride, int64_t n, int parts);
} TsGemmAcc;

typedef struct TsGemmKernels {
  const TsGemmAcc *f32, *f64, *i32, *i64;
} TsGemmKernels;

enum { TS_GEMM_SKINNY = 16 }; /* most rows of a skinny product */

static inline int ts_gemm_skinny_width(int64_t rows) {
  static const int8_t width[TS_GEMM_SKINNY + 1] = {1, 1, 2, 4, 4, 6, 6, 8, 8,
                                                   6, 6, 6, 6, 8, 8, 8, 8};
  return width[rows < 0 ? 0 : rows < TS_GEMM_SKINNY ? rows : TS_GEMM_SKINNY];
}

void ts_kernels_gemm_avx512(TsGemmKernels *k);
void ts_kernels_gemm_avx2(TsGemmKernels *k);
void ts_kernels_gemm_base(TsGemmKernels *k);

#endif
