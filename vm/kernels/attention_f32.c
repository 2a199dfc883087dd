/* Attention's row kernels in f32. */
#include "vm/kernels/attention.h"
#include "vm/kernels/isa.h"
#include "vm/kernels/simd_f32.h"

#include "vm/kernels/lanes_f32.h"

#include "lib/elem/elem_f32.inc"

#define exports(name) TS_ISA(ts_attention_##name##_f32)

#include "vm/kernels/attention.inc"
