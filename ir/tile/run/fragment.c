/* Rows of kernels with matrix units in the interpreter of Tile IR: what of a fragment four
 * threads have, the target's own functions, counters of the device. Blocks run one after the
 * other here, so the first one claims all there is. */
#include <math.h>

#include "ir/tile/run/state.h"

static int each(TsTileRun *r, const TsTileStmt *s, float f(float, float)) {
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]), *y = ts_tile_run_place(r, s->out[0]);
  TsTileRunPlace *more = ts_tile_run_place(r, s->in[s->nin - 1]);
  if (!x || !y || !more) return -1;
  for (int64_t i = 0; i < y->n; i++)
    ((float *)(void *)y->at)[i] =
        f(((float *)(void *)x->at)[i], ((float *)(void *)more->at)[i]);
  return 0;
}

static float power(float x, float same) { return (void)same, exp2f(x); }
static float inverse(float x, float same) { return (void)same, 1 / x; }
static float logarithm(float x, float same) { return (void)same, log2f(x); }

static int function(TsTileRun *r, const TsTileStmt *s, float f(float, float)) {
  if (!r->as.function) return each(r, s, f);
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]), *y = ts_tile_run_place(r, s->out[0]);
  if (!x || !y) return -1;
  if (!r->as.function(r->as.with, s->op, y->n, (const float *)(void *)x->at,
                      (float *)(void *)y->at, r->err))
    return 0;
  r->failed = true;
  return -1;
}

int ts_tile_do_ex2(TsTileRun *r, const TsTileStmt *s) { return function(r, s, power); }
int ts_tile_do_inv(TsTileRun *r, const TsTileStmt *s) { return function(r, s, inverse); }
int ts_tile_do_lg2(TsTileRun *r, const TsTileStmt *s) { return function(r, s, logarithm); }
static float larger(float x, float y) { return x == y ? (signbit(x) ? y : x) : fmaxf(x, y); }
static float larger_nan(float x, float y) { return x != x || y != y ? NAN : larger(x, y); }
int ts_tile_do_larger(TsTileRun *r, const TsTileStmt *s) {
  return each(r, s, ts_tile_attr(s, "nan")->i ? larger_nan : larger);
}

static bool is_max(const TsTileStmt *s) { return ts_tile_attr(s, "of")->i; }
static float join(bool max, float x, float y) { return max ? fmaxf(x, y) : x + y; }

int ts_tile_do_quarter(TsTileRun *r, const TsTileStmt *s) {
  const float *x = ts_tile_run_tile(r, s->in[0]);
  float *y = ts_tile_run_tile(r, s->out[0]);
  if (!x || !y) return -1;
  bool max = is_max(s);
  int64_t m = s->in[0]->type.dim[0], n = s->in[0]->type.dim[1];
  for (int64_t i = 0; i < m; i++)
    for (int64_t l = 0; l < 4; l++) {
      const float *at = x + i * n + 2 * l;
      float all = join(max, at[0], at[1]);
      for (int64_t j = 8; j < n; j += 8) all = join(max, all, join(max, at[j], at[j + 1]));
      y[i * 4 + l] = all;
    }
  return 0;
}

int ts_tile_do_row(TsTileRun *r, const TsTileStmt *s) {
  const float *x = ts_tile_run_tile(r, s->in[0]);
  float *y = ts_tile_run_tile(r, s->out[0]);
  if (!x || !y) return -1;
  bool max = is_max(s);
  for (int64_t i = 0; i < s->in[0]->type.dim[0]; i++, x += 4)
    y[i] = join(max, join(max, x[0], x[1]), join(max, x[2], x[3]));
  return 0;
}

int ts_tile_do_own(TsTileRun *r, const TsTileStmt *s) {
  int64_t *y = ts_tile_run_tile(r, s->out[0]);
  if (!y) return -1;
  *y = ts_tile_run_scalar(r, s->in[0]);
  for (int i = 1; i < s->nin; i++) {
    int64_t x = ts_tile_run_scalar(r, s->in[i]);
    if (x > *y) *y = x;
  }
  return 0;
}

int ts_tile_do_claim(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *memory = ts_tile_run_place(r, s->in[0]);
  int64_t *y = ts_tile_run_tile(r, s->out[0]), at = 0;
  if (!memory || !y) return -1;
  for (int i = 0; i < s->in[0]->type.rank; i++) {
    int64_t p = ts_tile_run_scalar(r, s->in[1 + i]);
    if (p < 0 || p >= memory->dim[i])
      return ts_tile_run_fail(r, s, TS_ERR_index, "position %lld of %lld counters",
                              (long long)p, (long long)memory->dim[i]);
    at += p * memory->stride[i];
  }
  int32_t *counter = (int32_t *)(void *)memory->at + at;
  *y = *counter;
  *counter = *counter + 1 >= ts_tile_run_scalar(r, s->in[s->nin - 1]) ? 0 : *counter + 1;
  return 0;
}

int ts_tile_do_turn(TsTileRun *r, const TsTileStmt *s) { return (void)s, r->failed ? -1 : 0; }
