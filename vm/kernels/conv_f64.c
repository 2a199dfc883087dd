/* Direct convolution in f64. */
#include "vm/kernels/conv.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f64.h"

#define exports(name) TS_ISA(ts_conv_##name##_f64)
#include "vm/kernels/conv_direct.inc"
