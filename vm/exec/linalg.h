/* What handlers of linear algebra share: operands in the types that LAPACK works in, work memory,
 * matrices into column-major order and back (vm/exec/linalg.c). */
#ifndef TS_VM_EXEC_LINALG_H
#define TS_VM_EXEC_LINALG_H

#include <setjmp.h>

#include "vm/blas/blas.h"
#include "vm/blas/factor.h"
#include "vm/core/exec.h"

/* One call: operands in the working type, and workspace that grows as asked. */
typedef struct TsLinalg {
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
} TsLinalg;

/* A handler whose work is body: interrupts leave it, and all that was taken is given back. */
int ts_linalg_run(TsCall *call, int (*body)(TsLinalg *w));

/* Work memory until the end; NULL sets w->failed. lapack_work: of so many numbers. */
void *ts_linalg_take(TsLinalg *w, int64_t nbytes);
void *ts_linalg_lapack_work(TsLinalg *w, double wanted);
/* What LAPACK answers to a workspace of TS_LINALG_ASK numbers, at the first of them. */
extern const int TS_LINALG_ASK;
double ts_linalg_answer(const TsLinalg *w, const void *query);
/* Whether a factorisation had no memory, which is told; else its info. */
bool ts_linalg_lost(TsLinalg *w, int64_t got, int *info);

int64_t ts_linalg_rows_of(const TsTensor *t);
int64_t ts_linalg_cols_of(const TsTensor *t);
/* Number of matrices in the leading axes of t but its last n; matrix i of an operand. */
int64_t ts_linalg_count_of(const TsTensor *t, int n);
const char *ts_linalg_matrix(const TsLinalg *w, const TsTensor *t, int64_t i, int64_t rows,
                             int64_t cols);
/* dst[j * rows + i] = src[i * cols + j]: between row-major and column-major. */
void ts_linalg_flip(const TsLinalg *w, int64_t rows, int64_t cols, void *dst, const void *src);
/* n numbers of type d into an output from element `at` on, rounded to its dtype. */
void ts_linalg_put(const TsLinalg *w, TsTensor *y, int64_t at, int64_t n, const void *from,
                   TsDtype d);
/* A column-major result into matrix i of an output; scratch has as much room. */
void ts_linalg_put_matrix(TsLinalg *w, TsTensor *y, int64_t i, int64_t rows, int64_t cols,
                          const void *from, void *scratch);
void ts_linalg_put_identities(TsLinalg *w, TsTensor *y);
int ts_linalg_refuse(const TsLinalg *w, int64_t i, const char *what);

/* Of LU factors: the determinant, and the inverse into b. */
void ts_linalg_diagonal_product(const TsLinalg *w, const char *a, int n, const int *pivot,
                                double out[2]);
void ts_linalg_invert(TsLinalg *w, int n, const void *a, const int *pivot, void *b);

#endif
