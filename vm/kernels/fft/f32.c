/* Fourier kernels for f32: the body with real = float. */
#define FFT_F64 0
#include "vm/kernels/fft/body.h"

void TS_ISA(ts_kernels_fft_f32)(TsFftReal *k) { fill(k); }
