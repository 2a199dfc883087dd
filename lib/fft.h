/* Fourier and cosine transforms as all who make them see them: which there are, what their
 * conventions multiply by, and plans, the tables of roots of a length. What a transform computes,
 * bit for bit, is defined in vm/kernels/fft/fft.h; plans are made in vm/fft/plan.c. */
#ifndef TS_LIB_FFT_H
#define TS_LIB_FFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TS_FFT_f32, TS_FFT_f64 };

/* c2c   complex to complex, out length n; inverse has the exponent's sign +
 * r2c   n reals to n/2 + 1 complex, sign -
 * c2r   n/2 + 1 complex to n reals, sign +; the imaginary parts of bin 0, and of bin n/2
 *       for even n, are ignored
 * dct2  y_k = 2 sum_j x_j cos(pi k (2j+1) / 2n)
 * dct3  y_j = x_0 + 2 sum_(k>0) x_k cos(pi k (2j+1) / 2n)
 * Each is as written (no 1/n), then times a scale; inverse only matters to c2c. */
enum { TS_FFT_c2c, TS_FFT_r2c, TS_FFT_c2r, TS_FFT_dct2, TS_FFT_dct3 };

/* forward puts 1/n on the transforms of sign - (and dct2), backward on those of sign + (and dct3;
 * 1/2n for both cosines); ortho makes each kind orthogonal. */
enum { TS_FFT_none, TS_FFT_ortho, TS_FFT_forward, TS_FFT_backward };

/* Of the words of an operator's attribute norm. */
int ts_fft_norm(int64_t word);
/* What a transform of length n is multiplied by, and besides coefficient 0 of dct2's output or of
 * dct3's input. */
typedef struct TsFftScale {
  double scale, dc;
} TsFftScale;
TsFftScale ts_fft_scale(int kind, bool inverse, int64_t n, int norm);

/* ---- plans */
enum {
  TS_FFT_ROW =
      128, /* bytes of a row of work memory: real parts, 64 bytes further imaginary ones */
  TS_FFT_LEAF = 64,  /* longest chain */
  TS_FFT_PRIME = 61, /* largest direct prime */
  TS_FFT_CHAIN = 6
};

/* A leaf of the plan. w[i]: roots of pass i, (re, im) for p = 1.. and j = 1..r-1 in
 * order; root[i]: for odd r, cos then sin of 2 pi k / r, k < r. */
typedef struct TsFftChain {
  int n, count;
  int radix[TS_FFT_CHAIN];
  const void *w[TS_FFT_CHAIN], *root[TS_FFT_CHAIN];
} TsFftChain;

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
  int refs, cached; /* of who keeps plans */
  uint64_t used;
} TsFftPlan;

#endif
