/* What the files of dense linear algebra share: one call over a batch of matrices. */
#ifndef TS_VM_EXEC_LINALG_H
#define TS_VM_EXEC_LINALG_H

#include <setjmp.h>

#include "vm/blas/lanes.h"
#include "vm/core/call.h"

/* One call: operands in the working type, and workspace that grows as asked. */
typedef struct TsLinalg {
  TsCall *call;
  TsDtype d;
  int es, rs; /* bytes of an element, of its real part */
  bool complex;
  TsTensor *a, *b;
  void *block[12]; /* workspaces, as many as the longest body takes, freed at the end */
  int nblock;
  bool failed;
  TsFactor f;
  sigjmp_buf out; /* where an interrupt leaves to */
} TsLinalg;

/* The body of a handler, which an interrupt leaves. */
int ts_linalg_run(TsCall *call, int (*body)(TsLinalg *w));
/* Workspace until the end of the call, or NULL: then w->failed is set. */
void *ts_linalg_take(TsLinalg *w, int64_t nbytes);
/* What LAPACK answers to a workspace of TS_LINALG_ASK numbers, at the first of them. */
extern const int TS_LINALG_ASK;
double ts_linalg_answer(const TsLinalg *w, const void *query);
/* The largest magnitude of n numbers, or pairs of them, as bits, and whether that is finite;
 * whether all are: LAPACK's iterations need not end where one is not. */
uint64_t ts_linalg_most_bits(const TsLinalg *w, const void *a, int64_t n);
bool ts_linalg_bits_finite(const TsLinalg *w, uint64_t bits);
bool ts_linalg_is_finite(const TsLinalg *w, const void *a, int64_t n);
/* Whether the loop over a batch goes on with matrix i: nothing failed, no interrupt. */
bool ts_linalg_more(const TsLinalg *w, int64_t i, int64_t count);
/* Whether a factorisation had no memory, which is told; else its info. */
bool ts_linalg_lost(TsLinalg *w, int64_t got, int *info);

static inline int64_t ts_linalg_rows_of(const TsTensor *t) {
  return t->meta.dim[t->meta.ndim - 2];
}
static inline int64_t ts_linalg_cols_of(const TsTensor *t) {
  return t->meta.dim[t->meta.ndim - 1];
}

/* Number of matrices in the leading axes of t but its last n. */
static inline int64_t ts_linalg_count_of(const TsTensor *t, int n) {
  int64_t count = 1;
  for (int i = 0; i < t->meta.ndim - n; i++) count *= t->meta.dim[i];
  return count;
}

/* Matrix i of a broadcast batch: index in x of the matrix that meets output i; nx, ny: the axes of
 * a matrix. */
int64_t ts_linalg_meets(const TsTensor *x, int nx, const TsTensor *y, int ny, int64_t i);
/* Matrix i of an operand. */
const char *ts_linalg_matrix(const TsLinalg *w, const TsTensor *t, int64_t i, int64_t rows,
                             int64_t cols);
/* dst[j * rows + i] = src[i * cols + j]: between row-major and column-major. */
void ts_linalg_flip(const TsLinalg *w, int64_t rows, int64_t cols, void *dst, const void *src);
/* n numbers of type d into an output from element `at` on, rounded to its dtype. */
void ts_linalg_put(const TsLinalg *w, TsTensor *y, int64_t at, int64_t n, const void *from,
                   TsDtype d);
/* Where a result by row is made: matrix i of an output of the working type, else memory of its own,
 * which is put into it when it is done. */
void *ts_linalg_own(TsLinalg *w, const TsTensor *y, int64_t numbers);
void *ts_linalg_place(const TsLinalg *w, const TsTensor *y, int64_t i, int64_t numbers,
                      void *own);
/* A column-major result into matrix i of an output. */
void ts_linalg_put_matrix(TsLinalg *w, TsTensor *y, int64_t i, int64_t rows, int64_t cols,
                          const void *from, void *scratch);
/* The identity into every n x n matrix of an output: a basis for what has no elements. */
void ts_linalg_put_identities(TsLinalg *w, TsTensor *y);

int ts_linalg_refuse(TsLinalg *w, int64_t i, const char *what); /* the errors */
int ts_linalg_singular(TsLinalg *w, int64_t i, const char *what, int info);

/* Eigenvalues and vectors of Hermitian matrices n x n, from their lower triangles. */
typedef struct TsEigh {
  int n, lwork, lrwork, liwork;
  void *values; /* increasing, of the real type */
  void *a, *v, *off, *tau, *space, *rwork;
  int *iwork;
} TsEigh;

void ts_linalg_eigh_take(TsLinalg *w, TsEigh *e, int n);
/* Of matrix i, the vectors by row (column j is that of value j); or false, after an error or an
 * interrupt. */
bool ts_linalg_eigh(TsLinalg *w, TsEigh *e, int64_t i, void *vectors);

/* The product of the diagonal of LU's factors, in increasing order, with the permutation's sign. */
void ts_linalg_diagonal_product(const TsLinalg *w, const char *a, int n, const int *pivot,
                                double out[2]);
/* b = a^-1 by row, by the factors of a. */
void ts_linalg_invert(TsLinalg *w, int n, const void *a, const int *pivot, void *b);

/* Small real matrices by lanes: whether they were, and then whether with an error (failed). l has
 * what, sizes and options; ny: the axes of a result. out and pivot, where the caller has them, are
 * for all results. */
bool ts_linalg_lanes(TsLinalg *w, TsLanes l, int ny, int *failed);
/* The same for QR and eigenvalues, into y and y2. */
bool ts_linalg_lanes_factors(TsLinalg *w, TsLanes l, TsTensor *y, TsTensor *y2);

#endif
