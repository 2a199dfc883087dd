/* Calls that are calls of other operators: copies into parts of a result, and those whose
 * work follows from values that have to be read first. */
#include <math.h>

#include "jit/eager/state.h"

/* Copies, and tensors of one number. */
static int create(const TsCall *call) {
  switch (call->op) {
  case TS_OP_empty:
  case TS_OP_empty_like: return 1;
  case TS_OP_zeros:
  case TS_OP_zeros_like: return ts_offload_assign_number(call->ctx, call->out[0], 0);
  case TS_OP_ones:
  case TS_OP_ones_like: return ts_offload_assign_number(call->ctx, call->out[0], 1);
  case TS_OP_full: return ts_offload_assign_number(call->ctx, call->out[0], call->attr[1].f);
  case TS_OP_clone: return ts_offload_assign(call->ctx, call->out[0], call->in[0]);
  case TS_OP_full_like:
    return ts_offload_assign_number(call->ctx, call->out[0], call->attr[0].f);
  default: return 0;
  }
}

/* Over axes of one element each result is an element; of none it is a number. */
static int reduce(const TsCall *call) {
  TsTensor *x = call->in[0], *y = call->out[0];
  const TsAttr *axis = &call->attr[0];
  unsigned gone = axis->type == TS_ATTR_none ? ~0u : 0;
  int64_t stride[TS_MAX_RANK] = {0};
  int n = 0;
  bool empty = !ts_tensor_numel(x) && ts_tensor_numel(y);
  if (empty && (call->op == TS_OP_sum || call->op == TS_OP_prod))
    return ts_offload_assign_number(call->ctx, y, call->op == TS_OP_prod);
  if (ts_tensor_numel(x) != ts_tensor_numel(y) || !ts_tensor_numel(x)) return 0;
  for (int i = 0; axis->type == TS_ATTR_ints && i < axis->n; i++)
    gone |= 1u << (axis->ints[i] < 0 ? axis->ints[i] + x->meta.ndim : axis->ints[i]);
  for (int d = 0; d < x->meta.ndim; d++)
    if (y->meta.ndim == x->meta.ndim || !(gone >> d & 1)) stride[n++] = x->stride[d];
  if (n != y->meta.ndim) return 0;
  TsMeta m = y->meta;
  m.dtype = x->meta.dtype, m.weak = x->meta.weak;
  TsTensor *view = ts_tensor_view(x, &m, stride, x->offset);
  int done = view ? ts_offload_assign(call->ctx, y, view) : -1;
  ts_tensor_unref(view);
  return done;
}

/* The elements of y's axis from `start` on are x's. */
static int place_part(TsContext *c, TsTensor *y, TsTensor *x, int axis, int64_t start) {
  TsMeta m = y->meta;
  m.dim[axis] = x->meta.dim[axis];
  int64_t offset = y->offset + start * y->stride[axis] * ts_dtypes[m.dtype].nbytes;
  if (x->storage == y->storage && x->offset == offset && x->meta.dtype == m.dtype) return 1;
  TsTensor *part = ts_tensor_numel(x) ? ts_tensor_view(y, &m, y->stride, offset) : NULL;
  int done = !ts_tensor_numel(x) ? 1 : part ? ts_offload_assign(c, part, x) : -1;
  ts_tensor_unref(part);
  return done;
}

static int concat(const TsCall *call) {
  TsTensor *y = call->out[0];
  int axis = (int)(call->attr[0].i < 0 ? call->attr[0].i + y->meta.ndim : call->attr[0].i);
  int done = !ts_dtype_in_blocks(y->meta.dtype);
  for (int64_t i = 0, at = 0; i < call->nin && done == 1; at += call->in[i++]->meta.dim[axis])
    done = place_part(call->ctx, y, call->in[i], axis, at);
  return done;
}

/* ---- masked_scatter */
/* x as a vector: of its own elements, broadcast to m's shape, row-major. NULL with the
 * error. */
static TsTensor *flat(const TsCall *call, TsTensor *x, const TsMeta *to) {
  TsMeta m = *to, line = {.dtype = x->meta.dtype, .ndim = 1, .dim = {ts_meta_numel(to)}};
  int64_t stride[TS_MAX_RANK], one = 1;
  int skip = m.ndim - x->meta.ndim;
  m.dtype = x->meta.dtype;
  for (int i = 0; i < m.ndim; i++)
    stride[i] = i < skip || x->meta.dim[i - skip] == 1 ? 0 : x->stride[i - skip];
  TsTensor *view = ts_tensor_view(x, &m, stride, x->offset);
  TsTensor *whole = view ? ts_tensor_contiguous(call->ctx, view) : NULL;
  TsTensor *y = whole ? ts_tensor_view(whole, &line, &one, whole->offset) : NULL;
  ts_tensor_unref(view), ts_tensor_unref(whole);
  return y;
}

/* Of a vector of bools; -1 with the error. */
static int64_t count(const TsCall *call, TsTensor *mask) {
  TsAttr attr[2] = {{.type = TS_ATTR_none}, {.type = TS_ATTR_bool, .i = false}};
  TsTensor *n = ts_vm_call1(call->ctx, TS_OP_count_nonzero, 1, &mask, attr);
  const int64_t *at = n ? ts_tensor_read(n) : NULL;
  int64_t number = at ? *at : -1;
  ts_tensor_unref(n);
  return number;
}

/* Where the n true elements of a vector are, in order. */
static TsTensor *places(const TsCall *call, TsTensor *mask, int64_t n) {
  TsAttr attr[2] = {{.type = TS_ATTR_int, .i = 0}, {.type = TS_ATTR_bool, .i = true}};
  TsMeta m = {.dtype = TS_DT_i64, .ndim = 1, .dim = {n}};
  int64_t one = 1;
  TsTensor *all = ts_vm_call1(call->ctx, TS_OP_argsort, 1, &mask, attr);
  TsTensor *first = all ? ts_tensor_view(all, &m, &one, all->offset) : NULL;
  ts_tensor_unref(all);
  return first;
}

static int scatter(const TsCall *call, TsTensor *x, TsTensor *at, TsTensor *src) {
  TsTensor *in[3] = {x, at, src}, *y = call->out[0];
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  int64_t stride[TS_MAX_RANK];
  TsTensor *made = ts_vm_call1(call->ctx, TS_OP_scatter, 3, in, &axis);
  ts_meta_strides(&y->meta, stride);
  TsTensor *view = made ? ts_tensor_view(made, &y->meta, stride, made->offset) : NULL;
  int failed = !view || ts_vm_assign(call->ctx, y, view);
  ts_tensor_unref(made), ts_tensor_unref(view);
  return failed ? -1 : 1;
}

/* A stable order of the mask brings the places of what is true to the front, and the source is
 * scattered there. How many there are is read back, as the operator complains where the source has
 * another number. */
static int masked_scatter(const TsCall *call) {
  TsTensor *y = call->out[0], *x = NULL, *mask = NULL, *src = NULL, *at = NULL;
  int64_t given = ts_tensor_numel(call->in[2]);
  bool bools = ts_tensor_dtype(call->in[1]) == TS_DT_bool;
  if (!given || !bools) return 0;
  int done = -1;
  mask = flat(call, call->in[1], &y->meta);
  int64_t n = mask ? count(call, mask) : -1;
  if (n >= 0 && n != given) done = 0; /* the CPU says so */
  TsTensor *cast =
      n == given ? ts_tensor_cast(call->ctx, call->in[2], ts_tensor_dtype(y)) : NULL;
  if (cast) src = flat(call, cast, &cast->meta);
  if (src) x = flat(call, call->in[0], &y->meta);
  if (x) at = places(call, mask, n);
  if (at) done = scatter(call, x, at, src);
  ts_tensor_unref(cast), ts_tensor_unref(mask), ts_tensor_unref(src);
  ts_tensor_unref(x), ts_tensor_unref(at);
  return done;
}

/* ---- histograms whose ends are those of the elements */
static int end_of(const TsCall *call, TsTensor *x, TsOp op, double *v) {
  TsAttr attr[2] = {{.type = TS_ATTR_none}, {.type = TS_ATTR_bool, .i = false}};
  TsTensor *end = ts_vm_call1(call->ctx, op, 1, &x, attr);
  TsTensor *wide = end ? ts_tensor_cast(call->ctx, end, TS_DT_f64) : NULL;
  const double *at = wide ? ts_tensor_read(wide) : NULL;
  if (at) *v = *at;
  ts_tensor_unref(end), ts_tensor_unref(wide);
  return at ? 0 : -1;
}

/* What is not finite, or nothing at all, the VM has words for; the sign of a zero is that of
 * one that the VM meets. */
static int histogram(const TsCall *call) {
  TsTensor *x = call->in[0], *out[2] = {NULL, NULL};
  TsAttr attr[3] = {call->attr[0], call->attr[1], call->attr[2]};
  bool low = attr[1].type == TS_ATTR_none, high = attr[2].type == TS_ATTR_none;
  int n = 0, failed = 0;
  double least, most;
  TsDtype d = ts_tensor_dtype(x);
  if ((!low && !high) || !ts_tensor_numel(x) || ts_dtype_in_blocks(d)) return 0;
  if (end_of(call, x, TS_OP_min, &least) || end_of(call, x, TS_OP_max, &most)) return -1;
  if (!isfinite(least) || !isfinite(most) || (high && most == 0)) return 0;
  if (low) attr[1] = (TsAttr){.type = TS_ATTR_f, .f = least};
  if (high) attr[2] = (TsAttr){.type = TS_ATTR_f, .f = most};
  if (ts_vm_call(call->ctx, TS_OP_histogram, 1, &x, attr, 3, &n, out)) return -1;
  for (int i = 0; i < 2; i++) {
    failed = failed || ts_vm_assign(call->ctx, call->out[i], out[i]);
    ts_tensor_unref(out[i]);
  }
  return failed ? -1 : 1;
}

int ts_offload_several(const TsCall *call) {
  switch (call->op) {
  case TS_OP_concat: return concat(call);
  case TS_OP_masked_scatter: return masked_scatter(call);
  case TS_OP_histogram: return histogram(call);
  case TS_OP_sum:
  case TS_OP_mean:
  case TS_OP_prod:
  case TS_OP_max:
  case TS_OP_min: return reduce(call);
  default: return create(call);
  }
}
