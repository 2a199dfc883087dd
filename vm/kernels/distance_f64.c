/* Distances in f64. */
#include "vm/kernels/distance.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f64.h"

enum { LANES = 128 };

#define exports(name) TS_ISA(ts_distance_##name##_f64)
#include "vm/kernels/distance.inc"
