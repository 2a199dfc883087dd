/* Optimiser passes in f64. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/optim.h"
#include "vm/kernels/simd/f64.h"

#define exports(name) TS_ISA(ts_optim_##name##_f64)
#include "vm/kernels/optim.inc"
