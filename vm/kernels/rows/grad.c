/* The table of kernels of vm/kernels/rows/grad.h. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/rows/grad.h"

void TS_ISA(ts_kernels_rows_grad)(TsRowsGradKernels *k) {
  TS_ISA(ts_rows_grad_fill_f32)(k);
  TS_ISA(ts_rows_grad_fill_f64)(k);
}
