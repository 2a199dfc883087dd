/* Many small real matrices at once, a lane of a vector each, over the pool's threads. What factor.h
 * does has its bits. QR and eigenvalues have an order of their own, so sizes alone decide whether
 * they go this way. */
#ifndef TS_VM_BLAS_LANES_H
#define TS_VM_BLAS_LANES_H

#include "vm/blas/factor.h"

typedef enum TsLanesWhat {
  TS_LANES_LU,       /* out: the factors, m x n; pivot */
  TS_LANES_DET,      /* out: numbers of f64 */
  TS_LANES_SOLVE,    /* out: a^-1 b, n x k */
  TS_LANES_INVERSE,  /* out: a^-1 */
  TS_LANES_TRIANGLE, /* out: a^-1 b of half of a */
  TS_LANES_CHOLESKY, /* out: l or u */
  TS_LANES_QR,       /* out: q, m x k; out2: r, k x n */
  TS_LANES_EIGH      /* out: the vectors, k = n; out2: the values; of the lower half */
} TsLanesWhat;

/* Matrices by row, one after another, in the type of f. */
typedef struct TsLanes {
  TsFactor f;
  TsLanesWhat what;
  int m, n, k;
  bool upper, transposed, unit; /* as in factor.h, but of rows: upper is above the diagonal */
  int64_t count;                /* of results */
  const void *a, *b;
  const int64_t *a_at, *b_at; /* the matrix that result i takes; NULL: i */
  void *out, *out2;
  int *pivot; /* min(m, n) for each matrix, as ts_factor_lu's, or NULL */
  int *lost;  /* 1 + the first bad pivot of each matrix, or 0 */
} TsLanes;

/* Whether matrices of these sizes are taken, and so many of them worth it: where there is one at
 * all. */
bool ts_lanes_take(const TsLanes *l);
/* 0, or -1 when out of memory. Interrupted, it leaves off. */
int ts_lanes_run(const TsLanes *l);

#endif
