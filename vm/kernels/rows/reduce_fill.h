/* The parts of TsReduceKernels, one file for each accumulator. */
#ifndef TS_VM_KERNELS_REDUCE_FILL_H
#define TS_VM_KERNELS_REDUCE_FILL_H

#include "vm/kernels/simd/isa.h"
#include "vm/kernels/rows/reduce.h"

void TS_ISA(ts_reduce_fill_f32)(TsReduceKernels *k);
void TS_ISA(ts_reduce_fill_f64)(TsReduceKernels *k);
void TS_ISA(ts_reduce_fill_i64)(TsReduceKernels *k);

#endif
