/* Attention's row kernels in f32. */
#include "vm/kernels/attention/attention.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f32.h"

#include "vm/kernels/simd/lanes_f32.h"

#include "lib/elem/elem_f32.inc"

#define exports(name) TS_ISA(ts_attention_##name##_f32)

#include "vm/kernels/attention/attention.inc"
