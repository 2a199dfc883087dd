/* Reductions with f64 accumulators: the templates over double. */
#include "vm/kernels/rows/reduce.h"
#include "vm/kernels/rows/reduce_fill.h"
#include "vm/kernels/rows/reduce_vec.h"
#include "vm/kernels/rows/math.h"

#include <stdbool.h>

typedef double T;
typedef int64_t K;
typedef RD V;
enum { W = RD_W, LANES = TS_RED_LANES_f64, LEVELS = RD_LEVELS };
#define KEY_INF 0x7ff0000000000000
#define vload   rd_load
#define vloadn  rd_loadn
#define vstore  rd_store
#define vset    rd_set
#define vabs    rd_abs
#define sabs    __builtin_fabs
#define halves  rd_halves
#define feed    rd_feed

static void map_row(int map, void *y_, const void *x_, int64_t n, double c, double p) {
  double *y = y_, s = c;
  const double *x = x_;
  switch (map) {
  case TS_MAP_square:
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * x[i];
    break;
  case TS_MAP_abs:
    for (int64_t i = 0; i < n; i++) y[i] = sabs(x[i]);
    break;
  case TS_MAP_sqdev:
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - s) * (x[i] - s);
    break;
  case TS_MAP_pow: TS_ISA(ts_rows_math_pow_f64)(y, x, n, p); break;
  case TS_MAP_exp: TS_ISA(ts_rows_math_exp_any_f64)(y, x, n, s); break;
  case TS_MAP_nonzero:
    for (int64_t i = 0; i < n; i++) y[i] = x[i] != 0 ? 1.0 : 0.0;
    break;
  default:
    if (y != x) memcpy(y, x, (size_t)n * sizeof *y);
  }
}

#include "vm/kernels/rows/reduce_order.h"
#include "vm/kernels/rows/reduce_tree.h"
#include "vm/kernels/rows/reduce_cprod.h"

static void log_add(void *y_, const void *shift_, int64_t n) {
  T *y = y_;
  const T *shift = shift_;
  for (int64_t i = 0; i < n; i++) y[i] = shift[i] + TS_ISA(ts_rows_math_log_f64)(y[i]);
}

void TS_ISA(ts_reduce_fill_f64)(TsReduceKernels *k) {
  k->rows[TS_RED_F64] = tree_rows;
  k->cols[TS_RED_F64] = tree_cols;
  k->tree[TS_RED_F64] = tree_tree;
  k->arg_row[TS_RED_F64] = arg_row;
  k->arg_cols[TS_RED_F64] = arg_cols;
  k->map[TS_RED_F64] = map_row;
  k->log_add[TS_RED_F64] = log_add;
  k->cprod[TS_RED_F64] = cprod_leaf;
  k->cprod_tree[TS_RED_F64] = cprod_tree;
}
