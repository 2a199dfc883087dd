/* Products with sparse matrices in f64. */
#include "vm/kernels/sparse.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f64.h"

#define exports(name) TS_ISA(ts_sparse_##name##_f64)
#include "vm/kernels/sparse.inc"
