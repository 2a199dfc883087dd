/* The table of reduction kernels of one instruction set. */
#include "vm/kernels/rows/reduce.h"
#include "vm/kernels/rows/reduce_fill.h"

void TS_ISA(ts_kernels_reduce)(TsReduceKernels *k) {
  TS_ISA(ts_reduce_fill_f32)(k);
  TS_ISA(ts_reduce_fill_f64)(k);
  TS_ISA(ts_reduce_fill_i64)(k);
}
