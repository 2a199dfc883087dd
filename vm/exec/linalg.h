/* What the files of dense linear algebra share: one call over a batch of matrices. */
#ifndef TS_VM_EXEC_LINALG_H
#define TS_VM_EXEC_LINALG_H

#include <setjmp.h>

#include "vm/blas/lanes.h"
#include "vm/core/call.h"

/* One call: operands in the working type, and workspace that grows as asked. */
typedef struct Linalg {
  TsCall *call;
  TsDtype d;
  int es, rs; /* bytes of an element, of its real part */
  bool complex;
  TsTensor *a, *b;
  void *block[8]; /* workspaces, freed at the end */
  int nblock;
  bool failed;
  TsFactor f;
  sigjmp_buf out; /* where an interrupt leaves to */
} Linalg;

/* The body of a handler, which an interrupt leaves. */
int linalg_run(TsCall *call, int (*body)(Linalg *w));
/* Workspace until the end of the call, or NULL: then w->failed is set. */
void *linalg_take(Linalg *w, int64_t nbytes);
/* Whether a factorisation had no memory, which is told; else its info. */
bool linalg_lost(Linalg *w, int64_t got, int *info);

static inline int64_t rows_of(const TsTensor *t) { return t->meta.dim[t->meta.ndim - 2]; }
static inline int64_t cols_of(const TsTensor *t) { return t->meta.dim[t->meta.ndim - 1]; }

/* Number of matrices in the leading axes of t but its last n. */
static inline int64_t count_of(const TsTensor *t, int n) {
  int64_t count = 1;
  for (int i = 0; i < t->meta.ndim - n; i++) count *= t->meta.dim[i];
  return count;
}

/* Matrix i of a broadcast batch: index in x of the matrix that meets output i; nx, ny: the axes of
 * a matrix. */
int64_t linalg_meets(const TsTensor *x, int nx, const TsTensor *y, int ny, int64_t i);
/* Matrix i of an operand. */
const char *linalg_matrix(const Linalg *w, const TsTensor *t, int64_t i, int64_t rows,
                          int64_t cols);
/* dst[j * rows + i] = src[i * cols + j]: between row-major and column-major. */
void linalg_flip(const Linalg *w, int64_t rows, int64_t cols, void *dst, const void *src);
/* n numbers of type d into an output from element `at` on, rounded to its dtype. */
void linalg_put(const Linalg *w, TsTensor *y, int64_t at, int64_t n, const void *from,
                TsDtype d);
/* Where a result by row is made: matrix i of an output of the working type, else memory of its own,
 * which is put into it when it is done. */
void *linalg_own(Linalg *w, const TsTensor *y, int64_t numbers);
void *linalg_place(const Linalg *w, const TsTensor *y, int64_t i, int64_t numbers, void *own);
/* A column-major result into matrix i of an output. */
void linalg_put_matrix(Linalg *w, TsTensor *y, int64_t i, int64_t rows, int64_t cols,
                       const void *from, void *scratch);
/* The identity into every n x n matrix of an output: a basis for what has no elements. */
void linalg_put_identities(Linalg *w, TsTensor *y);

int linalg_refuse(const Linalg *w, int64_t i, const char *what); /* the errors */
int linalg_singular(Linalg *w, int64_t i, const char *what, int info);

/* The product of the diagonal of LU's factors, in increasing order, with the permutation's sign. */
void linalg_diagonal_product(const Linalg *w, const char *a, int n, const int *pivot,
                             double out[2]);
/* b = a^-1 by row, by the factors of a. */
void linalg_invert(Linalg *w, int n, const void *a, const int *pivot, void *b);

/* Small real matrices by lanes: whether they were, and then whether with an error (failed). l has
 * what, sizes and options; ny: the axes of a result. out and pivot, where the caller has them, are
 * for all results. */
bool linalg_lanes(Linalg *w, TsLanes l, int ny, int *failed);
/* The same for QR and eigenvalues, into y and y2. */
bool linalg_lanes_factors(Linalg *w, TsLanes l, TsTensor *y, TsTensor *y2);

#endif
