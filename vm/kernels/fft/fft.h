/* The arithmetic of the Fourier transforms: what one instruction set must provide.
 * The driver (plans, threads, memory) is vm/fft/fft.c.
 *
 * The definition of a transform's bits
 * ------------------------------------
 * A transform of length n is one fixed dataflow, a function of n and the type alone.
 * Vector width, threads, place in the batch and memory layout choose only the order in
 * which independent butterflies run. A kernel for another machine that follows this
 * text gives the same bits. All roots are w(N,k) = exp(-2 pi i k / N), rounded once to
 * the type; every + - * below is one rounded operation, fma is fused; u means (ur, ui).
 *
 *   cmul(a, w) = ( fma(ar, wr, -(ai*wi)),  fma(ar, wi, ai*wr) )
 *
 * 1. Length n with all primes <= 61 ("direct"). A tree, made by plan_split in vm/fft/fft.c:
 *    - a leaf (n <= 64) is a chain of radices r1 r2 ... rk, n = r1*...*rk: powers of two
 *      as {2} {4} {8} {4,4} {8,4} {8,8}, then the odd primes in increasing order;
 *    - a node n = n1*n2 computes X[k1 + n1*k2] as: for each t < n2, the n1-point
 *      transform over x[a*n2 + t]; its output k1 becomes cmul(output, w(n, k1*t)), also
 *      where the root is 1; then for each k1 the n2-point transform over t gives k2.
 *    Pass i of a chain takes length N, with r = ri, m = N/r, and leaves r sequences of
 *    length m for the next pass: for each p < m the butterfly of x[p + m*j], j < r,
 *    gives y[j], and for p > 0 and j > 0 y[j] becomes cmul(y[j], w(N, p*j)).
 * 2. Butterflies, a[0..r) to y[0..r):
 *    r=2  y0 = a0+a1, y1 = a0-a1
 *    r=4  t0 = a0+a2, t1 = a0-a2, t2 = a1+a3, t3 = a1-a3; y0 = t0+t2, y2 = t0-t2,
 *         y1 = (t1r+t3i, t1i-t3r), y3 = (t1r-t3i, t1i+t3r)
 *    r=8  e = r4(a0,a2,a4,a6), o = r4(a1,a3,a5,a7), h = sqrt(1/2);
 *         y0 = e0+o0, y4 = e0-o0, y2 = (e2r+o2i, e2i-o2r), y6 = (e2r-o2i, e2i+o2r),
 *         s = o1r+o1i, d = o1i-o1r: y1 = (fma(h,s,e1r), fma(h,d,e1i)), y5 the same with -h,
 *         s = o3r+o3i, d = o3i-o3r: y3 = (fma(h,d,e3r), fma(-h,s,e3i)),
 *                                   y7 = (fma(-h,d,e3r), fma(h,s,e3i))
 *    odd  p_j = a_j + a_(r-j), d_j = a_j - a_(r-j), j = 1..(r-1)/2; y0 = ((a0+p1)+p2)+...
 *         c = a0, then c = fma(cos(2 pi jk/r), p_j, c) for j = 1, 2, ...
 *         e = sin(2 pi k/r)*d_1, then e = fma(sin(2 pi jk/r), d_j, e) for j = 2, 3, ...
 *         y_k = (cr+ei, ci-er), y_(r-k) = (cr-ei, ci+er)
 * 3. Other n (Bluestein): c_j = w(2n, j*j); a_j = cmul(x_j, c_j), zeros up to M (the
 *    smallest of 2^a, 3*2^a, 5*2^a, 9*2^a, 15*2^a that is >= 2n-1); A = direct(a);
 *    A_k = cmul(A_k, K_k) with K = transform of conj(c) wrapped, over M, made in f64 and
 *    rounded; the inverse transform of A; X_k = cmul(that, c_k).
 * 4. Inverse: exchange re and im of input and output. Scale: one multiply at the end.
 * 5. Real input, n even, h = n/2: Z = transform(h) of (x[2j], x[2j+1]);
 *    X_0 = (Z0r+Z0i, 0), X_h = (Z0r-Z0i, 0), X_(h/2) = conj Z_(h/2), and for the other
 *    pairs k < h-k = m: E = (.5*(Zkr+Zmr), .5*(Zki-Zmi)), O = (.5*(Zki+Zmi),
 *    .5*(Zmr-Zkr)), P = cmul(O, w(n,k)): X_k = E+P, X_m = (Er-Pr, Pi-Ei).
 *    n odd: the complex transform of (x, 0).
 * 6. Real output, n even: Z_0 = (X0r+Xhr, X0r-Xhr), Z_(h/2) = 2 conj X_(h/2), and
 *    E = (Xkr+Xmr, Xki-Xmi), G = (Xkr-Xmr, Xki+Xmi), P = cmul(G, conj w(n,k)):
 *    Z_k = (Er-Pi, Ei+Pr), Z_m = (Er+Pi, Pr-Ei); inverse transform(h), unpacked.
 *    n odd: X_(n-k) = conj X_k, im of X_0 as +0, inverse complex transform, real part.
 * 7. DCT-II: v[j] = x[2j], v[n-1-j] = x[2j+1], V by 5, P_k = cmul(V_k, w(4n,k)):
 *    y_0 = V0r * (2*scale*dc), y_k = Pr * (2*scale), y_(n-k) = -Pi * (2*scale).
 *    DCT-III: V_0 = (x_0*dc, 0), V_k = cmul((x_k, -x_(n-k)), conj w(4n,k)), v by 6,
 *    y[2j] = v[j], y[2j+1] = v[n-1-j].
 *
 * Plain butterflies were kept (no split radix, no Rader): each is short enough to be
 * written down above, and every step before the last is one pass over L1 or L2.
 *
 * Layout. Work buffers hold rows of 128 bytes: LANES real parts (64 bytes), then LANES
 * imaginary parts, LANES = 16 for f32 and 8 for f64, on every instruction set. A lane is
 * a transform of the batch, or a column of a transform cut as [n1][n2]. Strides and
 * offsets in this interface are bytes. Kernels know nothing of plans or threads. */
#ifndef TS_VM_KERNELS_FFT_H
#define TS_VM_KERNELS_FFT_H

#include "lib/fft.h"

enum { TS_FFT_LANES_MAX = 16 };

/* Roots that multiply output k of a node: at w + k*step the real part and 64 bytes
 * further the imaginary one; one value for all lanes or one each. w NULL: none. */
typedef struct TsFftTwist {
  const char *w;
  int64_t step;
  int each;
} TsFftTwist;

/* Strided memory of up to LANES transforms: element i of lane l at base + off[l] +
 * i*step. unit: the lanes are adjacent elements. Loads give 0 for i >= valid, and in
 * the lanes that are not there. */
typedef struct TsFftPort {
  char *base;
  int64_t off[TS_FFT_LANES_MAX];
  int64_t step, valid;
  int lanes, adjacent;
} TsFftPort;

/* The kernels for one type. Rows are work memory; lines are contiguous complex or real
 * arrays of the type with no alignment. */
typedef struct TsFftReal {
  void (*chain)(const TsFftChain *c, const void *x, int64_t xs, void *y, int64_t ys,
                const TsFftTwist *tw);
  /* Elements first, first + by, ... (count of them) to real rows at dst, pitch bytes
   * apart, or to complex rows; swap exchanges re and im. */
  void (*load_real)(const TsFftPort *p, int64_t first, int64_t by, int64_t count, void *dst,
                    int64_t pitch);
  void (*load_complex)(const TsFftPort *p, int64_t first, int64_t by, int64_t count, void *dst,
                       int swap);
  void (*store_real)(const TsFftPort *p, int64_t first, int64_t by, int64_t count,
                     const void *src, int64_t pitch, double scale);
  void (*store_complex)(const TsFftPort *p, int64_t first, int64_t by, int64_t count,
                        const void *src, int swap, double scale);
  /* LANES rows of x, transposed, to LANES rows of y. */
  void (*transpose)(const void *x, void *y);
  /* Products with complex constants: rows (one constant a row), or lines; y = x allowed.
   * swap_in exchanges re and im of x before, swap_out those of the result. */
  void (*mul_rows)(void *x, const void *w, int64_t n, int swap_in, int swap_out);
  void (*mul_line)(const void *x, const void *w, void *y, int64_t n, int swap_in, int swap_out,
                   double scale);
  /* Terms times a filter: x * scale rounded, then (ar br - ai bi, ar bi + ai br) rounded at
   * every step. h is a line, or rows where each lane has its own (each); of a line y = x h. */
  void (*filter_rows)(void *x, const void *h, int64_t n, int each, int swap_out, double scale);
  void (*filter_line)(void *x, const void *h, int64_t n);
  /* Half spectrum out of the packed transform (h + 1 out of h) and back. merge leaves re
   * and im exchanged, as the inverse transform wants them. */
  void (*split_rows)(void *z, const void *w, int64_t h);
  void (*split_line)(const void *z, const void *w, void *x, int64_t h, double scale);
  void (*merge_rows)(void *x, const void *w, int64_t h);
  void (*merge_line)(const void *x, const void *w, void *z, int64_t h);
  /* Cosine transforms: half spectrum v of length n to n reals, and back. */
  void (*dct2_rows)(const void *v, const void *w, void *y, int64_t n, double scale, double dc);
  void (*dct2_line)(const void *v, const void *w, void *y, int64_t n, double scale, double dc);
  void (*dct3_rows)(const void *x, const void *w, void *v, int64_t n, double dc);
  void (*dct3_line)(const void *x, const void *w, void *v, int64_t n, double dc);
} TsFftReal;

typedef struct TsFftKernels {
  TsFftReal type[2]; /* by TS_FFT_f32, TS_FFT_f64 */
} TsFftKernels;

void ts_kernels_fft_avx512(TsFftKernels *k);
void ts_kernels_fft_avx2(TsFftKernels *k);
void ts_kernels_fft_base(TsFftKernels *k);

/* The halves of the table, one file for each type. */
void ts_kernels_fft_f32_avx512(TsFftReal *k);
void ts_kernels_fft_f32_avx2(TsFftReal *k);
void ts_kernels_fft_f32_base(TsFftReal *k);
void ts_kernels_fft_f64_avx512(TsFftReal *k);
void ts_kernels_fft_f64_avx2(TsFftReal *k);
void ts_kernels_fft_f64_base(TsFftReal *k);

#endif
