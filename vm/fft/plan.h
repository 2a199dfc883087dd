/* Plans of Fourier transforms (lib/fft.h): how they are made, and a bounded cache of them.
 * Private to vm/fft/fft.c and who opens a context. */
#ifndef TS_VM_FFT_PLAN_H
#define TS_VM_FFT_PLAN_H

#include "vm/kernels/fft/fft.h"

/* NULL: no memory. Every take is paired with a give. */
TsFftPlan *ts_fft_plan_take(int type, int what, int64_t n, const TsFftKernels *k);
void ts_fft_plan_give(TsFftPlan *p);
/* From now on kernels of devices ask here for plans (ir/lower/fft/plans.h), whose tables k makes:
 * any instruction set's have the same bits. */
void ts_fft_plan_serve(const TsFftKernels *k);

#endif
