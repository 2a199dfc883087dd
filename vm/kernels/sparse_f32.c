/* Products with sparse matrices in f32. */
#include "vm/kernels/sparse.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f32.h"

#define exports(name) TS_ISA(ts_sparse_##name##_f32)
#include "vm/kernels/sparse.inc"

void TS_ISA(ts_kernels_sparse)(TsSparseKernels *k) {
  k->row[0] = TS_ISA(ts_sparse_row_f32), k->row[1] = TS_ISA(ts_sparse_row_f64);
}
