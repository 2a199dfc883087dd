/* Optimiser passes in f32. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/optim.h"
#include "vm/kernels/simd/f32.h"

#define exports(name) TS_ISA(ts_optim_##name##_f32)
#include "vm/kernels/optim.inc"
