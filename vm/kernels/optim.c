/* The table of optimiser passes; the passes: optim.inc. */
#include "vm/kernels/optim.h"
#include "vm/kernels/simd/isa.h"

void TS_ISA(ts_kernels_optim)(TsOptimKernels *k) {
  k->sgd[0] = TS_ISA(ts_optim_sgd_f32), k->sgd[1] = TS_ISA(ts_optim_sgd_f64);
  k->adam[0] = TS_ISA(ts_optim_adam_f32), k->adam[1] = TS_ISA(ts_optim_adam_f64);
  k->lion[0] = TS_ISA(ts_optim_lion_f32), k->lion[1] = TS_ISA(ts_optim_lion_f64);
}
