/* Fast Fourier transforms of any length, real and cosine transforms, in batches over
 * strided memory. What a transform computes, bit for bit, is defined in
 * vm/kernels/fft/fft.h; this header says how to ask for it. */
#ifndef TS_VM_FFT_H
#define TS_VM_FFT_H

#include "vm/kernels/fft/fft.h"

/* c2c   complex to complex, out length n; inverse has the exponent's sign +
 * r2c   n reals to n/2 + 1 complex, sign -
 * c2r   n/2 + 1 complex to n reals, sign +; the imaginary parts of bin 0, and of bin n/2
 *       for even n, are ignored
 * dct2  y_k = 2 sum_j x_j cos(pi k (2j+1) / 2n)
 * dct3  y_j = x_0 + 2 sum_(k>0) x_k cos(pi k (2j+1) / 2n)
 * Each is as written (no 1/n), then times scale; inverse only matters to c2c. */
enum { TS_FFT_c2c, TS_FFT_r2c, TS_FFT_c2r, TS_FFT_dct2, TS_FFT_dct3 };

enum { TS_FFT_none, TS_FFT_ortho, TS_FFT_forward, TS_FFT_backward };

enum { TS_FFT_ok = 0, TS_FFT_bad_argument = -1, TS_FFT_no_memory = -2 };

/* A batch of transforms of length n >= 1. Strides count elements of their own array
 * (complex or real ones). in_n elements are read along the axis (for c2r, bins): fewer
 * than the transform wants are continued by zeros, more are not looked at.
 * dc multiplies coefficient 0 of dct2's output or dct3's input in addition to scale.
 * out may be in when kind is c2c and all strides agree; else they must not overlap. */
typedef struct TsFft {
  int type, kind, inverse;
  double scale, dc;
  int64_t n, in_n;
  const void *in;
  void *out;
  int64_t in_stride, out_stride;
  int nouter;
  const int64_t *outer_dim, *in_outer_stride, *out_outer_stride;
} TsFft;

/* Transforms the batch on the threads of the pool and returns when it is done: TS_FFT_ok,
 * or a negative code and undefined output. Bits depend on type, kind, inverse, scale, dc,
 * n and the transform's own elements only. Plans are made on first use and cached. */
int ts_fft(const TsFft *f, const TsFftKernels *k);

/* Sets scale and dc for a convention. forward puts 1/n on the transforms of sign - (and
 * dct2), backward on those of sign + (and dct3; 1/2n for both cosines); ortho makes each
 * kind orthogonal. Needs type, kind, inverse and n. */
void ts_fft_normalise(TsFft *f, int norm);

/* Transform, product with a filter, transform back: the terms stay in the cache. The bits are
 * those of ts_fft, of the complex product (ar br - ai bi, ar bi + ai br) rounded at every
 * step, and of ts_fft again. */
typedef struct TsFftFilter {
  TsFft x;                /* c2c or r2c; out and its strides are the signal's that comes back */
  int norm;               /* of both ways; x.scale is not used */
  const void *h;          /* complex, the terms of a row contiguous */
  const int64_t *h_outer; /* a stride for each outer axis, 0 where rows share it */
} TsFftFilter;

int ts_fft_filter(const TsFftFilter *f, const TsFftKernels *k);

/* Frees all cached plans that no running transform uses. */
void ts_fft_clear(void);

#endif
