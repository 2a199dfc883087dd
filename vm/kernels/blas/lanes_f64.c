/* Small matrices side by side in f64. */
#include "vm/kernels/blas/table.h"
#include "vm/kernels/simd/f64.h"

#define LANES(name) TS_ISA(ts_blas_lanes_##name##_f64)
/* Of numbers whose squares stay in the range; see scale_of. */
#define SCALE_ABOVE 0x1p400
#define SCALE_BELOW 0x1p-400
#define SCALE_DOWN  0x1p-600
#define SCALE_UP    0x1p600
/* Of the roots of the two beside it on the diagonal: an element that is none. */
#define NEGLIGIBLE 0x1p-54
#include "vm/kernels/blas/lanes.inc"
#include "vm/kernels/blas/lanes_orthogonal.inc"
