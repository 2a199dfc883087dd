/* Reductions of plain arrays in the canonical order. A kernel sees at most one
 * leaf (4096 logical elements); vm/rows/reduce.c cuts, threads, stages and combines.
 * The order itself is explained in reduce_tree.h. */
#ifndef TS_VM_KERNELS_REDUCE_H
#define TS_VM_KERNELS_REDUCE_H

#include <stdint.h>

#include "lib/dtype.h"
#include "lib/reduce.h"

/* What combines two values, and the accumulator (the index into the tables). */
enum { TS_RED_SUM, TS_RED_PROD, TS_RED_MIN, TS_RED_MAX };
enum { TS_RED_F32, TS_RED_F64, TS_RED_I64, TS_RED_NACC };

/* What is done to an element first; c is the value of the row (or column). */
typedef enum TsReduceMap {
  TS_MAP_none,
  TS_MAP_square,  /* x*x */
  TS_MAP_abs,     /* |x| */
  TS_MAP_sqdev,   /* d*d, d = x-c */
  TS_MAP_pow,     /* |x|^p; floats only */
  TS_MAP_exp,     /* exp(x-c); floats only */
  TS_MAP_nonzero, /* 1 if x != 0 (NaN counts), else 0 */
} TsReduceMap;

/* Widens n elements at src to f32, f64 or i64 at dst: a function of convert.h. */
typedef void TsLoad(int64_t n, void *dst, const void *src);

/* Rows of n <= TS_RED_LEAF adjacent elements of the accumulator's type, ld
 * elements apart: out[r] = the tree of row r. c: value for the map, c[r*cstep]
 * (may be null if the map has none). */
typedef struct TsReduceRows {
  int op, map;
  const void *x;
  int64_t rows, ld, n;
  const void *c;
  int64_t cstep;
  double p;
  void *out;
  int far; /* x lies in memory, not in a cache */
} TsReduceRows;

/* m <= TS_RED_LEAF rows of n columns: out[j] = the tree of column j. Row i begins
 * at x + ld*i, or at x + at[i] where `at` is given (in elements). Elements are
 * `esize` bytes and go through `load` where it is given. c[j] as above. */
typedef struct TsReduceCols {
  int op, map;
  const void *x;
  int64_t m, n, ld;
  const int64_t *at;
  TsLoad *load;
  int esize;
  const void *c;
  double p;
  void *out;
} TsReduceCols;

/* The largest key so far and the lowest index that has it; empty: index -1. */
typedef struct TsReduceArg {
  int64_t key, index;
} TsReduceArg;

typedef struct TsReduceKernels {
  void (*rows[TS_RED_NACC])(const TsReduceRows *a);
  void (*cols[TS_RED_NACC])(const TsReduceCols *a);
  /* Combines m rows of n values, ld = n, pairwise level by level into s[0..n). */
  void (*tree[TS_RED_NACC])(int op, void *s, int64_t m, int64_t n);
  /* Argmax (min: argmin) of n elements whose first has index `base`, merged into *best. */
  void (*arg_row[TS_RED_NACC])(int min, const void *x, int64_t n, int64_t base,
                               TsReduceArg *best);
  /* The same for each column, rows as in TsReduceCols (op, map, c, p, out unused). */
  void (*arg_cols[TS_RED_NACC])(int min, const TsReduceCols *a, int64_t base,
                                TsReduceArg *best);
  /* Tree of products of one leaf of n complex numbers (F32: complex64, F64: complex128),
   * `step` numbers apart; and of m partial products, into s[0]. */
  void (*cprod[2])(const void *x, int64_t n, int64_t step, void *out);
  void (*cprod_tree[2])(void *s, int64_t m);
  /* y[i] = map(x[i]) of one row in the accumulator's type; x == y is allowed. */
  void (*map[TS_RED_NACC])(int map, void *y, const void *x, int64_t n, double c, double p);
  /* y[i] = shift[i] + log(y[i]): the end of logsumexp. */
  void (*log_add[2])(void *y, const void *shift, int64_t n);
  /* n elements as 0 or 1 in i64, by the element's type (NaN counts as 1). */
  TsLoad *nonzero[TS_DT_COUNT];
  /* How many of n <= TS_RED_LEAF adjacent elements are not zero. */
  int64_t (*count[TS_DT_COUNT])(const void *x, int64_t n);
} TsReduceKernels;

void ts_kernels_reduce_avx512(TsReduceKernels *k);
void ts_kernels_reduce_avx2(TsReduceKernels *k);
void ts_kernels_reduce_base(TsReduceKernels *k);

#endif
