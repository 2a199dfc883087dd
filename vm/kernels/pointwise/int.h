/* Pointwise kernels of bool and the integer types: rows of lib/ops/pointwise.def
 * whose TYPES contain I (integers) or B (bool, stored as 0 or 1 in a byte). */
#ifndef TS_VM_KERNELS_POINTWISE_INT_H
#define TS_VM_KERNELS_POINTWISE_INT_H

#include "lib/dtype.h"
#include "vm/kernels/pointwise/pointwise.h"

/* Rows with a bool or compare rule store bytes 0 or 1, the others the type itself;
 * cond of where is such bytes. NULL where the row is not for the type. */
typedef struct TsPointwiseIntKernels {
  TsPointwiseFn *fn[TS_DT_i64 + 1][TS_PW_COUNT];
} TsPointwiseIntKernels;

void ts_kernels_pointwise_int_avx512(TsPointwiseIntKernels *k);
void ts_kernels_pointwise_int_avx2(TsPointwiseIntKernels *k);
void ts_kernels_pointwise_int_base(TsPointwiseIntKernels *k);

#endif
