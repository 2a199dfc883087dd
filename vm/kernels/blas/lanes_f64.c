/* Small matrices side by side in f64. */
#include "vm/kernels/blas/scale_f64.h"
#include "vm/kernels/blas/table.h"
#include "vm/kernels/simd/f64.h"

#define LANES(name) TS_ISA(ts_blas_lanes_##name##_f64)
/* Of the roots of the two beside it on the diagonal: an element that is none. */
#define NEGLIGIBLE 0x1p-54
#include "vm/kernels/blas/lanes.inc"
#include "vm/kernels/blas/lanes_orthogonal.inc"
