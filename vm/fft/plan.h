/* Plans of Fourier transforms: the tree of a length, its tables of roots, a bounded cache
 * of them, and a small pool of work memory. Private to vm/fft/fft.c. */
#ifndef TS_VM_FFT_PLAN_H
#define TS_VM_FFT_PLAN_H

#include <stddef.h>

#include "vm/kernels/fft/fft.h"

/* A leaf has left NULL and a chain; a node has its twist table: output k1 of column t is
 * multiplied by w(n, k1*t), at twist + k1*step + t / LANES * 128 + t % LANES * size, the
 * imaginary part 64 bytes further. */
typedef struct TsFftNode {
  int64_t n, n1, n2, step;
  struct TsFftNode *left, *right;
  char *twist;
  TsFftChain chain;
} TsFftNode;

/* TREE: a transform of length n, direct (m = 0) or over a tree of length m (Bluestein).
 * ROOTS: the line w(n, k) for k <= n/2; QUARTER: w(4n, k) for k <= n/2. */
enum { TS_FFT_TREE, TS_FFT_ROOTS, TS_FFT_QUARTER };

typedef struct TsFftPlan {
  int type, what;
  int64_t n, m;
  TsFftNode *root;
  void *chirp, *kernel; /* lines of n and m */
  void *line;
  size_t nbytes;
  int refs, cached;
  uint64_t used;
} TsFftPlan;

/* NULL: no memory. Every take is paired with a give. */
TsFftPlan *ts_fft_plan_take(int type, int what, int64_t n, const TsFftKernels *k);
void ts_fft_plan_give(TsFftPlan *p);

#endif
