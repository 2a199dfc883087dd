/* One pass of an optimiser's step over n numbers. What each computes stands in
 * vm/exec/optim.c. Outputs may be the inputs of their own kind exactly. */
#ifndef TS_VM_KERNELS_OPTIM_H
#define TS_VM_KERNELS_OPTIM_H

#include <stdint.h>

/* Constants of a step, already reduced to what the loop needs. */
typedef struct TsOptimStep {
  double lr;                         /* adam: over the first moment's correction */
  double decay;                      /* weight decay; adam decoupled: the factor of p */
  double beta1, rest1, beta2, rest2; /* rest: 1 - beta; sgd: momentum, 1 - dampening */
  double eps, correction;            /* adam: factor of the second moment's root */
  int nesterov, first, decoupled;
} TsOptimStep;

/* in: p g m v; out: p m v, as far as the optimiser has them. sgd without momentum has
 * no m in out, and at the first step none in in. */
typedef void TsOptimFn(int64_t n, void *const *out, const void *const *in,
                       const TsOptimStep *s);

typedef struct TsOptimKernels {
  TsOptimFn *sgd[2], *adam[2], *lion[2]; /* f32, f64 */
} TsOptimKernels;

void ts_kernels_optim_avx512(TsOptimKernels *k);
void ts_kernels_optim_avx2(TsOptimKernels *k);
void ts_kernels_optim_base(TsOptimKernels *k);

TsOptimFn ts_optim_sgd_f32_avx512, ts_optim_sgd_f32_avx2, ts_optim_sgd_f32_base;
TsOptimFn ts_optim_sgd_f64_avx512, ts_optim_sgd_f64_avx2, ts_optim_sgd_f64_base;
TsOptimFn ts_optim_adam_f32_avx512, ts_optim_adam_f32_avx2, ts_optim_adam_f32_base;
TsOptimFn ts_optim_adam_f64_avx512, ts_optim_adam_f64_avx2, ts_optim_adam_f64_base;
TsOptimFn ts_optim_lion_f32_avx512, ts_optim_lion_f32_avx2, ts_optim_lion_f32_base;
TsOptimFn ts_optim_lion_f64_avx512, ts_optim_lion_f64_avx2, ts_optim_lion_f64_base;

#endif
