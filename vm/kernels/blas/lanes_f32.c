/* Small matrices side by side in f32. */
#include "vm/kernels/blas/scale_f32.h"
#include "vm/kernels/blas/table.h"
#include "vm/kernels/simd/f32.h"

#define LANES(name) TS_ISA(ts_blas_lanes_##name##_f32)
/* Of the roots of the two beside it on the diagonal: an element that is none. */
#define NEGLIGIBLE 0x1p-25
#include "vm/kernels/blas/lanes.inc"
#include "vm/kernels/blas/lanes_orthogonal.inc"
