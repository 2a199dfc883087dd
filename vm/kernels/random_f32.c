/* Random f32: definitions from lib/elem/, loops from random_float.inc. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/random.h"
#include "vm/kernels/simd/f32.h"

#include "lib/elem/elem_f32.inc"

typedef uint32_t U;

FN V unit(I b) { return v_mul(v_from_int(i_shr(b, 8)), v_const(0x1p-24)); }
FN V above(I b) { return v_fma(v_from_int(i_shr(b, 1)), v_const(0x1p-31), v_const(0x1p-32)); }
FN V angle(I b) { return v_mul(v_from_int(i_sar(b, 8)), v_const(0x1.921fb54442d18p-22)); }

/* The least multiple of 2^-24 that is not below p: exact in f32, as unit() is. */
static T limit(double p) { return (T)(__builtin_ceil(p * 0x1p24) * 0x1p-24); }

#include "vm/kernels/random_float.inc"

void TS_ISA(ts_random_fill_f32)(TsRandomKernels *k) {
  k->uniform[0] = uniform;
  k->normal[0] = normal;
  k->dropout[0] = dropout;
}
