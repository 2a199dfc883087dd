/* Transforms as steps, for operators that are made of them. */
#ifndef TS_IR_LOWER_FFT_FFT_H
#define TS_IR_LOWER_FFT_FFT_H

#include "ir/lower/fft/tile.h"
#include "ir/lower/steps.h"

/* The next step: f, of which kind, type, inverse, real, n and scale are set, along an axis
 * of row-major `in`, which has the sizes of a. `out` may be `in` where both have the same
 * sizes. */
void ts_fft_step(TsSteps *x, TsFftForm f, TsStepsAxis a, int in, int out);

#endif
