/* The table of pointwise float kernels; the kernels are in vm/kernels/pointwise/f32.c and
 * vm/kernels/pointwise/f64.c. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/pointwise/pointwise.h"

void TS_ISA(ts_kernels_pointwise)(TsPointwiseKernels *k) {
  TS_ISA(ts_pointwise_fill_f32)(k->f32);
  TS_ISA(ts_pointwise_fill_f64)(k->f64);
#if defined TS_ISA_avx512 || defined TS_ISA_avx2
  k->past = true;
#else
  k->past = false;
#endif
}
