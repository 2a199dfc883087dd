/* Factorisations and systems of matrices in column-major order but where it says by row, of any
 * size, by halves: LAPACK's getrf, getrs, potrf and trtrs without its blocks, whose panels are made
 * of calls. They look for interrupts, and leave off half done. */
#ifndef TS_VM_BLAS_FACTOR_H
#define TS_VM_BLAS_FACTOR_H

#include "vm/core/kernels.h"

/* What all of them take. They give 0, -1 when out of memory, or 1 + the first column whose pivot is
 * not what it must be. */
typedef struct TsFactor {
  const TsKernels *k;
  TsBlasType type;
} TsFactor;

/* a = p l u, m x n: l below the diagonal, with ones on it, u above; pivot[i], i < min(m, n), is the
 * row, from 0 on, that changed places with i, also where it was left off. A pivot of 0 is passed
 * over. */
int64_t ts_factor_lu(TsFactor f, int64_t m, int64_t n, void *a, int64_t lda, int *pivot);
/* b = a^-1 b, n x cols by row, by these factors. */
int64_t ts_factor_lu_solve(TsFactor f, int64_t n, int64_t cols, const void *lu, int64_t lda,
                           const int *pivot, void *b, int64_t ldb);
/* a = l l', or with u' u where upper; the other half becomes anything. */
int64_t ts_factor_cholesky(TsFactor f, bool upper, int64_t n, void *a, int64_t lda);
/* b = t^-1 b, or t'^-1 b without conjugates (transposed), of a triangle whose diagonal has no 0;
 * both by row. */
int64_t ts_factor_solve(TsFactor f, bool upper, bool transposed, bool unit, int64_t n,
                        int64_t cols, const void *t, int64_t ldt, void *b, int64_t ldb);
/* a = q r of a real m x n matrix by row, lda numbers a row: of a, r on and above the diagonal is
 * left; q, m x k by row, k from min(m, n) to m, has orthonormal columns. */
int64_t ts_factor_qr(TsFactor f, int64_t m, int64_t n, int64_t k, void *a, int64_t lda, void *q,
                     int64_t ldq);

/* A symmetric real matrix, by column, of which the lower half is read and lost, as q t q': d, n,
 * and e, n - 1, are t's diagonal and what is below it; the vectors v, n x (n - 1) by column, and
 * tau make q. */
int64_t ts_factor_tridiagonal(TsFactor f, int64_t n, void *a, int64_t lda, void *d, void *e,
                              void *v, int64_t ldv, void *tau);
/* z = q z, n x n by row. */
int64_t ts_factor_tridiagonal_back(TsFactor f, int64_t n, const void *v, int64_t ldv,
                                   const void *tau, void *z, int64_t ldz);

#endif
