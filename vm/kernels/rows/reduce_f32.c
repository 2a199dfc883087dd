/* Reductions with f32 accumulators: the templates over float. */
#include "vm/kernels/rows/reduce.h"
#include "vm/kernels/rows/reduce_fill.h"
#include "vm/kernels/rows/reduce_vec.h"
#include "vm/kernels/rows/math.h"

#include <stdbool.h>

typedef float T;
typedef int32_t K;
typedef RF V;
enum { W = RF_W, LANES = TS_RED_LANES_f32, LEVELS = RF_LEVELS };
#define KEY_INF 0x7f800000
#define vload   rf_load
#define vloadn  rf_loadn
#define vstore  rf_store
#define vset    rf_set
#define vabs    rf_abs
#define sabs    __builtin_fabsf
#define halves  rf_halves
#define feed    rf_feed

static void map_row(int map, void *y_, const void *x_, int64_t n, double c, double p) {
  float *y = y_, s = (float)c;
  const float *x = x_;
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
  case TS_MAP_pow: TS_ISA(ts_rows_math_pow_f32)(y, x, n, (float)p); break;
  case TS_MAP_exp: TS_ISA(ts_rows_math_exp_any_f32)(y, x, n, s); break;
  case TS_MAP_nonzero:
    for (int64_t i = 0; i < n; i++) y[i] = x[i] != 0 ? 1.0f : 0.0f;
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
  for (int64_t i = 0; i < n; i++) y[i] = shift[i] + TS_ISA(ts_rows_math_log_f32)(y[i]);
}

void TS_ISA(ts_reduce_fill_f32)(TsReduceKernels *k) {
  k->rows[TS_RED_F32] = tree_rows;
  k->cols[TS_RED_F32] = tree_cols;
  k->tree[TS_RED_F32] = tree_tree;
  k->arg_row[TS_RED_F32] = arg_row;
  k->arg_cols[TS_RED_F32] = arg_cols;
  k->map[TS_RED_F32] = map_row;
  k->log_add[TS_RED_F32] = log_add;
  k->cprod[TS_RED_F32] = cprod_leaf;
  k->cprod_tree[TS_RED_F32] = cprod_tree;
}
