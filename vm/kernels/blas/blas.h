/* What BLAS needs beside the matrix product, for one instruction set. Every element is one chain of
 * fma in an order that follows from the sizes alone, complex ones by parts as in
 * vm/kernels/gemm/gemm.h. */
#ifndef TS_VM_KERNELS_BLAS_H
#define TS_VM_KERNELS_BLAS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum TsBlasType {
  TS_BLAS_f32,
  TS_BLAS_f64,
  TS_BLAS_c64,
  TS_BLAS_c128,
  TS_BLAS_COUNT
} TsBlasType;

enum {
  TS_BLAS_BLOCK = 16,  /* rows of the largest triangle of a kernel */
  TS_BLAS_PANEL = 8,   /* columns of the widest panel of a kernel's LU */
  TS_BLAS_HALF = 32,   /* of the largest matrix of a kernel's Cholesky */
  TS_BLAS_REFLECT = 16 /* columns of the widest panel of a kernel's QR */
};

/* X = T^-1 X or X = T X, in place: a triangle t[i * TS_BLAS_BLOCK + j] of n rows against rows
 * x[i * ld + c], c < cols. unit: ones on the diagonal, which is not read; nor is the other half. */
typedef void TsBlasTriangle(int n, int64_t cols, const void *t, bool upper, bool unit, void *x,
                            int64_t ld);

/* A small product: c[i * crs + j] += (alpha a[i * ars + k * acs]) b[k * brs + j * bcs], without
 * packing, k ascending. conj: the complex conjugate of the operand's elements. */
typedef struct TsBlasSmall {
  int m, n, k;
  const void *alpha, *a, *b;
  void *c;
  int64_t ars, acs, brs, bcs, crs;
  bool a_conj, b_conj;
} TsBlasSmall;
typedef void TsBlasSmallFn(const TsBlasSmall *p);

/* LU with row pivoting of m x n, n <= TS_BLAS_PANEL, columns lda apart. pivot[j] is the row, from 0
 * on, that j changed places with. Gives 1 + the first column whose pivot is 0, or 0. */
typedef int64_t TsBlasLu(int64_t m, int n, void *a, int64_t lda, int *pivot);

/* The lower half of a = l l' in place, and anything above it, n <= TS_BLAS_HALF, columns lda apart.
 * Gives 1 + the first column whose pivot is not above 0, or 0. */
typedef int64_t TsBlasCholesky(int n, void *a, int64_t lda);

/* QR of a real m x n, n <= TS_BLAS_REFLECT, n <= m, columns lda apart: r on and above its diagonal
 * (below it anything), v, m x n, with 1 on its diagonal and 0 above, and the upper triangle t, with
 * 0 below, so that (1 + v t v') r, r with 0 below, is what a was. */
typedef void TsBlasReflect(int64_t m, int n, void *a, int64_t lda, void *v, int64_t ldv,
                           void *t, int64_t ldt);

/* That t of such vectors v and their tau. */
typedef void TsBlasJoin(int64_t m, int n, const void *tau, const void *v, int64_t ldv, void *t,
                        int64_t ldt);

/* One column a of m rows: v, behind a 1, and tau, so that (1 - tau v v') a is a[0], as it is left,
 * and 0; a[1..] is not written. */
typedef void TsBlasReflectOne(int64_t m, void *a, void *v, void *tau);
/* out[c] = sum of v[i] x[c * ld + i], i < m, of n columns. */
typedef void TsBlasDots(int n, int64_t m, const void *v, const void *x, int64_t ld, void *out);
/* y -= x f, m rows, n columns. */
typedef void TsBlasTakeColumns(int n, int64_t m, const void *f, const void *x, int64_t ld,
                               void *y);
/* y += what n columns, from the diagonal down to row m, and their mirror image give of a v. */
typedef void TsBlasSymmetric(int64_t m, int64_t n, const void *a, int64_t lda, const void *v,
                             void *y);

/* Eigenvalue i, ascending from 0 on, of the diagonal matrix d, ascending, and rho z z', where z has
 * length 1: into x, and its distance from each d into delta; of n = 2 its eigenvector instead, of n
 * = 1 a 1, as LAPACK has it. Gives 0, or 1 where there is none. */
typedef int TsBlasSecular(int n, int i, const void *d, const void *z, const void *rho,
                          void *delta, void *x);

typedef struct TsBlasColumns {
  TsBlasReflect *reflect;
  TsBlasJoin *join;
  TsBlasReflectOne *reflect_one;
  TsBlasDots *dots;
  TsBlasTakeColumns *take_columns;
  TsBlasSymmetric *symmetric;
  TsBlasSecular *secular;
} TsBlasColumns;

/* to[i] = alpha from[i], or alpha conj(from[i]). */
typedef void TsBlasScaled(int64_t n, void *to, const void *from, bool conj, const void *alpha);

/* Small real matrices by row, TS_BLAS_GROUP_BYTES of each of their numbers side by side, a matrix
 * in every lane: a of m x n, b of n x k. What a lane holds afterwards is its own. */
enum {
  TS_BLAS_GROUP_BYTES = 64,
  TS_BLAS_LANES_MOST = 32, /* rows, columns */
  TS_BLAS_LANES_QR = 16,   /* the lesser of them, of QR */
  TS_BLAS_LANES_EIGH =
      8 /* of matrices with eigenvalues: sweeps grow faster than steps of LAPACK */
};
typedef struct TsBlasLanes {
  int m, n, k;
  bool upper, transposed, unit;
  void *a, *b;
  void *pivot; /* [m] or what the kernel says: rows as numbers of the type */
  void *lost;  /* 1 + the first column whose pivot is not what it must be, or 0 */
} TsBlasLanes;
typedef void TsBlasLanesFn(const TsBlasLanes *p);

typedef struct TsBlasLanesKernels {
  TsBlasLanesFn *lu;       /* a becomes its factors, as TsBlasLu's */
  TsBlasLanesFn *solve;    /* that, and b = a^-1 b; of a lost matrix anything */
  TsBlasLanesFn *triangle; /* b = a^-1 b of half of a */
  TsBlasLanesFn *cholesky; /* the other half becomes 0 */
  TsBlasLanesFn *qr;       /* b, m x k, becomes q, of a the first k rows r */
  TsBlasLanesFn *eigh; /* of the lower half; b, n x n, becomes the vectors, pivot the values */
} TsBlasLanesKernels;

typedef struct TsBlasKernels {
  TsBlasScaled *scaled[TS_BLAS_COUNT];
  TsBlasLu *lu[TS_BLAS_COUNT];
  TsBlasCholesky *cholesky[TS_BLAS_COUNT];
  TsBlasTriangle *solve[TS_BLAS_COUNT], *multiply[TS_BLAS_COUNT];
  TsBlasSmallFn *small[TS_BLAS_COUNT];
  TsBlasColumns columns[TS_BLAS_c64]; /* of real types */
  TsBlasLanesKernels lanes[TS_BLAS_c64];
} TsBlasKernels;

void ts_kernels_blas_avx512(TsBlasKernels *k);
void ts_kernels_blas_avx2(TsBlasKernels *k);
void ts_kernels_blas_base(TsBlasKernels *k);

#endif
