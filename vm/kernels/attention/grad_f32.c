/* The gradients of attention in f32, between the products. */
#include "vm/kernels/attention/grad.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f32.h"

#include "vm/kernels/simd/lanes_f32.h"

#include "lib/elem/elem_f32.inc"

enum { INDEX = 0 };
#define exports(name) TS_ISA(ts_attention_grad_##name##_f32)

#include "vm/kernels/attention/grad.inc"
