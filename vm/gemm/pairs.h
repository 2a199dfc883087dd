/* Products of bf16 by pairs of steps, for the profile "fast" (vm/kernels/gemm/pairs.h). */
#ifndef TS_VM_GEMM_PAIRS_H
#define TS_VM_GEMM_PAIRS_H

#include "vm/gemm/gemm.h"
#include "vm/core/kernels.h"

bool ts_gemm_pairs_has(const TsKernels *k, TsGemmType in, TsGemmType out);
/* As ts_gemm, without fills and a bias. 0, or -1 when out of memory. */
int ts_gemm_pairs(const TsGemm *g, const TsKernels *k);

#endif
