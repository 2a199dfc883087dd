/* What the files of BLAS share. */
#ifndef TS_VM_BLAS_MATRIX_H
#define TS_VM_BLAS_MATRIX_H

#include "vm/blas/blas.h"

/* A matrix where it lies: strides in elements; conj: what is meant are its complex conjugates. */
typedef struct BlasMatrix {
  char *p;
  int64_t rs, cs;
  bool conj;
} BlasMatrix;

/* One call of a routine. */
typedef struct Blas {
  TsBlasType type;
  int size; /* bytes of an element */
  bool complex;
  const TsKernels *k;
  bool failed; /* no memory: nothing is computed any more */
} Blas;

extern const double blas_zero[2], blas_one[2],
    blas_minus_one[2]; /* zero: of all types; else of c128; see blas_number */

Blas blas_of(const TsKernels *k, TsBlasType type);

/* Those of the routine of LAPACK that runs on this thread. */
const TsKernels *blas_kernels(void);

/* Between the two a routine cannot be left by a jump; the second one leaves where one was due. */
Blas blas_begin(TsBlasType type);
void blas_end(const Blas *x);

/* Work memory, or NULL: then x->failed is set. ts_work_give frees it. */
void *blas_take(Blas *x, int64_t elements);

/* Whether a number of the call's type is re + 0i. */
bool blas_is(const Blas *x, const void *number, double re);
/* A complex number from (re, im) of f64 in the call's type, two words. */
const void *blas_number(const Blas *x, const double value[2], double space[2]);

static inline BlasMatrix blas_at(const Blas *x, BlasMatrix m, int64_t i, int64_t j) {
  m.p += (i * m.rs + j * m.cs) * x->size;
  return m;
}
/* In column-major order. */
static inline BlasMatrix blas_columns(const void *a, int64_t ld) {
  return (BlasMatrix){(char *)(uintptr_t)a, 1, ld, false};
}
static inline BlasMatrix blas_transposed(BlasMatrix m) {
  return (BlasMatrix){m.p, m.cs, m.rs, m.conj};
}
static inline BlasMatrix blas_adjoint(const Blas *x, BlasMatrix m) {
  return (BlasMatrix){m.p, m.cs, m.rs, x->complex && !m.conj};
}

/* to[i][j] = alpha from[i][j], or with conjugates; NULL is 1. */
void blas_copy(const Blas *x, int64_t m, int64_t n, BlasMatrix to, BlasMatrix from,
               const void *alpha);
/* c = beta c; 0 clears what is no number too. */
void blas_scale(const Blas *x, int64_t m, int64_t n, BlasMatrix c, const void *beta);
/* Part of a square matrix: one side of the diagonal, and the diagonal. */
void blas_copy_half(const Blas *x, int64_t n, bool upper, BlasMatrix to, BlasMatrix from);
void blas_scale_half(const Blas *x, int64_t n, bool upper, BlasMatrix c, const void *beta);

/* c += alpha a b, m x k and k x n. c has unit steps one way and overlaps neither. */
void blas_product(Blas *x, int64_t m, int64_t n, int64_t k, const void *alpha, BlasMatrix a,
                  BlasMatrix b, BlasMatrix c);

/* b = t^-1 b, or t b, where t is an n x n triangle: upper, with ones on the diagonal (unit). */
typedef struct BlasTriangle {
  BlasMatrix t;
  bool upper, unit, solve;
} BlasTriangle;
void blas_triangle(Blas *x, BlasTriangle t, int64_t n, int64_t cols, BlasMatrix b);

/* Half of c += alpha a b' (n x k each), and where b is not a, + conj(alpha) b a', where ' is
 * the adjoint; of complex numbers the diagonal stays real. */
void blas_rank(Blas *x, bool upper, int64_t n, int64_t k, const void *alpha, BlasMatrix a,
               BlasMatrix b, BlasMatrix c);
/* The lower half of c += a b', n x k each, and near the diagonal the upper one as it comes. */
void blas_lower_product(Blas *x, int64_t n, int64_t k, BlasMatrix a, BlasMatrix b,
                        BlasMatrix c);
/* y += a v, where a is symmetric (Hermitian) and half of it is read; y, v: unit steps. */
void blas_symmetric(Blas *x, bool upper, int64_t n, BlasMatrix a, BlasMatrix v, BlasMatrix y);

#endif
