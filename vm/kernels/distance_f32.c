/* Distances in f32. */
#include "vm/kernels/distance.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f32.h"

enum { LANES = 256 };

#define exports(name) TS_ISA(ts_distance_##name##_f32)
#include "vm/kernels/distance.inc"

void TS_ISA(ts_kernels_distance)(TsDistanceKernels *k) {
  k->from[0] = TS_ISA(ts_distance_from_f32), k->from[1] = TS_ISA(ts_distance_from_f64);
}
