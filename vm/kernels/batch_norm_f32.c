/* Normalising by given statistics in f32. */
#include <stdbool.h>

#include "vm/kernels/batch_norm.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f32.h"

#define exports(name) TS_ISA(ts_batch_norm_##name##_f32)
#include "vm/kernels/batch_norm.inc"

void TS_ISA(ts_kernels_batch_norm)(TsBatchNormKernels *k) {
  k->rows[0] = TS_ISA(ts_batch_norm_rows_f32), k->rows[1] = TS_ISA(ts_batch_norm_rows_f64);
  k->columns[0] = TS_ISA(ts_batch_norm_columns_f32);
  k->columns[1] = TS_ISA(ts_batch_norm_columns_f64);
}
