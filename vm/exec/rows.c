/* softmax, log_softmax, layernorm, rmsnorm over vm/rows/rows.h and the SCAN rows over
 * vm/drive/scan.h: axes apart, operands in the types that those want. */
#include "vm/core/exec.h"

#include "vm/rows/rows.h"
#include "vm/drive/scan.h"
#include "vm/core/scratch.h"

/* x and y split into one axis and the others. */
typedef struct Split {
  int nouter;
  int64_t dim[TS_MAX_RANK], xs[TS_MAX_RANK], ys[TS_MAX_RANK];
  int64_t n, x_step, y_step;
} Split;

/* The axes [first, first + count) as one, the others outside. A scalar has one
 * element on an axis of its own. */
static Split split(const TsTensor *x, const TsTensor *y, int first, int count) {
  Split s = {.n = 1, .x_step = 1, .y_step = 1};
  for (int i = 0; i < x->meta.ndim; i++) {
    if (i >= first && i < first + count) {
      s.n *= x->meta.dim[i];
      /* The step along the merged axis; an axis of size 1 may have any stride. */
      if (i == first || x->meta.dim[i] != 1) s.x_step = x->stride[i], s.y_step = y->stride[i];
      continue;
    }
    s.dim[s.nouter] = x->meta.dim[i];
    s.xs[s.nouter] = x->stride[i];
    s.ys[s.nouter++] = y->stride[i];
  }
  return s;
}

static TsTensor *typed(TsContext *c, TsTensor *x, TsDtype d) {
  return ts_tensor_dtype(x) == d ? ts_tensor_ref(x) : ts_tensor_cast(c, x, d);
}

static int run_rows(TsCall *call, TsRowsOp op, TsTensor *x, int first, int count, TsTensor *w,
                    TsTensor *b, double eps) {
  const TsKernels *k = call->ctx->k;
  TsTensor *y = call->out[0];
  Split s = split(x, y, first, count);
  TsRowsTables tables = {&k->reduce, &k->rows, &k->convert, &k->copy};
  TsRows r = {.op = op,
              .dtype = ts_tensor_dtype(y),
              .nouter = s.nouter,
              .outer_dim = s.dim,
              .x_stride = s.xs,
              .y_stride = s.ys,
              .n = s.n,
              .x_step = s.x_step,
              .y_step = s.y_step,
              .eps = eps};
  r.x = ts_tensor_read(x);
  r.y = ts_tensor_write(y);
  if (w) r.w = ts_tensor_read(w);
  if (b) r.b = ts_tensor_read(b);
  if (!r.x || !r.y || (w && !r.w) || (b && !r.b)) return -1;
  return ts_rows(&r, &tables) ? ts_scratch_failed(call) : 0;
}

static int axis_of(const TsCall *call) {
  int nd = call->in[0]->meta.ndim;
  int64_t axis = call->attr[0].i;
  return (int)(axis < 0 ? axis + (nd ? nd : 1) : axis);
}

static int softmax(TsCall *call, TsRowsOp op) {
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  TsTensor *x = typed(call->ctx, call->in[0], call->compute);
  int failed = !x || run_rows(call, op, x, axis_of(call), 1, NULL, NULL, 0);
  ts_tensor_unref(x);
  return failed ? -1 : 0;
}

int ts_exec_softmax(TsCall *call) { return softmax(call, TS_ROWS_softmax); }

int ts_exec_log_softmax(TsCall *call) { return softmax(call, TS_ROWS_log_softmax); }

/* The last axes are one row: in place if they lie so. */
static TsTensor *merged(TsContext *c, TsTensor *x, int first, TsDtype d) {
  bool even = ts_tensor_dtype(x) == d, any = true;
  int64_t next = 0; /* the stride that the axis before must have, but the last */
  for (int i = x->meta.ndim; i-- > first;) {
    if (x->meta.dim[i] == 1) continue;
    even = even && (any || x->stride[i] == next);
    next = x->stride[i] * x->meta.dim[i], any = false;
  }
  return even ? ts_tensor_ref(x) : ts_tensor_cast(c, x, d);
}

static int norm(TsCall *call, TsRowsOp op) {
  TsContext *c = call->ctx;
  int dims = (int)call->attr[0].i, first = call->in[0]->meta.ndim - dims;
  TsDtype d = ts_tensor_dtype(call->out[0]), wide = (TsDtype)ts_dtypes[d].accum;
  TsTensor *w = NULL, *b = NULL;
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  TsTensor *x = merged(c, call->in[0], first, d);
  int failed = !x;
  if (!failed && call->nin > 1 && call->in[1])
    failed = !(w = ts_tensor_cast(c, call->in[1], wide));
  if (!failed && call->nin > 2 && call->in[2])
    failed = !(b = ts_tensor_cast(c, call->in[2], wide));
  if (!failed) failed = run_rows(call, op, x, first, dims, w, b, call->attr[1].f);
  ts_tensor_unref(x);
  ts_tensor_unref(w);
  ts_tensor_unref(b);
  return failed ? -1 : 0;
}

int ts_exec_layernorm(TsCall *call) { return norm(call, TS_ROWS_layernorm); }

int ts_exec_rmsnorm(TsCall *call) { return norm(call, TS_ROWS_rmsnorm); }

/* ---- scans */
static TsScanOp scan_op(TsOp op) {
  switch (op) {
  case TS_OP_cumsum: return TS_SCAN_sum;
  case TS_OP_cumprod: return TS_SCAN_prod;
  case TS_OP_cummax: return TS_SCAN_max;
  default: return TS_SCAN_logsumexp;
  }
}

static int run_scan(TsCall *call, TsTensor *x, TsTensor *y) {
  const TsKernels *k = call->ctx->k;
  Split s = split(x, y, axis_of(call), 1);
  TsScan scan = {.op = scan_op(call->op),
                 .dtype = ts_tensor_dtype(x),
                 .dtype_y = ts_tensor_dtype(y),
                 .nouter = s.nouter,
                 .outer_dim = s.dim,
                 .x_stride = s.xs,
                 .y_stride = s.ys,
                 .n = s.n,
                 .x_step = s.x_step,
                 .y_step = s.y_step};
  scan.x = ts_tensor_read(x);
  scan.y = ts_tensor_write(y);
  if (call->nout > 1 && !(scan.index = ts_tensor_write(call->out[1]))) return -1;
  if (!scan.x || !scan.y) return -1;
  ts_scan(&scan, &k->rows, &k->convert, &k->copy);
  return 0;
}

/* Running sums and products of complex numbers: chains along the axis in its parts,
 * re = ar br - ai bi and im = ar bi + ai br, every operation rounded. */
static void complex_chain(bool product, bool wide, char *y, const char *x, int64_t n,
                          int64_t ys, int64_t xs) {
  double ar = 0, ai = 0;
  for (int64_t i = 0; i < n; i++, x += xs, y += ys) {
    const double *xd = (const double *)(const void *)x;
    const float *xf = (const float *)(const void *)x;
    double br = wide ? xd[0] : (double)xf[0], bi = wide ? xd[1] : (double)xf[1];
    if (i == 0) {
      ar = br, ai = bi;
    } else if (!product) {
      ar += br, ai += bi;
    } else if (wide) {
      double re = ar * br - ai * bi;
      ai = ar * bi + ai * br;
      ar = re;
    } else {
      float re = (float)ar * (float)br - (float)ai * (float)bi;
      ai = (double)((float)ar * (float)bi + (float)ai * (float)br);
      ar = (double)re;
    }
    if (wide) {
      ((double *)(void *)y)[0] = ar, ((double *)(void *)y)[1] = ai;
    } else {
      ((float *)(void *)y)[0] = (float)ar, ((float *)(void *)y)[1] = (float)ai;
      ar = (double)(float)ar, ai = (double)(float)ai;
    }
  }
}

static int run_complex_scan(TsCall *call, TsTensor *x, TsTensor *y) {
  Split s = split(x, y, axis_of(call), 1);
  int64_t size = ts_dtypes[y->meta.dtype].nbytes, outer = 1;
  const char *from = ts_tensor_read(x);
  char *to = ts_tensor_write(y);
  if (!from || !to) return -1;
  for (int i = 0; i < s.nouter; i++) outer *= s.dim[i];
  for (int64_t o = 0; o < outer; o++) {
    int64_t r = o, xo = 0, yo = 0;
    for (int i = s.nouter; i-- > 0; r /= s.dim[i])
      xo += r % s.dim[i] * s.xs[i], yo += r % s.dim[i] * s.ys[i];
    complex_chain(call->op == TS_OP_cumprod, size == 16, to + yo * size, from + xo * size, s.n,
                  s.y_step * size, s.x_step * size);
  }
  return 0;
}

/* The type in which the chain runs, for the types that vm/drive/scan.h does not load. */
static TsDtype chain_dtype(const TsCall *call) {
  TsDtype d = ts_tensor_dtype(call->in[0]);
  if (call->in[0]->meta.weak || call->op == TS_OP_logcumsumexp) return call->compute;
  return d;
}

int ts_exec_scan(TsCall *call) {
  TsTensor *y = call->out[0];
  if (ts_tensor_numel(y) == 0) return 0;
  TsTensor *x = typed(call->ctx, call->in[0], chain_dtype(call));
  if (!x) return -1;
  bool complex = ts_dtype_is(ts_tensor_dtype(x), TS_KIND_C);
  int failed = complex ? run_complex_scan(call, x, y) : run_scan(call, x, y);
  ts_tensor_unref(x);
  return failed ? -1 : 0;
}
