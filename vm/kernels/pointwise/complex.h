/* Pointwise kernels of complex64 and complex128: rows of lib/ops/pointwise.def
 * whose TYPES contain C. */
#ifndef TS_VM_KERNELS_POINTWISE_COMPLEX_H
#define TS_VM_KERNELS_POINTWISE_COMPLEX_H

#include "lib/dtype.h"
#include "vm/kernels/pointwise/pointwise.h"

/* [dtype - TS_DT_complex64]. abs, real, imag and angle store the real type, tests
 * and comparisons bytes 0 or 1. NULL where the row is not for complex. */
typedef struct TsPointwiseComplexKernels {
  TsPointwiseFn *fn[2][TS_PW_COUNT];
} TsPointwiseComplexKernels;

void ts_kernels_pointwise_complex_avx512(TsPointwiseComplexKernels *k);
void ts_kernels_pointwise_complex_avx2(TsPointwiseComplexKernels *k);
void ts_kernels_pointwise_complex_base(TsPointwiseComplexKernels *k);

#endif
