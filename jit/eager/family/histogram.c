/* histogram on a device: elements are sorted, and each edge finds by halving how many are below
 * it. So nothing is counted by atomics, and many equal elements are as good as others. */
#include <math.h>

#include "jit/eager/family/own.h"
#include "vm/drive/histogram.h"

typedef TsTileVal V;

enum { PIECE = 64, MOST = 1 << 20 };

typedef struct Histogram {
  TsDtype d;
  int64_t bins;
} Histogram;

static V op2(TsTileBuild *b, int op, V x, V y) { return ts_tile_op2(b, op, x, y); }

/* How many of n elements in order are less than each edge, or as large where `equal`. */
static V below(TsTileBuild *b, V x, V edge, V equal, V n) {
  V lo = ts_short_int(b, &edge->type, 0), hi = ts_short_splat(b, &edge->type, n), out[2];
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, 63), 1, false, 2, (V[]){lo, hi});
  if (!l.stmt) return NULL;
  lo = l.carry[0], hi = l.carry[1];
  V mid = ts_short_by(b, TS_OP_floordiv, op2(b, TS_OP_add, lo, hi), 2);
  V v = ts_tile_cast(b, ts_short_gather(b, x, mid, true), TS_DT_f64);
  V less = op2(b, TS_OP_logical_and, equal, op2(b, TS_OP_eq, v, edge));
  less = op2(b, TS_OP_logical_or, less, op2(b, TS_OP_lt, v, edge));
  V open = op2(b, TS_OP_lt, lo, hi), up = op2(b, TS_OP_logical_and, open, less);
  V down = op2(b, TS_OP_logical_and, open, ts_tile_op1(b, TS_OP_logical_not, less));
  lo = ts_tile_op3(b, TS_OP_where, up, ts_short_by(b, TS_OP_add, mid, 1), lo);
  hi = ts_tile_op3(b, TS_OP_where, down, mid, hi);
  ts_tile_for_end(b, &l, (V[]){lo, hi}, out);
  return out[0];
}

static TsTile *build(const void *arg) {
  const Histogram *h = arg;
  TsTile *k = ts_tile_new("histogram");
  if (!k) return NULL;
  TsTileType in = ts_tile_vector(h->d, ts_tile_size(k, "N"));
  TsTileType bins = ts_tile_vector(TS_DT_i64, ts_tile_size(k, "B"));
  TsTileType edges = ts_tile_vector(TS_DT_f64, ts_tile_size(k, "E"));
  V x = ts_tile_param(k, "x", &in, false), edge = ts_tile_param(k, "edge", &edges, false);
  V y = ts_tile_param(k, "count", &bins, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess access = {.edge = true};
  V n = ts_short_dim(&b, 0), end = ts_short_dim(&b, 1);
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), end, PIECE, true, 0, NULL);
  if (k->failed) return k;
  V bin = op2(&b, TS_OP_add, ts_short_iota(&b, &t, 0), ts_short_splat(&b, &t, l.i));
  V next = ts_short_by(&b, TS_OP_add, bin, 1);
  V last = op2(&b, TS_OP_eq, next, ts_short_splat(&b, &t, end));
  V never = op2(&b, TS_OP_lt, bin, ts_short_int(&b, &t, 0));
  V from = below(&b, x, ts_short_gather(&b, edge, bin, true), never, n);
  V to = below(&b, x, ts_short_gather(&b, edge, next, true), last, n);
  ts_tile_store(&b, y, &l.i, op2(&b, TS_OP_sub, to, from), &access);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* All elements in order; NULL with the error. */
static TsTensor *sorted(const TsCall *call, TsTensor *x) {
  TsMeta m = {.dtype = x->meta.dtype, .ndim = 1, .dim = {ts_tensor_numel(x)}};
  TsAttr attr[2] = {{.type = TS_ATTR_int, .i = -1}, {.type = TS_ATTR_bool, .i = false}};
  TsTensor *row = ts_tensor_contiguous(call->ctx, x), *out[2] = {NULL, NULL};
  int64_t one = 1;
  int n = 0;
  TsTensor *view = row ? ts_tensor_view(row, &m, &one, row->offset) : NULL;
  bool made = view && !ts_vm_call(call->ctx, TS_OP_sort, 1, &view, attr, 2, &n, out);
  ts_tensor_unref(row), ts_tensor_unref(view);
  if (made) ts_tensor_unref(out[1]);
  return made ? out[0] : NULL;
}

/* Element i of a vector, on the host; NaN with the error. */
static double element(const TsCall *call, TsTensor *x, int64_t i) {
  TsMeta m = {.dtype = x->meta.dtype, .ndim = 1, .dim = {1}};
  int64_t one = 1;
  int64_t at_byte = x->offset + i * ts_dtypes[m.dtype].nbytes;
  TsTensor *view = ts_tensor_view(x, &m, &one, at_byte), *wide = NULL;
  TsTensor *own = view ? ts_tensor_copy(call->ctx, view) : NULL;
  if (own) wide = ts_tensor_cast(call->ctx, own, TS_DT_f64);
  const double *at = wide ? ts_tensor_read(wide) : NULL;
  double v = at ? *at : NAN;
  ts_tensor_unref(view), ts_tensor_unref(own), ts_tensor_unref(wide);
  return v;
}

/* The edges into the second result, and those that decide as a tensor. NULL: the CPU counts,
 * or says what is wrong. */
static TsTensor *edges(const TsCall *call, TsTensor *x, int64_t bins) {
  const TsAttr *from = &call->attr[1], *to = &call->attr[2];
  int64_t n = ts_tensor_numel(x);
  TsMeta m = {.dtype = TS_DT_f64, .ndim = 1, .dim = {bins + 1}};
  bool given = from->type != TS_ATTR_none && to->type != TS_ATTR_none;
  double least = given ? 0 : element(call, x, 0), most = given ? 0 : element(call, x, n - 1);
  if (!isfinite(least) || !isfinite(most)) return NULL;
  double low = from->type == TS_ATTR_none ? least : from->f;
  double high = to->type == TS_ATTR_none ? most : to->f;
  if (!given && high == 0) return NULL; /* the sign of a zero is that of one the CPU meets */
  if (low == high) low -= 0.5, high += 0.5;
  if (!(low < high) || !isfinite(high - low)) return NULL;
  TsTensor *t = ts_tensor_new(call->ctx, &m), *y = call->out[1];
  double *edge = t ? ts_tensor_write(t) : NULL;
  void *at = edge ? ts_tensor_write(y) : NULL;
  bool floats = ts_dtype_is(ts_tensor_dtype(x), TS_KIND_F);
  if (at) ts_histogram_edges(call->ctx, bins, low, high, ts_tensor_dtype(y), floats, edge, at);
  if (at && edge[0] < edge[bins]) return t;
  ts_tensor_unref(t);
  return NULL;
}

int ts_offload_histogram(TsOffloader *o, TsCall *call, int device) {
  if (call->op != TS_OP_histogram) return 0;
  TsTensor *x = call->in[0], *y = call->out[0];
  Histogram h = {.d = ts_tensor_dtype(x), .bins = call->attr[0].i};
  const char *why;
  if (!ts_tensor_numel(x) || h.bins < 1 || h.bins > MOST || h.d == TS_DT_mxfp4 ||
      !y->contiguous || !ts_device_target(ts_device_at(device), &why))
    return 0;
  TsTensor *row = sorted(call, x), *edge = row ? edges(call, row, h.bins) : NULL;
  int done = row ? 0 : -1;
  if (edge) {
    TsOwn k = {.build = build, .arg = &h, .nin = 2, .nout = 1, .in = {row, edge}, .out = {y}};
    k.ndim = 3, k.dim[0] = ts_tensor_numel(row), k.dim[1] = h.bins, k.dim[2] = h.bins + 1;
    ts_own_word(&k, h.d);
    done = ts_own_run(o, call, device, &k);
  }
  ts_tensor_unref(row), ts_tensor_unref(edge);
  return done;
}
