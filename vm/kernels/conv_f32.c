/* Direct convolution in f32. */
#include "vm/kernels/conv.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f32.h"

#define exports(name) TS_ISA(ts_conv_##name##_f32)
#include "vm/kernels/conv_direct.inc"
