/* Fills the matrix product's tables of this instruction set. */
#include "vm/kernels/gemm/acc.h"

void TS_ISA(ts_kernels_gemm)(TsGemmKernels *k);

void TS_ISA(ts_kernels_gemm)(TsGemmKernels *k) {
  k->f32 = &TS_ISA(ts_gemm_f32);
  k->f64 = &TS_ISA(ts_gemm_f64);
  k->i32 = &TS_ISA(ts_gemm_i32);
  k->i64 = &TS_ISA(ts_gemm_i64);
}
