/* REDUCE rows over vm/rows/reduce.h: which map and combination each row means, and the
 * rounding of accumulators to the result's dtype. */
#include "vm/core/exec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vm/rows/reduce.h"
#include "vm/core/scratch.h"

/* One reduction being set up: reduced axes apart from kept ones. */
typedef struct Axes {
  int64_t outer_dim[TS_MAX_RANK], outer_stride[TS_MAX_RANK];
  int64_t inner_dim[TS_MAX_RANK], inner_stride[TS_MAX_RANK];
  int nouter, ninner;
} Axes;

static void split_axes(Axes *s, const TsTensor *x, const bool *reduced) {
  s->nouter = s->ninner = 0;
  for (int i = 0; i < x->meta.ndim; i++) {
    int *n = reduced[i] ? &s->ninner : &s->nouter;
    (reduced[i] ? s->inner_dim : s->outer_dim)[*n] = x->meta.dim[i];
    (reduced[i] ? s->inner_stride : s->outer_stride)[*n] = x->stride[i];
    ++*n;
  }
}

static const TsAttr *axis_attr(const TsCall *call) {
  return &call->attr[call->op == TS_OP_norm ? 1 : 0];
}

static void reduced_axes(const TsCall *call, int ndim, bool reduced[TS_MAX_RANK]) {
  const TsAttr *a = axis_attr(call);
  memset(reduced, a->type == TS_ATTR_none, TS_MAX_RANK * sizeof *reduced);
  if (a->type == TS_ATTR_int) reduced[a->i < 0 ? a->i + ndim : a->i] = true;
  for (int i = 0; a->type == TS_ATTR_ints && i < a->n; i++)
    reduced[a->ints[i] < 0 ? a->ints[i] + ndim : a->ints[i]] = true;
}

/* The combination and map of a row; for norms also by the order. */
static void meaning(const TsCall *call, TsReduce *r) {
  static const TsReduceOp plain[TS_OP_COUNT] = {
      [TS_OP_sum] = TS_REDUCE_sum,
      [TS_OP_prod] = TS_REDUCE_prod,
      [TS_OP_min] = TS_REDUCE_min,
      [TS_OP_max] = TS_REDUCE_max,
      [TS_OP_argmin] = TS_REDUCE_argmin,
      [TS_OP_argmax] = TS_REDUCE_argmax,
      [TS_OP_any] = TS_REDUCE_any,
      [TS_OP_all] = TS_REDUCE_all,
      [TS_OP_count_nonzero] = TS_REDUCE_count_nonzero,
      [TS_OP_mean] = TS_REDUCE_mean,
      [TS_OP_var] = TS_REDUCE_var,
      [TS_OP_std] = TS_REDUCE_std,
      [TS_OP_logsumexp] = TS_REDUCE_logsumexp,
  };
  r->op = plain[call->op];
  if (call->op == TS_OP_var || call->op == TS_OP_std) r->correction = call->attr[2].f;
  if (call->op != TS_OP_norm) return;
  double ord = call->attr[0].f;
  r->op = isinf(ord) ? (ord > 0 ? TS_REDUCE_max : TS_REDUCE_min) : TS_REDUCE_sum;
  r->map = isinf(ord) || ord == 1 ? TS_MAP_abs : ord == 2 ? TS_MAP_square : TS_MAP_pow;
  if (ord == 0) r->op = TS_REDUCE_count_nonzero, r->map = TS_MAP_none;
  r->p = ord;
}

/* The accumulator's type: what ts_reduce writes. */
static TsDtype accumulator(const TsReduce *r) {
  bool counts = r->op >= TS_REDUCE_argmin && r->op <= TS_REDUCE_count_nonzero;
  return counts ? TS_DT_i64 : (TsDtype)ts_dtypes[r->dtype].accum;
}

/* Averages of integers are made in f64 and rounded once; logsumexp and norms in
 * the float type of the rule. */
static TsDtype working_dtype(const TsCall *call, TsDtype d) {
  if (ts_dtype_is(d, TS_KIND_F | TS_KIND_C)) return d;
  switch (call->op) {
  case TS_OP_mean:
  case TS_OP_var:
  case TS_OP_std:
  case TS_OP_norm: return TS_DT_f64;
  case TS_OP_logsumexp: return TS_DT_f32;
  default: return d;
  }
}

/* The last step of a norm, in place: the root of the sum. The greatest of no magnitudes is 0. */
static void take_root(const TsCall *call, TsDtype d, void *at, int64_t n) {
  const TsPointwiseKernels *k = &call->ctx->k->pointwise;
  double ord = call->attr[0].f, inverse = 1 / ord;
  float inverse_f = (float)inverse;
  TsPointwiseFn *const *table = d == TS_DT_f64 ? k->f64 : k->f32;
  const void *in[2] = {at, d == TS_DT_f64 ? (void *)&inverse : (void *)&inverse_f};
  for (int64_t i = 0; ord == HUGE_VAL && i < n; i++) {
    if (d == TS_DT_f64)
      ((double *)at)[i] = ((double *)at)[i] < 0 ? 0 : ((double *)at)[i];
    else
      ((float *)at)[i] = ((float *)at)[i] < 0 ? 0 : ((float *)at)[i];
  }
  if (ord == 1 || ord == 0 || isinf(ord)) return;
  if (ord == 2)
    table[TS_PW_sqrt](n, at, in, NULL, 0);
  else
    table[TS_PW_pow](n, at, in, NULL, 2);
}

/* x reduced to n values of the accumulator's type. */
static int reduce_into(TsCall *call, const TsReduce *kind, TsTensor *x, void *buffer,
                       int64_t n) {
  TsContext *c = call->ctx;
  bool reduced[TS_MAX_RANK];
  Axes axes;
  TsReduce r = *kind;
  TsReduceTables tables = {&c->k->reduce, &c->k->convert};
  r.dtype = ts_tensor_dtype(x);
  reduced_axes(call, x->meta.ndim, reduced);
  split_axes(&axes, x, reduced);
  r.nouter = axes.nouter, r.outer_dim = axes.outer_dim, r.outer_stride = axes.outer_stride;
  r.ninner = axes.ninner, r.inner_dim = axes.inner_dim, r.inner_stride = axes.inner_stride;
  TsDtype acc = accumulator(&r);
  r.x = ts_tensor_read(x);
  r.out = buffer;
  if (!r.x) return -1;
  if (ts_reduce(&r, &tables)) return ts_scratch_failed(call);
  if (call->op == TS_OP_norm && acc != TS_DT_i64) take_root(call, acc, buffer, n);
  return 0;
}

/* ---- squares beyond the type's range, vm/rows/reduce.h: once more with small elements. A variance
 * that is divided by nothing is infinite or NaN for that reason. */
static bool squares(const TsCall *call, const TsReduce *r, int64_t count) {
  TsDtype x = r->dtype;
  bool far = x == TS_DT_f64 || x == TS_DT_f32 || x == TS_DT_bf16; /* others cannot overflow */
  bool norm = call->op == TS_OP_norm && call->attr[0].f == 2;
  bool variance = call->op == TS_OP_var || call->op == TS_OP_std;
  return far && (norm || (variance && (double)count > r->correction));
}

static double number_at(TsDtype d, const void *at, int64_t i) {
  return d == TS_DT_f64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

static bool all_finite(TsDtype d, const void *at, int64_t n) {
  bool finite = true;
  for (int64_t i = 0; i < n; i++) finite &= isfinite(number_at(d, at, i));
  return finite;
}

/* What is not finite in buffer is replaced by small's, scaled back. */
static void take_back(const TsCall *call, TsDtype d, void *buffer, const void *small,
                      int64_t n) {
  double by = 1 / ts_reduce_small(d);
  float by_f = (float)by;
  int times = call->op == TS_OP_var ? 2 : 1;
  for (int64_t i = 0; i < n; i++) {
    if (isfinite(number_at(d, buffer, i))) continue;
    if (d == TS_DT_f64) {
      double v = ((const double *)small)[i] * by;
      ((double *)buffer)[i] = times == 2 ? v * by : v;
    } else {
      float v = ((const float *)small)[i] * by_f;
      ((float *)buffer)[i] = times == 2 ? v * by_f : v;
    }
  }
}

static int again(TsCall *call, const TsReduce *kind, TsTensor *x, TsDtype d, void *buffer,
                 int64_t n) {
  TsContext *c = call->ctx;
  TsTensor *in[2] = {ts_tensor_cast(c, x, d), ts_tensor_number(c, ts_reduce_small(d))};
  TsTensor *scaled = in[0] && in[1] ? ts_vm_call1(c, TS_OP_mul, 2, in, NULL) : NULL;
  void *small = scaled ? ts_work_take(n * 8) : NULL;
  int failed = !scaled ? -1 : !small ? ts_scratch_failed(call) : 0;
  if (!failed) failed = reduce_into(call, kind, scaled, small, n);
  if (!failed) take_back(call, d, buffer, small, n);
  ts_work_give(small);
  ts_tensor_unref(scaled);
  ts_tensor_unref(in[0]);
  ts_tensor_unref(in[1]);
  return failed;
}

static int reduce(TsCall *call, TsTensor *x, TsTensor *y) {
  TsContext *c = call->ctx;
  TsReduce r = {.dtype = ts_tensor_dtype(x)};
  meaning(call, &r);
  TsDtype acc = accumulator(&r), out = ts_tensor_dtype(y);
  int64_t n = ts_tensor_numel(y);
  void *to = ts_tensor_write(y), *buffer = acc == out ? to : ts_work_take((n + 1) * 16);
  int failed = !to       ? -1
               : !buffer ? ts_scratch_failed(call)
                         : reduce_into(call, &r, x, buffer, n);
  if (!failed && n && squares(call, &r, ts_tensor_numel(x) / n) && !all_finite(acc, buffer, n))
    failed = again(call, &r, x, acc, buffer, n);
  if (failed) {
    if (buffer != to) ts_work_give(buffer);
    return -1;
  }
  if (buffer != to) {
    c->k->convert.convert[acc][out](n, to, buffer);
    ts_work_give(buffer);
  }
  return 0;
}

int ts_exec_reduce(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *x = call->in[0], *ready = NULL;
  TsDtype d = working_dtype(call, call->compute);
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  if (call->op == TS_OP_norm && ts_dtype_is(d, TS_KIND_C))
    ready = ts_vm_call1(c, TS_OP_abs, 1, &x, NULL);
  else
    ready = ts_tensor_dtype(x) == d ? ts_tensor_ref(x) : ts_tensor_cast(c, x, d);
  int failed = !ready || reduce(call, ready, call->out[0]);
  ts_tensor_unref(ready);
  return failed ? -1 : 0;
}
