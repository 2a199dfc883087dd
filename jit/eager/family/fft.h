/* Transforms on a device, for operators that are made of them (jit/eager/family/fft.c). */
#ifndef TS_JIT_OFFLOAD_FFT_H
#define TS_JIT_OFFLOAD_FFT_H

#include "jit/eager/state.h"
#include "vm/fft/fft.h"

/* One transform c2c, r2c or c2r of row-major x along an axis into y: kind, type, inverse, n and
 * scale of f. 1, 0 or -1 as a family. */
int ts_offload_fft_along(TsOffloader *o, const TsCall *call, const TsFft *f, int axis,
                         TsTensor *x, TsTensor *y, int device);
/* w(4n, k) for k <= n/2, re and im: a tensor that the offloader keeps. NULL: out of memory. */
TsTensor *ts_offload_fft_quarter(TsOffloader *o, int type, int64_t n);

#endif
