/* median and quantile on a device: rows are sorted there, then one kernel takes the two
 * elements beside the place and interpolates in f64, as vm/exec/order.c does. */
#include "jit/eager/family/own.h"

#include <math.h>
#include <string.h>

typedef TsTileVal V;

enum { PIECE = 256 };

typedef struct Quantile {
  TsDtype in, out;
  int64_t n, k; /* elements of a row; the place */
  double t;     /* how far from it to the next one */
} Quantile;

static V op2(TsTileBuild *b, int op, V x, V y) { return ts_tile_op2(b, op, x, y); }
static V number(TsTileBuild *b, V like, double v) {
  return like ? ts_short_number(b, &like->type, TS_DT_f64, v) : NULL;
}

/* Element k of rows; -0 counts as +0. */
static V element(TsTileBuild *b, V x, V first, int64_t k) {
  V v = ts_short_gather(b, x, ts_short_by(b, TS_OP_add, first, k), true);
  v = ts_tile_cast(b, v, TS_DT_f64);
  return ts_tile_op3(b, TS_OP_where, op2(b, TS_OP_eq, v, number(b, v, 0)), number(b, v, 0), v);
}

static V between(TsTileBuild *b, const Quantile *q, V x, V y) {
  V apart = op2(b, TS_OP_sub, y, x), z;
  if (q->t == 0.5)
    z = op2(b, TS_OP_mul, op2(b, TS_OP_add, x, y), number(b, x, 0.5));
  else if (q->t < 0.5)
    z = op2(b, TS_OP_add, x, op2(b, TS_OP_mul, apart, number(b, x, q->t)));
  else
    z = op2(b, TS_OP_sub, y, op2(b, TS_OP_mul, apart, number(b, x, 1 - q->t)));
  return ts_tile_op3(b, TS_OP_where, op2(b, TS_OP_eq, x, y), x, z);
}

static TsTile *build(const void *arg) {
  const Quantile *q = arg;
  TsTile *k = ts_tile_new("quantile");
  if (!k) return NULL;
  TsTileType in = ts_tile_vector(q->in, ts_tile_size(k, "N"));
  TsTileType out = ts_tile_vector(q->out, ts_tile_size(k, "M"));
  V x = ts_tile_param(k, "x", &in, false), y = ts_tile_param(k, "y", &out, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 1), PIECE, true, 0, NULL);
  V row = op2(&b, TS_OP_add, ts_short_iota(&b, &t, 0), ts_short_splat(&b, &t, l.i));
  V first = ts_short_by(&b, TS_OP_mul, row, q->n), v = element(&b, x, first, q->k);
  if (q->t > 0) v = between(&b, q, v, element(&b, x, first, q->k + 1));
  V last = element(&b, x, first, q->n - 1); /* NaN is the largest */
  v = ts_tile_op3(&b, TS_OP_where, op2(&b, TS_OP_ne, last, last), last, v);
  ts_tile_store(&b, y, &l.i, ts_tile_cast(&b, v, q->out), &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* Rows in order, row-major; NULL with the error. */
static TsTensor *sorted(const TsCall *call, TsTensor *x, const TsAttr *axis) {
  int nd = x->meta.ndim;
  TsTensor *row = NULL, *out[2] = {NULL, NULL}, *view = NULL;
  TsMeta flat = x->meta;
  flat.ndim = 1, flat.dim[0] = ts_meta_numel(&x->meta);
  int64_t step = 1;
  int n = 0;
  if (axis->type == TS_ATTR_none) {
    row = ts_tensor_contiguous(call->ctx, x);
    if (row) view = ts_tensor_view(row, &flat, &step, row->offset);
  } else {
    view = ts_own_turned(x, (int)(axis->i < 0 ? axis->i + nd : axis->i));
  }
  TsAttr attr[2] = {{.type = TS_ATTR_int, .i = -1}, {.type = TS_ATTR_bool, .i = false}};
  if (view && ts_vm_call(call->ctx, TS_OP_sort, 1, &view, attr, 2, &n, out)) out[0] = NULL;
  ts_tensor_unref(view), ts_tensor_unref(row);
  if (out[0]) ts_tensor_unref(out[1]);
  return out[0];
}

int ts_offload_quantile(TsOffloader *o, TsCall *call, int device) {
  bool median = call->op == TS_OP_median;
  if (!median && call->op != TS_OP_quantile) return 0;
  TsTensor *x = call->in[0], *y = call->out[0];
  const TsAttr *axis = &call->attr[median ? 0 : 1];
  double at = median ? 0.5 : call->attr[0].f;
  Quantile q = {.in = ts_tensor_dtype(x), .out = ts_tensor_dtype(y)};
  int nd = x->meta.ndim;
  if (!(at >= 0 && at <= 1) || !ts_tensor_numel(x) || !ts_tensor_numel(y) || !nd) return 0;
  if (!y->contiguous || ts_dtypes[q.in].nbytes > 8 || q.in == TS_DT_mxfp4) return 0;
  q.n = axis->type == TS_ATTR_none ? ts_tensor_numel(x)
                                   : x->meta.dim[axis->i < 0 ? axis->i + nd : axis->i];
  at *= (double)(q.n - 1), q.t = at - floor(at), q.k = (int64_t)at;
  TsTensor *rows = sorted(call, x, axis);
  if (!rows) return -1;
  TsOwn k = {.build = build, .arg = &q, .nin = 1, .nout = 1, .in = {rows}, .out = {y}};
  int64_t bits;
  memcpy(&bits, &q.t, sizeof bits);
  k.ndim = 2, k.dim[0] = ts_tensor_numel(rows), k.dim[1] = ts_tensor_numel(y);
  ts_own_word(&k, q.in | q.out << 8);
  ts_own_word(&k, q.n), ts_own_word(&k, q.k), ts_own_word(&k, bits);
  int done = ts_own_run(o, call, device, &k);
  ts_tensor_unref(rows);
  return done;
}
