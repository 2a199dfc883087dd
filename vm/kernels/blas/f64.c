/* Factors, triangles and small products in f64, and complex numbers of it. */
#include <string.h>

#include "vm/kernels/blas/scale_f64.h"
#include "vm/kernels/blas/table.h"
#include "vm/kernels/gemm/simd_f64.h"

#define EPSILON       0x1p-53
#define FMA           __builtin_fma
#define ROOT          __builtin_sqrt
#define REAL(name)    TS_ISA(ts_blas_##name##_f64)
#define COMPLEX(name) TS_ISA(ts_blas_##name##_c128)
#include "vm/kernels/blas/real.inc"
#include "vm/kernels/blas/complex.inc"
#include "vm/kernels/blas/reflect.inc"
#include "vm/kernels/blas/secular.inc"
