/* The table of Fourier kernels of one instruction set; the code is in vm/kernels/fft/body.h. */
#include "vm/kernels/fft/fft.h"
#include "vm/kernels/simd/isa.h"

void TS_ISA(ts_kernels_fft)(TsFftKernels *k) {
  TS_ISA(ts_kernels_fft_f32)(&k->type[0]);
  TS_ISA(ts_kernels_fft_f64)(&k->type[1]);
}
