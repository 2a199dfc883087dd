/* Names of the tables of one instruction set, for the files of the kernels. */
#ifndef TS_VM_KERNELS_GEMM_ACC_H
#define TS_VM_KERNELS_GEMM_ACC_H

#include "vm/kernels/gemm/gemm.h"
#include "vm/kernels/simd/isa.h"

extern const TsGemmAcc TS_ISA(ts_gemm_f32);
extern const TsGemmAcc TS_ISA(ts_gemm_f64);
extern const TsGemmAcc TS_ISA(ts_gemm_i32);
extern const TsGemmAcc TS_ISA(ts_gemm_i64);

#endif
