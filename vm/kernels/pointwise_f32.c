/* The pointwise kernels of f32: definitions from lib/elem/, loops from
 * pointwise_float.inc. */
#include "vm/kernels/isa.h"
#include "vm/kernels/pointwise.h"
#include "vm/kernels/simd_f32.h"

#include "lib/elem/elem_f32.inc"

#include "vm/kernels/pointwise_float.inc"

void TS_ISA(ts_pointwise_fill_f32)(TsPointwiseFn **fn) { fill(fn); }
