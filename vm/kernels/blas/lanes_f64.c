/* Small matrices side by side in f64. */
#include "vm/kernels/blas/table.h"
#include "vm/kernels/simd/f64.h"

#define LANES(name) TS_ISA(ts_blas_lanes_##name##_f64)
#include "vm/kernels/blas/lanes.inc"
