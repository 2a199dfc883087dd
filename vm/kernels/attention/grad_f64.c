/* The gradients of attention in f64, between the products. */
#include "vm/kernels/attention/grad.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f64.h"

#include "vm/kernels/simd/lanes_f64.h"

#include "lib/elem/elem_f64.inc"

enum { INDEX = 1 };
#define exports(name) TS_ISA(ts_attention_grad_##name##_f64)

#include "vm/kernels/attention/grad.inc"
