/* Attention's row kernels in f64. */
#include "vm/kernels/attention.h"
#include "vm/kernels/isa.h"
#include "vm/kernels/simd_f64.h"

#include "vm/kernels/lanes_f64.h"

#include "lib/elem/elem_f64.inc"

#define exports(name) TS_ISA(ts_attention_##name##_f64)

#include "vm/kernels/attention.inc"
