/* Factors, triangles and small products in f32, and complex numbers of it. */
#include <string.h>

#include "vm/kernels/blas/scale_f32.h"
#include "vm/kernels/blas/table.h"
#include "vm/kernels/gemm/simd_f32.h"

#define EPSILON       0x1p-24f
#define FMA           __builtin_fmaf
#define ROOT          __builtin_sqrtf
#define REAL(name)    TS_ISA(ts_blas_##name##_f32)
#define COMPLEX(name) TS_ISA(ts_blas_##name##_c64)
#include "vm/kernels/blas/real.inc"
#include "vm/kernels/blas/complex.inc"
#include "vm/kernels/blas/reflect.inc"
#include "vm/kernels/blas/secular.inc"
