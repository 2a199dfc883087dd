/* Small matrices side by side in f32. */
#include "vm/kernels/blas/table.h"
#include "vm/kernels/simd/f32.h"

#define LANES(name) TS_ISA(ts_blas_lanes_##name##_f32)
#include "vm/kernels/blas/lanes.inc"
