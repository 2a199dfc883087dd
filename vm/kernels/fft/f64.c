/* Fourier kernels for f64: the body with real = double. */
#define FFT_F64 1
#include "vm/kernels/fft/body.h"

void TS_ISA(ts_kernels_fft_f64)(TsFftReal *k) { fill(k); }
