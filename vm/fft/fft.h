/* Fast Fourier transforms of any length, real and cosine transforms, in batches over
 * strided memory. What a transform computes, bit for bit, is defined in
 * vm/kernels/fft/fft.h; this header says how to ask for it. */
#ifndef TS_VM_FFT_H
#define TS_VM_FFT_H

#include "vm/kernels/fft/fft.h"

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

/* Sets scale and dc for a convention. Needs type, kind, inverse and n. */
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
