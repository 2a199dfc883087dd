/* Products of bf16 by the instruction that takes two steps of k at once, for the profile
 * "fast" (vm/gemm/pairs.c). It flushes denormals and rounds in its own way, so its bits are not
 * those of the chain of multiply-adds; they depend on nothing but the operands either. */
#ifndef TS_VM_KERNELS_GEMM_PAIRS_H
#define TS_VM_KERNELS_GEMM_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

enum { TS_PAIRS_ROWS = 6, TS_PAIRS_COLS = 64 }; /* of a tile */

/* Where the processor has no such instruction, or the set is another, all are NULL. */
typedef struct TsGemmPairsKernels {
  /* dst[p * width + i] = the steps 2p (low half) and 2p + 1 of src[i * is + k * ks], i < n <=
   * width; zeros for the rest, and for a step nk that is odd. */
  void (*pack)(uint32_t *dst, int width, const uint16_t *src, int64_t is, int64_t ks, int64_t n,
               int64_t nk);
  /* c[i * TS_PAIRS_COLS + j] for i < rows, j < cols, rounded up to 16. Pairs of a lie at
   * a + i * ars + p * acs bytes, those of b at b[p * TS_PAIRS_COLS + j]. With a dst and cols a
   * multiple of 16 the sums go there as store() would put them, not to c, and the answer is true;
   * if it is false they are in c as well. */
  bool (*tile)(int rows, int cols, int64_t npair, const void *a, int64_t ars, int64_t acs,
               const uint32_t *b, float *c, bool resume, void *dst, int64_t drs);
  /* c[i * crs + j], i < rows <= TS_PAIRS_ROWS, j < n, a multiple of TS_PAIRS_COLS: B stays
   * where it is, b[k * ldb + j]. */
  void (*few)(int rows, int64_t n, int64_t nk, const void *a, int64_t ars, int64_t acs,
              const uint16_t *b, int64_t ldb, float *c, int64_t crs, bool resume);
  /* dst[i * drs + j] = c[i * crs + j] rounded to bf16, i < rows, j < n. False: there is a
   * number that takes longer (a NaN, a denormal), and nothing is promised of dst. */
  bool (*store)(int64_t rows, int64_t n, const float *c, int64_t crs, void *dst, int64_t drs);
} TsGemmPairsKernels;

void ts_kernels_gemm_pairs_avx512(TsGemmPairsKernels *k);
void ts_kernels_gemm_pairs_avx2(TsGemmPairsKernels *k);
void ts_kernels_gemm_pairs_base(TsGemmPairsKernels *k);

#endif
