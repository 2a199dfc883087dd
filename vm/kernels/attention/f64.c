/* Attention's row kernels in f64. */
#include "vm/kernels/attention/attention.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f64.h"

#include "vm/kernels/simd/lanes_f64.h"

#include "lib/elem/elem_f64.inc"

#define exports(name) TS_ISA(ts_attention_##name##_f64)

#include "vm/kernels/attention/attention.inc"
