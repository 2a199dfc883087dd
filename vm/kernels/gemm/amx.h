/* Products of bf16 by Intel's matrix unit (AMX), for the profile "fast" (vm/gemm/amx.c). A sum's
 * order is the instruction's: for each 32 steps of k, in increasing k, one chain of fused
 * multiply-adds from +0.0 over the even steps and one over the odd ones, whose sum is added to
 * the element; denormals are zeros. So bits depend on nothing but the operands. */
#ifndef TS_VM_KERNELS_GEMM_AMX_H
#define TS_VM_KERNELS_GEMM_AMX_H

#include <stdbool.h>
#include <stdint.h>

enum {
  TS_AMX_ROWS = 32, /* of a block of sums: two by two registers of 16 x 16 */
  TS_AMX_COLS = 32,
  TS_AMX_STEPS = 32 /* of k that an instruction takes; a step is 64 bytes of a row */
};

/* Where the processor or the system has no such unit, or the set is another, all are NULL. */
typedef struct TsGemmAmxKernels {
  /* The thread's unit for blocks of this many rows, until `close`; while it is open, the thread
   * saves 8 KiB more when it is interrupted. */
  void (*open)(int rows);
  void (*close)(void);
  /* c[i * crs + j], i < rows of `open`, j < TS_AMX_COLS, over `steps` times TS_AMX_STEPS of k.
   * Row i of a's step s lies at a + i * ars + s * ats bytes; b is packed in pairs as by
   * TsGemmPairsKernels.pack, TS_AMX_COLS wide. */
  void (*block)(int rows, int64_t steps, const void *a, int64_t ars, int64_t ats,
                const uint32_t *b, float *c, int64_t crs, bool resume);
  /* Rows of a as step after step of TS_AMX_ROWS x 64 bytes: src[i * is + k * ks], i < n, k < nk;
   * zeros behind nk. */
  void (*pack_rows)(void *dst, const uint16_t *src, int64_t is, int64_t ks, int64_t n,
                    int64_t nk);
} TsGemmAmxKernels;

void ts_kernels_gemm_amx_avx512(TsGemmAmxKernels *k);
void ts_kernels_gemm_amx_avx2(TsGemmAmxKernels *k);
void ts_kernels_gemm_amx_base(TsGemmAmxKernels *k);

#endif
