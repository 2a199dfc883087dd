/* Rows of a norm's gradient one behind the other: while one ends, the sums of the next are made,
 * and the mean of the one after that, all in one walk (vm/kernels/rows/grad.h), so that memory
 * and arithmetic have work at the same time: layernorm with its sums at 0.68-0.76 instead of 0.62
 * of a copy on two threads, rmsnorm at 0.80-0.84 instead of 0.64. */
#ifndef TS_VM_NORM_WALK_H
#define TS_VM_NORM_WALK_H

#include <stdbool.h>
#include <stddef.h>

#include "vm/kernels/rows/grad.h"

typedef struct TsNormOf {
  const TsRowsGradKernels *k;
  int w; /* index of the type */
  int64_t n;
  bool centered;
  double eps;
  const char *weight; /* or NULL */
} TsNormOf;

typedef struct TsNormRow {
  const char *x, *g;
  char *dx, *dw, *db;          /* sums or NULL */
  const char *nothing;         /* n numbers -0 where a chain begins, else NULL */
  double mean, rstd, c1, c2;   /* numbers of the type */
  const char *next_x, *next_g; /* the row that follows */
  const char *far_x, *far_g;   /* one that does some rows later */
} TsNormRow;

enum { TS_NORM_ROWS = 3 }; /* under way at most */

typedef struct TsNormRows {
  const TsNormOf *of;
  TsNormRow row[TS_NORM_ROWS]; /* oldest first */
  int rows;
} TsNormRows;

/* Of row i: rstd, c1, c2 hold the sums of squares, of g w, of (g w) xc, and get what
 * vm/exec/norm_grad.c's head says. */
void ts_norm_numbers(const TsNormOf *of, void *rstd, void *c1, void *c2, int i);

/* Rows are whole lines, a leaf at most; dx goes past the caches and is neither x nor g. */
void ts_norm_rows_push(TsNormRows *r, const TsNormRow *row);
/* The ends of all that are under way. */
void ts_norm_rows_end(TsNormRows *r);

#endif
